"""When a process was starting: what it says then about partitions is old news."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.lib.arrow_io import SIGHTING, read_events
from forensics.lib.time_units import SECOND

STARTUP_KINDS = (
    "process_starting",
    "replaying",
    "caught_up",
    "controller_elected",
    "process_started",
)

# A broker under ZooKeeper says "started" before the controller tells it what it holds.
_SETTLING = 30 * SECOND
# A controller reads its metadata log in two threads, and only one of them says that it has caught
# up; the other may still be at it. Whoever takes office has read everything.
_TRAILING = 2 * SECOND
# No start takes longer; a file that ends in the middle of one must not silence what follows.
_LONGEST = 900 * SECOND


@dataclass(frozen=True)
class StartupWindows:
    """For each node the stretches, in microseconds as logged, in which it was catching up."""

    starting: Mapping[str, list[tuple[int, int]]]
    replaying: Mapping[str, list[tuple[int, int]]]

    @classmethod
    def from_events(cls, events: Iterable[Mapping[str, Any]]) -> StartupWindows:
        """Collect phases from events of PHASE_KINDS."""
        ordered = sorted(events, key=lambda e: (e["node"], e["ts"], e["file"], e["line"]))
        starting = _stretches(ordered, ("process_starting", "replaying"), "process_started")
        replaying = _stretches(
            ordered, ("process_starting", "replaying"), "caught_up", settling=_TRAILING
        )
        offices = [(e["node"], e["ts"]) for e in ordered if e["kind"] == "controller_elected"]
        return cls(starting, _until(replaying, offices))

    def is_starting(self, node: str, moment: int) -> bool:
        """Whether a broker was starting at a moment."""
        return _inside(self.starting.get(node, ()), moment)

    def is_replaying(self, node: str, moment: int) -> bool:
        """Whether a controller was still reading the metadata log at a moment."""
        return _inside(self.replaying.get(node, ()), moment)


def _stretches(
    events: list[Mapping[str, Any]], opens: tuple[str, ...], closes: str, settling: int = _SETTLING
) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    begun: dict[str, int] = {}
    for event in events:
        node, moment = event["node"], event["ts"]
        if event["kind"] in opens:
            begun.setdefault(node, moment)
        elif event["kind"] == closes and node in begun:
            begin = begun.pop(node)
            found.setdefault(node, []).append((begin, min(moment + settling, begin + _LONGEST)))
    for node, begin in begun.items():
        found.setdefault(node, []).append((begin, begin + _LONGEST))
    return found


def _until(
    found: Mapping[str, list[tuple[int, int]]], moments: Iterable[tuple[str, int]]
) -> dict[str, list[tuple[int, int]]]:
    """Let no stretch of a node reach beyond the first of its moments in it."""
    told: dict[str, list[int]] = {}
    for node, moment in moments:
        told.setdefault(node, []).append(moment)
    return {
        node: [
            (begin, min([end, *(at for at in told.get(node, ()) if begin < at < end)]))
            for begin, end in stretches
        ]
        for node, stretches in found.items()
    }


def _inside(stretches: Iterable[tuple[int, int]], moment: int) -> bool:
    return any(begin <= moment <= end for begin, end in stretches)


def read_startup_windows(path: Path) -> StartupWindows:
    """Read when each process was starting and catching up."""
    return StartupWindows.from_events(
        row for row in read_events(path, STARTUP_KINDS, SIGHTING) if row["node"]
    )
