"""Reads what Kafka's own tools print, and the settings that lie in files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from forensics.events.support_files.facts import Line, Row, read_zoned_moment, state, whole_number
from forensics.lib.secrets import mask_text

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


_SETTING_RULE = "settings"
_PROPERTY = re.compile(r"^\s*(?P<name>[A-Za-z][\w.-]*)\s*[=:]\s*(?P<value>.*?)\s*$")
_NODE_ID = ("node.id", "broker.id")
_MAX_VALUE = 500
# What a file of settings of Kafka has at least one of.
KNOWN = re.compile(
    rb"(?m)^\s*(?:broker\.id|node\.id|process\.roles|log\.dirs?|zookeeper\.connect|listeners|"
    rb"advertised\.listeners|controller\.quorum\.\w+|cluster\.id|bootstrap\.servers)\s*[=:]"
)


def read_properties(lines: Iterable[Line]) -> Iterator[Row]:
    """Read a file of properties; all its settings are those of the node that it names."""
    found: list[tuple[Line, str, str]] = []
    broker: int | None = None
    for line in lines:
        if line.text.lstrip()[:1] in ("#", "!", "") or not (own := _PROPERTY.match(line.text)):
            continue
        if own["name"] in _NODE_ID:
            broker = whole_number(own["value"]) if broker is None else broker
        found.append((line, own["name"], own["value"]))
    for line, name, value in found:
        yield _setting(line, name, value, broker=broker)


_CONFIGS = re.compile(
    r"^(?:Dynamic|All|Default) configs for (?P<what>topic|broker|brokers|client-id|user|\S+) ?"
    r"(?P<name>\S*?)(?: in the entire cluster)? are:"
)
_CONFIG = re.compile(
    r"^ {2}(?P<name>[\w.-]+)=(?P<value>.*?) sensitive=(?P<hidden>\w+) synonyms=\{(?P<from>.*)\}"
)


def read_described_configs(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `kafka-configs --describe`."""
    topic, broker = None, None
    for line in lines:
        if found := _CONFIGS.match(line.text):
            topic = found["name"] if found["what"] == "topic" else None
            broker = whole_number(found["name"]) if found["what"] == "broker" else None
        elif found := _CONFIG.match(line.text):
            yield _setting(line, found["name"], found["value"], broker=broker, topic=topic)


def _setting(line: Line, name: str, value: str, **facts: Any) -> Row:
    shown = mask_text(f"{name}={value}").partition("=")[2]
    return state(
        line, "setting_written", _SETTING_RULE, setting=name, value=shown[:_MAX_VALUE], **facts
    )
