"""How far an archive may lead a reader: bytes, entries, depth, names and seconds, in one place.

Each limit can be set (`--limit entries=500000`); docs/running/limits.md explains them. What a limit
keeps from being read is said with the name of the limit.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from forensics.errors import ForensicsError, did_you_mean


@dataclass(frozen=True)
class Limits:
    """All limits; the defaults let every log pass that people have, and stop what is made to hurt.

    `spool` is the folder for what has to be written down before it can be read.
    """

    # text that may come out of one file on disk
    unpacked_bytes: int = 1 << 40
    # bytes of text for a byte of a compressed stream, counted once it gave `ratio_bytes`
    ratio: int = 500
    ratio_bytes: int = 8 << 30
    # text of one file on disk that only repeats a few bytes
    repeated_bytes: int = 256 << 20
    # entries of one archive
    entries: int = 200_000
    # formats inside each other
    depth: int = 6
    # bytes of a name
    name_bytes: int = 4096
    # bytes of a header that gives a name, an attribute or a map of holes
    header_bytes: int = 1 << 20
    # compressed streams one after the other in one file
    members: int = 10_000_000
    # time for one file on disk
    seconds: int = 6 * 3600
    # bytes of a pipe, a command's output or a download, all together
    spool_bytes: int = 64 << 30
    # how long a pipe may be without anybody who writes
    pipe_seconds: int = 60
    spool: str = ""


DEFAULT_LIMITS = Limits()
LIMIT_NAMES = tuple(one.name for one in fields(Limits) if one.name != "spool")
_VALUE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_limits(words: Iterable[str], limits: Limits = DEFAULT_LIMITS) -> Limits:
    """Read limits as people write them.

    >>> parse_limits(["entries=5", "spool_bytes=2G"]).spool_bytes
    2147483648
    """
    for word in words:
        name, _, value = word.partition("=")
        name = name.strip().replace("-", "_")
        if name not in LIMIT_NAMES:
            known = ", ".join(LIMIT_NAMES)
            hint = did_you_mean(name, LIMIT_NAMES)
            raise ForensicsError(f"{name!r} is no limit{hint}; these are: {known}")
        found = _VALUE.fullmatch(value.strip())
        if not found:
            raise ForensicsError(f"limit {name}: {value!r} is no number; write it as 500 or 2G")
        number = int(found[1]) << _UNITS[found[2].lower()]
        if not 0 < number < 1 << 62:
            raise ForensicsError(f"limit {name}: {value} is out of range")
        changes: dict[str, Any] = {name: number}
        limits = replace(limits, **changes)
    return limits


class DamageError(Exception):
    """A stream that ends too early or is broken; says where.

    `harmless`: everything of it was read, and what is said is only a note.
    """

    def __init__(self, message: str, *, harmless: bool = False) -> None:
        super().__init__(message)
        self.harmless = harmless


class LimitError(DamageError):
    """A limit was met, and reading stopped there."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{message} (limit {name}); not read further")
        self.name = name


# So much is looked at out of so much, and so many times smaller does only a repetition become.
_SAMPLE, _SAMPLE_EVERY, _REPEATED_RATIO = 16 << 10, 1 << 20, 40


# Where a file met that limit, so much more is looked at before all of it is given up.
_MORE_REPEATED = 64 << 20
# No log packs so well that there are more entries than one for so many bytes on disk.
_DENSE_ENTRIES, _ENTRY_BYTES = 5_000, 4


class Budget:
    """What may still come out of one file on disk; shared by all streams that are opened in it."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, packed: int | None = None) -> None:
        """Begin with nothing used; `packed` is the size of the file, where it is known."""
        self.limits = limits
        self.met: list[str] = []
        self._text = self._repeated = self._entries = 0
        dense = limits.entries if packed is None else max(_DENSE_ENTRIES, packed // _ENTRY_BYTES)
        self._most_entries = min(limits.entries, dense)
        self._deadline = time.monotonic() + limits.seconds

    def take_text(self, size: int) -> None:
        """Count text that is handed on; raises LimitError if it is too much, or too late."""
        self._text += size
        if self._text > self.limits.unpacked_bytes:
            message = f"more than {self.limits.unpacked_bytes:,} bytes were unpacked"
            raise self._stop("unpacked_bytes", message)
        if time.monotonic() > self._deadline:
            raise self._stop("seconds", f"reading took more than {self.limits.seconds:,} s")

    def take_repeated(self, size: int) -> None:
        """Count bytes that only repeat others; raises LimitError if they are too many."""
        self._repeated += size
        if self._repeated > self.limits.repeated_bytes:
            message = f"more than {self.limits.repeated_bytes:,} bytes only repeat a few"
            raise self._stop("repeated_bytes", message)

    def repeated_left(self) -> int:
        """Return how many bytes may still repeat others."""
        return max(0, self.limits.repeated_bytes - self._repeated)

    def exhausted(self) -> str | None:
        """Count an entry; say why no more of the file is to be read, if so."""
        self._entries += 1
        limits = self.limits
        if self._entries > self._most_entries:
            return str(self._stop("entries", f"more than {self._most_entries:,} entries"))
        if self._repeated > limits.repeated_bytes + _MORE_REPEATED:
            message = f"{self._repeated:,} bytes only repeat a few"
            return str(self._stop("repeated_bytes", message))
        try:
            self.check_time()
        except LimitError as error:
            return str(error)
        return None

    def check_time(self) -> None:
        """Raise LimitError if reading has taken too long."""
        self.take_text(0)

    def _stop(self, name: str, message: str) -> LimitError:
        if name not in self.met:
            self.met.append(name)
        return LimitError(name, message)


class OutputMeter:
    """Watches what one compressed stream unpacks to: how much for its size, and how monotonous."""

    def __init__(self, budget: Budget) -> None:
        """Count for a stream of this budget."""
        self._budget = budget
        self._written = self._next_sample = 0

    def take(self, out: bytes, read: int) -> None:
        """Count output; `read` bytes were read for all of it so far."""
        self._written += len(out)
        limits = self._budget.limits
        if self._written > limits.ratio_bytes and self._written > limits.ratio * max(read, 1):
            self._budget.met.append("ratio")
            message = f"it unpacks to more than {limits.ratio} times its size"
            raise LimitError("ratio", message)
        if self._written >= self._next_sample:
            self._next_sample = self._written + _SAMPLE_EVERY
            self._budget.check_time()
            sample = out[:_SAMPLE]
            if len(sample) > _REPEATED_RATIO * len(zlib.compress(sample, 1)):
                self._budget.take_repeated(_SAMPLE_EVERY)
