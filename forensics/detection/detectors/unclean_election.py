"""Unclean elections: a leader that was not in sync took over, and what it did not have is gone.

They are found in the history, not by a keyword: brokers under ZooKeeper do not log them.
Log ends, high watermarks and truncations bound how many records each election cost.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
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
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding, PartitionLoss, total_loss

NAME = "unclean-election"
_COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "started_at", "log_end", "manner", "replicas",
    "how", "evidence", "incarnation",
)  # fmt: skip
# How many partitions are looked at in one reading of the events, and more of them as long as they
# have fewer events together, ...
_AT_ONCE, _EVENTS_AT_ONCE = 100, 20_000
# ... and how many of a partition's events before and after each election.
_NEAREST = 1000
_LOSS_KINDS = (
    "partition_state",
    "log_loaded",
    "high_watermark_loaded",
    "isr_proposed",
    "truncated",
    "truncated_below_high_watermark",
    "fetch_reset",
)
_CUTS = ("truncated", "fetch_reset")
_LOSS_COLUMNS = (
    "topic", "partition", "kind", "ts", "node", "file", "line", "text", "rule", "telling", "broker",
    "leader", "leader_epoch", "log_end", "high_watermark", "cut_to",
)  # fmt: skip
_Partition = tuple[str, int]
# What one partition lost, and the lines that tell.
Bound = tuple[PartitionLoss, list[Row]]
# An incarnation of a topic, and a leader epoch in it.
_EpochKey = tuple[int, int]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for all unclean elections that follow each other closely."""
    rows = context.each("leadership", pc.field("clean") == False, _COLUMNS)  # noqa: E712
    # An old controller warns of data loss too where the only replica there is comes back.
    unclean = [row for row in rows if row["replicas"] != [row["leader"]]]
    _date_elections(context, [row for row in unclean if row["started_at"] is None])
    groups = [
        sorted(group, key=lambda row: (row["topic"], row["partition"]))
        for group in group_by_gap(unclean, context.limits[NAME]["stroke"])
    ]
    context.look_up(
        place for group in groups for row in _quoted(group) for place in row["evidence"]
    )
    losses = _bound_losses(context, list(chain.from_iterable(groups)))
    for group in groups:
        yield _finding(context, group, islice(losses, len(group)))


def _quoted(group: Iterable[Row]) -> list[Row]:
    """Return the first of a group's elections, whose lines are shown."""
    ordered = sorted(group, key=lambda row: (row["started_at"], row["topic"], row["partition"]))
    return ordered[:MAX_QUOTED_PARTITIONS]


def _date_elections(context: DetectionContext, undated: Sequence[Row]) -> None:
    """Date elections of which only lines that repeat them are left, by the first of these."""
    times: dict[tuple[str, int], int] = {}
    for line in context.read_lines(place for row in undated for place in row["evidence"]):
        if "at" in line:
            key = line["file"], line["line"]
            times[key] = min(line["at"], times.get(key, line["at"]))
    for row in undated:
        places = [(place["file"], place["line"]) for place in row["evidence"]]
        known = (times[place] for place in places if place in times)
        row["started_at"] = min(known, default=context.logs_end)


def _finding(context: DetectionContext, group: list[Row], bounds: Iterable[Bound]) -> Finding:
    losses: list[PartitionLoss] = []
    quoted, started = _quoted(group), [row["started_at"] for row in group]
    truncated = max(started)
    evidence = context.read_lines(place for row in quoted for place in row["evidence"])
    last_known = _elected_as_last_known(evidence, [partition_name(row) for row in quoted])
    for loss, lines in bounds:
        losses.append(loss)
        if loss.lost_records_max:
            cuts = (line["at"] for line in lines if line["kind"] in _CUTS)
            truncated = max([truncated, *cuts])
        # A finding shows a few lines; those of ten thousand partitions would only be thrown away.
        evidence += lines if len(losses) <= MAX_QUOTED_PARTITIONS else []
    leaders = {row["leader"] for row in group}
    previous = {loss.previous_leader for loss in losses if loss.previous_leader is not None}
    return context.finding(
        NAME,
        _severity(context, losses, last_known),
        _title(losses, leaders),
        min(started),
        # Until then what is lost still lies on a disk.
        truncated,
        evidence,
        stated=all(row["how"] == "observed" for row in group),
        brokers=sorted(leaders | previous),
        partitions=list(dict.fromkeys(partition_name(row) for row in group)),
        losses=losses,
        explanation=_explanation(context, losses, last_known, min(started)),
        actions=_actions(context, losses, last_known),
        why=_why(context, group, losses),
        doubts=_doubts(losses),
    )


def _why(context: DetectionContext, group: Sequence[Row], losses: Sequence[PartitionLoss]) -> str:
    gap = context.limits[NAME]["stroke"]
    count = sum(loss.lost_records_max is None for loss in losses)
    bounds = f"; for {count} no line bounds the loss" if count else ""
    return (
        f"{quantity(len(group), 'partition')} got a leader that was not in sync, no two more than "
        f"{gap} s apart{bounds}"
    )


def _doubts(losses: Sequence[PartitionLoss]) -> list[str]:
    """Return what would make it less bad, or wrong."""
    doubts = ["A topic that was deleted and made again under the same name looks like a lost log."]
    if any(loss.lost_records_max is None for loss in losses):
        doubts.append("If nobody wrote to the old leader at the end, nothing was lost.")
    if any(not loss.acknowledged_min for loss in losses):
        doubts.append("Records that were never acknowledged may be among those counted as lost.")
    return doubts


def _bound_losses(context: DetectionContext, group: Sequence[Row]) -> Iterator[Bound]:
    """Bound what each partition lost, some partitions in one reading."""
    for some in _read_together(context, group):
        events, leaders = _read_events(context, some), _find_previous_leaders(context, some)
        for row in some:
            partition = row["topic"], row["partition"]
            previous = leaders.get((*partition, *_epoch_key(row)))
            loss, lines = estimate_lost_records(
                row, previous, sorted(events[partition], key=by_time)
            )
            check = context.commands.leader_epochs(*partition, row["leader_epoch"], row["leader"])
            yield replace(loss, check=check), lines


def _read_together(context: DetectionContext, group: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the elections that are looked at in one reading: more of them where events are few.

    Each reading decodes the texts of all events of these kinds.
    """
    partitions = {(row["topic"], row["partition"]) for row in group}
    if not partitions:
        return
    counts: Counter[_Partition] = Counter()
    for batch in context.batches("events", _tells_loss(partitions), ["topic", "partition"]):
        found = pa.Table.from_batches([batch]).group_by(["topic", "partition"])
        for row in found.aggregate([([], "count_all")]).to_pylist():
            counts[row["topic"], row["partition"]] += row["count_all"]
    some: list[Row] = []
    held = 0
    for row in group:
        some.append(row)
        held += min(counts[row["topic"], row["partition"]], 4 * _NEAREST)
        if len(some) >= _AT_ONCE and held >= _EVENTS_AT_ONCE:
            yield some
            some, held = [], 0
    if some:
        yield some


def _tells_loss(partitions: Collection[_Partition]) -> pc.Expression:
    return pc.field("kind").isin(_LOSS_KINDS) & pc.field("ts").is_valid() & _is_one_of(partitions)


def _read_events(context: DetectionContext, some: Sequence[Row]) -> dict[_Partition, list[Row]]:
    """Read the events that bound a loss, of each partition the nearest to its elections."""
    starts: dict[_Partition, list[int]] = defaultdict(list)
    for row in some:
        starts[row["topic"], row["partition"]].append(row["started_at"])
    events: dict[_Partition, list[Row]] = {partition: [] for partition in starts}
    for row in context.each("events", _tells_loss(events), _LOSS_COLUMNS):
        partition = row["topic"], row["partition"]
        if partition in events:
            events[partition].append(row)
            if len(events[partition]) > 4 * _NEAREST:
                events[partition] = _keep_nearest(events[partition], starts[partition])
    return events


def _keep_nearest(rows: Sequence[Row], starts: Sequence[int]) -> list[Row]:
    ordered = sorted(rows, key=by_time)
    times = [row["at"] for row in ordered]
    kept: set[int] = set()
    for start in starts:
        index = bisect_left(times, start)
        kept.update(range(max(0, index - _NEAREST), min(len(rows), index + _NEAREST)))
    return [ordered[index] for index in sorted(kept)]


def _find_previous_leaders(
    context: DetectionContext, some: Sequence[Row]
) -> dict[tuple[str, int, int, int], int]:
    """Find who led last before each of the elections, where every epoch in between is known."""
    epochs: dict[_Partition, list[_EpochKey]] = defaultdict(list)
    for row in some:
        epochs[row["topic"], row["partition"]].append(_epoch_key(row))
    leaders: dict[_Partition, dict[_EpochKey, int | None]] = {one: {} for one in epochs}
    columns = ["topic", "partition", "incarnation", "leader_epoch", "leader"]
    for row in context.each("leadership", _is_one_of(epochs), columns):
        partition = row["topic"], row["partition"]
        if partition in leaders and _epoch_key(row) < max(epochs[partition]):
            leaders[partition][_epoch_key(row)] = row["leader"]
    return {
        (*partition, *epoch): leader
        for partition, elections in epochs.items()
        for epoch in elections
        if (leader := _last_leader_before(epoch, leaders[partition])) is not None
    }


def _epoch_key(row: Row) -> _EpochKey:
    return row["incarnation"] or 0, row["leader_epoch"]


def _last_leader_before(key: _EpochKey, leaders: Mapping[_EpochKey, int | None]) -> int | None:
    """Go back over epochs without a leader; None if one is reached whose leader is not known."""
    incarnation, epoch = key[0], key[1] - 1
    while leaders.get((incarnation, epoch)) == -1:
        epoch -= 1
    return leaders.get((incarnation, epoch))


def _is_one_of(partitions: Iterable[_Partition]) -> pc.Expression:
    """Select the rows of some partitions, and some more that only share a topic and a number."""
    topics, numbers = (sorted(set(each)) for each in zip(*partitions, strict=True))
    return in_topics(topics) & pc.field("partition").isin(pa.array(numbers, pa.int32()))


def estimate_lost_records(
    election: Row, previous: int | None, events: Sequence[Row]
) -> tuple[PartitionLoss, list[Row]]:
    """Bound what one partition lost, and return the lines that the bounds come from.

    `election` is the row of the unclean leader, `previous` the leader before, `events` those of the
    partition in order of time.
    """
    start, kept = election["started_at"], election["log_end"]
    old = [row for row in events if previous is not None and broker_id(row["node"]) == previous]
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
    tail, line = _find_tail(election, events)
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
        and _is_leading(row)
        and row["log_end"] is not None
        and row["log_end"] <= lost_from
    ]
    # From then on the new leader leads, and no producer writes to the old one.
    return (to_iso(max(short)) if short else None), to_iso(start)


def _find_old_end(
    old: Sequence[Row], start: int, cut: Row | None
) -> tuple[int | None, int | None, list[Row]]:
    """Find where the old leader's log ended: as it logs on its return, or as last seen before.

    What it logs after it cut its log, or after it leads again, is about another history.
    """
    leads = (row["at"] for row in old if row["at"] > start and _is_leading(row))
    until = min([*leads, *([cut["at"]] if cut else [])], default=None)
    valid = [row for row in old if until is None or row["at"] <= until]
    returned = [
        row
        for row in valid
        if row["at"] >= start
        and row["log_end"] is not None
        and row["kind"] in ("log_loaded", "partition_state")
        and not _is_leading(row)
    ]
    seen = [row for row in valid if _proven_end(row) is not None]
    last = max(seen, key=lambda row: (row["at"], _proven_end(row) or 0), default=None)
    first = returned[0] if returned else None
    places = [row for row in (last, first) if row is not None]
    return (
        first["log_end"] if first is not None else None,
        _proven_end(last) if last is not None else None,
        places,
    )


def _is_leading(row: Row) -> bool:
    leads = row["broker"] is not None and row["broker"] == row["leader"]
    return bool(leads and row["kind"] == "partition_state")


def _proven_end(row: Row) -> int | None:
    """Return the offset up to which a line proves that there were records."""
    if row["kind"] == "high_watermark_loaded":
        end = row["high_watermark"]
    else:
        end = row["log_end"] if row["kind"] in ("partition_state", "isr_proposed") else None
    return end if isinstance(end, int) else None


def _find_cut(old: Sequence[Row], start: int) -> Row | None:
    """Find the line by which the old leader cut its log to follow the new one."""
    cuts = [row for row in old if row["at"] >= start and row["kind"] in _CUTS]
    return min(cuts, key=lambda row: row["at"], default=None)


def _find_tail(election: Row, events: Sequence[Row]) -> tuple[dict[str, Any], Row | None]:
    """Find what the unclean leader itself cut when the next leader took over, and the line."""
    epoch = election["leader_epoch"]
    own = [row for row in events if broker_id(row["node"]) == election["leader"]]
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
            tail = {"from": low, "to": high, "records": high - low, "leader_epoch": epoch + 1}
            return {**tail, "cut_at": to_iso(row["at"])}, row
    return {}, None


def _severity(
    context: DetectionContext, losses: Sequence[PartitionLoss], last_known: Collection[str]
) -> str:
    limits = context.limits[NAME]
    if any(loss.lost_records_max or loss.lost_records_min for loss in losses):
        return str(limits["lost"])
    open_ones = {loss.partition for loss in losses if loss.lost_records_max is None}
    if open_ones and open_ones <= set(last_known):
        return str(limits["last_known"])
    return str(limits["unknown" if open_ones else "harmless"])


def _title(losses: Sequence[PartitionLoss], leaders: set[int]) -> str:
    brokers = ", ".join(f"broker {broker}" for broker in sorted(leaders))
    where = _partitions_text(losses)
    return f"Unclean election of {brokers} on {where}: {_loss_words(losses)}"


def _partitions_text(losses: Sequence[PartitionLoss]) -> str:
    """Count the partitions, and their elections if these are more."""
    number = len({loss.partition for loss in losses})
    often = f" ({len(losses)} times)" if number == 1 < len(losses) else ""
    often = often or (f" ({len(losses)} elections)" if number < len(losses) else "")
    return f"{quantity(number, 'partition')}{often}"


def _loss_words(losses: Sequence[PartitionLoss]) -> str:
    least, most = total_loss(losses)
    if most is None:
        if not least:
            return "whether records were lost is not in the logs"
        return f"at least {least:,} records lost"
    if not most:
        return "no records lost"
    return f"{least:,} records lost" if least == most else f"{least:,} to {most:,} records lost"


# The controller falls back on the last leader that it knew to have been in sync (KIP-966).
_LAST_KNOWN = re.compile(r"leader: -1 -> (\d+)\b.*lastKnownElr: \[\1\] -> \[\]")


def _elected_as_last_known(evidence: Iterable[Row], names: Collection[str]) -> set[str]:
    """Return the partitions that got the last leader that was known to be in sync."""
    lines = [line["text"] for line in evidence if _LAST_KNOWN.search(line["text"] or "")]
    return {name for name in names if any(f" {name} " in line for line in lines)}


_LAST = "last known"
_TRIGGERS = {
    "automatic": "On {where} no in-sync replica was alive, and the controller elected another one "
    "by itself, as unclean.leader.election.enable allows.",
    "manual": "On {where} an unclean election was ordered (kafka-leader-election.sh "
    "--election-type unclean), which needs no unclean.leader.election.enable.",
    _LAST: "On {where} no replica was in sync, and the controller elected the last leader that it "
    "knew to have been (lastKnownElr), which needs no unclean.leader.election.enable: what was "
    "committed is there, unless that broker lost data as it crashed.",
    "": "On {where} a replica that was not in sync became leader.",
}


def _by_manner(
    losses: Sequence[PartitionLoss], last_known: Collection[str]
) -> dict[str, list[PartitionLoss]]:
    """Group the elections by who chose the leader, and how."""
    found: dict[str, list[PartitionLoss]] = {}
    for loss in losses:
        known = loss.manner == "automatic" and loss.partition in last_known
        manner = _LAST if known else loss.manner if loss.manner in _TRIGGERS else ""
        found.setdefault(manner or "", []).append(loss)
    return found


def _explanation(
    context: DetectionContext,
    losses: Sequence[PartitionLoss],
    last_known: Collection[str],
    elected: int,
) -> str:
    certain = [loss for loss in losses if loss.lost_records_min or loss.lost_records_max]
    open_ones = sum(loss.lost_records_max is None for loss in losses)
    parts = [
        _TRIGGERS[manner].format(where=_partitions_text(own))
        for manner, own in sorted(_by_manner(losses, last_known).items())
    ]
    if certain:
        parts.append(
            "Records that only the leader before had are truncated when it returns to follow: "
            f"{_loss_words(losses)} on {len({one.partition for one in certain})} of "
            f"{quantity(len({one.partition for one in losses}), 'partition')}. "
            "Producers may hold acknowledgements for them; consumers that had already read them "
            "will see offsets reused."
        )
        parts += _describe_returns(context, certain, elected)
    if open_ones:
        what = "" if len({one.partition for one in losses}) == len(losses) else " elections"
        parts.append(
            f"For {open_ones} of {len(losses)}{what} the logs do not say whether any was lost."
        )
    if not certain and not open_ones:
        parts.append("No partition lost a record.")
    return " ".join(parts)


def _describe_returns(
    context: DetectionContext, losses: Sequence[PartitionLoss], elected: int
) -> Iterator[str]:
    """Say how soon those were back that had what was lost: what waiting would have cost."""
    owners = {loss.previous_leader for loss in losses} - {None}
    for absence in context.absences_around(owners, elected, elected):
        if absence.begin <= elected < (absence.end or 0):
            later = (absence.end or 0) - elected
            yield (
                f"Broker {absence.broker}, which had them, was back {later / SECOND:.0f} s after "
                "the election."
            )


def _actions(
    context: DetectionContext, losses: Sequence[PartitionLoss], last_known: Collection[str]
) -> list[str]:
    by_manner = _by_manner(losses, last_known)
    allowed, ordered = by_manner.get("automatic", []), by_manner.get("manual")
    actions = []
    if allowed:
        hurt = next((loss for loss in allowed if loss.lost_records_max != 0), allowed[0])
        topic = context.commands.topic_config(hurt.partition.rpartition("-")[0])
        actions.append(f"{topic}   # is unclean.leader.election.enable=true meant?")
    if ordered:
        actions.append(_ASK)
    worst = next((loss for loss in losses if loss.lost_records_max != 0), losses[0])
    # What was committed is there after an election of the last leader that was in sync.
    lost = worst.lost_records_max != 0 and (worst.lost_records_max or set(by_manner) != {_LAST})
    return [*actions, worst.check, *([_SEND_AGAIN] if lost else [])]


_ASK = (
    "Find out who ran kafka-leader-election.sh --election-type unclean, and why: wait for the "
    "replicas that were in sync as long as they can be brought back."
)
_SEND_AGAIN = (
    "Ask the producers of these partitions to send again what they sent between the last ISR "
    "shrink and the election; consumers' committed offsets beyond lost_from need a reset."
)
