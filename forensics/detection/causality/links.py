"""The knots of cause chains: findings, and planned moves of leaders, as stretches of time.

A finding about several absences or changes is as many stretches: each may have its own trigger.

What may lead to what, and by which mechanism: read from rules/chains.yaml.

Ties between knots: what may have led to what, by which mechanism, and how sure the order is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from forensics.detection.context import DetectionContext, Row
from forensics.detection.shared.leader_moves import LeaderAndEpoch, MoveHistory, PlannedMove
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_ids, broker_node
from forensics.lib.time_units import SECOND
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.run_output.findings import SEVERITIES, Finding

# A planned change of leaders, which no detector reports: nothing is wrong with it.
MOVE = "move"
SCOPES = (
    "broker", "led", "moved", "elected", "cut", "partition", "topic", "node", "client",
    "coordinator", "any",
)  # fmt: skip


@dataclass(frozen=True)
class Mechanism:
    """One way in which one thing leads to another; `rank` is its place in the file."""

    rank: int
    sources: frozenset[str]
    targets: frozenset[str]
    scopes: tuple[str, ...]
    description: str
    within: float = 0
    certain: bool = False
    joint: bool = False
    returning: bool = False
    kinds: frozenset[str] = frozenset()


@cache
def load_mechanisms() -> Sequence[Mechanism]:
    """Give all mechanisms, those first that are preferred."""
    return tuple(
        Mechanism(
            rank,
            frozenset(one["from"]),
            frozenset(one["to"]),
            tuple(one["by"]),
            one["says"],
            one.get("within", 0),
            bool(one.get("certain", False)),
            bool(one.get("joint", False)),
            bool(one.get("returning", False)),
            frozenset(one.get("kinds", ())),
        )
        for rank, one in enumerate(_table()["mechanisms"])
    )


def recovery_text(detector: str) -> str | None:
    """Say what it means that a finding of a detector ended; null: that it is over is not told."""
    says: str | None = _table()["ends"].get(detector)
    return says


def allowed_sources(cause: object) -> Collection[str] | None:
    """Name what may lie behind a cause that a detector named; null: it named none."""
    names: Collection[str] | None = _table()["causes"].get(cause)
    return names


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_yaml(rules_folder() / "chains.yaml")
    return found


# So many of the worst findings are tied together, and so many stretches of each.
_MOST, _STRETCHES = 250, 50
_AWAY = ("broker-restart", "flapping-broker")
_OFFICE = "controller-churn"
# Between the things that these are about there may be hours.
_REPEATED = ("long-pause", "session-expiry")
# The death of a process lies after its last line: it is the cluster's word that dates it.
_VAGUE = ("crash", "gone")


@dataclass(frozen=True)
class Interval:
    """One time that a knot is about, with the lines by which it begins and ends."""

    begin: int
    end: int
    brokers: frozenset[int]
    line: Row | None = None
    recovery: Row | None = None
    # the moves of leaders that it brought about, and those that came last before it
    caused_moves: frozenset[LeaderAndEpoch] = frozenset()
    preceding_moves: frozenset[LeaderAndEpoch] = frozenset()
    # whether it began at this moment or later
    lower_bound_only: bool = False
    # how a broker was away, if that is what it is about
    kind: str | None = None


@dataclass(frozen=True)
class ChainNode:
    """Something that may have led to something else, or have come of it."""

    id: str
    detector: str
    title: str
    severity: int
    intervals: tuple[Interval, ...]
    partitions: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    # brokers that were elected, and that cut their logs
    elected: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()
    # what its detector took for its cause, if it looked for one
    cause: str | None = None
    # whether somebody ordered it: nothing else led to it then
    ordered: bool = False

    @property
    def begin(self) -> int:
        """The moment from which on it is told of."""
        return self.intervals[0].begin

    @property
    def topics(self) -> frozenset[str]:
        """The topics of its partitions."""
        return frozenset(name.rpartition("-")[0] for name in self.partitions)


def build_nodes(
    context: DetectionContext, findings: Sequence[Finding], moves: MoveHistory
) -> list[ChainNode]:
    """Give the knots of a run in the order of time; `shifts` are the moves behind them."""
    worst = sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), one.begin, one.id))
    found = [_knot(context, finding, moves) for finding in worst[:_MOST]]
    behind = {move for knot in found for one in knot.intervals for move in one.preceding_moves}
    planned = [shift for shift in moves.planned if shift.moves & behind]
    found += [_planned(shift) for shift in planned[:_MOST]]
    return sorted(found, key=lambda one: (one.begin, one.id))


def _knot(context: DetectionContext, finding: Finding, shifts: MoveHistory) -> ChainNode:
    named = {loss.partition for loss in finding.losses}
    node = finding.measures.get("node")
    names = set(map(broker_node, finding.brokers)) | ({str(node)} if node else set())
    brokers = set(finding.brokers) | broker_ids(names)
    leaders = {loss.leader for loss in finding.losses if loss.leader is not None}
    cut = {broker for loss in finding.losses for broker in loss.cut_on or ()}
    stretches = _stretches(context, finding, frozenset(brokers), shifts)
    return ChainNode(
        finding.id,
        finding.detector,
        finding.title,
        SEVERITIES.index(finding.severity),
        tuple(stretches[:_STRETCHES]),
        frozenset(finding.partitions) | named,
        frozenset(names | set(finding.clients)),
        frozenset(finding.clients),
        frozenset(leaders),
        frozenset(cut),
        finding.measures.get("cause"),
        finding.detector == "broker-restart" and finding.measures.get("kind") == "controlled",
    )


def _stretches(
    context: DetectionContext, finding: Finding, brokers: frozenset[int], shifts: MoveHistory
) -> list[Interval]:
    whole = Interval(
        finding.begin,
        finding.end,
        brokers,
        _nearest(finding.evidence, finding.begin),
        _at(finding.evidence, finding.end) if finding.end > finding.begin else None,
        preceding_moves=shifts.last_before(finding.partitions, finding.begin),
    )
    if finding.detector in _AWAY:
        absences = [one for one in context.absences if _is_of(finding, one)]
        return [_absence(context, one, shifts) for one in absences] or [whole]
    if finding.detector == _OFFICE:
        return _changes(context, finding) or [whole]
    if finding.detector in _REPEATED:
        return _moments(finding, brokers) or [whole]
    if finding.detector == "offline-partitions":
        return [replace(whole, recovery=shifts.recovery_line(finding.partitions, finding.end))]
    return [whole]


def _is_of(finding: Finding, absence: Absence) -> bool:
    if absence.broker not in finding.brokers:
        return False
    if finding.detector == "broker-restart":
        return absence.begin == finding.begin
    unplanned = absence.kind != "controlled"
    return unplanned and finding.begin <= absence.begin <= finding.end


def _absence(context: DetectionContext, one: Absence, shifts: MoveHistory) -> Interval:
    end = one.end if one.end is not None else max(context.logs_end, one.begin)
    spans = context.history.lanes.brokers.get(one.broker, ())
    # The line by which it is up again belongs to the stretch that follows.
    returns = (span.evidence for span in spans if span.begin == one.end and span.state == "up")
    back = next((dict(told[0]) for told in returns if told), None)
    return Interval(
        one.begin,
        end,
        frozenset({one.broker}),
        _nearest(one.evidence, one.begin),
        back,
        shifts.away_from(one.broker, one.begin, end),
        lower_bound_only=one.kind in _VAGUE,
        kind=one.kind,
    )


def _changes(context: DetectionContext, finding: Finding) -> list[Interval]:
    """Give each change of controller, about the one who lost the office."""
    reigns = context.history.lanes.controllers
    return [
        Interval(
            after.span.begin,
            after.span.begin,
            frozenset({before.controller} if before.controller is not None else ()),
            _nearest(after.span.evidence, after.span.begin),
        )
        for before, after in zip(reigns, reigns[1:], strict=False)
        if before.controller != after.controller
        and finding.begin <= after.span.begin <= finding.end
    ]


def _moments(finding: Finding, brokers: frozenset[int]) -> list[Interval]:
    """Give the moments of a finding that many are in, each of them told of as it was over."""
    longest = finding.measures.get("longest_ms") or 0
    found: list[Interval] = []
    timed = [dict(one) for one in finding.evidence if one.get("at") is not None]
    for place in sorted(timed, key=lambda one: (one["at"], one["file"], one["line"])):
        begin = max(finding.begin, round(place["at"] - longest * 1000))
        if found and begin <= found[-1].end:
            found[-1] = replace(found[-1], end=place["at"])
        else:
            found.append(Interval(begin, place["at"], brokers, place))
    return found


def _planned(shift: PlannedMove) -> ChainNode:
    place = shift.line
    stretch = Interval(shift.begin, shift.end, frozenset(), place, None, shift.moves)
    return ChainNode(shift.id, MOVE, shift.title, 0, (stretch,), shift.partitions)


def _nearest(evidence: Iterable[Mapping[str, Any]], moment: int) -> Row | None:
    timed = [dict(one) for one in evidence if one.get("at") is not None]
    return min(
        timed, key=lambda one: (abs(one["at"] - moment), one["file"], one["line"]), default=None
    )


def _at(evidence: Iterable[Mapping[str, Any]], moment: int) -> Row | None:
    """Find the line that stands at a moment, if the evidence holds it."""
    found = _nearest(evidence, moment)
    return found if found is not None and found["at"] == moment else None


_COORDINATOR = "__consumer_offsets"
# More than the clocks of two nodes are ever in doubt here.
_FAR = 120 * SECOND
# A broker that returns acts before the cluster says that it is back.
_RETURNING = 10 * SECOND
# What is shorter is shown in milliseconds.
_SHORT = SECOND // 10
# Logs give times to the millisecond.
_LOGGED = 1000


@dataclass(frozen=True)
class Order:
    """By how much one moment lies before another, and how much of that is doubt; microseconds."""

    before: int
    # null: nobody knows how far the clocks are apart
    uncertainty: int | None
    is_known: bool
    # whether the one began at that moment or later
    lower_bound_only: bool = False

    @property
    def description(self) -> str:
        """Say it in words.

        >>> Order(1_200_000, 400_000, is_known=True).description
        'before by 1.2 s ± 0.4'
        """
        if not self.is_known:
            return "order cannot be told"
        most = "at most " if self.lower_bound_only else ""
        return f"before by {most}{_seconds(self.before)} s ± {_seconds(self.uncertainty or 0)}"


def _seconds(micros: int) -> str:
    seconds = micros / SECOND
    return f"{seconds:.1f}" if micros >= _SHORT else f"{seconds:.3f}"


@dataclass(frozen=True)
class CausalLink:
    """One way in which a stretch of one knot may have led to a stretch of another."""

    mechanism: Mechanism
    source: ChainNode
    begin: Interval
    target: ChainNode
    end: Interval
    order: Order

    @property
    def rank(self) -> tuple[bool, bool, int, int, str]:
        """Lower is better: order told, mechanism certain, first in the file, nearest."""
        one = self.mechanism
        acts = self.begin.end if one.returning else self.begin.begin
        near = abs(self.end.begin - acts)
        return not self.order.is_known, not one.certain, one.rank, near, self.source.id

    @property
    def evidence(self) -> list[Row]:
        """The lines by which the two began."""
        return [place for place in (self.begin.line, self.end.line) if place is not None]


def find_links(
    context: DetectionContext, known: Sequence[ChainNode], table: Sequence[Mechanism]
) -> Iterator[CausalLink]:
    """Yield for each stretch of each knot the stretches that may have led to it."""
    by_name: dict[str, list[ChainNode]] = {}
    for knot in known:
        by_name.setdefault(knot.detector, []).append(knot)
    for one in table:
        for target in _of(by_name, one.targets):
            for source in _of(by_name, one.sources):
                if source is not target and _agrees(source, target):
                    yield from _between(context, one, source, target)


def _agrees(source: ChainNode, target: ChainNode) -> bool:
    """Whether the target's own detector saw what the source is, or nothing against it."""
    allowed = allowed_sources(target.cause)
    return not target.ordered and (allowed is None or source.detector in allowed)


def _of(by_name: Mapping[str, Sequence[ChainNode]], names: Collection[str]) -> Iterator[ChainNode]:
    for name in sorted(names):
        yield from by_name.get(name, ())


def _between(
    context: DetectionContext, one: Mechanism, source: ChainNode, target: ChainNode
) -> Iterator[CausalLink]:
    """Yield for each stretch of the target the nearest of the source's that may explain it."""
    for end in target.intervals:
        found = [
            CausalLink(one, source, begin, target, end, order)
            for begin in source.intervals
            if _is_kind(one, end)
            and any(_SCOPES[scope](source, begin, target, end) for scope in one.scopes)
            and (order := _touching(context, one, begin, end)) is not None
        ]
        if found:
            yield min(found, key=lambda tie: tie.rank)


def _is_kind(one: Mechanism, end: Interval) -> bool:
    return not one.kinds or end.kind is None or end.kind in one.kinds


def _touching(
    context: DetectionContext, one: Mechanism, begin: Interval, end: Interval
) -> Order | None:
    """Give the order of two stretches if they touch within doubt, and not the wrong way round."""
    slack = round(one.within * SECOND)
    before = end.begin - begin.begin
    # Most pairs are far apart, and need no look at clocks; none is off by more than this here.
    if before < -_FAR or end.begin > begin.end + slack + _FAR:
        return None
    order = compare_starts(context, begin, end)
    doubt = order.uncertainty or 0
    early = one.returning and end.begin < begin.end - _RETURNING - doubt
    late = end.begin > begin.end + slack + doubt
    return None if before < -doubt or early or late else order


def compare_starts(context: DetectionContext, begin: Interval, end: Interval) -> Order:
    """Say which of two stretches began first, as far as the clocks tell."""
    before = end.begin - begin.begin
    if begin.line is None or end.line is None:
        return Order(before, None, is_known=False, lower_bound_only=begin.lower_bound_only)
    one, other = (_logged(context, place) for place in (begin.line, end.line))
    apart = abs(begin.line["at"] - begin.begin) + abs(end.line["at"] - end.begin)
    doubt = _doubt(context, one, other)
    if doubt is None:
        return Order(before, None, is_known=False, lower_bound_only=begin.lower_bound_only)
    first = context.history.clocks.compare(one, other) == -1
    told = first and before > doubt + apart
    return Order(before, doubt + apart, is_known=told, lower_bound_only=begin.lower_bound_only)


def _logged(context: DetectionContext, place: Row) -> Row:
    """Give a line with its node and the time that it bears itself."""
    node = place.get("node") or context.visibility.node_of(place["file"])
    ts = place.get("ts")
    if ts is None:
        ts = 2 * place["at"] - context.history.clocks.correct(node, place["at"])
    return {"node": node, "ts": ts, "file": place["file"], "line": place["line"]}


def _doubt(context: DetectionContext, one: Row, other: Row) -> int | None:
    """Give how far off the time between two lines may be, in microseconds."""
    if one["node"] is not None and one["node"] == other["node"]:
        return _LOGGED
    clocks = context.history.clocks
    doubts = [
        clocks.uncertainty(row["node"], row["ts"], row["file"], row["line"]) for row in (one, other)
    ]
    known = [doubt for doubt in doubts if doubt is not None]
    return sum(known) if len(known) == len(doubts) else None


Scope = Callable[[ChainNode, Interval, ChainNode, Interval], bool]


def _by_coordinator(source: ChainNode, begin: Interval, target: ChainNode, end: Interval) -> bool:
    del target, end
    named = {name for name, _ in begin.caused_moves} | source.partitions
    return any(name.rpartition("-")[0] == _COORDINATOR for name in named)


_SCOPES: Mapping[str, Scope] = {
    "broker": lambda _one, begin, _other, end: bool(begin.brokers & end.brokers),
    "led": lambda _one, begin, other, end: bool(begin.brokers & (end.brokers - other.elected)),
    "elected": lambda _one, begin, other, _end: bool(begin.brokers & other.elected),
    "moved": lambda _one, begin, _other, end: bool(begin.caused_moves & end.preceding_moves),
    "cut": lambda _one, begin, other, _end: bool(begin.brokers & other.cut),
    "partition": lambda one, _begin, other, _end: bool(one.partitions & other.partitions),
    "topic": lambda one, _begin, other, _end: bool(one.topics & other.topics),
    "node": lambda one, _begin, other, _end: bool(one.nodes & other.nodes),
    "client": lambda one, _begin, other, _end: bool(one.clients & other.clients),
    "coordinator": _by_coordinator,
    "any": lambda _one, _begin, _other, _end: True,
}
