"""Keeps the files of a store: what is new is drafted beside the old, then takes its place at once.

A draft lies in `.new`. When it is whole, a journal says which files move and which go, and is then
followed; a run that was killed on the way left either a draft that is thrown away, or a journal
that the next run follows to its end. Following it twice does no more than following it once.

Holds a store for one run at a time: a second one waits, or is told who has it and since when.

The lock is the kernel's, so it ends with its process, however that ends; the file says whose it is.
"""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from forensics.errors import ForensicsError
from forensics.lib.formatting import quantity

_NAME = ".lock"
_PAUSE = 0.1


class StoreHeldError(ForensicsError):
    """Another run holds the store."""


@contextmanager
def lock_store(store: Path, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a store; for so many seconds wait until another run has let it go."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / _NAME).open("a+", encoding="utf-8") as lock:
        _take(lock, store, wait, say)
        lock.truncate(0)
        lock.write(json.dumps(lock_owner()))
        lock.flush()
        try:
            yield
        finally:
            # The file stays: who waits has it open, and must not wait for one that is gone.
            lock.truncate(0)


def _take(lock: IO[str], store: Path, wait: float, say: Callable[[str], None]) -> None:
    until = time.monotonic() + wait
    told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            other = describe_owner(lock.read())
            if time.monotonic() >= until:
                raise StoreHeldError(
                    f"Another run holds {store}: {other}. Try again when it is done, or let this "
                    "one wait with --wait SECONDS."
                ) from None
        else:
            return
        if not told:
            say(f"waiting    {store} is held by {other}")
            told = True
        time.sleep(_PAUSE)


def lock_owner() -> dict[str, object]:
    """Say who this process is."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def describe_owner(lock: str) -> str:
    """Say who has written a lock, and how long ago."""
    try:
        said = json.loads(lock)
        since = datetime.fromisoformat(said["since"])
        age = max(0, int((datetime.now(UTC) - since).total_seconds()))
        host, pid = said["host"], said["pid"]
    except (ValueError, KeyError, TypeError):
        # It was taken this very moment.
        return "a process that has not yet said its name"
    return f"process {pid} on {host}, since {since:%Y-%m-%dT%H:%M:%SZ}, for {_span(age)}"


def _span(seconds: int) -> str:
    for size, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return quantity(seconds // size, word)
    return quantity(seconds, "second")


STORE_FILE = "store.json"
# The user's own, never written here.
NOTES = "notes.yaml"
_NEW = ".new"
_SCRATCH = ".scratch"
_JOURNAL = ".commit.json"


class StoreFiles:
    """The files of one store by their names, such as `weeks/2026-W46/week.json`; in a folder.

    Everything that touches the store's files goes through here and through a draft.
    """

    def __init__(self, root: Path) -> None:
        """Take the folder; it is made when something is first put there."""
        self.root = root

    def refuse_other_folders(self) -> None:
        """Refuse a folder that holds something else: nothing may be changed there."""
        begun = (self.root / STORE_FILE).is_file() or (self.root / _JOURNAL).is_file()
        if not begun and (found := self._strangers()):
            raise ForensicsError(
                f"{self.root} is no store: it has no {STORE_FILE}, but holds {found[0]}. Give the "
                "folder of an earlier audit, or an empty or new one."
            )

    def recover(self) -> None:
        """Bring to an end what a killed run began; who calls this must hold the store."""
        if (self.root / _JOURNAL).is_file():
            self._follow()
        self._sweep()

    def find(self, name: str) -> Path | None:
        """Give a file to read, if it is there."""
        path = self.root / name
        return path if path.is_file() else None

    def names(self, below: str = "") -> list[str]:
        """Name all files of a folder of the store, and of those in it."""
        return sorted(_files(self.root, below))

    def begin(self) -> Transaction:
        """Begin to write what shall take the place of what there is."""
        self._sweep()
        return Transaction(self)

    def roll_back(self) -> None:
        """Throw away what was drafted, unless it is already on its way to its place."""
        if not (self.root / _JOURNAL).is_file():
            self._sweep()

    def commit(self, names: Iterable[str], deleted: Iterable[str]) -> None:
        """Let drafted files take their places and others go: all of it or, if killed, later."""
        for name in names:
            _settle(self.root / _NEW / name)
        told = json.dumps({"move": sorted(names), "delete": sorted(deleted)}, indent=1)
        half = self.root / f"{_JOURNAL}.half"
        half.write_text(told, encoding="utf-8")
        _settle(half)
        half.replace(self.root / _JOURNAL)
        self._follow()
        self._sweep()

    def _follow(self) -> None:
        told = json.loads((self.root / _JOURNAL).read_text(encoding="utf-8"))
        for name in told["move"]:
            drafted, place = self.root / _NEW / name, self.root / name
            # What is no longer drafted has been moved already.
            if drafted.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                drafted.replace(place)
        for name in told["delete"]:
            (self.root / name).unlink(missing_ok=True)
            self._prune((self.root / name).parent)
        (self.root / _JOURNAL).unlink()

    def _prune(self, folder: Path) -> None:
        """Take empty folders away."""
        while folder != self.root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent

    def _sweep(self) -> None:
        for name in (_NEW, _SCRATCH):
            shutil.rmtree(self.root / name, ignore_errors=True)
        (self.root / f"{_JOURNAL}.half").unlink(missing_ok=True)

    def _strangers(self) -> list[str]:
        there = sorted(path.name for path in self.root.iterdir()) if self.root.is_dir() else []
        return [name for name in there if not name.startswith((".", "_")) and name != NOTES]


class Transaction:
    """What shall be in the store: the files that are there, with the new ones over them."""

    def __init__(self, shelf: StoreFiles) -> None:
        """Begin with what is there."""
        self._shelf = shelf
        self._new = shelf.root / _NEW
        self._new.mkdir(parents=True, exist_ok=True)
        self._gone: set[str] = set()

    @property
    def new_files(self) -> Path:
        """The folder of all that is drafted."""
        return self._new

    @property
    def scratch(self) -> Path:
        """A folder for what is thrown away when the run is done."""
        return self._shelf.root / _SCRATCH

    def new_path(self, name: str) -> Path:
        """Give the path at which a new file is to be written."""
        path = self._new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> Path:
        """Write a small file."""
        path = self.new_path(name)
        path.write_text(text, encoding="utf-8", newline="\n")
        return path

    def find(self, name: str) -> Path | None:
        """Give a file to read, the new one if there is one."""
        path = self._new / name
        if path.is_file():
            return path
        return None if name in self._gone else self._shelf.find(name)

    def names(self, below: str = "") -> list[str]:
        """Name all files of a folder, new and old."""
        return sorted({*self._shelf.names(below)} - self._gone | {*_files(self._new, below)})

    def delete(self, name: str) -> None:
        """Let a file go."""
        (self._new / name).unlink(missing_ok=True)
        self._gone.add(name)

    def replace_folder(self, folder: str) -> Path:
        """Write a whole folder anew: what is not written again goes."""
        for name in self.names(folder):
            self.delete(name)
        path = self._new / folder
        path.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self) -> None:
        """Put everything in its place; files that are as they were are left alone."""
        drafted = set(_files(self._new, ""))
        gone = {name for name in self._gone - drafted if self._shelf.find(name)}
        changed = [name for name in drafted if self._changes(name)]
        self._shelf.commit(changed, gone)
        self._gone.clear()

    def _changes(self, name: str) -> bool:
        old = self._shelf.find(name)
        return old is None or not filecmp.cmp(old, self._new / name, shallow=False)


def _files(root: Path, below: str) -> Iterator[str]:
    """Name the files below a folder; hidden ones and those of a single run are no part of it."""
    for folder, folders, names in os.walk(root / below):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith((".", "_")):
                yield Path(folder, name).relative_to(root).as_posix()


def _settle(path: Path) -> None:
    """Have a file on the disk before anything relies on it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
