"""Stretches of time that are short where much happens and long where nothing does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_BINS", "coarser", "edges"]

MAX_BINS = 600
SECOND, LONGEST = 1000, 600_000
# How much longer a stretch is for every millisecond that it lies further from what happened.
_WIDER = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# The grid on which the widths are worked out.
_FINE = 20_000
Ints = npt.NDArray[np.int64]


def edges(whole: tuple[int, int], moments: Iterable[int], most: int = MAX_BINS) -> Ints:
    """Cut a window into at most `most` stretches, about a second long around each moment.

    Moments come by their importance: where there are too many, the last ones have to do without.

    >>> edges((0, 10_000), [5000], 10).tolist()
    [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000]
    """
    start, end = whole
    length = end - start
    least = max(1.0, min(SECOND, length / most))
    grid = np.linspace(start, end, min(_FINE, max(2 * most, length // SECOND * 2)) + 1)
    steps = np.diff(grid)
    known = np.fromiter(moments, np.int64)
    for kept in _fewer(known):
        far = _distances((grid[1:] + grid[:-1]) / 2, kept)
        for rate in _WIDER:
            widths = np.minimum(np.maximum(least, rate * far), max(LONGEST, length / most))
            needed = np.concatenate([[0.0], np.cumsum(steps / widths)])
            if needed[-1] <= most + 1e-6:
                return _cut(grid, needed, whole)
    return np.linspace(start, end, most + 1).astype(np.int64)


def _fewer(moments: Ints) -> Iterator[Ints]:
    kept = len(moments)
    while kept:
        yield np.unique(moments[:kept])
        kept = kept * 3 // 4
    yield moments[:0]


def _distances(points: npt.NDArray[np.float64], moments: Ints) -> npt.NDArray[np.float64]:
    if not len(moments):
        return np.full(len(points), float(LONGEST) * 1000)
    after = np.searchsorted(moments, points)
    before = moments[np.maximum(after - 1, 0)]
    follows = moments[np.minimum(after, len(moments) - 1)]
    found: npt.NDArray[np.float64] = np.minimum(np.abs(points - before), np.abs(follows - points))
    return found


def _cut(grid: npt.NDArray[np.float64], needed: npt.NDArray[np.float64],
         whole: tuple[int, int]) -> Ints:  # fmt: skip
    number = max(1, int(needed[-1] + 1e-6))
    wanted = np.linspace(0, needed[-1], number + 1)
    inner = np.interp(wanted, needed, grid).round().astype(np.int64)[1:-1]
    return np.unique(np.concatenate([[whole[0]], inner, [whole[1]]]))


def coarser(fine: Ints, most: int) -> Ints:
    """Put neighbouring stretches together until they are few.

    >>> coarser(np.arange(7), 3).tolist()
    [0, 2, 4, 6]
    """
    every = -(-(len(fine) - 1) // most)
    kept = fine[::every]
    return kept if kept[-1] == fine[-1] else np.append(kept, fine[-1])
