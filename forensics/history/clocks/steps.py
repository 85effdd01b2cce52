"""Finds the place in a node's own logs where its clock was set anew.

Finds where what others saw does not fit the course of a clock, and nothing tells why.
"""

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
from forensics.lib.time_units import MINUTE, to_arrow_timestamp

_ALWAYS = 2**62
# A node that hangs hears all at once what came meanwhile; a clock that is off stays off.
_STEADY_MS, _BURST = 500.0, 1_000_000


@dataclass(frozen=True)
class Residual:
    """What a clock showed when others saw the same, how far that is beside its course, if it fits.

    The moment `at` is by the reference, and `own` by the clock itself.
    """

    at: int
    own: int
    ms: float
    is_explained: bool


def measure_residual(course: ClockModel, own: int, at: int, doubt: float) -> Residual:
    """Lay what a clock showed at a moment, which may be in such doubt, beside its course."""
    pieces = [course.segment_at(own)]
    if any(step.is_ambiguous_at(own, None, None) for step in course.steps):
        pieces = list(course.segments)
    found = [
        Residual(at, own, miss, abs(miss) <= max(piece.uncertainty_ms, doubt))
        for piece in pieces
        for miss in [(own - at) / 1000 - piece.offset_at(own)]
    ]
    return min(found, key=lambda one: (not one.is_explained, abs(one.ms)))


def find_unexplained(seen: Iterable[Residual]) -> tuple[UnexplainedInterval, ...]:
    """Find runs of sightings that do not fit, and that a node that hung does not explain.

    Before the first one that fits, and after the last one, any miss may be a clock set anew.
    Between two that fit, only misses that stay the same may be: all others are a node that hung.
    """
    ordered = sorted(seen, key=lambda one: (one.at, one.own))
    runs = [(fits, list(run)) for fits, run in groupby(ordered, key=lambda one: one.is_explained)]
    found = []
    for n, (fits, run) in enumerate(runs):
        inner = 0 < n < len(runs) - 1
        if fits or (inner and not _is_steady(run)):
            continue
        misses = [one.ms for one in run]
        # Both edges are the own times of points that fit; what lies between is shown shifted.
        early, late = (round(edge * 1000) for edge in (min(0.0, *misses), max(0.0, *misses)))
        low = runs[n - 1][1][-1].own + early if n else -_ALWAYS
        high = runs[n + 1][1][0].own + late if n < len(runs) - 1 else _ALWAYS
        found.append(UnexplainedInterval(low, high, max(map(abs, misses))))
    return tuple(found)


def _is_steady(run: Sequence[Residual]) -> bool:
    """Whether a miss was the same a while later; what a node hears all at once never is."""
    return any(
        later.at - one.at > _BURST and abs(later.ms - one.ms) <= _STEADY_MS
        for n, one in enumerate(run)
        for later in run[n + 1 :]
    )


# Lines of one file stand in the order of time, but for so much.
_JITTER_MS = 1000.0
# So many events around one step are looked at, of so many nodes; more would say the same.
_MOST, _NODES = 500_000, 8
_COLUMNS = [
    "kind", "telling", "topic", "partition", "leader_epoch", "partition_epoch",
    "file", "line", "ts",
]  # fmt: skip

State = tuple[str, int, int, int]


@dataclass(frozen=True)
class LoggedLine:
    """A line, its time by the node's own clock without the zone, and the state it tells."""

    file: str
    line: int
    at: int
    state: State | None = None


def locate_steps(clocks: Clocks, events: Path) -> Clocks:
    """Narrow down every step by the lines that the node wrote around it."""
    found = dict(clocks.models)
    for node, course in clocks.models.items():
        steps = []
        for before, step in zip(course.segments, course.steps, strict=False):
            margin = round(abs(step.size_ms) * 1000)
            places = _around(events, clocks, node, step.low - margin, step.high + margin)
            heard = _heard(events, clocks, node, step) if step.size_ms < 0 else {}
            lag = round(before.offset_at(step.at) * 1000)
            new = narrow_step(step, places, {state: at + lag for state, at in heard.items()})
            if new != step:
                own = min(new.middle, new.high)
                new = replace(new, at=own - round(before.offset_at(own) * 1000))
            steps.append(new)
        if steps:
            found[node] = replace(course, steps=tuple(steps))
    return replace(clocks, models=found)


def count_unconfirmed_steps(clocks: Clocks) -> int:
    """Count the steps that no line of the node itself shows."""
    return sum(not step.confirmed for course in clocks.models.values() for step in course.steps)


def narrow_step(
    step: ClockStep, places: Sequence[LoggedLine], heard: Mapping[State, int]
) -> ClockStep:
    """Narrow a step down to where the node's lines allow it.

    A clock that is set forward leaves a time without lines, as long as the step at least; one that
    is set back makes the lines of a file go back in time. `heard` says when other nodes saw states,
    in the time that this node's clock would have shown without the step.
    """
    if abs(step.size_ms) <= _JITTER_MS:
        return step
    return _gap(step, places) if step.size_ms > 0 else _turn(step, places, heard)


def _gap(step: ClockStep, places: Sequence[LoggedLine]) -> ClockStep:
    moments = sorted({place.at for place in places} | {step.low, step.high})
    least = (step.size_ms - _JITTER_MS) * 1000
    inside = [at for at in moments if step.low <= at <= step.high]
    gaps = [(a, b) for a, b in pairwise(inside) if b - a >= least]
    if not gaps:
        return step
    if len(gaps) > 1:
        return replace(step, low=gaps[0][0], high=gaps[-1][1], confirmed=True)
    low = gaps[0][0]
    # Both ends of the one gap are known to lie on their sides of it.
    return replace(step, low=low, high=low + 1, middle=low + 1, confirmed=True)


def _turn(step: ClockStep, places: Sequence[LoggedLine], heard: Mapping[State, int]) -> ClockStep:
    files: dict[str, list[LoggedLine]] = defaultdict(list)
    for place in sorted(places, key=lambda place: (place.line, place.at)):
        files[place.file].append(place)
    falls = {}
    for file, lines in files.items():
        fall = max(pairwise(lines), key=lambda two: two[0].at - two[1].at, default=None)
        if fall and fall[0].at - fall[1].at > _JITTER_MS * 1000:
            falls[file] = fall
    if falls:
        # What other files hold is bounded by the lines on both sides of the step in this one.
        size = round(step.size_ms * 1000)
        last = max(before.at for before, _ in falls.values())
        first = min(after.at for _, after in falls.values())
        low = max(step.low, last + size)
        step = replace(step, low=low, high=max(low + 1, min(step.high, first - size)), middle=last)
    turns = {file: (before.line, after.line) for file, (before, after) in falls.items()}
    for file, lines in files.items():
        if file not in turns:
            turns[file] = _sided(step, lines, heard)
    return replace(step, line_bounds=turns, confirmed=bool(falls))


def _sided(
    step: ClockStep, lines: Sequence[LoggedLine], heard: Mapping[State, int]
) -> tuple[int, int]:
    """Find the lines around a step that no fall betrays, by states that other nodes saw too.

    They may be far from each other: what stands between them may be on either side.
    """
    sides = []
    told: set[State | None] = set()
    for place in lines:
        # What is told again is told late.
        fresh = place if place.state not in told else replace(place, state=None)
        told.add(place.state)
        sides.append(_side(step, fresh, heard))
    # Few may be late enough to seem on the other side: the cuts with the fewest of them are taken.
    wrong = best = sum(side is False for side in sides)
    cuts = [0]
    for at, side in enumerate(sides):
        wrong += (side is True) - (side is False)
        if wrong < best:
            best, cuts = wrong, []
        if wrong == best:
            cuts.append(at + 1)
    before = lines[cuts[0] - 1].line if cuts[0] else lines[0].line - 1
    after = lines[cuts[-1]].line if cuts[-1] < len(lines) else lines[-1].line + 1
    return before, after


def _side(step: ClockStep, place: LoggedLine, heard: Mapping[State, int]) -> bool | None:
    """Tell whether a line stands after the step: by its time, or by the state that it tells."""
    if not step.low < place.at < step.high:
        return place.at >= step.high
    seen = heard.get(place.state) if place.state else None
    if seen is None:
        return None
    size = step.size_ms * 1000
    old, new = abs(place.at - seen), abs(place.at - size - seen)
    return new < old if min(old, new) < -size / 4 else None


def _heard(events: Path, clocks: Clocks, node: str, step: ClockStep) -> dict[State, int]:
    """Find when steady nodes that are well known saw states around a step, on the reference."""
    mine = clocks.models[node]
    steady = [
        (course.segments[0].uncertainty_ms, other)
        for other, course in clocks.models.items()
        if other != node and course.group == mine.group and not course.steps
    ]
    wide = step.high - step.low + 2 * round(abs(step.size_ms) * 1000)
    found: dict[State, int] = {}
    for _, other in sorted(steady)[:_NODES]:
        off = round(clocks.models[other].segments[0].offset_ms * 1000)
        for place in _around(events, clocks, other, step.at - wide + off, step.at + wide + off):
            if place.state:
                found[place.state] = min(place.at - off, found.get(place.state, place.at - off))
    return found


def _around(events: Path, clocks: Clocks, node: str, begin: int, end: int) -> list[LoggedLine]:
    zone = clocks.zones_min.get(node, 0) * MINUTE
    first, last = (to_arrow_timestamp(at + zone) for at in (begin, end))
    wanted = (pc.field("node") == node) & (pc.field("ts") >= first) & (pc.field("ts") <= last)
    rows = islice(iter_rows(read_batches(events, _COLUMNS, wanted), _COLUMNS), _MOST)
    return [
        LoggedLine(file, line, at - zone, _state(facts))
        for *facts, file, line, at in (row.values() for row in rows)
    ]


def _state(facts: Sequence[Any]) -> State | None:
    kind, telling, topic, partition, epoch, version = facts
    if kind not in PARTITION_KINDS or telling is not None or topic is None or partition is None:
        return None
    if version is not None:
        return topic, partition, 1, version
    return None if epoch is None else (topic, partition, 0, epoch)
