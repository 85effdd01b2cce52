"""Ends of processes are tied to absences of brokers by name, id or folder, and by time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.shared.absence_causes import death_reasons
from forensics.history.nodes.broker_states import Absence
from tests.detection.cases import SECOND, absence, case, event, logs

Row = dict[str, Any]
FILES = [
    logs("broker-1", 200, role="broker", file="b.zip!podlogs/my-kafka-0-kafka.log"),
    logs("broker-2", 200, role="broker", file="b.zip!hosts/h2/kafka/server.log"),
    logs("broker-3", 200, role="broker", file="b.zip!hosts/h3.example.org/server.log"),
]


def line(subject: str, file: str = "b.zip!events.json", **facts: Any) -> Row:
    plain = event(100.5, f"file:{file}", "process_ended", subject=subject)
    return plain | {"file": file, "error": "OOMKilled"} | facts


def reasons(folder: Path, rows: Sequence[Row], away: Sequence[Absence]) -> Any:
    past: DetectionContext = case(folder, events=rows, files=FILES, away=away)
    return {key: (reason, row["file"]) for key, (reason, row) in death_reasons(past).items()}


ALL = [absence(broker, "crash", 100, 120) for broker in (1, 2, 3)]


@pytest.mark.parametrize(
    ("row", "broker"),
    [
        # by the names of its logs, even against the number in its own
        (line("pod my-kafka-0"), 1),
        (line("container h2"), 2),
        (line("host h3"), 3),
        (line("host h3.example.org"), 3),
        # by its environment
        (line("container x", broker=2), 2),
        # by the folder in which both lie
        (line("host", "b.zip!hosts/h2/dmesg.txt"), 2),
        (line("", "b.zip!hosts/h2/kafka/hs_err_pid1.log", kind="jvm_crashed"), 2),
        (line("host", "b.zip!hosts/dmesg.txt"), None),
        (line("host", "b.zip!dmesg.txt"), None),
        # a number is no id where some pod's number is another
        (line("pod my-kafka-2"), None),
        (line("pod my-kafka-01"), None),
        (line("pod my-kafka"), None),
        (line("pod operator"), None),
    ],
)
def test_a_line_is_tied_to_one_broker_or_to_none(
    row: Row, broker: int | None, tmp_path: Path
) -> None:
    found = reasons(tmp_path, [row], ALL)

    assert ([] if broker is None else [(broker, 100 * SECOND)]) == list(found)


def told_of(subject: str, **facts: Any) -> Row:
    """Describe a pod or a container beside the line of its end."""
    plain = line(subject, "b.zip!inspect.json", kind="pod_restarted", error=None)
    return plain | facts


@pytest.mark.parametrize(
    "rows",
    [
        # `docker inspect` knows the environment, `docker events` the end
        [told_of("container kafka-b-1", broker=2), line("container kafka-b-1")],
        # compose names a container by its service
        [line("container kafka-h2-1", detail="h2")],
        # a controller on the same machine, whose id no log of a broker knows
        [told_of("pod a", broker=2, kind="pod_scheduled", detail="worker-7"),
         told_of("pod b", broker=3002, kind="pod_scheduled", detail="worker-7"),
         line("host worker-7", kind="kernel_killed")],
    ],
)  # fmt: skip
def test_what_others_tell_of_a_container_ties_the_line_of_its_end(
    rows: Sequence[Row], tmp_path: Path
) -> None:
    found = reasons(tmp_path, rows, ALL)

    assert [(2, 100 * SECOND)] == list(found)


def test_two_containers_of_one_name_are_nobody(tmp_path: Path) -> None:
    rows = [told_of("pod a", broker=1), told_of("pod a", broker=2), line("pod a")]

    assert not reasons(tmp_path, rows, ALL)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("crash", "oom"), ("gone", "oom"), ("unknown", "oom"), ("fenced", "oom"), ("pause", None),
     ("isolated", None), ("controlled", None)],
)  # fmt: skip
def test_only_a_process_that_may_have_ended_has_a_reason(
    kind: str, reason: str | None, tmp_path: Path
) -> None:
    found = reasons(tmp_path, [line("container h2")], [absence(2, kind, 100, 120)])

    assert ([reason] if reason else []) == [one for one, _ in found.values()]


@pytest.mark.parametrize(
    ("second", "hit"), [(96.9, False), (97, True), (113, True), (113.1, False), (150, False)]
)
def test_a_reason_lies_in_the_bracket_of_the_end(second: float, hit: bool, tmp_path: Path) -> None:
    row = line("container h2", ts=int(second * SECOND))

    assert hit == bool(reasons(tmp_path, [row], [absence(2, "crash", 100, 120)]))


def test_what_a_broker_says_itself_comes_first(tmp_path: Path) -> None:
    own = event(99, "broker-2", "process_failed", text="java.lang.OutOfMemoryError: Java heap")

    found = reasons(tmp_path, [line("container h2"), own], ALL[1:2])

    assert [("memory", "broker-2/server.log")] == list(found.values())


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"error": "OOMKilled", "value": "137"}, "oom"),
        ({"error": "Error", "value": "137"}, "killed"),
        ({"error": "Error", "value": "143"}, None),
        ({"error": "Completed", "value": "0"}, None),
        ({"error": None, "value": "3"}, "heap"),
        ({"error": None, "value": "139"}, "jvm"),
        ({"error": "Error", "value": "1"}, "exit"),
        ({"error": None, "value": None}, None),
        ({"error": "SIGKILL"}, "killed"),
        ({"error": "SIGSEGV"}, "jvm"),
        ({"error": "Evicted", "kind": "pod_evicted"}, "evicted"),
        ({"kind": "pod_stopped", "error": "Killing", "detail": "failed liveness probe"}, "probe"),
        ({"kind": "pod_stopped", "error": "Killing", "detail": "Stopping container"}, None),
        ({"kind": "jvm_crashed", "error": "out of memory"}, "native"),
        ({"kind": "jvm_crashed", "error": "OutOfMemoryError"}, "java-memory"),
        ({"kind": "host_disk_failed", "error": None}, None),
    ],
)  # fmt: skip
def test_a_line_says_why_by_its_kind_its_error_and_its_code(
    facts: Row, reason: str | None, tmp_path: Path
) -> None:
    found = reasons(tmp_path, [line("container h2", **facts)], ALL[1:2])

    assert ([reason] if reason else []) == [one for one, _ in found.values()]


def report(at: float = 100.5, **facts: Any) -> Row:
    """Give a report of a JVM that lies apart from all logs."""
    row = event(at, "file:b.zip!hs_err_pid7.log", "jvm_crashed", subject="JVM kafka.Kafka")
    plain = row | {"file": "b.zip!hs_err_pid7.log", "error": "SIGSEGV", "position": 7}
    return plain | facts


@pytest.mark.parametrize(
    ("rows", "away", "broker"),
    [
        # by its time: no other broker died then
        ([report()], [absence(1, "crash", 100, 120), absence(2, "crash", 150, 160)], 1),
        ([report()], ALL, None),
        ([report(300)], ALL[:1], None),
        # that of another program is nobody's, even beside the broker's logs
        ([report(subject="JVM org.apache.kafka.connect.cli.ConnectDistributed")], ALL[:1], None),
        ([report(subject=None)], ALL[:1], None),
        # by where its command puts its logs
        ([report(value="/var/log/h2")], ALL, 2),
        ([report(value="/var/log/kafka")], ALL, None),
        # by the number of its process, which the kernel names, too
        ([report(), line("host h3", kind="process_ended", error="SIGSEGV", position=7)], ALL, 3),
    ],
)  # fmt: skip
def test_a_report_of_a_jvm_apart_from_all_logs_is_tied_to_one_broker_or_to_none(
    rows: Sequence[Row], away: Sequence[Absence], broker: int | None, tmp_path: Path
) -> None:
    found = reasons(tmp_path, rows, away)

    told = sorted({key[0] for key, (_, file) in found.items()})
    assert ([] if broker is None else [broker]) == told
    assert broker in (None, 3) or found[broker, 100 * SECOND] == ("jvm", "b.zip!hs_err_pid7.log")
