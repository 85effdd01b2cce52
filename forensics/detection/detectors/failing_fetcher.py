"""Followers that stopped copying a partition for good, or cannot fetch from a leader that is up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
    partition_name,
)
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.absence_causes import brokers_with_failed_disks
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.intervals import total_length
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "failing-fetcher"
NEEDS = LogRequirements(("broker",), ("server",))
_FAILED = "partition_fetch_failed"
_REFUSED = ("fetch_request_failed", "fetch_partition_error", "replication_blocked")
_MAX_FAILED, _SHOWN = 10_000, 20
# A partition, and the broker that stopped copying it.
_Copy = tuple[str, int]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each follower that stopped, and for each pair that cannot fetch."""
    stopped: dict[int, list[Row]] = {}
    for row in _find_stopped(context) if context.visibility.has_kinds(_FAILED) else ():
        stopped.setdefault(row["broker"], []).append(row)
    for broker, rows in sorted(stopped.items()):
        yield _stopped_finding(context, broker, rows)
    if context.visibility.has_kinds(*_REFUSED):
        limits = context.limits[NAME]
        where = pc.field("kind").isin(list(_REFUSED)) & pc.field("broker").is_valid()
        by, columns = ["broker", "leader"], ["error", "detail", "topic", "partition"]
        sessions = find_sessions(context, where, by, limits["gap"], columns, limits["least"])
        for session in sessions:
            broker, leader = session.subject
            begin, end = session.begin, session.end
            is_away = _is_away(context, broker, begin, end) or _is_away(context, leader, begin, end)
            if session.seconds > limits["lasting"] and leader is not None and not is_away:
                yield _refused_finding(context, session)


def _is_away(context: DetectionContext, broker: int, begin: int, end: int) -> bool:
    """Return True if a broker was away, or was just coming back, within a time."""
    near = context.limits[NAME]["near"] * SECOND
    return any(
        absence.begin - near <= end and (absence.end is None or begin <= absence.end + near)
        for absence in context.absences_around(broker, begin - near, end + near)
    )


def _unseen(context: DetectionContext, broker: int, begin: int, end: int) -> int:
    """Return how long the holes are that a broker's logs have within a time."""
    nodes = [broker_node(broker)]
    holes = {
        (gap["started_at"], gap["ended_at"])
        for gap in context.visibility.gaps(begin, end, nodes)
        if gap["log"] in {None, "server"} and gap["started_at"] and gap["ended_at"]
    }
    return total_length((max(start, begin), stop) for start, stop in holes)


def _find_stopped(context: DetectionContext) -> list[Row]:
    """Find the last failure of each copy that was out of sync ever after, its broker being up."""
    columns = [*EVIDENCE_COLUMNS, "topic", "partition", "broker", "leader"]
    where = (pc.field("kind") == _FAILED) & pc.field("ts").is_valid()
    where &= pc.field("broker").is_valid() & pc.field("partition").is_valid()
    last: dict[_Copy, Row] = {}
    for row in context.each("events", where, columns):
        copy = partition_name(row), row["broker"]
        before = last.get(copy)
        if (before is None and len(last) < _MAX_FAILED) or (before and before["at"] < row["at"]):
            last[copy] = row
    lasting = context.limits[NAME]["lasting"] * SECOND
    until = {
        copy: row["at"] + lasting + _unseen(context, copy[1], row["at"], row["at"] + lasting)
        for copy, row in last.items()
    }
    # What lies in a directory that failed is a finding of its own, with other remedies.
    offline = _find_offline(context) if last else set()
    chosen = {
        copy: row
        for copy, row in last.items()
        if copy not in offline
        and until[copy] <= context.logs_end
        and not _is_away(context, row["broker"], row["at"], until[copy])
    }
    # Out of sync all the while from then on: no version of its ISR has it.
    missing: set[_Copy] = set()
    names: dict[str, list[_Copy]] = {}
    for copy in chosen:
        names.setdefault(copy[0], []).append(copy)
    topics = {name.rpartition("-")[0] for name in names}
    for row in context.each("isr", in_topics(topics) & pc.field("isr").is_valid(), _ISR_COLUMNS):
        for copy in names.get(partition_name(row), ()):
            if row["ended_at"] is not None and row["ended_at"] <= until[copy]:
                continue
            if copy[1] in row["isr"]:
                chosen.pop(copy, None)
            else:
                missing.add(copy)
    return sorted((row for copy, row in chosen.items() if copy in missing), key=by_time)


def _find_offline(context: DetectionContext) -> set[_Copy]:
    """Return the replicas in log directories that failed."""
    where = (pc.field("kind") == "replica_offline") & pc.field("log_dir").is_valid()
    columns = ["topic", "partition", "node"]
    return {
        (partition_name(row), broker)
        for row in context.each("events", where & pc.field("partition").is_valid(), columns)
        if (broker := broker_id(row["node"])) is not None
    }


_ISR_COLUMNS = ("topic", "partition", "isr", "ended_at")


def _stopped_finding(context: DetectionContext, broker: int, rows: Sequence[Row]) -> Finding:
    count = quantity(len(rows), "partition")
    leaders = sorted({row["leader"] for row in rows if row["leader"] is not None})
    return context.finding(
        NAME,
        context.limits[NAME]["stopped"],
        f"Broker {broker} stopped copying {count} and did not begin again",
        rows[0]["at"],
        context.logs_end,
        rows[:_SHOWN],
        brokers=[broker],
        partitions=[partition_name(row) for row in rows],
        measures={"partitions": len(rows), "leaders": leaders},
        explanation=_GIVEN_UP,
        actions=[
            f"{context.commands.under_replicated()}   # still without broker {broker}?",
            f"grep -B3 'marked as failed' server.log   # on broker {broker}: the error before it",
            _RESTART.format(broker=broker),
        ],
        why=f"{count} out of sync for more than {context.limits[NAME]['lasting']} s after that",
        doubts=["ISR changes that nobody logged may have let it in again."],
    )


_DISK = "A log directory of broker {leader} failed, which is a finding of its own."
_UP = (
    "No absence of the leader is logged then: it is the way between the two, the leader's disk, or "
    "what it holds."
)
_GIVEN_UP = (
    "A fetcher that meets an error it cannot deal with gives the partition up until the controller "
    "names a leader anew. This one was in no ISR from then on, though its broker was up."
)
_RESTART = "Restart broker {broker} once its other partitions are in sync: fetchers begin anew."


def _refused_finding(context: DetectionContext, session: EventSession) -> Finding:
    broker, leader = session.subject
    errors = [error for error in session.values("error") if error]
    said = f" ({', '.join(errors[:3])})" if errors else ""
    return context.finding(
        NAME,
        context.limits[NAME]["refused"],
        f"Broker {broker} could not fetch from broker {leader} for {session.seconds:.0f} s{said}",
        session.begin,
        session.end,
        session.first,
        brokers=sorted({broker, leader}),
        partitions=sorted({partition_name(row) for row in session.first
                           if row["topic"] is not None and row["partition"] is not None}),
        measures={"failures": session.count, "lasted_s": session.seconds, "errors": errors},
        explanation="What a follower cannot fetch it lacks: it leaves the ISR after "
        "replica.lag.time.max.ms. "
        + (_DISK if leader in brokers_with_failed_disks(context) else _UP).format(leader=leader),
        actions=[
            f"{context.commands.under_replicated()}   # is broker {broker} missing there?",
            f"Look in the server.log of broker {leader} for errors at the same time.",
        ],
        why=f"{session.count} failures within {session.seconds} s; limit: "
        f"{context.limits[NAME]['lasting']} s",
        doubts=["A leader whose absence nobody logged looks the same."],
    )  # fmt: skip
