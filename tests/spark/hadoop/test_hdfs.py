"""Archives and output on a real HDFS: a name node and a data node, which `make hdfs` fetches."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.engine import java
from forensics.lib.storage import ObjectStore, join, upload
from forensics.pipeline import postmortem
from forensics.run_output.reader import open_run
from forensics.run_output.remote_folder import fetch, open_output
from forensics.settings import Settings
from tests.spark.conftest import SAMPLES

JARS = os.environ.get("HADOOP_MINICLUSTER")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not JARS or importlib.util.find_spec("hdfs_native") is None,
        reason="HDFS IS NOT TRIED: its jars and client are fetched by `make hdfs`",
    ),
]

ARCHIVE = SAMPLES / "391-rebalances"
PATIENCE = 240


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run HDFS in one process; give its address when the data node takes files."""
    folder = tmp_path_factory.mktemp("hdfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = java.find_java(os.environ).environment.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", "-Xmx256m", "-cp", f"{JARS}/*",
               "org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format",
               "-nnport", str(port)]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        address = f"hdfs://127.0.0.1:{port}"
        try:
            _wait_for(address, folder, running)
            yield address
        finally:
            running.terminate()


def _wait_for(address: str, folder: Path, running: subprocess.Popen[bytes]) -> None:
    file = folder / "file"
    file.write_text("text")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            upload(file, join(address, "first"))
        except OSError:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.5)
        else:
            return


def test_hdfs_holds_archives_and_output(hdfs: str, tmp_path: Path) -> None:
    for path in (path for path in ARCHIVE.rglob("*") if path.is_file()):
        upload(path, join(hdfs, f"kafka/{path.relative_to(SAMPLES).as_posix()}"))
    out = join(hdfs, "runs/out")
    plain = Settings((str(ARCHIVE),), tmp_path / "plain", engine="local")
    postmortem(plain, lambda _: None)

    before = dict(os.environ)
    try:
        with open_output(out) as folder:
            archive = join(hdfs, f"kafka/{ARCHIVE.name}")
            postmortem(Settings((archive,), folder, "local[2]", address=out), lambda _: None)
    finally:
        os.environ.clear()
        os.environ.update(before)

    assert (plain.out / "findings.json").read_bytes() == ObjectStore(out).read("findings.json")
    assert not [name for name in ObjectStore(out).names() if name.startswith("_staging")]
    assert open_run(fetch(out)).short_digest == open_run(plain.out).short_digest
