"""Puts solved clocks into the rows of the table of clocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from forensics.history.clocks import Course

__all__ = ["described", "kind_of"]

Row = Mapping[str, Any]
_MINUTE_MS = 60_000


def described(
    nodes: Sequence[str],
    courses: Mapping[str, Course],
    zones: Mapping[str, int],
    counts: Mapping[str, int],
    references: Collection[str],
) -> tuple[Row, ...]:
    """Give a row of CLOCKS for each node, whether or not its clock is known."""
    return tuple(
        {
            "node": node,
            **_solved(courses.get(node), zones.get(node, 0)),
            "anchors": counts.get(node, 0),
            "zone_shift_minutes": zones.get(node, 0),
            "reference": node in references,
            "stretches": _stretches(courses.get(node), zones.get(node, 0)),
        }
        for node in nodes
    )


def kind_of(course: Course | None, zone: int) -> str | None:
    """Say what is wrong with a clock: `step`, `drift`, `offset`, `zone`, or `none`."""
    if course is None:
        return "zone" if zone else None
    if course.steps:
        return "step"
    piece = course.pieces[0]
    if piece.ppm:
        return "drift"
    if abs(piece.offset_ms) > piece.doubt_ms:
        return "offset"
    return "zone" if zone else "none"


def _solved(course: Course | None, zone: int) -> dict[str, Any]:
    if course is None:
        bare: dict[str, Any] = dict.fromkeys(("offset_ms", "uncertainty_ms", "drift_ppm", "steps"))
        return bare | {"kind": kind_of(None, zone)}
    # Where it is farthest off: that is what a reader must beware of.
    ends = [
        (piece.offset(at), piece) for piece in course.pieces for at in (piece.first, piece.last)
    ]
    offset, piece = max(ends, key=lambda end: abs(end[0]))
    steepest = max(course.pieces, key=lambda one: abs(one.ppm))
    return {
        "offset_ms": round(offset),
        "uncertainty_ms": round(piece.doubt_ms),
        "kind": kind_of(course, zone),
        "drift_ppm": round(steepest.ppm, 1),
        "steps": [{"at": step.at, "ms": round(step.size_ms)} for step in course.steps],
    }


def _stretches(course: Course | None, zone: int) -> list[dict[str, Any]] | None:
    """Say what to take off times as they are logged; where they stand twice, the later holds."""
    shift = zone * _MINUTE_MS
    if course is None:
        bare = {"since": None, "at": 0, "offset_ms": float(shift), "drift_ppm": 0.0}
        return [bare] if zone else None
    begins = [None, *(step.middle + shift * 1000 for step in course.steps)]
    return [
        {
            "since": since,
            "at": piece.at + shift * 1000,
            "offset_ms": piece.taken_off(piece.at) + shift,
            "drift_ppm": piece.ppm,
        }
        for since, piece in zip(begins, course.pieces, strict=True)
    ]
