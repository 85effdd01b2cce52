"""Plans the reading: lists the files, and splits them into pieces of work.

A plan does not grow with the number of small files in an archive: these share a split, which reads
a stretch of the archive.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from threading import Lock
from typing import IO

from forensics.errors import ArchiveError
from forensics.ingest.container_accounts import ContainerAccount
from forensics.ingest.formats import (
    SNIFF_BYTES,
    is_program,
    name_unread,
    sniff_format,
)
from forensics.ingest.inputs import Inputs
from forensics.ingest.packed_files import UniqueNames, UnpackStep
from forensics.ingest.tar_headers import is_headless_tar
from forensics.ingest.zip_headers import END, END_RECORD
from forensics.lib import storage
from forensics.lib.limits import DEFAULT_LIMITS, Limits
from forensics.lib.secrets import NameMasker, mask_text
from forensics.settings import SPLIT_SIZE

WHERE_LOGS_ARE = (
    "Kafka writes its logs to logs/ in its own folder, to /var/log/kafka or where LOG_DIR says"
    " (server.log, controller.log, state-change.log), in containers to their output;"
    ' docs/collect-logs.md ("Collect the logs") has a command for each.'
)

_ROLES = {"range", "stream", "digest", "tar", "zip"}


@dataclass(frozen=True)
class Split:
    """A piece of work: a range of plain bytes, a whole stream, or the digest of a whole file.

    A stretch of a `tar`, or of the directory of a `zip`, holds `entries` small files. `steps` are
    the formats that the plan has opened; `container` is what the file is an entry of.
    """

    file: str
    path: str
    role: str = "stream"
    number: int = 0
    begin: int = 0
    end: int = 0
    size: int = 0
    data_offset: int = 0
    steps: tuple[UnpackStep, ...] = ()
    container: str | None = None
    entries: int = 0
    # how far places in a zip are behind what its directory says
    shift: int = 0
    note: str | None = None
    limits: Limits = DEFAULT_LIMITS

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
        return (self.end - self.begin) + (64 << 10) + self.entries * (16 << 10)

    def renamed(self, names: dict[str, str]) -> Split:
        """Return the split with names as they are shown."""
        file, container = names[self.file], self.container and names[self.container]
        if (file, container) == (self.file, self.container):
            return self
        return replace(self, file=file, container=container)


@dataclass(frozen=True)
class ReadPlan:
    """All splits, the files that cannot be read at all with the reason, and the containers."""

    splits: tuple[Split, ...]
    problems: tuple[tuple[str, str], ...]
    containers: tuple[ContainerAccount, ...] = ()


def estimate_text_bytes(split: Split) -> float:
    """Return about how many bytes of text a split holds: logs pack to about a tenth."""
    return split.bytes * (1 if split.role in ("range", "tar") else 10)


# A store takes its time to answer, and answers many at once.
_CONNECTIONS, _LOOKED_AT = 64, 128 << 10
_COUNTING = Lock()


def _plan_all(
    planners: Iterable[FilePlanner],
) -> Iterator[tuple[FilePlanner, OSError | ValueError | None]]:
    """Look at all files, many in a store at once; yield each in order, with what went wrong."""

    def look(planner: FilePlanner) -> tuple[FilePlanner, OSError | ValueError | None]:
        try:
            planner.plan()
        except (OSError, ValueError) as error:
            return planner, error
        return planner, None

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for is_far, some in groupby(planners, lambda planner: storage.is_remote(planner.path)):
            at_once = pool.map if is_far else map
            yield from at_once(look, some)


@dataclass
class FoundFiles:
    """What a listing found besides files: what cannot be read, and the folders."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    folders: dict[str, ContainerAccount] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanOptions:
    """How a file is to be split."""

    split_size: int = SPLIT_SIZE
    limits: Limits = DEFAULT_LIMITS


def plan_reading(
    archives: Sequence[str], split_size: int = SPLIT_SIZE, limits: Limits = DEFAULT_LIMITS
) -> ReadPlan:
    """List the files of all archives and split the large plain ones."""
    return plan_inputs(Inputs(list(archives)), split_size, limits)


def plan_inputs(
    inputs: Inputs, split_size: int = SPLIT_SIZE, limits: Limits = DEFAULT_LIMITS
) -> ReadPlan:
    """List the files of all inputs and split the large plain ones."""
    found = FoundFiles(list(inputs.problems))
    files = list_files(inputs.archives, found.problems, found.folders, inputs.spooled)
    plan = split_files(files, split_size, limits, found)
    if not plan.splits:
        names = [*inputs.archives, *(name for name, _ in inputs.spooled)]
        raise nothing_to_read_error(names or ["the inputs"], plan.problems)
    return plan


# More reasons than this nobody reads in one sentence.
_MOST_REASONS = 3


def nothing_to_read_error(
    archives: Sequence[str], problems: Iterable[tuple[str, str]] = ()
) -> ArchiveError:
    """Return the error that there is nothing in the archives, and why."""
    reasons = [f"{label}: {says}" for label, says in problems]
    why = "; ".join(reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        why += f"; and {len(reasons) - _MOST_REASONS:,} more"
    begin = f"nothing to read in {', '.join(map(storage.display, archives))}"
    return ArchiveError(f"{begin} ({why})" if why else f"{begin}: no files. {WHERE_LOGS_ARE}")


def split_files(
    files: Iterable[tuple[str, str]],
    split_size: int = SPLIT_SIZE,
    limits: Limits = DEFAULT_LIMITS,
    found: FoundFiles | None = None,
) -> ReadPlan:
    """Split files, given by name and path; the large plain ones into many pieces."""
    found = found or FoundFiles()
    splits: list[Split] = []
    containers: list[ContainerAccount] = []
    options = PlanOptions(split_size, limits)
    planners = (
        FilePlanner(label, path, found.folders.get(label.partition("/")[0]), options)
        for label, path in files
    )
    for planner, error in _plan_all(planners):
        if error is not None:
            found.problems.append((planner.label, _reason(planner.path, error)))
            if planner.folder is not None:
                planner.folder.leave_out("could not be opened", planner.label)
            continue
        splits += planner.splits
        containers += planner.containers
        found.problems += planner.problems
    containers += found.folders.values()
    # From here on files have names without secrets.
    named = [name for split in splits for name in (split.file, split.container) if name]
    named += [name for one in containers for name in (one.name, one.parent) if name]
    names = NameMasker().mask_all(named + [label for label, _ in found.problems])
    return ReadPlan(
        tuple(split.renamed(names) for split in splits),
        tuple((names[label], mask_text(why)) for label, why in found.problems),
        tuple(one.renamed(names) for one in containers),
    )


def bundle_splits(splits: Iterable[Split], workers: int) -> list[tuple[Split, ...]]:
    """Bundle splits so that small files share a task, and every worker has some."""
    ordered = sorted(
        splits,
        key=lambda split: (-split.cost, split.file, split.number, split.role, split.data_offset),
    )
    total = sum(split.cost for split in ordered)
    count = max(1, min(len(ordered), 2000, max(workers, total // SPLIT_SIZE + 1)))
    bundles: list[list[Split]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for split in ordered:
        load, lightest = loads[0]
        bundles[lightest].append(split)
        heapq.heapreplace(loads, (load + split.cost, lightest))
    return [tuple(bundle) for bundle in bundles if bundle]


def list_files(
    archives: Sequence[str],
    problems: list[tuple[str, str]],
    folders: dict[str, ContainerAccount] | None = None,
    spooled: Sequence[tuple[str, str]] = (),
) -> Iterator[tuple[str, str]]:
    """Yield name and path of every file; a name begins with that of its archive, made unique.

    Folders get an account in `folders`, with what is left out of them; `spooled` files have names.
    """

    def note(error: OSError) -> None:
        problems.append((str(error.filename), _reason(str(error.filename), error)))

    labels = UniqueNames()
    for archive in archives:
        label = labels.take(storage.base_name(archive))
        try:
            if not storage.is_folder(archive):
                yield label, storage.absolute(archive)
                continue
            account = ContainerAccount(label, format="folder", how="file by file")
            if folders is not None:
                folders[label] = account
            for below, path in storage.walk_files(archive, note, _leave_out(account, problems)):
                account.entries += 1
                yield f"{label}/{below}", path
        except OSError as error:
            note(error)
    for name, path in spooled:
        yield labels.take(name), path


def _leave_out(account: ContainerAccount, problems: list[tuple[str, str]]) -> storage.LeaveOut:
    """Return what notes an entry of a folder that is not read."""

    def note(below: str, reason: str, why: str | None) -> None:
        account.entries += 1
        name = f"{account.name}/{below}"
        account.leave_out(reason, name)
        if why is not None:
            problems.append((name, why))

    return note


class FilePlanner:
    """Plans one file on disk: its splits, its containers, and what is wrong with it."""

    def __init__(
        self, label: str, path: str, folder: ContainerAccount | None, options: PlanOptions
    ) -> None:
        """Plan for a file that is an entry of `folder`, if it lies in one."""
        self.label, self.path, self.folder = label, path, folder
        self.limits, self.split_size = options.limits, options.split_size
        self.splits: list[Split] = []
        self.containers: list[ContainerAccount] = []
        self.problems: list[tuple[str, str]] = []

    @property
    def parent(self) -> str | None:
        """The name of the folder that the file is an entry of."""
        return None if self.folder is None else self.folder.name

    def plan(self) -> None:
        """Look at the file, and split it."""
        from forensics.ingest import archive_plan  # noqa: PLC0415 - it builds on this module

        size = storage.file_size(self.path)
        # Little is read of most files, and each read of a store fetches as much as it may.
        with storage.open_file(self.path, _LOOKED_AT) as file:
            head = file.read(SNIFF_BYTES)
            kind = sniff_format(head)
            if kind == "plain" and is_headless_tar(head):
                kind = "tar"
            if kind == "plain" and _ends_a_zip(file, head, size):
                kind = "zip"
            if size > self.limits.unpacked_bytes:
                self._refuse(f"it has {size:,} bytes (limit unpacked_bytes); not read")
            elif why := name_unread(head) if kind == "plain" else None:
                self._refuse(why)
            elif kind == "tar":
                archive_plan.plan_tar(self, file, size)
            elif kind == "zip":
                archive_plan.plan_zip(self, file, size)
            elif kind == "utf-8-sig":
                # Only the mark stands before the text.
                self.add_ranges(self.label, 3, size - 3, self.folder, (("utf-8-sig", ""),))
            elif kind == "plain":
                self.add_ranges(self.label, 0, size, self.folder)
            else:
                self.add_stream(size)

    def _refuse(self, why: str) -> None:
        self.problems.append((self.label, why))
        if self.folder is not None:
            with _COUNTING:
                self.folder.leave_out(why, self.label)

    def add_stream(self, size: int) -> None:
        """Plan the whole file as one stream; its split counts it in its folder."""
        self.splits.append(
            Split(
                self.label, self.path, end=size, size=size, container=self.parent,
                limits=self.limits,
            )
        )  # fmt: skip

    def add_ranges(
        self, label: str, at: int, size: int, container: ContainerAccount | None,
        steps: tuple[UnpackStep, ...] = (),
    ) -> None:  # fmt: skip
        """Plan plain bytes as ranges."""
        if container is not None:
            with _COUNTING:
                container.read += 1
        whole = Split(
            label, self.path, "range", 0, 0, 0, size, at, steps,
            None if container is None else container.name, limits=self.limits,
        )  # fmt: skip
        for number, begin in enumerate(range(0, size, self.split_size) if size else (0,)):
            end = min(begin + self.split_size, size)
            self.splits.append(replace(whole, number=number, begin=begin, end=end))
        if size > self.split_size:
            # A digest is read in one go: a file of several splits has one for its digest alone.
            self.splits.append(replace(whole, role="digest", end=size))

    def begin_archive(self, form: str, how: str, size: int) -> ContainerAccount:
        """Begin the account of an archive that is planned entry by entry."""
        account = ContainerAccount(self.label, self.parent, form, how, size)
        self.containers.append(account)
        if self.folder is not None:
            with _COUNTING:
                self.folder.read += 1
        return account


def _ends_a_zip(file: IO[bytes], head: bytes, size: int) -> bool:
    """Return True if a zip ends here, whatever stands before it."""
    tail = (1 << 16) + END_RECORD.size if is_program(head) or head[:2] == b"#!" else END_RECORD.size
    file.seek(max(0, size - tail))
    data = file.read(tail)
    at = data.rfind(END)
    return at >= 0 and len(data) - at >= END_RECORD.size


def _reason(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no file or folder {storage.display(path)}"
    if isinstance(error, PermissionError):
        return f"{storage.display(path)} may not be read; check its permissions"
    return f"cannot be opened: {error}"
