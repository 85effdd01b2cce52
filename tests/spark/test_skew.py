"""Logs in which one partition has nearly all changes, or one node half of the lines.

How Spark shares the work, and among how many executors, must not be seen in what a run finds; and
what stands together must not take more than twice the time of what is spread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.engine import java
from forensics.ingest.read_plan import bundle_splits, plan_reading
from forensics.pipeline import postmortem
from forensics.settings import Settings
from tests.bench.scale import Size, make_logs
from tests.spark.conftest import ROOT
from tests.spark.standalone import Standalone, cluster

pytestmark = pytest.mark.spark

SKEWED = Size(partitions=200, transitions=6_000, longest=5_000)
EVEN = Size(partitions=200, transitions=6_000, longest=30)
# Nothing is adapted; or all that can be is, while executors come and go.
SETTINGS: dict[str, dict[str, str]] = {
    "no adaptive plans": {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "5",
    },
    "all that adapts": {
        "spark.sql.adaptive.skewJoin.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64k",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    },
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the logs, and beside them what one machine finds in them."""
    folder = tmp_path_factory.mktemp("skewed")
    make_logs(folder / "logs", SKEWED)
    plain = Settings((str(folder / "logs"),), folder / "plain", engine="local")
    postmortem(plain, lambda _: None)
    return folder / "logs"


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_of_spark_changes_what_is_found(
    logs: Path, nodes: Standalone, tmp_path: Path, name: str
) -> None:
    given = {"spark.executor.memory": "700m"} | SETTINGS[name]
    words = " ".join(f"--conf {key}={value}" for key, value in given.items())
    command = [sys.executable, "-m", "forensics", "postmortem", str(logs), "-q"]

    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), "--master", nodes.master],
        env=os.environ | java.find_java(os.environ).environment | {
            "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell",
        },
        stderr=subprocess.PIPE, text=True, timeout=600, check=False,
    )  # fmt: skip

    plain = logs.with_name("plain") / "findings.json"
    assert (tmp_path / "out/findings.json").is_file(), f"{done.stderr}\n{nodes.said()}"
    assert plain.read_bytes() == (tmp_path / "out/findings.json").read_bytes()


def test_a_long_partition_takes_no_more_than_twice_the_work(logs: Path, tmp_path: Path) -> None:
    make_logs(tmp_path / "even", EVEN)

    worked = [_work(folder, tmp_path / "out") for folder in (tmp_path / "even", logs)]

    assert worked[1] < 2 * worked[0], worked


def _work(logs: Path, out: Path) -> float:
    """Return the seconds of processors of a run in this process, which has run another before."""
    begun = time.process_time()
    postmortem(Settings((str(logs),), out, engine="local"), lambda _: None)
    return time.process_time() - begun


@pytest.mark.parametrize("tasks", [2, 8, 32])
def test_the_lines_of_one_node_are_shared_among_tasks(tmp_path: Path, tasks: int) -> None:
    """Half of all lines are of one node, which doubles no task: plain files are read in pieces."""
    line = "[2026-11-18 11:38:51,321] INFO a line of a broker (kafka.server.KafkaServer)\n"
    for node in range(11):
        (tmp_path / f"broker-{node}").mkdir()
        (tmp_path / f"broker-{node}/server.log").write_text(line * (10_000 if not node else 1_000))

    splits = plan_reading([str(tmp_path)], split_size=20_000).splits
    sizes = [sum(one.bytes for one in some) for some in bundle_splits(splits, tasks)]

    assert max(sizes) < 2 * sum(sizes) / tasks, sizes
