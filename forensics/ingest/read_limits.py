"""Counts what comes out of an archive against the limits, and says which of them was met."""

from __future__ import annotations

import time
import zlib

from forensics.lib.limits import DEFAULT_LIMITS, Limits


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
_MORE_REPEATED = 16 << 20
ZEROS_WEIGH = 4
# No log packs so well that there are more entries than one for so many bytes on disk.
_DENSE_ENTRIES, _ENTRY_BYTES = 1_000, 8


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

    def take_repeated(self, size: int, *, zeros: bool = False) -> None:
        """Count bytes that only repeat others; raises LimitError if they are too many.

        Zeros cost least, and stand in logs whose file was emptied under its writer.
        """
        self._repeated += size // ZEROS_WEIGH if zeros else size
        if self._repeated > self.limits.repeated_bytes:
            message = f"more than {self.limits.repeated_bytes:,} bytes only repeat a few"
            raise self._stop("repeated_bytes", message)

    def zeros_left(self) -> int:
        """Return how many zeros there may still be."""
        return max(0, self.limits.repeated_bytes - self._repeated) * ZEROS_WEIGH

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
                self._budget.take_repeated(_SAMPLE_EVERY, zeros=not sample.strip(b"\0"))
