"""Reads a tar from its begin to its end, whatever lies between.

It goes on behind end marks, for tars that were put together, and behind headers that are damaged:
what has no header is handed on as a file of its own, up to the next header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from forensics.ingest.formats import TAR_BLOCK
from forensics.ingest.pushback_stream import ForwardInput
from forensics.ingest.read_limits import Budget, DamageError
from forensics.ingest.tar_headers import (
    CONTINUED,
    PAX,
    SPARSE,
    SPECIAL,
    SparseMap,
    TarHeader,
    find_header,
    is_sound_map,
    padded,
    parse_header,
    parse_pax,
    parse_sparse,
    pax_sparse_map,
)

_FIRST_SEARCH, _SEARCH = 8 << 10, 1 << 20
_COPY = 256 << 10
# An archive that is damaged at more places is none.
_MOST_LOST = 250
_ZEROS = bytes(TAR_BLOCK)
_HOLE = bytes(64 << 10)


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass
class TarMember:
    """What one header describes, with what stands before it for its name.

    `special` names what is no file; `lost` bytes have no header; `at` is where its headers begin,
    and `data_at` where its data do.
    """

    name: bytes
    at: int
    data_at: int = 0
    # bytes in the archive, and of the file
    stored: int = 0
    size: int = 0
    special: str | None = None
    link: bytes = b""
    sparse: SparseMap | None = None
    lost: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether its bytes stand in the archive as they are."""
        return not self.special and self.sparse is None and not self.lost and not self.notes


@dataclass
class _Extension:
    """What headers before a header say of it."""

    at: int | None = None
    name: bytes | None = None
    pax: dict[str, bytes] = field(default_factory=dict)
    ordered: list[tuple[str, bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class TarReader:
    """Walks over the members of a tar; while one is at hand, `read` gives its data."""

    def __init__(self, source: _Source, budget: Budget | None = None, at: int = 0) -> None:
        """Read `source`, whose first byte stands at `at` of the archive."""
        self._budget = budget or Budget()
        self._limits = self._budget.limits
        self._input = _Input(source, at)
        self._member: TarMember | None = None
        self._reader: Iterator[bytes] = iter(())
        self._held = b""
        self._globals: dict[str, bytes] = {}
        # what is wrong with the archive itself
        self.faults: list[str] = []
        self.notes: list[str] = []
        # a section of an archive need not have an end mark
        self.expects_end = True

    @property
    def at(self) -> int:
        """Where in the archive the reader stands."""
        return self._input.at

    def __iter__(self) -> Iterator[TarMember]:
        """Yield the members in order; the data of one are skipped when the next is asked for."""
        try:
            for member in self._members():
                self._member = member
                self._reader, self._held = self._data(member), b""
                yield member
                self._drain(member)
        except DamageError as damage:
            if damage.harmless:
                self.notes.append(str(damage))
            else:
                # First, since of many faults only some are told.
                self.faults.insert(0, f"the archive breaks off: {damage}")

    def read(self, size: int = -1, /) -> bytes:
        """Read from the member at hand; raises DamageError where the archive ends before it."""
        if not self._held:
            self._held = next(self._reader, b"")
        end = len(self._held) if size < 0 else size
        part, self._held = self._held[:end], self._held[end:]
        return part

    def _fault(self, fault: str) -> None:
        if fault not in self.faults and len(self.faults) < 8:
            self.faults.append(fault)

    def _members(self) -> Iterator[TarMember]:
        zeros, lost, extension, seen = 0, 0, _Extension(), False
        while True:
            at = self._input.at
            block = self._input.take(TAR_BLOCK)
            if len(block) < TAR_BLOCK:
                damage = self._input.damage
                if not damage or damage.harmless:
                    self._end(block, zeros=zeros, seen=seen)
                if damage:
                    raise damage
                return
            if block == _ZEROS:
                zeros += 1
                if zeros > 1:
                    self._input.skip_zeros()
                continue
            header = parse_header(block)
            if header is None:
                self._input.back(block)
                lost += 1
                if lost > _MOST_LOST:
                    message = f"more than {_MOST_LOST:,} places without a valid header"
                    raise DamageError(f"{message}; not read further")
                yield self._without_header(at, block, behind_end=zeros > 1)
                zeros, extension = 0, _Extension()
                continue
            zeros, seen = 0, True
            extension.at = at if extension.at is None else extension.at
            if header.long_name or header.type in PAX:
                self._extend(extension, header)
                continue
            yield self._describe(header, extension)
            extension = _Extension()

    def _without_header(self, at: int, block: bytes, *, behind_end: bool) -> TarMember:
        """Take what has no valid header for a file; its damaged header may still name it."""
        lost = TarMember(b"", at, data_at=at, lost=True)
        if behind_end:
            return lost
        self._fault(f"no valid header at byte {at}")
        damaged = parse_header(block, damaged=True)
        if damaged and block[257:262] == b"ustar":
            lost.name = damaged.name if damaged.name.isascii() else b""
            # The header itself is no text of the file.
            lost.data_at = at + TAR_BLOCK
        return lost

    def _end(self, rest: bytes, *, zeros: int, seen: bool) -> None:
        if rest.strip(b"\0"):
            self._fault(f"the archive ends in the middle of a header: {len(rest)} bytes are left")
        elif self.expects_end and self._input.at % TAR_BLOCK:
            self._fault("its length is no multiple of 512 bytes: some are missing, or too many")
        elif self.expects_end and zeros < 1 and seen:
            self._fault("the archive has no end mark: it may have been cut off behind this member")

    def _extend(self, extension: _Extension, header: TarHeader) -> None:
        """Read what a header says of the next one."""
        if header.size > self._limits.header_bytes:
            # No header is so long. What it says of its length may be wrong, and hide what follows.
            begin = self._input.at
            for _ in self._input.search(begins_here=True):
                self._budget.check_time()
            note = (
                f"a header of {header.size:,} bytes was skipped (limit header_bytes), up to the"
                f" next one, {self._input.at - begin:,} bytes on"
            )
            extension.notes.append(note)
            return
        data = self._input.take(padded(header.size))[: header.size]
        if len(data) < header.size:
            raise self._input.damage or DamageError("it ends in the middle of a header")
        if header.long_name:
            if header.long_name == "name":
                extension.name = data.partition(b"\0")[0]
            return
        pax, ordered, sound = parse_pax(data)
        if not sound:
            extension.notes.append("a pax header is damaged, read in part")
        if header.type == b"g":
            self._globals |= pax
        else:
            extension.pax |= pax
            extension.ordered += ordered

    def _describe(self, header: TarHeader, extension: _Extension) -> TarMember:
        pax = self._globals | extension.pax
        name = pax.get("GNU.sparse.name") or pax.get("path") or extension.name or header.name
        stored = header.stored
        if pax.get("size", b"").isdigit() and header.stored == header.size:
            stored = int(pax["size"][:20])
        at = self._input.at - TAR_BLOCK if extension.at is None else extension.at
        member = TarMember(self._short(name), at, stored=stored, size=stored, link=header.link)
        member.notes += extension.notes
        member.special = SPECIAL.get(header.type)
        if header.type == SPARSE:
            member.sparse, member.size = self._old_sparse(header), header.real_size
        elif not member.special:
            self._pax_sparse(member, pax, extension.ordered)
        if header.type == CONTINUED:
            member.notes.append("continued from another volume, which is not here")
        if member.sparse is not None and not is_sound_map(
            member.sparse, member.stored, member.size
        ):
            member.notes.append("its map of holes contradicts itself; read without holes")
            member.sparse = None
        member.data_at = self._input.at
        return member

    def _short(self, name: bytes) -> bytes:
        if len(name) <= self._limits.name_bytes:
            return name
        self._fault(f"a name of {len(name):,} bytes was cut (limit name_bytes)")
        return name[: self._limits.name_bytes]

    def _old_sparse(self, header: TarHeader) -> SparseMap:
        parts, goes_on, count = header.sparse, header.sparse_goes_on, 0
        while goes_on:
            block = self._input.take(TAR_BLOCK)
            count += len(block)
            if len(block) < TAR_BLOCK or count > self._limits.header_bytes:
                raise DamageError("it ends in the middle of a map of holes")
            parts += parse_sparse(block, 0, 21)
            goes_on = block[504] != 0
        return parts

    def _pax_sparse(
        self, member: TarMember, pax: dict[str, bytes], ordered: list[tuple[str, bytes]]
    ) -> None:
        real = pax.get("GNU.sparse.realsize") or pax.get("GNU.sparse.size") or b""
        if not real.isdigit():
            return
        member.size = int(real[:20])
        if pax.get("GNU.sparse.major") == b"1":
            member.sparse = self._stored_map(member)
        else:
            member.sparse = pax_sparse_map(pax, ordered)
        if member.sparse is None:
            member.size = member.stored

    def _stored_map(self, member: TarMember) -> SparseMap:
        """Read the map that stands in front of the data: a number a line, padded to a block."""
        text, wanted = b"", 1
        numbers: list[int] = []
        while len(numbers) < wanted:
            line, found, rest = text.partition(b"\n")
            if not found:
                block = self._input.take(TAR_BLOCK)
                member.stored -= len(block)
                text += block
                if len(block) < TAR_BLOCK or member.stored < 0 or len(text) > TAR_BLOCK * 2:
                    raise DamageError("it ends in the middle of a map of holes")
                continue
            text = rest
            numbers.append(int(line) if line.isdigit() and len(line) < 21 else -1)
            if len(numbers) == 1:
                wanted = 1 + 2 * numbers[0]
                if not 0 <= wanted * 2 <= self._limits.header_bytes:
                    raise DamageError("a map of holes is too long (limit header_bytes)")
        return tuple(zip(numbers[1::2], numbers[2::2], strict=True))

    def _data(self, member: TarMember) -> Iterator[bytes]:
        if member.special:
            return
        if member.lost:
            yield from self._lost(member)
        elif member.sparse is not None:
            yield from self._with_holes(member)
        else:
            yield from self._stored(member.stored)

    def _stored(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            part = self._input.take_some(min(left, _COPY))
            if not part:
                why = f": {self._input.damage}" if self._input.damage else ""
                message = f"the archive ends {left} bytes before this file does{why}"
                raise DamageError(message)
            left -= len(part)
            yield part

    def _with_holes(self, member: TarMember) -> Iterator[bytes]:
        at = 0
        for offset, length in member.sparse or ():
            yield from self._hole(offset - at, member)
            yield from self._stored(length)
            at = offset + length
        yield from self._hole(member.size - at, member)

    def _hole(self, size: int, member: TarMember) -> Iterator[bytes]:
        given = min(size, self._budget.zeros_left())
        if given < size:
            note = f"{size - given:,} bytes of a hole were left out (limit repeated_bytes)"
            member.notes.append(note)
        while given > 0:
            part = _HOLE[: min(given, len(_HOLE))]
            self._budget.take_repeated(len(part), zeros=True)
            given -= len(part)
            yield part

    def _lost(self, member: TarMember) -> Iterator[bytes]:
        """Yield what has no header, without the zeros at its end, up to the next header."""
        zeros = b""
        if member.data_at > member.at:
            self._input.take(TAR_BLOCK)
        for part in self._input.search():
            text = zeros + part
            body = text.rstrip(b"\0")
            zeros = text[len(body) :][-_SEARCH:]
            if body:
                yield body

    def _drain(self, member: TarMember) -> None:
        """Go behind the member's data."""
        if member.special:
            self._skip(padded(member.stored), "a member")
        elif member.lost:
            while self.read(_COPY):
                pass
        else:
            end = member.data_at + padded(member.stored)
            self._held = b""
            self._skip(end - self._input.at, "a member")

    def _skip(self, size: int, what: str) -> None:
        missing = size - self._input.skip(size)
        if missing >= TAR_BLOCK:
            raise self._input.damage or DamageError(
                f"it ends {missing} bytes before the end of {what}"
            )


class _Input(ForwardInput):
    """Finds the next block with data, and the next header."""

    def skip_zeros(self) -> None:
        """Go to the block that holds the next byte that is not zero."""
        while data := self.take_some(_SEARCH):
            rest = data.lstrip(b"\0")
            if rest:
                behind = (self.at - len(rest)) % TAR_BLOCK
                self.back(data[-len(rest) - min(behind, len(data) - len(rest)) :])
                return

    def search(self, *, begins_here: bool = False) -> Iterator[bytes]:
        """Yield bytes up to the next header, wherever it begins.

        At the first byte none does, unless one may begin here.
        """
        first, size = not begins_here, _FIRST_SEARCH
        data = b""
        while True:
            more = self.take_some(size)
            size = min(2 * size, _SEARCH)
            data += more
            found = find_header(data, 1 if first else 0)
            if found is not None:
                self.back(data[found:])
                if found:
                    yield data[:found]
                return
            if not more:
                if data:
                    yield data
                return
            keep = min(len(data) - 1, TAR_BLOCK) if len(data) > TAR_BLOCK else len(data)
            if len(data) > keep:
                yield data[: len(data) - keep]
                data, first = data[len(data) - keep :], False
