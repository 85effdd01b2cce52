"""Finds where what others saw does not fit the course of a clock, and nothing tells why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from forensics.history.clocks import Course, Haze

__all__ = ["Sighting", "hazes", "sighting"]

_ALWAYS = 2**62
# A node that hangs hears all at once what came meanwhile; a clock that is off stays off.
_STEADY_MS, _BURST = 500.0, 1_000_000


@dataclass(frozen=True)
class Sighting:
    """What a clock showed when others saw the same, how far that is beside its course, if it fits.

    The moment `at` is by the reference, and `own` by the clock itself.
    """

    at: int
    own: int
    miss: float
    fits: bool


def sighting(course: Course, own: int, at: int, doubt: float) -> Sighting:
    """Lay what a clock showed at a moment, which may be in such doubt, beside its course."""
    pieces = [course.piece(own)]
    if any(step.hides(own, None, None) for step in course.steps):
        pieces = list(course.pieces)
    found = [
        Sighting(at, own, miss, abs(miss) <= max(piece.doubt_ms, doubt))
        for piece in pieces
        for miss in [(own - at) / 1000 - piece.offset(own)]
    ]
    return min(found, key=lambda one: (not one.fits, abs(one.miss)))


def hazes(seen: Iterable[Sighting]) -> tuple[Haze, ...]:
    """Find runs of sightings that do not fit, and that a node that hung does not explain.

    Before the first one that fits, and after the last one, any miss may be a clock set anew.
    Between two that fit, only misses that stay the same may be: all others are a node that hung.
    """
    ordered = sorted(seen, key=lambda one: (one.at, one.own))
    runs = [(fits, list(run)) for fits, run in groupby(ordered, key=lambda one: one.fits)]
    found = []
    for n, (fits, run) in enumerate(runs):
        inner = 0 < n < len(runs) - 1
        if fits or (inner and not _is_steady(run)):
            continue
        misses = [one.miss for one in run]
        # Both edges are the own times of points that fit; what lies between is shown shifted.
        early, late = (round(edge * 1000) for edge in (min(0.0, *misses), max(0.0, *misses)))
        low = runs[n - 1][1][-1].own + early if n else -_ALWAYS
        high = runs[n + 1][1][0].own + late if n < len(runs) - 1 else _ALWAYS
        found.append(Haze(low, high, max(map(abs, misses))))
    return tuple(found)


def _is_steady(run: Sequence[Sighting]) -> bool:
    """Whether a miss was the same a while later; what a node hears all at once never is."""
    return any(
        later.at - one.at > _BURST and abs(later.miss - one.miss) <= _STEADY_MS
        for n, one in enumerate(run)
        for later in run[n + 1 :]
    )
