"""Holds a store for one run at a time: a second one waits, or is told who has it and since when.

The lock is the kernel's, so it ends with its process, however that ends; the file says whose it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from forensics.errors import ForensicsError

__all__ = ["StoreHeldError", "held", "owner", "told_of"]

_NAME = ".lock"
_PAUSE = 0.1


class StoreHeldError(ForensicsError):
    """Another run holds the store."""


@contextmanager
def held(store: Path, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a store; for so many seconds wait until another run has let it go."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / _NAME).open("a+", encoding="utf-8") as lock:
        _take(lock, store, wait, say)
        lock.truncate(0)
        lock.write(json.dumps(owner()))
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
            other = told_of(lock.read())
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


def owner() -> dict[str, object]:
    """Say who this process is."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def told_of(lock: str) -> str:
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
            many = seconds // size
            return f"{many} {word}{'' if many == 1 else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"
