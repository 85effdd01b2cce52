"""Unpacks zstd and lz4 by Arrow, which has both on every Python, frame by frame.

The frames are walked here, so that what follows the last one is known, and a broken one costs
nothing but itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from forensics.ingest.read_limits import Budget, DamageError, OutputMeter

_CHUNK = 256 << 10
# A read that fails returns nothing, so reads are small.
_STEP = 1 << 10
_PIECE = 8 << 10
_FRAME = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_MAX_FAULTS = 4
_SHORTEST_HEADER, _LONGEST_HEADER = 7, 19


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class ArrowStream:
    """A stream of zstd or lz4 frames, unpacked; raises what was wrong at its end."""

    def __init__(
        self, source: _Source, kind: str, budget: Budget | None = None, *, single: bool = False
    ) -> None:
        """Decompress `source`, which is zstd or lz4; `single`: what follows is something else."""
        self._kind, self._single = kind, single
        self._walker = _FrameWalker(source, kind)
        self._meter = OutputMeter(budget or Budget())
        self._written = 0
        self._faults: list[str] = []
        self._harmless = True
        self._last = b""
        self._stream: Any = self._open()

    @property
    def rest(self) -> bytes:
        """What was read of the source behind the last frame."""
        return self._walker.left

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises DamageError after the last good one."""
        wanted = _CHUNK if size < 0 else size
        parts: list[bytes] = []
        count = 0
        while self._stream is not None and count < wanted:
            part = self._step(min(_STEP, wanted - count))
            parts.append(part)
            count += len(part)
        if not count and self._faults and size:
            raise DamageError("; ".join(self._faults), harmless=self._harmless)
        return b"".join(parts)

    def _open(self) -> Any:
        return pa.CompressedInputStream(pa.PythonFile(self._walker, mode="r"), self._kind)

    def _step(self, size: int) -> bytes:
        """Read some bytes; none at a fault, and at the end."""
        try:
            out: bytes = self._stream.read(size)
            self._meter.take(out, self._walker.count)
        except DamageError as damage:
            self._note(str(damage))
            self._stream = None
            return b""
        except (OSError, pa.ArrowException) as error:
            return self._go_on(str(error))
        if not out:
            self._finish()
            return b""
        self._written += len(out)
        self._last = out[-1:]
        return out

    def _finish(self) -> None:
        """Say what follows the last frame."""
        self._stream = None
        count, found = (0, False) if self._single else self._walker.find_frame(behind=True)
        if found:
            self._note(f"{count} bytes skipped before the next {self._kind} frame")
            self._stream = self._open()
        elif count:
            note = f"{count} bytes that are no {self._kind} data follow its end"
            self._note(note, harmless=True)

    def _go_on(self, why: str) -> bytes:
        """Note what is broken, and look for the next frame."""
        if self._walker.cut:
            self._note(f"{self._kind} data cut off after {self._written} bytes of text")
            self._stream = None
            return b""
        self._note(f"{self._kind} data broken after {self._written} bytes of text: {why}")
        count, found = self._walker.find_frame()
        self._stream = self._open() if found else None
        if found:
            self._note(f"{count} bytes skipped before the next {self._kind} frame")
            if self._last not in (b"", b"\n"):
                # A line must not go on in another frame.
                self._last = b"\n"
                return b"\n"
        return b""

    def _note(self, fault: str, *, harmless: bool = False) -> None:
        if len(self._faults) < _MAX_FAULTS:
            self._faults.append(fault)
        self._harmless = self._harmless and harmless


class _FrameWalker:
    """Feeds Arrow whole frames in pieces, and knows where each block begins."""

    closed = False

    def __init__(self, source: _Source, kind: str) -> None:
        self._source = source
        self._kind = kind
        self._magic = _FRAME[kind]
        self._any = re.compile(re.escape(self._magic) + b"|" + _SKIPPABLE.pattern, re.DOTALL)
        self._pieces = self._walk()
        # the pieces of the block that is being read
        self._block: list[bytes] = []
        self.left = b""
        self.count = 0
        self.cut = False

    def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002 - less than asked for is allowed
        """Return the next piece; it is never larger than what Arrow asks for."""
        return next(self._pieces, b"")

    def find_frame(self, *, behind: bool = False) -> tuple[int, bool]:
        """Go to the next frame; returns the bytes before it but for padding, and if it is there.

        `behind`: the last frame was whole; else the frame is given up in the block being read.
        """
        data = self.left if behind else b"".join(self._block)[1:] + self.left
        skipped, padding = 0, behind
        while True:
            found = self._any.search(data)
            part = data[: found.start()] if found else data[: max(0, len(data) - 3)]
            padding = padding and not part.strip(b"\0")
            skipped += len(part)
            data = data[len(part) :]
            if found:
                break
            more = self._source.read(_CHUNK)
            self.count += len(more)
            if not more:
                padding = padding and not data.strip(b"\0")
                self.left = b""
                return 0 if padding else skipped + len(data), False
            data += more
        self.left, self._block, self.cut = data, [], False
        self._pieces = self._walk()
        return skipped, True

    def _fill(self, size: int) -> bool:
        while len(self.left) < size:
            more = self._source.read(_CHUNK)
            self.count += len(more)
            if not more:
                return False
            self.left += more
        return True

    def _give(self, size: int) -> Iterator[bytes]:
        """Hand on the next bytes."""
        while size:
            self._fill(min(size, _PIECE))
            part, self.left = self.left[: min(size, _PIECE)], self.left[min(size, _PIECE) :]
            if not part:
                self.cut = True
                return
            size -= len(part)
            self._block.append(part)
            yield part

    def _walk(self) -> Iterator[bytes]:
        while self._fill(4) and not self.cut:
            self._block = []
            if self.left.startswith(self._magic):
                yield from self._frame()
            elif _SKIPPABLE.match(self.left) and self._fill(8):
                yield from self._give(8 + int.from_bytes(self.left[4:8], "little"))
            else:
                return

    def _frame(self) -> Iterator[bytes]:
        self._fill(_LONGEST_HEADER)
        if len(self.left) < _SHORTEST_HEADER:
            yield from self._give(_SHORTEST_HEADER)
            return
        flags = self.left[4]
        if self._kind == "zstd":
            single = flags >> 5 & 1
            size = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
            size += (single, 2, 4, 8)[flags >> 6]
            tail = 4 if flags & 4 else 0
        else:
            size = 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
            tail = 4 if flags & 4 else 0
        yield from self._give(size)
        last = False
        while not last and not self.cut:
            width = 3 if self._kind == "zstd" else 4
            if not self._fill(width):
                yield from self._give(width)
                return
            self._block = []
            head = int.from_bytes(self.left[:width], "little")
            if self._kind == "zstd":
                last, length = bool(head & 1), 1 if head >> 1 & 3 == 1 else head >> 3
            else:
                last, length = head == 0, head & 0x7FFFFFFF
                length += 4 if head and flags & 16 else 0
            yield from self._give(width + length)
        yield from self._give(tail)

    def readable(self) -> bool:
        """Return True: Arrow asks."""
        return True

    def writable(self) -> bool:
        """Return False: Arrow asks."""
        return False

    def seekable(self) -> bool:
        """Return False: Arrow asks."""
        return False

    def close(self) -> None:
        """Leave the source open: it belongs to others."""
