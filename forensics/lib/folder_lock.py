"""The lock of a folder that one run writes: a second one waits, or is told who has it.

On a disk the lock is the kernel's, so it ends with its process, however that ends; the file only
names the owner. Stores of objects have no locks: there a run puts an object of its own into the
folder, and holds that when no other run's object is listed beside its own. Of two runs that list,
at least the one that has put later sees the other, so two never hold it at once.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import IO

from forensics.errors import ForensicsError
from forensics.lib.storage import ObjectStore, display
from forensics.lib.text_format import quantity
from forensics.lib.this_machine import start_thread

LOCK_FILE = ".lock"
_LOCK_OBJECT = ".lock-"
# A run renews its object. One that was not renewed for so long is of a run that was killed.
_RENEWAL_SECONDS, _EXPIRY_SECONDS = 30.0, 300.0
# Objects that hold nothing are removed later: with the last one some stores remove the folder.
_KEPT_SECONDS = 24 * 3600.0
# Of runs that come at once all but the first step back, which takes them a few requests.
_YIELD_SECONDS, _LOOK_SECONDS = 5.0, 0.2


class FolderHeldError(ForensicsError):
    """Another run holds a folder."""


@contextmanager
def lock_output(folder: Path) -> Iterator[None]:
    """Hold the folder that a run writes into, and leave no trace of it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    while True:
        with path.open("a+", encoding="utf-8") as file:
            owner = try_lock(file)
            if owner is not None:
                raise FolderHeldError(
                    f"Another run holds {folder}: {describe_owner(owner)}. {_ELSEWHERE}"
                )
            if not _is_at(path, file):
                # Its last owner has just deleted it; whoever comes next locks another file.
                continue
            name_owner(file)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def find_owner(folder: Path) -> str | None:
    """Describe the process that is writing a folder; None if nobody is."""
    with suppress(OSError), (folder / LOCK_FILE).open("r", encoding="utf-8") as file:
        owner = try_lock(file)
        return None if owner is None else describe_owner(owner)
    return None


def try_lock(file: IO[str]) -> str | None:
    """Lock a file; return what another owner wrote into it if it is taken, else None."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            file.seek(0)
            return file.read()
        # Not every shared file system has locks; there, nobody is kept out.
    return None


def name_owner(file: IO[str]) -> None:
    """Write into a locked file who holds it."""
    file.truncate(0)
    file.write(json.dumps(lock_owner()))
    file.flush()


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def lock_owner() -> dict[str, object]:
    """Return what a lock says about this process."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def describe_owner(content: str) -> str:
    """Describe the process that wrote a lock, and how long ago it did."""
    try:
        owner = json.loads(content)
        since = datetime.fromisoformat(owner["since"])
        age = max(0, int((datetime.now(UTC) - since).total_seconds()))
        host, pid = owner["host"], owner["pid"]
    except (ValueError, KeyError, TypeError):
        # The lock was taken this very moment.
        return "a process that has not yet said its name"
    return f"process {pid} on {host}, since {since:%Y-%m-%dT%H:%M:%SZ}, for {_duration(age)}"


def _duration(seconds: int) -> str:
    for size, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return quantity(seconds // size, word)
    return quantity(seconds, "second")


_ELSEWHERE = "Try again when it is done, or name another folder."
_LATER = "Try again when it is done, or let this one wait with --wait SECONDS."


def wait_for_lock(  # noqa: PLR0913 - both kinds of folder differ in all of it
    attempt: Callable[[], str | None], place: str, wait: float, say: Callable[[str], None],
    *, pause: float = 0.1, advice: str = _LATER,
) -> None:  # fmt: skip
    """Try to lock until it succeeds; `attempt` returns what another owner wrote, or None."""
    until = time.monotonic() + wait
    is_first = True
    while (content := attempt()) is not None:
        owner = describe_owner(content)
        if time.monotonic() >= until:
            raise FolderHeldError(f"Another run holds {place}: {owner}. {advice}")
        if is_first:
            say(f"waiting    {place} is held by {owner}")
            is_first = False
        time.sleep(pause)


@contextmanager
def lock_address(
    address: str, wait: float | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[RemoteLock]:
    """Hold a folder in a store; wait so many seconds for another run, or not at all."""
    lock, place = RemoteLock(address), display(address).rstrip("/")
    advice = _ELSEWHERE if wait is None else _LATER
    held = quantity(int(_EXPIRY_SECONDS) // 60, "minute")
    advice += f" If it was killed, nobody holds that any more {held} later."
    try:
        wait_for_lock(lock.attempt, place, wait or 0.0, say, pause=1.0, advice=advice)
        start_thread(lock.renew)
        yield lock
    finally:
        lock.release()


class RemoteLock:
    """The object by which a run holds a folder in a store; empty, it holds nothing.

    Times are those of the store, so clocks of machines decide nothing. A store that tells none
    keeps the object of a run that was killed until somebody removes it.
    """

    def __init__(self, address: str) -> None:
        """Name the object; who came first has the smaller name."""
        self._place, self._objects = address, ObjectStore(address)
        self._name = f"{_LOCK_OBJECT}{time.time_ns():020}-{secrets.token_hex(4)}"
        self._owner = json.dumps(lock_owner()).encode()
        self._putting, self._over = Lock(), Event()

    def attempt(self) -> str | None:
        """Put the object; empty it and return what another run wrote, if one holds the folder."""
        self._put(self._owner)
        until = time.monotonic() + _YIELD_SECONDS
        while others := self._list_others():
            if others[0] < self._name or time.monotonic() >= until:
                self._put(b"")
                with suppress(FileNotFoundError):
                    return self._objects.read(others[0]).decode("utf-8", "replace")
                return ""
            time.sleep(_LOOK_SECONDS)
        return None

    def _list_others(self) -> list[str]:
        """List the objects of other runs that live; those of dead runs hold nothing any more."""
        while True:
            states = self._objects.states(is_deep=False)
            size, now = states.pop(self._name, (0, 0))
            held, old = [], []
            for name, (there, renewed) in states.items():
                if not name.startswith(_LOCK_OBJECT):
                    continue
                if there:
                    now = now or self._objects.written(self._name)
                    renewed = renewed or self._objects.written(name)  # noqa: PLW2901
                age = (now - renewed) / 1e9 if now and renewed else 0.0
                if not there and age < _KEPT_SECONDS:
                    continue
                if there and age > _EXPIRY_SECONDS:
                    self._objects.put(name, io.BytesIO())
                elif there:
                    held.append(name)
                else:
                    old.append(name)
            for name in old:
                self._objects.remove(name)
            if size and not old:
                return sorted(held)
            self.show()

    def show(self) -> None:
        """Put the object again: some stores lose sight of a folder when something is removed."""
        self._put(self._owner)

    def _put(self, content: bytes) -> None:
        self._objects.put(self._name, io.BytesIO(content))

    def renew(self) -> None:
        """Say every now and then that this run lives, until it lets go."""
        while not self._over.wait(_RENEWAL_SECONDS):
            # A store that does not answer may do so the next time.
            with suppress(OSError, FolderHeldError), self._putting:
                if not self._over.is_set():
                    self.confirm()
                    self._put(self._owner)

    def confirm(self) -> None:
        """Raise an error if another run may have taken this one for dead: it wrote there since."""
        if not self._objects.size(self._name):
            self._over.set()
            raise FolderHeldError(
                f"This run has not been able to tell {display(self._place).rstrip('/')} that it"
                " lives, and another one may have written there meanwhile. Nothing was written"
                " there by this one; try again."
            )

    def release(self) -> None:
        """Let go, whatever has happened to the store; a run on another day removes the object."""
        self._over.set()
        with suppress(OSError), self._putting:
            self._put(b"")
