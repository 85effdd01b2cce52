"""Ctrl-C and SIGTERM at any moment: one sentence, and nothing that is left behind.

By hand, for as many moments as there is time for: `python -m tests.spark.test_interrupts 50`, with
`--engine local` for runs without Spark, `--audit` for a store of weeks instead of a postmortem, and
`--objects` for one among objects. The moments are spread over the seconds of processors that a
whole run takes, which are measured first: on a busy machine they come at the same places of a run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ingest.object_store import serving

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "sample_logs/430-unclean/logs"
# A loaded machine takes long to end a Java.
PATIENCE = 90
# What the folder of a store has of its first run on.
_STORE = {"store.json", "weeks", "index.html", "latest.html", "events", "inputs"}
_TICKS = os.sysconf("SC_CLK_TCK")
# What is run; the option at the end says where to.
ENGINES = {"local": ("--engine", "local"), "spark": ("--master", "local[2]")}
POSTMORTEM, AUDIT = ("postmortem", "-o"), ("audit", "--store")
LOCAL, SPARK = ((POSTMORTEM[0], *ENGINES[name], POSTMORTEM[1]) for name in ("local", "spark"))


@dataclass(frozen=True)
class Ended:
    """How a run ended that got a signal, and what it left."""

    code: int
    said: str
    processes: list[str]
    left: list[str]
    # what it had worked by the signal, in which stage, and how long it took to end
    worked: float
    stage: str
    seconds: float

    @property
    def faults(self) -> list[str]:
        """What is wrong with it; a run that was over before the signal came is right."""
        if self.code in (0, 4):
            return []
        found = [f"ended with {self.code}"] if self.code != 130 else []
        found += [f"said {self.said!r}"] if self.said.strip() != "interrupted" else []
        found += [f"left the process {one}" for one in self.processes]
        return found + [f"left {one}" for one in self.left]


def stop_after(
    out: Path, worked: float, number: int, words: tuple[str, ...], address: str | None = None
) -> Ended:
    """Start a run in a session of its own; signal it when it has worked so long, and wait.

    `words` are those of the command, but for where it writes to and what it reads. `worked` are
    seconds of processors, of all its processes. With an address, that is where the run writes to,
    and `out` the folder of the store in which that can be seen.
    """
    place = str(out) if address is None else address
    command = [sys.executable, "-m", "forensics", *words, place, str(LOGS), "-q"]
    scratch = out.with_name("scratch")
    scratch.mkdir()
    own = {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    child = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | own, text=True,
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # A shell lets what it starts in the background ignore Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    done = 0.0
    try:
        while child.poll() is None and done < worked:
            done = max(done, sum(seconds for _, _, seconds in _session(child.pid)))
            time.sleep(0.01)
        begun = time.monotonic()
        if child.poll() is None:
            # A terminal sends Ctrl-C to all of a group, and who stops a service to its first.
            if number == signal.SIGINT:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
        said = child.communicate(timeout=PATIENCE)[1]
        took, deadline = time.monotonic() - begun, time.monotonic() + PATIENCE
        while (processes := [name for _, name, _ in _session(child.pid)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.2)
    finally:
        for pid, _, _ in _session(child.pid):
            os.kill(pid, signal.SIGKILL)
    look = _half_a_store if words[0] == AUDIT[0] else _half_written
    left = [*look(out, child.returncode), *(path.name for path in scratch.iterdir())]
    return Ended(
        child.returncode,
        said,
        processes,
        left,
        round(done, 1),
        _stage_of(out),
        round(took, 1),
    )


def _stage_of(out: Path) -> str:
    """Return the last stage that a result tells of; there is none while a run starts."""
    result = out / "_RESULT.json"
    told = json.loads(result.read_text("utf-8"))["seconds"] if result.is_file() else {}
    return next(reversed(told), "before the plan")


def _half_written(out: Path, code: int) -> Iterator[str]:
    """Name what is in an output folder and not whole, or not what the exit code says."""
    names = _names(out)
    yield from (name for name in names if name.startswith(".") or name == "_staging")
    yield from _wrong_result(out, code)
    if names and "_RESULT.json" not in names:
        yield "no result"
    if "findings.json" in names:
        json.loads((out / "findings.json").read_text("utf-8"))
    elif "tables" in names:
        yield "tables without findings"
    if "report.html" in names and not (out / "report.html").read_text("utf-8").endswith(
        "</html>\n"
    ):
        yield "half a page"


def _half_a_store(out: Path, code: int) -> Iterator[str]:
    """Name what is in a store of weeks that is neither empty nor whole."""
    names = _names(out)
    yield from (name for name in names if name.startswith("."))
    yield from _wrong_result(out, code)
    found = {path.relative_to(out).parts[0] for path in out.rglob("*.*") if path.is_file()}
    if found & _STORE and not found >= _STORE:
        yield f"of a store only {', '.join(sorted(found & _STORE))}"


def _wrong_result(out: Path, code: int) -> Iterator[str]:
    result = out / "_RESULT.json"
    if result.is_file() and (told := json.loads(result.read_text("utf-8"))["exit_code"]) != code:
        yield f"a result that says {told}"


def _names(out: Path) -> set[str]:
    """Name what is in a folder, but for a lock or journal that is empty: it holds nothing."""
    found = out.iterdir() if out.is_dir() else ()
    return {path.name for path in found if not (
        path.name.startswith((".lock", ".commit.tar")) and not path.stat().st_size)}  # fmt: skip


def _session(leader: int) -> Iterator[tuple[int, str, float]]:
    """Yield the processes of a session, their names, and the seconds that each has worked."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text("utf-8", "replace").rpartition(") ")
        except OSError:
            continue
        fields = rest.split()
        if int(fields[3]) == leader and fields[0] != "Z":
            # its own, and those of the processes that it has seen end
            ticks = sum(map(int, fields[11:15]))
            yield int(path.parent.name), name.partition("(")[2], ticks / _TICKS


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("worked", [1.5, 3])
def test_a_run_in_this_process_ends_at_once(tmp_path: Path, worked: float, number: int) -> None:
    assert stop_after(tmp_path / "out", worked, number, LOCAL).faults == []


@pytest.mark.slow
@pytest.mark.parametrize("worked", [1.5, 3])
def test_a_run_that_writes_to_a_store_leaves_nothing_there(tmp_path: Path, worked: float) -> None:
    with serving(tmp_path) as bucket:
        ended = stop_after(
            bucket.folder / "out", worked, signal.SIGTERM, LOCAL, bucket.address("out")
        )

    assert ended.faults == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("worked", "number"), [(3, signal.SIGTERM), (8, signal.SIGINT), (12, signal.SIGTERM)]
)
def test_a_run_on_spark_leaves_nothing(tmp_path: Path, worked: float, number: int) -> None:
    assert stop_after(tmp_path / "out", worked, number, SPARK).faults == []


def main() -> int:
    """Stop runs at random moments, and print how each ended; returns 1 if one left something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int)
    parser.add_argument("--engine", choices=["local", "spark"], default="spark")
    parser.add_argument("--audit", action="store_true", help="audit into a store of weeks")
    parser.add_argument("--objects", action="store_true", help="write to a store of objects")
    parser.add_argument("--begin", type=float, default=0, help="not before this share of a run")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    command, option = AUDIT if given.audit else POSTMORTEM
    words = (command, *ENGINES[given.engine], option)
    drawn, failed, over = random.Random(given.seed), 0, 0
    whole = _stop_once(1000, signal.SIGINT, words, is_store=given.objects)
    print(f"A whole run takes {whole.worked} s: {whole.faults or 'nothing left'}", flush=True)
    print(
        "| | signal | after | in | what was left | ended in |\n" + "| --- " * 6 + "|",
        flush=True,
    )
    for run in range(given.runs):
        worked = whole.worked * drawn.uniform(given.begin, 1)
        number = (signal.SIGINT, signal.SIGTERM)[run % 2]
        ended = _stop_once(worked, number, words, is_store=given.objects)
        failed += bool(ended.faults)
        over += ended.code != 130
        told = "; ".join(ended.faults) or ("it was over" if ended.code != 130 else "nothing")
        name, stage = signal.Signals(number).name, "" if ended.code != 130 else ended.stage
        cells = [f"{run + 1}", name, f"{ended.worked} s", stage, told, f"{ended.seconds} s"]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"{failed} of {given.runs} left something, {over} were not stopped")
    return int(failed > 0)


def _stop_once(worked: float, number: int, words: tuple[str, ...], *, is_store: bool) -> Ended:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not is_store:
            return stop_after(folder / "out", worked, number, words)
        bucket = stack.enter_context(serving(folder))
        return stop_after(bucket.folder / "out", worked, number, words, bucket.address("out"))


if __name__ == "__main__":
    sys.exit(main())
