"""spark-submit on a real standalone cluster whose executors have only what was sent to them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forensics.engine import java
from tests.spark.conftest import ROOT, SAMPLES, Run
from tests.spark.standalone import SPARK, Standalone, cluster

# Spark unpacks what --archives brings with these programs.
MISSING = [name for name in ("gzip", "tar") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        bool(MISSING), reason=f"THE CLUSTER IS NOT TRIED: no {' and no '.join(MISSING)} here"
    ),
]

SUBMIT = ROOT / "docs/running/examples/standalone/submit.sh"
SITE = Path(str(importlib.metadata.distribution("pyarrow").locate_file(""))).resolve()


@dataclass(frozen=True)
class Done:
    """How a run ended, where its output is, and all that it said."""

    code: int
    out: Path
    said: str


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def done(
    nodes: Standalone, sent: Path, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Done:
    """One run on the cluster, from a folder that knows nothing of the checkout."""
    out = tmp_path_factory.mktemp("shared") / "out"
    given = {
        "PATH": f"{SPARK / 'bin'}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "EXECUTOR_MEMORY": "800m",
        # This machine may have other addresses, which need not lead back to it.
        "SPARK_LOCAL_IP": "127.0.0.1",
        **java.find_java(os.environ).environment,
    }
    ended = subprocess.run(
        [SUBMIT, nodes.master, SAMPLES / "430-unclean/logs", "-o", out, "--fail-on", "high"],
        cwd=sent,
        env=os.environ | given,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = (
        f"{ended.stdout}\n{ended.stderr[-3000:]}\n{nodes.said() if ended.returncode != 3 else ''}"
    )
    return Done(ended.returncode, out, said)


def test_a_cluster_finds_byte_for_byte_what_this_machine_finds(
    done: Done, recorded: Callable[[str], Run]
) -> None:
    assert (done.out / "findings.json").is_file(), done.said
    assert recorded("430-unclean").findings == (done.out / "findings.json").read_bytes()


def test_spark_submit_ends_with_the_code_of_the_run(done: Done) -> None:
    result = json.loads((done.out / "_RESULT.json").read_text())

    assert (3, 3) == (done.code, result["exit_code"]), done.said


def test_executors_had_only_what_was_sent(done: Done, sent: Path, nodes: Standalone) -> None:
    """Spark itself, the zip, the archive, and the standard library of a Python that has no more."""
    paths = [json.loads(one.read_text()) for one in (sent / "paths").iterdir()]
    executors = [one for one in paths if any(str(nodes.folder) in path for path in one)]

    assert len(executors) >= 2, done.said
    strange = {path for one in executors for path in one} & {str(ROOT), str(SITE), ""}
    assert set() == strange
