"""Finds what may have led to what, by which mechanism, and how certain the order is.

The nodes are findings and planned moves of leaders, as intervals of time: a finding about several
absences or changes has several, each with its own cause. Mechanisms stand in rules/chains.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, in_topics, partition_name
from forensics.detection.shared.controller_losses import lost_controllers
from forensics.detection.shared.leader_moves import LeaderAndEpoch, MoveHistory, PlannedMove
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_ids, broker_node
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import MILLISECOND, SECOND, to_arrow_timestamp
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.run_output.findings import Finding, severity_rank
from forensics.settings import SEVERITIES

# A planned change of leaders, which no detector reports: nothing is wrong with it.
MOVE = "move"


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
    """Read all mechanisms, the preferred ones first."""
    return tuple(
        Mechanism(
            rank,
            frozenset(entry["from"]),
            frozenset(entry["to"]),
            tuple(entry["by"]),
            entry["says"],
            entry.get("within", 0),
            bool(entry.get("certain", False)),
            bool(entry.get("joint", False)),
            bool(entry.get("returning", False)),
            frozenset(entry.get("kinds", ())),
        )
        for rank, entry in enumerate(_load_table()["mechanisms"])
    )


def recovery_text(detector: str, brokers: Collection[int]) -> str | None:
    """Return what the end of a detector's finding means; None: it does not mean a recovery."""
    text: str | None = _load_table()["ends"].get(detector)
    return text and text.format(broker=", ".join(map(str, sorted(brokers))))


def allowed_sources(cause: object) -> Collection[str] | None:
    """Return the detectors that may lie behind a cause that a detector named, if it named one."""
    names: Collection[str] | None = _load_table()["causes"].get(cause)
    return names


@cache
def _load_table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_yaml(rules_folder() / "chains.yaml")
    return table


# So many of the worst findings are linked, with so many intervals of each.
_MAX_NODES, _MAX_INTERVALS = 250, 50
# Findings of these detectors are about several times, each of which may have its own cause.
_ROLL = "rolling-restart"
_ABSENCES = ("broker-restart", "flapping-broker", "isolated-broker", _ROLL)
_CONTROLLER_CHANGES = ("controller-churn", "controller-lost")
_REPEATED = ("long-pause", "session-expiry")
# A process that dies logs nothing; the cluster's word dates its death, some time later.
_DATED_LATE = ("crash", "gone")
# The partitions that one broker led are lost within that.
_TOGETHER = 2 * SECOND


@dataclass(frozen=True)
class FindingInterval:
    """One time that a node is about, with the lines by which it begins and ends."""

    begin: int
    end: int
    brokers: frozenset[int]
    line: Row | None = None
    recovery: Row | None = None
    # the moves of leaders that it caused, and those that came last before it
    caused_moves: frozenset[LeaderAndEpoch] = frozenset()
    preceding_moves: frozenset[LeaderAndEpoch] = frozenset()
    # whether it may have begun later
    lower_bound_only: bool = False
    # how a broker was away; of unavailable partitions, whether nobody was left to elect
    kind: str | None = None


@dataclass(frozen=True)
class ChainNode:
    """A finding or a planned move: a cause or an effect."""

    id: str
    detector: str
    title: str
    severity: int
    intervals: tuple[FindingInterval, ...]
    partitions: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    # brokers that were elected, and that truncated their logs
    elected: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()
    # the cause that its detector named
    cause: str | None = None
    # whether somebody ordered it: then nothing else caused it
    ordered: bool = False

    @property
    def begin(self) -> int:
        """When its first interval begins."""
        return self.intervals[0].begin

    @property
    def acts_as(self) -> str:
        """The detector whose mechanisms it follows: a roll leads to what each restart leads to."""
        return "broker-restart" if self.detector == _ROLL else self.detector

    @property
    def topics(self) -> frozenset[str]:
        """The topics of its partitions."""
        return frozenset(name.rpartition("-")[0] for name in self.partitions)


def build_nodes(
    context: DetectionContext, findings: Sequence[Finding], moves: MoveHistory
) -> list[ChainNode]:
    """Make nodes of findings and of the planned moves behind them, in the order of time."""
    worst = sorted(findings, key=lambda one: (severity_rank(one.severity), one.begin, one.id))
    nodes = [_finding_node(context, finding, moves) for finding in worst[:_MAX_NODES]]
    behind = {move for node in nodes for one in node.intervals for move in one.preceding_moves}
    planned = [move for move in moves.planned if move.moves & behind]
    nodes += [_planned_node(move) for move in planned[:_MAX_NODES]]
    return sorted(nodes, key=lambda node: (node.begin, node.id))


def _finding_node(context: DetectionContext, finding: Finding, moves: MoveHistory) -> ChainNode:
    node = finding.measures.get("node")
    names = set(map(broker_node, finding.brokers)) | ({str(node)} if node else set())
    brokers = frozenset(finding.brokers) | broker_ids(names)
    losses = finding.losses
    return ChainNode(
        finding.id,
        finding.detector,
        finding.title,
        SEVERITIES.index(finding.severity),
        tuple(_finding_intervals(context, finding, brokers, moves)[:_MAX_INTERVALS]),
        frozenset(finding.partitions) | {loss.partition for loss in losses},
        frozenset(names | set(finding.clients)),
        frozenset(finding.clients),
        frozenset(loss.leader for loss in losses if loss.leader is not None),
        frozenset(broker for loss in losses for broker in loss.cut_on or ()),
        finding.measures.get("cause"),
        finding.detector == _ROLL
        or (finding.detector == "broker-restart" and finding.measures.get("kind") == "controlled")
        or finding.measures.get("planned") is True,
    )


def _finding_intervals(
    context: DetectionContext, finding: Finding, brokers: frozenset[int], moves: MoveHistory
) -> list[FindingInterval]:
    last = _nearest(finding.evidence, finding.end)
    ends = finding.end > finding.begin and last is not None and last["at"] == finding.end
    whole = FindingInterval(
        finding.begin,
        finding.end,
        brokers,
        _nearest(finding.evidence, finding.begin),
        last if ends else None,
        preceding_moves=moves.last_before(finding.partitions, finding.begin),
    )
    if finding.detector in _ABSENCES:
        absences = [absence for absence in context.absences if _is_about(finding, absence)]
        if absences:
            return [_absence_interval(context, absence, moves) for absence in absences]
    if finding.detector in _CONTROLLER_CHANGES:
        return _controller_changes(context, finding) or [whole]
    if finding.detector in _REPEATED:
        return _repeated_intervals(finding, brokers) or [whole]
    if finding.detector == "truncation":
        return _cuts(context, finding) or [whole]
    if finding.detector == "offline-partitions":
        recovery = moves.recovery_line(finding.partitions, finding.end)
        return _losses_of_leaders(context, finding, recovery) or [replace(whole, recovery=recovery)]
    return [whole]


def _is_about(finding: Finding, absence: Absence) -> bool:
    if absence.broker not in finding.brokers:
        return False
    if finding.detector == "broker-restart":
        return absence.begin == finding.begin
    fits = (absence.kind == "controlled") == (finding.detector == _ROLL)
    return fits and finding.begin <= absence.begin <= finding.end


def _absence_interval(
    context: DetectionContext, absence: Absence, moves: MoveHistory
) -> FindingInterval:
    begin = absence.begin
    end = absence.end if absence.end is not None else max(context.logs_end, begin)
    # The line by which it is up again belongs to the span that follows.
    returns = (
        span.evidence
        for span in (() if absence.end is None else context.spans_of(absence.broker, end, end))
        if span.state == "up"
    )
    return FindingInterval(
        begin,
        end,
        frozenset({absence.broker}),
        _nearest(absence.evidence, begin),
        next((dict(evidence[0]) for evidence in returns if evidence), None),
        moves.away_from(absence.broker, begin, end),
        lower_bound_only=absence.kind in _DATED_LATE,
        kind=absence.kind,
    )


def _controller_changes(context: DetectionContext, finding: Finding) -> list[FindingInterval]:
    """Return each change of controller, as an interval of the broker that was lost with it."""
    return [
        FindingInterval(
            loss.after.span.begin,
            loss.ready_at,
            frozenset({loss.before.controller} if loss.before.controller is not None else ()),
            _nearest(loss.evidence, loss.after.span.begin),
        )
        for loss in lost_controllers(context)
        if finding.begin <= loss.begin <= finding.end
    ]


def _repeated_intervals(finding: Finding, brokers: frozenset[int]) -> list[FindingInterval]:
    """Return the intervals of a finding about many, each of which is logged as it is over."""
    longest = finding.measures.get("longest_ms") or 0
    found: list[FindingInterval] = []
    for line in sorted(_timed(finding.evidence), key=lambda one: (one["at"], *_place(one))):
        begin = max(finding.begin, round(line["at"] - longest * MILLISECOND))
        if found and begin <= found[-1].end:
            found[-1] = replace(found[-1], end=line["at"])
        else:
            found.append(FindingInterval(begin, line["at"], brokers, line))
    return found


def _losses_of_leaders(
    context: DetectionContext, finding: Finding, recovery: Row | None
) -> list[FindingInterval]:
    """Return an interval for each loss of leaders: those that one broker led went together."""
    where = in_topics({name.rpartition("-")[0] for name in finding.partitions})
    where &= pc.field("previous_leader").is_valid() & ~pc.field("planned")
    where &= pc.field("started_at") >= to_arrow_timestamp(finding.begin)
    where &= pc.field("started_at") <= to_arrow_timestamp(finding.end)
    columns = ("topic", "partition", "previous_leader", "started_at", "ended_at")
    named = frozenset(finding.partitions)
    rows = [row for row in context.each("outages", where, columns) if partition_name(row) in named]
    rows.sort(key=lambda row: (row["previous_leader"], row["started_at"]))
    leaderless: dict[str, list[int]] = {}
    for name, at in _leaderless(context, finding):
        leaderless.setdefault(name, []).append(at)
    found: list[FindingInterval] = []
    for _, own in groupby(rows, key=lambda row: int(row["previous_leader"])):
        for run in sessions(own, lambda row: int(row["started_at"]), _TOGETHER):
            begin = run[0]["started_at"]
            end = max(row["ended_at"] or max(context.logs_end, begin) for row in run)
            line = _nearest(finding.evidence, begin)
            brokers = frozenset({run[0]["previous_leader"]})
            names = {partition_name(row) for row in run}
            empty = any(begin <= at <= end for name in names for at in leaderless.get(name, ()))
            recovered = recovery if end == finding.end else None
            kind = "no_leader" if empty else "led"
            found.append(FindingInterval(begin, end, brokers, line, recovered, kind=kind))
    return sorted(found, key=lambda one: (one.begin, sorted(one.brokers)))


def _cuts(context: DetectionContext, finding: Finding) -> list[FindingInterval]:
    """Return an interval for each time that a broker truncated its logs: each has its own move."""
    where = in_topics({name.rpartition("-")[0] for name in finding.partitions})
    where &= pc.field("started_at").is_valid()
    columns = ("topic", "partition", "leader_epoch", "started_at")
    named = frozenset(finding.partitions)
    starts = {
        (partition_name(row), row["leader_epoch"]): row["started_at"]
        for row in context.each("leadership", where, columns)
    }
    rows = [
        row
        for row in context.each("cuts", where & pc.field("broker").is_valid(), (*columns, "broker"))
        if finding.begin <= row["started_at"] <= finding.end and partition_name(row) in named
    ]
    rows.sort(key=lambda row: (row["broker"], row["started_at"]))
    found: list[FindingInterval] = []
    for broker, own in groupby(rows, key=lambda row: int(row["broker"])):
        for run in sessions(own, lambda row: int(row["started_at"]), _TOGETHER):
            begin = run[0]["started_at"]
            line = _nearest(finding.evidence, begin)
            # Each log was truncated to follow the leader of one epoch.
            epochs = {(partition_name(row), row["leader_epoch"]) for row in run}
            moves = frozenset((key[0], starts[key]) for key in epochs if key in starts)
            brokers = frozenset({broker})
            found.append(
                FindingInterval(begin, run[-1]["started_at"], brokers, line, preceding_moves=moves)
            )
    return sorted(found, key=lambda one: (one.begin, sorted(one.brokers)))


def _leaderless(context: DetectionContext, finding: Finding) -> list[tuple[str, int]]:
    """Return partitions that had nobody left to elect, and since when."""
    where = in_topics({name.rpartition("-")[0] for name in finding.partitions})
    where &= (pc.field("leader") == -1) & pc.field("started_at").is_valid()
    return [
        (partition_name(row), row["started_at"])
        for row in context.each(
            "leadership", where, ("topic", "partition", "started_at", "ended_at")
        )
        if row["ended_at"] is None or row["ended_at"] - row["started_at"] > _TOGETHER
    ]


def _planned_node(move: PlannedMove) -> ChainNode:
    interval = FindingInterval(move.begin, move.end, frozenset(), move.line, None, move.moves)
    return ChainNode(move.id, MOVE, move.title, 0, (interval,), move.partitions)


def _nearest(evidence: Iterable[Mapping[str, Any]], moment: int) -> Row | None:
    """Return the line of the evidence that is nearest to a moment."""
    lines = _timed(evidence)
    return min(lines, key=lambda one: (abs(one["at"] - moment), *_place(one)), default=None)


def _timed(evidence: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    return (dict(line) for line in evidence if line.get("at") is not None)


def _place(line: Row) -> tuple[Any, Any]:
    return line["file"], line["line"]


_COORDINATOR = "__consumer_offsets"
# The clocks of two nodes are never uncertain by more than this.
_MAX_UNCERTAINTY = 120 * SECOND
# An effect may seem older than its cause by what clocks are uncertain, but by no more than this.
_MAX_REVERSED = 10 * SECOND
# A broker that returns acts before the cluster says that it is back.
_RETURNING = 10 * SECOND
# Shorter times are shown in milliseconds.
_SHORT = SECOND // 10


@dataclass(frozen=True)
class Order:
    """By how much one moment lies before another, and how uncertain that is; microseconds."""

    before: int
    # None: the clocks are not known
    uncertainty: int | None
    is_known: bool
    # whether the first may have begun later
    lower_bound_only: bool = False
    # how uncertain the clocks alone are
    clocks: int = 0

    @property
    def description(self) -> str:
        """The order in words.

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
    """One way in which an interval of one node may have led to an interval of another."""

    mechanism: Mechanism
    source: ChainNode
    begin: FindingInterval
    target: ChainNode
    end: FindingInterval
    order: Order

    @property
    def rank(self) -> tuple[bool, bool, int, int, str]:
        """Lower is better: order known, mechanism certain, first in the file, nearest."""
        mechanism = self.mechanism
        acts = self.begin.end if mechanism.returning else self.begin.begin
        distance = abs(self.end.begin - acts)
        certain = mechanism.certain
        return not self.order.is_known, not certain, mechanism.rank, distance, self.source.id

    @property
    def evidence(self) -> list[Row]:
        """The lines by which the two began."""
        return [line for line in (self.begin.line, self.end.line) if line is not None]


def find_links(
    context: DetectionContext, nodes: Sequence[ChainNode], mechanisms: Sequence[Mechanism]
) -> Iterator[CausalLink]:
    """Yield for each interval of each node the intervals that may have led to it."""
    by_detector: dict[str, list[ChainNode]] = {}
    for node in nodes:
        by_detector.setdefault(node.acts_as, []).append(node)
    for mechanism in mechanisms:
        targets, sources = (
            [node for name in sorted(names) for node in by_detector.get(name, ())]
            for names in (mechanism.targets, mechanism.sources)
        )
        for target in targets:
            for source in sources:
                if source is not target and _is_plausible(source, target):
                    yield from _links_between(context, mechanism, source, target)


def _is_plausible(source: ChainNode, target: ChainNode) -> bool:
    """Return True if the target's own detector named this source as a cause, or none at all."""
    allowed = allowed_sources(target.cause)
    return not target.ordered and (allowed is None or source.acts_as in allowed)


def _links_between(
    context: DetectionContext, mechanism: Mechanism, source: ChainNode, target: ChainNode
) -> Iterator[CausalLink]:
    """Yield for each interval of the target the best link from an interval of the source."""
    for end in target.intervals:
        if mechanism.kinds and end.kind is not None and end.kind not in mechanism.kinds:
            continue
        links = [
            CausalLink(mechanism, source, begin, target, end, order)
            for begin in source.intervals
            if any(SCOPES[scope](source, begin, target, end) for scope in mechanism.scopes)
            and (order := _order_if_touching(context, mechanism, begin, end)) is not None
        ]
        if links:
            yield min(links, key=lambda link: link.rank)


def _order_if_touching(
    context: DetectionContext, mechanism: Mechanism, begin: FindingInterval, end: FindingInterval
) -> Order | None:
    """Return the order of two intervals if they touch within uncertainty, and not in reverse."""
    slack = round(mechanism.within * SECOND)
    before = end.begin - begin.begin
    # Most pairs are far apart, and need no look at clocks.
    if before < -_MAX_UNCERTAINTY or end.begin > begin.end + slack + _MAX_UNCERTAINTY:
        return None
    order = compare_starts(context, begin, end)
    # That a line lies beside the moment that it stands for makes no effect older than its cause.
    uncertainty = min(order.clocks, _MAX_REVERSED)
    early = mechanism.returning and end.begin < begin.end - _RETURNING - uncertainty
    late = end.begin > begin.end + slack + uncertainty
    return None if before < -uncertainty or early or late else order


def compare_starts(
    context: DetectionContext, begin: FindingInterval, end: FindingInterval
) -> Order:
    """Return which of two intervals began first, as far as the clocks tell."""
    before, bound = end.begin - begin.begin, begin.lower_bound_only
    if begin.line is None or end.line is None:
        return Order(before, None, is_known=False, lower_bound_only=bound)
    one, other = (_as_logged(context, line) for line in (begin.line, end.line))
    uncertainty = _uncertainty(context, one, other)
    if uncertainty is None:
        return Order(before, None, is_known=False, lower_bound_only=bound)
    clocks = uncertainty
    # The lines may lie beside the moments that they stand for.
    uncertainty += abs(begin.line["at"] - begin.begin) + abs(end.line["at"] - end.begin)
    known = context.history.clocks.compare(one, other) == -1 and before > uncertainty
    return Order(before, uncertainty, is_known=known, lower_bound_only=bound, clocks=clocks)


def _as_logged(context: DetectionContext, line: Row) -> Row:
    """Return a line with its node and its own, uncorrected time."""
    node = line.get("node") or context.visibility.node_of(line["file"])
    ts = line.get("ts")
    if ts is None:
        ts = 2 * line["at"] - context.history.clocks.correct(node, line["at"])
    return {"node": node, "ts": ts, "file": line["file"], "line": line["line"]}


def _uncertainty(context: DetectionContext, one: Row, other: Row) -> int | None:
    """Return how uncertain the time between two lines is, in microseconds."""
    if one["node"] is not None and one["node"] == other["node"]:
        # Logs give times to the millisecond.
        return MILLISECOND
    each = [
        context.history.clocks.uncertainty(row["node"], row["ts"], row["file"], row["line"])
        for row in (one, other)
    ]
    known = [uncertainty for uncertainty in each if uncertainty is not None]
    return sum(known) if len(known) == len(each) else None


Scope = Callable[[ChainNode, FindingInterval, ChainNode, FindingInterval], bool]


def _by_coordinator(
    source: ChainNode, begin: FindingInterval, target: ChainNode, end: FindingInterval
) -> bool:
    del target, end
    names = {name for name, _ in begin.caused_moves} | source.partitions
    return any(name.rpartition("-")[0] == _COORDINATOR for name in names)


# How a source and its target must be related; mechanisms name these.
SCOPES: Mapping[str, Scope] = {
    "broker": lambda _one, begin, _other, end: bool(begin.brokers & end.brokers),
    "led": lambda _one, begin, other, end: bool(begin.brokers & (end.brokers - other.elected)),
    "elected": lambda _one, begin, other, _end: bool(begin.brokers & other.elected),
    "moved": lambda _one, begin, _other, end: bool(begin.caused_moves & end.preceding_moves),
    "all_moved": lambda _one, begin, _other, end: bool(
        end.preceding_moves and end.preceding_moves <= begin.caused_moves
    ),
    "cut": lambda _one, begin, other, end: bool(begin.brokers & other.cut & end.brokers),
    "partition": lambda one, _begin, other, _end: bool(one.partitions & other.partitions),
    "topic": lambda one, _begin, other, _end: bool(one.topics & other.topics),
    "node": lambda one, _begin, other, _end: bool(one.nodes & other.nodes),
    "client": lambda one, _begin, other, _end: bool(one.clients & other.clients),
    "coordinator": _by_coordinator,
    "any": lambda _one, _begin, _other, _end: True,
}
