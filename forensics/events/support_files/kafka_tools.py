"""Reads what Kafka's own tools print, and the settings that lie in files.

`kafka-dump-log --cluster-metadata-decoder` prints the cluster's own metadata log. Its records of
changes name only what changed, and topics by their ids, so a dump is read in order and the state of
each partition is kept. As in Kafka, each change raises the partition epoch, and one that names a
leader raises the leader epoch, too. What a snapshot holds is older than its time says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forensics.events.support_files.facts import (
    Line,
    Row,
    from_millis,
    read_zoned_moment,
    state,
    whole_number,
)
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


_METADATA_RULE = "metadata-log"
# With --skip-record-metadata only the payload is printed, and the time of the batch counts.
_RECORD = re.compile(
    r"^(?:\|? ?offset: \d+ (?:.{0,60}?\bCreateTime: (?P<time>\d+) )?|(?= payload: ))"
)
_PAYLOAD = " payload: "
_BATCH = re.compile(r"^baseOffset: .{0,400}\bCreateTime: (?P<time>\d+)")
_SNAPSHOT = re.compile(r"^(?:Dumping .*\.checkpoint|Snapshot end offset:)")
# The value of a change record that names no new leader.
_SAME_LEADER = -2
_RECOVERY = {0: "RECOVERED", 1: "RECOVERING"}
_OF_TOPIC, _OF_BROKER = 2, 4

Data = Mapping[str, Any]


@dataclass(frozen=True)
class _Partition:
    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    recovery: int | None = None


@dataclass
class _Log:
    """What was read so far."""

    is_snapshot: bool = False
    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)


def read_metadata_log(lines: Iterable[Line]) -> Iterator[Row]:
    """Read a dump of the metadata log, or of a snapshot."""
    log, batch_time = _Log(), None
    for line in lines:
        if _SNAPSHOT.match(line.text):
            log = _Log(is_snapshot=True)
        elif line.text.startswith("Dumping "):
            # The next file of the same log goes on where the last one ended.
            log.is_snapshot = False
        elif found := _BATCH.match(line.text):
            batch_time = from_millis(found["time"])
        elif found := _RECORD.match(line.text):
            payload = line.text.partition(_PAYLOAD)[2]
            yield from _read_record(log, line, from_millis(found["time"]) or batch_time, payload)


def _read_record(log: _Log, line: Line, at: int | None, payload: str) -> Iterator[Row]:
    try:
        record: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return
    data = record.get("data") if isinstance(record, dict) else None
    if not isinstance(data, dict) or (reader := _READERS.get(str(record.get("type")))) is None:
        return
    for kind, facts in reader(log, data):
        row = state(line, kind, _METADATA_RULE, at, **facts)
        yield row | {"telling": "snapshot"} if log.is_snapshot else row


Facts = Iterator[tuple[str, Row]]


def _topic(log: _Log, data: Data) -> Facts:
    name, identity = _text(data, "name"), _text(data, "topicId")
    if name and identity:
        log.topics[identity] = name
        yield "topic_created", {"topic": name, "topic_id": identity, "count": -1}


def _remove_topic(log: _Log, data: Data) -> Facts:
    identity = _text(data, "topicId")
    name = log.topics.pop(identity, None)
    if name:
        for key in [key for key in log.partitions if key[0] == identity]:
            del log.partitions[key]
        yield "topic_deleted", {"topic": name, "topic_id": identity, "detail": identity}


def _partition(log: _Log, data: Data) -> Facts:
    number = _number(data, "partitionId")
    if number is None:
        return
    key = _text(data, "topicId"), number
    now = _Partition(
        leader=_number(data, "leader"),
        leader_epoch=_number(data, "leaderEpoch"),
        partition_epoch=_number(data, "partitionEpoch"),
        isr=_ids_of_record(data, "isr"),
        replicas=_ids_of_record(data, "replicas"),
        elr=_ids_of_record(data, "eligibleLeaderReplicas"),
        recovery=_number(data, "leaderRecoveryState") or 0,
    )
    yield from _next_state(log, key, log.partitions.get(key), now)


def _partition_change(log: _Log, data: Data) -> Facts:
    number = _number(data, "partitionId")
    if number is None:
        return
    key = _text(data, "topicId"), number
    # Of a log that begins later, what was before is not known, and neither are the epochs.
    before = log.partitions.get(key, _Partition())
    leader = _number(data, "leader")
    elected = leader is not None and leader != _SAME_LEADER
    recovery = _number(data, "leaderRecoveryState")
    now = replace(
        before,
        leader=leader if elected else before.leader,
        leader_epoch=_raised(before.leader_epoch) if elected else before.leader_epoch,
        partition_epoch=_raised(before.partition_epoch),
        isr=_given(_ids_of_record(data, "isr"), before.isr),
        replicas=_given(_ids_of_record(data, "replicas"), before.replicas),
        elr=_given(_ids_of_record(data, "eligibleLeaderReplicas"), before.elr),
        recovery=before.recovery if recovery in (None, -1) else recovery,
    )
    yield from _next_state(log, key, before, now)


def _next_state(
    log: _Log, key: tuple[str, int], before: _Partition | None, now: _Partition
) -> Facts:
    log.partitions[key] = now
    topic = log.topics.get(key[0])
    if topic is None or now.partition_epoch is None:
        return
    facts: Row = {
        "topic": topic, "partition": key[1], "topic_id": key[0], "leader": now.leader,
        "leader_epoch": now.leader_epoch, "partition_epoch": now.partition_epoch,
        "isr": now.isr, "replicas": now.replicas, "elr": now.elr,
        "recovery": _RECOVERY.get(now.recovery if now.recovery is not None else 0),
    }  # fmt: skip
    if before is not None:
        facts |= {
            "previous_leader": before.leader, "previous_epoch": before.leader_epoch,
            "previous_isr": before.isr,
        }  # fmt: skip
    yield "partition_state", facts


def _register(_log: _Log, data: Data) -> Facts:
    yield "broker_registered", _broker(data, "brokerId", "brokerEpoch")


def _registration_change(_log: _Log, data: Data) -> Facts:
    facts = _broker(data, "brokerId", "brokerEpoch")
    fenced = data.get("fenced")
    if fenced in (1, True):
        yield "broker_fenced", facts
    elif fenced == -1:
        yield "broker_unfenced", facts
    elif data.get("inControlledShutdown") in (1, True):
        yield "controlled_shutdown_asked", facts


def _fence(_log: _Log, data: Data) -> Facts:
    yield "broker_fenced", _broker(data, "id", "epoch")


def _unfence(_log: _Log, data: Data) -> Facts:
    yield "broker_unfenced", _broker(data, "id", "epoch")


def _unregister(_log: _Log, data: Data) -> Facts:
    yield "broker_unregistered", _broker(data, "brokerId", "brokerEpoch")


def _broker(data: Data, name: str, epoch: str) -> Row:
    return {"broker": _number(data, name), "broker_epoch": _number(data, epoch, 62)}


def _config(_log: _Log, data: Data) -> Facts:
    name, value = _text(data, "name"), data.get("value")
    shown = mask_text(f"{name}={value}").partition("=")[2]
    what = f"{name} to {shown}" if value is not None else f"{name} to null"
    resource, kind = _text(data, "resourceName"), data.get("resourceType")
    if kind == _OF_TOPIC:
        yield "config_set", {"topic": resource, "detail": what}
    elif kind == _OF_BROKER:
        yield "config_set", {"broker": whole_number(resource), "detail": what}


def _feature(_log: _Log, data: Data) -> Facts:
    yield "feature_set", {"detail": _text(data, "name"), "count": _number(data, "featureLevel")}


_READERS: Mapping[str, Callable[[_Log, Data], Facts]] = {
    "TOPIC_RECORD": _topic,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_RECORD": _partition,
    "PARTITION_CHANGE_RECORD": _partition_change,
    "REGISTER_BROKER_RECORD": _register,
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_change,
    "FENCE_BROKER_RECORD": _fence,
    "UNFENCE_BROKER_RECORD": _unfence,
    "UNREGISTER_BROKER_RECORD": _unregister,
    "CONFIG_RECORD": _config,
    "FEATURE_LEVEL_RECORD": _feature,
}


def _text(data: Data, name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _number(data: Data, name: str, bits: int = 31) -> int | None:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << bits) <= value < 1 << bits else None


def _ids_of_record(data: Data, name: str) -> tuple[int, ...] | None:
    value = data.get(name)
    if not isinstance(value, list) or not all(
        type(one) is int and -(1 << 31) <= one < 1 << 31 for one in value
    ):
        return None
    return tuple(value)


def _given(new: tuple[int, ...] | None, old: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return old if new is None else new


def _raised(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1
