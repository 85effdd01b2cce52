"""The bytes of an archive in order: some can be put back, and a damage is remembered."""

from __future__ import annotations

from typing import Protocol

from forensics.ingest.read_limits import DamageError

_COPY = 256 << 10


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class ForwardInput:
    """Reads a source from its first byte to its last, or to its damage; a source may skip."""

    def __init__(self, source: _Source, at: int = 0) -> None:
        """Read `source`, whose first byte stands at `at` of the archive."""
        self._source = source
        # What was put back, and how much of it was taken again: copies would cost most.
        self._left, self._taken = b"", 0
        self.at = at
        self.damage: DamageError | None = None

    def take_some(self, size: int) -> bytes:
        """Read at most `size` bytes; none at the end or at a damage."""
        if self._left:
            part = self._left[self._taken : self._taken + size]
            self._drop(len(part))
        elif self.damage is None:
            try:
                part = self._source.read(size)
            except DamageError as damage:
                self.damage = damage
                return b""
            except (OSError, EOFError) as error:
                self.damage = DamageError(str(error) or type(error).__name__)
                return b""
        else:
            return b""
        self.at += len(part)
        return part

    def take(self, size: int) -> bytes:
        """Read `size` bytes; fewer at the end."""
        part = self.take_some(size)
        if len(part) == size or not part:
            return part
        parts = [part]
        count = len(part)
        while count < size and (part := self.take_some(size - count)):
            parts.append(part)
            count += len(part)
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """Look at the next bytes."""
        data = self.take(size)
        self.back(data)
        return data

    def back(self, data: bytes) -> None:
        """Put bytes back."""
        begin = self._taken - len(data)
        if begin >= 0 and self._left.startswith(data, begin):
            self._taken = begin
        elif data:
            self._left, self._taken = data + self._left[self._taken :], 0
        self.at -= len(data)

    def _drop(self, size: int) -> None:
        self._taken += size
        if self._taken >= len(self._left):
            self._left, self._taken = b"", 0

    def skip(self, size: int) -> int:
        """Go forward; returns how far."""
        gone = min(size, len(self._left) - self._taken)
        self._drop(gone)
        self.at += gone
        skip = getattr(self._source, "skip", None)
        if skip is not None and gone < size and self.damage is None:
            more: int = skip(size - gone)
            self.at += more
            return gone + more
        while gone < size and (part := self.take_some(min(size - gone, _COPY))):
            gone += len(part)
        return gone
