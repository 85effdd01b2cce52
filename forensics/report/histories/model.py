"""What a timeline is made of: steps with their evidence, in the order of Kafka's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.run_output.reader import Row

# What the tables say of the end of a row, in our words. An end that was observed is the next time
# that is known, and what lies between must be looked at.
ROW_ENDS = {"open": "open", "unknown": "sure"}
# Of one partition's or broker's rows no more are read: a terminal and a page have an end.
MAX_ROWS = 20_000


@dataclass(frozen=True, order=True)
class Location:
    """One line of one input file."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class ShownTime:
    """What is shown, from when to when; `last` is the end of the logs."""

    start: int
    end: int
    last: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", self.last or self.end)

    @property
    def span(self) -> tuple[int, int]:
        """The two times, as the figures want them."""
        return self.start, self.end


@dataclass(frozen=True)
class Step:
    """One stretch or moment; times in milliseconds, None where no line tells.

    `ends` says what is known of the end: `moment` (it has none), `known`, `sure` (so until then,
    not known after), `open` (not seen to end) or `unknown` (`until` is the latest that it can be).
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
        """Say what part of the shown time it covers, an open side being the edge."""
        start = shown.start if self.start is None else max(self.start, shown.start)
        end = shown.end if self.end is None else min(self.end, shown.end)
        return start, max(start, end)

    def known_duration(self, shown: ShownTime) -> int:
        """Say how much of the shown time it took for sure."""
        if self.start is None or self.end_kind not in ("known", "sure"):
            return 0
        start, end = self.clip(shown)
        return end - start


@dataclass(frozen=True)
class Timeline:
    """The history of one partition or broker."""

    kind: str
    name: str
    summary: str
    steps: tuple[Step, ...]
    shown: ShownTime
    omitted: int = 0
    texts: Mapping[Location, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrderedStep:
    """A step and where it stands: by its time, or after what Kafka counted before it."""

    position: int
    rank: int
    step: Step


def sort_steps(placed: Iterable[OrderedStep]) -> list[OrderedStep]:
    """Put steps in order; those of the same moment by rank, and then as they came."""
    return sorted(placed, key=lambda one: (one.position, one.rank))


def steps_within(placed: Sequence[OrderedStep], shown: ShownTime) -> list[Step]:
    """Keep the steps that touch the shown time."""
    kept = []
    for one in placed:
        step = one.step
        begins = one.position if step.start is None else step.start
        # What ended at an unknown time may have lasted till then.
        last = begins if step.end_kind == "moment" else shown.end if step.end is None else step.end
        if begins <= shown.end and max(begins, last) >= shown.start:
            kept.append(step)
    return kept


def row_locations(row: Row) -> tuple[Location, ...]:
    """Give the evidence of a row of a table."""
    return tuple(Location(str(one["file"]), one["line"]) for one in row.get("evidence") or ())
