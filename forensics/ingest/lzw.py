"""Decodes what Unix `compress` writes (`.Z`): LZW with codes of 9 to 16 bits.

Codes come in groups of eight. Where their width changes, and where the table is cleared, the rest
of a group is padding. Nothing marks the end, so a cut can only be seen as half a code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from forensics.ingest.budget import Budget, DamageError, OutputMeter

_MAGIC = b"\x1f\x9d"
_CLEAR = 256
_BLOCK_MODE = 0x80
_CHUNK = 64 << 10
# The table of a log needs a few MB; one of a long run of one byte would need gigabytes.
_TABLE_BYTES = 128 << 20


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class LzwStream:
    """A stream that `compress` has written, decompressed."""

    def __init__(self, source: _Source, budget: Budget | None = None) -> None:
        """Decompress `source`."""
        self._source = source
        self._input = b""
        self._read = 0
        self._ended = False
        self._meter = OutputMeter(budget or Budget())
        self._parts = self._decode()
        self._ready = b""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises DamageError after the last good one."""
        if not self._ready:
            self._ready = next(self._parts, b"")
        end = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:end], self._ready[end:]
        return out

    def _take(self, size: int) -> bytes:
        while len(self._input) < size and not self._ended:
            more = self._source.read(_CHUNK)
            self._ended = not more
            self._read += len(more)
            self._input += more
        part, self._input = self._input[:size], self._input[size:]
        return part

    def _decode(self) -> Iterator[bytes]:
        head = self._take(3)
        maxbits = head[2] & 0x1F if len(head) == 3 else 0
        if head[:2] != _MAGIC or not 9 <= maxbits <= 16:
            raise DamageError("compress data broken: its header makes no sense")
        block = bool(head[2] & _BLOCK_MODE)
        written = 0
        groups = self._groups(maxbits, block=block)
        try:
            while True:
                parts: list[bytes] = []
                count = 0
                for part in groups:
                    parts.append(part)
                    count += len(part)
                    if count >= _CHUNK:
                        break
                out = b"".join(parts)
                if not out:
                    return
                written += len(out)
                self._meter.take(out, self._read)
                yield out
        except DamageError as damage:
            if parts:
                yield b"".join(parts)
            message = str(damage).replace("@", f"after {written} bytes of text")
            raise DamageError(message) from None

    def _groups(self, maxbits: int, *, block: bool) -> Iterator[bytes]:
        """Yield the texts of all codes."""
        first = [bytes([code]) for code in range(256)] + ([b""] if block else [])
        table, bits, previous, held = list(first), 9, b"", 0
        while group := self._take(bits):
            number, mask = int.from_bytes(group, "little"), (1 << bits) - 1
            codes = len(group) * 8 // bits
            width = bits
            for at in range(codes):
                code = number >> width * at & mask
                if code == _CLEAR and block:
                    table, bits, previous, held = list(first), 9, b"", 0
                    break
                if code < len(table):
                    text = table[code]
                elif code == len(table) and previous:
                    text = previous + previous[:1]
                else:
                    raise DamageError("compress data broken @: a code that nothing defines")
                yield text
                if previous and len(table) < 1 << maxbits:
                    table.append(previous + text[:1])
                    held += len(previous) + 1
                    if held > _TABLE_BYTES:
                        raise DamageError("compress data stopped @: it only repeats one text")
                previous = text
                if len(table) == 1 << bits and bits < maxbits:
                    bits += 1
                    break
