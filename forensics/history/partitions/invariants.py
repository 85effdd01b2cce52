"""What Kafka promises of every partition; where two lines break a promise, both are kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.observations import Observation
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import MINUTE

# A replica's log that is deleted may be the end of its topic.
DELETION_KINDS = ("log_deleted",)
# Nodes hear of a deletion, and hang, within that; near it nothing is compared.
_BLUR = 60_000_000
# Of one promise that a partition breaks again and again, that many breaches are told.
_TOLD = 3


def find_breaches(
    said: Sequence[Observation], ends: Sequence[int], away: Sequence[Absence]
) -> Iterator[dict[str, Any]]:
    """Yield rows of BREACHES for one partition: a few of each kind, with how many there were.

    `said` is in the order of time; `ends` are the moments at which a topic of that name was
    deleted: what was said before and after is about two partitions.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    counts: dict[str, int] = {}
    for life in split_at_recreation(said, ends):
        for breach in _of_one_life(life, away):
            name = breach["invariant"]
            counts[name] = counts.get(name, 0) + 1
            if counts[name] <= _TOLD:
                found.setdefault(name, []).append(breach)
    for name, rows in found.items():
        yield from (row | {"count": counts[name]} for row in rows)


def split_at_recreation(
    said: Sequence[Observation], ends: Sequence[int]
) -> Iterator[Sequence[Observation]]:
    """Part statements by the topics of one name they are about.

    A topic that is deleted and created again begins at epoch 0 again: where epochs do that, or
    where a deletion is told, nothing from before is held against what comes after.
    """
    borders = sorted({*ends, *_restarts(said)})
    if not borders:
        yield said
        return
    moments = [one.at for one in said]
    begin = 0
    for border in borders:
        end = bisect_left(moments, border - _BLUR)
        if end > begin:
            yield said[begin:end]
        begin = max(begin, bisect_right(moments, border + _BLUR))
    yield said[begin:]


def _restarts(said: Sequence[Observation]) -> Iterator[int]:
    """Find where a node that knew later epochs tells of the very first state, as news."""
    grown: dict[str, bool] = {}
    for one in said:
        if one.leader_epoch is None or not one.is_new:
            continue
        young = one.leader_epoch == 0 and not one.partition_epoch and not one.log_end
        if young and grown.get(one.node):
            yield one.at
            grown[one.node] = False
        elif one.leader_epoch > 0 or (one.partition_epoch or 0) > 0:
            grown[one.node] = True


def _of_one_life(said: Sequence[Observation], away: Sequence[Absence]) -> Iterator[dict[str, Any]]:
    # There may be a million states: numbers are held of each, and lines only of what is suspect.
    for one in said:
        yield from _of_one_line(one, away)
    yield from _outside_replicas(said, away)
    yield from _two_leaders(said, away)
    yield from _falls(said, away)


def _of_one_line(one: Observation, away: Sequence[Absence]) -> Iterator[dict[str, Any]]:
    leads = one.leader is not None and one.leader >= 0
    if leads and one.isr is not None and one.leader not in one.isr and not _is_unclean(one):
        detail = f"leader {one.leader} is not in the ISR {list(one.isr)}"
        yield _breach("leader in ISR", detail, [one], away)
    if one.log_end is not None and (one.high_watermark or 0) > one.log_end:
        detail = f"high watermark {one.high_watermark} is beyond the log's end {one.log_end}"
        yield _breach("high watermark within log", detail, [one], away)


def _is_unclean(one: Observation) -> bool:
    return one.recovery == "RECOVERING"


def _outside_replicas(
    said: Sequence[Observation], away: Sequence[Absence]
) -> Iterator[dict[str, Any]]:
    known = {one.replicas for one in said if one.replicas}
    always = set.intersection(*map(set, known)) if known else set()
    suspect = [one for one in said if known and one.isr and not always.issuperset(one.isr)]
    versions = {one.partition_epoch for one in suspect} - {None}
    named: dict[int | None, Observation] = {}
    for one in said if versions else ():
        if one.replicas and one.partition_epoch in versions:
            named.setdefault(one.partition_epoch, one)
    for one in suspect:
        other = one if one.replicas else named.get(one.partition_epoch)
        if other is not None and not set(one.isr or ()) <= set(other.replicas or ()):
            isr, replicas = list(one.isr or ()), list(other.replicas or ())
            detail = f"ISR {isr} is not within the replicas {replicas}"
            yield _breach(
                "ISR within replicas", detail, [one] if other is one else [one, other], away
            )


def _two_leaders(said: Sequence[Observation], away: Sequence[Absence]) -> Iterator[dict[str, Any]]:
    first: dict[int, int] = {}
    torn: dict[int, dict[int, dict[str, Observation]]] = {}
    for one in said:
        epoch, leader = one.leader_epoch, one.leader
        if epoch is None or epoch < 0 or leader is None:
            continue
        if first.setdefault(epoch, leader) != leader:
            torn.setdefault(epoch, {})
    for one in said if torn else ():
        if one.leader_epoch in torn and one.leader is not None:
            torn[one.leader_epoch].setdefault(one.leader, {}).setdefault(one.node, one)
    for epoch, named in sorted(torn.items()):
        # Whom most nodes name comes first; a tie goes to the smaller, so no order matters.
        most, *others = sorted(named, key=lambda leader: (-len(named[leader]), leader))
        for other in others:
            detail = f"epoch {epoch} is said to be led by {most} and by {other}"
            pair = [_first(named[most].values()), _first(named[other].values())]
            alone = len(named[other]) == 1 and _hung(pair[1], away)
            yield _breach("one leader per epoch", detail, pair, away) | {"alone": alone}


def _falls(said: Sequence[Observation], away: Sequence[Absence]) -> Iterator[dict[str, Any]]:
    pairs = list(_fallen(said))
    wanted = {state for pair in pairs for state in pair}
    lines: dict[tuple[int | None, int | None], Observation] = {}
    for one in said if wanted else ():
        state = one.partition_epoch, one.leader_epoch
        if state in wanted:
            lines.setdefault(state, one)
    for before, after in pairs:
        detail = (
            f"leader epoch {after[1]} at partition epoch {after[0]} comes after "
            f"leader epoch {before[1]} at {before[0]}"
        )
        both = [lines[before], lines[after]]
        breach = _breach("epochs never fall", detail, both, away)
        yield breach | {"alone": any(_hung(line, away) for line in both)}


def _fallen(said: Sequence[Observation]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Find pairs of partition and leader epoch of which the later partition epoch has the lower."""
    lowest: dict[int, int] = {}
    highest: dict[int, int] = {}
    for one in said:
        version, epoch = one.partition_epoch, one.leader_epoch
        if version is not None and version >= 0 and epoch is not None and epoch >= 0:
            low = lowest.setdefault(version, epoch)
            if epoch != low:
                lowest[version] = min(low, epoch)
                highest[version] = max(highest.get(version, low), epoch)
    top: tuple[int, int] | None = None
    for version in sorted(lowest):
        if top is not None and lowest[version] < top[1]:
            yield top, (version, lowest[version])
        most = highest.get(version, lowest[version])
        if top is None or most > top[1]:
            top = version, most


def _first(said: Iterable[Observation]) -> Observation:
    return min(said, key=lambda one: one.sort_key)


def _hung(one: Observation, away: Sequence[Absence]) -> bool:
    """Whether the node that says so was away around then, and may have spoken of the past."""
    broker = broker_id(one.node)
    return any(
        absence.broker == broker
        and absence.begin - MINUTE <= one.at
        and (absence.end is None or one.at <= absence.end + MINUTE)
        for absence in away
    )


def _breach(
    invariant: str, detail: str, lines: Sequence[Observation], away: Sequence[Absence]
) -> dict[str, Any]:
    one = lines[-1]
    return {
        "table": "breaches",
        "invariant": invariant,
        "detail": detail,
        "leader_epoch": one.leader_epoch,
        "partition_epoch": one.partition_epoch,
        "started_at": one.at,
        "alone": _hung(one, away),
        "evidence": [{"file": line.file, "line": line.line} for line in lines],
    }
