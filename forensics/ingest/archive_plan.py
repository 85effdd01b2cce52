"""Plans archives on disk: large plain members as ranges, small ones together, all others apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

import numpy as np

from forensics.ingest.container_accounts import EMPTY, MOST_LISTED, ContainerAccount
from forensics.ingest.formats import SNIFF_BYTES, name_unread, sniff_format
from forensics.ingest.packed_files import SAME_NAME, UniqueNames, name_text
from forensics.ingest.read_limits import ZEROS_WEIGH, Budget
from forensics.ingest.read_plan import FilePlanner, Split
from forensics.ingest.tar_reader import TarMember, TarReader
from forensics.ingest.zip_headers import (
    LOCAL,
    LOCAL_HEADER,
    ZipDirectory,
    ZipEntry,
    ZipError,
    find_directory,
    read_directory,
)
from forensics.ingest.zip_reader import why_unread

# Up to so many small members have a split each; the rest share some.
_ALONE = 256
_SMALL = 1 << 20
_STRETCH = 16 << 20
_STRETCH_ENTRIES = 2000
# Nothing at all, as zip packs it.
_EMPTY_PACKED = 2
# What may stand between two entries of a zip: sizes, and what aligns the next one.
_SLACK = 24 + (64 << 10)


class _Disk(io.RawIOBase):
    """An archive on disk as a source that can skip."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._at, self._size = file, 0, size

    def read(self, size: int = -1, /) -> bytes:
        self._file.seek(self._at)
        part = self._file.read(size)
        self._at += len(part)
        return part

    def skip(self, size: int) -> int:
        """Go forward without reading."""
        gone = max(0, min(size, self._size - self._at))
        self._at += gone
        return gone


def plan_tar(planner: FilePlanner, file: IO[bytes], size: int) -> None:
    """Plan an uncompressed tar: plain members are ranges of it, all others streams."""
    account = planner.begin_archive("tar", "member by member", size)
    budget = Budget(planner.limits)
    reader = TarReader(_Disk(file, size), budget)
    names, small = UniqueNames(), _Stretch(planner, account)
    for member in reader:
        account.entries += 1
        name = name_text(member.name)
        if why := budget.exhausted():
            account.leave_out(why, name)
            account.note_fault(why)
            break
        if why := small.why_left_out(member):
            account.leave_out(why, name)
            continue
        unique = name if member.lost else names.take(name)
        if unique != name:
            _add_namesake(planner, account, member, unique)
        elif member.lost or not member.is_plain or member.data_at + member.stored > size:
            # Only walking over it tells where it ends.
            while member.lost and reader.read(_SMALL):
                pass
            end = reader.at if member.lost else member.data_at + member.stored
            small.add_alone(member, min(end, size))
        elif member.stored <= _SMALL and small.wants():
            small.add(member)
        else:
            _add_member(planner, file, account, member, name)
    small.close()
    account.limits = budget.met
    for fault in reader.faults:
        account.note_fault(fault)
    if account.faults:
        planner.problems.append((planner.label, "; ".join(account.faults)))


def _add_member(
    planner: FilePlanner, file: IO[bytes], account: ContainerAccount, member: TarMember, name: str
) -> None:
    file.seek(member.data_at)
    head = file.read(min(SNIFF_BYTES, member.stored))
    label, steps = f"{planner.label}!{name}", (("tar", name),)
    if sniff_format(head) == "plain" and name_unread(head) is None:
        planner.add_ranges(label, member.data_at, member.stored, account, steps)
    else:
        size = member.stored
        planner.splits.append(
            Split(
                label, planner.path, end=size, size=size, data_offset=member.data_at, steps=steps,
                container=account.name, limits=planner.limits,
            )
        )  # fmt: skip


def _add_namesake(
    planner: FilePlanner, account: ContainerAccount, member: TarMember, unique: str
) -> None:
    size = member.stored
    planner.splits.append(
        Split(
            f"{planner.label}!{unique}", planner.path, end=size, size=size,
            data_offset=member.data_at, steps=(("tar", name_text(member.name)),),
            container=account.name, note=SAME_NAME, limits=planner.limits,
        )
    )  # fmt: skip


class _Stretch:
    """Small members that follow each other, and are read by one split."""

    def __init__(self, planner: FilePlanner, account: ContainerAccount) -> None:
        self._planner, self._account = planner, account
        self._seen = self._empty = 0
        self._begin = self._end = self._entries = 0

    def why_left_out(self, member: TarMember) -> str | None:
        """Say why a member is not read, if so: it is no file, or one of many empty ones."""
        if member.special:
            return f"{member.special}: not followed"
        is_empty = member.is_plain and not member.stored
        self._empty += is_empty
        if not is_empty or self._empty <= MOST_LISTED:
            return None
        # A stretch must not reach over it.
        self.close()
        return EMPTY

    def wants(self) -> bool:
        """Return True if small members are so many that they have to share."""
        self._seen += 1
        return self._seen > _ALONE

    def add(self, member: TarMember) -> None:
        """Add a member."""
        end = member.data_at + member.stored
        follows = self._entries and 0 <= member.at - self._end < 1024
        full = self._entries >= _STRETCH_ENTRIES or self._end - self._begin > _STRETCH
        if not follows or full:
            self.close()
            self._begin = member.at
        self._end = end
        self._entries += 1

    def add_alone(self, member: TarMember, end: int) -> None:
        """Add a member that only its own reader understands."""
        self.close()
        self._begin, self._end, self._entries = member.at, end, 1
        self.close()

    def close(self) -> None:
        """End the split."""
        if self._entries:
            length = self._end - self._begin
            self._planner.splits.append(
                Split(
                    self._planner.label, self._planner.path, "tar", end=length, size=length,
                    data_offset=self._begin, container=self._account.name, entries=self._entries,
                    limits=self._planner.limits,
                )
            )  # fmt: skip
        self._entries = 0


def plan_zip(planner: FilePlanner, file: IO[bytes], size: int) -> None:
    """Plan a zip by its directory; without a sound one it is read entry by entry, in one go."""
    directory = find_directory(file, size)
    sound = directory is not None and directory.size <= planner.limits.header_bytes * 256
    places = _Places()
    if directory is None or not sound or not places.collect(file, directory):
        planner.add_stream(size)
        return
    if not places.cover(file, directory):
        # It holds entries that its directory does not name.
        planner.add_stream(size)
        return
    account = planner.begin_archive("zip", "by its directory", size)
    _say_what_is_around(directory, account)
    budget = Budget(planner.limits)
    stretch = _Records(planner, account, directory.shift)
    names, hollow = UniqueNames(), _Hollow(planner)
    for number, (at, entry) in enumerate(
        read_directory(file, directory.at, directory.size, directory.shift)
    ):
        account.entries += 1
        name = name_text(entry.name)
        if why := budget.exhausted():
            account.leave_out(why, name)
            account.note_fault(why)
            break
        if why := stretch.why_left_out(entry):
            account.leave_out(why, name)
            continue
        unique = names.take(name)
        why = places.fault(number) or why_unread(entry) or hollow.refuse(entry)
        if why:
            if account.left_out[why] < MOST_LISTED:
                planner.problems.append((f"{planner.label}!{unique}", why))
            account.leave_out(why, name)
            stretch.close()
            continue
        stretch.add(at, entry, unique, alone=number < _ALONE or unique != name)
    stretch.close()
    account.limits = budget.met
    if account.faults:
        planner.problems.append((planner.label, "; ".join(account.faults)))


def _say_what_is_around(directory: ZipDirectory, account: ContainerAccount) -> None:
    if directory.shift:
        account.how = f"by its directory, behind {directory.shift:,} bytes of something else"
    if directory.trailing:
        account.note_fault(f"{directory.trailing:,} bytes that are no zip follow its end, unread")


class _Hollow:
    """Entries that unpack to far more than any log does; some may, but not all together."""

    def __init__(self, planner: FilePlanner) -> None:
        self._limits, self._size = planner.limits, 0

    def refuse(self, entry: ZipEntry) -> str | None:
        """Say why an entry is not read, if so."""
        if entry.size > self._limits.ratio * max(1, entry.packed):
            self._size += entry.size
            if self._size > ZEROS_WEIGH * self._limits.repeated_bytes:
                ratio = self._limits.ratio
                return f"it would unpack to more than {ratio} times its size (limit ratio)"
        return None


class _Places:
    """Where the entries of a zip lie: none may overlap, and together they must fill the file."""

    def __init__(self) -> None:
        self._begins = self._ends = np.zeros(0, np.int64)
        self._faults: dict[int, str] = {}

    def fault(self, number: int) -> str | None:
        """Say what is wrong with the place of an entry, by its number in the directory."""
        return self._faults.get(number)

    def collect(self, file: IO[bytes], directory: ZipDirectory) -> bool:
        """Look at every local header; False if the directory is broken."""
        begins: list[int] = []
        packed: list[int] = []
        try:
            for _, entry in read_directory(file, directory.at, directory.size, directory.shift):
                begins.append(entry.at)
                packed.append(entry.packed)
        except ZipError:
            return False
        if len(begins) & 0xFFFF != directory.entries & 0xFFFF:
            return False
        lengths = list(self._headers(file, begins))
        self._begins = np.minimum(np.array(begins, np.float64), 2.0**62).astype(np.int64)
        packed_sizes = np.minimum(np.array(packed, np.float64), 2.0**62).astype(np.int64)
        self._ends = self._begins + np.array(lengths, np.int64) + packed_sizes
        self._refuse_overlaps(directory.at)
        return True

    def _headers(self, file: IO[bytes], begins: list[int]) -> Iterator[int]:
        for number, begin in enumerate(begins):
            file.seek(min(begin, 1 << 62))
            header = file.read(LOCAL_HEADER.size)
            if len(header) < LOCAL_HEADER.size or header[:4] != LOCAL:
                self._faults[number] = "the entry's header is not where the index says"
                yield 0
                continue
            *_, names, extras = LOCAL_HEADER.unpack(header)
            yield LOCAL_HEADER.size + names + extras

    def _refuse_overlaps(self, limit: int) -> None:
        order = np.argsort(self._begins, kind="stable")
        reached = 0
        for number in order.tolist():
            if number in self._faults:
                continue
            begin, end = int(self._begins[number]), int(self._ends[number])
            if begin < reached:
                self._faults[number] = "it overlaps another entry; refused"
            elif end > limit:
                self._faults[number] = "it reaches into the directory; refused"
            else:
                reached = end

    def cover(self, file: IO[bytes], directory: ZipDirectory) -> bool:
        """Return False if another entry lies where the directory names none."""
        good = np.array([number not in self._faults for number in range(len(self._begins))], bool)
        begins, ends = np.sort(self._begins[good]), np.sort(self._ends[good])
        gap_begins = np.concatenate([[0], ends])
        gap_ends = np.concatenate([begins, [directory.at]])
        for begin, end in zip(gap_begins.tolist(), gap_ends.tolist(), strict=True):
            if end - begin >= LOCAL_HEADER.size and not self._faults:
                file.seek(begin)
                data = file.read(min(end - begin, _SLACK))
                if LOCAL in data:
                    return False
        return True


class _Records:
    """Records of a directory that follow each other, and are read by one split."""

    def __init__(self, planner: FilePlanner, account: ContainerAccount, shift: int) -> None:
        self._planner, self._account, self._shift = planner, account, shift
        self._begin = self._packed = self._entries = self._empty = 0

    def why_left_out(self, entry: ZipEntry) -> str | None:
        """Say why an entry is not read, if so: it is no file, or one of many empty ones."""
        why = None
        if entry.is_folder or entry.is_link:
            why = f"{'folders' if entry.is_folder else 'symbolic links'}: not followed"
        elif not entry.size and entry.packed <= _EMPTY_PACKED:
            self._empty += 1
            why = EMPTY if self._empty > MOST_LISTED else None
        if why:
            self.close()
        return why

    def add(self, at: int, entry: ZipEntry, unique: str, *, alone: bool) -> None:
        """Add an entry by the place of its record; one that is large stands alone."""
        if alone or entry.packed > _SMALL:
            self.close()
            label = f"{self._planner.label}!{unique}"
            name = name_text(entry.name)
            split = self._split(label, at, entry.packed, 1)
            note = SAME_NAME if unique != name else None
            self._planner.splits.append(replace(split, steps=(("zip", name),), note=note))
            return
        if self._entries >= _STRETCH_ENTRIES or self._packed > _STRETCH:
            self.close()
        if not self._entries:
            self._begin = at
        self._entries += 1
        self._packed += entry.packed

    def _split(self, label: str, at: int, packed: int, entries: int) -> Split:
        return Split(
            label, self._planner.path, "zip", end=packed, size=packed, data_offset=at,
            container=self._account.name, entries=entries, shift=self._shift,
            limits=self._planner.limits,
        )  # fmt: skip

    def close(self) -> None:
        """End the split."""
        if self._entries:
            self._planner.splits.append(
                self._split(self._planner.label, self._begin, self._packed, self._entries)
            )
        self._begin = self._packed = self._entries = 0
