"""Support bundles give the findings of their logs, and say why the processes died."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.registry import detect
from forensics.events.file_accounts import FileAccount
from forensics.run_output.findings import INCIDENT_SEVERITIES, Finding
from forensics.sandbox import run_archives
from tests import bundles
from tests.recorded_runs import read_recording

Builder = Callable[[Path], Path]


@dataclass(frozen=True)
class Answers:
    files: Mapping[str, FileAccount]
    findings: Sequence[Finding]
    trigger: Sequence[Mapping[str, Any]]

    def about(self, detector: str, broker: int) -> Finding:
        """Return the finding of a detector about a broker."""
        return next(
            one for one in self.findings if one.detector == detector and one.brokers == [broker]
        )


_ANSWERS: dict[str, Answers] = {}


def answer(name: str, folder: Path) -> Answers:
    """Build a bundle, and ask all detectors about it; each once."""
    if name not in _ANSWERS:
        build: Builder = getattr(bundles, name)
        archive = build(folder / "bundle")
        run = run_archives([str(archive)], folder / "out")
        results = detect(run.tables, run.past)
        _ANSWERS[name] = Answers(run.files, results.findings, results.trigger)
    return _ANSWERS[name]


BUNDLES = ("strimzi_report", "must_gather", "compose_project", "machines", "confluent_bundle",
           "cluster_dump", "tools_and_machines")  # fmt: skip
# Which broker, what it did by its card, and the line that says so.
DEATHS = [
    ("strimzi_report", 2, "Broker 2 was killed: memory had run out",
     "pods/my-cluster-kafka-2.yaml", "        reason: OOMKilled"),
    ("must_gather", 1, "Broker 1 was stopped because its liveness probe failed",
     "core/events.json", '            "message": "Container kafka failed liveness probe'),
    ("must_gather", 2, "Broker 2 was killed: memory had run out", "kubelet_service.log",
     "Memory cgroup out of memory: Killed process 20712 (java)"),
    ("compose_project", 2, "Broker 2 was killed: memory had run out", "docker-events.txt",
     "container oom 0f3dd1ab7cf1"),
    ("compose_project", 1, "Broker 1 was killed by a signal (SIGKILL)", "inspect.json",
     '"ExitCode": 137'),
    ("machines", 2, "Broker 2 was killed: memory had run out", "kafka-2/journal.txt",
     "kernel: oom-kill:constraint=CONSTRAINT_NONE"),
    ("machines", 1, "Broker 1 crashed: its JVM ended by a fault", "kafka-1/hs_err_pid4811.log",
     "#  SIGSEGV (0xb)"),
    ("cluster_dump", 2, "Broker 2 was killed: memory had run out", "kafka/pods.json",
     '"reason": "OOMKilled"'),
    ("tools_and_machines", 2, "Broker 2 was killed: memory had run out", "systemctl-status.txt",
     "Active: failed (Result: oom-kill)"),
    ("confluent_bundle", 3, "Broker 3 was killed by a signal (SIGKILL)", "journal.json",
     "code=killed, status=9/KILL"),
]  # fmt: skip


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: f"{death[0]}-{death[1]}")
def test_the_card_of_a_broker_says_why_it_died_and_quotes_the_line(
    death: tuple[str, int, str, str, str], tmp_path: Path
) -> None:
    name, broker, title, file, line = death
    card = answer(name, tmp_path).about("broker-restart", broker)

    assert title == card.title.partition(";")[0]
    quoted = [one for one in card.evidence if one["file"].endswith(file)]
    assert [line] == [line for one in quoted if line in one["text"]][:1]
    assert f"{quoted[0]['file']}:" in card.explanation


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_gives_the_incidents_of_its_logs(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sample = "391-failed-disk" if name == "confluent_bundle" else "430-unclean"
    run = read_recording(tmp_path_factory, sample)
    plain = detect(run.tables, run.past)

    assert incidents(plain.findings) == incidents(answer(name, tmp_path).findings)


def incidents(findings: Sequence[Finding]) -> set[tuple[str, str, tuple[int, ...]]]:
    """Say what went wrong, without words and lines."""
    return {
        (one.detector, one.severity, tuple(one.brokers))
        for one in findings
        if one.severity in INCIDENT_SEVERITIES
    }


def test_what_nobody_knows_among_them_is_said_and_no_more(tmp_path: Path) -> None:
    """Figures of a machine and exports of web tools may be anything, logs too."""
    notes = {one.file.rpartition("/")[2].rpartition("!")[2]: one.notes
             for one in answer("tools_and_machines", tmp_path).files.values()}  # fmt: skip
    known = ["server.log", "controller.log", "state-change.log", "systemctl-status.txt",
             "server.properties"]  # fmt: skip

    assert [[]] * len(known) == [notes.pop(name) for name in known]
    assert {"no known log layout at its beginning", "text, not a log"} >= {
        why for some in notes.values() for why in some
    }


@pytest.mark.parametrize("name", BUNDLES[:-1])
def test_what_is_no_log_gives_no_warning(name: str, tmp_path: Path) -> None:
    files = answer(name, tmp_path).files.values()
    documents = [one for one in files if one.is_document]

    assert [] == [(one.file, one.notes) for one in files if one.notes]
    assert documents
    assert all(one.to_row()["layout"] for one in documents)


STARTING = (
    "[2026-11-18 11:{at},000] INFO Registered `kafka:type=kafka.Log4jController` MBean"
    " (kafka.utils.Log4jControllerRegistration$)\n"
    "[2026-11-18 11:{at},000] INFO [KafkaRaftServer nodeId=3001] Kafka Server started"
    " (kafka.server.KafkaRaftServer)\n"
)
ELECTED = (
    "[2026-11-18 11:44:{at},000] INFO [QuorumController id={id}] Becoming the active controller"
    " at epoch {epoch}, next write offset 1. (org.apache.kafka.controller.QuorumController)\n"
)
DISCONNECTED = (
    "[2026-11-18 11:44:30,500] INFO [RaftManager id=3002] Node 3001 disconnected."
    " (org.apache.kafka.clients.NetworkClient)\n"
)


def test_the_card_of_a_lost_controller_says_why_it_died(tmp_path: Path) -> None:
    ended = {**bundles.OOM_KILLED, "finishedAt": '"2026-11-18T11:44:30Z"'}
    files = {
        "logs/kraftcontroller-0/controller.log": STARTING.format(at="44:01")
        + ELECTED.format(at="10", id=3001, epoch=4)
        + STARTING.format(at="46:00"),
        "logs/kraftcontroller-1/controller.log": DISCONNECTED
        + ELECTED.format(at="34", id=3002, epoch=5),
        "pods/kraftcontroller-0.yaml": bundles.pod_yaml("kraftcontroller-0", ended=ended),
        "pods/kraftcontroller-1.yaml": bundles.pod_yaml("kraftcontroller-1"),
    }
    bundles.write(tmp_path / "b", files)
    run = run_archives([str(tmp_path / "b")], tmp_path / "out")
    (lost, *others) = detect(run.tables, run.past).findings

    assert "controller-lost" == lost.detector
    assert "killed-process" not in {one.detector for one in others}
    assert "was killed: memory had run out" in lost.explanation
    assert "pods/kraftcontroller-0.yaml:" in lost.explanation
    assert any("OOMKilled" in one["text"] for one in lost.evidence)


@pytest.mark.parametrize("name", ["strimzi_report", "machines"])
def test_the_trigger_is_the_kill_and_cites_it(name: str, tmp_path: Path) -> None:
    trigger = answer(name, tmp_path).trigger

    (kill,) = [one for one in trigger if one["node"] == "broker-2"]
    assert ("crash", "oom") == (kill["kind"], kill["reason"])
    assert any("OOMKilled" in one["text"] or "oom-kill" in one["text"] for one in kill["evidence"])


def test_the_last_words_in_the_output_of_a_broker_that_had_been_quiet_say_why_it_died(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(bundles.UNCLEAN, logs)
    text = (logs / "broker-1/server.log").read_text("utf-8")
    quiet = text.index("[2026-11-18 11:38:05")
    begun = [one.start() for one in re.finditer(r"(?m)^.{25} INFO Registered `kafka:type", text)]
    words = bundles.CRASH_REPORT.partition("----")[0]
    (logs / "broker-1/kafkaServer.out").write_text(text[:quiet] + words + text[begun[1] :])

    run = run_archives([str(logs)], tmp_path / "out")
    answers = Answers(run.files, detect(run.tables, run.past).findings, ())
    card = answers.about("broker-restart", 1)
    assert card.title.startswith("Broker 1 crashed: its JVM ended by a fault;")
    assert "kafkaServer.out" in card.explanation
