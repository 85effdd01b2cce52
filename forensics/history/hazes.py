"""Finds where what others saw does not fit the course of a clock, and nothing tells why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from forensics.history.clocks import Haze
from forensics.history.courses import Stretch
from forensics.history.crowds import Point

__all__ = ["Sighting", "hazes", "strays"]

_ALWAYS = 2**62
# A node that hangs hears all at once what came meanwhile; a clock that is off stays off.
_STEADY_MS, _BURST = 500.0, 1_000_000


@dataclass(frozen=True)
class Sighting:
    """A point by the time of the reference, how far it lies beside a course, if that fits."""

    at: int
    miss: float
    offset: float
    fits: bool

    @property
    def own(self) -> int:
        """The time that the clock would have shown on its course."""
        return self.at + round(self.offset * 1000)


def strays(
    points: Sequence[Point], found: Sequence[Stretch], doubts: Sequence[float]
) -> tuple[Haze, ...]:
    """Find where points, in the order of time, lie beside their stretch by more than its doubt."""
    return hazes(_beside(points, found, doubts))


def hazes(seen: Iterable[Sighting]) -> tuple[Haze, ...]:
    """Find runs of sightings that do not fit, and that a node that hung does not explain.

    Before the first one that fits, and after the last one, any miss may be a clock set anew.
    Between two that fit, only misses that stay the same may be: all others are a node that hung.
    """
    runs = [(fits, list(run)) for fits, run in groupby(seen, key=lambda one: one.fits)]
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


def _beside(
    points: Sequence[Point], found: Sequence[Stretch], doubts: Sequence[float]
) -> Iterator[Sighting]:
    """Lay each point beside the stretch that it may belong to: between two, the nearer one."""
    for at, delta in points:
        here = max(0, sum(first <= at for _, first, _ in found) - 1)
        able = [here] if at <= found[here][2] else [here, min(here + 1, len(found) - 1)]
        there = min(able, key=lambda n: abs(delta - found[n][0].offset(at)) - doubts[n])
        offset = found[there][0].offset(at)
        yield Sighting(at, delta - offset, offset, abs(delta - offset) <= doubts[there])


def _is_steady(run: Sequence[Sighting]) -> bool:
    """Whether a miss was the same a while later; what a node hears all at once never is."""
    return any(
        later.at - one.at > _BURST and abs(later.miss - one.miss) <= _STEADY_MS
        for n, one in enumerate(run)
        for later in run[n + 1 :]
    )
