"""What a run is doing, on standard error: a bar on a terminal, a line a minute elsewhere.

Time left is told of reading alone, from what was read in the last seconds: nobody knows beforehand
how long the rest takes, since that depends on what the logs say.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

_TICK_SECONDS, _LINE_SECONDS = 0.2, 60.0
# The rate is that of so many seconds; before the first of them nothing is promised.
_RATE_SECONDS, _FIRST_ESTIMATE_SECONDS = 20.0, 5.0
# Who hears of no new byte for so long does not know how long it will take.
_STALLED_SECONDS = 5.0
_BAR_WIDTH = 24


class ProgressListener(Protocol):
    """Who wants to know how far a run is."""

    def begin_stage(self, stage: str) -> None:
        """Hear which stage begins."""

    def end_stage(self) -> None:
        """Hear that the stage is over."""

    def bytes_read(self, done: int, total: int) -> None:
        """Hear how many bytes of the archives are read."""

    def tasks_done(self, done: int, total: int) -> None:
        """Hear how many tasks of Spark's are done."""


class _SilentListener:
    def begin_stage(self, stage: str) -> None: ...

    def end_stage(self) -> None: ...

    def bytes_read(self, done: int, total: int) -> None: ...

    def tasks_done(self, done: int, total: int) -> None: ...


SILENT: ProgressListener = _SilentListener()


class Progress:
    """Tells of a run while it is open; what is said in between never mixes with the bar."""

    def __init__(
        self, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write to a stream; when quiet, nothing but warnings."""
        self._stream, self._quiet, self._clock = stream, quiet, clock
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._stage, self._begun, self._shown = "", clock(), ""
        self._bytes, self._tasks = (0, 0), (0, 0)
        self._samples: deque[tuple[float, int]] = deque()
        self._advanced_at = 0.0

    @contextmanager
    def open(self) -> Iterator[Progress]:
        """Tell until the end, whatever that end is."""
        ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        if not self._quiet:
            ticker.start()
        try:
            yield self
        finally:
            self._stopped.set()
            if not self._quiet:
                ticker.join(2)
            with self._lock:
                self._erase()

    def notify(self, text: str) -> None:
        """Say a sentence on a line of its own."""
        if self._quiet and not text.startswith("warning"):
            return
        with self._lock:
            self._erase()
            self._stream.write(text + "\n")
            self._stream.flush()

    def begin_stage(self, stage: str) -> None:
        """Hear which stage begins."""
        with self._lock:
            self._stage, self._begun = stage, self._clock()
            self._bytes, self._tasks = (0, 0), (0, 0)
            self._samples.clear()

    def end_stage(self) -> None:
        """Hear that the stage is over."""
        self.begin_stage("")

    def bytes_read(self, done: int, total: int) -> None:
        """Hear how many bytes of the archives are read."""
        with self._lock:
            now = self._clock()
            if done > self._bytes[0]:
                self._advanced_at = now
            # A task that was tried again begins at nothing; what was shown is not taken back.
            self._bytes = (min(max(done, self._bytes[0]), total), total)
            self._samples.append((now, self._bytes[0]))
            while now - self._samples[0][0] > _RATE_SECONDS and len(self._samples) > 2:
                self._samples.popleft()

    def tasks_done(self, done: int, total: int) -> None:
        """Hear how many tasks of Spark's are done."""
        with self._lock:
            self._tasks = (done, total)

    def render_line(self) -> str:
        """Say in one line how far the run is."""
        if not self._stage:
            return ""
        passed = self._clock() - self._begun
        words = [f"{self._stage:9}", *self._amounts(), format_duration(passed)]
        return "  ".join(words)

    def _amounts(self) -> Iterator[str]:
        done, of = self._bytes
        if of:
            share = done / of
            if self._is_terminal:
                yield f"[{'#' * int(share * _BAR_WIDTH):.<{_BAR_WIDTH}}]"
            yield f"{int(share * 100):3d} %  {format_bytes(done)} of {format_bytes(of)}"
            if rate := self._rate():
                now = self._clock()
                yield f"{format_bytes(int(rate))}/s"
                if (
                    now - self._begun >= _FIRST_ESTIMATE_SECONDS
                    and now - self._advanced_at <= _STALLED_SECONDS
                    and done < of
                ):
                    yield f"about {format_duration(max(1, (of - done) / rate))} left to read"
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


def format_bytes(count: int) -> str:
    """Say bytes as people do.

    >>> format_bytes(999), format_bytes(1_234_567), format_bytes(2_500_000_000)
    ('999 B', '1.2 MB', '2.5 GB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def format_duration(seconds: float) -> str:
    """Say a time as exactly as it is worth.

    >>> [format_duration(seconds) for seconds in (7.9, 95, 754, 9000)]
    ['7 s', '1 min 35 s', '12 min', '2 h 30 min']
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
