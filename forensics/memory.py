"""The most memory that a run held at once on this machine: this process, Spark's and its workers.

Pages that processes share are counted once, as the kernel does it where it tells.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

__all__ = ["Peak"]

_PAUSE = 1.0
_PROC = Path("/proc")


class Peak:
    """Looks every second, while it is open, at what the processes of this run hold."""

    def __init__(self) -> None:
        """Begin with what this process held so far."""
        self.bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            # Under spark-submit the Java that started this process is a part of the run, too.
            first = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
            self.bytes = max(self.bytes, _held(first))


def _held(first: int) -> int:
    children: defaultdict[int, list[int]] = defaultdict(list)
    with suppress(OSError):
        for path in _PROC.iterdir():
            if path.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    stat = (path / "stat").read_text()
                    # A name may hold blanks and brackets; the parent stands behind the last one.
                    children[int(stat.rpartition(")")[2].split()[1])].append(int(path.name))
    total, todo = 0, [first]
    while todo:
        one = todo.pop()
        total += _pages(one)
        todo += children[one]
    return total


def _pages(process: int) -> int:
    folder = _PROC / str(process)
    with suppress(OSError, ValueError):
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    with suppress(OSError, ValueError, IndexError):
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
