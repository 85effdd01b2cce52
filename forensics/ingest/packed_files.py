"""Opens what is packed, however it is nested, as files of text; nothing is written to disk.

Every container gets an account: what was found in it, what was read, what was left out and why.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from forensics.ingest.compression import COMPRESSIONS, PeekableStream, Readable, decompress
from forensics.ingest.container_accounts import EMPTY, MOST_LISTED, ContainerAccount
from forensics.ingest.formats import TEXT_FORMATS, is_program, name_unread, sniff_format
from forensics.ingest.mail_reader import MailReader
from forensics.ingest.pushback_stream import ForwardInput
from forensics.ingest.read_limits import Budget, DamageError
from forensics.ingest.tar_headers import is_headless_tar
from forensics.ingest.tar_reader import TarMember, TarReader
from forensics.ingest.text_buffer import decode_text
from forensics.ingest.zip_headers import ZipEntry
from forensics.ingest.zip_reader import ZipStream, why_unread
from forensics.lib.limits import DEFAULT_LIMITS, Limits

# Small enough to stay in the processor's cache while it is looked at again and again.
BLOCK = 4 << 20
# A format (gzip, tar, zip, utf-16, ..), and the name of the member that was taken.
UnpackStep = tuple[str, str]
_ARCHIVES = frozenset(("tar", "zip", "ar", "mail"))
_BROKEN = (OSError, EOFError, tarfile.TarError, zlib.error, ValueError)


@dataclass
class UnpackedFile:
    """One text file on its way out of an archive; `damaged` is set when its stream breaks.

    `steps` are the formats that were opened on the way, each with the member that was taken;
    `container` is the innermost one that the file is an entry of.
    """

    file: str
    source: Readable
    damaged: str | None = None
    steps: tuple[UnpackStep, ...] = ()
    container: str | None = None
    # what is to be said of the file, though nothing of it is missing
    notes: list[str] = field(default_factory=list)

    @classmethod
    def unreadable(cls, file: str, why: str, container: str | None = None) -> UnpackedFile:
        """Build a file of which nothing can be read."""
        return cls(file, io.BytesIO(), why, container=container)


def read_blocks(unpacked: UnpackedFile, size: int = BLOCK) -> Iterator[bytes]:
    """Read a file block by block, to the end or to the place where it breaks."""
    try:
        while block := unpacked.source.read(size):
            yield block
    except DamageError as damage:
        if damage.harmless:
            unpacked.notes.append(str(damage))
        else:
            unpacked.damaged = str(damage)
    except _BROKEN as error:
        unpacked.damaged = str(error) or type(error).__name__


def name_text(name: bytes) -> str:
    """Return the name of a member as text; bytes that are no UTF-8 stay apart."""
    return name.decode("utf-8", "surrogateescape")


class UniqueNames:
    """Makes names of members unique: the second of a name gets a number.

    >>> names = UniqueNames()
    >>> [names.take(one) for one in ("a", "b", "a")]
    ['a', 'b', 'a#2']
    """

    def __init__(self) -> None:
        """Begin with no name; only digests of names are kept, as there may be many."""
        self._seen: set[int] = set()
        self._again: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return the name, or the name with a number."""
        key = hash(name)
        if key not in self._seen:
            self._seen.add(key)
            return name
        number = self._again.get(name, 1) + 1
        self._again[name] = number
        return f"{name}#{number}"


class _Walk(Protocol):
    faults: list[str]
    notes: list[str]


@dataclass
class _Place:
    """Where something lies: its name, the steps to it, the container around it."""

    name: str
    steps: tuple[UnpackStep, ...] = ()
    parent: ContainerAccount | None = None
    # the compressions since that container
    packing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Unpacker:
    """Opens what one file on disk, or a part of it, holds; accounts are left in `finished`."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, packed: int | None = None) -> None:
        """Open with these limits; `packed` is the size on disk."""
        self.budget = Budget(limits, packed)
        self.finished: list[ContainerAccount] = []
        self._empty = self._refused = 0

    def unpack(
        self,
        name: str,
        source: Readable,
        steps: tuple[UnpackStep, ...] = (),
        parent: str | None = None,
    ) -> Iterator[UnpackedFile]:
        """Yield the text files of a stream, which may be compressed, an archive, or both.

        `parent` is the container whose account, elsewhere, counts this stream as an entry.
        """
        outer = None if parent is None else ContainerAccount(parent)
        yield from self._open(source, _Place(name, steps, outer))
        if outer is not None:
            # What it is an entry of has been counted where it was found.
            self.finished.append(outer)

    def unpack_section(self, name: str, reader: TarReader, count: int) -> Iterator[UnpackedFile]:
        """Yield the files of a part of a tar, in which a plan has counted so many."""
        account = ContainerAccount(name)
        yield from self._tar_members(reader, account, _Place(name), counted=True)
        yield from self._finish_section(account, reader, count)

    def unpack_records(
        self, name: str, entries: Iterator[tuple[ZipEntry, Readable]], count: int
    ) -> Iterator[UnpackedFile]:
        """Yield the files of a part of a zip, in which a plan has counted so many."""
        account, names = ContainerAccount(name), UniqueNames()
        for entry, source in entries:
            if why := self.budget.exhausted():
                account.note_fault(why)
                break
            yield from self.open_zip_entry(entry, source, names, account, name)
        yield from self._finish_section(account, None, count)

    def _finish_section(
        self, account: ContainerAccount, walk: _Walk | None, count: int
    ) -> Iterator[UnpackedFile]:
        missing = count - account.read - account.left_out.total()
        self._finish(account, walk)
        if missing > 0:
            why = account.faults[0] if account.faults else "no longer where it was found first"
            account.note_fault(why)
            account.leave_out(why, count=missing)
        if account.faults:
            yield UnpackedFile.unreadable(account.name, "; ".join(account.faults))

    def refuse(self, name: str, why: str, container: ContainerAccount) -> Iterator[UnpackedFile]:
        """Leave out an entry that was found, and name it, unless there are very many."""
        self._refused += 1
        listed = self._refused <= MOST_LISTED
        container.leave_out(why, name, listed=listed)
        if listed:
            yield UnpackedFile.unreadable(name, why, container.name)

    def _open(self, source: Readable, place: _Place) -> Iterator[UnpackedFile]:
        head = PeekableStream(source)
        if not head.head and not place.packing and not head.is_damaged:
            self._empty += 1
            if self._empty > MOST_LISTED and place.parent is not None:
                place.parent.leave_out(EMPTY, place.name)
                return
        kind = sniff_format(head.head)
        if kind == "plain" and is_headless_tar(head.head):
            kind = "tar"
        if kind == "plain" and is_program(head.head) and self._is_self_extracting(head):
            kind = "zip"
        if kind in COMPRESSIONS or kind in _ARCHIVES:
            if len(place.steps) > self.budget.limits.depth:
                why = f"archives nested more than {self.budget.limits.depth} deep; not opened"
                yield from self._refuse_nested(place, why)
            elif kind in COMPRESSIONS:
                inner = _Place(
                    place.name, (*place.steps, (kind, "")), place.parent,
                    (*place.packing, kind), place.notes,
                )  # fmt: skip
                yield from self._open(decompress(head, kind, self.budget), inner)
            else:
                yield from self._open_archive(head, kind, place)
            return
        if unread := name_unread(head.head):
            yield from self._refuse_nested(place, unread)
            return
        text: Readable = _Metered(head, self.budget)
        steps = place.steps
        if kind in TEXT_FORMATS:
            text, steps = decode_text(text, kind), (*steps, (kind, ""))
        yield UnpackedFile(
            place.name, text, None, steps, self._count_leaf(place), list(place.notes)
        )

    def _is_self_extracting(self, head: PeekableStream) -> bool:
        """Look into the beginning of a program for the zip that it unpacks."""
        data = head.read_ahead(_PROGRAM_BYTES)
        at = data.find(b"PK\x03\x04")
        while at >= 0:
            if at + 30 <= len(data) and data[at + 4] <= 63 and data[at + 26 : at + 28] != b"\0\0":
                return True
            at = data.find(b"PK\x03\x04", at + 1)
        return False

    def _refuse_nested(self, place: _Place, why: str) -> Iterator[UnpackedFile]:
        if place.packing:
            account = self._compressed(place)
            account.leave_out(why, listed=True)
            self.finished.append(account)
            yield UnpackedFile.unreadable(place.name, why, account.name)
        elif place.parent is None:
            yield UnpackedFile.unreadable(place.name, why)
        else:
            yield from self.refuse(place.name, why, place.parent)

    def _compressed(self, place: _Place) -> ContainerAccount:
        """Account for a file that is only compressed: a container of one entry."""
        account = ContainerAccount(place.name, _name(place.parent), ", ".join(place.packing))
        account.entries = 1
        if place.parent is not None:
            place.parent.read += 1
        return account

    def _count_leaf(self, place: _Place) -> str | None:
        if place.packing:
            account = self._compressed(place)
            account.read = 1
            self.finished.append(account)
            return account.name
        if place.parent is None:
            return None
        place.parent.read += 1
        return place.parent.name

    def _open_archive(self, source: Readable, kind: str, place: _Place) -> Iterator[UnpackedFile]:
        form = ", ".join([*place.packing, kind])
        account = ContainerAccount(place.name, _name(place.parent), form)
        if place.parent is not None:
            place.parent.read += 1
        inner = _Place(place.name, place.steps, account)
        walk: TarReader | ZipStream | ArReader | MailReader
        if kind == "tar":
            walk = TarReader(source, self.budget)
            yield from self._tar_members(walk, account, inner)
        elif kind == "zip":
            walk = ZipStream(source, self.budget)
            yield from self._zip_entries(walk, account, inner)
        elif kind == "mail":
            walk = MailReader(source, self.budget)
            yield from self._mail_parts(walk, account, inner)
        else:
            walk = ArReader(source, self.budget)
            yield from self._ar_members(walk, account, inner)
        self._finish(account, walk)
        if account.faults:
            yield UnpackedFile.unreadable(place.name, "; ".join(account.faults))

    def _finish(self, account: ContainerAccount, walk: _Walk | None) -> None:
        for fault in walk.faults if walk else ():
            account.note_fault(fault)
        if walk and walk.notes:
            account.how = "; ".join([account.how, *walk.notes])
        account.limits = list(dict.fromkeys(self.budget.met))
        self.finished.append(account)

    def _tar_members(
        self, walk: TarReader, account: ContainerAccount, place: _Place, *, counted: bool = False
    ) -> Iterator[UnpackedFile]:
        """Yield the files of a tar; `counted`: a plan has counted its entries."""
        names = UniqueNames()
        for member in walk:
            account.entries += not counted
            if why := self.budget.exhausted():
                self._stop(account, why, counted=counted)
                return
            name = name_text(member.name)
            if member.special:
                if not counted:
                    account.leave_out(f"{member.special}: not followed", name)
                continue
            yield from self._open_tar_member(walk, member, name, names, account, place)

    def _open_tar_member(  # noqa: PLR0913, PLR0917
        self, walk: TarReader, member: TarMember, name: str, names: UniqueNames,
        account: ContainerAccount, place: _Place,
    ) -> Iterator[UnpackedFile]:  # fmt: skip
        notes = list(member.notes)
        if member.lost:
            at = f"@{member.at}"
            name = f"{name}{at}" if name else at
            notes.append(f"no valid header at byte {member.at} of the archive: read up to the next")
        unique = names.take(name)
        if unique != name:
            notes.append(SAME_NAME)
        taken = (*place.steps, ("tar", name))
        inside = _Place(f"{place.name}!{unique}", taken, account, notes=tuple(notes))
        yield from self._open(walk, inside)
        if late := [note for note in member.notes if note not in notes]:
            account.faults += [f"{name}: {note}" for note in late]

    def _zip_entries(
        self, walk: ZipStream, account: ContainerAccount, place: _Place
    ) -> Iterator[UnpackedFile]:
        names = UniqueNames()
        account.how = "in order, by local headers"
        for entry, source in walk:
            account.entries += 1
            if why := self.budget.exhausted():
                self._stop(account, why)
                break
            yield from self.open_zip_entry(entry, source, names, account, place.name, place.steps)
        for missing in walk.missing:
            account.entries += 1
            why = "named by the directory, and not there"
            missed = f"{place.name}!{names.take(name_text(missing))}"
            yield from self.refuse(missed, why, account)

    def open_zip_entry(  # noqa: PLR0913, PLR0917
        self, entry: ZipEntry, source: Readable, names: UniqueNames, account: ContainerAccount,
        archive: str, steps: tuple[UnpackStep, ...] = (),
    ) -> Iterator[UnpackedFile]:  # fmt: skip
        """Yield the files of one entry, or leave it out."""
        name = name_text(entry.name)
        if entry.is_folder or entry.is_link:
            reason = "folders" if entry.is_folder else "symbolic links"
            account.leave_out(f"{reason}: not followed", name)
            return
        unique = names.take(name)
        label = f"{archive}!{unique}"
        if why := why_unread(entry):
            yield from self.refuse(label, why, account)
            return
        notes = (SAME_NAME,) if unique != name else ()
        yield from self._open(source, _Place(label, (*steps, ("zip", name)), account, notes=notes))

    def _ar_members(
        self, walk: ArReader, account: ContainerAccount, place: _Place
    ) -> Iterator[UnpackedFile]:
        names = UniqueNames()
        for member in walk:
            account.entries += 1
            if why := self.budget.exhausted():
                self._stop(account, why)
                return
            name = name_text(member.name)
            unique = names.take(name)
            notes = (SAME_NAME,) if unique != name else ()
            taken = (*place.steps, ("ar", name))
            yield from self._open(
                walk, _Place(f"{place.name}!{unique}", taken, account, notes=notes)
            )

    def _mail_parts(
        self, walk: MailReader, account: ContainerAccount, place: _Place
    ) -> Iterator[UnpackedFile]:
        names = UniqueNames()
        for part in walk:
            account.entries += 1
            if why := self.budget.exhausted():
                self._stop(account, why)
                return
            name = name_text(part.name)
            if part.skipped:
                account.leave_out(part.skipped, name)
                continue
            unique = names.take(name)
            taken = (*place.steps, ("mail", unique))
            yield from self._open(walk, _Place(f"{place.name}!{unique}", taken, account))

    def _stop(self, account: ContainerAccount, why: str, *, counted: bool = False) -> None:
        """Leave out this entry and all behind it, which are not even counted."""
        account.note_fault(why)
        if not counted:
            account.leave_out(why)


SAME_NAME = "another member of this name stands before it; unpacking would keep only the last"
_PROGRAM_BYTES = 1 << 20


def _name(account: ContainerAccount | None) -> str | None:
    return None if account is None else account.name


class _Metered:
    """Text whose length counts against the limits."""

    def __init__(self, source: Readable, budget: Budget) -> None:
        self._source, self._budget = source, budget

    def read(self, size: int = -1, /) -> bytes:
        part = self._source.read(size)
        self._budget.take_text(len(part))
        return part


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
