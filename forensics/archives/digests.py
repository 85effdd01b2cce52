"""Digests of a file while it is read: of all of it, and of its head at lengths that double.

A log that is still written to begins with what it held before: two files with the same head are
told apart from two that only look alike by the longest head that both have.
"""

from __future__ import annotations

import hashlib

__all__ = ["FIRST_HEAD", "Digest"]

FIRST_HEAD = 256
_KEPT = 16


class Digest:
    """Takes a file block by block.

    >>> digest = Digest()
    >>> digest.update(b"x" * 600)
    >>> sorted(digest.heads)
    ['256', '512']
    """

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.heads: dict[str, str] = {}
        self._whole = hashlib.sha256()
        self._read = 0
        self._next = FIRST_HEAD

    def update(self, block: bytes) -> None:
        """Take the next block."""
        rest = memoryview(block)
        while self._read + len(rest) >= self._next:
            part, rest = rest[: self._next - self._read], rest[self._next - self._read :]
            self._whole.update(part)
            self._read = self._next
            self.heads[str(self._next)] = self._whole.hexdigest()[:_KEPT]
            self._next *= 2
        self._whole.update(rest)
        self._read += len(rest)

    def hexdigest(self) -> str:
        """Give the digest of all that was taken."""
        return self._whole.hexdigest()
