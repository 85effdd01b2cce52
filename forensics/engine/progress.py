"""The progress of a run on standard error: a bar on a terminal, a line a minute elsewhere.

The time left is estimated for reading alone, from what was read in the last seconds; how long the
other stages take depends on what the logs say.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from forensics.lib.text_format import format_bytes, rough_duration
from forensics.lib.text_safety import printable_lines
from forensics.lib.this_machine import start_helper

_TICK_SECONDS, _LINE_SECONDS = 0.2, 60.0
# The rate is that of the last 20 s; there is no estimate in the first 5 s of a stage.
_RATE_SECONDS, _FIRST_ESTIMATE_SECONDS = 20.0, 5.0
# Without a new byte for so long there is no estimate.
_STALLED_SECONDS = 5.0
_BAR_WIDTH = 24


class ProgressListener:
    """Is told how far a run is; this one only keeps the stage."""

    stage = ""

    def begin_stage(self, stage: str) -> None:
        """Note that a stage begins."""
        self.stage = stage

    def end_stage(self) -> None:
        """Note that the stage is over."""
        self.stage = ""

    def bytes_read(self, done: int, total: int) -> None:
        """Note how many bytes of the archives are read."""

    def tasks_done(self, done: int, total: int) -> None:
        """Note how many of Spark's tasks are done."""


SILENT = ProgressListener()


class Progress(ProgressListener):
    """Shows the progress of a run while it is open; notes never mix with the bar.

    Warnings are always shown, what each stage has done only when `verbose`; when quiet, nothing
    but warnings.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._quiet, self._clock = stream, quiet, clock
        self._verbose = verbose and not quiet
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.stage, self._begun, self._shown = "", clock(), ""
        self._bytes, self._tasks = (0, 0), (0, 0)
        self._samples: deque[tuple[float, int]] = deque()
        self._advanced_at = 0.0

    @contextmanager
    def open(self) -> Iterator[Progress]:
        """Show progress until the block ends."""
        ticker = None if self._quiet else start_helper(self._tick)
        try:
            yield self
        finally:
            self._stopped.set()
            if ticker and ticker.is_alive():
                ticker.join(2)
            with self._lock:
                self._erase()

    def notify(self, text: str) -> None:
        """Write a sentence on a line of its own; a name in it stays what it is on any terminal."""
        text = printable_lines(text)
        if not self._verbose and not text.startswith("warning"):
            return
        with self._lock:
            self._erase()
            self._stream.write(text + "\n")
            self._stream.flush()

    def begin_stage(self, stage: str) -> None:
        """Note which stage begins."""
        with self._lock:
            self.stage, self._begun = stage, self._clock()
            self._bytes, self._tasks = (0, 0), (0, 0)
            self._samples.clear()

    def end_stage(self) -> None:
        """Note that the stage is over."""
        self.begin_stage("")

    def bytes_read(self, done: int, total: int) -> None:
        """Note how many bytes of the archives are read."""
        with self._lock:
            now = self._clock()
            if done > self._bytes[0]:
                self._advanced_at = now
            # A task that is tried again begins at 0; never show less than before.
            self._bytes = (min(max(done, self._bytes[0]), total), total)
            self._samples.append((now, self._bytes[0]))
            while now - self._samples[0][0] > _RATE_SECONDS and len(self._samples) > 2:
                self._samples.popleft()

    def tasks_done(self, done: int, total: int) -> None:
        """Note how many of Spark's tasks are done."""
        with self._lock:
            self._tasks = (done, total)

    def render_line(self) -> str:
        """Return in one line how far the run is."""
        if not self.stage:
            return ""
        passed = self._clock() - self._begun
        words = [f"{self.stage:9}", *self._amounts(), rough_duration(passed)]
        return "  ".join(words)

    def _amounts(self) -> Iterator[str]:
        done, total = self._bytes
        if total:
            share = done / total
            if self._is_terminal:
                yield f"[{'#' * int(share * _BAR_WIDTH):.<{_BAR_WIDTH}}]"
            yield f"{int(share * 100):3d} %  {format_bytes(done)} of {format_bytes(total)}"
            if rate := self._rate():
                yield f"{format_bytes(int(rate))}/s"
                now = self._clock()
                early = now - self._begun < _FIRST_ESTIMATE_SECONDS
                stalled = now - self._advanced_at > _STALLED_SECONDS
                if done < total and not (early or stalled):
                    yield f"about {rough_duration(max(1, (total - done) / rate))} left to read"
        elif self._tasks[1]:
            yield f"{self._tasks[0]} of {self._tasks[1]} tasks"

    def _rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (begun, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - begun) if now > begun else 0.0

    def _tick(self) -> None:
        while not self._stopped.wait(_TICK_SECONDS if self._is_terminal else _LINE_SECONDS):
            with self._lock:
                text = self.render_line()
                if self._is_terminal:
                    self._draw(text)
                elif text:
                    self._stream.write(f"{text} so far\n")
                    self._stream.flush()

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"\r{text:{len(self._shown)}}")
        self._stream.flush()
        self._shown = text

    def _erase(self) -> None:
        if self._shown:
            self._stream.write(f"\r{'':{len(self._shown)}}\r")
            self._stream.flush()
            self._shown = ""
