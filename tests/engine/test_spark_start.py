"""Ctrl-C while Spark starts is an interrupt, whatever fails by it; lost files are named."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.engine import spark
from forensics.engine.local import LocalEngine
from forensics.engine.progress import ProgressListener
from forensics.engine.spark import (
    SparkEngine,
    _ask_aside,
    _interruptible,
    _refuse_nameless_user,
)
from forensics.engine.task_files import _missing_file
from forensics.errors import ForensicsError
from forensics.lib import this_machine
from forensics.lib.second_process import ALONE


def test_a_user_without_a_name_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs by a number: Hadoop's login fails by a null pointer."""
    _refuse_nameless_user()
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)

    with pytest.raises(ForensicsError, match=r"3999999999 has none here.*--engine local"):
        _refuse_nameless_user()


def test_an_interrupt_that_java_turns_into_another_error_stays_one() -> None:
    def fail_as_py4j_does() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(5)
        except KeyboardInterrupt:
            message = "Answer from Java side is empty"
            raise ConnectionError(message) from None

    with pytest.raises(KeyboardInterrupt), _interruptible():
        fail_as_py4j_does()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_spark_does_not_warn_of_the_java_that_an_interrupt_has_ended() -> None:
    def stop_as_spark_does() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(5)
        except KeyboardInterrupt:
            words = "Unable to cleanly shutdown Spark JVM process."
            warnings.warn(words, RuntimeWarning, stacklevel=2)
            raise

    with (
        warnings.catch_warnings(record=True) as said,
        pytest.raises(KeyboardInterrupt),
        _interruptible(),
    ):
        stop_as_spark_does()

    assert said == []


def test_a_java_that_nobody_is_connected_to_ends_with_the_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would stay, and hold the pipe that its output goes to."""
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    other = subprocess.Popen(["sleep", "60"])
    started: list[subprocess.Popen[bytes]] = []

    def start_and_wait() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(5)

    with pytest.raises(KeyboardInterrupt), _interruptible():
        start_and_wait()

    assert started[0].wait(5) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()


def test_what_java_does_not_answer_ends_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse() -> None:
        message = "Answer from Java side is empty"
        raise ConnectionError(message)

    monkeypatch.setattr("forensics.engine.spark._PATIENCE_SECONDS", 0.1)
    _ask_aside(refuse, lambda: asked.append(threading.get_ident()))
    _ask_aside(threading.Event().wait)

    assert asked
    assert asked[0] != threading.get_ident()


def test_no_thread_of_spark_is_waited_for_that_never_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where memory is over, one may end before it begins."""
    monkeypatch.setattr(this_machine, "start_new_thread", lambda *_: 1)
    monkeypatch.setattr("forensics.engine.spark._PATIENCE_SECONDS", 0.1)
    context = SimpleNamespace(statusTracker=object)

    _ask_aside(int)
    spark._StageProgressPoller(context, ProgressListener()).stop()  # type: ignore[arg-type]


def test_an_error_without_an_interrupt_stays_what_it_is() -> None:
    with pytest.raises(ConnectionError), _interruptible():
        raise ConnectionError


def test_a_file_that_has_gone_is_not_the_fault_of_a_cluster() -> None:
    here = _missing_file("/var/log/kafka/a\x1b.log", is_local=True)

    assert here.startswith("/var/log/kafka/a<U+001B>.log has gone since the run began")
    assert "executors" not in here
    assert "driver and all executors see" in _missing_file("/a.log", is_local=False)


def test_a_java_that_has_ended_is_not_warned_of_as_spark_does() -> None:
    engine = SparkEngine.__new__(SparkEngine)
    engine._poller = SimpleNamespace(stop=int)  # type: ignore[assignment]
    engine.is_interrupted = False
    words = "Unable to cleanly shutdown Spark JVM process."
    engine.context = SimpleNamespace(  # type: ignore[assignment]
        stop=lambda: warnings.warn(words, RuntimeWarning, stacklevel=2)
    )

    with warnings.catch_warnings(record=True) as said:
        engine.stop()

    assert said == []


@pytest.mark.parametrize(
    ("master", "few", "here"), [("local[2]", 5, True), ("local[2]", 4, False), ("yarn", 5, False)]
)
def test_small_tables_are_worked_on_here_unless_there_is_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, few: int, here: bool
) -> None:
    pq.write_table(pa.table({"kind": ["a"] * 5}), tmp_path / "part-0.parquet")
    monkeypatch.setattr("forensics.engine.spark._FEW_ROWS", few)
    engine = SparkEngine.__new__(SparkEngine)
    engine.context = SimpleNamespace(master=master)  # type: ignore[assignment]
    engine._second = ALONE

    found = engine.for_table(tmp_path)

    assert isinstance(found, LocalEngine) if here else found is engine
