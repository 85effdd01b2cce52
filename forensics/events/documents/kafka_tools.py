"""Reads what Kafka's own tools print of a cluster's state: topics, and the quorum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from forensics.events.documents.facts import Line, Row, read_zoned_moment, state, whole_number

_RULE = "kafka-tools"
_PARTITION = re.compile(
    r"^\s*Topic: ?(?P<topic>[\w.-]+)\s+Partition: ?(?P<number>\d+)\s+"
    r"Leader: ?(?P<leader>-?\d+|none)\s+Replicas: ?(?P<replicas>[\d,]+)\s+Isr: ?(?P<isr>[\d,]*)"
    r"(?:\s+(?:Elr|EligibleLeaderReplicas): ?(?P<elr>[\d,]*|N/A))?"
)
_MAX_HEAD = 5


def read_described_topics(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kafka-topics --describe`; its moment is one that stands above it, if there is one."""
    at: int | None = None
    for line in lines:
        if found := _PARTITION.match(line.text):
            leader = -1 if found["leader"] == "none" else whole_number(found["leader"])
            yield state(
                line, "partition_described", _RULE, at, topic=found["topic"],
                partition=whole_number(found["number"]), leader=leader,
                replicas=_ids(found["replicas"]), isr=_ids(found["isr"]),
                elr=_ids(found["elr"]) if found["elr"] not in (None, "N/A") else None,
            )  # fmt: skip
        elif at is None and line.number <= _MAX_HEAD:
            # Without a zone nobody knows which moment it was.
            at = read_zoned_moment(line.text)


def _ids(text: str) -> tuple[int, ...]:
    found = (whole_number(part) for part in text.split(","))
    return tuple(one for one in found if one is not None)


_STATUS = re.compile(r"^(?P<name>LeaderId|LeaderEpoch|MaxFollowerLag|ClusterId):\s+(?P<value>\S+)")
# Milliseconds since 1970, or how long ago with --human-readable.
_FETCHED = r"(?:-?\d+(?: ms ago)?|N/A|unknown)"
_REPLICA = re.compile(
    r"^(?P<node>\d+)\s+(?:\S{22}\s+)?(?P<end>\d+)\s+(?P<lag>\d+)\s+"
    rf"{_FETCHED}\s+{_FETCHED}\s+(?P<status>Leader|Follower|Observer)"
)


def read_described_quorum(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kafka-metadata-quorum describe`, its status or its replicas."""
    leader: Line | None = None
    epoch: int | None = None
    for line in lines:
        if found := _STATUS.match(line.text):
            if found["name"] == "LeaderId":
                leader = line
            elif found["name"] == "LeaderEpoch":
                epoch = whole_number(found["value"])
        elif found := _REPLICA.match(line.text):
            yield state(
                line, "quorum_replica_described", _RULE, detail=found["status"],
                controller=whole_number(found["node"]), log_end=whole_number(found["end"], 62),
                count=whole_number(found["lag"], 62),
            )  # fmt: skip
    if leader is not None:
        number = whole_number(leader.text.partition(":")[2])
        yield state(leader, "quorum_described", _RULE, controller=number, controller_epoch=epoch)


def read_counted_only(lines: Iterable[Line]) -> Iterator[Row]:
    """Read a document that tells nothing here: its lines are only counted."""
    for _ in lines:
        yield from ()
