"""What Kafka guarantees of every partition; where two lines break an invariant, both are kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.observations import Observation, Observations
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import MINUTE

# A replica's log that is deleted may be the end of its topic.
DELETION_KINDS = ("log_deleted",)
# Nodes hear of a deletion, and hang, within that; near it nothing is compared.
_DELETION_SLACK = MINUTE
# Of one invariant that a partition breaks again and again, so many breaches are kept.
_MAX_KEPT = 3

Absences = Sequence[Absence]
Breaches = Iterator[dict[str, Any]]


def find_breaches(observations: Observations, ends: Sequence[int], absences: Absences) -> Breaches:
    """Yield rows of BREACHES for one partition: a few of each kind, with how many there were.

    `observations` are in the order of time; `ends` are the moments at which a topic of that name
    was deleted: what was logged before and after is about two partitions.
    """
    kept: dict[str, list[dict[str, Any]]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for lines in split_at_recreation(observations, ends):
        for breach in _breaches_of_topic(lines, absences):
            name = breach["invariant"]
            counts[name] += 1
            if counts[name] <= _MAX_KEPT:
                kept[name].append(breach)
    for name, rows in kept.items():
        yield from (row | {"count": counts[name]} for row in rows)


def split_at_recreation(observations: Observations, ends: Sequence[int]) -> Iterator[Observations]:
    """Split observations by the topics of one name they are about.

    A topic that is deleted and created again begins at epoch 0 again: where epochs do that, or
    where a deletion is logged, nothing from before is held against what comes after.
    """
    begin = 0
    for border in sorted({*ends, *_find_restarts(observations)}):
        end = bisect_left(observations, border - _DELETION_SLACK, key=attrgetter("at"))
        if end > begin:
            yield observations[begin:end]
        after = bisect_right(observations, border + _DELETION_SLACK, key=attrgetter("at"))
        begin = max(begin, after)
    yield observations[begin:] if begin else observations


def _find_restarts(observations: Observations) -> Iterator[int]:
    """Find where a node that knew later epochs logs the very first state, as news."""
    grown: dict[str, bool] = {}
    for line in observations:
        if line.leader_epoch is None or not line.is_new:
            continue
        young = line.leader_epoch == 0 and not line.partition_epoch and not line.log_end
        if young and grown.get(line.node):
            yield line.at
            grown[line.node] = False
        elif line.leader_epoch > 0 or (line.partition_epoch or 0) > 0:
            grown[line.node] = True


def _breaches_of_topic(lines: Observations, absences: Absences) -> Breaches:
    # There may be a million states: numbers are held of each, and lines only of what is suspect.
    for line in lines:
        yield from _breaches_of_line(line, absences)
    yield from _outside_replicas(lines, absences)
    yield from _two_leaders(lines, absences)
    yield from _falling_epochs(lines, absences)


def _breaches_of_line(line: Observation, absences: Absences) -> Breaches:
    leads = line.leader is not None and line.leader >= 0
    outside = line.isr is not None and line.leader not in line.isr
    if leads and outside and line.recovery != "RECOVERING":
        detail = f"leader {line.leader} is not in the ISR {list(line.isr or ())}"
        yield _breach("leader in ISR", detail, [line], absences)
    if line.log_end is not None and (line.high_watermark or 0) > line.log_end:
        detail = f"high watermark {line.high_watermark} is beyond the log's end {line.log_end}"
        yield _breach("high watermark within log", detail, [line], absences)


def _outside_replicas(lines: Observations, absences: Absences) -> Breaches:
    known = {line.replicas for line in lines if line.replicas}
    always = set.intersection(*map(set, known)) if known else set()
    suspect = [line for line in lines if known and line.isr and not always.issuperset(line.isr)]
    versions = {line.partition_epoch for line in suspect} - {None}
    by_version: dict[int | None, Observation] = {}
    for line in lines if versions else ():
        if line.replicas and line.partition_epoch in versions:
            by_version.setdefault(line.partition_epoch, line)
    for line in suspect:
        other = line if line.replicas else by_version.get(line.partition_epoch)
        if other is not None and not set(line.isr or ()) <= set(other.replicas or ()):
            isr, replicas = list(line.isr or ()), list(other.replicas or ())
            detail = f"ISR {isr} is not within the replicas {replicas}"
            both = [line] if other is line else [line, other]
            yield _breach("ISR within replicas", detail, both, absences)


def _two_leaders(lines: Observations, absences: Absences) -> Breaches:
    first: dict[int, int] = {}
    contested: dict[int, dict[int, dict[str, Observation]]] = {}
    for line in lines:
        epoch, leader = line.leader_epoch, line.leader
        if epoch is None or epoch < 0 or leader is None:
            continue
        if first.setdefault(epoch, leader) != leader:
            contested.setdefault(epoch, defaultdict(dict))
    for line in lines if contested else ():
        if line.leader_epoch in contested and line.leader is not None:
            contested[line.leader_epoch][line.leader].setdefault(line.node, line)
    for epoch, named in sorted(contested.items()):
        # The leader that most nodes name comes first; a tie goes to the smaller, so that the order
        # of lines does not matter.
        leader, *others = sorted(named, key=lambda leader: (-len(named[leader]), leader))
        for other in others:
            detail = f"epoch {epoch} is said to be led by {leader} and by {other}"
            both = [_earliest(named[leader].values()), _earliest(named[other].values())]
            alone = len(named[other]) == 1 and _was_away(both[1], absences)
            yield _breach("one leader per epoch", detail, both, absences) | {"alone": alone}


def _falling_epochs(lines: Observations, absences: Absences) -> Breaches:
    pairs = list(_find_falls(lines))
    wanted = {state for pair in pairs for state in pair}
    first: dict[tuple[int | None, int | None], Observation] = {}
    for line in lines if wanted else ():
        state = line.partition_epoch, line.leader_epoch
        if state in wanted:
            first.setdefault(state, line)
    for before, after in pairs:
        detail = (
            f"leader epoch {after[1]} at partition epoch {after[0]} comes after "
            f"leader epoch {before[1]} at {before[0]}"
        )
        both = [first[before], first[after]]
        alone = any(_was_away(line, absences) for line in both)
        yield _breach("epochs never fall", detail, both, absences) | {"alone": alone}


def _find_falls(lines: Observations) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Find pairs of partition and leader epoch of which the later partition epoch has the lower."""
    ranges: dict[int, tuple[int, int]] = {}
    for line in lines:
        version, epoch = line.partition_epoch, line.leader_epoch
        if version is not None and version >= 0 and epoch is not None and epoch >= 0:
            low, high = ranges.get(version, (epoch, epoch))
            ranges[version] = min(low, epoch), max(high, epoch)
    top: tuple[int, int] | None = None
    for version in sorted(ranges):
        low, high = ranges[version]
        if top is not None and low < top[1]:
            yield top, (version, low)
        if top is None or high > top[1]:
            top = version, high


def _earliest(lines: Iterable[Observation]) -> Observation:
    return min(lines, key=lambda line: line.sort_key)


def _was_away(line: Observation, absences: Absences) -> bool:
    """Return True if the node was away around then, and may have logged the past."""
    broker = broker_id(line.node)
    return any(
        absence.broker == broker
        and absence.begin - MINUTE <= line.at
        and (absence.end is None or line.at <= absence.end + MINUTE)
        for absence in absences
    )


def _breach(invariant: str, detail: str, lines: Observations, absences: Absences) -> dict[str, Any]:
    last = lines[-1]
    return {
        "table": "breaches",
        "invariant": invariant,
        "detail": detail,
        "leader_epoch": last.leader_epoch,
        "partition_epoch": last.partition_epoch,
        "started_at": last.at,
        "alone": _was_away(last, absences),
        "evidence": [{"file": line.file, "line": line.line} for line in lines],
    }
