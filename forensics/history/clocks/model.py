"""Models of the nodes' clocks, and the correction of logged times to one reference clock.

A clock is a time zone and a sequence of segments, each with an offset and a drift, between which
the clock was stepped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Row = Mapping[str, Any]

_MINUTE_MS = 60_000
# How fast a clock may drift unnoticed before its first and after its last anchor.
UNSEEN_DRIFT_PPM = 50.0


@dataclass(frozen=True)
class OffsetLine:
    """A straight line: the offset of a clock at a moment, its drift, and how uncertain it is."""

    at: int
    offset_ms: float
    drift_ppm: float
    uncertainty_ms: float

    def offset_at(self, micros: int) -> float:
        """Return the offset at a moment, in milliseconds."""
        return self.offset_ms + self.drift_ppm * (micros - self.at) / 1e9

    def offset_micros(self, micros: int) -> int:
        """Return the offset at a moment, in whole microseconds."""
        return round(self.offset_at(micros) * 1000)


@dataclass(frozen=True)
class ClockSegment(OffsetLine):
    """A segment of a clock without steps, in microseconds of its own time without the zone.

    Anchors show it from `first` to `last`.
    """

    first: int
    last: int

    def correction_at(self, micros: int) -> float:
        """Return the offset to correct by: one within its own uncertainty would only add noise."""
        return self.offset_at(micros) if self.is_certain else 0.0

    @cached_property
    def is_certain(self) -> bool:
        """Return True if the clock is surely off, be it only at one end of a drift."""
        offsets = (self.offset_at(moment) for moment in {self.at, self.first, self.last})
        return max(map(abs, offsets)) > self.uncertainty_ms

    def uncertainty_at(self, micros: int) -> float:
        """Return how far off a corrected moment may be, in milliseconds."""
        beyond = max(self.first - micros, micros - self.last, 0)
        left = abs(self.offset_at(micros) - self.correction_at(micros))
        return self.uncertainty_ms + left + UNSEEN_DRIFT_PPM * beyond / 1e9


@dataclass(frozen=True)
class ClockStep:
    """A step of a clock: surely after `low` and before `high`, by its own time.

    A clock that was set back shows the same times twice. For each file, `line_bounds` holds the
    last line that is surely before the step and the first one that is surely after it: there the
    line number decides, not the time.
    """

    low: int
    high: int
    middle: int
    size_ms: float
    at: int
    line_bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # whether the node's own lines show the step: a gap, or times that go back
    confirmed: bool = False

    def precedes(self, micros: int, file: str | None, line: int | None) -> bool:
        """Return True if a line was written after the step, or more likely was."""
        if not self.low < micros < self.high:
            return micros >= self.high
        if line is None or self.is_ambiguous(micros, file, line):
            return micros >= self.middle
        return line >= self._line_bounds_of(file)[1]

    def is_ambiguous(self, micros: int, file: str | None, line: int | None) -> bool:
        """Return True if nothing tells on which side of the step a line was written."""
        before, after = self._line_bounds_of(file)
        return self.low < micros < self.high and (line is None or before < line < after)

    def _line_bounds_of(self, file: str | None) -> tuple[float, float]:
        return self.line_bounds.get(file or "", (-math.inf, math.inf))


@dataclass(frozen=True)
class UnexplainedInterval:
    """An interval of a clock's own time in which other nodes' anchors do not fit its model.

    Either the node hung, or its clock was stepped and too few anchors show it.
    """

    low: int
    high: int
    residual_ms: float


@dataclass(frozen=True)
class ClockModel:
    """The model of one clock: segments, with a step between each two."""

    segments: Sequence[ClockSegment]
    steps: Sequence[ClockStep] = ()
    group: int = 0
    unexplained: Sequence[UnexplainedInterval] = ()

    def segment_at(
        self, micros: int, file: str | None = None, line: int | None = None
    ) -> ClockSegment:
        """Return the segment that holds at a moment of the node's own time."""
        return self.segments[sum(step.precedes(micros, file, line) for step in self.steps)]

    def is_ambiguous(self, micros: int, file: str | None = None, line: int | None = None) -> bool:
        """Return True if a line may stand before or after one of the steps."""
        return any(step.is_ambiguous(micros, file, line) for step in self.steps)

    def uncertainty_at(self, micros: int, file: str | None, line: int | None) -> float:
        """Return how far off a corrected moment may be, in milliseconds."""
        steps = (abs(s.size_ms) for s in self.steps if s.is_ambiguous(micros, file, line))
        residuals = (one.residual_ms for one in self.unexplained if one.low < micros < one.high)
        uncertainty = self.segment_at(micros, file, line).uncertainty_at(micros)
        return uncertainty + sum(steps) + max(residuals, default=0.0)


@dataclass(frozen=True)
class Clocks:
    """Offsets, zone shifts and models of the nodes' clocks, which correct their logged times."""

    offsets_ms: Mapping[str, float]
    zones_min: Mapping[str, int]
    rows: tuple[Row, ...]
    models: Mapping[str, ClockModel] = field(default_factory=dict)
    # files whose times have their own offset from UTC: no zone shifts them
    zoned: frozenset[str] = frozenset()

    def correct(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int:
        """Return the moment on the reference clock; the line decides where a time stands twice."""
        own = self._without_zone(node, micros, file)
        model = self.models.get(node or "")
        if model is None:
            return int(own - self.offsets_ms.get(node or "", 0.0) * 1000)
        return int(own - model.segment_at(own, file, line).correction_at(own) * 1000)

    def event_time(self, row: Row) -> int:
        """Return the moment of an event on the reference clock."""
        shift = self._plain.get(row["node"])
        if shift is not None and row.get("file") not in self.zoned:
            moment: int = row["ts"] - shift
            return moment
        return self.correct(row["node"], row["ts"], row.get("file"), row.get("line"))

    @cached_property
    def _plain(self) -> Mapping[str, int]:
        """The zone of each node whose clock is right, in microseconds: nearly all of them are."""
        return {
            node: self.zones_min.get(node, 0) * _MINUTE_MS * 1000
            for node, model in self.models.items()
            if not model.steps and not model.segments[0].is_certain
        }

    def uncertainty(
        self, node: str | None, micros: int, file: str | None = None, line: int | None = None
    ) -> int | None:
        """Return how far off a corrected moment may be, in microseconds; None if it is unknown."""
        model = self.models.get(node or "")
        if model is None:
            return None
        own = self._without_zone(node, micros, file)
        return int(model.uncertainty_at(own, file, line) * 1000)

    def compare(self, event: Row, other: Row) -> int | None:
        """Return -1 if an event was before the other, 1 if after it, None if nothing tells.

        Events are rows with a node and a time `ts` as logged, and perhaps a file and a line.
        """
        uncertainty = self._order_uncertainty(event, other)
        apart = self.event_time(event) - self.event_time(other)
        if uncertainty is None or abs(apart) <= uncertainty:
            return None
        return -1 if apart < 0 else 1

    def _order_uncertainty(self, event: Row, other: Row) -> int | None:
        """Return how far apart two events must be to be ordered; None if nothing orders them."""
        model, other_model = (self.models.get(row["node"] or "") for row in (event, other))
        lines = [(r["node"], r["ts"], r.get("file"), r.get("line")) for r in (event, other)]
        if event["node"] == other["node"] and event["node"] is not None:
            # One clock orders its own lines to the millisecond, except around a step.
            ambiguous = model is not None and any(
                model.is_ambiguous(self._without_zone(node, micros, file), file, line)
                for node, micros, file, line in lines
            )
            return None if ambiguous else 0
        if model is None or other_model is None or model.group != other_model.group:
            return None
        return sum(self.uncertainty(*line) or 0 for line in lines)

    def in_zone(self, node: str | None, micros: int, file: str) -> int:
        """Return a logged moment in the zone of its node, also where the file writes offsets."""
        return 2 * micros - self._without_zone(node, micros) if file in self.zoned else micros

    def _without_zone(self, node: str | None, micros: int, file: str | None = None) -> int:
        zone = 0 if file in self.zoned else self.zones_min.get(node or "", 0)
        return micros - zone * _MINUTE_MS * 1000


def build_clock_rows(
    nodes: Sequence[str],
    models: Mapping[str, ClockModel],
    zones: Mapping[str, int],
    counts: Mapping[str, int],
    references: Collection[str],
) -> tuple[Row, ...]:
    """Return a row of CLOCKS for each node, whether or not its clock is known."""
    return tuple(
        {
            "node": node,
            **_describe(models.get(node), zones.get(node, 0)),
            "anchors": counts.get(node, 0),
            "zone_shift_minutes": zones.get(node, 0),
            "reference": node in references,
            "stretches": _describe_segments(models.get(node), zones.get(node, 0)),
        }
        for node in nodes
    )


def classify_clock(model: ClockModel | None, zone: int) -> str | None:
    """Return what is wrong with a clock: `step`, `drift`, `offset`, `zone`, or `none`."""
    if model is None:
        return "zone" if zone else None
    if model.steps:
        return "step"
    segment = model.segments[0]
    if segment.is_certain:
        return "drift" if segment.drift_ppm else "offset"
    return "zone" if zone else "none"


def _describe(model: ClockModel | None, zone: int) -> dict[str, Any]:
    if model is None:
        unknown = dict.fromkeys(("offset_ms", "uncertainty_ms", "drift_ppm", "steps"))
        return {**unknown, "kind": classify_clock(None, zone)}
    # The largest offset is what a reader must beware of.
    ends = [
        (segment.offset_at(micros), segment)
        for segment in model.segments
        for micros in (segment.first, segment.last)
    ]
    offset, segment = max(ends, key=lambda end: abs(end[0]))
    drift = max((segment.drift_ppm for segment in model.segments), key=abs)
    return {
        "offset_ms": round(offset),
        "uncertainty_ms": round(segment.uncertainty_ms),
        "kind": classify_clock(model, zone),
        "drift_ppm": round(drift, 1),
        "steps": [{"at": step.at, "ms": round(step.size_ms)} for step in model.steps],
    }


def _describe_segments(model: ClockModel | None, zone: int) -> list[dict[str, Any]] | None:
    """Return what corrects logged times; where a time is shown twice, the later segment holds."""
    shift = zone * _MINUTE_MS
    if model is None:
        only_zone = {"since": None, "at": 0, "offset_ms": float(shift), "drift_ppm": 0.0}
        return [only_zone] if zone else None
    starts = [None, *(step.middle + shift * 1000 for step in model.steps)]
    return [
        {
            "since": since,
            "at": segment.at + shift * 1000,
            "offset_ms": segment.correction_at(segment.at) + shift,
            "drift_ppm": segment.drift_ppm if segment.is_certain else 0.0,
        }
        for since, segment in zip(starts, model.segments, strict=True)
    ]
