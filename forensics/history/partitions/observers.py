"""Who was listening when: a word dates a change only if its speaker heard of it at once.

A broker that was paused, fenced, or starting tells of what it missed when it is back, under the
time of its return. And a state that nobody was there to see end is known for as long as one of
those who told of it went on listening, not until somebody tells of a later one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from forensics.history.log_coverage import Coverage
from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.observations import Observation
from forensics.parsing.time_statistics import MIN_SILENCE

# How the end of a row is known: the next state began then; it still was so when the logs end; or
# nobody saw it end, and `ended_at` is the last moment at which it is sure to have been so.
OBSERVED, OPEN, UNKNOWN = "observed", "open", "unknown"

# Who is back has much to read before it tells news again.
_BEHIND = 10_000_000
# A KRaft broker tells of the changes it hears of in these; controllers tell of few partitions.
_HEARING = ("state-change", "all")
# A broker is named away a little before or after its partitions move.
_AROUND = 15_000_000
# All that piled up is told in one go.
_WAKING = 2_000_000

# A node, the moment of its line, and the milliseconds it says it waited.
Wake = tuple[str, int, int]
Ending = tuple[int | None, str]
# Begin and end of each stretch, and the greatest end so far, all in the order of their begin.
Stretches = tuple[Sequence[int], Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Observers:
    """When each broker or controller did not listen, in corrected time."""

    away: Mapping[str, Stretches] = field(default_factory=dict)
    late: Mapping[str, Stretches] = field(default_factory=dict)
    deaf: Mapping[str, Stretches] = field(default_factory=dict)
    orderly: Mapping[str, Stretches] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    @classmethod
    def from_absences(
        cls, away: Iterable[Absence], coverage: Coverage, wakes: Iterable[Wake] = ()
    ) -> Observers:
        """Gather absences and silences by node; `wakes` are lines that tell of a long wait."""
        gone = _hung(wakes, coverage)
        orderly: dict[str, list[tuple[int, int]]] = {}
        for absence in away:
            end = coverage.end if absence.end is None else absence.end
            node = f"broker-{absence.broker}"
            found = orderly if absence.kind == "controlled" else gone
            found.setdefault(node, []).append((absence.begin, max(end, absence.begin)))
        late = {node: [(begin, end + _BEHIND) for begin, end in gone[node]] for node in gone}
        silent = {node: list(coverage.partition_log_gaps(node)) for node in coverage.nodes}
        nodes = {*gone, *orderly, *silent}
        deaf = {
            node: _stretches([*gone.get(node, ()), *orderly.get(node, ()), *silent.get(node, ())])
            for node in nodes
        }
        return cls(_by_node(gone), _by_node(late), deaf, _by_node(orderly), coverage)

    def is_late(self, node: str, at: int, logged: int, phases: StartupWindows) -> bool:
        """Whether a node may tell only now what it missed while it was away.

        Who shuts down in order tells at once what it hears, until it is started again.
        """
        if _inside(self.late.get(node), at):
            return True
        return _inside(self.orderly.get(node), at) and phases.is_starting(node, logged)

    def logs_every_change(self, node: str) -> bool:
        """Whether the log is here in which a KRaft broker tells of every change it hears of."""
        log = self.coverage.partition_log(node)
        here = not self.coverage.nodes or (log is not None and log.kind in _HEARING)
        return here and node.startswith("broker-")

    def observed_between(self, node: str, begin: int, end: int) -> bool:
        """Whether a node listened all the time between two moments."""
        if not self.logs_every_change(node):
            return False
        stretches = self.deaf.get(node)
        if stretches is None:
            return True
        begins, _, reach = stretches
        first = bisect_left(begins, end)
        return first == 0 or reach[first - 1] <= begin

    def observed_until(self, node: str, at: int) -> int:
        """Give the moment up to which a node that spoke is sure to have listened."""
        last = self.coverage.last_line_at(node)
        if last is None or last <= at or _inside(self.deaf.get(node), at):
            return at
        begins = self.deaf.get(node, ((), (), ()))[0]
        following = bisect_left(begins, at)
        return min(last, begins[following]) if following < len(begins) else last

    def explains_departure(
        self, broker: int | None, at: int | None, away: Iterable[Absence]
    ) -> bool:
        """Whether somebody says how a broker was around a moment: itself, or who missed it."""
        if not self.coverage.nodes or broker is None or broker < 0:
            return True
        if at is None:
            return False
        for absence in away:
            end = self.coverage.end if absence.end is None else absence.end
            seen = any(place["what"] in ("fenced", "unclean") for place in absence.evidence)
            if seen and absence.begin - _AROUND <= at <= end + _WAKING:
                return True
        return self.coverage.is_logging_at(f"broker-{broker}", at)

    def observes_until_end(self, node: str, at: int) -> bool:
        """Whether a node listened, and was alive, until the logs end."""
        if not self.coverage.nodes:
            return True
        stopped = (self.away.get(node), self.orderly.get(node))
        return self.coverage.reaches_end(node) and not any(
            self._is_gone(one, at) for one in stopped
        )

    def _is_gone(self, stretches: Stretches | None, at: int) -> bool:
        """Whether one of the stretches that began later reaches the end of the logs."""
        if stretches is None:
            return False
        begins, _, reach = stretches
        return reach[-1] >= self.coverage.end and begins[-1] >= at


@dataclass(slots=True)
class OpenState:
    """One row of a history on its way: when it began, who told of it, and what comes after."""

    at: int | None
    said: Sequence[Observation]
    replicas: Sequence[int] | None
    leader: int | None
    # whether the next row is the very next state
    followed: bool = True


def find_endings(
    held: Sequence[OpenState], attention: Observers, *, kraft: bool
) -> Iterator[Ending]:
    """Say for each row when it ended, and how that is known."""
    nexts = next_dated([one.at for one in held])
    for at, (one, following) in enumerate(zip(held, nexts, strict=True)):
        if following is None:
            yield _last(one, attention, kraft=kraft, final=at == len(held) - 1)
            continue
        after = held[following]
        moment = after.at
        if (one.followed and following == at + 1) or (kraft and _heard_both(one, after, attention)):
            yield moment, OBSERVED
        else:
            yield _known_until(one, moment, attention, kraft=kraft), UNKNOWN


def _heard_both(one: OpenState, after: OpenState, attention: Observers) -> bool:
    """Whether one replica told of both states and heard all between: then that took no time.

    A KRaft broker that reads several changes of a partition at once tells only of the last.
    """
    first = _first_words(one)
    return any(
        node in first
        and first[node] <= moment
        and attention.observed_between(node, first[node], moment)
        for node, moment in _first_words(after).items()
    )


def _first_words(held: OpenState) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in held.said:
        if one.is_timely and one.at < found.get(one.node, one.at + 1):
            found[one.node] = one.at
    return found


def _known_until(
    held: OpenState, limit: int | None, attention: Observers, *, kraft: bool
) -> int | None:
    """Give the last moment at which a state is sure to have been; null: not even its beginning."""
    sure = held.at
    for one in held.said:
        if not one.is_timely:
            continue
        until = one.at
        # Under ZooKeeper a broker does not hear of every change, so its silence says nothing.
        if kraft and attention.logs_every_change(one.node) and _is_among(one.node, held.replicas):
            until = attention.observed_until(one.node, one.at)
        until = until if limit is None else min(until, limit)
        sure = until if sure is None else max(sure, until)
    return sure


def _last(held: OpenState, attention: Observers, *, kraft: bool, final: bool) -> Ending:
    """Say how the last state ends: open only where somebody listened until the end of the logs."""
    if final and not attention.coverage.nodes:
        return None, OPEN
    if final and held.leader == -1:
        # No replica is left alive that could tell of a change, or make one.
        return None, OPEN
    tellers = {
        one.node
        for one in held.said
        if not kraft
        or (attention.logs_every_change(one.node) and _is_among(one.node, held.replicas))
    }
    moment = held.at if held.at is not None else attention.coverage.end
    if final and any(attention.observes_until_end(node, moment) for node in tellers):
        return None, OPEN
    until = _known_until(held, None, attention, kraft=kraft)
    return until, UNKNOWN


def _is_among(node: str, replicas: Sequence[int] | None) -> bool:
    digits = node.rpartition("-")[2]
    return replicas is None or (digits.isdigit() and int(digits) in replicas)


def next_dated(moments: Sequence[int | None]) -> list[int | None]:
    """Give, for each place, the next place with a moment.

    >>> next_known([1, None, 3])
    [2, 2, None]
    """
    later: int | None = None
    found: list[int | None] = []
    for place in range(len(moments) - 1, -1, -1):
        found.append(later)
        later = later if moments[place] is None else place
    return found[::-1]


def _hung(wakes: Iterable[Wake], coverage: Coverage) -> dict[str, list[tuple[int, int]]]:
    """Find the silences of nodes that end with a line that tells of a long wait: they hung."""
    found: dict[str, list[tuple[int, int]]] = {}
    quiet = {node: coverage.shared_gaps(node) for node in coverage.nodes}
    for node, at, waited_ms in wakes:
        if waited_ms * 1000 < MIN_SILENCE // 2:
            continue
        for begin, end in quiet.get(node, ()):
            if begin < at and end - _WAKING <= at <= end + _WAKING:
                found.setdefault(node, []).append((begin, max(at, end)))
    return {node: sorted(set(stretches)) for node, stretches in found.items()}


def _by_node(found: Mapping[str, Sequence[tuple[int, int]]]) -> dict[str, Stretches]:
    return {node: _stretches(stretches) for node, stretches in found.items()}


def _stretches(found: Iterable[tuple[int, int]]) -> Stretches:
    ordered = sorted(found)
    ends = [end for _, end in ordered]
    return [begin for begin, _ in ordered], ends, list(accumulate(ends, max))


def _inside(stretches: Stretches | None, at: int) -> bool:
    """Whether a moment lies within a stretch, not at its edge."""
    if stretches is None:
        return False
    begins, _, reach = stretches
    before = bisect_left(begins, at)
    return before > 0 and reach[before - 1] > at
