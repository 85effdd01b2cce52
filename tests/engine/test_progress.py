"""What a person who waits is told: no more than is known, and nothing in between."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forensics import run_result
from forensics.engine.progress import Progress
from forensics.ingest.read_counters import ReadCounter, count_reads, total_bytes_read
from forensics.run_result import Stopwatch


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def reading(stream: io.StringIO, *marks: tuple[float, int]) -> str:
    """Let marks of seconds and megabytes come in, and give the line after the last of them."""
    clock = Clock()
    progress = Progress(stream, clock=clock)
    progress.begin_stage("scan")
    for seconds, done in marks:
        clock.now = 1000 + seconds
        progress.bytes_read(done * 1_000_000, 1_000_000_000)
    return progress.render_line()


def test_time_left_follows_from_what_was_read_in_the_last_seconds() -> None:
    line = reading(io.StringIO(), (0, 0), (10, 100), (20, 200))

    told = "scan 20 % 200.0 MB of 1.0 GB 10.0 MB/s about 1 min 20 s left to read 20 s"
    assert told == " ".join(line.split())


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param([(0, 0), (2, 100)], id="too early"),
        pytest.param([(0, 0), (10, 100), (18, 100)], id="stuck"),
        pytest.param([(0, 0), (10, 1000)], id="done"),
        pytest.param([(9, 100)], id="one mark"),
    ],
)
def test_nothing_is_promised_that_is_not_known(marks: list[tuple[float, int]]) -> None:
    assert "left" not in reading(io.StringIO(), *marks)


def test_other_stages_promise_nothing_at_all() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), clock=clock)
    progress.begin_stage("history")
    progress.tasks_done(3, 40)
    clock.now += 75

    assert "history    3 of 40 tasks  1 min 15 s" == progress.render_line()
    progress.end_stage()
    assert "" == progress.render_line()


def test_a_task_that_is_tried_again_takes_nothing_back() -> None:
    assert "200.0 MB of" in reading(io.StringIO(), (0, 0), (10, 200), (11, 20))


def test_a_terminal_gets_a_bar_and_whole_lines_between() -> None:
    stream = Terminal()
    progress = Progress(stream)
    with progress.open():
        progress.begin_stage("scan")
        progress.bytes_read(500, 1000)
        time.sleep(0.5)
        progress.notify("warning: cut.gz: cut off")
        time.sleep(0.3)

    text = stream.getvalue()
    assert "\rscan       [############............]   50 %  500 B of 1.0 kB" in text
    # The bar is wiped before a sentence, and at the end.
    before, _, _ = text.partition("warning: cut.gz: cut off\n")
    assert before.endswith(" \r")
    assert text.endswith(" \r")


def test_elsewhere_a_line_comes_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forensics.engine.progress._LINE_SECONDS", 0.2)
    stream = io.StringIO()
    progress = Progress(stream)
    with progress.open():
        progress.begin_stage("scan")
        progress.bytes_read(500, 1000)
        time.sleep(0.5)

    lines = stream.getvalue().splitlines()
    assert lines
    assert {"scan        50 %  500 B of 1.0 kB  0 s so far"} == set(lines)


def test_stages_are_told_only_to_those_who_ask() -> None:
    told = {}
    for verbose in (False, True):
        stream = io.StringIO()
        with Progress(stream, verbose=verbose).open() as progress:
            progress.notify("events     12")
            progress.notify("warning: cut.gz: cut off")
        told[verbose] = stream.getvalue().splitlines()

    assert told[False] == ["warning: cut.gz: cut off"]
    assert told[True] == ["events     12", "warning: cut.gz: cut off"]


def test_who_wants_quiet_hears_only_warnings() -> None:
    stream = Terminal()
    progress = Progress(stream, quiet=True, verbose=True)
    with progress.open():
        progress.begin_stage("scan")
        time.sleep(0.3)
        progress.notify("events     12")
        progress.notify("warning: cut.gz: cut off")

    assert "warning: cut.gz: cut off\n" == stream.getvalue()


def test_the_bar_goes_away_when_a_run_breaks() -> None:
    def broken(progress: Progress) -> None:
        with progress.open():
            progress.begin_stage("scan")
            time.sleep(0.3)
            raise KeyboardInterrupt

    stream = Terminal()
    with pytest.raises(KeyboardInterrupt):
        broken(Progress(stream))

    assert stream.getvalue().endswith(" \r")


def test_what_tasks_read_is_added_up(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(b"x" * 1000)
    folder = tmp_path / "meter"
    folder.mkdir()
    one, other = ReadCounter(str(folder), 0), ReadCounter(str(folder), 1)
    with file.open("rb") as opened:
        source = count_reads(opened, one)
        source.seek(200)
        assert 300 == len(source.read(300))
    assert 300 == total_bytes_read(folder)
    # A piece that is done counts as what it is, also where a part of it was read twice.
    one.finish(1000)
    other.finish(24)
    other.finish(1)

    assert 1025 == total_bytes_read(folder)


def test_what_a_split_reads_around_itself_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(b"x" * 1000)
    (tmp_path / "meter").mkdir()
    counter = ReadCounter(str(tmp_path / "meter"), 0)
    counter.begin(400)
    with file.open("rb") as opened:
        assert 900 == len(count_reads(opened, counter).read(900))

    assert 400 == total_bytes_read(tmp_path / "meter")


def test_without_a_shared_folder_nothing_is_written(tmp_path: Path) -> None:
    ReadCounter(str(tmp_path / "elsewhere"), 0).finish(10)

    assert [] == list(tmp_path.iterdir())
    assert 0 == total_bytes_read(tmp_path / "elsewhere")


CHILD = """
import os, time
from forensics import run_result
run_result._SAMPLE_SECONDS = 0.05
peak = run_result.PeakMemory()
before = peak.bytes
peak.start()
ready, write = os.pipe()
if os.fork() == 0:
    held = bytearray(os.urandom(1 << 20) * 200)
    os.write(write, b"1")
    time.sleep(0.6)
    os._exit(len(held) & 0)
os.read(ready, 1)
time.sleep(0.5)
os.wait()
peak.stop()
print(peak.bytes - before)
"""


def test_the_memory_of_children_counts() -> None:
    """A child that holds 200 MB more is seen, though it has not ended."""
    # A shell between them: a process that is started by a large one begins with its peak.
    command = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, CHILD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert int(done.stdout) > 100 << 20


def test_the_summary_tells_the_figures_of_the_result() -> None:
    result = {
        "archive": {"files": 24, "bytes": 1_500_000, "lines": 2000, "events": 300},
        "lines": {"records": 1500, "continuation_lines": 400, "unparsed_lines": 100},
        "damaged": 1,
        "findings": {"critical": 1, "high": 0, "info": 2},
        "suppressed": 3,
        "detectors": {"fired": 2, "quiet": 30},
        "coverage": {"nodes": 3, "holes": {"missing": 1, "silent": 2}},
        "slowest": {"flapping-broker": 1.25, "stale-metadata": 0.5},
        "peak_memory_mb": 1234,
        "seconds": {"scan": 61.5, "history": 10.0},
    }
    told = dict(line.split(maxsplit=1) for line in run_result.format_summary(result))

    assert told == {
        "read": "24 files, 1.5 MB, 1 of them damaged",
        "lines": "2,000: 1,500 records, 400 continued, 0 blank, 100 unparsed, 0 duplicate",
        "events": "300",
        "findings": "1 critical, 2 info, 3 suppressed",
        "detectors": "2 fired, 30 quiet",
        "coverage": "logs of 3 nodes; holes: 1 nodes or logs missing, 2 silences",
        "slowest": "flapping-broker 1.2 s, stale-metadata 0.5 s",
        "memory": "1,234 MB at most",
        "time": "1 min 11 s: scan 61.5 s, history 10.0 s",
    }


def test_a_watch_tells_its_stages_to_who_watches() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    with Stopwatch(progress) as watch, watch.stage("scan"):
        assert progress.render_line().startswith("scan")
    told = watch.figures()

    assert "" == progress.render_line()
    assert told["started"] <= told["ended"]
    assert told["peak_memory_mb"] > 1
