"""Solves all clocks as a graph: each node against those before it, whose doubts it inherits.

Chooses the clock that all others are told by: a steady one that most of them agree with.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from forensics.history.clocks.line_fit import (
    TYPICAL_LAG_MS,
    FittedLine,
    FittedSegment,
    Point,
    dedupe_by_either_clock,
    fit_segments,
    median_residual,
    thin_evenly,
)
from forensics.history.clocks.model import (
    ClockModel,
    Clocks,
    ClockSegment,
    ClockStep,
    build_clock_rows,
)
from forensics.history.clocks.steps import find_unexplained, measure_residual

# The course that all are first told by has no ends.
_ALWAYS = 2**60


def score_steadiness(pairs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count for each node the points that agree with one constant offset, less the others."""
    total: dict[str, int] = defaultdict(int)
    for pair in pairs:
        near = [
            abs(point["delta"] - pair["delta"]) <= 2 * TYPICAL_LAG_MS for point in pair["points"]
        ]
        for end in ("node", "other"):
            total[pair[end]] += 2 * sum(near) - len(near)
    return total


def choose_reference(
    courses: Mapping[str, ClockModel], ties: Mapping[str, int], steady: Mapping[str, int]
) -> str:
    """Choose the node from which all others are nearest, over time: most clocks are right."""
    spans = {
        node: [edge - round(piece.offset_at(edge) * 1000) for piece, edge in _edges(course)]
        for node, course in courses.items()
    }
    known = [edge for span in spans.values() for edge in span if abs(edge) < _ALWAYS]
    if not known:
        return min(ties)
    begin, end = min(known), max(known)
    moments = [begin + (end - begin) * n // 8 for n in range(9)]
    values = {
        node: [course.segment_at(at).offset_at(at) for at in moments]
        for node, course in courses.items()
    }
    # Who is not heard of at a moment has no say.
    votes = [
        [values[node][n] for node, (first, last) in spans.items() if first <= at <= last]
        for n, at in enumerate(moments)
    ]
    # Half of those decide: one that is far off, or hangs, must not draw the rest to it.
    near = {
        node: sum(
            statistics.median_low(abs(a - b) for b in said)
            for a, said in zip(mine, votes, strict=True)
        )
        for node, mine in values.items()
    }
    # Of those that are about as near, the steadiest of those that most is known of.
    best = min(near[node] for node in ties) + TYPICAL_LAG_MS * len(moments)
    near_ones = [node for node in sorted(ties) if near[node] <= best]
    least = max(ties[node] for node in near_ones) / 2
    able = [node for node in near_ones if ties[node] >= least]
    return min(able, key=lambda node: (-steady[node], sum(values[node])))


def _edges(course: ClockModel) -> list[tuple[ClockSegment, int]]:
    """Give the first and the last moment that a course is known at, by the node's own time."""
    return [
        (course.segments[0], course.segments[0].first),
        (course.segments[-1], course.segments[-1].last),
    ]


_ZONE_STEP = 15
_MINUTE_MS = 60_000
# A zone is off by whole quarters of an hour; what is left over must be drift, and small.
_ZONE_REST_MS = 5 * _MINUTE_MS
_KEPT = 256
# Against so many others a node is tried before the surest is taken.
_TRIED = 8
_NOTHING_MS = 1e9
# A course that explains less than such a part of what another one does is passed over.
_LEAVES = 3

# How many points a course explains, of how many, and the course.
Told = tuple[int, int, ClockModel]
# Of two nodes: when each of them saw the same states, by its own clock without the zone.
Meeting = dict[str, list[tuple[int, int]]]
Meetings = dict[str, Meeting]


def estimate_zone_shifts(moments: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """Read zones off lines that hold the epoch time: (node, logged micros, epoch ms) to minutes."""
    found: dict[str, list[float]] = defaultdict(list)
    for node, logged, epoch_ms in moments:
        found[node].append((logged / 1000 - epoch_ms) / _MINUTE_MS)
    return {
        node: round(statistics.median(shifts) / _ZONE_STEP) * _ZONE_STEP
        for node, shifts in found.items()
    }


def solve_clocks(
    pairs: Sequence[Mapping[str, Any]],
    zones: Mapping[str, int],
    nodes: Sequence[str],
    excluded_references: Collection[str] = (),
) -> Clocks:
    """Solve all clocks from PAIRS; zones that lines tell of are taken as they are.

    Who is shunned is made no reference, if anybody else can be.
    """
    zones = dict(zones)
    counts: dict[str, int] = defaultdict(int)
    for pair in pairs:
        for end in ("node", "other"):
            counts[pair[end]] += pair["count"]
    meetings = _meetings(pairs, zones)
    courses: dict[str, ClockModel] = {}
    references: set[str] = set()
    steady = score_steadiness(pairs)
    for group, members in enumerate(_groups(meetings)):
        able = [node for node in members if node not in excluded_references] or members
        ties = {node: counts[node] for node in able}
        reference, found = _told_by_one(members, meetings, ties, steady)
        references.add(reference)
        courses |= {node: replace(course, group=group) for node, course in found.items()}
    for node, course in courses.items():
        if node not in zones and (shift := _zone_of(course)):
            zones[node] = shift
            courses[node] = _moved(course, shift)
    names = sorted({*nodes})
    rows = build_clock_rows(names, courses, zones, counts, references)
    offsets = {node: course.segments[-1].offset_ms for node, course in courses.items()}
    return Clocks(offsets, zones, rows, courses)


def _meetings(pairs: Sequence[Mapping[str, Any]], zones: Mapping[str, int]) -> Meetings:
    met: Meetings = defaultdict(dict)
    for pair in pairs:
        node, other = pair["node"], pair["other"]
        mine, theirs = (zones.get(one, 0) * _MINUTE_MS * 1000 for one in (node, other))
        seen = [
            (point["at"] + round(point["delta"] * 1000) - mine, point["at"] - theirs)
            for point in pair["points"]
        ]
        met[node][other] = seen
        met[other][node] = [(second, first) for first, second in seen]
    return met


def _groups(meetings: Meetings) -> list[list[str]]:
    """Part nodes into groups that met, directly or through others."""
    left = set(meetings)
    groups = []
    while left:
        waiting, group = [min(left)], set()
        while waiting:
            node = waiting.pop()
            if node not in group:
                group.add(node)
                waiting += meetings[node]
        left -= group
        groups.append(sorted(group))
    return groups


def _told_by_one(
    members: Sequence[str],
    meetings: Meetings,
    ties: Mapping[str, int],
    steady: Mapping[str, int],
) -> tuple[str, dict[str, ClockModel]]:
    """Choose a reference, and place all others by it."""
    most = max(ties.values())
    root = max(sorted(n for n in ties if 2 * ties[n] >= most), key=lambda node: steady[node])
    found = _placed(root, members, meetings)
    reference = choose_reference(found, ties, steady)
    if reference != root:
        found = _placed(reference, members, meetings)
    found[reference] = _doubting(reference, found, meetings[reference])
    return reference, found


def _placed(root: str, members: Sequence[str], meetings: Meetings) -> dict[str, ClockModel]:
    """Place each node by those that were placed before it, the surest one first."""
    courses = {root: ClockModel((ClockSegment(0, 0.0, 0.0, 0.0, -(2**62), 2**62),))}
    waiting: dict[str, list[Told]] = defaultdict(list)
    newest = root
    while len(courses) < len(members):
        for node in meetings[newest]:
            if node in courses or len(waiting[node]) >= _TRIED:
                continue
            waiting[node].append(_course(node, [newest], courses, meetings))
            together = [other for other in meetings[node] if other in courses]
            if len(together) > 1:
                waiting[node].append(_course(node, together, courses, meetings))
        best = {node: _surest(found) for node, found in waiting.items()}
        newest = min(sorted(best), key=lambda node: _doubt(best[node]))
        courses[newest] = _hazy(best[newest], courses, meetings[newest])
        del waiting[newest]
    return courses


def _surest(found: Sequence[Told]) -> ClockModel:
    """Choose the course in least doubt, but none that leaves out most of what is known."""
    most = max(known for known, _, _ in found)
    able = [one for one in found if _LEAVES * one[0] >= most]
    return min(able, key=lambda one: _doubt(one[2]) * (one[1] / max(1, one[0])) ** 2)[2]


def _doubt(course: ClockModel) -> float:
    """Give how far off a course may be at its worst."""
    return max(piece.uncertainty_ms for piece in course.segments)


def _course(
    node: str, others: Iterable[str], courses: Mapping[str, ClockModel], meetings: Meetings
) -> Told:
    """Lay the course of a node through all points against some nodes that are placed.

    How many points it explains, and of how many, comes first.
    """
    points: list[Point] = []
    doubts = 0.0
    for other in others:
        course = courses[other]
        for mine, theirs in meetings[node][other]:
            if any(step.is_ambiguous_at(theirs, None, None) for step in course.steps):
                continue
            piece = course.segment_at(theirs)
            at = theirs - round(piece.offset_at(theirs) * 1000)
            points.append((at, (mine - at) / 1000))
            doubts += piece.uncertainty_ms
    if not points:
        return 0, 0, ClockModel((ClockSegment(0, 0.0, 0.0, _NOTHING_MS, 0, 0),))
    one_way, other_way = dedupe_by_either_clock(points)
    kept = sorted({*thin_evenly(one_way, _KEPT), *thin_evenly(other_way, _KEPT)})
    found = fit_segments(kept)
    inherited = doubts / len(points)
    least = TYPICAL_LAG_MS + 2 * median_residual([line for line, _, _ in found], one_way)
    pieces = [
        _piece(line, first, last, max(doubt, least) + inherited)
        for (line, first, last), doubt in zip(found, _doubts(found), strict=True)
    ]
    steps = [_step(before[0], before[2], after[0], after[1]) for before, after in pairwise(found)]
    known = sum(len(line.inliers) for line, _, _ in found)
    return known, len(kept), ClockModel(tuple(pieces), tuple(steps))


def _doubts(found: Sequence[FittedSegment]) -> list[float]:
    """Give the doubt of each stretch: one with fewer points is no surer than one with more."""
    return [
        max(one.uncertainty_ms for one, *_ in found if len(one.inliers) >= len(line.inliers))
        for line, *_ in found
    ]


def _piece(line: FittedLine, first: int, last: int, doubt: float) -> ClockSegment:
    """Turn a line over the reference's time into one over the node's own."""
    own = [at + round(line.offset_at(at) * 1000) for at in (line.at, first, last)]
    ppm = line.drift_ppm / (1 + line.drift_ppm / 1e6)
    return ClockSegment(own[0], line.offset_ms, ppm, doubt, own[1], own[2])


def _step(before: FittedLine, last: int, after: FittedLine, first: int) -> ClockStep:
    """Bound a step by the last word of the stretch before it and the first one after it."""
    middle = (last + first) // 2
    old, new = (
        [at + round(line.offset_at(at) * 1000) for at in (last, middle, first)]
        for line in (before, after)
    )
    size = after.offset_at(middle) - before.offset_at(middle)
    low, high = min(old[0], new[0]), max(old[2], new[2])
    return ClockStep(low, high, (old[1] + new[1]) // 2, size, middle)


def _doubting(reference: str, courses: Mapping[str, ClockModel], met: Meeting) -> ClockModel:
    """Doubt the reference: nothing tells the true time, and others may agree that it went wrong.

    It is no surer of the time than its best companion.
    """
    others = {node: course for node, course in courses.items() if node != reference}
    piece = replace(
        courses[reference].segments[0], uncertainty_ms=min(map(_doubt, others.values()))
    )
    return _hazy(ClockModel((piece,)), others, met)


def _hazy(course: ClockModel, others: Mapping[str, ClockModel], met: Meeting) -> ClockModel:
    """Say where a course does not fit all that the others saw, and not only what it is made of."""
    seen = []
    for other, points in met.items():
        for mine, theirs in points if other in others else ():
            piece = others[other].segment_at(theirs)
            at = theirs - round(piece.offset_at(theirs) * 1000)
            if not any(step.is_ambiguous_at(theirs, None, None) for step in others[other].steps):
                seen.append(measure_residual(course, mine, at, piece.uncertainty_ms))
    return replace(course, unexplained=find_unexplained(seen))


def _zone_of(course: ClockModel) -> int:
    """Read a zone off an offset of whole quarters of an hour, as no line tells of it."""
    if len(course.segments) > 1:
        return 0
    offset = course.segments[0].offset_ms
    shift = round(offset / _MINUTE_MS / _ZONE_STEP) * _ZONE_STEP
    return shift if abs(offset - shift * _MINUTE_MS) < _ZONE_REST_MS else 0


def _moved(course: ClockModel, shift: int) -> ClockModel:
    micros = shift * _MINUTE_MS * 1000
    piece = course.segments[0]
    moved = replace(
        piece,
        at=piece.at - micros,
        first=piece.first - micros,
        last=piece.last - micros,
        offset_ms=piece.offset_ms - shift * _MINUTE_MS,
    )
    hazes = [
        replace(haze, low=haze.low - micros, high=haze.high - micros) for haze in course.unexplained
    ]
    return replace(course, segments=(moved,), unexplained=tuple(hazes))
