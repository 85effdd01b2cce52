"""Ties between knots: what may have led to what, by which mechanism, and how sure the order is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forensics.incidents.case import Case, Row
from forensics.incidents.knots import Knot, Stretch
from forensics.incidents.mechanisms import Mechanism, sources_of

__all__ = ["Order", "Tie", "compared", "ties"]

_MICROS = 1_000_000
_COORDINATOR = "__consumer_offsets"
# More than the clocks of two nodes are ever in doubt here.
_FAR = 120 * _MICROS
# A broker that returns acts before the cluster says that it is back.
_RETURNING = 10 * _MICROS
# What is shorter is shown in milliseconds.
_SHORT = _MICROS // 10
# Logs give times to the millisecond.
_LOGGED = 1000


@dataclass(frozen=True)
class Order:
    """By how much one moment lies before another, and how much of that is doubt; microseconds."""

    before: int
    # null: nobody knows how far the clocks are apart
    doubt: int | None
    told: bool
    # whether the one began at that moment or later
    vague: bool = False

    @property
    def says(self) -> str:
        """Say it in words.

        >>> Order(1_200_000, 400_000, told=True).says
        'before by 1.2 s ± 0.4'
        """
        if not self.told:
            return "order cannot be told"
        most = "at most " if self.vague else ""
        return f"before by {most}{_seconds(self.before)} s ± {_seconds(self.doubt or 0)}"


def _seconds(micros: int) -> str:
    seconds = micros / _MICROS
    return f"{seconds:.1f}" if micros >= _SHORT else f"{seconds:.3f}"


@dataclass(frozen=True)
class Tie:
    """One way in which a stretch of one knot may have led to a stretch of another."""

    mechanism: Mechanism
    source: Knot
    begin: Stretch
    target: Knot
    end: Stretch
    order: Order

    @property
    def rank(self) -> tuple[bool, bool, int, int, str]:
        """Lower is better: order told, mechanism certain, first in the file, nearest."""
        one = self.mechanism
        acts = self.begin.end if one.returning else self.begin.begin
        near = abs(self.end.begin - acts)
        return not self.order.told, not one.certain, one.rank, near, self.source.id

    @property
    def evidence(self) -> list[Row]:
        """The lines by which the two began."""
        return [place for place in (self.begin.place, self.end.place) if place is not None]


def ties(case: Case, known: Sequence[Knot], table: Sequence[Mechanism]) -> Iterator[Tie]:
    """Yield for each stretch of each knot the stretches that may have led to it."""
    by_name: dict[str, list[Knot]] = {}
    for knot in known:
        by_name.setdefault(knot.detector, []).append(knot)
    for one in table:
        for target in _of(by_name, one.targets):
            for source in _of(by_name, one.sources):
                if source is not target and _agrees(source, target):
                    yield from _between(case, one, source, target)


def _agrees(source: Knot, target: Knot) -> bool:
    """Whether the target's own detector saw what the source is, or nothing against it."""
    allowed = sources_of(target.cause)
    return not target.ordered and (allowed is None or source.detector in allowed)


def _of(by_name: Mapping[str, Sequence[Knot]], names: Collection[str]) -> Iterator[Knot]:
    for name in sorted(names):
        yield from by_name.get(name, ())


def _between(case: Case, one: Mechanism, source: Knot, target: Knot) -> Iterator[Tie]:
    """Yield for each stretch of the target the nearest of the source's that may explain it."""
    for end in target.stretches:
        found = [
            Tie(one, source, begin, target, end, order)
            for begin in source.stretches
            if _is_kind(one, end)
            and any(_SCOPES[scope](source, begin, target, end) for scope in one.scopes)
            and (order := _touching(case, one, begin, end)) is not None
        ]
        if found:
            yield min(found, key=lambda tie: tie.rank)


def _is_kind(one: Mechanism, end: Stretch) -> bool:
    return not one.kinds or end.kind is None or end.kind in one.kinds


def _touching(case: Case, one: Mechanism, begin: Stretch, end: Stretch) -> Order | None:
    """Give the order of two stretches if they touch within doubt, and not the wrong way round."""
    slack = round(one.within * _MICROS)
    before = end.begin - begin.begin
    # Most pairs are far apart, and need no look at clocks; none is off by more than this here.
    if before < -_FAR or end.begin > begin.end + slack + _FAR:
        return None
    order = compared(case, begin, end)
    doubt = order.doubt or 0
    early = one.returning and end.begin < begin.end - _RETURNING - doubt
    late = end.begin > begin.end + slack + doubt
    return None if before < -doubt or early or late else order


def compared(case: Case, begin: Stretch, end: Stretch) -> Order:
    """Say which of two stretches began first, as far as the clocks tell."""
    before = end.begin - begin.begin
    if begin.place is None or end.place is None:
        return Order(before, None, told=False, vague=begin.vague)
    one, other = (_logged(case, place) for place in (begin.place, end.place))
    apart = abs(begin.place["at"] - begin.begin) + abs(end.place["at"] - end.begin)
    doubt = _doubt(case, one, other)
    if doubt is None:
        return Order(before, None, told=False, vague=begin.vague)
    first = case.past.clocks.order(one, other) == -1
    told = first and before > doubt + apart
    return Order(before, doubt + apart, told=told, vague=begin.vague)


def _logged(case: Case, place: Row) -> Row:
    """Give a line with its node and the time that it bears itself."""
    node = place.get("node") or case.node_of(place["file"])
    ts = place.get("ts")
    if ts is None:
        ts = 2 * place["at"] - case.past.clocks.correct(node, place["at"])
    return {"node": node, "ts": ts, "file": place["file"], "line": place["line"]}


def _doubt(case: Case, one: Row, other: Row) -> int | None:
    """Give how far off the time between two lines may be, in microseconds."""
    if one["node"] is not None and one["node"] == other["node"]:
        return _LOGGED
    clocks = case.past.clocks
    doubts = [
        clocks.doubt(row["node"], row["ts"], row["file"], row["line"]) for row in (one, other)
    ]
    known = [doubt for doubt in doubts if doubt is not None]
    return sum(known) if len(known) == len(doubts) else None


Scope = Callable[[Knot, Stretch, Knot, Stretch], bool]


def _by_coordinator(source: Knot, begin: Stretch, target: Knot, end: Stretch) -> bool:
    del target, end
    named = {name for name, _ in begin.moved} | source.partitions
    return any(name.rpartition("-")[0] == _COORDINATOR for name in named)


_SCOPES: Mapping[str, Scope] = {
    "broker": lambda _one, begin, _other, end: bool(begin.brokers & end.brokers),
    "led": lambda _one, begin, other, end: bool(begin.brokers & (end.brokers - other.elected)),
    "elected": lambda _one, begin, other, _end: bool(begin.brokers & other.elected),
    "moved": lambda _one, begin, _other, end: bool(begin.moved & end.behind),
    "cut": lambda _one, begin, other, _end: bool(begin.brokers & other.cut),
    "partition": lambda one, _begin, other, _end: bool(one.partitions & other.partitions),
    "topic": lambda one, _begin, other, _end: bool(one.topics & other.topics),
    "node": lambda one, _begin, other, _end: bool(one.nodes & other.nodes),
    "client": lambda one, _begin, other, _end: bool(one.clients & other.clients),
    "coordinator": _by_coordinator,
    "any": lambda _one, _begin, _other, _end: True,
}
