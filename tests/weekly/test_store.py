"""One run holds a store; who comes second waits, or is told."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from forensics.lib.folder_lock import FolderHeldError
from forensics.weekly.store import lock_store


def hush(text: str) -> None:
    """Say nothing."""


def test_who_does_not_wait_is_refused_at_once(tmp_path: Path) -> None:
    with (
        lock_store(tmp_path, 0, hush),
        pytest.raises(FolderHeldError, match=r"process \d+ on .*, since 2\S+Z, for \d+ seconds?\."),
        lock_store(tmp_path, 0, hush),
    ):
        pass


def test_who_waits_gets_it_when_it_is_free(tmp_path: Path) -> None:
    said: list[str] = []
    taken = threading.Event()

    def hold() -> None:
        with lock_store(tmp_path, 0, hush):
            taken.set()
            time.sleep(0.5)

    other = threading.Thread(target=hold)
    other.start()
    taken.wait()
    with lock_store(tmp_path, 60, said.append):
        pass
    other.join()

    assert 1 == len(said)
    assert said[0].startswith(f"waiting    {tmp_path} is held by process ")


def test_who_lets_go_says_no_name_any_more(tmp_path: Path) -> None:
    with lock_store(tmp_path / "made", 0, hush):
        pass

    assert "" == (tmp_path / "made" / ".lock").read_text()
    with lock_store(tmp_path / "made", 0, hush):
        pass
