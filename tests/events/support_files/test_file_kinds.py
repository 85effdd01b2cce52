"""What each kind of document states, with the line that states it; and what is no log is told."""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.detection.verdict import is_damaged
from forensics.events.support_files.facts import MAX_WHOLE_BYTES
from forensics.events.support_files.file_kinds import recognise
from tests.bundles import CRASH_REPORT, OOM_KILLED, pod_yaml, resources
from tests.ingest.scans import KINDS_OF_LINES, Scanned, scan

POD = pod_yaml("kafka-2", node_id=2, ended={**OOM_KILLED, "finishedAt": '"2026-11-18T11:38:25Z"'})
DESCRIBED = """Name:             kafka-2
Namespace:        kafka
Node:             worker-2/10.0.0.2
Containers:
  kafka:
    Container ID:  containerd://abc
    State:          Running
      Started:      Wed, 18 Nov 2026 12:38:42 +0100
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Wed, 18 Nov 2026 12:37:40 +0100
      Finished:     Wed, 18 Nov 2026 12:38:25 +0100
    Restart Count:  3
Events:
  Type     Reason     Age                From     Message
  ----     ------     ----               ----     -------
  Warning  Unhealthy  10m (x3 over 12m)  kubelet  Liveness probe failed: connection refused
"""
EVENTS = """apiVersion: v1
items:
- apiVersion: v1
  kind: Event
  involvedObject:
    kind: Node
    name: worker-2
  lastTimestamp: "2026-11-18T11:38:20Z"
  message: 'Node worker-2 status is now: NodeNotReady'
  reason: NodeNotReady
- apiVersion: v1
  kind: Event
  eventTime: "2026-11-18T11:38:21.5Z"
  involvedObject:
    kind: Pod
    name: kafka-2
  lastTimestamp: null
  message: Stopping container kafka
  reason: Killing
kind: EventList
"""
INSPECTED = """[
    {
        "Id": "0123456789abcdef",
        "Created": "2026-11-18T11:37:40.1Z",
        "State": {
            "Running": false,
            "OOMKilled": true,
            "ExitCode": 137,
            "FinishedAt": "2026-11-18T11:38:25.5Z"
        },
        "Name": "/kafka2",
        "RestartCount": 2,
        "Config": {"Env": ["PATH=\\/bin", "KAFKA_BROKER_ID=2"]}
    }
]
"""
DOCKER_EVENTS = (
    "2026-11-18T11:38:25.5Z container oom 0123456789ab (image=k, name=kafka2)\n"
    "2026-11-18T11:38:25.6Z container die 0123456789ab (exitCode=137, image=k, name=kafka2)\n"
    "2026-11-18T11:38:26Z network disconnect 0123456789ab (name=bridge)\n"
)
DOCKER_JSON = (
    '{"status":"die","id":"0123456789ab","from":"k","Type":"container","Action":"die","Actor":'
    '{"ID":"0123","Attributes":{"exitCode":"1","name":"kafka2"}},"timeNano":1795001905500000000}\n'
)
JOURNAL = """-- Journal begins at Mon 2026-11-02. --
Nov 18 11:38:20 kafka-2 kernel: EXT4-fs error (device sdb1): ext4_find_entry:1463: reading directory
Nov 18 11:38:21 kafka-2 kernel: Killed process 99 (nginx) total-vm:1kB
Nov 18 11:38:25 kafka-2 kernel: Out of memory: Killed process 4242 (java) total-vm:9kB, anon-rss:6kB
Nov 18 11:38:25 kafka-2 systemd[1]: kafka.service: Main process exited, code=killed, status=9/KILL
Nov 18 11:38:25 kafka-2 systemd[1]: kafka.service: Failed with result 'oom-kill'.
Nov 18 11:38:26 kafka-2 systemd[1]: a.service: Main process exited, code=exited, status=1/FAILURE
"""
RING = """[Wed Nov 18 11:37:00 2026] Linux version 6.1.0
[Wed Nov 18 11:38:25 2026] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/x,task=java,pid=7,uid=0
[Wed Nov 18 11:38:26 2026] blk_update_request: I/O error, dev nvme0n1, sector 12
[Wed Nov 18 11:38:27 2026] XFS (dm-0): Log I/O Error Detected. Shutting down filesystem
"""
PROPERTIES = "# written Wed Nov 18 11:37:00 UTC 2026\nbroker.id=2\nssl.key.password=hunter2\n"
CONFIGS = """Dynamic configs for broker 2 are:
  log.retention.ms=3600000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=3600000}
"""
TOPICS = """Wed Nov 18 11:40:00 UTC 2026
Topic: orders\tTopicId: 3SRqdyCAQ1y-QXYXsCIkAQ\tPartitionCount: 2\tReplicationFactor: 2\n\
\tTopic: orders\tPartition: 0\tLeader: 2\tReplicas: 2,3\tIsr: 3,2\tElr: \tLastKnownElr: \n\
\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 3,2\tIsr: \tElr: 2\tLastKnownElr: \n"""
QUORUM = """ClusterId:              MkU3OEVBNTcwNTJENDM2Qk
LeaderId:               3001
LeaderEpoch:            7
HighWatermark:          4711
"""
AT = "2026-11-18T11:38:25+00:00"
# Of each document: its format, and what it states: line, kind, time, and some facts.
DOCUMENTS: Mapping[str, tuple[str, str, list[dict[str, Any]]]] = {
    "pod": ("kubernetes yaml", POD, [
        {"line": 24, "kind": "pod_scheduled", "detail": "worker-2.example.internal"},
        {"line": 38, "kind": "process_ended", "ts": AT, "error": "OOMKilled", "value": "137",
         "broker": 2, "text": "        reason: OOMKilled"},
        {"line": 42, "kind": "pod_restarted", "count": 1, "subject": "pod kafka-2"},
    ]),
    "events": ("kubernetes yaml", EVENTS, [
        {"line": 9, "kind": "host_lost", "subject": "host worker-2",
         "ts": "2026-11-18T11:38:20+00:00"},
        {"line": 18, "kind": "pod_stopped", "subject": "pod kafka-2",
         "ts": "2026-11-18T11:38:21.500000+00:00"},
    ]),
    "described": ("kubectl describe", DESCRIBED, [
        {"line": 3, "kind": "pod_scheduled", "detail": "worker-2", "subject": "pod kafka-2"},
        {"line": 10, "kind": "process_ended", "ts": AT, "error": "OOMKilled", "value": "137"},
        {"line": 14, "kind": "pod_restarted", "count": 3},
        {"line": 18, "kind": "probe_failed", "ts": None, "subject": "pod kafka-2"},
    ]),
    "inspected": ("docker inspect", INSPECTED, [
        {"line": 7, "kind": "process_ended", "ts": "2026-11-18T11:38:25.500000+00:00",
         "error": "OOMKilled", "subject": "container kafka2", "broker": 2},
        {"line": 12, "kind": "pod_restarted", "count": 2},
    ]),
    "docker events": ("docker events", DOCKER_EVENTS, [
        {"line": 1, "kind": "process_ended", "error": "OOMKilled", "subject": "container kafka2"},
        {"line": 2, "kind": "process_ended", "value": "137"},
    ]),
    "docker json": ("docker events", DOCKER_JSON, [
        {"line": 1, "kind": "process_ended", "value": "1",
         "ts": "2026-11-18T11:38:25.500000+00:00"},
    ]),
    "journal": ("system journal", JOURNAL, [
        {"line": 2, "kind": "host_disk_failed", "detail": "sdb1", "subject": "host kafka-2"},
        {"line": 4, "kind": "kernel_killed", "ts": AT, "position": 4242, "detail": "java"},
        {"line": 5, "kind": "process_ended", "error": "SIGKILL", "detail": "kafka.service"},
        {"line": 6, "kind": "kernel_killed", "detail": "kafka.service"},
    ]),
    "ring": ("system journal", RING, [
        {"line": 1, "kind": "host_booted"},
        {"line": 2, "kind": "kernel_killed", "ts": AT, "position": 7},
        {"line": 3, "kind": "host_disk_failed", "detail": "nvme0n1"},
        {"line": 4, "kind": "host_disk_failed", "detail": "dm-0"},
    ]),
    "crash": ("jvm crash report", CRASH_REPORT, [
        {"line": 4, "kind": "jvm_crashed", "ts": "2026-11-18T11:38:39+00:00", "error": "SIGSEGV",
         "position": 4811,
         "detail": "C  [libzstd-jni-1.5.6-4.so+0x4c3d]  ZSTD_decompressBlock+0x1d"},
    ]),
    "properties": ("configuration", PROPERTIES, [
        {"line": 2, "kind": "setting_written", "setting": "broker.id", "broker": 2},
        {"line": 3, "kind": "setting_written", "setting": "ssl.key.password", "value": "***"},
    ]),
    "configs": ("configuration", CONFIGS, [
        {"line": 2, "kind": "setting_written", "setting": "log.retention.ms", "value": "3600000",
         "broker": 2},
    ]),
    "topics": ("topic description", TOPICS, [
        {"line": 3, "kind": "partition_described", "ts": "2026-11-18T11:40:00+00:00",
         "topic": "orders", "partition": 0, "leader": 2, "isr": [3, 2]},
        {"line": 4, "kind": "partition_described", "leader": -1, "isr": [], "elr": [2]},
    ]),
    "quorum": ("quorum description", QUORUM, [
        {"line": 2, "kind": "quorum_described", "controller": 3001, "controller_epoch": 7},
    ]),
}  # fmt: skip


def read(folder: Path, text: bytes | str, name: str = "saved") -> Scanned:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    # The same moment as some record of a log, by which times without a year are placed.
    (folder / "server.log").write_text(
        "[2026-11-18 11:38:25,123] INFO [BrokerServer id=9] Transition from SHUTDOWN to STARTING"
        " (kafka.server.BrokerServer)\n"
    )
    return scan(path, folder / "server.log")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_recognised_and_states_its_facts(name: str, tmp_path: Path) -> None:
    layout, text, wanted = DOCUMENTS[name]
    scanned = read(tmp_path, text)
    account = scanned.files["saved"].to_row()
    events = [row for row in scanned.events if row["file"] == "saved"]
    shown = [
        {
            key: row[key].isoformat() if key == "ts" and row[key] else row[key]
            for key in (expected or row)
        }
        for row, expected in zip(events, wanted, strict=False)
    ]

    assert layout == account["layout"]
    assert wanted == shown
    assert len(wanted) == len(events) == account["events"]
    assert account["damaged"] is None
    assert account["lines"] == sum(account[kind] for kind in KINDS_OF_LINES)
    lines = text.splitlines()
    assert all(re.sub(r"hunter2", "***", lines[row["line"] - 1]) == row["text"] for row in events)


TOOL = "output of a kafka tool"


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (random.Random(1).randbytes(5000), "binary, not a log"),
        (b"\x7fELF\2\1\1" + bytes(range(256)) * 20, "binary, not a log"),
        (b"JAVA PROFILE 1.0.2\0\0\0\0\x08" + bytes(range(256)) * 20, "heap dump"),
        (b"2026-11-18 11:38:25\nFull thread dump OpenJDK 64-Bit Server VM:\n", "thread dump"),
        (b"#!/bin/bash\nset -e\n", "script"),
        (b"<?xml version='1.0'?>\n<a/>\n", "xml or html"),
        (b"services:\n  kafka:\n    image: x\n    ports:\n    - 9092\n", "yaml"),
        (b"Filesystem-is-no-log\n", None),
        (b"Filesystem     1K-blocks      Used Available Use% Mounted on\n", "command output"),
        (b"top - 11:38:25 up 12 days,  3:04,  1 user\n", "command output"),
        (b"# collected by hand\n---\napiVersion: v1\nkind: Pod\n", "kubernetes yaml"),
        (b"NAME                READY   REASON\nmy-cluster          True\n", "command output"),
        (b"log4j.rootLogger=INFO, stdout\nlog4j.logger.kafka=INFO\n", "configuration"),
        (b"[Unit]\nDescription=Kafka\n[Service]\nUser=kafka\n", "configuration"),
        (b'{"items": [{"log": "Dear diary"}]}\n', None),
        (b"items:\n- apiVersion: v1\n  kind: Pod\n", "kubernetes yaml"),
        (b'{"kind": "List", "apiVersion": "v1"}\n', "kubernetes json"),
        (b"#Wed Nov 18 11:38:25 UTC 2026\nnode.id=1\ncluster.id=x\nversion=1\n", "configuration"),
        (b"#1 [2026-11-18 11:38:25,000] INFO up (kafka.server.KafkaServer)\n" * 9, None),
        (b"Dear diary,\nnothing happened.\n", None),
        (b"11:38:25 nothing=happened\n11:38:26 nothing=new\n", None),
        (b"\n\n\n", None),
        (b"[0.104s][info][gc] Using The Z Garbage Collector\n", "gc log without dates"),
        (b"[62202541831910ns][gc] Using Parallel\n", "gc log without dates"),
        (b"OpenJDK 64-Bit Server VM (25.292-b10) for linux-amd64 JRE\n1.234: [GC (Ergonomics)\n",
         "gc log without dates"),
        (b"1.234: [GC (Allocation Failure) 65536K->10743K(251392K), 0.0159344 secs]\n",
         "gc log without dates"),
        (b"# HELP kafka_x of a broker\n# TYPE kafka_x gauge\nkafka_x 1\n", "metrics"),
        (b'kafka_x{topic="a,b"} 1.0E9\nkafka_y NaN 1795108165866\n', "metrics"),
        (b'{\n  "replicaCount": 3,\n  "image": {\n    "tag": "4.1"\n  },\n  "x": []\n}\n', "json"),
        (b'{\n  "a": 1\n}\nand prose\n' * 3, None),
        (b"log4j:WARN No appenders\nlog4j:WARN See x\nCluster ID: MkU3\n", TOOL),
        (b"Feature: kraft.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\n", TOOL),
        (b"orders-v2:0:0\norders-v2:1:77\n", TOOL),
        (b"Found log directory:\n  /var/lib/kafka\n", TOOL),
        (b"No partition reassignments found.\n", TOOL),
        (b"SLF4J: No SLF4J providers were found.\n", TOOL),
    ],
)  # fmt: skip
def test_what_is_no_log_is_named_and_what_may_be_one_is_not(
    text: bytes, layout: str | None
) -> None:
    found = recognise(text, headless=True)

    assert layout == (found.name if found else None)


def test_of_a_huge_document_the_beginning_is_read_and_that_is_said(tmp_path: Path) -> None:
    more = f"# {'filler' * 5000}\n" * (MAX_WHOLE_BYTES // 30_000 + 2)
    scanned = read(tmp_path, POD + more)
    account = scanned.files["saved"].to_row()

    assert "only its first 8 MB were looked at" == account["damaged"]
    assert not is_damaged(account["damaged"])
    assert (POD + more).count("\n") == account["lines"]
    assert "process_ended" in {row["kind"] for row in scanned.events}


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nx: " + "[" * 200_000,
        "apiVersion: v1\nkind: Pod\na: &a [x, x]\nb: " + "[*a, " * 50_000,
        "apiVersion: v1\nkind: Pod\n" + "x: &x\n" * 50_000,
        '[{"Id": "0123456789abcdef", "Created": ' + '{"a":' * 100_000,
        "Nov 18 11:38:25 k kernel: " + "oom-kill:constraint=A," * 100_000 + "\n",
        "Dumping 0.log\nLog starting offset: 0\n"
        '| offset: 1 payload: {"type":"X"}\n' + "| offset: 1 " * 100_000,
        "Topic: a\tPartition: " + "\t " * 100_000,
        "Name: a\nNamespace: b\n" + "  " * 200_000 + "Reason: x",
        "LAST SEEN   TYPE      REASON\n" + "a " * 200_000,
        "{" * 100_000,
    ],
    ids=range(10),
)
def test_what_is_made_to_hurt_takes_no_time(text: str, tmp_path: Path) -> None:
    begun = time.process_time()
    account = read(tmp_path, text).files["saved"].to_row()

    assert time.process_time() - begun < 5
    assert account["lines"] == sum(account[kind] for kind in KINDS_OF_LINES)


def test_sixteen_resources_are_sixteen_rows_and_no_warning(tmp_path: Path) -> None:
    for name, text in resources().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    rows = [one.to_row() for one in scan(tmp_path).files.values()]

    assert ["kubernetes yaml"] * 16 == [row["layout"] for row in rows]
    assert [None] * 16 == [row["damaged"] for row in rows]
    assert [None] * 16 == [row["first_ts"] for row in rows]


def test_lines_between_those_of_kafka_in_a_journal_are_read(tmp_path: Path) -> None:
    text = (
        "Nov 18 11:38:25 kafka-2 kafka[4242]: [2026-11-18 11:38:25,001] INFO [BrokerServer id=2]"
        " Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)\n"
        + JOURNAL.partition("\n")[2]
    )
    scanned = read(tmp_path, text, "journal.txt")

    assert ["host_disk_failed", "kernel_killed", "process_ended", "kernel_killed"] == [
        row["kind"]
        for row in scanned.events
        if row["file"] == "journal.txt" and row["rule"].startswith("document.")
    ]
    assert "process_starting" in {row["kind"] for row in scanned.events} | {
        row["kind"] for row in scanned.events if row["file"] == "journal.txt"
    }


@pytest.mark.parametrize(
    ("near", "year"), [("2026-01-01 00:00:09,000", 2025), ("2026-12-30 10:00:00,000", 2026)]
)
def test_a_time_without_a_year_lies_where_the_logs_do(near: str, year: int, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(f"[{near}] INFO x (kafka.server.KafkaServer)\n")
    (tmp_path / "syslog").write_text(
        "Dec 31 23:59:59 k kernel: Out of memory: Killed process 1 (java)\n"
    )

    (event,) = [row for row in scan(tmp_path).events if row["kind"] == "kernel_killed"]

    assert year == event["ts"].year


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([text for _, text, _ in DOCUMENTS.values()]),
    st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6)), max_size=4),
    st.integers(0, 2500),
    st.integers(20, 4000),
)
def test_damage_breaks_nothing_and_every_line_counts(
    document: str, changes: list[tuple[int, bytes]], cut: int, split: int
) -> None:
    data = bytearray(document.encode()[:cut])
    for at, instead in changes:
        data[at : at + len(instead)] = instead
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        path.write_bytes(bytes(data))
        whole, parted = scan(path), scan(path, split_size=split)

    account = whole.files["saved"].to_row()
    assert account["lines"] == sum(account[kind] for kind in KINDS_OF_LINES)
    assert account["lines"] == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert whole.accounts() == parted.accounts()
    assert whole.facts() == parted.facts()


def told_by(folder: Path, text: str) -> list[dict[str, Any]]:
    return [row for row in read(folder, text).events if row["file"] == "saved"]


STATUS = """● kafka.service - Apache Kafka broker
     Loaded: loaded (/etc/systemd/system/kafka.service; enabled; preset: enabled)
     Active: {active} since Wed 2026-11-18 11:38:25 UTC; 5min ago
   Duration: 2d 3h 4min
    Process: 812 ExecStart=/opt/kafka/bin/kafka-server-start.sh server.properties (code={code})
   Main PID: 812 (code={code})
        CPU: 3h 5min

Nov 18 11:38:20 kafka-2 kafka-server-start.sh[812]: shutting down
"""


@pytest.mark.parametrize(
    ("active", "code", "expected"),
    [
        ("failed (Result: oom-kill)", "killed, signal=KILL", ("kernel_killed", "OOMKilled", None)),
        ("failed (Result: signal)", "killed, signal=SEGV", ("process_ended", "SIGSEGV", None)),
        ("failed (Result: exit-code)", "exited, status=1/FAILURE", ("process_ended", None, "1")),
        ("activating (auto-restart) (Result: exit-code)", "exited, status=137",
         ("process_ended", None, "137")),
        ("inactive (dead)", "exited, status=0/SUCCESS", None),
        ("active (running)", "exited, status=1/FAILURE", None),
    ],
)  # fmt: skip
def test_the_status_of_a_service_says_how_it_ended(
    active: str, code: str, expected: tuple[str, str | None, str | None] | None, tmp_path: Path
) -> None:
    events = told_by(tmp_path, STATUS.format(active=active, code=code))

    told = [(row["kind"], row["error"], row["value"]) for row in events]
    assert told == ([expected] if expected else [])
    for row in events:
        assert (row["line"], row["subject"]) == (3, "host kafka-2")
        assert row["ts"] == datetime(2026, 11, 18, 11, 38, 25, tzinfo=UTC)


def test_what_the_journal_below_a_status_says_is_told_once(tmp_path: Path) -> None:
    text = STATUS.format(active="failed (Result: oom-kill)", code="killed, signal=KILL")
    more = "Nov 18 11:38:25 kafka-2 systemd[1]: kafka.service: Failed with result 'oom-kill'.\n"
    events = told_by(tmp_path, text + more)

    assert [(row["kind"], row["line"]) for row in events] == [("kernel_killed", 10)]


def test_a_log_below_the_status_of_its_service_is_a_log(tmp_path: Path) -> None:
    """More lines are there only where somebody asked for them."""
    text = STATUS.format(active="active (running)", code="exited, status=0/SUCCESS")
    line = (
        "Nov 18 11:38:{second} kafka-2 kafka-server-start.sh[812]: [2026-11-18 11:38:{second},000]"
        " INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n"
    )
    events = told_by(tmp_path, text + "".join(line.format(second=at) for at in range(21, 41)))

    assert [row["line"] for row in events] == list(range(10, 30))


def test_how_long_ago_a_replica_fetched_may_be_told_in_words(tmp_path: Path) -> None:
    """As --human-readable prints it."""
    text = (
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\t"
        "LastCaughtUpTimestamp\tStatus  \t\n"
        "3001  \tAAAAAAAAAAAAAAAAAAAAAA\t93          \t0  \t21 ms ago         \t"
        "21 ms ago            \tLeader  \t\n"
        "2     \tUFUDBlKG0QyW1ruqf2sVjg\t49          \t44 \t18600 ms ago      \t"
        "19101 ms ago         \tObserver\t\n"
    )
    events = told_by(tmp_path, text)

    assert [(row["controller"], row["log_end"], row["count"]) for row in events] == [
        (3001, 93, 0), (2, 49, 44),
    ]  # fmt: skip


def test_settings_below_records_that_begin_as_comments_do_are_no_configuration() -> None:
    settings = (
        b"\tacks = 1\n\tclient.id = app\n\tbootstrap.servers = [a:9092]\n\tretries = 5\n" * 20
    )
    written = b"#Wed Nov 18 11:38:25 UTC 2026\n"
    record = (
        b"####<Nov 18, 2026, 11:38:25,227 AM UTC> <Info> <org.apache.kafka.clients.AbstractConfig>"
        b" <wls1> <AdminServer> <main> <<anonymous>> <> <> <1795001905227> <BEA-000000> <values: \n"
    )
    of_settings = recognise(written + settings, headless=True)

    assert of_settings is not None
    assert of_settings.name == "configuration"
    assert recognise(record + settings, headless=True) is None
