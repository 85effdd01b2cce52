"""Bursts of events of one subject, read in two passes: archives may hold millions of them.

Spells of trouble: lines that tell of something missing, up to the moment it was there again.

Bursts end where nothing more is said; a spell also ends where somebody says that it is over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time
from forensics.lib.time_units import SECOND

# Of the events of a burst so many of the first are kept, and so many different values of a column.
_KEPT, _VALUES = 40, 1000
# What evidence needs of an event.
EVIDENCE_COLUMNS = ("ts", "node", "file", "line", "text", "rule")

Subject = tuple[Any, ...]


@dataclass
class EventSession:
    """Events of one subject that follow each other closely; times are corrected."""

    subject: Subject
    begin: int
    end: int
    count: int
    # the first events, with the columns that were asked for
    first: list[Row] = field(default_factory=list)
    # how often each value of the gathered columns was seen
    value_counts: dict[str, Counter[Any]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / SECOND, 1)

    def values(self, column: str) -> list[Any]:
        """Give the values of a gathered column, sorted; null is none."""
        return sorted(value for value in self.value_counts.get(column, ()) if value is not None)

    def _take(self, row: Row, gather: Sequence[str]) -> None:
        self.first.append(row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]
        for column in gather:
            seen = self.value_counts.setdefault(column, Counter())
            value = row[column]
            if value in seen or len(seen) < _VALUES:
                seen[value] += 1


def find_sessions(  # noqa: PLR0913, PLR0917
    context: DetectionContext,
    where: pc.Expression,
    by: Sequence[str],
    gap: float,
    value_columns: Sequence[str] = (),
    min_count: int = 1,
    keep: Callable[[Row], bool] | None = None,
) -> list[EventSession]:
    """Find the bursts of each subject: events further apart than `gap` seconds are two bursts.

    `by` names the columns that make a subject, `gather` those whose values are wanted; bursts of
    fewer than `least` events are not looked at any further. Events that `keep` refuses, which sees
    all those columns and may write one of them more plainly, play no part.
    """
    where = where & pc.field("ts").is_valid()
    columns = list(dict.fromkeys([*EVIDENCE_COLUMNS, *by, *value_columns]))
    few = list(dict.fromkeys(["node", "ts", *by])) if keep is None else columns
    found = _spans(_read(context, where, few, keep), by, round(gap * SECOND), min_count)
    if not found:
        return []
    begins = {who: [one.begin for one in mine] for who, mine in found.items()}
    for row in _read(context, where, columns, keep):
        who = tuple(row[name] for name in by)
        at = bisect_right(begins.get(who, ()), row["at"]) - 1
        if at >= 0 and row["at"] <= found[who][at].end:
            found[who][at]._take(row, value_columns)  # noqa: SLF001
    every = [one for who in sorted(found, key=repr) for one in found[who]]
    for one in every:
        one.first = sorted(one.first, key=by_time)[:_KEPT]
    return sorted(every, key=lambda one: (one.begin, repr(one.subject)))


def _read(
    context: DetectionContext,
    where: pc.Expression,
    columns: Sequence[str],
    keep: Callable[[Row], bool] | None,
) -> Iterator[Row]:
    rows = context.each("events", where, columns)
    return rows if keep is None else filter(keep, rows)


def _spans(
    rows: Iterable[Row], by: Sequence[str], gap: int, least: int
) -> dict[Subject, list[EventSession]]:
    """Read when each subject had events; within a stretch of `gap` they all belong together."""
    told: dict[Subject, dict[int, EventSession]] = {}
    for row in rows:
        who, at = tuple(row[name] for name in by), row["at"]
        stretches = told.setdefault(who, {})
        one = stretches.get(at // max(gap, 1))
        if one is None:
            stretches[at // max(gap, 1)] = EventSession(who, at, at, 1)
        else:
            one.begin, one.end = min(at, one.begin), max(at, one.end)
            one.count += 1
    joined = {
        who: [one for one in _join_by_gap(told[who], gap) if one.count >= least] for who in told
    }
    return {who: mine for who, mine in joined.items() if mine}


def _join_by_gap(stretches: dict[int, EventSession], gap: int) -> Iterator[EventSession]:
    before: EventSession | None = None
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


_KEPT = 40
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "controller_epoch")

# Sorted moments at which it was over, by node; by the empty name, for all of them.
Recoveries = Mapping[str, Sequence[int]]


@dataclass
class Outage:
    """One spell, from its first line on; corrected microseconds."""

    begin: int
    last_seen: int
    # when it was over; null: nobody says
    recovered_at: int | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)
    epochs: tuple[int, int] | None = None
    first: list[Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        """When it ended, or was last told of."""
        return self.last_seen if self.recovered_at is None else self.recovered_at

    @property
    def seconds(self) -> float:
        """How long it took, at least."""
        return round((self.end - self.begin) / SECOND, 3)

    def add(self, row: Row) -> None:
        """Take one line."""
        self.begin, self.last_seen = min(self.begin, row["at"]), max(self.last_seen, row["at"])
        self.kinds[row["kind"]] += 1
        self.nodes.add(row["node"] or "")
        epoch = row["controller_epoch"]
        if epoch is not None:
            low, high = self.epochs or (epoch, epoch)
            self.epochs = min(low, epoch), max(high, epoch)
        self.first.append(row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]

    def merge(self, other: Outage) -> None:
        """Take what another part of the same spell holds."""
        self.last_seen = max(self.last_seen, other.last_seen)
        self.kinds += other.kinds
        self.nodes |= other.nodes
        known = [one for one in (self.epochs, other.epochs) if one]
        if known:
            self.epochs = min(low for low, _ in known), max(high for _, high in known)
        self.first = sorted([*self.first, *other.first], key=by_time)[:_KEPT]


def find_outages(
    context: DetectionContext,
    kinds: Sequence[str],
    recoveries: Callable[[], Recoveries],
    gap: float,
    *,
    per_node: bool = False,
) -> list[Outage]:
    """Find the spells of some kinds of events: of all nodes together, or each node's apart.

    Lines more than `gap` seconds apart are of two spells, and so are those with an end between
    them; `ends` is only asked for if there are lines at all.
    """
    wide = max(1, round(gap * SECOND))
    where = pc.field("kind").isin(list(kinds)) & pc.field("ts").is_valid()
    known: Recoveries | None = None
    parts: dict[tuple[str, int, int], Outage] = {}
    for row in context.each("events", where, list(dict.fromkeys(_COLUMNS))):
        known = recoveries() if known is None else known
        who = (row["node"] or "") if per_node else ""
        key = who, bisect_left(known.get(who, ()), row["at"]), row["at"] // wide
        parts.setdefault(key, Outage(row["at"], row["at"])).add(row)
    found = list(_join_until_recovery(parts, known or {}, wide))
    return sorted(found, key=lambda one: (one.begin, sorted(one.nodes)))


def _join_until_recovery(
    parts: Mapping[tuple[str, int, int], Outage], ends: Recoveries, gap: int
) -> Iterator[Outage]:
    """Join the parts of one spell, and say when it was over.

    An end that is told much later says nothing of when it came.
    """
    last: tuple[tuple[str, int], Outage] | None = None
    for (who, index, _), part in [*sorted(parts.items(), key=lambda one: one[0]), _NONE]:
        if last is not None and last[0] == (who, index) and part.begin - last[1].last_seen <= gap:
            last[1].merge(part)
            continue
        if last is not None:
            (name, at), spell = last
            moments = ends.get(name, ())
            after = moments[at] if at < len(moments) else None
            if after is not None and after - spell.last_seen <= gap:
                spell.recovered_at = after
            spell.first = sorted(spell.first, key=by_time)[:_KEPT]
            yield spell
        last = (who, index), part


_NONE = (("", -1, 0), Outage(0, 0))
