"""Counts the bytes that the tasks of a scan read: each writes a number that the driver adds up.

Spark reports a task only when it has ended, and a large archive is a single task. If tasks and
driver share no folder, the numbers never arrive, and nothing else changes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

# A number is written at most this often, in seconds.
_WRITE_INTERVAL = 0.3
_DIGITS = 20


class ReadCounter:
    """Counts the bytes that one task reads, and writes the number for the driver."""

    def __init__(self, folder: str, task: int) -> None:
        """Count for a task; nothing is written if there is no folder."""
        self._path = os.path.join(folder, str(task)) if os.path.isdir(folder) else None  # noqa: PTH112, PTH118 - a worker's plain text
        self._done = self._finished = 0
        # Beside its own bytes a split may read the head of its file and what lies around it.
        self._most: int | None = None
        self._written = 0.0

    def begin(self, count: int) -> None:
        """Begin a split, which counts no more than its size."""
        self._most = self._finished + count

    def add(self, count: int) -> None:
        """Count bytes that were just read."""
        self._done += count
        if self._most is not None:
            self._done = min(self._done, self._most)
        if self._path and time.monotonic() - self._written > _WRITE_INTERVAL:
            self._write()

    def finish(self, count: int) -> None:
        """Count a split that is done by its size, however many bytes were read for it."""
        self._finished += count
        self._done = self._finished
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._written = time.monotonic()
        # A task must not fail for the sake of its progress.
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(handle, b"%0*d" % (_DIGITS, self._done), 0)
            finally:
                os.close(handle)


def count_reads(file: IO[bytes], counter: ReadCounter | None) -> IO[bytes]:
    """Count what is read from a file, if there is a counter."""
    return cast("IO[bytes]", _CountedFile(file, counter)) if counter else file


class _CountedFile:
    """The methods of a file that reading needs."""

    def __init__(self, file: IO[bytes], counter: ReadCounter) -> None:
        self._file, self._counter = file, counter

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._counter.add(len(data))
        return data

    def seek(self, at: int, whence: int = 0, /) -> int:
        return self._file.seek(at, whence)


def total_bytes_read(folder: Path) -> int:
    """Add up what all tasks have read so far."""
    total = 0
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError, ValueError):
                total += int(path.read_bytes())
    return total
