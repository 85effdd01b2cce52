"""The metadata log is the best witness: from a dump of it alone the history is what was true."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forensics.events.support_files.facts import Line
from forensics.events.support_files.kafka_tools import read_metadata_log
from forensics.sandbox import run_archives
from tests.bundles import SAMPLES, metadata_dump

TRUTH = SAMPLES / "430-unclean" / "truth"
AT = 1795001900000
_LEADERS = ["topic", "partition", "leader_epoch", "leader"]
_STATES = ["topic", "partition", "partition_epoch", "leader", "isr"]


def test_a_dump_alone_gives_every_leader_epoch_and_every_isr(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (TRUTH / "partitions.jsonl").read_text().splitlines()]
    (tmp_path / "dump.txt").write_text(metadata_dump(TRUTH))
    run = run_archives([str(tmp_path / "dump.txt")], tmp_path / "out")

    epochs = {
        (row["topic"], row["partition"], row["leader_epoch"], row["leader"])
        for row in run.tables.read("leadership", _LEADERS).to_pylist()
    }
    states = {
        (row["topic"], row["partition"], row["partition_epoch"], row["leader"], *row["isr"])
        for row in run.tables.read("isr", _STATES).to_pylist()
    }

    assert epochs == {
        (row["topic"], row["partition"], row["leader_epoch"], row["leader"]) for row in rows
    }
    assert states == {
        (row["topic"], row["partition"], row["partition_epoch"], row["leader"],
         *sorted(row["isr"]))
        for row in rows
    }  # fmt: skip
    assert "metadata log" == run.files["dump.txt"].to_row()["layout"]


def read(*records: tuple[str, Mapping[str, Any]], above: Sequence[str] = ()) -> list[Any]:
    lines = list(above or ["Dumping 0.log", "Log starting offset: 0"])
    for offset, (kind, data) in enumerate(records):
        payload = json.dumps({"type": kind, "version": 0, "data": data})
        lines.append(
            f"| offset: {offset} CreateTime: {AT + offset} keySize: -1 valueSize: 9 sequence: -1"
            f" headerKeys: [] payload: {payload}"
        )
    read_lines = (Line(at + 1, 0, text) for at, text in enumerate(lines))
    return list(read_metadata_log(read_lines))


TOPIC = "TOPIC_RECORD", {"name": "orders", "topicId": "A1"}
PARTITION = "PARTITION_RECORD", {
    "partitionId": 0, "topicId": "A1", "replicas": [1, 2], "isr": [1, 2], "leader": 1,
    "leaderEpoch": 4, "partitionEpoch": 9,
}  # fmt: skip


def change(**data: Any) -> tuple[str, Mapping[str, Any]]:
    return "PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": "A1", **data}


def states(rows: list[Any]) -> list[Any]:
    return [
        (row["leader"], row["leader_epoch"], row["partition_epoch"], row["isr"])
        for row in rows
        if row["kind"] == "partition_state"
    ]


def test_a_change_raises_the_partition_epoch_and_a_leader_its_epoch_too() -> None:
    rows = read(TOPIC, PARTITION, change(isr=[2]), change(leader=2), change(leader=-1, isr=[]),
                change(leader=-2, leaderRecoveryState=1))  # fmt: skip

    assert [
        (1, 4, 9, (1, 2)), (1, 4, 10, (2,)), (2, 5, 11, (2,)), (-1, 6, 12, ()), (-1, 6, 13, ()),
    ] == states(rows)  # fmt: skip
    assert "RECOVERING" == rows[-1]["recovery"]
    assert [AT * 1000 + at * 1000 for at in range(6)] == [row["ts"] for row in rows]


def test_of_a_log_that_begins_later_nothing_is_invented() -> None:
    assert [] == states(read(change(leader=2), change(isr=[1])))
    assert [] == states(read(TOPIC, change(leader=2)))


def test_a_topic_that_was_deleted_is_another_when_it_comes_back() -> None:
    again = "TOPIC_RECORD", {"name": "orders", "topicId": "B2"}
    rows = read(TOPIC, PARTITION, ("REMOVE_TOPIC_RECORD", {"topicId": "A1"}), again, change(isr=[]))

    assert ["topic_created", "partition_state", "topic_deleted", "topic_created"] == [
        row["kind"] for row in rows
    ]


def test_what_a_snapshot_holds_is_no_news() -> None:
    (row,) = read(TOPIC, PARTITION, above=["Dumping 0000-1.checkpoint", "Snapshot end offset: 9"])[
        1:
    ]

    assert "snapshot" == row["telling"]


def test_registrations_settings_and_features_are_read() -> None:
    broker = {"brokerId": 2, "brokerEpoch": 7}
    rows = read(
        ("REGISTER_BROKER_RECORD", broker),
        ("BROKER_REGISTRATION_CHANGE_RECORD", broker | {"fenced": 1}),
        ("BROKER_REGISTRATION_CHANGE_RECORD", broker | {"fenced": -1}),
        ("BROKER_REGISTRATION_CHANGE_RECORD", broker | {"inControlledShutdown": 1}),
        ("FENCE_BROKER_RECORD", {"id": 2, "epoch": 7}),
        ("UNFENCE_BROKER_RECORD", {"id": 2, "epoch": 7}),
        ("UNREGISTER_BROKER_RECORD", broker),
        ("CONFIG_RECORD", {"resourceType": 2, "resourceName": "orders", "name": "retention.ms",
                           "value": "1"}),
        ("CONFIG_RECORD", {"resourceType": 4, "resourceName": "2", "name": "ssl.key.password",
                           "value": "hunter2"}),
        ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 25}),
        ("NO_OP_RECORD", {}),
    )  # fmt: skip

    assert [
        ("broker_registered", 2, None), ("broker_fenced", 2, None), ("broker_unfenced", 2, None),
        ("controlled_shutdown_asked", 2, None), ("broker_fenced", 2, None),
        ("broker_unfenced", 2, None), ("broker_unregistered", 2, None),
        ("config_set", None, "retention.ms to 1"), ("config_set", 2, "ssl.key.password to ***"),
        ("feature_set", None, "metadata.version"),
    ] == [(row["kind"], row.get("broker"), row.get("detail")) for row in rows]  # fmt: skip


def test_what_is_torn_or_strange_states_nothing() -> None:
    strange = [
        "| offset: 1 CreateTime: 1 payload: {\"type\":\"TOPIC_RECORD\",\"data\":",
        "| offset: 1 CreateTime: 1 payload: [1]",
        "| offset: 1 CreateTime: 1 payload: {\"type\":3,\"data\":{}}",
        "offset: 99999999999999999999999 CreateTime: 99999999999999999999 payload: " + "[" * 5000,
    ]  # fmt: skip
    big = {"partitionId": 1 << 40, "topicId": "A1"}
    wild = {"partitionId": 0, "topicId": "A1", "leader": True, "isr": ["x"], "leaderEpoch": 1 << 63}

    rows = read(TOPIC, ("PARTITION_RECORD", big), ("PARTITION_RECORD", wild),
                above=["Dumping 0.log", *strange])  # fmt: skip

    assert ["topic_created"] == [row["kind"] for row in rows]


def test_a_dump_without_metadata_of_records_takes_the_time_of_the_batch(tmp_path: Path) -> None:
    """`--skip-record-metadata` prints only the payload of each record."""
    topic = {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "a", "topicId": "i"}}
    (tmp_path / "dump.txt").write_text(
        "Dumping /d/__cluster_metadata-0/00000000000000000000.log\nLog starting offset: 0\n"
        f"baseOffset: 1 lastOffset: 4 count: 4 position: 91 CreateTime: {AT} size: 145\n"
        f" payload: {json.dumps(topic, separators=(',', ':'))}\n"
    )
    run = run_archives([str(tmp_path / "dump.txt")], tmp_path / "out")

    assert run.files["dump.txt"].to_row()["layout"] == "metadata log"
    [row] = run.tables.read("events", ["kind", "topic", "line", "ts"]).to_pylist()
    assert (row["kind"], row["topic"], row["line"]) == ("topic_created", "a", 4)
    assert row["ts"].timestamp() * 1000 == AT
