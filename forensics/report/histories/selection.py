"""Which partitions and brokers, and which time, a timeline is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.errors import ForensicsError
from forensics.lib.formatting import parse_millis, time_text
from forensics.report.histories.model import ShownTime
from forensics.report.histories.phrases import format_ranges
from forensics.run_output.reader import RunOutput

TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?")
NAME = re.compile(r"(?P<topic>.+)-(?P<number>\d{1,9})")
DAY = 24 * 3_600_000
EXAMPLE = "2026-11-18T11:38:51.321 or, where the logs are of one day, 11:38:51"


@dataclass(frozen=True)
class Selection:
    """What was asked for, in the words of the command line."""

    partitions: Sequence[str] = ()
    topics: Sequence[str] = ()
    brokers: Sequence[int] = ()
    start: str | None = None
    end: str | None = None


def check_selection(wanted: Selection) -> None:
    """Refuse what cannot be meant, before anything is read."""
    for name in wanted.partitions:
        if not NAME.fullmatch(name):
            raise ForensicsError(
                f"--partition {name}: write the topic, a dash and the number, such as "
                f"{name}-0; for all partitions of a topic: --topic {name}"
            )
    for option, text in (("--from", wanted.start), ("--to", wanted.end)):
        if text is not None and not TIME_OF_DAY.fullmatch(text) and parse_millis(text) is None:
            raise ForensicsError(f"{option} {text}: write a time in UTC, such as {EXAMPLE}.")


def find_shown_time(run: RunOutput, wanted: Selection) -> ShownTime:
    """Say which time is shown: what was asked for, within what the logs reach."""
    if not run.window:
        raise ForensicsError(f"{run.folder}: no line in it has a time, so there is no timeline.")
    first, last = run.window
    since = parse_time("--from", wanted.start, run.window)
    till = parse_time("--to", wanted.end, run.window)
    start = first if since is None else max(first, since)
    end = last if till is None else min(last, till)
    if since is not None and till is not None and since > till:
        raise ForensicsError("--from is later than --to; exchange them.")
    if start > end:
        reach = f"{time_text(first, exact=True)} to {time_text(last, exact=True)} UTC"
        raise ForensicsError(f"The logs reach from {reach}; choose --from and --to within that.")
    return ShownTime(start, end, last)


def parse_time(option: str, text: str | None, window: tuple[int, int]) -> int | None:
    """Read a time; where it is only one of the day, find the day."""
    if text is None:
        return None
    if not TIME_OF_DAY.fullmatch(text):
        return parse_millis(text)
    first, last = window
    day = time_text(first)[:10]
    moment = parse_millis(f"{day}T{text.zfill(8) if text.count(':') == 2 else text.zfill(5)}")
    if moment is None:
        raise ForensicsError(f"{option} {text}: there is no such time; write {EXAMPLE}.")
    later = moment + DAY
    if last - first >= DAY or (first <= moment <= last and first <= later <= last):
        raise ForensicsError(f"{option} {text}: the logs are of several days; name the day too.")
    # A night belongs to two days: the one that the logs reach into is meant.
    return (
        later
        if moment < first and later <= last + DAY // 2 and day != time_text(last)[:10]
        else moment
    )


def find_selected(run: RunOutput, wanted: Selection) -> tuple[list[tuple[str, int]], list[int]]:
    """Find the partitions and brokers that were asked for, or name the nearest ones."""
    partitions: list[tuple[str, int]] = []
    if wanted.partitions or wanted.topics:
        known = _partitions(run)
        asked = [_parsed(name) for name in wanted.partitions]
        for pair in asked:
            if pair not in known and not _told_of(run, *pair):
                raise ForensicsError(_missing(*pair, known))
        for topic in wanted.topics:
            mine = sorted(pair for pair in known if pair[0] == topic)
            if not mine:
                raise ForensicsError(_no_topic(topic, known))
            asked += mine
        partitions = list(dict.fromkeys(asked))
    return partitions, _brokers(run, wanted.brokers)


def _parsed(name: str) -> tuple[str, int]:
    found = NAME.fullmatch(name)
    if not found:
        raise ForensicsError(f"{name} is no partition; write one as orders-v2-3.")
    return found["topic"], int(found["number"])


def _partitions(run: RunOutput) -> set[tuple[str, int]]:
    known: set[tuple[str, int]] = set()
    for name in ("leadership", "isr"):
        table = run.table(name, ["topic", "partition"])
        pairs = table.group_by(["topic", "partition"]).aggregate([]) if table.num_rows else table
        columns = (pairs[column].to_pylist() for column in ("topic", "partition"))
        known |= {(topic, number) for topic, number in zip(*columns, strict=True) if topic}
    return known


def _told_of(run: RunOutput, topic: str, number: int) -> bool:
    """Whether any line at all tells of a partition of which no leader is known."""
    mine = (ds.field("topic") == topic) & (ds.field("partition") == number)
    return run.has_table("events") and bool(run.table("events", ["kind"], mine).num_rows)


def _missing(topic: str, number: int, known: Iterable[tuple[str, int]]) -> str:
    known = set(known)
    mine = sorted(other for name, other in known if name == topic)
    if mine:
        return (
            f"These logs tell nothing of partition {topic}-{number}; "
            f"of topic {topic} they tell of {format_ranges(mine)}."
        )
    return _no_topic(topic, known, number)


def _no_topic(topic: str, known: Iterable[tuple[str, int]], number: int | None = None) -> str:
    of: dict[str, list[int]] = {}
    for name, other in known:
        of.setdefault(name, []).append(other)
    names = _nearest(topic, of)
    if number is not None:
        near = [f"{name}-{min(of[name], key=lambda n: (abs(n - number), n))}" for name in names]
        return _said(f"partition {topic}-{number}", near)
    return _said(f"topic {topic}", names)


def _said(what: str, near: Sequence[str]) -> str:
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return f"These logs tell nothing of {what}.{hint}"


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """Give up to five names that were perhaps meant, or any where none is near."""
    lower = {one.lower(): one for one in sorted(known)}
    alike = get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    within = [one for one in lower if name.lower() in one or one in name.lower()]
    found = list(dict.fromkeys([*alike, *within])) or list(lower)
    return [lower[one] for one in found[:5]]


def _brokers(run: RunOutput, asked: Sequence[int]) -> list[int]:
    if not asked:
        return []
    known: set[int] = set()
    for table, column in (("lanes", "broker"), ("leadership", "leader")):
        values = run.table(table, [column])[column]
        if pa.types.is_integer(values.type):
            known |= {number for number in values.unique().to_pylist() if number is not None}
    known -= {-1}
    for broker in asked:
        if broker not in known:
            near = sorted(sorted(known, key=lambda one: (abs(one - broker), one))[:5])
            raise ForensicsError(_said(f"broker {broker}", list(map(str, near))))
    return list(dict.fromkeys(asked))
