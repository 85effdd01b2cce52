"""The partitions, brokers and time that timelines are asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.errors import ForensicsError
from forensics.lib.text_format import parse_millis, time_text
from forensics.lib.time_units import DAY, MILLISECOND
from forensics.report.histories.phrases import format_ranges
from forensics.report.histories.timeline import ShownTime
from forensics.run_output.partition_histories import TopicPartition
from forensics.run_output.reader import RunOutput

TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?")
PARTITION_NAME = re.compile(r"(?P<topic>.+)-(?P<number>\d{1,9})")
DAY_MS = DAY // MILLISECOND
EXAMPLE = "2026-11-18T11:38:51.321 or, where the logs are of one day, 11:38:51"


@dataclass(frozen=True)
class Selection:
    """The options of the command line."""

    partitions: Sequence[str] = ()
    topics: Sequence[str] = ()
    brokers: Sequence[int] = ()
    start: str | None = None
    end: str | None = None


def check_selection(wanted: Selection) -> None:
    """Check the options before anything is read."""
    for name in wanted.partitions:
        if not PARTITION_NAME.fullmatch(name):
            raise ForensicsError(
                f"--partition {name}: write the topic, a dash and the number, such as "
                f"{name}-0; for all partitions of a topic: --topic {name}"
            )
    for option, text in (("--from", wanted.start), ("--to", wanted.end)):
        if text is not None and not TIME_OF_DAY.fullmatch(text) and parse_millis(text) is None:
            raise ForensicsError(f"{option} {text}: write a time in UTC, such as {EXAMPLE}.")


def find_shown_time(run: RunOutput, wanted: Selection) -> ShownTime:
    """Return the time that was asked for, within that of the logs."""
    if not run.window:
        raise ForensicsError(f"{run.place}: no line in it has a time, so there is no timeline.")
    first, last = run.window
    asked_start = parse_time("--from", wanted.start, run.window)
    asked_end = parse_time("--to", wanted.end, run.window)
    start = first if asked_start is None else max(first, asked_start)
    end = last if asked_end is None else min(last, asked_end)
    if asked_start is not None and asked_end is not None and asked_start > asked_end:
        raise ForensicsError("--from is later than --to; exchange them.")
    if start > end:
        reach = f"{time_text(first, exact=True)} to {time_text(last, exact=True)} UTC"
        raise ForensicsError(f"The logs reach from {reach}; choose --from and --to within that.")
    return ShownTime(start, end, last)


def parse_time(option: str, text: str | None, window: tuple[int, int]) -> int | None:
    """Read a time; find the day of a time without one."""
    if text is None:
        return None
    if not TIME_OF_DAY.fullmatch(text):
        return parse_millis(text)
    first, last = window
    day = time_text(first)[:10]
    time = parse_millis(f"{day}T{text.zfill(8) if text.count(':') == 2 else text.zfill(5)}")
    if time is None:
        raise ForensicsError(f"{option} {text}: there is no such time; write {EXAMPLE}.")
    later = time + DAY_MS
    if last - first >= DAY_MS or (first <= time <= last and first <= later <= last):
        raise ForensicsError(f"{option} {text}: the logs are of several days; name the day too.")
    # A night belongs to two days: take the day that the logs reach into.
    is_next_day = time < first and later <= last + DAY_MS // 2 and day != time_text(last)[:10]
    return later if is_next_day else time


def find_selected(run: RunOutput, wanted: Selection) -> tuple[list[TopicPartition], list[int]]:
    """Find the partitions and brokers that were asked for; suggest similar names if unknown."""
    partitions: list[TopicPartition] = []
    if wanted.partitions or wanted.topics:
        known = _known_partitions(run)
        partitions = [_parse_partition(name) for name in wanted.partitions]
        for topic, number in partitions:
            if (topic, number) not in known and not _has_events(run, topic, number):
                raise _unknown_partition(topic, number, known)
        for topic in wanted.topics:
            of_topic = sorted(pair for pair in known if pair[0] == topic)
            if not of_topic:
                raise _not_found(f"topic {topic}", _similar(topic, {name for name, _ in known}))
            partitions += of_topic
    return list(dict.fromkeys(partitions)), _find_brokers(run, wanted.brokers)


def _parse_partition(name: str) -> TopicPartition:
    match = PARTITION_NAME.fullmatch(name)
    if not match:
        raise ForensicsError(f"{name} is no partition; write one as orders-v2-3.")
    return match["topic"], int(match["number"])


def _known_partitions(run: RunOutput) -> set[TopicPartition]:
    known: set[TopicPartition] = set()
    for name in ("leadership", "isr"):
        table = run.table(name, ["topic", "partition"])
        pairs = table.group_by(["topic", "partition"]).aggregate([]) if table.num_rows else table
        columns = (pairs[column].to_pylist() for column in ("topic", "partition"))
        known |= {(topic, number) for topic, number in zip(*columns, strict=True) if topic}
    return known


def _has_events(run: RunOutput, topic: str, number: int) -> bool:
    """Return True if any event names a partition whose leaders are not known."""
    where = (ds.field("topic") == topic) & (ds.field("partition") == number)
    return run.count_rows("events", where) > 0


def _unknown_partition(
    topic: str, number: int, known: Collection[TopicPartition]
) -> ForensicsError:
    numbers = sorted(other for name, other in known if name == topic)
    if numbers:
        return ForensicsError(
            f"These logs say nothing about partition {topic}-{number}; "
            f"of topic {topic} they mention {format_ranges(numbers)}."
        )
    by_topic: dict[str, list[int]] = {}
    for name, other in known:
        by_topic.setdefault(name, []).append(other)
    near = [
        f"{name}-{min(by_topic[name], key=lambda other: (abs(other - number), other))}"
        for name in _similar(topic, by_topic)
    ]
    return _not_found(f"partition {topic}-{number}", near)


def _not_found(what: str, similar: Sequence[str]) -> ForensicsError:
    hint = f" Nearest: {', '.join(similar)}." if similar else ""
    return ForensicsError(f"These logs say nothing about {what}.{hint}")


def _similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five names that were perhaps meant, or any if none is similar."""
    by_lower = {other.lower(): other for other in sorted(known)}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    within = [other for other in by_lower if name.lower() in other or other in name.lower()]
    similar = list(dict.fromkeys([*close, *within])) or list(by_lower)
    return [by_lower[other] for other in similar[:5]]


def _find_brokers(run: RunOutput, asked: Sequence[int]) -> list[int]:
    known: set[int] = set()
    for table, column in (("lanes", "broker"), ("leadership", "leader")) if asked else ():
        values = run.table(table, [column])[column]
        if pa.types.is_integer(values.type):
            known |= {number for number in values.unique().to_pylist() if number not in (None, -1)}
    for broker in asked:
        if broker not in known:
            near = sorted(sorted(known, key=lambda other: (abs(other - broker), other))[:5])
            raise _not_found(f"broker {broker}", list(map(str, near)))
    return list(dict.fromkeys(asked))
