"""A run on a real YARN: a resource manager and two node managers, which `make yarn` fetches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.pipeline import postmortem
from forensics.settings import Settings
from tests.spark.conftest import ROOT, SAMPLES

JARS = os.environ.get("HADOOP_MINICLUSTER")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not JARS, reason="YARN IS NOT TRIED: its jars are fetched by `make yarn`"),
]

ARCHIVE = SAMPLES / "391-rebalances"
PATIENCE = 300
EXECUTORS = {
    "spark.executor.instances": "2",
    "spark.executor.memory": "600m",
    "spark.yarn.am.memory": "400m",
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run YARN; give the folder of its settings, as every node of a cluster has one."""
    folder = tmp_path_factory.mktemp("yarn")
    conf = folder / "conf"
    conf.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("mini_yarn.py")), str(JARS),
               str(conf / "yarn-site.xml")]  # fmt: skip
    said = folder / "said"
    with (
        said.open("wb") as told,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        ) as running,
    ):  # fmt: skip
        assert running.stdout is not None
        assert "up\n" in iter(running.stdout.readline, ""), said.read_text("utf-8", "replace")
        yield conf
        running.communicate()


def test_yarn_finds_what_one_machine_finds(settings: Path, tmp_path: Path) -> None:
    postmortem(Settings((str(ARCHIVE),), tmp_path / "plain", engine="local"), lambda _: None)
    words = " ".join(f"--conf {name}={value}" for name, value in EXECUTORS.items())
    command = [sys.executable, "-m", "forensics", "postmortem", str(ARCHIVE), "-q"]

    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), "--master", "yarn"],
        env=os.environ | {
            "PYTHONPATH": str(ROOT), "HADOOP_CONF_DIR": str(settings),
            "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell",
        },
        stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    plain, found = (tmp_path / name / "findings.json" for name in ("plain", "out"))
    assert plain.read_bytes() == found.read_bytes()
    assert not list((tmp_path / "out").glob(".*"))
