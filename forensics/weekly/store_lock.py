"""The lock of a weekly store: one run holds it, a second one waits or is told who has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forensics.lib.folder_lock import LOCK_FILE, name_owner, try_lock, wait_for_lock
from forensics.lib.folder_lock import (
    FolderHeldError as StoreHeldError,
)

__all__ = ["LOCK_FILE", "StoreHeldError", "lock_store"]


@contextmanager
def lock_store(store: Path, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a store on a disk; wait so many seconds for another run to release it."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / LOCK_FILE).open("a+", encoding="utf-8") as file:
        wait_for_lock(lambda: try_lock(file), str(store), wait, say)
        name_owner(file)
        try:
            yield
        finally:
            # The file stays: a waiting run has it open, and must not lock one that is gone.
            file.truncate(0)
