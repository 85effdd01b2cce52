"""Solves all clocks as a graph: each node against those solved before it.

A node inherits the uncertainty of those it is solved against. The reference clock, to which all
others are corrected, is a steady one that most of them agree with.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from forensics.history.clocks import line_fit
from forensics.history.clocks.line_fit import LAG_MS, FittedSegment, Point
from forensics.history.clocks.model import (
    ClockModel,
    Clocks,
    ClockSegment,
    ClockStep,
    build_clock_rows,
)
from forensics.history.clocks.steps import find_unexplained, measure_residual

Pair = Mapping[str, Any]
# Of two nodes: when each of them logged the same states, by its own clock without the zone.
SharedMoments = list[tuple[int, int]]
SharedByNode = dict[str, dict[str, SharedMoments]]
Models = Mapping[str, ClockModel]

# The reference clock is right for ever.
_ALWAYS = 2**62
_REFERENCE = ClockModel((ClockSegment(0, 0.0, 0.0, 0.0, -_ALWAYS, _ALWAYS),))


def score_steadiness(pairs: Sequence[Pair]) -> dict[str, int]:
    """Count for each node the points that agree with one constant offset, minus the others."""
    scores: dict[str, int] = defaultdict(int)
    for pair in pairs:
        near = [abs(point["delta"] - pair["delta"]) <= 2 * LAG_MS for point in pair["points"]]
        for end in ("node", "other"):
            scores[pair[end]] += 2 * sum(near) - len(near)
    return scores


def choose_reference(models: Models, anchors: Mapping[str, int], steady: Mapping[str, int]) -> str:
    """Choose the node from which all others are nearest, over time: most clocks are right.

    `anchors` counts those of each candidate, `steady` is its score.
    """
    spans = {node: _known_span(model) for node, model in models.items()}
    known = [edge for span in spans.values() for edge in span if abs(edge) < _ALWAYS // 4]
    if not known:
        return min(anchors)
    begin, end = min(known), max(known)
    moments = [begin + (end - begin) * n // 8 for n in range(9)]
    offsets = {
        node: [model.segment_at(micros).offset_at(micros) for micros in moments]
        for node, model in models.items()
    }
    # A node that logged nothing around a moment has no vote on it.
    votes = [
        [offsets[node][n] for node, (first, last) in spans.items() if first <= micros <= last]
        for n, micros in enumerate(moments)
    ]
    # The nearer half decides: a clock that is far off, or hangs, must not draw the rest to it.
    distance = {
        node: sum(
            statistics.median_low(abs(offset - other) for other in voted)
            for offset, voted in zip(own, votes, strict=True)
        )
        for node, own in offsets.items()
    }
    # Of those that are about as near, the steadiest of those with the most anchors.
    limit = min(distance[node] for node in anchors) + LAG_MS * len(moments)
    near = [node for node in sorted(anchors) if distance[node] <= limit]
    enough = max(anchors[node] for node in near) / 2
    candidates = [node for node in near if anchors[node] >= enough]
    return min(candidates, key=lambda node: (-steady[node], sum(offsets[node])))


def _known_span(model: ClockModel) -> tuple[int, int]:
    """Return from when to when a clock is known, by the reference's time."""
    first, last = model.segments[0], model.segments[-1]
    begin = first.first - first.offset_micros(first.first)
    return begin, last.last - last.offset_micros(last.last)


_ZONE_STEP = 15
_MINUTE_MS = 60_000
# From Baker Island to Kiribati: no zone is farther from UTC.
_MAX_ZONE = 14 * 60
# A zone is off by whole quarters of an hour; what is left over must be drift, and small.
_ZONE_REST_MS = 5 * _MINUTE_MS
_KEPT = 256
# A node is tried against so many others before the surest model is taken.
_TRIED = 8
_NOTHING_MS = 1e9
# A model that explains less than such a part of what another one does is passed over.
_MIN_PART = 3


def estimate_zone_shifts(moments: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """Return zones in minutes, by lines with an epoch time: (node, logged micros, epoch ms)."""
    shifts: dict[str, list[float]] = defaultdict(list)
    for node, logged, epoch_ms in moments:
        shifts[node].append((logged / 1000 - epoch_ms) / _MINUTE_MS)
    zones = {node: _nearest_zone(statistics.median(minutes)) for node, minutes in shifts.items()}
    return {node: zone for node, zone in zones.items() if zone is not None}


def _nearest_zone(minutes: float) -> int | None:
    """Return the zone that times are off by; None if no zone is.

    >>> _nearest_zone(-300.1), _nearest_zone(-7 * 24 * 60), _nearest_zone(67)
    (-300, None, None)
    """
    zone = round(minutes / _ZONE_STEP) * _ZONE_STEP
    is_near = abs(minutes - zone) * _MINUTE_MS < _ZONE_REST_MS
    return zone if is_near and abs(zone) <= _MAX_ZONE else None


def solve_clocks(
    pairs: Sequence[Pair],
    zones: Mapping[str, int],
    nodes: Sequence[str],
    excluded_references: Collection[str] = (),
) -> Clocks:
    """Solve all clocks from PAIRS; `zones` are those that lines with epoch times show.

    Nodes in `excluded_references` are used as the reference clock only if no other node qualifies.
    """
    zones = dict(zones)
    counts: dict[str, int] = defaultdict(int)
    for pair in pairs:
        for end in ("node", "other"):
            counts[pair[end]] += pair["count"]
    shared = _shared_moments(pairs, zones)
    models: dict[str, ClockModel] = {}
    references: set[str] = set()
    steady = score_steadiness(pairs)
    for group, members in enumerate(_connected_groups(shared)):
        candidates = [node for node in members if node not in excluded_references] or members
        anchors = {node: counts[node] for node in candidates}
        reference, solved = _solve_group(members, shared, anchors, steady)
        references.add(reference)
        models |= {node: replace(model, group=group) for node, model in solved.items()}
    for node, model in models.items():
        if node not in zones and (zone := _zone_of(model)):
            zones[node] = zone
            models[node] = _without_zone(model, zone)
    rows = build_clock_rows(sorted({*nodes}), models, zones, counts, references)
    offsets = {node: model.segments[-1].offset_ms for node, model in models.items()}
    return Clocks(offsets, zones, rows, models)


def _shared_moments(pairs: Sequence[Pair], zones: Mapping[str, int]) -> SharedByNode:
    shared: SharedByNode = defaultdict(dict)
    for pair in pairs:
        node, other = pair["node"], pair["other"]
        zone, other_zone = (zones.get(name, 0) * _MINUTE_MS * 1000 for name in (node, other))
        moments = [
            (point["at"] + round(point["delta"] * 1000) - zone, point["at"] - other_zone)
            for point in pair["points"]
        ]
        shared[node][other] = moments
        shared[other][node] = [(second, first) for first, second in moments]
    return shared


def _connected_groups(shared: SharedByNode) -> list[list[str]]:
    """Group the nodes that share moments, directly or through others."""
    left = set(shared)
    groups = []
    while left:
        waiting, group = [min(left)], set()
        while waiting:
            node = waiting.pop()
            if node not in group:
                group.add(node)
                waiting += shared[node]
        left -= group
        groups.append(sorted(group))
    return groups


def _solve_group(
    members: Sequence[str],
    shared: SharedByNode,
    anchors: Mapping[str, int],
    steady: Mapping[str, int],
) -> tuple[str, dict[str, ClockModel]]:
    """Choose a reference clock, and solve all others against it."""
    enough = max(anchors.values()) / 2
    root = max(sorted(n for n in anchors if anchors[n] >= enough), key=lambda node: steady[node])
    models = _solve_without_refuted(root, members, shared)
    reference = choose_reference(models, anchors, steady)
    if reference != root:
        models = _solve_without_refuted(reference, members, shared)
    # The reference is no surer of the true time than its best companion: others may agree that it
    # went wrong.
    del models[reference]
    surest = min(map(_worst_uncertainty, models.values()))
    segment = replace(_REFERENCE.segments[0], uncertainty_ms=surest)
    models[reference] = _with_unexplained(ClockModel((segment,)), models, shared[reference])
    return reference, models


@dataclass(frozen=True)
class _Candidate:
    """A model of a clock, and how many of the points it explains."""

    model: ClockModel
    explained: int
    points: int


def _solve_without_refuted(
    root: str, members: Sequence[str], shared: SharedByNode
) -> dict[str, ClockModel]:
    """Solve all nodes; whose steps other nodes refute is solved again as a clock without steps."""
    level: set[str] = set()
    while True:
        models = _solve_from(root, members, shared, level)
        refuted = {node for node in models if _is_refuted(node, models, shared[node])} - level
        if not refuted:
            return models
        level |= refuted


def _is_refuted(node: str, models: Models, shared: Mapping[str, SharedMoments]) -> bool:
    """Return True if a step of a clock is seen by no more steady nodes than see that it is none.

    A step moves a clock against all others at once. What is late twice by about as much for one of
    the others alone is that one, which hung, or had just started.
    """
    model = models[node]
    for n, step in enumerate(model.steps):
        before, after = model.segments[n : n + 2]
        last = model.steps[n + 1].low if n + 1 < len(model.steps) else _ALWAYS
        near = abs(step.size_ms) / 4
        agree = against = 0
        for other, moments in shared.items():
            if other not in models or models[other].steps:
                continue
            points = [
                (
                    at,
                    (own - at) / 1000 - before.offset_at(own),
                    (own - at) / 1000 - after.offset_at(own),
                )
                for own, at, _ in _corrected_moments(moments, models[other])
                if after.first <= own <= last
            ]
            old = len(line_fit.dedupe_bursts((at, ms) for at, ms, _ in points if abs(ms) < near))
            new = len(line_fit.dedupe_bursts((at, ms) for at, _, ms in points if abs(ms) < near))
            agree += new > old
            against += old > new
        if against and against >= agree:
            return True
    return False


def _solve_from(
    root: str, members: Sequence[str], shared: SharedByNode, level: Collection[str] = ()
) -> dict[str, ClockModel]:
    """Solve each node against those solved before it, the one with the least uncertainty first.

    The clocks of `level` nodes have no steps.
    """
    models = {root: _REFERENCE}
    waiting: dict[str, list[_Candidate]] = defaultdict(list)
    newest = root
    while len(models) < len(members):
        for node in shared[newest]:
            if node in models or len(waiting[node]) >= _TRIED:
                continue
            fit = partial(_fit_model, node, models=models, shared=shared, level=node in level)
            waiting[node].append(fit([newest]))
            solved = [other for other in shared[node] if other in models]
            if len(solved) > 1:
                waiting[node].append(fit(solved))
        best = {node: _choose_model(candidates) for node, candidates in waiting.items()}
        newest = min(sorted(best), key=lambda node: _worst_uncertainty(best[node]))
        models[newest] = _with_unexplained(best[newest], models, shared[newest])
        del waiting[newest]
    return models


def _choose_model(candidates: Sequence[_Candidate]) -> ClockModel:
    """Choose the model with the least uncertainty that does not leave out most of the points."""
    most = max(one.explained for one in candidates)
    qualified = [one for one in candidates if _MIN_PART * one.explained >= most]

    def badness(one: _Candidate) -> float:
        return _worst_uncertainty(one.model) * (one.points / max(1, one.explained)) ** 2

    return min(qualified, key=badness).model


def _worst_uncertainty(model: ClockModel) -> float:
    return max(segment.uncertainty_ms for segment in model.segments)


def _corrected_moments(
    moments: SharedMoments, other: ClockModel
) -> Iterator[tuple[int, int, float]]:
    """Yield own times, the reference times of the same moments, and how uncertain these are."""
    for own, theirs in moments:
        if not other.is_ambiguous(theirs):
            segment = other.segment_at(theirs)
            at = theirs - segment.offset_micros(theirs)
            yield own, at, segment.uncertainty_ms


def _fit_model(
    node: str, others: Iterable[str], models: Models, shared: SharedByNode, *, level: bool
) -> _Candidate:
    """Fit the model of a node, without steps if `level`, to points shared with solved nodes."""
    points: list[Point] = []
    uncertainties = 0.0
    for other in others:
        for own, at, uncertainty in _corrected_moments(shared[node][other], models[other]):
            points.append((at, (own - at) / 1000))
            uncertainties += uncertainty
    if not points:
        return _Candidate(ClockModel((ClockSegment(0, 0.0, 0.0, _NOTHING_MS, 0, 0),)), 0, 0)
    by_one, by_other = line_fit.dedupe_by_either_clock(points)
    kept = sorted({*line_fit.thin_evenly(by_one, _KEPT), *line_fit.thin_evenly(by_other, _KEPT)})
    fitted = line_fit.fit_segments(kept, steps=not level)
    inherited = uncertainties / len(points)
    least = LAG_MS + 2 * line_fit.median_residual([one.line for one in fitted], by_one)
    segments = [
        _clock_segment(one, max(_segment_uncertainty(one, fitted), least) + inherited)
        for one in fitted
    ]
    steps = [_clock_step(before, after) for before, after in pairwise(fitted)]
    explained = sum(len(one.line.inliers) for one in fitted)
    return _Candidate(ClockModel(tuple(segments), tuple(steps)), explained, len(kept))


def _segment_uncertainty(segment: FittedSegment, fitted: Sequence[FittedSegment]) -> float:
    """Return a segment's uncertainty: no less than that of one with more points."""
    count = len(segment.line.inliers)
    return max(one.line.uncertainty_ms for one in fitted if len(one.line.inliers) >= count)


def _clock_segment(fitted: FittedSegment, uncertainty: float) -> ClockSegment:
    """Turn a line over the reference's time into a segment over the node's own."""
    line = fitted.line
    at, first, last = (
        micros + line.offset_micros(micros) for micros in (line.at, fitted.first, fitted.last)
    )
    drift = line.drift_ppm / (1 + line.drift_ppm / 1e6)
    return ClockSegment(at, line.offset_ms, drift, uncertainty, first, last)


def _clock_step(before: FittedSegment, after: FittedSegment) -> ClockStep:
    """Bound a step by the last point of the segment before it and the first one after it."""
    middle = (before.last + after.first) // 2
    old, new = (
        [at + line.offset_micros(at) for at in (before.last, middle, after.first)]
        for line in (before.line, after.line)
    )
    size = after.line.offset_at(middle) - before.line.offset_at(middle)
    low, high = min(old[0], new[0]), max(old[2], new[2])
    return ClockStep(low, high, (old[1] + new[1]) // 2, size, middle)


def _with_unexplained(
    model: ClockModel, others: Models, shared: Mapping[str, SharedMoments]
) -> ClockModel:
    """Mark where a model does not fit all that others logged, not only what it was fitted to."""
    residuals = [
        measure_residual(model, own, at, uncertainty)
        for other, moments in shared.items()
        if other in others
        for own, at, uncertainty in _corrected_moments(moments, others[other])
    ]
    return replace(model, unexplained=find_unexplained(residuals))


def _zone_of(model: ClockModel) -> int:
    """Read a zone off an offset of whole quarters of an hour, where no line shows it."""
    segment = model.segments[0]
    if len(model.segments) > 1 or segment.uncertainty_ms > _ZONE_REST_MS:
        return 0
    return _nearest_zone(segment.offset_ms / _MINUTE_MS) or 0


def _without_zone(model: ClockModel, zone: int) -> ClockModel:
    micros = zone * _MINUTE_MS * 1000
    segment = model.segments[0]
    segment = replace(
        segment,
        at=segment.at - micros,
        first=segment.first - micros,
        last=segment.last - micros,
        offset_ms=segment.offset_ms - zone * _MINUTE_MS,
    )
    unexplained = tuple(
        replace(one, low=one.low - micros, high=one.high - micros) for one in model.unexplained
    )
    return replace(model, segments=(segment,), unexplained=unexplained)
