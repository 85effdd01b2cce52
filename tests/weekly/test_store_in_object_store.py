"""A store among objects is changed as a whole or not at all, by one run at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from forensics.lib.folder_lock import FolderHeldError
from forensics.lib.storage import ObjectStore
from forensics.weekly.store import open_remote_store
from tests.ingest.object_store import Bucket, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with serving(tmp_path_factory.mktemp("store")) as found:
        yield found


def quiet(_: str) -> None:
    """Say nothing."""


def content(address: str) -> dict[str, bytes]:
    store = ObjectStore(address)
    return {name: store.read(name) for name in store.names() if not name.startswith(".")}


def save(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def changed(address: str, *, fails: bool = False) -> None:
    """Run as one that writes a file anew, brings one and takes one away."""
    with open_remote_store(address, 0, quiet) as folder:
        save(folder, head="2", new="y")
        (folder / "old").unlink(missing_ok=True)
        if fails:
            raise ZeroDivisionError


def test_what_a_run_changes_is_there_for_the_next_one(bucket: Bucket) -> None:
    address = bucket.address("kept")
    with open_remote_store(address, 0, quiet) as folder:
        assert [] == list(folder.iterdir())
        save(folder, head="1", weeks__one="a", old="b")
    with open_remote_store(address, 0, quiet) as folder:
        assert "b" == (folder / "old").read_text()
        (folder / "old").unlink()
        save(folder, head="2")

    assert {"head": b"2", "weeks/one": b"a"} == content(address)


def test_a_run_that_fails_changes_nothing(bucket: Bucket) -> None:
    address = bucket.address("failing")
    with open_remote_store(address, 0, quiet) as folder:
        save(folder, head="1")
    with pytest.raises(ZeroDivisionError):
        changed(address, fails=True)

    assert {"head": b"1"} == content(address)


@pytest.mark.parametrize("done", range(4))
def test_a_run_that_dies_while_it_puts_things_back_is_brought_to_its_end(
    bucket: Bucket, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal, then two files, then the end: it dies after so many of them."""
    address = bucket.address(f"dying-{done}")
    with open_remote_store(address, 0, quiet) as folder:
        save(folder, head="1", old="x")
    dying(monkeypatch, done)
    with pytest.raises(MemoryError):
        changed(address)
    monkeypatch.undo()
    with open_remote_store(address, 0, quiet):
        pass

    before, after = {"head": b"1", "old": b"x"}, {"head": b"2", "new": b"y"}
    assert (after if done else before) == content(address)


def test_a_run_that_is_interrupted_while_it_puts_things_back_ends_with_all_of_them(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = bucket.address("interrupted")
    with open_remote_store(address, 0, quiet) as folder:
        save(folder, head="1", old="x")
    dying(monkeypatch, 2, KeyboardInterrupt, times=1)
    with pytest.raises(KeyboardInterrupt):
        changed(address)

    assert {"head": b"2", "new": b"y"} == content(address)
    assert 0 == ObjectStore(address).size(".commit.tar")


def dying(
    monkeypatch: pytest.MonkeyPatch, done: int, error: type[BaseException] = MemoryError,
    times: int = 1000,
) -> None:  # fmt: skip
    """Let a store take so many files more, the lock not counted, and then refuse some."""
    left = [done]
    plain = ObjectStore.put

    def put(self: ObjectStore, name: str, content: IO[bytes]) -> None:
        if not name.startswith(".lock"):
            left[0] -= 1
            if -times <= left[0] < 0:
                raise error
        plain(self, name, content)

    monkeypatch.setattr(ObjectStore, "put", put)


def test_a_second_run_is_told_who_holds_the_store(bucket: Bucket) -> None:
    address = bucket.address("held")
    with (
        open_remote_store(address, 0, quiet),
        pytest.raises(FolderHeldError, match=rf"s3://.*/held: process {os.getpid()} on"),
        open_remote_store(address, 0, quiet),
    ):
        pass
    with open_remote_store(address, 0, quiet):
        pass
