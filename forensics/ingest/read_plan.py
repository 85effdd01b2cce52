"""Plans the reading: lists the files, and splits them into pieces of work."""

from __future__ import annotations

import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from forensics.errors import ArchiveError
from forensics.ingest.compression import SNIFF_BYTES, sniff_format
from forensics.lib import storage
from forensics.lib.secrets import NameMasker, mask_text
from forensics.settings import SPLIT_SIZE

_ROLES = {"range", "stream", "digest"}


@dataclass(frozen=True)
class Split:
    """A piece of work: a range of plain bytes, a whole stream, or the digest of a whole file."""

    file: str
    path: str
    role: str = "stream"
    number: int = 0
    begin: int = 0
    end: int = 0
    size: int = 0
    data_offset: int = 0
    member: str | None = None

    def __post_init__(self) -> None:
        if self.role not in _ROLES or self.end < self.begin:
            message = f"impossible split: {self}"
            raise ValueError(message)

    @property
    def bytes(self) -> int:
        """Bytes of logs; none for a digest, which reads what other splits read, too."""
        return 0 if self.role == "digest" else self.end - self.begin

    @property
    def cost(self) -> int:
        """Bytes to read; opening a file costs some, too."""
        return (self.end - self.begin) + (64 << 10)


@dataclass(frozen=True)
class ReadPlan:
    """All splits, and the files that cannot be read at all, with the reason."""

    splits: tuple[Split, ...]
    problems: tuple[tuple[str, str], ...]


def plan_reading(archives: Sequence[str], split_size: int = SPLIT_SIZE) -> ReadPlan:
    """List the files of all archives and split the large plain ones."""
    problems: list[tuple[str, str]] = []
    files = list(list_files(archives, problems))
    plan = split_files(files, split_size)
    problems += plan.problems
    if not plan.splits:
        raise nothing_to_read_error(archives, problems)
    return ReadPlan(plan.splits, tuple(problems))


def nothing_to_read_error(
    archives: Sequence[str], problems: Iterable[tuple[str, str]] = ()
) -> ArchiveError:
    """Return the error that there is nothing in the archives, and why."""
    why = "; ".join(f"{label}: {says}" for label, says in problems) or "no files in them"
    return ArchiveError(f"nothing to read in {', '.join(map(storage.display, archives))} ({why})")


def split_files(files: Iterable[tuple[str, str]], split_size: int = SPLIT_SIZE) -> ReadPlan:
    """Split files, given by name and path; the large plain ones into many pieces."""
    splits: list[Split] = []
    problems: list[tuple[str, str]] = []
    for label, path in files:
        try:
            splits += _split_file(label, path, split_size)
        except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            problems.append((label, _reason(path, error)))
    # From here on files have names without secrets.
    names = NameMasker().mask_all([s.file for s in splits] + [label for label, _ in problems])
    splits = [s if names[s.file] == s.file else replace(s, file=names[s.file]) for s in splits]
    return ReadPlan(tuple(splits), tuple((names[label], mask_text(why)) for label, why in problems))


def bundle_splits(splits: Iterable[Split], workers: int) -> list[tuple[Split, ...]]:
    """Bundle splits so that small files share a task, and every worker has some."""
    ordered = sorted(splits, key=lambda split: (-split.cost, split.file, split.number, split.role))
    total = sum(split.cost for split in ordered)
    count = max(1, min(len(ordered), 2000, max(workers, total // SPLIT_SIZE + 1)))
    bundles: list[list[Split]] = [[] for _ in range(count)]
    loads = [0] * count
    for split in ordered:
        lightest = loads.index(min(loads))
        bundles[lightest].append(split)
        loads[lightest] += split.cost
    return [tuple(bundle) for bundle in bundles if bundle]


def list_files(
    archives: Sequence[str], problems: list[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield name and path of every file; a name begins with that of its archive, made unique."""

    def note(error: OSError) -> None:
        problems.append((str(error.filename), _reason(str(error.filename), error)))

    taken = Counter[str]()
    for archive in archives:
        name = storage.base_name(archive)
        taken[name] += 1
        label = name if taken[name] == 1 else f"{name}#{taken[name]}"
        try:
            if not storage.is_folder(archive):
                yield label, storage.absolute(archive)
                continue
            for below, path in storage.walk_files(archive, note):
                yield f"{label}/{below}", path
        except OSError as error:
            note(error)


def _split_file(label: str, path: str, split_size: int) -> Iterator[Split]:
    size = storage.file_size(path)
    with storage.open_file(path) as file:
        head = file.read(SNIFF_BYTES)
    kind = sniff_format(head)
    if kind == "plain":
        yield from _ranges(label, path, 0, size, split_size)
    elif kind == "tar":
        yield from _split_tar(label, path, split_size)
    elif kind == "zip":
        yield from _split_zip(label, path)
    else:
        yield Split(label, path, end=size, size=size)


def _ranges(label: str, path: str, at: int, size: int, split_size: int) -> Iterator[Split]:
    begins = range(0, size, split_size) if size else (0,)
    for number, begin in enumerate(begins):
        end = min(begin + split_size, size)
        yield Split(label, path, "range", number, begin, end, size, at)
    if size > split_size:
        # A digest is read in one go: a file of several splits has a split for its digest alone.
        yield Split(label, path, "digest", 0, 0, size, size, at)


def _split_tar(label: str, path: str, split_size: int) -> Iterator[Split]:
    """Plan an uncompressed tar: plain members are ranges of it, the others streams."""
    with (
        storage.open_file(path) as index,
        tarfile.open(fileobj=index, mode="r:") as archive,
        storage.open_file(path) as file,
    ):
        try:
            members = [member for member in archive if member.isreg()]
        except tarfile.TarError:
            yield Split(label, path, end=storage.file_size(path))
            return
        for member in members:
            file.seek(member.offset_data)
            name = f"{label}!{member.name}"
            if sniff_format(file.read(min(SNIFF_BYTES, member.size))) == "plain":
                yield from _ranges(name, path, member.offset_data, member.size, split_size)
            else:
                size = member.size
                yield Split(name, path, end=size, size=size, data_offset=member.offset_data)


def _split_zip(label: str, path: str) -> Iterator[Split]:
    with storage.open_file(path) as file, zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                name, size = f"{label}!{info.filename}", info.compress_size
                yield Split(name, path, end=size, size=size, member=info.filename)


def _reason(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no file or folder {storage.display(path)}"
    if isinstance(error, PermissionError):
        return f"{storage.display(path)} may not be read; check its permissions"
    return f"cannot be opened: {error}"
