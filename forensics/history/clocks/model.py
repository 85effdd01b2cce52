"""What is known of the nodes' clocks, and the moments on one reference clock that follow from it.

A clock is a time zone and a course: stretches with an offset and a drift, and steps between them.

Puts solved clocks into the rows of the table of clocks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MINUTE_MS = 60_000
# What a clock may do unseen before its first and after its last anchor.
UNSEEN_DRIFT_PPM = 50.0


@dataclass(frozen=True)
class ClockSegment:
    """A stretch of a clock, in microseconds of its own time without the zone."""

    at: int
    offset_ms: float
    drift_ppm: float
    uncertainty_ms: float
    first: int
    last: int

    def offset_at(self, micros: int) -> float:
        """Give the offset at a moment, in milliseconds."""
        return self.offset_ms + self.drift_ppm * (micros - self.at) / 1e9

    def correction_at(self, micros: int) -> float:
        """Give the offset to correct by: one within its own doubt would only add noise."""
        offset = self.offset_at(micros)
        return offset if self.drift_ppm or abs(offset) > self.uncertainty_ms else 0.0

    def uncertainty_at(self, micros: int) -> float:
        """Give how far off a corrected moment may be, in milliseconds."""
        beyond = max(self.first - micros, micros - self.last, 0)
        left = abs(self.offset_at(micros) - self.correction_at(micros))
        return self.uncertainty_ms + left + UNSEEN_DRIFT_PPM * beyond / 1e9


@dataclass(frozen=True)
class ClockStep:
    """Where a clock was set anew: surely after `low` and before `high`, by its own time.

    Where the clock was set back, its lines tell the same times twice. `turns` names for each file
    the last line that is surely before the step and the first that is surely after it: there the
    place of a line decides, and not its time.
    """

    low: int
    high: int
    middle: int
    size_ms: float
    at: int
    line_bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # whether the node's own lines show it: a silence, or times that fall back
    confirmed: bool = False

    def precedes(self, micros: int, file: str | None, line: int | None) -> bool:
        """Whether a line was written after the step, or more likely was."""
        if not self.low < micros < self.high:
            return micros >= self.high
        before, after = self._turn(file)
        if line is not None and (line <= before or line >= after):
            return line >= after
        return micros >= self.middle

    def is_ambiguous_at(self, micros: int, file: str | None, line: int | None) -> bool:
        """Whether it cannot be told on which side of the step a line was written."""
        before, after = self._turn(file)
        known = line is not None and (line <= before or line >= after)
        return self.low < micros < self.high and not known

    def _turn(self, file: str | None) -> tuple[float, float]:
        return self.line_bounds.get(file or "", (-math.inf, math.inf))


@dataclass(frozen=True)
class UnexplainedInterval:
    """A while, by a clock's own time, in which what others saw does not fit what it showed.

    The node hung, or its clock was set anew and too little tells of it: nobody knows which.
    """

    low: int
    high: int
    residual_ms: float

    def contains(self, micros: int) -> bool:
        """Whether a moment lies in it."""
        return self.low < micros < self.high


@dataclass(frozen=True)
class ClockModel:
    """All that one clock did: pieces, with a step between each two."""

    segments: Sequence[ClockSegment]
    steps: Sequence[ClockStep] = ()
    group: int = 0
    unexplained: Sequence[UnexplainedInterval] = ()

    def segment_at(
        self, micros: int, file: str | None = None, line: int | None = None
    ) -> ClockSegment:
        """Give the piece that holds at a moment, by the node's own time."""
        return self.segments[sum(step.precedes(micros, file, line) for step in self.steps)]

    def uncertainty_at(
        self, micros: int, file: str | None = None, line: int | None = None
    ) -> float:
        """Give how far off a corrected moment may be, in milliseconds."""
        hidden = (
            abs(step.size_ms) for step in self.steps if step.is_ambiguous_at(micros, file, line)
        )
        hazy = (haze.residual_ms for haze in self.unexplained if haze.contains(micros))
        return (
            self.segment_at(micros, file, line).uncertainty_at(micros)
            + sum(hidden)
            + max(hazy, default=0.0)
        )


@dataclass(frozen=True)
class Clocks:
    """Offsets, zone shifts and courses of nodes, to be taken off their logged times."""

    offsets_ms: Mapping[str, float]
    zones_min: Mapping[str, int]
    rows: tuple[Mapping[str, Any], ...]
    models: Mapping[str, ClockModel] = field(default_factory=dict)

    def correct(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int:
        """Give the moment on the reference clock; the place decides where a time stands twice."""
        own = self._own(node, micros)
        course = self.models.get(node or "")
        if course is None:
            return int(own - self.offsets_ms.get(node or "", 0.0) * 1000)
        return int(own - course.segment_at(own, file, line).correction_at(own) * 1000)

    def event_time(self, row: Mapping[str, Any]) -> int:
        """Give the moment of an event on the reference clock."""
        return self.correct(row["node"], row["ts"], row.get("file"), row.get("line"))

    def uncertainty(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int | None:
        """Give how far off a corrected moment may be, in microseconds; null: nobody knows."""
        course = self.models.get(node or "")
        if course is None:
            return None
        return int(course.uncertainty_at(self._own(node, micros), file, line) * 1000)

    def compare(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> int | None:
        """Say which of two events was first: -1 the one, 1 the other, null if it cannot be told.

        Events are rows with a node and a time `ts` as logged, and perhaps a file and a line.
        """
        if one["node"] == other["node"] and one["node"] is not None:
            return self._order_at_home(one, other)
        mine, theirs = (self.models.get(row["node"] or "") for row in (one, other))
        if mine is None or theirs is None or mine.group != theirs.group:
            return None
        doubts = [
            self.uncertainty(row["node"], row["ts"], row.get("file"), row.get("line")) or 0
            for row in (one, other)
        ]
        apart = self.event_time(one) - self.event_time(other)
        return None if abs(apart) <= sum(doubts) else (-1 if apart < 0 else 1)

    def _order_at_home(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> int | None:
        """One clock orders its own lines to the millisecond, but for those around a step."""
        course = self.models.get(one["node"])
        for row in (one, other) if course else ():
            own = self._own(row["node"], row["ts"])
            if any(s.is_ambiguous_at(own, row.get("file"), row.get("line")) for s in course.steps):  # type: ignore[union-attr]
                return None
        apart = self.event_time(one) - self.event_time(other)
        return None if not apart else (-1 if apart < 0 else 1)

    def _own(self, node: str | None, micros: int) -> int:
        return micros - self.zones_min.get(node or "", 0) * _MINUTE_MS * 1000


Row = Mapping[str, Any]


def build_clock_rows(
    nodes: Sequence[str],
    courses: Mapping[str, ClockModel],
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


def classify_clock(course: ClockModel | None, zone: int) -> str | None:
    """Say what is wrong with a clock: `step`, `drift`, `offset`, `zone`, or `none`."""
    if course is None:
        return "zone" if zone else None
    if course.steps:
        return "step"
    piece = course.segments[0]
    if piece.drift_ppm:
        return "drift"
    if abs(piece.offset_ms) > piece.uncertainty_ms:
        return "offset"
    return "zone" if zone else "none"


def _solved(course: ClockModel | None, zone: int) -> dict[str, Any]:
    if course is None:
        bare: dict[str, Any] = dict.fromkeys(("offset_ms", "uncertainty_ms", "drift_ppm", "steps"))
        return bare | {"kind": classify_clock(None, zone)}
    # Where it is farthest off: that is what a reader must beware of.
    ends = [
        (piece.offset_at(at), piece)
        for piece in course.segments
        for at in (piece.first, piece.last)
    ]
    offset, piece = max(ends, key=lambda end: abs(end[0]))
    steepest = max(course.segments, key=lambda one: abs(one.drift_ppm))
    return {
        "offset_ms": round(offset),
        "uncertainty_ms": round(piece.uncertainty_ms),
        "kind": classify_clock(course, zone),
        "drift_ppm": round(steepest.drift_ppm, 1),
        "steps": [{"at": step.at, "ms": round(step.size_ms)} for step in course.steps],
    }


def _stretches(course: ClockModel | None, zone: int) -> list[dict[str, Any]] | None:
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
            "offset_ms": piece.correction_at(piece.at) + shift,
            "drift_ppm": piece.drift_ppm,
        }
        for since, piece in zip(begins, course.segments, strict=True)
    ]
