"""Steps of a timeline with their evidence, in the order of Kafka's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forensics.run_output.reader import Row

# The kind of end of a step, by that of a row. An observed end is the next known time: it must be
# checked whether anything lies between.
ROW_ENDS = {"open": "open", "unknown": "sure"}
# Rows of one partition or broker that are read at most.
MAX_ROWS = 20_000


@dataclass(frozen=True, order=True)
class Location:
    """A line of an input file."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class ShownTime:
    """The time that is shown; `last` is the end of the logs."""

    start: int
    end: int
    last: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", self.last or self.end)

    @property
    def span(self) -> tuple[int, int]:
        """Start and end."""
        return self.start, self.end


@dataclass(frozen=True)
class Step:
    """An interval or a moment; times in milliseconds, None if not known.

    `end_kind` says what is known of the end: `moment` (there is none), `known`, `sure` (it lasted
    until then, what follows is not known), `open` (not seen to end) or `unknown` (`end` is the
    latest possible time).
    """

    kind: str
    start: int | None
    text: str
    end: int | None = None
    end_kind: str = "moment"
    evidence: tuple[Location, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_main: bool = False

    def clip(self, shown: ShownTime) -> tuple[int, int]:
        """Return the part of the shown time that it covers; an open side is the edge."""
        start = shown.start if self.start is None else max(self.start, shown.start)
        end = shown.end if self.end is None else min(self.end, shown.end)
        return start, max(start, end)

    def known_duration(self, shown: ShownTime) -> int:
        """Return how long it surely lasted within the shown time."""
        if self.start is None or self.end_kind not in ("known", "sure"):
            return 0
        start, end = self.clip(shown)
        return end - start


@dataclass(frozen=True)
class Timeline:
    """The steps of one partition or broker."""

    kind: str
    name: str
    summary: str
    steps: tuple[Step, ...]
    shown: ShownTime
    omitted: int = 0
    texts: Mapping[Location, str] = field(default_factory=dict)

    @property
    def broker(self) -> int:
        """The id of the broker that this is the timeline of."""
        return int(self.name.split()[-1])


@dataclass(frozen=True)
class OrderedStep:
    """A step and its position: its time, or the time of what Kafka counted before it."""

    position: int
    rank: int
    step: Step


def arrange_steps(steps: Iterable[OrderedStep], shown: ShownTime) -> tuple[Step, ...]:
    """Sort steps by position, rank, and as they came; leave out those outside the shown time."""
    kept = []
    for ordered in sorted(steps, key=lambda ordered: (ordered.position, ordered.rank)):
        step = ordered.step
        start = ordered.position if step.start is None else step.start
        # A step with an unknown end may have lasted until the end of the shown time.
        end = start if step.end_kind == "moment" else shown.end if step.end is None else step.end
        if start <= shown.end and max(start, end) >= shown.start:
            kept.append(step)
    return tuple(kept)


def row_locations(row: Row) -> tuple[Location, ...]:
    """Return the evidence of a row of a table."""
    return tuple(Location(str(line["file"]), line["line"]) for line in row.get("evidence") or ())
