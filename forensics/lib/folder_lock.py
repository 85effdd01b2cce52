"""The lock of a folder that one run writes: a second one waits, or is told who has it.

The lock is the kernel's, so it ends with its process, however that ends; the file only names the
owner.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from forensics.errors import ForensicsError
from forensics.lib.text_format import quantity

LOCK_FILE = ".lock"


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
                    f"Another run holds {folder}: {describe_owner(owner)}. Try again when it is"
                    " done, or name another folder."
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


def wait_for_lock(  # noqa: PLR0913 - both kinds of store differ in all of it
    attempt: Callable[[], str | None], store: str, wait: float, say: Callable[[str], None],
    *, pause: float = 0.1, advice: str = "",
) -> None:  # fmt: skip
    """Try to lock until it succeeds; `attempt` returns what another owner wrote, or None."""
    until = time.monotonic() + wait
    is_first = True
    while (content := attempt()) is not None:
        owner = describe_owner(content)
        if time.monotonic() >= until:
            raise FolderHeldError(
                f"Another run holds {store}: {owner}. Try again when it is done, or let this one "
                f"wait with --wait SECONDS.{advice}"
            )
        if is_first:
            say(f"waiting    {store} is held by {owner}")
            is_first = False
        time.sleep(pause)
