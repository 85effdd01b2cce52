"""Which nodes observed a partition when: only those date its changes, and the ends of its states.

A broker that was paused, fenced, or starting logs what it missed when it is back, under the time of
its return. And a state whose end nobody saw is known for as long as one of the nodes that logged it
went on observing, not until somebody logs a later one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from forensics.history.log_coverage import Coverage
from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.incarnations import Incarnation
from forensics.history.partitions.leader_epochs import LeaderEpoch
from forensics.history.partitions.states import PartitionState
from forensics.lib.intervals import Interval, IntervalSet
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.time_units import SECOND
from forensics.parsing.time_statistics import MIN_SILENCE

# How the end of a row is known: the next state began then; it still was so when the logs end; or
# nobody saw it end, and `ended_at` is the last moment at which it is sure to have been so.
OBSERVED, OPEN, UNKNOWN = "observed", "open", "unknown"

# A node that is back has much to read before it logs news again.
_CATCHING_UP = 10 * SECOND
# A KRaft broker logs the changes it hears of in these; controllers name few partitions.
_CHANGE_LOGS = ("state-change", "all")
# A broker is logged as away a little before or after its partitions move.
AROUND = 15 * SECOND
# After a hang, everything that piled up is logged within that.
_WAKING = 2 * SECOND

# A node, the moment of its line, and the milliseconds it says it waited.
Wake = tuple[str, int, int]
Ending = tuple[int | None, str]
State = LeaderEpoch | PartitionState
ByNode = Mapping[str, IntervalSet]
_NEVER = IntervalSet()


@dataclass(frozen=True)
class Observers:
    """When each broker or controller observed nothing, in corrected time."""

    # while it logs what it missed, after it hung or was away
    late: ByNode = field(default_factory=dict)
    # while it was away or silent
    blind: ByNode = field(default_factory=dict)
    # while it was shut down in order
    shutdowns: ByNode = field(default_factory=dict)
    # the begin of the last absence, if an absence lasts until the logs end
    gone_since: Mapping[str, int] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    @classmethod
    def from_absences(
        cls, absences: Iterable[Absence], coverage: Coverage, wakes: Iterable[Wake] = ()
    ) -> Observers:
        """Gather absences and gaps by node; `wakes` are lines that tell of a long wait."""
        away = _find_hangs(wakes, coverage)
        shutdowns: dict[str, list[Interval]] = defaultdict(list)
        for absence in absences:
            end = coverage.end if absence.end is None else absence.end
            by_node = shutdowns if absence.kind == "controlled" else away
            span = (absence.begin, max(end, absence.begin))
            by_node[broker_node(absence.broker)].append(span)
        gone_since: dict[str, int] = {}
        for node, spans in chain(away.items(), shutdowns.items()):
            if max(end for _, end in spans) >= coverage.end:
                last = max(begin for begin, _ in spans)
                gone_since[node] = max(last, gone_since.get(node, last))
        late = {n: [(begin, end + _CATCHING_UP) for begin, end in away[n]] for n in away}
        blind = {}
        for node in {*away, *shutdowns, *coverage.nodes}:
            log = coverage.partition_log(node)
            gaps = [(gap.begin, gap.end) for gap in log.gaps] if log is not None else []
            blind[node] = [*away.get(node, ()), *shutdowns.get(node, ()), *gaps]
        return cls(_by_node(late), _by_node(blind), _by_node(shutdowns), gone_since, coverage)

    def is_late(self, node: str, at: int, logged: int, startups: StartupWindows) -> bool:
        """Return True if a node may log only now what it missed while it was away.

        A node that shuts down in order logs at once what it hears, until it is started again.
        """
        return at in self.late.get(node, _NEVER) or (
            at in self.shutdowns.get(node, _NEVER) and startups.is_starting(node, logged)
        )

    def logs_every_change(self, node: str) -> bool:
        """Return True if the log is here in which a KRaft broker logs every change it hears of."""
        log = self.coverage.partition_log(node)
        is_here = not self.coverage.nodes or (log is not None and log.kind in _CHANGE_LOGS)
        return is_here and node.startswith("broker-")

    def observed_between(self, node: str, begin: int, end: int) -> bool:
        """Return True if a node observed all the time between two moments."""
        blind = self.blind.get(node, _NEVER).intervals
        later = bisect_left(blind, (end + 1,))
        return self.logs_every_change(node) and (later == 0 or blind[later - 1][1] <= begin)

    def observed_until(self, node: str, at: int) -> int:
        """Return the moment up to which a node that logged a line is sure to have observed."""
        log, blind = self.coverage.partition_log(node), self.blind.get(node, _NEVER)
        if log is None or log.last <= at or at in blind:
            return at
        later = blind.intervals[bisect_left(blind.intervals, (at + 1,)) :]
        return min(log.last, later[0][0] - 1) if later else log.last

    def explains_departure(
        self, broker: int | None, at: int | None, absences: Iterable[Absence]
    ) -> bool:
        """Return True if the logs are here that show how a broker was around a moment.

        These are its own, or those of a node that missed it.
        """
        if not self.coverage.nodes or broker is None or broker < 0:
            return True
        if at is None:
            return False
        for absence in absences:
            end = self.coverage.end if absence.end is None else absence.end
            seen = any(line["what"] in ("fenced", "unclean") for line in absence.evidence)
            if seen and absence.begin - AROUND <= at <= end + _WAKING:
                return True
        return self.coverage.is_logging_at(broker_node(broker), at)

    def observes_until_end(self, node: str, at: int) -> bool:
        """Return True if a node observed, and was alive, from a moment until the logs end."""
        if not self.coverage.nodes:
            return True
        gone_since = self.gone_since.get(node)
        return self.coverage.reaches_end(node) and (gone_since is None or gone_since < at)


def find_endings(
    states: Sequence[State],
    follows: Sequence[bool],
    observers: Observers,
    *,
    kraft: bool,
    incarnation: Incarnation,
) -> Iterator[Ending]:
    """Yield for each state when it ended, and how that is known.

    `follows` holds for each state but the first whether it comes right after the one before. The
    last one ends with its topic's incarnation.
    """
    deleted, limit = incarnation.deleted_at, incarnation.replaced_at
    following = next_dated([state.at for state in states])
    for index, (state, next_index) in enumerate(zip(states, following, strict=True)):
        if next_index is None and deleted is not None:
            yield max(deleted, state.at or deleted), OBSERVED
            continue
        if next_index is None and limit is not None:
            yield _known_until(state, limit, observers, kraft=kraft), UNKNOWN
            continue
        if next_index is None:
            final = index == len(states) - 1
            yield _end_of_last(state, observers, kraft=kraft, final=final)
            continue
        after = states[next_index]
        adjacent = next_index == index + 1 and follows[index]
        if adjacent or (kraft and _is_change_observed(state, after, observers)):
            yield after.at, OBSERVED
        else:
            yield _known_until(state, after.at, observers, kraft=kraft), UNKNOWN


def _is_change_observed(state: State, after: State, observers: Observers) -> bool:
    """Return True if one replica logged both states and all between: then that took no time.

    A KRaft broker that reads several changes of a partition at once logs only the last.
    """
    first = _first_timely(state)
    return any(
        node in first and first[node] <= at and observers.observed_between(node, first[node], at)
        for node, at in _first_timely(after).items()
    )


def _first_timely(state: State) -> dict[str, int]:
    """Return when each node first logged a state as it came."""
    first: dict[str, int] = {}
    for line in state.observations:
        if line.is_timely:
            first[line.node] = min(line.at, first.get(line.node, line.at))
    return first


def _known_until(
    state: State, limit: int | None, observers: Observers, *, kraft: bool
) -> int | None:
    """Return the last moment at which a state is sure to have been; None if there is none."""
    sure = state.at
    for line in state.observations:
        if not line.is_timely:
            continue
        until = line.at
        # Under ZooKeeper a broker does not hear of every change, so its silence proves nothing.
        if kraft and _would_log_end(line.node, state, observers):
            until = observers.observed_until(line.node, line.at)
        until = until if limit is None else min(until, limit)
        sure = until if sure is None else max(sure, until)
    return sure


def _end_of_last(state: State, observers: Observers, *, kraft: bool, final: bool) -> Ending:
    """Return how the last state ends: open only if a node observed until the logs end."""
    # Of a partition without a leader no replica is left that could log a change, or make one.
    if final and (not observers.coverage.nodes or state.leader == -1):
        return None, OPEN
    nodes = {
        line.node
        for line in state.observations
        if not kraft or _would_log_end(line.node, state, observers)
    }
    at = state.at if state.at is not None else observers.coverage.end
    if final and any(observers.observes_until_end(node, at) for node in nodes):
        return None, OPEN
    return _known_until(state, None, observers, kraft=kraft), UNKNOWN


def _would_log_end(node: str, state: State, observers: Observers) -> bool:
    """Return True if a KRaft node is a replica, and its log of every change is here."""
    is_replica = state.replicas is None or broker_id(node) in state.replicas
    return is_replica and observers.logs_every_change(node)


def next_dated(moments: Sequence[int | None]) -> list[int | None]:
    """Return, for each index, the next index with a moment.

    >>> next_dated([1, None, 3])
    [2, 2, None]
    """
    later: int | None = None
    following: list[int | None] = []
    for index in range(len(moments) - 1, -1, -1):
        following.append(later)
        later = later if moments[index] is None else index
    return following[::-1]


def _find_hangs(wakes: Iterable[Wake], coverage: Coverage) -> dict[str, list[Interval]]:
    """Find the gaps of nodes that end with a line that tells of a long wait: they hung."""
    hangs: dict[str, set[Interval]] = defaultdict(set)
    for node, at, waited_ms in wakes:
        if waited_ms * 1000 < MIN_SILENCE // 2:
            continue
        for begin, end in coverage.shared_gaps(node):
            if begin < at and end - _WAKING <= at <= end + _WAKING:
                hangs[node].add((begin, max(at, end)))
    return defaultdict(list, {node: sorted(spans) for node, spans in hangs.items()})


def _by_node(spans: Mapping[str, Iterable[Interval]]) -> ByNode:
    """Index spans by node; a line at the very begin of a span was still logged in time."""
    return {
        node: IntervalSet((begin + 1, end) for begin, end in pairs) for node, pairs in spans.items()
    }
