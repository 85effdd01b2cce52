"""The lock of a weekly store: one run holds it, a second one waits or is told who has it."""

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

from forensics.errors import ForensicsError
from forensics.lib.text_format import quantity

LOCK_FILE = ".lock"


class StoreHeldError(ForensicsError):
    """Another run holds the store."""


@contextmanager
def lock_store(store: Path, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a store on a disk; wait so many seconds for another run to release it.

    The lock is the kernel's, so it ends with its process, however that ends; the file only names
    the owner.
    """
    store.mkdir(parents=True, exist_ok=True)
    with (store / LOCK_FILE).open("a+", encoding="utf-8") as file:

        def try_lock() -> str | None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                return file.read()
            return None

        wait_for_lock(try_lock, str(store), wait, say)
        file.truncate(0)
        file.write(json.dumps(lock_owner()))
        file.flush()
        try:
            yield
        finally:
            # The file stays: a waiting run has it open, and must not lock one that is gone.
            file.truncate(0)


def wait_for_lock(  # noqa: PLR0913 - both kinds of store differ in all of it
    try_lock: Callable[[], str | None], store: str, wait: float, say: Callable[[str], None],
    *, pause: float = 0.1, advice: str = "",
) -> None:  # fmt: skip
    """Try to lock until it succeeds; `try_lock` returns what another owner wrote, or None."""
    until = time.monotonic() + wait
    is_first = True
    while (content := try_lock()) is not None:
        owner = describe_owner(content)
        if time.monotonic() >= until:
            raise StoreHeldError(
                f"Another run holds {store}: {owner}. Try again when it is done, or let this one "
                f"wait with --wait SECONDS.{advice}"
            )
        if is_first:
            say(f"waiting    {store} is held by {owner}")
            is_first = False
        time.sleep(pause)


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
