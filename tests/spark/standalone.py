"""A real standalone cluster of Spark on loopback, whose nodes have nothing but Spark and Java."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from forensics.engine import java

SPARK = Path(pyspark.__file__).parent
# Seconds; nothing is waited for longer than it takes.
PATIENCE = 240


@dataclass(frozen=True)
class Standalone:
    """A running cluster: where its master listens, and the folder with its logs."""

    master: str
    folder: Path

    def said(self) -> str:
        """Give the last words of every process, for a test that failed."""
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*/*/*/stderr")]
        return "\n".join(f"== {log}\n{log.read_text('utf-8', 'replace')[-3000:]}" for log in logs)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """Start a master and workers of one core each, and end them by their ids."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_start(folder, "master", "master.Master"))
        (url,) = _seen(folder / "master.log", r"spark://127\.0\.0\.1:[1-9]\d*", 1, running)
        for number in range(workers):
            name = f"worker-{number}"
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url]
            running.append(_start(folder, name, "worker.Worker", *options))
        _seen(folder / "master.log", "Registering worker", workers, running)
        yield Standalone(url, folder)
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(folder: Path, name: str, kind: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a process that sees nothing of this one's environment; port 0 is any that is free."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # Its port is a fixed one, and nobody asks there.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        **java.find_java(os.environ).environment,
    }
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [SPARK / "bin/spark-class", f"org.apache.spark.deploy.{kind}", *ports, *options],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _seen(log: Path, pattern: str, times: int, running: list[subprocess.Popen[bytes]]) -> list[str]:
    """Wait until a log says something so many times."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and all(one.poll() is None for one in running):
        found = re.findall(pattern, log.read_text("utf-8", "replace"))
        if len(found) >= times:
            return found[:times]
        time.sleep(0.2)
    raise AssertionError(f"{pattern!r} was not said {times} times:\n{log.read_text('utf-8')}")
