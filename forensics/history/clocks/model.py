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
WANDER_PPM = 50.0


@dataclass(frozen=True)
class Piece:
    """A stretch of a clock, in microseconds of its own time without the zone."""

    at: int
    offset_ms: float
    ppm: float
    doubt_ms: float
    first: int
    last: int

    def offset(self, micros: int) -> float:
        """Give the offset at a moment, in milliseconds."""
        return self.offset_ms + self.ppm * (micros - self.at) / 1e9

    def taken_off(self, micros: int) -> float:
        """Give the offset to correct by: one within its own doubt would only add noise."""
        offset = self.offset(micros)
        return offset if self.ppm or abs(offset) > self.doubt_ms else 0.0

    def doubt(self, micros: int) -> float:
        """Give how far off a corrected moment may be, in milliseconds."""
        beyond = max(self.first - micros, micros - self.last, 0)
        left = abs(self.offset(micros) - self.taken_off(micros))
        return self.doubt_ms + left + WANDER_PPM * beyond / 1e9


@dataclass(frozen=True)
class Step:
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
    turns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # whether the node's own lines show it: a silence, or times that fall back
    shown: bool = False

    def passed(self, micros: int, file: str | None, line: int | None) -> bool:
        """Whether a line was written after the step, or more likely was."""
        if not self.low < micros < self.high:
            return micros >= self.high
        before, after = self._turn(file)
        if line is not None and (line <= before or line >= after):
            return line >= after
        return micros >= self.middle

    def hides(self, micros: int, file: str | None, line: int | None) -> bool:
        """Whether it cannot be told on which side of the step a line was written."""
        before, after = self._turn(file)
        known = line is not None and (line <= before or line >= after)
        return self.low < micros < self.high and not known

    def _turn(self, file: str | None) -> tuple[float, float]:
        return self.turns.get(file or "", (-math.inf, math.inf))


@dataclass(frozen=True)
class Haze:
    """A while, by a clock's own time, in which what others saw does not fit what it showed.

    The node hung, or its clock was set anew and too little tells of it: nobody knows which.
    """

    low: int
    high: int
    ms: float

    def covers(self, micros: int) -> bool:
        """Whether a moment lies in it."""
        return self.low < micros < self.high


@dataclass(frozen=True)
class Course:
    """All that one clock did: pieces, with a step between each two."""

    pieces: Sequence[Piece]
    steps: Sequence[Step] = ()
    group: int = 0
    hazes: Sequence[Haze] = ()

    def piece(self, micros: int, file: str | None = None, line: int | None = None) -> Piece:
        """Give the piece that holds at a moment, by the node's own time."""
        return self.pieces[sum(step.passed(micros, file, line) for step in self.steps)]

    def doubt(self, micros: int, file: str | None = None, line: int | None = None) -> float:
        """Give how far off a corrected moment may be, in milliseconds."""
        hidden = (abs(step.size_ms) for step in self.steps if step.hides(micros, file, line))
        hazy = (haze.ms for haze in self.hazes if haze.covers(micros))
        return self.piece(micros, file, line).doubt(micros) + sum(hidden) + max(hazy, default=0.0)


@dataclass(frozen=True)
class Clocks:
    """Offsets, zone shifts and courses of nodes, to be taken off their logged times."""

    offsets_ms: Mapping[str, float]
    zones_min: Mapping[str, int]
    rows: tuple[Mapping[str, Any], ...]
    courses: Mapping[str, Course] = field(default_factory=dict)

    def correct(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int:
        """Give the moment on the reference clock; the place decides where a time stands twice."""
        own = self._own(node, micros)
        course = self.courses.get(node or "")
        if course is None:
            return int(own - self.offsets_ms.get(node or "", 0.0) * 1000)
        return int(own - course.piece(own, file, line).taken_off(own) * 1000)

    def of(self, row: Mapping[str, Any]) -> int:
        """Give the moment of an event on the reference clock."""
        return self.correct(row["node"], row["ts"], row.get("file"), row.get("line"))

    def doubt(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int | None:
        """Give how far off a corrected moment may be, in microseconds; null: nobody knows."""
        course = self.courses.get(node or "")
        if course is None:
            return None
        return int(course.doubt(self._own(node, micros), file, line) * 1000)

    def order(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> int | None:
        """Say which of two events was first: -1 the one, 1 the other, null if it cannot be told.

        Events are rows with a node and a time `ts` as logged, and perhaps a file and a line.
        """
        if one["node"] == other["node"] and one["node"] is not None:
            return self._order_at_home(one, other)
        mine, theirs = (self.courses.get(row["node"] or "") for row in (one, other))
        if mine is None or theirs is None or mine.group != theirs.group:
            return None
        doubts = [
            self.doubt(row["node"], row["ts"], row.get("file"), row.get("line")) or 0
            for row in (one, other)
        ]
        apart = self.of(one) - self.of(other)
        return None if abs(apart) <= sum(doubts) else (-1 if apart < 0 else 1)

    def _order_at_home(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> int | None:
        """One clock orders its own lines to the millisecond, but for those around a step."""
        course = self.courses.get(one["node"])
        for row in (one, other) if course else ():
            own = self._own(row["node"], row["ts"])
            if any(s.hides(own, row.get("file"), row.get("line")) for s in course.steps):  # type: ignore[union-attr]
                return None
        apart = self.of(one) - self.of(other)
        return None if not apart else (-1 if apart < 0 else 1)

    def _own(self, node: str | None, micros: int) -> int:
        return micros - self.zones_min.get(node or "", 0) * _MINUTE_MS * 1000


Row = Mapping[str, Any]


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
