"""Brokers that left again and again within a window: the cluster, or only the in-sync replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run
from forensics.detection.shared.absence_causes import absences_of, unplanned_absences
from forensics.detection.shared.isr_changes import Dropouts, find_dropouts
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import busiest_window, sessions
from forensics.lib.time_units import SECOND, to_iso

_LIMITS = "flapping-broker"
# How a broker dropped out of ISRs is shown by lines of this many partitions.
_QUOTED_PARTITIONS, _QUOTED_LINES = 3, 40
# So many absences of a broker are listed one by one.
_MAX_LISTED = 50
# The second in which a leader dropped the broker, and the leader.
_Drop = tuple[int, int]


@dataclass(frozen=True)
class IsrFlapping:
    """A broker that several leaders dropped from ISRs at once, again and again."""

    broker: int
    begin: int
    end: int
    cycles: int
    leaders: Sequence[int]
    partitions: Sequence[str]
    # also those that are not named
    partition_count: int
    evidence: Sequence[Row]


@once_per_run
def find_flapping_absences(context: DetectionContext) -> dict[int, Sequence[Absence]]:
    """Return the unplanned absences of every broker that had too many within the window."""
    limits = context.limits[_LIMITS]
    if len(context.absences) < limits["cycles"]:
        return {}
    busiest = {
        broker: busiest_window(unplanned, lambda absence: absence.begin, limits["window"] * SECOND)
        for broker, unplanned in unplanned_absences(context).items()
    }
    return {broker: run for broker, run in busiest.items() if len(run) >= limits["cycles"]}


def find_isr_flapping(context: DetectionContext, skip: Collection[int]) -> Iterator[IsrFlapping]:
    """Find brokers that fall out of ISRs while the cluster keeps them; `skip` names known ones."""
    limits = context.limits[_LIMITS]
    for broker, dropouts in find_dropouts(context, limits["cycles"]).items():
        waves = [] if broker in skip else _busiest_waves(context, broker, dropouts)
        if len(waves) < limits["cycles"]:
            continue
        begin, end = waves[0][0][0] * SECOND, (waves[-1][-1][0] + 1) * SECOND
        evidence = _read_dropout_lines(context, broker, dropouts, begin, end)
        if evidence:
            yield IsrFlapping(
                broker,
                begin,
                end,
                len(waves),
                sorted({leader for wave in waves for _, leader in wave if leader >= 0}),
                sorted(f"{topic}-{number}" for topic, number in dropouts.repeated),
                len(dropouts.repeated) + dropouts.more_repeated,
                evidence,
            )


def _busiest_waves(
    context: DetectionContext, broker: int, dropouts: Dropouts
) -> Sequence[Sequence[_Drop]]:
    """Group drops in time; return the most groups within the window that nothing else explains.

    One leader that drops others may be slow or cut off itself, and a broker that is away leaves
    every ISR.
    """
    limits = context.limits[_LIMITS]
    absences = absences_of(context, broker)
    waves = [
        wave
        for wave in sessions(sorted(dropouts.drops), lambda drop: drop[0], limits["stroke"])
        if len({leader for _, leader in wave} - {-1}) > 1
        and not _is_away(absences, wave[0][0], wave[-1][0], limits["stroke"])
    ]
    return busiest_window(waves, lambda wave: wave[0][0], limits["window"])


def _is_away(absences: Sequence[Absence], first: int, last: int, near: int) -> bool:
    """Return True if a broker was away, or was just coming back, in a span of seconds."""
    return any(
        absence.begin / SECOND - near <= last
        and (absence.end is None or first <= absence.end / SECOND + near)
        for absence in absences
    )


def _read_dropout_lines(
    context: DetectionContext, broker: int, dropouts: Dropouts, begin: int, end: int
) -> list[Row]:
    """Look up lines that show how a broker left a few of the partitions it left most often."""
    often = sorted(dropouts.repeated, key=lambda key: (-dropouts.repeated[key], key))
    lines: list[Mapping[str, object]] = []
    for topic, number in often[:_QUOTED_PARTITIONS]:
        where = (pc.field("topic") == topic) & (pc.field("partition") == number)
        previous: list[int] = []
        for row in context.each("isr", where, ["isr", "started_at", "evidence"]):
            left = broker in previous and broker not in (row["isr"] or ())
            previous = row["isr"] or []
            if left and row["started_at"] is not None and begin <= row["started_at"] <= end:
                lines += row["evidence"][:1]
    return context.read_lines(lines[:_QUOTED_LINES])


def list_absences(
    spans: Iterable[tuple[int, int | None]], absences: Iterable[Absence] = ()
) -> list[dict[str, Any]]:
    """List when a broker was away, and for how long; null where it did not come back.

    `within_s` says how far apart the moments are between which an absence began, where its
    beginning is an estimate by more than a second.
    """
    brackets = {one.begin: one.begin_bracket for one in absences if one.begin_bracket}
    listed = []
    for begin, end in sorted(spans, key=lambda span: span[0])[:_MAX_LISTED]:
        low, high = brackets.get(begin, (begin, begin))
        seconds = None if end is None else round((end - begin) / SECOND, 1)
        row: dict[str, Any] = {"from": to_iso(begin), "seconds": seconds}
        if high - low > SECOND:
            row["within_s"] = round((high - low) / SECOND, 1)
        listed.append(row)
    return listed
