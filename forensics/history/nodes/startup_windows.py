"""When a process was starting up: what it logs then about partitions is old news."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from forensics.lib.arrow_io import SIGHTING, read_events
from forensics.lib.intervals import Interval, IntervalSet
from forensics.lib.time_units import SECOND

_BEGINS = ("process_starting", "replaying")
_CREATED = "controller_created"
STARTUP_KINDS = (*_BEGINS, _CREATED, "caught_up", "controller_elected", "process_started")

# A broker under ZooKeeper logs "started" before the controller tells it what it holds.
_SETTLING = 30 * SECOND
# A controller reads its metadata log in two threads, and only one of them logs that it has caught
# up; the other may still be at it. A controller that is elected has read everything.
_TRAILING = 2 * SECOND
# Where only the controller.log is there, nothing but its first lines tells of a start.
_UNTOLD = 30 * SECOND
# No start takes longer; a file that ends in the middle of one must not silence what follows.
_LONGEST = 900 * SECOND

Windows = Mapping[str, Sequence[Interval]]


@dataclass(frozen=True)
class StartupWindows:
    """For each node the intervals, in microseconds as logged, in which it was catching up."""

    starting: Windows
    replaying: Windows

    @classmethod
    def from_events(cls, events: Iterable[Mapping[str, Any]]) -> StartupWindows:
        """Collect windows from events of STARTUP_KINDS."""
        ordered = sorted(events, key=lambda e: (e["node"], e["ts"], e["file"], e["line"]))
        elected: dict[str, list[int]] = defaultdict(list)
        created: dict[str, list[Interval]] = defaultdict(list)
        for event in ordered:
            if event["kind"] == "controller_elected":
                elected[event["node"]].append(event["ts"])
            elif event["kind"] == _CREATED:
                created[event["node"]].append((event["ts"], event["ts"] + _UNTOLD))
        found = {**created, **_find_windows(ordered, "caught_up", _TRAILING)}
        replaying = {
            node: [
                (begin, min([end, *elected[node][bisect_right(elected[node], begin) :][:1]]))
                for begin, end in windows
            ]
            for node, windows in found.items()
        }
        return cls(_find_windows(ordered, "process_started", _SETTLING), replaying)

    def is_starting(self, node: str, moment: int) -> bool:
        """Return True if a broker was starting at a moment."""
        return moment in self._merged(node, None)

    def is_replaying(self, node: str, moment: int, trailing: int = 0) -> bool:
        """Return True if a controller was still reading the metadata log, or had `trailing` ago."""
        return moment in self._merged(node, trailing)

    def _merged(self, node: str, trailing: int | None) -> IntervalSet:
        """Return a node's starts, or the times of its replays with what trails them.

        Every line of a partition asks for them.
        """
        merged = self._known.get((node, trailing))
        if merged is None:
            windows = (self.starting if trailing is None else self.replaying).get(node, ())
            merged = IntervalSet((begin, end + (trailing or 0)) for begin, end in windows)
            self._known[node, trailing] = merged
        return merged

    @cached_property
    def _known(self) -> dict[tuple[str, int | None], IntervalSet]:
        return {}


def _find_windows(events: Iterable[Mapping[str, Any]], closes: str, settling: int) -> Windows:
    windows: dict[str, list[Interval]] = defaultdict(list)
    open_since: dict[str, int] = {}
    for event in events:
        node, moment = event["node"], event["ts"]
        if event["kind"] in _BEGINS:
            open_since.setdefault(node, moment)
        elif event["kind"] == closes and node in open_since:
            begin = open_since.pop(node)
            windows[node].append((begin, min(moment + settling, begin + _LONGEST)))
    for node, begin in open_since.items():
        windows[node].append((begin, begin + _LONGEST))
    return windows


def read_startup_windows(events: Path) -> StartupWindows:
    """Read when each process was starting and catching up."""
    rows = read_events(events, STARTUP_KINDS, SIGHTING)
    return StartupWindows.from_events(row for row in rows if row["node"])
