"""Ties between knots: what may have led to what, by which mechanism, and how sure the order is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forensics.incidents.case import Case, Row
from forensics.incidents.knots import Knot, Stretch
from forensics.incidents.mechanisms import Mechanism

__all__ = ["Order", "Tie", "compared", "ties"]

_MICROS = 1_000_000
_COORDINATOR = "__consumer_offsets"


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
        doubt = (self.doubt or 0) / _MICROS
        shown = f"{doubt:.1f}" if doubt >= 0.1 else f"{doubt:.3f}"  # noqa: PLR2004
        return f"before by {most}{self.before / _MICROS:.1f} s ± {shown}"


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
        return not self.order.told, not one.certain, one.rank, self.order.before, self.source.id

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
                if source is not target:
                    yield from _between(case, one, source, target)


def _of(by_name: Mapping[str, Sequence[Knot]], names: Collection[str]) -> Iterator[Knot]:
    for name in sorted(names):
        yield from by_name.get(name, ())


def _between(case: Case, one: Mechanism, source: Knot, target: Knot) -> Iterator[Tie]:
    """Yield for each stretch of the target the nearest of the source's that may explain it."""
    for end in target.stretches:
        found = [
            Tie(one, source, begin, target, end, order)
            for begin in source.stretches
            if any(_SCOPES[scope](source, begin, target, end) for scope in one.scopes)
            and (order := _touching(case, one, begin, end)) is not None
        ]
        if found:
            yield min(found, key=lambda tie: tie.rank)


def _touching(case: Case, one: Mechanism, begin: Stretch, end: Stretch) -> Order | None:
    """Give the order of two stretches if they touch within doubt, and not the wrong way round."""
    slack = round(one.within * _MICROS)
    before = end.begin - begin.begin
    # Most pairs are far apart, and need no look at clocks; none is off by more than this here.
    if before < -_FAR or end.begin > begin.end + slack + _FAR:
        return None
    order = compared(case, begin, end)
    doubt = order.doubt or 0
    return order if before >= -doubt and end.begin <= begin.end + slack + doubt else None


_FAR = 120 * _MICROS


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
        return 0
    clocks = case.past.clocks
    doubts = [clocks.doubt(row["node"], row["ts"], row["file"], row["line"]) for row in (one, other)]
    known = [doubt for doubt in doubts if doubt is not None]
    return sum(known) if len(known) == len(doubts) else None


Scope = Callable[[Knot, Stretch, Knot, Stretch], bool]


def _by_coordinator(source: Knot, begin: Stretch, target: Knot, end: Stretch) -> bool:
    del target, end
    named = begin.moved | source.partitions
    return any(name.rpartition("-")[0] == _COORDINATOR for name in named)


_SCOPES: Mapping[str, Scope] = {
    "broker": lambda _one, begin, _other, end: bool(begin.brokers & end.brokers),
    "led": lambda _one, begin, other, end: bool(begin.brokers & (end.brokers - other.elected)),
    "elected": lambda _one, begin, other, _end: bool(begin.brokers & other.elected),
    "moved": lambda _one, begin, other, _end: bool(begin.moved & other.partitions),
    "partition": lambda one, _begin, other, _end: bool(one.partitions & other.partitions),
    "topic": lambda one, _begin, other, _end: bool(one.topics & other.topics),
    "node": lambda one, _begin, other, _end: bool(one.nodes & other.nodes),
    "client": lambda one, _begin, other, _end: bool(one.clients & other.clients),
    "coordinator": _by_coordinator,
    "any": lambda _one, _begin, _other, _end: True,
}
