"""Bursts of events of one subject, read in two passes: archives may hold millions of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, by_time

__all__ = ["PLACE", "Burst", "bursts"]

_MICROS = 1_000_000
# Of the events of a burst so many of the first are kept, and so many different values of a column.
_KEPT, _VALUES = 40, 1000
# What evidence needs of an event.
PLACE = ("ts", "node", "file", "line", "text", "rule")

Subject = tuple[Any, ...]


@dataclass
class Burst:
    """Events of one subject that follow each other closely; times are corrected."""

    subject: Subject
    begin: int
    end: int
    count: int
    # the first events, with the columns that were asked for
    first: list[Row] = field(default_factory=list)
    # how often each value of the gathered columns was seen
    seen: dict[str, Counter[Any]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / _MICROS, 1)

    def values(self, column: str) -> list[Any]:
        """Give the values of a gathered column, sorted; null is none."""
        return sorted(value for value in self.seen.get(column, ()) if value is not None)

    def _take(self, row: Row, gather: Sequence[str]) -> None:
        self.first.append(row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]
        for column in gather:
            seen = self.seen.setdefault(column, Counter())
            value = row[column]
            if value in seen or len(seen) < _VALUES:
                seen[value] += 1


def bursts(  # noqa: PLR0913, PLR0917
    case: Case,
    where: pc.Expression,
    by: Sequence[str],
    gap: float,
    gather: Sequence[str] = (),
    least: int = 1,
    keep: Callable[[Row], bool] | None = None,
) -> list[Burst]:
    """Find the bursts of each subject: events further apart than `gap` seconds are two bursts.

    `by` names the columns that make a subject, `gather` those whose values are wanted; bursts of
    fewer than `least` events are not looked at any further. Events that `keep` refuses, which sees
    all those columns and may write one of them more plainly, play no part.
    """
    where = where & pc.field("ts").is_valid()
    columns = list(dict.fromkeys([*PLACE, *by, *gather]))
    few = list(dict.fromkeys(["node", "ts", *by])) if keep is None else columns
    found = _spans(_read(case, where, few, keep), by, round(gap * _MICROS), least)
    if not found:
        return []
    begins = {who: [one.begin for one in mine] for who, mine in found.items()}
    for row in _read(case, where, columns, keep):
        who = tuple(row[name] for name in by)
        at = bisect_right(begins.get(who, ()), row["at"]) - 1
        if at >= 0 and row["at"] <= found[who][at].end:
            found[who][at]._take(row, gather)  # noqa: SLF001
    every = [one for who in sorted(found, key=repr) for one in found[who]]
    for one in every:
        one.first = sorted(one.first, key=by_time)[:_KEPT]
    return sorted(every, key=lambda one: (one.begin, repr(one.subject)))


def _read(
    case: Case,
    where: pc.Expression,
    columns: Sequence[str],
    keep: Callable[[Row], bool] | None,
) -> Iterator[Row]:
    rows = case.each("events", where, columns)
    return rows if keep is None else filter(keep, rows)


def _spans(
    rows: Iterable[Row], by: Sequence[str], gap: int, least: int
) -> dict[Subject, list[Burst]]:
    """Read when each subject had events; within a stretch of `gap` they all belong together."""
    told: dict[Subject, dict[int, Burst]] = {}
    for row in rows:
        who, at = tuple(row[name] for name in by), row["at"]
        stretches = told.setdefault(who, {})
        one = stretches.get(at // max(gap, 1))
        if one is None:
            stretches[at // max(gap, 1)] = Burst(who, at, at, 1)
        else:
            one.begin, one.end = min(at, one.begin), max(at, one.end)
            one.count += 1
    joined = {who: [one for one in _join_by_gap(told[who], gap) if one.count >= least] for who in told}
    return {who: mine for who, mine in joined.items() if mine}


def _join_by_gap(stretches: dict[int, Burst], gap: int) -> Iterator[Burst]:
    before: Burst | None = None
    for at in sorted(stretches):
        one = stretches[at]
        if before is not None and one.begin - before.end <= gap:
            before.end = one.end
            before.count += one.count
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before
