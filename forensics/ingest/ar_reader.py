"""Reads ar archives, which Debian packages are: a header of 60 bytes, and the member."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forensics.ingest.budget import Budget, DamageError
from forensics.ingest.compression import Readable
from forensics.ingest.forward_input import ForwardInput

_MAGIC, _HEADER, _MARK = 8, 60, b"`\n"
_TABLES = (b"/", b"//", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED")


@dataclass(frozen=True)
class ArMember:
    """One member: its name, and its length."""

    name: bytes
    size: int


class ArReader:
    """Walks over the members of an ar; while one is at hand, `read` gives its data."""

    def __init__(self, source: Readable, budget: Budget | None = None) -> None:
        """Read `source` from its first byte."""
        self._input = ForwardInput(source)
        self._limits = (budget or Budget()).limits
        self._left = 0
        self._names = b""
        self.faults: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[ArMember]:
        """Yield the members; tables of names and symbols are none."""
        self._input.skip(_MAGIC)
        while header := self._input.take(_HEADER):
            size = header[48:58].strip()
            if len(header) < _HEADER or header[58:60] != _MARK or not size.isdigit():
                if header.strip(b"\0\n"):
                    self.faults.append(f"no valid header at byte {self._input.at - len(header)}")
                break
            end = self._input.at + int(size) + int(size) % 2
            self._left = int(size)
            name = self._name(header[:16].rstrip(b" "))
            if name is not None:
                yield ArMember(name, self._left)
            self._left = 0
            missing = end - self._input.at - self._input.skip(end - self._input.at)
            if missing > 1:
                self.faults.append(f"the archive ends {missing} bytes before its last member")
                break
        if damage := self._input.damage:
            (self.notes if damage.harmless else self.faults).append(str(damage))

    def _name(self, field: bytes) -> bytes | None:
        """Return the name; None for a table."""
        if field == b"//":
            self._names = self._input.take(min(self._left, self._limits.header_bytes))
            return None
        if field.startswith(b"#1/") and field[3:].isdigit():
            length = min(int(field[3:]), self._left, self._limits.name_bytes)
            self._left -= length
            field = self._input.take(length).rstrip(b"\0")
        elif field.startswith(b"/") and field[1:].isdigit():
            at = int(field[1:])
            field = self._names[at : at + self._limits.name_bytes].partition(b"\n")[0]
        return None if field in _TABLES else field.rstrip(b"/")

    def read(self, size: int = -1, /) -> bytes:
        """Read from the member at hand."""
        part = self._input.take_some(self._left if size < 0 else min(size, self._left))
        if not part and self._left and size:
            raise DamageError(f"the archive ends {self._left} bytes before this file does")
        self._left -= len(part)
        return part
