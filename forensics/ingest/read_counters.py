"""How many bytes the tasks of a scan have read: each writes a number that the driver adds up.

Spark tells of a task only when it has ended, and a large archive is a single task. Where tasks and
driver share no folder the numbers never arrive, and nothing else changes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

# A number is written at most this often, in seconds.
_PAUSE = 0.3
_DIGITS = 20


class ReadCounter:
    """Counts the bytes that one task reads, and writes them down for the driver."""

    def __init__(self, folder: str, task: int) -> None:
        """Count for a task; without a folder nobody wants to know."""
        self._path = os.path.join(folder, str(task)) if os.path.isdir(folder) else None  # noqa: PTH112, PTH118 - a worker's plain text
        self._done = self._settled = 0
        self._written = 0.0

    def add(self, count: int) -> None:
        """Count what was just read."""
        self._done += count
        if self._path and time.monotonic() - self._written > _PAUSE:
            self._write()

    def finish(self, count: int) -> None:
        """Let a piece of work that is done count as much as it has, however it was read."""
        self._settled += count
        self._done = self._settled
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._written = time.monotonic()
        # Progress is not worth a task.
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(handle, b"%0*d" % (_DIGITS, self._done), 0)
            finally:
                os.close(handle)


def count_reads(file: IO[bytes], meter: ReadCounter | None) -> IO[bytes]:
    """Let a file tell a meter, if there is one, what is read from it."""
    return cast("IO[bytes]", _Counted(file, meter)) if meter else file


class _Counted:
    """As much of a file as reading needs."""

    def __init__(self, file: IO[bytes], meter: ReadCounter) -> None:
        self._file, self._meter = file, meter

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._meter.add(len(data))
        return data

    def seek(self, at: int, whence: int = 0, /) -> int:
        return self._file.seek(at, whence)


def total_bytes_read(folder: Path) -> int:
    """Add up what all tasks have read so far."""
    done = 0
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError, ValueError):
                done += int(path.read_bytes())
    return done
