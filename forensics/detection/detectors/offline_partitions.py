"""Partitions without a leader: nobody can write to them or read from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import (
    MAX_QUOTED_PARTITIONS,
    DetectionContext,
    Row,
    group_by_gap,
    partition_name,
)
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "offline-partitions"
_COLUMNS = (
    "topic", "partition", "leader_epoch", "started_at", "ended_at", "previous_leader",
    "previous_isr", "replicas",
)  # fmt: skip
_KEPT = (*_COLUMNS[:-2], "since")
_EpochKey = tuple[str, int, int]
# Brokers that are stopped together do not log it in the same second.
_NEAR = 10 * SECOND


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each moment in which partitions lost their leader."""
    gap = context.limits[NAME]["stroke"]
    groups = [
        (rows, is_planned)
        for group in group_by_gap(_read_leaderless_epochs(context), gap, "since")
        for is_planned in (True, False)
        if (rows := [row for row in group if row["planned"] is is_planned])
    ]
    quoted = [row for rows, _ in groups for row in rows[:MAX_QUOTED_PARTITIONS]]
    lines = _read_epoch_lines(context, {_key(row) for row in quoted})
    for rows, is_planned in groups:
        evidence = [line for row in rows[:MAX_QUOTED_PARTITIONS] for line in lines[_key(row)]]
        yield _finding(context, rows, evidence, is_planned=is_planned)


def _read_leaderless_epochs(context: DetectionContext) -> Iterator[Row]:
    """Read the epochs without a leader; of each only what is needed of many."""
    # Many partitions, few sets of brokers.
    sets: dict[tuple[int, ...], tuple[int, ...]] = {}
    for row in context.each("leadership", pc.field("leader") == -1, _COLUMNS):
        row["since"] = row["started_at"] if row["started_at"] is not None else row["ended_at"]
        if row["since"] is not None:
            candidates = tuple(row["previous_isr"] or row["replicas"] or ())
            yield {name: row[name] for name in _KEPT} | {
                "planned": _is_planned(context, row),
                "candidates": sets.setdefault(candidates, candidates),
            }


def _key(row: Row) -> _EpochKey:
    return row["topic"], row["partition"], row["leader_epoch"]


def _read_epoch_lines(
    context: DetectionContext, keys: Collection[_EpochKey]
) -> Mapping[_EpochKey, Sequence[Row]]:
    """Look up the lines that some of the epochs cite."""
    columns = ["topic", "partition", "leader_epoch", "evidence"]
    cited = {
        _key(row): row["evidence"]
        for row in context.each("leadership", pc.field("leader") == -1, columns)
        if _key(row) in keys
    }
    lines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for line in context.read_lines(place for places in cited.values() for place in places):
        lines[line["file"], line["line"]].append(line)
    found: dict[_EpochKey, list[Row]] = defaultdict(list)
    for key, places in cited.items():
        for place in places:
            found[key] += lines[place["file"], place["line"]]
    return found


def _is_planned(context: DetectionContext, row: Row) -> bool:
    """Return True if the leader was being stopped; if unknown, all that could have led."""
    stopping = {
        absence.broker
        for absence in context.absences
        if absence.kind == "controlled"
        and absence.begin - _NEAR <= row["since"]
        and (absence.end is None or row["since"] <= absence.end)
    }
    leader = row["previous_leader"]
    if leader is not None and leader >= 0:
        return leader in stopping
    candidates = set(row["previous_isr"] or row["replicas"] or context.history.lanes.brokers)
    return candidates <= stopping


def _finding(
    context: DetectionContext, group: list[Row], evidence: Sequence[Row], *, is_planned: bool
) -> Finding:
    lengths = [
        ((row["ended_at"] if row["ended_at"] is not None else context.logs_end) - row["since"])
        / SECOND
        for row in group
    ]
    longest = max(lengths)
    names = sorted({partition_name(row) for row in group})
    begin = min(row["since"] for row in group)
    end = max([begin, *(row["ended_at"] or context.logs_end for row in group)])
    still = sum(row["ended_at"] is None for row in group)
    return context.finding(
        NAME,
        _severity(context, still, longest, is_planned=is_planned),
        _title(names, longest, still, is_planned=is_planned),
        begin,
        end,
        evidence,
        brokers=sorted(
            {row["previous_leader"] for row in group if row["previous_leader"] not in (None, -1)}
        ),
        partitions=names,
        measures={
            "partitions": len(names),
            "partition_seconds": round(sum(max(0.0, length) for length in lengths), 1),
            "longest_s": round(longest, 1),
            "still": still,
        },
        explanation=_PLANNED if is_planned else _UNPLANNED,
        actions=_actions(context, group, still, is_planned=is_planned),
        why=_why(context, len(names), longest, still, is_planned=is_planned),
        doubts=_DOUBTS_PLANNED if is_planned else _DOUBTS,
    )


def _severity(context: DetectionContext, still: int, longest: float, *, is_planned: bool) -> str:
    limits = context.limits[NAME]
    if is_planned:
        return str(limits["planned"])
    if still:
        return str(limits["open"])
    if longest < limits["blink"]:
        return str(limits["blinked"])
    return str(limits["long"] if longest > limits["short"] else limits["brief"])


def _why(
    context: DetectionContext, count: int, longest: float, still: int, *, is_planned: bool
) -> str:
    if is_planned:
        return f"{count} partitions were without a leader; all that led them were being stopped"
    short = context.limits[NAME]["short"]
    last = f"; {still} of them to the end of the logs" if still else ""
    return (
        f"{count} partitions had no leader for up to {longest:.1f} s, clients bear {short} s{last}"
    )


def _actions(
    context: DetectionContext, group: Sequence[Row], still: int, *, is_planned: bool
) -> list[str]:
    if is_planned:
        return ["Nothing to do if all brokers were meant to stop."]
    brokers = sorted(
        {broker for row in group if row["ended_at"] is None for broker in row["candidates"]}
    )
    first = f"{context.commands.unavailable()}   # which have no leader now?"
    if not still:
        return [first, context.commands.topic(group[0]["topic"])]
    names = ", ".join(str(broker) for broker in brokers[:5])
    start = f"Start the brokers that were last in sync: {names}. " if names else ""
    return [first, start + _WAIT]


def _title(names: list[str], longest: float, still: int, *, is_planned: bool) -> str:
    count = f"{len(names)} partition{'s' if len(names) > 1 else ''}"
    if is_planned:
        return f"{count} without a leader while their brokers were shut down in order"
    last = ", some of them to the end of these logs" if still else ""
    return f"{count} without a leader, up to {longest:.1f} s{last}"


_PLANNED = "Their leader stopped in order and no other replica in sync was left to take over."
_UNPLANNED = (
    "No replica that could lead was alive, so the controller left these partitions without a "
    "leader. Producers and consumers of them waited."
)
_DOUBTS = ["A leader elected by a controller whose log is missing here would end this earlier."]
_DOUBTS_PLANNED = ["Somebody may have stopped one broker too many without meaning to."]
_WAIT = (
    "Do not elect a leader out of sync (unclean) while one of them can still be brought back: what "
    "only it has would be lost."
)
