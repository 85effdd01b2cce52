"""The files of tables that tasks on executors write and read, on a shared disk or in a store.

Each attempt of a task writes a file under a name of its own, and names it when it is whole. Only
files that Spark returns the names of become part of a table: what an attempt leaves behind that
failed, was killed or came second is never read.
"""

from __future__ import annotations

import shutil
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from forensics.engine.base import Batches
from forensics.errors import ArchiveError, ForensicsError
from forensics.events.log_reader import Compiled
from forensics.events.scan import STAGED_SCHEMA, load_scanner
from forensics.ingest.read_counters import ReadCounter
from forensics.ingest.read_plan import Split
from forensics.lib import storage
from forensics.lib.arrow_io import DeterministicWriter, read_batches, take_system_memory
from forensics.lib.text_safety import printable
from forensics.lib.this_machine import collect_garbage_seldom

# What a task says: the name of its file, and how many rows that has.
WRITTEN = pa.schema([("name", pa.string()), ("rows", pa.int64())])
# A task holds the rows that it sorts: so many take some 150 MB.
_ROWS_OF_TASK = 250_000
# Starting a task takes as long as reading so many rows.
_FEW_ROWS = 5_000
_CONNECTIONS = 8


def _prepare_worker() -> None:
    """Set up the Python of an executor as that of a command is."""
    take_system_memory()
    collect_garbage_seldom()


@dataclass(frozen=True)
class Piece:
    """Some groups of rows of one file."""

    path: str
    groups: range


@dataclass(frozen=True)
class ReadPieces:
    """Reads the pieces of the tasks whose numbers it is given: some columns, and chosen rows."""

    tasks: Sequence[Sequence[Piece]]
    columns: Sequence[str]
    where: ds.Expression | None = None

    def __call__(self, numbers: Batches) -> Batches:
        """Yield the rows of each task in the order of its pieces."""
        _prepare_worker()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for piece in self.tasks[number]:
                    yield from self._read(piece)

    def _read(self, piece: Piece) -> Batches:
        form = ds.ParquetFileFormat()
        system, inside = storage.open_system(piece.path)
        with storage.naming(piece.path):
            part = form.make_fragment(inside, system, row_groups=list(piece.groups))
            table = ds.FileSystemDataset([part], part.physical_schema, form, system)
            # A store is slow to answer: all columns of a group are asked for at once.
            ahead = storage.is_remote(piece.path)
            yield from read_batches(table, self.columns, self.where, read_ahead=ahead)


@dataclass(frozen=True)
class WriteRows:
    """Writes what a function makes of the rows of a task into a file; yields the file's name."""

    folder: str
    schema: pa.Schema
    transform: Callable[[Batches], Batches]
    order: Sequence[str] = ()

    def __call__(self, batches: Batches) -> Batches:
        """Write one file, if there is a row."""
        _prepare_worker()
        rows = self.transform(batches)
        if self.order:
            table = pa.Table.from_batches(rows, self.schema)
            rows = iter(table.sort_by([(name, "ascending") for name in self.order]).to_batches())
        yield from write_part(self.folder, self.schema, rows)


@dataclass(frozen=True)
class Chain:
    """Passes batches through one function after the other."""

    functions: Sequence[Callable[[Batches], Batches]]

    def __call__(self, batches: Batches) -> Batches:
        """Return what the last function makes of them."""
        for function in self.functions:
            batches = function(batches)
        return batches


@dataclass(frozen=True)
class ScanTasks:
    """Runs the tasks whose numbers it is given; each attempt writes a file of its own.

    A row for each event would go through the JVM, which takes longer than the scan: only the names
    of files do.

    `overlays` are the packs that lie over the shipped rules; `context` asks for the events that
    only give context, too; `folder` is where files go, and `meter` where tasks note how far they
    are; `compiled` are the patterns of rules for Hyperscan.
    """

    bundles: Sequence[Sequence[Split]]
    overlays: str
    folder: str
    meter: str
    context: bool
    is_local: bool = False
    compiled: Compiled = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the events and accounts of each task; yield the name of each file, and its rows."""
        _prepare_worker()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from write_part(self.folder, STAGED_SCHEMA, self._run(number))

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        meter = ReadCounter(self.meter, number)
        scanner = load_scanner(self.overlays, context=self.context)
        scanner.reader.search_at_once(self.compiled)
        reading = ""

        def each() -> Iterator[Split]:
            nonlocal reading
            for split in self.bundles[number]:
                reading = split.path
                meter.begin(split.bytes)
                yield split
                meter.finish(split.bytes)

        try:
            yield from scanner.scan_all(each(), meter)
        except FileNotFoundError as error:
            raise ArchiveError(_missing_file(reading, is_local=self.is_local)) from error


@dataclass(frozen=True)
class NumberedTasks:
    """Hands the numbers of tasks to a function of batches; yields what each has written."""

    work: Callable[[Batches], Batches]

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[str, int]]:
        """Yield the names of files, and how many rows each has."""
        given = pa.RecordBatch.from_pydict({"id": pa.array(list(numbers), pa.int64())})
        for batch in self.work(iter([given])):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _missing_file(path: str, *, is_local: bool) -> str:
    """Say why a file that was planned cannot be found: it has gone, or is on another machine."""
    name = printable(storage.display(path))
    if is_local:
        return (
            f"{name} has gone since the run began, as files do that rotate or are cleaned up. Copy"
            " the logs to where nobody changes them, and read the copy."
        )
    return (
        f"{name} is not there on {socket.gethostname()}. Archives must lie where the driver and all"
        " executors see the same files, and stay there until the run is over."
    )


def write_part(folder: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Write batches into a new file of a folder; yield its name and rows when it is whole."""
    rows = iter(batches)
    first = next((batch for batch in rows if len(batch)), None)
    if first is None:
        return
    name = f"{uuid.uuid4().hex}.parquet"
    with (
        storage.open_output(storage.join(folder, name)) as file,
        DeterministicWriter(file, schema) as written,
    ):
        written.add(pa.Table.from_batches([first]))
        del first
        for batch in rows:
            written.add(pa.Table.from_batches([batch]))
    yield pa.RecordBatch.from_pylist([{"name": name, "rows": written.rows}], WRITTEN)


class TaskFiles:
    """Knows where executors find the files of the tables that lie in folders of the driver.

    Executors write into one folder, the exchange. Where it is a path, they see the driver's own
    folders under the same paths. Where it is an address, what they have written is fetched from
    there, and what only the driver has is put there before they read it.
    """

    def __init__(self, exchange: str) -> None:
        """Take the folder, which may be made when the first file is written there."""
        self.exchange = storage.absolute(exchange)
        self._is_apart = storage.is_remote(exchange)
        # Where each local file came from; a file that is moved is still the same.
        self._addresses: dict[tuple[int, ...], str] = {}

    def keep(self, target: Path, schema: pa.Schema, written: Sequence[tuple[str, int]]) -> None:
        """Make a table of the files, with so many rows each, that tasks have named, in order.

        Fails if the executors wrote to a folder that this machine does not share with them.
        """
        make_empty(target)
        parts = [
            (storage.join(self.exchange, name), target / f"part-{number:05}-{name}")
            for number, (name, _) in enumerate(written)
        ]
        if self._is_apart:
            with ThreadPoolExecutor(_CONNECTIONS) as pool:
                list(pool.map(self._fetch, parts))
        else:
            self._refuse_unshared(target, written)
            for address, path in parts:
                Path(address).rename(path)
        if not parts:
            pq.write_table(schema.empty_table(), target / "part-00000.parquet")

    def _refuse_unshared(self, target: Path, written: Sequence[tuple[str, int]]) -> None:
        rows = sum(count for _, count in written)
        here = sum(count for name, count in written if Path(self.exchange, name).is_file())
        if here != rows:
            raise ForensicsError(
                f"The executors wrote {rows:,} rows into {target}, and {here:,} of them are here."
                " The output folder must lie where the driver and all executors see the same"
                " files, or in a store: -o s3://BUCKET/FOLDER."
            )

    def plan_tasks(self, source: Path, workers: int) -> list[list[Piece]]:
        """Share the rows of a table among tasks, as evenly as groups of rows allow."""
        groups: list[tuple[str, int, int]] = []
        for path in sorted(source.iterdir()):
            if path.name[0] in "._":
                continue
            footer, address = pq.read_metadata(path), ""
            for number in range(footer.num_row_groups):
                if rows := footer.row_group(number).num_rows:
                    address = address or self._find(path)
                    groups.append((address, number, rows))
        total = sum(rows for _, _, rows in groups)
        wanted = max(min(workers, total // _FEW_ROWS), -(-total // _ROWS_OF_TASK), 1)
        tasks: list[list[Piece]] = [[] for _ in range(wanted)]
        before = 0
        for address, number, rows in groups:
            pieces = tasks[min(wanted - 1, (before + rows // 2) * wanted // total)]
            before += rows
            if pieces and (last := pieces[-1]).path == address and last.groups.stop == number:
                pieces[-1] = Piece(address, range(last.groups.start, number + 1))
            else:
                pieces.append(Piece(address, range(number, number + 1)))
        return [pieces for pieces in tasks if pieces]

    def _find(self, path: Path) -> str:
        """Return where executors read a local file, which is put there if it has to be."""
        if not self._is_apart:
            return str(path.absolute())
        state = _identity(path)
        if state not in self._addresses:
            address = storage.join(self.exchange, f"{uuid.uuid4().hex}.parquet")
            storage.upload(path, address)
            self._addresses[state] = address
        return self._addresses[state]

    def _fetch(self, part: tuple[str, Path]) -> None:
        address, path = part
        storage.download(address, path)
        self._addresses[_identity(path)] = address


def read_schema(source: Path, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of a table, or of some of its columns."""
    schema = ds.dataset(source, format="parquet").schema
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def count_rows(table: Path) -> int:
    """Count the rows of a table by what its files say of themselves."""
    return int(ds.dataset(table, format="parquet").count_rows())


def _identity(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def make_empty(folder: Path) -> None:
    """Make a folder, or delete all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
