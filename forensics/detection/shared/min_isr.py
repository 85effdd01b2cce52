"""Finds min.insync.replicas by topic: below it, a leader takes no records with acks=all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, once_per_run
from forensics.lib.whole_numbers import whole_number

_SETTING = "min.insync.replicas"
REFUSALS = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
# Kinds of events whose `detail` or `value` names settings of a topic or broker.
SETTING_KINDS = ("config_set", "topic_created")
# NotEnoughReplicasException names the minimum.
_WANTED = re.compile(r"min\.isr requirement of (\d{1,4})")
_KIND = pc.field("kind")
_MOST = 9_999
# Lines that name the minimum: settings of brokers and topics, and refusals of leaders.
MIN_ISR_EVENTS = pc.field("ts").is_valid() & (
    ((_KIND == "setting_seen") & (pc.field("setting") == _SETTING)) | _KIND.isin(SETTING_KINDS)
) | (
    (_KIND == "append_failed") & pc.field("error").isin(REFUSALS) & pc.field("topic").is_valid()
)  # fmt: skip
MIN_ISR_COLUMNS = ("kind", "ts", "node", "topic", "broker", "setting", "value", "detail", "error")


@dataclass(frozen=True)
class MinIsr:
    """What is known of min.insync.replicas; None where nothing is."""

    topics: Mapping[str, int]
    default: int | None

    def for_topic(self, topic: str) -> int | None:
        """Return the minimum of a topic."""
        return self.topics.get(topic, self.default)

    @property
    def largest(self) -> int:
        """The largest of all: no topic misses its minimum with a larger ISR."""
        return max([*self.topics.values(), self.default or 0])


@once_per_run
def read_min_isr(context: DetectionContext) -> MinIsr:
    """Read the minimums that the logs of a run name."""
    return find_min_isr(context.each("events", MIN_ISR_EVENTS, MIN_ISR_COLUMNS))


def find_min_isr(events: Iterable[Mapping[str, Any]]) -> MinIsr:
    """Find the minimums in the MIN_ISR_EVENTS, each with `at`, its corrected time."""
    topics: dict[str, int] = {}
    settings: list[tuple[int, int, Mapping[str, Any]]] = []
    for row in events:
        value = _value(row)
        if value is not None and row["kind"] == "append_failed":
            topics.setdefault(row["topic"], value)
        elif value is not None:
            settings.append((row["at"], value, row))
    started: Counter[int] = Counter()
    changed: int | None = None
    for _, value, row in sorted(settings, key=lambda setting: setting[0]):
        if row["kind"] == "setting_seen":
            started[value] += 1
        elif row["topic"]:
            topics[row["topic"]] = value
        elif row["broker"] is None:
            changed = value
    # Brokers of one cluster should agree; if they do not, most of them decide.
    agreed = max(started, key=lambda value: (started[value], -value), default=None)
    return MinIsr(topics, changed if changed is not None else agreed)


def _value(row: Mapping[str, Any]) -> int | None:
    if row["kind"] == "setting_seen":
        return whole_number(row["value"], _MOST)
    match = _WANTED.search(row["detail"] or "") if row["kind"] == "append_failed" else None
    value = match[1] if match else named_setting(row, _SETTING)
    return whole_number(value, _MOST)


def named_setting(row: Mapping[str, Any], setting: str) -> str | None:
    """Return the value of a setting that a line about a topic or broker names.

    >>> named_setting({"detail": "HashMap(a.b -> true, c -> 2)", "value": None}, "a.b")
    'true'
    >>> named_setting({"detail": None, "value": "{a.b=true, c=2}"}, "c")
    '2'
    >>> named_setting({"detail": "configs=[Config(name='a.b', value='1')]"}, "a.b")
    '1'
    >>> named_setting({"detail": "a.b to 7"}, "a.b"), named_setting({"detail": "a.b to 7"}, "b")
    ('7', None)
    """
    for text in (row.get("value"), row.get("detail")):
        if text and (match := _pattern(setting).search(text)):
            return match[1]
    return None


@cache
def _pattern(setting: str) -> re.Pattern[str]:
    between = r"""(?: to |=| -> |', value=)["']?"""
    return re.compile(rf"(?<![\w.-]){re.escape(setting)}{between}([\w.:-]+)")
