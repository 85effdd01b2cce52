"""Exit codes, through the console command and through spark-submit, and the file that agrees.

Standard output is a pipe in all of them, as it is for who schedules runs.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from forensics.engine import java

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
CONSOLE = [sys.executable, "-m", "forensics"]
SUBMIT = [
    str(SPARK / "bin/spark-submit"), "--master", "local[1]",
    "--conf", "spark.ui.enabled=false", "--driver-memory", "1g",
]  # fmt: skip

# One line that is a finding by itself.
FOUND = (
    "[2026-06-10 12:00:00,123] WARN Found invalid messages in log segment"
    " /var/lib/kafka/data/orders-3/00000000000000048120.log at byte offset 886339595:"
    " Record size is smaller than minimum record overhead (14).. (kafka.log.LogSegment)\n"
)

CODES = {
    0: ["postmortem", "found.log"],
    1: ["postmortem", "nope"],
    2: ["postmortem", "found.log", "--fail-on", "hihg"],
    # A finding that somebody waits for goes before what could not be read.
    3: ["postmortem", "found.log", "cut.log.gz", "--strict", "--fail-on", "info"],
    4: ["postmortem", "found.log", "cut.log.gz", "--strict"],
}
REASONS = {1: "there is no file", 3: "1 finding of level info or above", 4: "cut.log.gz"}

both = pytest.mark.parametrize("submitted", [False, True], ids=["console", "spark-submit"])


def words(arguments: Sequence[str], *, submitted: bool) -> list[str]:
    """Say how a command is started: by itself, or as a file that is handed to Spark."""
    if not submitted:
        return [*CONSOLE, *arguments]
    return [*SUBMIT, str(ROOT / "jobs" / f"{arguments[0]}.py"), *arguments[1:]]


def environment() -> dict[str, str]:
    """Where a checkout is not installed, its packages are on the path."""
    told = os.environ | java.find_java(os.environ).environment
    ours = {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    return told | ours | {"SPARK_LOCAL_IP": "127.0.0.1"}


def start(folder: Path, arguments: Sequence[str], *, submitted: bool) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words(arguments, submitted=submitted),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A group of its own, which gets Ctrl-C as a terminal sends it: to all of them.
        start_new_session=True,
    )


def result(folder: Path) -> dict[str, object]:
    told: dict[str, object] = json.loads((folder / "out/_RESULT.json").read_text("utf-8"))
    return told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder but for a tiny log, and an archive of it that was cut off."""
    (tmp_path / "found.log").write_text(FOUND, encoding="utf-8")
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(FOUND.encode())[:-9])
    return tmp_path


# How a code comes about is the same for both. That the console command ends with 0 and 4, too, is
# seen in test_command.py and test_quality_gate.py, at no further run.
CASES = [(code, True) for code in (0, 2, 3)] + [(code, False) for code in (1, 2, 3, 4)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("code", "submitted"), CASES, ids=lambda one: {True: "spark-submit", False: "console"}[one]
    if isinstance(one, bool) else str(one),
)  # fmt: skip
def test_each_code_is_reached(code: int, folder: Path, *, submitted: bool) -> None:
    arguments = [*CODES[code], "-o", "out", "--json"]
    if not submitted:
        arguments += ["--engine", "local"]
    done = start(folder, arguments, submitted=submitted)
    said, warned = done.communicate(timeout=600)

    assert code == done.returncode, warned
    assert "Traceback" not in warned
    if code == 2:
        assert not (folder / "out").exists()
        return
    told = result(folder)
    assert code == told["exit_code"]
    assert arguments == told["command"]
    assert REASONS.get(code, "") in str(told["reason"])
    assert str(told["started"]) < str(told["ended"])
    if not submitted:
        # Where somebody reads JSON, nothing else stands. (Spark passes on everything that a job
        # says on standard output, also what it has said on standard error.)
        assert (told if code != 1 else None) == (json.loads(said) if said else None)


# Holds a store as another run does, until it is told to go.
HOLDER = """
import sys
from pathlib import Path
from forensics.weekly.store import lock_store
with lock_store(Path(sys.argv[1]), 0, print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_store_that_another_run_holds_ends_with_5(folder: Path) -> None:
    store = folder / "store"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert "held\n" == holder.stdout.readline()
    before = sorted(store.iterdir())
    run = start(folder, ["audit", "found.log", "--store", "store", "--json"], submitted=False)
    said, warned = run.communicate(timeout=600)
    holder.communicate("")

    assert (5, 0) == (run.returncode, holder.returncode), warned
    assert "Traceback" not in warned
    assert 5 == json.loads(said)["exit_code"]
    # The other run's store, and what it says of itself, are left alone.
    assert before == sorted(store.iterdir())


@pytest.mark.spark
@both
def test_ctrl_c_ends_a_run_cleanly(folder: Path, *, submitted: bool) -> None:
    run = start(folder, ["postmortem", "found.log", "-o", "out", "-v"], submitted=submitted)
    told = run.stdout if submitted else run.stderr
    assert told is not None
    said = ""
    while not said.startswith("archives"):
        said = told.readline()
        assert said, "the run ended before it was interrupted"
    os.killpg(run.pid, signal.SIGINT)
    _, warned = run.communicate(timeout=120)

    assert (130, False) == (run.returncode, "Traceback" in warned), warned
    # Under spark-submit Java ends first, and what it has started tidies up behind it.
    assert not survivors(run.pid)
    assert (130, "interrupted") == (result(folder)["exit_code"], result(folder)["reason"])
    assert not (folder / "out/_staging").exists()


def survivors(group: int) -> list[str]:
    """Find processes of a group that are still there a while after its end."""
    for _ in range(50):
        left = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = path.read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[2]) == group and rest.split()[0] != "Z":
                left.append(name)
        if not left:
            break
        time.sleep(0.2)
    return left
