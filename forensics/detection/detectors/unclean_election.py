"""Unclean elections: a leader that was not in sync took over, and what it did not have is gone.

Found in the history, not by a keyword: brokers under ZooKeeper log no word of it.

How many records an unclean election cost: bounds from log ends, high watermarks and cuts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import (
    MAX_QUOTED_PARTITIONS,
    DetectionContext,
    Row,
    by_time,
    group_by_gap,
    in_topics,
    partition_name,
)
from forensics.lib.formatting import quantity
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import to_iso
from forensics.run_output.findings import Finding, PartitionLoss, total_loss

LOSS_KINDS = (
    "partition_state",
    "log_loaded",
    "high_watermark_loaded",
    "isr_proposed",
    "truncated",
    "truncated_below_high_watermark",
    "fetch_reset",
)
LOSS_COLUMNS = (
    "topic", "partition", "kind", "ts", "node", "file", "line", "text", "rule", "telling", "broker",
    "leader", "leader_epoch", "log_end", "high_watermark", "cut_to",
)  # fmt: skip


def bound_loss(
    election: Row, previous: int | None, events: Sequence[Row], brokers: Mapping[str, int]
) -> tuple[PartitionLoss, list[Row]]:
    """Bound what one partition lost, and return the lines that the bounds come from.

    `election` is the row of the unclean leader, `previous` the leader before, `events` those of the
    partition in order of time, `brokers` the broker of each node.
    """
    start, kept = election["started_at"], election["log_end"]
    old = [row for row in events if previous is not None and brokers.get(row["node"]) == previous]
    cut = _find_cut(old, start)
    own_end, seen_end, places = _find_old_end(old, start, cut)
    if previous == election["leader"]:
        # It comes back to lead what it led: its log is the one that is kept.
        own_end, cut = kept, None
    if cut is not None:
        places.append(cut)
        kept = cut["cut_to"] if kept is None else min(kept, cut["cut_to"])
    lost_to, least, most, note = _bounds(kept, own_end, seen_end)
    written_from, written_to = (
        (None, None) if kept is None or most == 0 else _written_between(old, start, kept)
    )
    tail, line = _find_tail(election, events, brokers)
    if line is not None and most is not None:
        # Records of the unclean leader's own term went at the next change of leader. Whether they
        # belong to this loss is open, so they widen the upper bound only.
        most += tail["records"]
        places.append(line)
    epoch = election["leader_epoch"]
    loss = PartitionLoss(
        partition=partition_name(election),
        leader_epoch=epoch,
        leader=election["leader"],
        previous_leader=previous,
        lost_from=kept,
        lost_to=lost_to,
        lost_records_min=least,
        lost_records_max=most,
        note=note,
        acknowledged_min=_acknowledged(kept, lost_to, old, None if cut is None else cut["at"]),
        # With acks=1 all of them may have been acknowledged.
        acknowledged_max=most,
        written_from=written_from,
        written_to=written_to,
        manner=election.get("manner"),
        also_cut=[tail] if line is not None and most is not None else [],
    )
    return loss, places


def _bounds(
    kept: int | None, own_end: int | None, seen_end: int | None
) -> tuple[int | None, int, int | None, str]:
    """Return the offset behind the last lost record, how many were lost, and what is not known."""
    if kept is None:
        return None, 0, None, "no line says where the new leader's log ended"
    if own_end is not None:
        lost = max(0, own_end - kept)
        return max(own_end, kept), lost, lost, ""
    least = 0 if seen_end is None else max(0, seen_end - kept)
    return None, least, None, "no line says where the log of the leader before ended"


def _acknowledged(
    lost_from: int | None, lost_to: int | None, old: Sequence[Row], cut_at: int | None
) -> int | None:
    """Count the lost records that lay below the old leader's high watermark.

    They were acknowledged to producers with acks=all too. Null: no line tells of a high watermark.
    """
    marks: list[int] = [
        row["high_watermark"]
        for row in old
        if row["high_watermark"] is not None
        and row["kind"] != "log_loaded"
        # After the cut it is about another history; the line that warns of it comes just before.
        and (cut_at is None or row["at"] <= cut_at)
    ]
    if lost_from is None or not marks:
        return None
    until = max(marks) if lost_to is None else min(max(marks), lost_to)
    return max(0, until - lost_from)


def _written_between(old: Sequence[Row], start: int, lost_from: int) -> tuple[str | None, str]:
    """Return the moments between which the old leader wrote what was lost."""
    short = [
        row["at"]
        for row in old
        if row["at"] <= start
        and _is_lead(row)
        and row["log_end"] is not None
        and row["log_end"] <= lost_from
    ]
    # The new leader leads from then on, and nobody writes to the old one.
    return (to_iso(max(short)) if short else None), to_iso(start)


def _find_old_end(
    old: Sequence[Row], start: int, cut: Row | None
) -> tuple[int | None, int | None, list[Row]]:
    """Find where the old leader's log ended: as it says on its return, or as last seen before.

    What it says after it cut its log, or after it leads again, is about another history.
    """
    leads = (row["at"] for row in old if row["at"] > start and _is_lead(row))
    until = min([*leads, *([cut["at"]] if cut else [])], default=None)
    here = [row for row in old if until is None or row["at"] <= until]
    back = [
        row
        for row in here
        if row["at"] >= start
        and row["log_end"] is not None
        and row["kind"] in ("log_loaded", "partition_state")
        and not _is_lead(row)
    ]
    seen = [row for row in here if _reach(row) is not None]
    best = max(seen, key=lambda row: (row["at"], _reach(row) or 0), default=None)
    first = back[0] if back else None
    places = [row for row in (best, first) if row is not None]
    return (
        first["log_end"] if first is not None else None,
        _reach(best) if best is not None else None,
        places,
    )


def _is_lead(row: Row) -> bool:
    leads = row["broker"] is not None and row["broker"] == row["leader"]
    return bool(leads and row["kind"] == "partition_state")


def _reach(row: Row) -> int | None:
    """The offset up to which a line proves that there were records."""
    if row["kind"] == "high_watermark_loaded":
        return _number(row["high_watermark"])
    return _number(row["log_end"]) if row["kind"] in ("partition_state", "isr_proposed") else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _find_cut(old: Sequence[Row], start: int) -> Row | None:
    """Find the line by which the old leader cut its log to follow the new one."""
    cuts = [
        row for row in old if row["at"] >= start and row["kind"] in ("truncated", "fetch_reset")
    ]
    return min(cuts, key=lambda row: row["at"], default=None)


def _find_tail(
    election: Row, events: Sequence[Row], brokers: Mapping[str, int]
) -> tuple[dict[str, int], Row | None]:
    """Find what the unclean leader itself cut when the next leader took over, and the line."""
    epoch = election["leader_epoch"]
    own = [row for row in events if brokers.get(row["node"]) == election["leader"]]
    follows = next(
        (
            row
            for row in own
            if row["kind"] == "partition_state"
            and row["telling"] is None
            and row["log_end"] is not None
            and row["leader"] != election["leader"]
            and (row["leader_epoch"] or 0) == epoch + 1
        ),
        None,
    )
    if follows is None:
        return {}, None
    for row in own:
        later = row["kind"] == "truncated" and row["at"] >= follows["at"]
        if later and row["cut_to"] is not None and row["cut_to"] < follows["log_end"]:
            low, high = row["cut_to"], follows["log_end"]
            return {"from": low, "to": high, "records": high - low, "leader_epoch": epoch + 1}, row
    return {}, None


NAME = "unclean-election"
_COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "started_at", "log_end", "manner", "replicas",
    "how", "evidence",
)  # fmt: skip
# So many partitions are looked at in one reading of the events, ...
_AT_ONCE = 100
# ... and so many of a partition's events before and after each election.
_NEAREST = 1000
Key = tuple[str, int]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each stroke of unclean elections."""
    rows = context.each("leadership", pc.field("clean") == False, _COLUMNS)  # noqa: E712
    # An old controller warns of data loss too where the only replica there is comes back.
    unclean = [row for row in rows if row["replicas"] != [row["leader"]]]
    _date(context, [row for row in unclean if row["started_at"] is None])
    for group in group_by_gap(unclean, context.limits[NAME]["stroke"]):
        yield _finding(context, sorted(group, key=lambda one: (one["topic"], one["partition"])))


def _date(context: DetectionContext, timeless: Sequence[Row]) -> None:
    """Date elections of which only lines that repeat them are left: by the first, at the latest."""
    told: dict[tuple[str, int], int] = {}
    for place in context.read_lines(one for row in timeless for one in row["evidence"]):
        if "at" in place:
            where = place["file"], place["line"]
            told[where] = min(place["at"], told.get(where, place["at"]))
    for row in timeless:
        places = [(one["file"], one["line"]) for one in row["evidence"]]
        row["started_at"] = min(
            (told[one] for one in places if one in told), default=context.logs_end
        )


def _finding(context: DetectionContext, group: list[Row]) -> Finding:
    losses: list[PartitionLoss] = []
    earliest = sorted(group, key=lambda row: (row["started_at"], row["topic"], row["partition"]))
    places: list[Mapping[str, Any]] = []
    places += context.read_lines(
        one for row in earliest[:MAX_QUOTED_PARTITIONS] for one in row["evidence"]
    )
    for loss, lines in _losses(context, group):
        losses.append(loss)
        # A finding shows a few lines; those of ten thousand partitions would only be thrown away.
        places += lines if len(losses) <= MAX_QUOTED_PARTITIONS else []
    leaders = {row["leader"] for row in group}
    before = {loss.previous_leader for loss in losses if loss.previous_leader is not None}
    begin = min(row["started_at"] for row in group)
    end = max([begin, *(row["started_at"] for row in group)])
    stated = all(row["how"] == "observed" for row in group)
    return context.finding(
        NAME,
        _severity(context, losses),
        _title(losses, leaders),
        begin,
        end,
        places,
        stated=stated,
        brokers=sorted(leaders | before),
        partitions=[partition_name(row) for row in group],
        losses=losses,
        explanation=_explanation(losses),
        actions=_actions(context, losses),
        why=_why(context, group, losses),
        doubts=_doubts(losses),
    )


def _why(context: DetectionContext, group: Sequence[Row], losses: Sequence[PartitionLoss]) -> str:
    gap = context.limits[NAME]["stroke"]
    count = sum(loss.lost_records_max is None for loss in losses)
    bounds = f"; for {count} no line bounds the loss" if count else ""
    return (
        f"{len(group)} partitions got a leader that was not in sync, no two more than {gap} s "
        f"apart{bounds}"
    )


def _doubts(losses: Sequence[PartitionLoss]) -> list[str]:
    """Say what would make it less bad, or wrong."""
    told = ["A topic that was deleted and made again under the same name looks like a lost log."]
    if any(loss.lost_records_max is None for loss in losses):
        told.append("If nobody wrote to the old leader at the end, nothing was lost.")
    if any(not loss.acknowledged_min for loss in losses):
        told.append("Records that were never acknowledged may be among those counted as lost.")
    return told


def _losses(
    context: DetectionContext, group: Sequence[Row]
) -> Iterator[tuple[PartitionLoss, list[Row]]]:
    """Bound what each partition lost, some partitions in one reading."""
    for begin in range(0, len(group), _AT_ONCE):
        some = group[begin : begin + _AT_ONCE]
        events, leaders = _events(context, some), _leaders(context, some)
        for row in some:
            here = sorted(events[row["topic"], row["partition"]], key=by_time)
            brokers = {
                one["node"]: broker
                for one in here
                if (broker := broker_id(one["node"])) is not None
            }
            previous = leaders.get((row["topic"], row["partition"], row["leader_epoch"]))
            loss, places = bound_loss(row, previous, here, brokers)
            check = context.commands.leader_epochs(
                row["topic"], row["partition"], row["leader_epoch"]
            )
            yield replace(loss, check=check), places


def _events(context: DetectionContext, some: Sequence[Row]) -> dict[Key, list[Row]]:
    """Read the events that tell of a loss, of each partition the nearest to its elections."""
    found: dict[Key, list[Row]] = {(row["topic"], row["partition"]): [] for row in some}
    starts: dict[Key, list[int]] = {key: [] for key in found}
    for row in some:
        starts[row["topic"], row["partition"]].append(row["started_at"])
    where = pc.field("kind").isin(LOSS_KINDS) & pc.field("ts").is_valid() & _of(found)
    for row in context.each("events", where, LOSS_COLUMNS):
        key = row["topic"], row["partition"]
        if key in found:
            found[key].append(row)
            if len(found[key]) > 4 * _NEAREST:
                found[key] = _nearest(found[key], starts[key])
    return found


def _nearest(rows: list[Row], starts: Sequence[int]) -> list[Row]:
    ordered = sorted(rows, key=by_time)
    moments = [row["at"] for row in ordered]
    kept: set[int] = set()
    for start in starts:
        at = bisect_left(moments, start)
        kept.update(range(max(0, at - _NEAREST), min(len(rows), at + _NEAREST)))
    return [ordered[at] for at in sorted(kept)]


def _leaders(context: DetectionContext, some: Sequence[Row]) -> dict[tuple[str, int, int], int]:
    """Find who led last before each of the elections, where every epoch in between is known."""
    wanted: dict[Key, list[int]] = {}
    for row in some:
        wanted.setdefault((row["topic"], row["partition"]), []).append(row["leader_epoch"])
    reigns: dict[Key, dict[int, int | None]] = {key: {} for key in wanted}
    columns = ["topic", "partition", "leader_epoch", "leader"]
    for row in context.each("leadership", _of(wanted), columns):
        key = row["topic"], row["partition"]
        if key in reigns and row["leader_epoch"] < max(wanted[key]):
            reigns[key][row["leader_epoch"]] = row["leader"]
    last = {
        (*key, epoch): _last_before(epoch, reigns[key])
        for key, epochs in wanted.items()
        for epoch in epochs
    }
    return {where: leader for where, leader in last.items() if leader is not None}


def _last_before(epoch: int, reigns: Mapping[int, int | None]) -> int | None:
    """Go back over epochs without a leader; one of which nobody knows who led it ends the way."""
    epoch -= 1
    while reigns.get(epoch) == -1:
        epoch -= 1
    return reigns.get(epoch)


def _of(keys: Iterable[Key]) -> pc.Expression:
    """Choose the rows of some partitions, and some more that only share a topic and a number."""
    topics, numbers = (sorted(set(values)) for values in zip(*keys, strict=True))
    return in_topics(topics) & pc.field("partition").isin(pa.array(numbers, pa.int32()))


def _severity(context: DetectionContext, losses: Sequence[PartitionLoss]) -> str:
    limits = context.limits[NAME]
    if any(loss.lost_records_max or loss.lost_records_min for loss in losses):
        return str(limits["lost"])
    open_ones = any(loss.lost_records_max is None for loss in losses)
    return str(limits["unknown" if open_ones else "harmless"])


def _title(losses: Sequence[PartitionLoss], leaders: set[int]) -> str:
    who = ", ".join(f"broker {one}" for one in sorted(leaders))
    where = quantity(len(losses), "partition")
    return f"Unclean election of {who} on {where}: {_loss_words(losses)}"


def _loss_words(losses: Sequence[PartitionLoss]) -> str:
    least, most = total_loss(losses)
    if most is None:
        if not least:
            return "records may be lost, no line says how many"
        return f"at least {least:,} records lost, not bounded above"
    if not most:
        return "no records lost"
    return f"{least:,} records lost" if least == most else f"{least:,} to {most:,} records lost"


_WILLS = {
    "automatic": "The controller chose it by itself, as unclean.leader.election.enable allows. ",
    "manual": "Somebody ordered it: the controller was asked for an unclean election. ",
}


def _explanation(losses: Sequence[PartitionLoss]) -> str:
    sure = [loss for loss in losses if loss.lost_records_min or loss.lost_records_max]
    open_ones = sum(loss.lost_records_max is None for loss in losses)
    count = f"{len(sure)} of {len(losses)} partitions lost records"
    told = f"{count}: {_loss_words(losses)}. " if sure else ""
    if open_ones:
        told += f"Of {open_ones} of {len(losses)} no line bounds what was lost, if anything was. "
    manners = {loss.manner for loss in losses}
    will = _WILLS.get(str(manners.pop()), "") if len(manners) == 1 else ""
    return will + (
        "No replica of the in-sync set was alive, and a replica outside it became leader. Records "
        "that only the leader before had are cut from its log when it comes back to follow. "
        f"{told or 'No partition lost a record. '}Producers may hold acknowledgements for what is "
        "cut; consumers that had read on see offsets used again."
    )


def _actions(context: DetectionContext, losses: Sequence[PartitionLoss]) -> list[str]:
    hurt = next((loss for loss in losses if loss.lost_records_max != 0), losses[0])
    topic = hurt.partition.rpartition("-")[0]
    config = (
        f"{context.commands.topic_config(topic)}   # is unclean.leader.election.enable=true meant?"
    )
    return [config, hurt.check, _SEND_AGAIN]


_SEND_AGAIN = (
    "Ask the producers of these partitions to send again what they sent between the last ISR "
    "shrink and the election; consumers' committed offsets beyond lost_from need a reset."
)
