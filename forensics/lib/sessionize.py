"""Groups things that follow each other closely: a session ends before a gap that is too long.

Gaps are inclusive: what comes exactly `gap` after the session's end still belongs to it.
- `sessions`: items in memory; `windows` bounds the whole group, not each gap within it, and
  `busiest_window` is the largest of all such groups
- `SessionCounter`: millions of moments in any order, of which only sessions are held
- `session_ids`: columns
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Numbers = npt.NDArray[np.int64]


def sessions(
    items: Iterable[Item],
    start: Callable[[Item], int],
    gap: float,
    end: Callable[[Item], int] | None = None,
) -> Iterator[list[Item]]:
    """Group items, sorted by their start: each begins at most `gap` after the end of those before.

    Without `end`, items are moments.

    >>> list(sessions([1, 3, 4, 9], int, 2))
    [[1, 3, 4], [9]]
    """
    end = end or start
    session: list[Item] = []
    last = 0
    for item in items:
        if session and start(item) - last > gap:
            yield session
            session = []
        last = max(last, end(item)) if session else end(item)
        session.append(item)
    if session:
        yield session


def windows(
    items: Iterable[Item], start: Callable[[Item], int], width: float
) -> Iterator[list[Item]]:
    """Group items, sorted by their start: each begins at most `width` after the group's first.

    >>> list(windows([1, 3, 4, 9], int, 2))
    [[1, 3], [4], [9]]
    """
    window: list[Item] = []
    for item in items:
        if window and start(item) - start(window[0]) > width:
            yield window
            window = []
        window.append(item)
    if window:
        yield window


def busiest_window(
    items: Sequence[Item], start: Callable[[Item], int], width: float
) -> Sequence[Item]:
    """Return the most items, sorted by their start, that begin within `width` of their first.

    >>> busiest_window([1, 4, 5, 6, 9], int, 2)
    [4, 5, 6]
    """
    begin = end = reach = 0
    for index, first in enumerate(items):
        while reach < len(items) and start(items[reach]) - start(first) <= width:
            reach += 1
        if reach - index > end - begin:
            begin, end = index, reach
    return items[begin:end]


@dataclass
class Session:
    """Moments that follow each other closely."""

    start: int
    end: int
    count: int = 1


class SessionCounter(Generic[Key]):
    """Finds the sessions of many keys in one pass over moments in any order.

    It holds one record for each stretch of `gap` that has a moment: two moments in the same stretch
    are never further apart than `gap`.

    >>> counter = SessionCounter(gap=5)
    >>> for moment in (21, 1, 6, 3):
    ...     counter.add("broker-1", moment)
    >>> counter.sessions()
    {'broker-1': [Session(start=1, end=6, count=3), Session(start=21, end=21, count=1)]}
    """

    def __init__(self, gap: int) -> None:
        """Begin with no moment."""
        self._gap = gap
        self._parts: dict[Key, dict[int, Session]] = {}

    def add(self, key: Key, moment: int) -> None:
        """Count a moment."""
        parts = self._parts.setdefault(key, {})
        stretch = moment // max(self._gap, 1)
        part = parts.get(stretch)
        if part is None:
            parts[stretch] = Session(moment, moment)
        else:
            part.start, part.end = min(moment, part.start), max(moment, part.end)
            part.count += 1

    def sessions(self, min_count: int = 1) -> dict[Key, list[Session]]:
        """Return the sessions of each key with at least so many moments, in the order of time."""
        joined = {key: self._join(parts) for key, parts in self._parts.items()}
        large = {
            key: [session for session in found if session.count >= min_count]
            for key, found in joined.items()
        }
        return {key: found for key, found in large.items() if found}

    def _join(self, parts: dict[int, Session]) -> list[Session]:
        groups = sessions(
            (parts[stretch] for stretch in sorted(parts)),
            lambda part: part.start,
            self._gap,
            lambda part: part.end,
        )
        return [
            Session(group[0].start, group[-1].end, sum(part.count for part in group))
            for group in groups
        ]


def session_ids(moments: Numbers, gap: int, *keys: npt.NDArray[Any]) -> Numbers:
    """Number the session of each row, from 0 on; rows that differ in a key never share one.

    >>> session_ids(np.array([1, 9, 3, 4]), 2).tolist()
    [0, 1, 0, 0]
    >>> session_ids(np.array([1, 2, 3]), 2, np.array([7, 8, 7])).tolist()
    [0, 1, 0]
    """
    order = np.lexsort((moments, *keys))
    ids = np.empty(len(order), np.int64)
    begins = np.diff(moments[order], prepend=moments[order][:1]) > gap
    for key in keys:
        begins[1:] |= key[order][1:] != key[order][:-1]
    ids[order] = np.cumsum(begins)
    return ids
