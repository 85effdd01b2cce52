"""Logs of two clusters are refused, by a sentence that says what is whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.local import LocalEngine
from forensics.errors import ForensicsError
from forensics.history.cluster_ids import Place, leave_out_others, refuse_several_clusters
from forensics.pipeline import plan_archives, scan_archives
from forensics.run_output.reader import Tables
from forensics.sandbox import run_lines
from forensics.settings import Settings

ONE, OTHER = "mfUi4bhOTUC5rJ6cQyI-Pg", "DXABGna8RH6ECjDquWdcHA"


def start(broker: int, cluster: str, *, kraft: bool = False) -> str:
    said = (
        f"[BrokerLifecycleManager id={broker}] Incarnation 3KW5sMoORcewvw-y_8t0qA of broker"
        f" {broker} in cluster {cluster} is now STARTING. (kafka.server.BrokerLifecycleManager)"
        if kraft
        else f"Cluster ID = {cluster} (kafka.server.KafkaServer)"
    )
    started = f"[KafkaServer id={broker}] started (kafka.server.KafkaServer)"
    return "".join(
        f"[2026-11-18 11:30:0{second},000] INFO {text}\n"
        for second, text in enumerate((said, started))
    )


@pytest.mark.parametrize("kraft", [False, True])
def test_two_clusters_are_refused_with_the_folders_of_each(kraft: bool, tmp_path: Path) -> None:
    logs = {
        "a/broker-1/server.log": start(1, ONE, kraft=kraft),
        "a/broker-2/server.log": start(2, ONE, kraft=kraft),
        "a/app/client.log": "nothing\n",
        "b/broker-1/server.log": start(1, OTHER, kraft=kraft),
        "other/client.log": "nothing\n",
    }

    with pytest.raises(ForensicsError) as error:
        run_lines(logs, tmp_path / "out")

    assert str(error.value) == (
        f"These are logs of 2 clusters, and a history is of one. {ONE}: 3 files in logs/a;"
        f" {OTHER}: 1 file in logs/b. No line tells whose these are: 1 file in logs/other."
        " Run the command once for each cluster, with its files alone, or with"
        " --cluster ID."
    )


def test_logs_of_one_cluster_are_read_however_many_files_name_it(tmp_path: Path) -> None:
    logs = {f"broker-{n}/server.log": start(n, ONE) for n in (1, 2, 3)}

    assert len(run_lines(logs, tmp_path / "out").files) == 3


def test_a_full_stop_is_no_part_of_an_id(tmp_path: Path) -> None:
    created = f"[QuorumController id=3] Creating new QuorumController with clusterId {ONE}."
    line = f"[2026-11-18 11:30:00,000] INFO {created} (kafka.controller.QuorumController)\n"
    logs = {"broker-1/server.log": start(1, ONE), "controller-3/server.log": line}

    assert len(run_lines(logs, tmp_path / "out").files) == 2


def test_a_broker_that_moved_to_another_cluster_has_one_history() -> None:
    ids: dict[Place, set[str]] = {
        ("logs/broker-1", "broker-1"): {ONE, OTHER},
        ("logs/broker-2", "broker-2"): {OTHER},
    }

    refuse_several_clusters(["logs/broker-1/server.log"], ids)


def test_of_two_clusters_one_is_read_alone(tmp_path: Path) -> None:
    logs = {
        "a/broker-1/server.log": start(1, ONE),
        "b/broker-1/server.log": start(1, OTHER),
        "app/client.log": "nothing\n",
    }
    folder = tmp_path / "logs"
    for name, text in logs.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    asked = Settings((str(folder),), tmp_path / "out", cluster=OTHER)
    engine = LocalEngine()

    files = scan_archives(engine, plan_archives(asked, print), (), asked, print)

    events = Tables(asked.tables).read("events", ["file", "node"]).to_pylist()
    assert {row["file"] for row in events} == {"logs/b/broker-1/server.log"}
    assert {name: file.node for name, file in files.items()} == {
        "logs/a/broker-1/server.log": None,
        "logs/app/client.log": None,
        "logs/b/broker-1/server.log": "broker-1",
    }
    assert files["logs/a/broker-1/server.log"].to_row()["damaged"] == (
        "of another cluster, left out by --cluster"
    )
    assert "no line names" in str(files["logs/app/client.log"].to_row()["damaged"])


def test_a_cluster_that_no_line_names_is_refused() -> None:
    ids: dict[Place, set[str]] = {("logs/a", "broker-1"): {ONE}}

    with pytest.raises(ForensicsError, match=f"these logs name {ONE}"):
        leave_out_others(["logs/a/server.log"], ids, OTHER)
    assert leave_out_others(["logs/a/server.log"], ids, ONE) == {}
