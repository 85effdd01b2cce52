"""A real standalone cluster of Spark on loopback, whose nodes have nothing but Spark and Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
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
    workers: tuple[int, ...] = ()

    def said(self) -> str:
        """Give the last words of every process, for a test that failed."""
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*/*/*/stderr")]
        return "\n".join(f"== {log}\n{log.read_text('utf-8', 'replace')[-3000:]}" for log in logs)


# With a file system of its own: what is named first is hidden, and of it only the rest is there.
_APART = """
kept=/mnt
mount -t tmpfs none "$kept" || exit 1
hidden=$1 seen=$2
shift 2
number=0
for path in $seen; do
  number=$((number + 1))
  mkdir "$kept/$number" && mount --bind "$path" "$kept/$number" || exit 1
done
for path in $hidden; do mount -t tmpfs none "$path" || exit 1; done
number=0
for path in $seen; do
  number=$((number + 1))
  mkdir -p "$path" && mount --bind "$kept/$number" "$path" || exit 1
done
umount -l "$kept"
exec "$@"
"""


def apart(hidden: Iterable[Path], seen: Iterable[Path]) -> list[str]:
    """Return the words before a command that give it its own, empty folders in place of some.

    What is below those in `seen` is there as before. No folder may have a blank in its name.
    """
    folders = (" ".join(map(str, dict.fromkeys(each))) for each in (hidden, seen))
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _APART, "sh", *folders]


def can_be_apart() -> bool:
    """Return True if processes may have file systems of their own here."""
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and not subprocess.run(
            [*apart([Path("/tmp")], []), "true"], capture_output=True, check=False
        ).returncode
    )


@contextmanager
def cluster(folder: Path, workers: int = 2, before: Sequence[str] = ()) -> Iterator[Standalone]:
    """Start a master and workers of one core each, and end them by their ids.

    With the words of `apart` before their commands, nodes get addresses of their own, too: Spark
    would take them for one machine otherwise, and look on its own disk for what another wrote.
    """
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_start(folder, before, "127.0.0.1", "master", "master.Master"))
        (url,) = _seen(folder / "master.log", r"spark://127\.0\.0\.1:[1-9]\d*", 1, running)
        for number in range(workers):
            name = f"worker-{number}"
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url]
            host = f"127.0.0.{number + 2 if before else 1}"
            running.append(_start(folder, before, host, name, "worker.Worker", *options))
        _seen(folder / "master.log", "Registering worker", workers, running)
        yield Standalone(url, folder, tuple(process.pid for process in running[1:]))
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(
    folder: Path, before: Sequence[str], host: str, name: str, kind: str, *options: str
) -> subprocess.Popen[bytes]:
    """Start a process that sees nothing of this one's environment; port 0 is any that is free."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        # Its port is a fixed one, and nobody asks there.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        **java.find_java(os.environ).environment,
    }
    ports = ["--host", host, "--port", "0", "--webui-port", "0"]
    command = [str(SPARK / "bin/spark-class"), f"org.apache.spark.deploy.{kind}"]
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [*before, *command, *ports, *options],
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
