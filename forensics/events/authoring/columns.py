"""What each column of the table of events means.

A mapping of its own and no metadata of the Arrow schema: metadata would travel into every Parquet
file and make schemas unequal that hold the same, and tables.py stays one short line a column.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

__all__ = ["MEANINGS", "type_name"]

MEANINGS: Mapping[str, str] = {
    "kind": "what happened; docs/rules/kinds.md lists the kinds",
    "ts": "the time of the line as it was logged, in UTC; no clock is corrected here",
    "node": "the node whose log holds the line; null where nothing tells",
    "file": "the file, with the archives it was found in",
    "line": "the number of the line in its file; of a record of several lines the first",
    "offset": "where the line begins, in bytes from the start of the unpacked file",
    "topic": "the topic",
    "partition": "the number of the partition in its topic",
    "leader": "the broker that leads the partition; -1 where there is none",
    "leader_epoch": "the counter that every change of the partition's leader raises",
    "partition_epoch": "the counter that every change of the partition raises; with ZooKeeper the "
    "version of its znode",
    "isr": "the brokers that are in sync, after what the line tells",
    "replicas": "the brokers that the partition is assigned to",
    "broker": "the broker that the line is about, most often its writer; for the line of a client "
    "the broker it talked to",
    "client": "the client id",
    "error": "the error by Kafka's name of today; what has none stays as it was written",
    "previous_leader": "the leader before; -1 where there was none",
    "previous_epoch": "the leader epoch before; -1 where the writer knew of none",
    "previous_isr": "the brokers that were in sync before",
    "elr": "the eligible leader replicas: not in sync, and known to hold everything committed",
    "recovery": "whether the leader was chosen cleanly (RECOVERED), or still has to make up for an "
    "unclean election (RECOVERING)",
    "log_end": "the offset that the next record of this replica's log gets",
    "high_watermark": "the offset up to which everything is committed",
    "cut_to": "the offset to which a log is cut: what stood from there on is gone",
    "controller": "the controller that the line is about, most often its writer",
    "controller_epoch": "the counter that every change of the active controller raises",
    "broker_epoch": "the number that a broker gets when it registers, a new one at every start",
    "from_state": "the state before",
    "to_state": "the state after",
    "added": "the nodes that came",
    "removed": "the nodes that went",
    "bounced": "the brokers that went and came back unseen",
    "alive": "the brokers that live",
    "epoch_ms": "a time that the line itself tells, in milliseconds since 1970 in UTC",
    "count": "how many of what the line is about",
    "detail": "a short text, such as a reason or an address",
    "peer": "the other node, where the line tells of two",
    "group": "the consumer group, or another group of members",
    "generation": "the counter that every rebalance of the group raises",
    "member": "the id of the group's member",
    "setting": "the name of a setting",
    "value": "the value of the setting",
    "log_dir": "the folder that holds a broker's logs",
    "position": "an offset that is neither a log's end nor a high watermark",
    "producer_id": "the id that a broker gave to an idempotent or transactional producer",
    "duration_ms": "how long it took, in milliseconds",
    "retriable": "whether Kafka itself tries again after the error; null where it does not say",
    "telling": "null where the line is news; otherwise it may re-tell an older fact under its own "
    "time: fresh, replay or always",
    "rule": "the rule that took the line, and the first version of the wording: id@version",
    "level": "the level of the line, such as WARN",
    "logger": "the last part of the logger's name",
    "text": "the first line of the record as it was logged, cut where it is very long",
}


def type_name(kind: pa.DataType) -> str:
    """Name a type for people.

    >>> type_name(pa.list_(pa.int32())), type_name(pa.timestamp("us", tz="UTC"))
    ('list of int32', 'timestamp, UTC')
    """
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return "timestamp, UTC" if pa.types.is_timestamp(kind) else str(kind)
