"""Logs of two clusters are refused, by a sentence that says what is whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.errors import ForensicsError
from forensics.history.cluster_ids import Place, refuse_several_clusters
from forensics.sandbox import run_lines

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
        " Run the command once for each cluster, with its files alone."
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
