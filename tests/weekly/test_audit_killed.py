"""A run that is killed loses nothing: the store is as it was, or the next run completes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.run_result import ExitCode
from forensics.weekly.atomic_commit import StoreFiles
from forensics.weekly.store import lock_store
from tests.weekly.audit_processes import AuditProcesses, start_audit_processes
from tests.weekly.audits import Audits, archives_in, ignore_message
from tests.weekly.shifted_logs import read_store

pytestmark = pytest.mark.slow

KILLS = 20


def recovered(store: Path) -> dict[str, bytes]:
    """Give what the store says when the next run has opened it."""
    with lock_store(store, 0, ignore_message):
        StoreFiles(store).recover()
    return read_store(store)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return archives_in(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def processes() -> Iterator[AuditProcesses]:
    with start_audit_processes() as opened:
        yield opened


@pytest.fixture(scope="module")
def before(archives: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("before") / "store"
    Audits(store).run(archives["one"] / "broker-1")
    return store


@pytest.fixture
def store(before: Path, tmp_path: Path) -> Path:
    return shutil.copytree(before, tmp_path / "store")


def test_killed_at_any_moment(
    archives: dict[str, Path], before: Path, store: Path, processes: AuditProcesses
) -> None:
    # One log of a week that is there, and one of a new week: little work, of every kind.
    new = [archives["one"] / "app-mail", archives["three"] / "app-invoice1"]
    begun = time.monotonic()
    assert 4 == processes.join(processes.start(store, *new)), "clients alone tell of no leader"
    lasted = time.monotonic() - begun
    old, whole = read_store(before), read_store(store)
    assert old != whole

    moments = random.Random(8)
    recoveries, killed = [], 0
    for number in range(KILLS):
        shutil.rmtree(store)
        shutil.copytree(before, store)
        process = processes.start(store, *new)
        # Everywhere in the run, and each at a place of its own.
        time.sleep((number + moments.random()) / KILLS * lasted)
        os.kill(process, signal.SIGKILL)
        if processes.join(process) == -signal.SIGKILL:
            killed += 1
        else:
            # It was done before: runs have become quicker than the first one was.
            lasted *= 0.8
        recoveries.append(recovered(store))

    assert all(one in (old, whole) for one in recoveries)
    assert killed >= KILLS // 2
    assert old in recoveries
    Audits(store).run(*new)
    assert whole == read_store(store)


@pytest.mark.parametrize("step", [0, 1, 20, 40])
def test_killed_while_files_take_their_places(
    step: int, archives: dict[str, Path], before: Path, store: Path, processes: AuditProcesses
) -> None:
    """One week comes and one is let go, so that files are moved and deleted."""
    whole = shutil.copytree(before, store.with_name("whole"))
    process = processes.start(store, archives["two"], keep_weeks=2, dies_at=step)
    assert -signal.SIGKILL == processes.join(process)
    assert (store / ".commit.json").is_file()

    Audits(whole).run(archives["two"], keep_weeks=2)
    assert read_store(before) != read_store(whole)
    assert read_store(whole) == recovered(store)


def test_of_two_at_once_the_second_waits(
    archives: dict[str, Path], store: Path, processes: AuditProcesses
) -> None:
    one_by_one = Audits(shutil.copytree(store, store.with_name("one by one")))
    both = [processes.start(store, archives[name], wait=600) for name in ("two", "three")]

    assert [0, 0] == [processes.join(one) for one in both]
    for name in ("two", "three"):
        one_by_one.run(archives[name])
    assert read_store(one_by_one.store) == read_store(store)


def test_who_does_not_wait_is_told_whose_the_store_is(
    archives: dict[str, Path], before: Path, store: Path
) -> None:
    ran = (store / "_RESULT.json").read_bytes()
    with lock_store(store, 0, ignore_message):
        result = Audits(store).run(archives["two"])

    assert ExitCode.STORE_LOCKED == result["exit_code"]
    assert f"Another run holds {store}: process {os.getpid()} on " in result["reason"]
    assert "--wait SECONDS" in result["reason"]
    assert read_store(before) == read_store(store)
    assert ran == (store / "_RESULT.json").read_bytes()
