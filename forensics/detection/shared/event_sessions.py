"""Groups events of one subject into sessions, in two passes: archives may hold millions of them.

A session ends where no such event follows within the gap; an outage also ends at an event that
says that it is over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.lib.sessionize import SessionCounter
from forensics.lib.time_units import SECOND

# Of a session the first events are kept, and so many different values of a column.
_MAX_FIRST, _MAX_VALUES = 40, 1000

Subject = tuple[Any, ...]


@dataclass
class SubjectSession:
    """Events of one subject that follow each other closely; times are corrected."""

    subject: Subject
    begin: int
    end: int
    count: int
    # the first events, with the columns that were asked for
    first: list[Row] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / SECOND, 1)


@dataclass
class EventSession(SubjectSession):
    """A session of events, with the values of some columns."""

    # how often each value of the value columns was seen
    value_counts: dict[str, Counter[Any]] = field(default_factory=dict)

    def values(self, column: str) -> list[Any]:
        """Return the values of a value column, sorted, without null."""
        return sorted(value for value in self.value_counts.get(column, ()) if value is not None)

    def add(self, row: Row, value_columns: Sequence[str]) -> None:
        """Add one of its events."""
        add_first(self.first, row)
        for column in value_columns:
            counts = self.value_counts.setdefault(column, Counter())
            if row[column] in counts or len(counts) < _MAX_VALUES:
                counts[row[column]] += 1


Session = TypeVar("Session", bound=SubjectSession)


def add_first(first: list[Row], row: Row, key: Callable[[Row], Any] = by_time) -> None:
    """Add a row to a list of the first rows; the later ones are dropped now and then."""
    first.append(row)
    if len(first) > 4 * _MAX_FIRST:
        trim_first(first, key)


def trim_first(first: list[Row], key: Callable[[Row], Any] = by_time) -> None:
    """Sort a list of the first rows, and drop those that are too many."""
    first[:] = sorted(first, key=key)[:_MAX_FIRST]


class SessionIndex(Generic[Session]):
    """Finds the session of a subject to which a moment belongs."""

    def __init__(
        self, kind: type[Session], counter: SessionCounter[Subject], min_count: int = 1
    ) -> None:
        """Take the sessions with at least so many events."""
        self._sessions = {
            subject: [kind(subject, part.start, part.end, part.count) for part in parts]
            for subject, parts in counter.sessions(min_count).items()
        }
        self._begins = {
            subject: [session.begin for session in sessions]
            for subject, sessions in self._sessions.items()
        }

    def __bool__(self) -> bool:
        """Return True if there is any session."""
        return bool(self._sessions)

    def find(self, subject: Subject, moment: int) -> Session | None:
        """Return the session that a moment of a subject belongs to."""
        index = bisect_right(self._begins.get(subject, ()), moment) - 1
        session = self._sessions[subject][index] if index >= 0 else None
        return session if session is not None and moment <= session.end else None

    def finish(self) -> list[Session]:
        """Return all sessions in the order of time."""
        every = [session for sessions in self._sessions.values() for session in sessions]
        for session in every:
            trim_first(session.first)
        return sorted(every, key=lambda session: (session.begin, repr(session.subject)))


def find_sessions(  # noqa: PLR0913, PLR0917
    context: DetectionContext,
    where: pc.Expression,
    by: Sequence[str],
    gap: float,
    value_columns: Sequence[str] = (),
    min_count: int = 1,
    keep: Callable[[Row], bool] | None = None,
) -> list[EventSession]:
    """Find the sessions of each subject: events further apart than `gap` seconds are in two.

    `by` names the columns that make a subject, `value_columns` those whose values are wanted;
    sessions of fewer than `min_count` events are left out. `keep` may refuse an event: it sees all
    those columns, and may write one of them more plainly.
    """
    columns = list(dict.fromkeys([*EVIDENCE_COLUMNS, *by, *value_columns]))
    # Where a clock was stepped, file and line tell the time of an event.
    few = list(dict.fromkeys(["node", "ts", "file", "line", *by])) if keep is None else columns

    def read(names: Sequence[str]) -> Iterable[tuple[Subject, Row]]:
        rows = context.each("events", where & pc.field("ts").is_valid(), names)
        for row in rows if keep is None else filter(keep, rows):
            yield tuple(row[name] for name in by), row

    counter = SessionCounter[Subject](round(gap * SECOND))
    for subject, row in read(few):
        counter.add(subject, row["at"])
    index = SessionIndex(EventSession, counter, min_count)
    for subject, row in read(columns) if index else ():
        if session := index.find(subject, row["at"]):
            session.add(row, value_columns)
    return index.finish()


# Sorted times of recovery by node; by the empty name, those of all nodes.
Recoveries = Mapping[str, Sequence[int]]


@dataclass
class Outage(SubjectSession):
    """Events that tell of something missing, from the first one on; `end` is the recovery if known.

    The subject is the node, or an empty name for all nodes, and the number of recoveries before.
    """

    # the recovery; None: no line tells of it
    recovered_at: int | None = None
    last_seen: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)
    # the lowest and the highest controller epoch
    epochs: tuple[int, int] | None = None

    @property
    def seconds(self) -> float:
        """How long it took, at least."""
        return round((self.end - self.begin) / SECOND, 3)

    def add(self, row: Row) -> None:
        """Add one of its events."""
        self.kinds[row["kind"]] += 1
        self.nodes.add(row["node"] or "")
        epoch = row["controller_epoch"]
        if epoch is not None:
            low, high = self.epochs or (epoch, epoch)
            self.epochs = min(low, epoch), max(high, epoch)
        add_first(self.first, row)


def find_outages(
    context: DetectionContext,
    kinds: Sequence[str],
    recoveries: Callable[[], Recoveries],
    gap: float,
    *,
    per_node: bool = False,
) -> list[Outage]:
    """Find the outages that some kinds of events tell of: of all nodes together, or of each node.

    Events more than `gap` seconds apart, or with a recovery between them, belong to two outages;
    `recoveries` is only called if there are events.
    """
    width = max(1, round(gap * SECOND))
    where = pc.field("kind").isin(list(kinds)) & pc.field("ts").is_valid()
    known: Recoveries | None = None
    columns = [*EVIDENCE_COLUMNS, "kind", "controller_epoch", "duration_ms"]

    def read(names: Sequence[str]) -> Iterator[tuple[Subject, Row]]:
        nonlocal known
        for row in context.each("events", where, names):
            known = recoveries() if known is None else known
            node = (row["node"] or "") if per_node else ""
            yield (node, bisect_left(known.get(node, ()), row["at"])), row

    counter = SessionCounter[Subject](width)
    for subject, row in read(["node", "ts", "file", "line"]):
        counter.add(subject, row["at"])
    index = SessionIndex(Outage, counter)
    for subject, row in read(columns) if index else ():
        if outage := index.find(subject, row["at"]):
            outage.add(row)
    outages = index.finish()
    for outage in outages:
        node, place = outage.subject
        times = (known or {}).get(node, ())
        recovery = times[place] if place < len(times) else None
        outage.last_seen = outage.end
        # A recovery that is logged much later does not tell when it came.
        if recovery is not None and recovery - outage.last_seen <= width:
            outage.recovered_at = outage.end = recovery
    return sorted(outages, key=lambda outage: (outage.begin, sorted(outage.nodes)))
