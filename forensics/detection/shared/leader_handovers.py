"""How partitions passed from one leader to the next: decided, given up, taken over, and since when.

A controller decides, and every replica logs when it takes that up. What lies between is how slowly
the news spread: meanwhile clients are sent to one broker that does not lead yet, or any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    in_topics,
    once_per_run,
    partition_name,
)
from forensics.detection.shared.absence_causes import session_timeout
from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions import outages
from forensics.lib.arrow_io import is_any_of
from forensics.lib.time_units import SECOND

# A topic, a partition, and a leader epoch; without a partition all of the topic.
EpochKey = tuple[str, int | None, int]
_COLUMNS = (*EVIDENCE_COLUMNS, "topic", "partition", "leader", "leader_epoch", "broker", "telling")
# A broker that is back takes up what it missed within that.
_BACK = 5 * SECOND


@once_per_run
def find_leader_gaps(context: DetectionContext) -> Sequence[outages.LeaderGap]:
    """Return where a leader went away, and no line tells who led after it."""
    if not context.tables.has("leadership"):
        return ()
    return tuple(outages.find_leader_gaps(context.tables.folder / "leadership", context.absences))


@dataclass
class Handover:
    """The lines by which one leader epoch became known."""

    # the controller's line
    decided: Row | None = None
    # the first line of each broker, and that by which the leader took over
    brokers: dict[int, Row] = field(default_factory=dict)
    took_over: Row | None = None

    @property
    def begin(self) -> int | None:
        """The first that anybody logged of it."""
        rows = [*self.brokers.values(), *([self.decided] if self.decided else [])]
        return min((row["at"] for row in rows), default=None)

    def add(self, row: Row) -> None:
        """Add a line about it."""
        if row["broker"] is None:
            self.decided = _earlier(self.decided, row)
            return
        self.brokers[row["broker"]] = _earlier(self.brokers.get(row["broker"]), row)
        if row["broker"] == row["leader"]:
            self.took_over = _earlier(self.took_over, row)

    def slowest(self, absences: Iterable[Absence], session: int) -> tuple[int, Row, int] | None:
        """Return the broker that was slowest to take it up, its line, and how long that took.

        Time in which a broker was away does not count, nor does a session before it was given up:
        it may have stood still.
        """
        begin = self.begin
        away = list(absences)
        lags = []
        for broker, row in self.brokers.items():
            gone = [
                one.begin - (session if one.kind == "pause" else 0)
                for one in away
                if one.broker == broker
                and one.begin <= row["at"]
                and (one.end is None or begin is None or begin <= one.end + _BACK)
            ]
            lag = min([row["at"], *gone]) - (begin or 0)
            if lag >= 0:
                lags.append((lag, broker, row))
        if len(lags) + (self.decided is not None) < 2:
            return None
        lag, broker, row = max(lags, key=lambda one: one[:2])
        return broker, row, lag


@dataclass(frozen=True)
class Propagation:
    """How long it took until a broker had taken up a new leader epoch; microseconds."""

    broker: int
    took: int
    # of that, the time in which it was surely there
    least: int
    # how far the clocks may be off; None: nobody knows
    doubt: int | None
    lines: Sequence[Row]
    is_leader: bool

    def is_surely_over(self, seconds: float) -> bool:
        """Return True if it took longer, whatever the clocks."""
        return self.doubt is not None and self.least - self.doubt > seconds * SECOND


def measure_propagation(context: DetectionContext, handover: Handover) -> Propagation | None:
    """Measure how long the slowest broker took to take up a leader epoch."""
    slowest = handover.slowest(context.absences, round(session_timeout(context) * SECOND))
    rows = [*handover.brokers.values(), *([handover.decided] if handover.decided else [])]
    if slowest is None:
        return None
    broker, late, least = slowest
    first = min(rows, key=lambda row: row["at"])
    doubts = [context.history.clocks.uncertainty(row["node"], row["ts"]) for row in (first, late)]
    known = [doubt for doubt in doubts if doubt is not None]
    doubt = sum(known) if len(known) == len(doubts) else None
    if first["node"] is not None and first["node"] == late["node"]:
        doubt = 0
    took = late["at"] - first["at"]
    return Propagation(broker, took, least, doubt, [first, late], late["leader"] == broker)


def _earlier(one: Row | None, other: Row) -> Row:
    return other if one is None or other["at"] < one["at"] else one


def read_handovers(
    context: DetectionContext, wanted: Mapping[EpochKey, int]
) -> Mapping[EpochKey, Handover]:
    """Read the lines about some leader epochs from a moment on, in one pass.

    A topic that was made again begins with the same epochs.
    """
    found: dict[EpochKey, Handover] = {}
    if not wanted:
        return found
    where = (pc.field("kind") == "partition_state") & pc.field("ts").is_valid()
    where &= in_topics({topic for topic, _, _ in wanted})
    where &= is_any_of("leader_epoch", {epoch for _, _, epoch in wanted})
    for row in context.each("events", where, _COLUMNS):
        if row["broker"] is None and not context.is_live(row):
            continue
        for number in (row["partition"], None):
            key = row["topic"], number, row["leader_epoch"]
            if key in wanted and row["at"] >= wanted[key]:
                found.setdefault(key, Handover()).add(row)
    return found


@dataclass(frozen=True)
class LeaderTerm:
    """A time in which one broker led a partition; its epoch is the first of them."""

    leader: int
    leader_epoch: int | None
    begin: int | None
    end: int | None
    election: str


def read_leader_terms(
    context: DetectionContext, partitions: Collection[str]
) -> Mapping[str, Sequence[LeaderTerm]]:
    """Read who led each partition, in order; -1 is nobody."""
    epochs: dict[str, list[Row]] = {}
    for row in context.leader_epochs(partitions, ["leader_epoch", "election"]):
        if row["leader"] is not None:
            epochs.setdefault(partition_name(row), []).append(row)
    return {name: _leader_terms(rows) for name, rows in epochs.items()}


def _leader_terms(rows: Sequence[Row]) -> list[LeaderTerm]:
    """Join epochs of the same leader; a topic that was made again counts from the start."""
    terms: list[LeaderTerm] = []
    last = -1
    for row in sorted(rows, key=lambda row: (row["started_at"] or 0, row["leader_epoch"] or 0)):
        epoch, end = row["leader_epoch"], row["ended_at"]
        if terms and terms[-1].leader == row["leader"] and (epoch is None or epoch > last):
            terms[-1] = replace(terms[-1], end=end)
        else:
            start = row["started_at"]
            terms.append(LeaderTerm(row["leader"], epoch, start, end, row["election"]))
        last = -1 if epoch is None else epoch
    return terms
