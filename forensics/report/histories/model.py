"""What a timeline is made of: steps with their evidence, in the order of Kafka's counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.run_output.reader import Row

# What the tables say of the end of a row, in our words. An end that was observed is the next time
# that is known, and what lies between must be looked at.
ENDED = {"open": "open", "unknown": "sure"}
# Of one partition's or broker's rows no more are read: a terminal and a page have an end.
MOST = 20_000


@dataclass(frozen=True, order=True)
class Place:
    """One line of one input file."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Shown:
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

    what: str
    at: int | None
    says: str
    until: int | None = None
    ends: str = "moment"
    evidence: tuple[Place, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    main: bool = False

    def reach(self, shown: Shown) -> tuple[int, int]:
        """Say what part of the shown time it covers, an open side being the edge."""
        start = shown.start if self.at is None else max(self.at, shown.start)
        end = shown.end if self.until is None else min(self.until, shown.end)
        return start, max(start, end)

    def lasted(self, shown: Shown) -> int:
        """Say how much of the shown time it took for sure."""
        if self.at is None or self.ends not in ("known", "sure"):
            return 0
        start, end = self.reach(shown)
        return end - start


@dataclass(frozen=True)
class Story:
    """The history of one partition or broker."""

    kind: str
    name: str
    says: str
    steps: tuple[Step, ...]
    shown: Shown
    left_out: int = 0
    texts: Mapping[Place, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """A step and where it stands: by its time, or after what Kafka counted before it."""

    order: int
    rank: int
    step: Step


def in_order(placed: Iterable[Placed]) -> list[Placed]:
    """Put steps in order; those of the same moment by rank, and then as they came."""
    return sorted(placed, key=lambda one: (one.order, one.rank))


def within(placed: Sequence[Placed], shown: Shown) -> list[Step]:
    """Keep the steps that touch the shown time."""
    kept = []
    for one in placed:
        step = one.step
        begins = one.order if step.at is None else step.at
        # What ended at an unknown time may have lasted till then.
        last = begins if step.ends == "moment" else shown.end if step.until is None else step.until
        if begins <= shown.end and max(begins, last) >= shown.start:
            kept.append(step)
    return kept


def places(row: Row) -> tuple[Place, ...]:
    """Give the evidence of a row of a table."""
    return tuple(Place(str(one["file"]), one["line"]) for one in row.get("evidence") or ())
