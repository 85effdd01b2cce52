"""A cluster whose driver and workers share no file system: all that they share is a store.

Two workers and the driver have their own /tmp, their own home and, but for the driver, no checkout.
Archives and output are in a real store of objects on loopback. While the run writes, the Java of
one executor is killed, and then a Python worker of the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forensics.engine import java
from forensics.lib.storage import ObjectStore
from forensics.pipeline import postmortem
from forensics.settings import Settings
from tests.ingest.object_store import KEY, SECRET, Bucket, serving
from tests.spark.conftest import ROOT, SAMPLES
from tests.spark.standalone import SPARK, Standalone, apart, can_be_apart, cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not can_be_apart(),
        reason="SEPARATE DISKS ARE NOT TRIED: no process here may have mounts of its own (root?)",
    ),
    pytest.mark.skipif(
        not all(map(shutil.which, ("gzip", "tar"))), reason="THE CLUSTER IS NOT TRIED: no gzip, tar"
    ),
]

SUBMIT = ROOT / "docs/running/examples/standalone/submit.sh"
ARCHIVE = SAMPLES / "430-unclean/logs"
# What whoever runs the cluster has in spark-defaults.conf; credentials as the store's own tools
# take them.
DEFAULTS = {
    "spark.default.parallelism": "6",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.executorEnv.AWS_ACCESS_KEY_ID": KEY,
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": SECRET,
    "spark.executorEnv.AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
}
PATIENCE = 300
HOME = Path(os.environ.get("HOME", "/root"))


@dataclass(frozen=True)
class Done:
    """How a run ended, what it said, what was killed, what is in the store, and Spark's log."""

    code: int
    said: str
    killed: list[str]
    bucket: Bucket
    findings: bytes
    names: list[str]
    log: list[dict[str, Any]]

    def jobs(self) -> list[dict[str, str]]:
        """Give the properties of each job."""
        return [one["Properties"] for one in self.log if one["Event"] == "SparkListenerJobStart"]


@pytest.fixture(scope="module")
def done(sent: Path, python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """One run on the cluster, in the middle of which an executor and a Python worker die."""
    folder = tmp_path_factory.mktemp("apart")
    kept = [SPARK, Path(sys.base_prefix), python.parents[1], _java_home()]
    hidden = [Path("/tmp"), HOME, ROOT]
    settings, log, nodes = folder / "conf", folder / "events", folder / "cluster"
    for one in (settings, log, nodes):
        one.mkdir()
    options = DEFAULTS | {"spark.eventLog.dir": log.as_uri()}
    (settings / "spark-defaults.conf").write_text(
        "".join(f"{key} {value}\n" for key, value in options.items())
    )
    with (
        serving(folder / "objects") as bucket,
        cluster(nodes, before=apart(hidden, kept)) as running,
    ):
        shutil.copytree(ARCHIVE, bucket.folder / "logs")
        here = apart([Path("/tmp"), HOME], [*kept, ROOT, Path(sys.prefix), sent, settings, log])
        store = bucket.address("").partition("?")[2]
        out = f"s3://{bucket.folder.name}/runs/out?{store}"
        words = [f"s3://{bucket.folder.name}/logs?{store}", "-o", out, "--fail-on", "high"]
        given = {
            "PATH": f"{SPARK / 'bin'}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "EXECUTOR_MEMORY": "800m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(settings),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            **java.find_java(os.environ).environment,
        }
        said = folder / "said"
        with said.open("wb") as told:
            process = subprocess.Popen(
                [*here, SUBMIT, running.master, *words],
                cwd=sent, env=os.environ | given, stdout=told, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                killed = list(_kill_some(process, running, bucket.folder / "runs/out/_staging"))
                code = process.wait(PATIENCE)
            finally:
                process.kill()
        store_there = ObjectStore(bucket.address("runs/out"))
        names = store_there.names()
        yield Done(
            code, f"{said.read_text('utf-8', 'replace')}\n{running.said() if code != 3 else ''}",
            killed, bucket,
            store_there.read("findings.json") if "findings.json" in names else b"", names,
            [json.loads(line) for path in sorted(log.rglob("*")) if path.is_file()
             and not path.name.startswith((".", "appstatus")) for line in path.open()],
        )  # fmt: skip


def _java_home() -> Path:
    found = java.find_java(os.environ).environment.get("JAVA_HOME")
    return Path(found) if found else Path(shutil.which("java") or "/").resolve().parents[1]


def _kill_some(
    process: subprocess.Popen[bytes], running: Standalone, staging: Path
) -> Iterator[str]:
    """Kill an executor when the first task has written, and a Python worker when more have."""
    until = time.monotonic() + PATIENCE
    wanted = [(1, running.workers[0], "CoarseGrained"), (3, running.workers[1], "pyspark.daemon")]
    while wanted and time.monotonic() < until and process.poll() is None:
        files, worker, what = wanted[0]
        if len(list(staging.rglob("*.parquet"))) >= files:
            # The daemon forks the workers; these are the last of their line.
            found = [pid for pid, words in _descendants(worker) if what in words]
            if found:
                with suppress(ProcessLookupError):
                    os.kill(max(found) if what == "pyspark.daemon" else min(found), signal.SIGKILL)
                    yield what
                    wanted.pop(0)
        time.sleep(0.02)


def _descendants(process: int) -> Iterator[tuple[int, str]]:
    """Give the processes that one has started, and those by these, with their command lines."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    todo = [process]
    while todo:
        for child in children.get(todo.pop(), []):
            todo.append(child)
            with suppress(OSError):
                yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")


def test_findings_are_byte_for_byte_those_of_one_machine(done: Done, tmp_path: Path) -> None:
    postmortem(Settings((str(ARCHIVE),), tmp_path / "out", engine="local"), lambda _: None)

    assert ["CoarseGrained", "pyspark.daemon"] == done.killed, done.said
    assert 3 == done.code, done.said
    assert (tmp_path / "out/findings.json").read_bytes() == done.findings


def test_what_was_killed_left_nothing(done: Done) -> None:
    """The list names all that is there, and no attempt that failed, nor what was in between."""
    store = ObjectStore(done.bucket.address("runs/out"))
    listed = json.loads(store.read("_FILES.json"))["files"]

    there = [name for name in done.names if not name.startswith(".lock-")]
    assert sorted([*listed, "_FILES.json", "_RESULT.json"]) == there
    assert not [name for name in done.names if name.startswith("_staging")]
    assert {"tables/events", "tables/leadership"} <= {name.rpartition("/")[0] for name in listed}


def test_tasks_failed_and_were_run_again(done: Done) -> None:
    failed = [one for one in done.log if one["Event"] == "SparkListenerTaskEnd"
              and one["Task End Reason"]["Reason"] != "Success"]  # fmt: skip
    lost = [one for one in done.log if one["Event"] == "SparkListenerExecutorRemoved"]

    assert failed
    assert lost


def test_spark_names_the_run_and_its_stages(done: Done) -> None:
    (begun,) = (one for one in done.log if one["Event"] == "SparkListenerApplicationStart")
    groups = {job.get("spark.jobGroup.id") for job in done.jobs()}
    described = {job.get("spark.job.description") for job in done.jobs()}

    assert "kafka-forensics logs" == begun["App Name"]
    assert {"scan", "history"} == groups
    assert {"scan: events", "history: leadership", "history: isr"} <= described
    assert "scan: 28 pieces of the archives" in described


def test_settings_of_the_user_go_before_ours(done: Done) -> None:
    (told,) = (one for one in done.log if one["Event"] == "SparkListenerEnvironmentUpdate")
    properties = told["Spark Properties"]

    assert "8m" == properties["spark.sql.adaptive.advisoryPartitionSizeInBytes"]
    assert "UTC" == properties["spark.sql.session.timeZone"]
    assert "spark.ui.enabled" not in properties


def test_no_secret_is_in_what_is_said(done: Done) -> None:
    assert SECRET not in done.said
