"""Locates clock steps in a node's own log, and finds where anchors do not fit a clock's model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from forensics.history.clocks.anchors import PARTITION_KINDS
from forensics.history.clocks.model import ClockModel, Clocks, ClockStep, UnexplainedInterval
from forensics.lib.arrow_io import iter_rows, read_batches
from forensics.lib.time_units import MINUTE, SECOND, to_arrow_timestamp

_ALWAYS = 2**62
# A node that hangs hears all at once what came meanwhile; a clock that is off stays off.
_STEADY_MS = 500.0


@dataclass(frozen=True)
class Residual:
    """How far a moment that others saw too lies from a clock's model, and if that is explained.

    The moment is `at` by the reference, and `own` by the clock itself.
    """

    at: int
    own: int
    ms: float
    is_explained: bool


def measure_residual(model: ClockModel, own: int, at: int, uncertainty: float) -> Residual:
    """Compare what a clock showed at a moment, known to some uncertainty, with its model."""
    segments = model.segments if model.is_ambiguous(own) else [model.segment_at(own)]
    residuals = [
        Residual(at, own, ms, abs(ms) <= max(segment.uncertainty_ms, uncertainty))
        for segment in segments
        for ms in [(own - at) / 1000 - segment.offset_at(own)]
    ]
    return min(residuals, key=lambda one: (not one.is_explained, abs(one.ms)))


def find_unexplained(residuals: Iterable[Residual]) -> tuple[UnexplainedInterval, ...]:
    """Find runs of residuals that neither the model nor a node that hung explains.

    Before the first one that fits, and after the last one, any residual may be a clock step.
    Between two that fit, only residuals that stay the same may be: all others are a node that hung.
    """
    ordered = sorted(residuals, key=lambda one: (one.at, one.own))
    runs = [(fits, list(run)) for fits, run in groupby(ordered, key=lambda one: one.is_explained)]
    intervals = []
    for n, (fits, run) in enumerate(runs):
        inner = 0 < n < len(runs) - 1
        if fits or (inner and not _is_steady(run)):
            continue
        values = [one.ms for one in run]
        # Both edges are the own times of points that fit; what lies between is shown shifted.
        early, late = (round(edge * 1000) for edge in (min(0.0, *values), max(0.0, *values)))
        low = runs[n - 1][1][-1].own + early if n else -_ALWAYS
        high = runs[n + 1][1][0].own + late if n < len(runs) - 1 else _ALWAYS
        intervals.append(UnexplainedInterval(low, high, max(map(abs, values))))
    return tuple(intervals)


def _is_steady(run: Sequence[Residual]) -> bool:
    """Return True if a residual was the same a while later; of a node that hung, it never is."""
    return any(
        later.at - residual.at > SECOND and abs(later.ms - residual.ms) <= _STEADY_MS
        for n, residual in enumerate(run)
        for later in run[n + 1 :]
    )


# Lines of one file stand in the order of time, except for so much.
_JITTER_MS = 1000.0
# So many events around one step are read, of so many nodes; more would show the same.
_MAX_EVENTS, _MAX_NODES = 500_000, 8
_COLUMNS = [
    "kind", "telling", "topic", "partition", "leader_epoch", "partition_epoch",
    "file", "line", "ts",
]  # fmt: skip

State = tuple[str, int, int, int]


@dataclass(frozen=True)
class LoggedLine:
    """A line, its time by the node's own clock without the zone, and the state it logs."""

    file: str
    line: int
    at: int
    state: State | None = None


Lines = Sequence[LoggedLine]
# When others logged a state.
SeenAt = Mapping[State, int]


def locate_steps(clocks: Clocks, events: Path) -> Clocks:
    """Narrow down every step by the lines that the node wrote around it."""
    models = dict(clocks.models)
    for node, model in clocks.models.items():
        steps = []
        for before, step in zip(model.segments, model.steps, strict=False):
            margin = round(abs(step.size_ms) * 1000)
            lines = _read_lines(events, clocks, node, step.low - margin, step.high + margin)
            seen = _seen_by_others(events, clocks, node, step) if step.size_ms < 0 else {}
            lag = before.offset_micros(step.at)
            narrowed = narrow_step(step, lines, {state: at + lag for state, at in seen.items()})
            if narrowed != step:
                own = min(narrowed.middle, narrowed.high)
                narrowed = replace(narrowed, at=own - before.offset_micros(own))
            steps.append(narrowed)
        if steps:
            models[node] = replace(model, steps=tuple(steps))
    return replace(clocks, models=models)


def count_unconfirmed_steps(clocks: Clocks) -> int:
    """Count the steps that no line of the node itself shows."""
    return sum(not step.confirmed for model in clocks.models.values() for step in model.steps)


def narrow_step(step: ClockStep, lines: Lines, seen: SeenAt) -> ClockStep:
    """Narrow a step down to where the node's lines allow it.

    A clock that is set forward leaves a time without lines, at least as long as the step; one that
    is set back makes the lines of a file go back in time. `seen` holds when other nodes logged
    states, in the time that this node's clock would have shown without the step.
    """
    if abs(step.size_ms) <= _JITTER_MS:
        return step
    return _narrow_forward(step, lines) if step.size_ms > 0 else _narrow_back(step, lines, seen)


def _narrow_forward(step: ClockStep, lines: Lines) -> ClockStep:
    times = sorted({line.at for line in lines} | {step.low, step.high})
    min_gap = (step.size_ms - _JITTER_MS) * 1000
    inside = [at for at in times if step.low <= at <= step.high]
    gaps = [(a, b) for a, b in pairwise(inside) if b - a >= min_gap]
    if not gaps:
        return step
    if len(gaps) > 1:
        return replace(step, low=gaps[0][0], high=gaps[-1][1], confirmed=True)
    low = gaps[0][0]
    # Both ends of the one gap are known to lie on their sides of it.
    return replace(step, low=low, high=low + 1, middle=low + 1, confirmed=True)


def _narrow_back(step: ClockStep, lines: Lines, seen: SeenAt) -> ClockStep:
    by_file: dict[str, list[LoggedLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: (line.line, line.at)):
        by_file[line.file].append(line)
    jumps = {}
    for file, own in by_file.items():
        jump = max(pairwise(own), key=lambda two: two[0].at - two[1].at, default=None)
        if jump and jump[0].at - jump[1].at > _JITTER_MS * 1000:
            jumps[file] = jump
    if jumps:
        # What other files hold is bounded by the lines on both sides of the step in this one.
        size = round(step.size_ms * 1000)
        last = max(before.at for before, _ in jumps.values())
        first = min(after.at for _, after in jumps.values())
        low = max(step.low, last + size)
        step = replace(step, low=low, high=max(low + 1, min(step.high, first - size)), middle=last)
    bounds = {
        file: (jumps[file][0].line, jumps[file][1].line)
        if file in jumps
        else _bounds_by_states(step, own, seen)
        for file, own in by_file.items()
    }
    return replace(step, line_bounds=bounds, confirmed=bool(jumps))


def _bounds_by_states(step: ClockStep, lines: Lines, seen: SeenAt) -> tuple[int, int]:
    """Bound a step in a file without a backward jump, by states that other nodes logged too.

    The bounds may be far from each other: a line between them may be on either side.
    """
    sides = []
    known: set[State | None] = set()
    for line in lines:
        # A repeated state says nothing about time: it was logged long after it happened.
        sides.append(_is_after(step, line, None if line.state in known else line.state, seen))
        known.add(line.state)
    # A few may be so late that they seem to be on the other side: take the splits with the fewest.
    wrong = fewest = sum(side is False for side in sides)
    splits = [0]
    for index, side in enumerate(sides):
        wrong += (side is True) - (side is False)
        if wrong < fewest:
            fewest, splits = wrong, []
        if wrong == fewest:
            splits.append(index + 1)
    before = lines[splits[0] - 1].line if splits[0] else lines[0].line - 1
    after = lines[splits[-1]].line if splits[-1] < len(lines) else lines[-1].line + 1
    return before, after


def _is_after(step: ClockStep, line: LoggedLine, state: State | None, seen: SeenAt) -> bool | None:
    """Return True if a line stands after the step, by its time or its state; None if unknown."""
    if not step.low < line.at < step.high:
        return line.at >= step.high
    seen_at = seen.get(state) if state else None
    if seen_at is None:
        return None
    size = step.size_ms * 1000
    old, new = abs(line.at - seen_at), abs(line.at - size - seen_at)
    return new < old if min(old, new) < -size / 4 else None


def _seen_by_others(events: Path, clocks: Clocks, node: str, step: ClockStep) -> dict[State, int]:
    """Find when steady, well known nodes logged states around a step, in reference time."""
    group = clocks.models[node].group
    steady = [
        (model.segments[0].uncertainty_ms, other)
        for other, model in clocks.models.items()
        if other != node and model.group == group and not model.steps
    ]
    width = step.high - step.low + 2 * round(abs(step.size_ms) * 1000)
    seen: dict[State, int] = {}
    for _, other in sorted(steady)[:_MAX_NODES]:
        offset = round(clocks.models[other].segments[0].offset_ms * 1000)
        around = step.at + offset
        for line in _read_lines(events, clocks, other, around - width, around + width):
            if line.state:
                at = line.at - offset
                seen[line.state] = min(at, seen.get(line.state, at))
    return seen


def _read_lines(events: Path, clocks: Clocks, node: str, begin: int, end: int) -> list[LoggedLine]:
    zone = clocks.zones_min.get(node, 0) * MINUTE
    first, last = (to_arrow_timestamp(micros + zone) for micros in (begin, end))
    wanted = (pc.field("node") == node) & (pc.field("ts") >= first) & (pc.field("ts") <= last)
    rows = islice(iter_rows(read_batches(events, _COLUMNS, wanted), _COLUMNS), _MAX_EVENTS)
    return [LoggedLine(row["file"], row["line"], row["ts"] - zone, _state_of(row)) for row in rows]


def _state_of(row: Mapping[str, Any]) -> State | None:
    if row["kind"] not in PARTITION_KINDS or row["telling"] is not None:
        return None
    topic, partition = row["topic"], row["partition"]
    if topic is None or partition is None:
        return None
    if row["partition_epoch"] is not None:
        return topic, partition, 1, row["partition_epoch"]
    return None if row["leader_epoch"] is None else (topic, partition, 0, row["leader_epoch"])
