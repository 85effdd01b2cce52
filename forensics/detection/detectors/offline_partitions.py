"""Partitions without a leader: nobody can write to them or read from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
# Brokers that are stopped together do not say so in the same second.
_NEAR = 10 * SECOND


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each stroke by which partitions lost their leader."""
    parts = [
        (part, is_planned)
        for group in group_by_gap(_offline(context), context.limits[NAME]["stroke"], "since")
        for is_planned in (True, False)
        if (part := [row for row in group if row["planned"] is is_planned])
    ]
    places = _places(context, [row for part, _ in parts for row in part[:MAX_QUOTED_PARTITIONS]])
    for part, is_planned in parts:
        told = [
            place for row in part[:MAX_QUOTED_PARTITIONS] for place in places.get(_key(row), ())
        ]
        yield _finding(context, part, told, planned=is_planned)


def _offline(context: DetectionContext) -> Iterator[Row]:
    """Read the epochs without a leader; of each only what is needed of many."""
    # Many partitions, few sets of brokers.
    sets: dict[tuple[int, ...], tuple[int, ...]] = {}
    for row in context.each("leadership", pc.field("leader") == -1, _COLUMNS):
        row["since"] = row["started_at"] if row["started_at"] is not None else row["ended_at"]
        if row["since"] is not None:
            could = tuple(row["previous_isr"] or row["replicas"] or ())
            told = {"planned": _is_planned(context, row), "could": sets.setdefault(could, could)}
            yield {name: row[name] for name in _KEPT} | told


def _key(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["leader_epoch"]


def _places(
    context: DetectionContext, rows: Sequence[Row]
) -> dict[tuple[str, int, int], list[Row]]:
    """Look up the lines that tell of some of the epochs."""
    wanted = {_key(row) for row in rows}
    columns = ["topic", "partition", "leader_epoch", "evidence"]
    evidence = {
        _key(row): [(one["file"], one["line"]) for one in row["evidence"]]
        for row in context.each("leadership", pc.field("leader") == -1, columns)
        if _key(row) in wanted
    }
    named = ({"file": file, "line": line} for told in evidence.values() for file, line in told)
    found: dict[tuple[str, int], list[Row]] = {}
    for place in context.read_lines(named):
        found.setdefault((place["file"], place["line"]), []).append(place)
    return {
        key: [one for at in told for one in found.get(at, ())] for key, told in evidence.items()
    }


def _is_planned(context: DetectionContext, row: Row) -> bool:
    """Whether who led was on its way down on purpose; if unknown, everyone who could have led."""
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
    could = set(row["previous_isr"] or row["replicas"] or context.history.lanes.brokers)
    return could <= stopping


def _finding(
    context: DetectionContext, group: list[Row], evidence: Sequence[Row], *, planned: bool
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
        _severity(context, still, longest, planned=planned),
        _title(names, longest, still, planned=planned),
        begin,
        end,
        evidence,
        brokers=sorted(
            {row["previous_leader"] for row in group if (row["previous_leader"] or -1) >= 0}
        ),
        partitions=names,
        measures={
            "partitions": len(names),
            "partition_seconds": round(sum(max(0.0, length) for length in lengths), 1),
            "longest_s": round(longest, 1),
            "still": still,
        },
        explanation=_PLANNED if planned else _UNPLANNED,
        actions=_actions(context, group, still, planned=planned),
        why=_why(context, len(names), longest, still, planned=planned),
        doubts=_DOUBTS_PLANNED if planned else _DOUBTS,
    )


def _severity(context: DetectionContext, still: int, longest: float, *, planned: bool) -> str:
    limits = context.limits[NAME]
    if planned:
        return str(limits["planned"])
    if still:
        return str(limits["open"])
    if longest < limits["blink"]:
        return str(limits["blinked"])
    return str(limits["long"] if longest > limits["short"] else limits["brief"])


def _why(
    context: DetectionContext, count: int, longest: float, still: int, *, planned: bool
) -> str:
    if planned:
        return f"{count} partitions were without a leader; all that led them were being stopped"
    short = context.limits[NAME]["short"]
    last = f"; {still} of them to the end of the logs" if still else ""
    return (
        f"{count} partitions had no leader for up to {longest:.1f} s, clients bear {short} s{last}"
    )


def _actions(
    context: DetectionContext, group: Sequence[Row], still: int, *, planned: bool
) -> list[str]:
    if planned:
        return ["Nothing to do if all brokers were meant to stop."]
    brokers = sorted({one for row in group if row["ended_at"] is None for one in row["could"]})
    first = f"{context.commands.unavailable()}   # which have no leader now?"
    if not still:
        return [first, context.commands.topic(group[0]["topic"])]
    named = ", ".join(str(broker) for broker in brokers[:5])
    start = f"Start the brokers that were last in sync: {named}. " if named else ""
    return [first, start + _WAIT]


def _title(names: list[str], longest: float, still: int, *, planned: bool) -> str:
    count = f"{len(names)} partition{'s' if len(names) > 1 else ''}"
    if planned:
        return f"{count} without a leader while their brokers were shut down in order"
    last = ", some of them to the end of these logs" if still else ""
    return f"{count} without a leader, up to {longest:.1f} s{last}"


_PLANNED = "Their leader stopped in order and no other replica in sync was left to take over."
_UNPLANNED = (
    "No replica that could lead was alive, so the controller left these partitions without a "
    "leader. Producers and consumers of them waited."
)
_DOUBTS = [
    "A leader elected by a controller whose log is missing here would end this earlier.",
]
_DOUBTS_PLANNED = ["Somebody may have stopped one broker too many without meaning to."]
_WAIT = (
    "Do not elect a leader out of sync (unclean) while one of them can still be brought back: what "
    "only it has would be lost."
)
