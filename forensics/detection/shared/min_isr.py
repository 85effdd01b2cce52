"""How small an ISR may be before a leader takes no more records, by topic, as logs tell it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from forensics.detection.context import Row

# Reads some columns of the events that a condition chooses, with the corrected time in `at`.
EventReader = Callable[[pc.Expression, Sequence[str]], Iterable[Row]]
SETTING = "min.insync.replicas"
REFUSALS = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
# NotEnoughReplicasException names what was wanted.
_SET = re.compile(r"min\.insync\.replicas(?: to |=| -> )\"?(\d{1,4})")
_WANTED = re.compile(r"min\.isr requirement of (\d{1,4})")


@dataclass(frozen=True)
class MinIsr:
    """What is known of min.insync.replicas; null where nothing is."""

    topics: Mapping[str, int]
    default: int | None

    def for_topic(self, topic: str) -> int | None:
        """Give the minimum of a topic."""
        return self.topics.get(topic, self.default)

    @property
    def largest(self) -> int:
        """The largest of all: a larger ISR is below none."""
        return max([*self.topics.values(), self.default or 0])


def find_min_isr(read_events: EventReader) -> MinIsr:
    """Read the settings of brokers and topics, and what refusals say."""
    topics = {row["topic"]: int(row["value"]) for row in _refusals(read_events)}
    started: Counter[int] = Counter()
    changed: int | None = None
    for row in sorted(_settings(read_events), key=lambda one: one["at"]):
        if row["kind"] == "setting_seen":
            started[row["value"]] += 1
        elif row["topic"]:
            topics[row["topic"]] = row["value"]
        elif row["broker"] is None:
            changed = row["value"]
    # Brokers of one cluster should agree; if not, what most of them say holds for most.
    agreed = max(started, key=lambda value: (started[value], -value), default=None)
    return MinIsr(topics, changed if changed is not None else agreed)


def _settings(read_events: EventReader) -> Iterator[Row]:
    """Read every line that sets the minimum, with its value as a number."""
    kind = pc.field("kind")
    where = ((kind == "setting_seen") & (pc.field("setting") == SETTING)) | (kind == "config_set")
    columns = ["kind", "ts", "node", "topic", "broker", "value", "detail"]
    for row in read_events(where & pc.field("ts").is_valid(), columns):
        if row["kind"] == "setting_seen":
            told = row["value"] if (row["value"] or "").isdigit() else None
        else:
            found = _SET.search(row["detail"] or "")
            told = found and found[1]
        if told:
            yield row | {"value": int(told)}


def _refusals(read_events: EventReader) -> Iterator[Row]:
    """Read what leaders that refuse records say that they want."""
    where = (pc.field("kind") == "append_failed") & pc.field("error").isin(list(REFUSALS))
    seen: set[str] = set()
    for row in read_events(where & pc.field("topic").is_valid(), ["topic", "detail"]):
        if row["topic"] not in seen and (found := _WANTED.search(row["detail"] or "")):
            seen.add(row["topic"])
            yield row | {"value": found[1]}
