"""The engine on Spark: a session, and a thin method for each wide stage.

Spark is used nowhere else. What it throws is pages long; the one sentence that tells what went
wrong is looked for here.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from forensics.engine import java
from forensics.engine.base import Batches, EventReader, GroupReducer
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ArchiveError, ForensicsError
from forensics.events.log_reader import Compiled
from forensics.events.scan import STAGED_SCHEMA, compile_patterns, load_scanner
from forensics.ingest.read_counters import ReadCounter, total_bytes_read
from forensics.ingest.read_plan import Split, bundle_splits
from forensics.lib import package_data
from forensics.lib.arrow_io import ROWS_OF_GROUP, take_system_memory
from forensics.lib.deterministic_parquet import DeterministicWriter
from forensics.lib.storage import display
from forensics.lib.text_safety import printable

# What a task of a scan says: the name of its file, and how many rows that has.
WRITTEN = pa.schema([("name", pa.string()), ("rows", pa.int64())])
# Java does not look at TMPDIR.
_JAVAS_OWN_SCRATCH = "/tmp"  # noqa: S108
_TRACEBACK = "Traceback (most recent call last):"
# The last line of a Python traceback: the error by its name, at the margin.
_PYTHON_ERROR = re.compile(r"^([\w.]+): (\S.*)", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^Caused by: ([\w$.]+): (\S.*)", re.MULTILINE)
# A Java that was interrupted, too, may never answer.
_PATIENCE_SECONDS = 20
_OUR_PACKAGE = "forensics."
_MISSING_MODULE_HINT = (
    "; the Python of executors needs this package and what it imports,"
    " and docs/running/clusters.md says how to send both"
)


def root_cause(text: str) -> str:
    r"""Return the innermost reason: what Python raised, or else Java, or else the first line.

    >>> root_cause("Aborted.\nTraceback (most recent call last):\n  File 1\nKeyError: 'isr'\n at x")
    "KeyError: 'isr'"
    >>> root_cause("Job aborted.\n\tat x\nCaused by: java.io.IOException: No space left on device")
    'IOException: No space left on device'
    """
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback and (raised := _PYTHON_ERROR.search(after)):
        name, message = raised.groups()
        if name.startswith(_OUR_PACKAGE):
            return message.strip()
        missing = name == "ModuleNotFoundError"
        return f"{_class_name(name)}: {message.strip()}{_MISSING_MODULE_HINT if missing else ''}"
    if caused := _JAVA_CAUSE.findall(text):
        name, message = caused[-1]
        return f"{_class_name(name)}: {message.strip()}"
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _class_name(name: str) -> str:
    return name.rpartition(".")[2]


@dataclass(frozen=True)
class ScanTasks:
    """Runs the tasks whose numbers it is given; each attempt leaves a file of its own in `target`.

    A row for each event would go through the JVM, which takes longer than the scan: only the names
    of files do, and what an attempt that failed or came second leaves is never read.

    `overlays` are the packs that lie over the shipped rules; `context` asks for the events that
    only give context, too; `meter` is the folder where tasks note how far they are; `compiled` are
    the patterns of rules for Hyperscan.
    """

    bundles: Sequence[Sequence[Split]]
    overlays: str
    target: str
    meter: str
    context: bool
    is_local: bool = False
    compiled: Compiled = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the events and accounts of each task; yield the name of each file, and its rows."""
        take_system_memory()
        # Where nothing is shared the driver misses what is written, and says so.
        Path(self.target).mkdir(parents=True, exist_ok=True)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                name = f"part-{number:05}-{uuid.uuid4().hex}.parquet"
                with DeterministicWriter(Path(self.target, name), STAGED_SCHEMA) as written:
                    for rows in self._run(number):
                        written.add(pa.Table.from_batches([rows]))
                yield pa.RecordBatch.from_pylist([{"name": name, "rows": written.rows}], WRITTEN)

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        meter = ReadCounter(self.meter, number)
        scanner = load_scanner(self.overlays, context=self.context)
        scanner.reader.search_at_once(self.compiled)
        reading = ""

        def each() -> Iterator[Split]:
            nonlocal reading
            for split in self.bundles[number]:
                reading = split.path
                yield split
                meter.finish(split.bytes)

        try:
            yield from scanner.scan_all(each(), meter)
        except FileNotFoundError as error:
            raise ArchiveError(_missing_file(reading, is_local=self.is_local)) from error


def _missing_file(path: str, *, is_local: bool) -> str:
    """Say why a file that was planned cannot be found: it has gone, or is on another machine."""
    name = printable(display(path))
    if is_local:
        return (
            f"{name} has gone since the run began, as files do that rotate or are cleaned up. Copy"
            " the logs to where nobody changes them, and read the copy."
        )
    return (
        f"{name} is not there on {socket.gethostname()}. Archives must lie where the driver and all"
        " executors see the same files, and stay there until the run is over."
    )


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Turn what Spark throws into the one sentence of it that says what went wrong."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        message = f"Spark could not finish: {root_cause(str(error))}"
        raise ForensicsError(message) from error


@contextmanager
def open_spark(master: str | None, listener: ProgressListener = SILENT) -> Iterator[SparkEngine]:
    """Run Spark until the block ends; its errors become one sentence."""
    with translate_spark_errors():
        engine = SparkEngine(master, listener)
        try:
            yield engine
        finally:
            engine.stop()


class SparkEngine:
    """A Spark session and the few things this package asks of it."""

    def __init__(self, master: str | None = None, listener: ProgressListener = SILENT) -> None:
        """Open a session: on `master`, or as spark-submit says, or on this machine."""
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        settings = dict(_SPARK_SETTINGS)
        if not submitted:
            # Before the JVM starts: which Java, and nothing but this machine's own addresses.
            if not master or master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            log4j = package_data.asset_url("log4j2.properties")
            options = f"-Dlog4j2.configurationFile={log4j}"
            scratch = _scratch_folder()
            if not os.access(_JAVAS_OWN_SCRATCH, os.W_OK | os.X_OK):
                options += f' "-Djava.io.tmpdir={scratch}"'
                settings["spark.local.dir"] = os.environ.get("SPARK_LOCAL_DIRS") or scratch
            settings["spark.driver.extraJavaOptions"] = options
            os.environ.update(java.find_java(os.environ).environment)
        # Workers would otherwise start PATH's python3, which has none of our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Workers are started with -m, which would let them import from the current folder first:
        # modules that may have come with logs.
        os.environ["PYTHONSAFEPATH"] = "1"
        builder = SparkSession.builder.appName("kafka-forensics")
        if master or not submitted:
            builder = builder.master(master or "local[*]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _interruptible():
            self.session = builder.getOrCreate()
            self.session.sparkContext.setLogLevel("ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
        self._interrupted = False
        self._poller = _StageProgressPoller(self.session, listener)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """End the jobs that run, and let Spark say nothing of what fails by that."""
        context, self._interrupted = self.session.sparkContext, True
        _ask_aside(lambda: context.setLogLevel("OFF"), context.cancelAllJobs)
        signal.default_int_handler(number, frame)

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""
        return int(self.session.sparkContext.defaultParallelism)

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        bundles = bundle_splits(splits, self.parallelism)
        # One number for each partition, and one task for each number.
        numbers = self.session.range(0, len(bundles), 1, max(1, len(bundles)))
        # Read once and thrown away: quickly written matters more than small.
        with self._poller.count_bytes_read(target.with_name("meter"), splits) as meter:
            is_local = str(self.session.sparkContext.master).startswith("local")
            compiled = compile_patterns(splits, overlays, context=context)
            attempts = _make_empty(target.with_name(f"{target.name}-attempts")).absolute()
            work = ScanTasks(
                bundles, overlays, str(attempts), str(meter), context, is_local, compiled
            )
            found = numbers.mapInArrow(work, from_arrow_schema(WRITTEN)).collect()
        keep_written(attempts, {row["name"]: row["rows"] for row in found}, target)

    def map_batches(
        self,
        source: Path,
        target: Path,
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
        order: Sequence[str] = (),
    ) -> None:
        """Pass a table through a function of batches; each file is sorted by `order`."""
        table = self.session.read.parquet(_file_uri(source))
        result = table.mapInArrow(transform, from_arrow_schema(schema))
        if order:
            result = result.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in order))
        result.write.mode("overwrite").options(**_SMALL_ROW_GROUPS).parquet(_file_uri(target))

    def map_partitions(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> DataFrame:
        """Hand the events of some kinds to a function, each partition's together.

        They come in batches, sorted by partition: a group of its own for each would cost more
        than most partitions' few events are worth, and hold a large one whole.
        """
        events = self.session.read.parquet(_file_uri(source))
        chosen = events.where(F.col("kind").isin(*kinds) & F.col("partition").isNotNull())
        together = chosen.select(*columns).repartition("topic", "partition")
        ordered = together.sortWithinPartitions("topic", "partition")
        return ordered.mapInArrow(transform, from_arrow_schema(schema))

    def run_readers(
        self, source: Path, readers: Iterable[EventReader], schema: pa.Schema
    ) -> DataFrame:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""
        events = self.session.read.parquet(_file_uri(source))
        parts = []
        for reader in readers:
            chosen = events.where(F.col("kind").isin(*reader.kinds)) if reader.kinds else events
            for key in reader.keys:
                chosen = chosen.where(F.col(key).isNotNull())
            grouped = chosen.select(*reader.columns).repartition(*reader.keys)
            ordered = grouped.sortWithinPartitions(*reader.keys)
            parts.append(ordered.mapInArrow(reader, from_arrow_schema(schema)))
        return reduce(lambda one, other: one.union(other), parts)

    def write_temporary(self, table: DataFrame, target: Path) -> None:
        """Write a table that is read once and thrown away."""
        table.write.mode("overwrite").option("compression", "snappy").parquet(_file_uri(target))

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""
        folded = self.session.read.parquet(_file_uri(source))
        chosen = folded.where(F.col("table") == table).select(*columns)
        by = [F.col(name).asc_nulls_last() for name in order]
        ranged = chosen.repartitionByRange(*by).sortWithinPartitions(*by)
        ranged.write.mode("overwrite").options(**_SMALL_ROW_GROUPS).parquet(_file_uri(target))

    def reduce_groups(
        self,
        table: DataFrame,
        keys: list[str],
        reduce: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
        ordered = table.repartition(*keys).sortWithinPartitions(*keys)
        rows = ordered.mapInArrow(GroupReducer(keys, reduce), from_arrow_schema(schema)).collect()
        return pa.Table.from_pylist([row.asDict(recursive=True) for row in rows], schema)

    def stop(self) -> None:
        """End the session, if it is still there: Ctrl-C may have reached Spark first."""
        self._poller.stop()
        if self._interrupted:
            _ask_aside(self.session.stop)
        else:
            with suppress(Py4JError, OSError):
                self.session.stop()
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _ask_aside(*questions: Callable[[], object]) -> None:
    """Ask Java something in another thread, which has a connection of its own.

    That of a thread whose call was interrupted still waits for the answer to it.
    """

    def ask() -> None:
        for question in questions:
            with suppress(Exception):
                question()

    thread = threading.Thread(target=ask, name="interrupt", daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)


def _scratch_folder() -> str:
    """Return the folder for temporary files; without one neither Python nor Java can start."""
    try:
        with tempfile.TemporaryDirectory() as made:
            return str(Path(made).parent)
    except OSError as error:
        folder = os.environ.get("TMPDIR") or _JAVAS_OWN_SCRATCH
        raise ForensicsError(
            f"No temporary files can be written in {printable(folder)}: {error.strerror}. Set"
            " TMPDIR to a folder that can be written."
        ) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the start of Spark as KeyboardInterrupt, and nothing else.

    It may come in the middle of a call to Java, which fails by it in one of many ways. From then
    on Spark's own handler would ask a Java that may have ended already, or been stopped by us, and
    py4j would log a traceback. A Java that nobody is connected to yet would stay for good, and say
    that the folder has gone in which it was to write its address.
    """
    # Its own loggers write to whatever handler the root logger has.
    logging.getLogger().addFilter(_is_not_from_py4j)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    is_main = threading.current_thread() is threading.main_thread()
    interrupted = threading.Event()
    before = _children()

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        if SparkContext._gateway is None:  # noqa: SLF001 - nothing else tells it
            for started in _children() - before:
                with suppress(ProcessLookupError):
                    os.kill(started, signal.SIGKILL)
        signal.default_int_handler(number, frame)

    if is_main:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    except BaseException as error:
        if interrupted.is_set() and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        if is_main:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _children() -> set[int]:
    """Return the processes that this one has started, where the system tells."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


class _StageProgressPoller:
    """Asks Spark every second how far it is, and tells a listener."""

    def __init__(self, session: SparkSession, listener: ProgressListener) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._listener = listener
        self._meter, self._bytes = Path(), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="lookout", daemon=True)
        if listener is not SILENT:
            self._thread.start()

    @contextmanager
    def count_bytes_read(self, meter: Path, splits: Sequence[Split]) -> Iterator[Path]:
        """Sum the bytes that tasks note as read, until the block ends."""
        meter.mkdir(parents=True, exist_ok=True)
        self._meter, self._bytes = meter, sum(split.bytes for split in splits)
        try:
            yield meter
        finally:
            self._bytes = 0

    def stop(self) -> None:
        """Stop asking, before the session ends."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _poll(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            # A session may end while it is asked.
            with suppress(Exception):
                self._report_once()

    def _report_once(self) -> None:
        stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
        running = [stage for stage in stages if stage]
        counts = (
            sum(one.numCompletedTasks for one in running),
            sum(one.numTasks for one in running),
        )
        self._listener.tasks_done(*counts)
        of = self._bytes
        if of and (done := total_bytes_read(self._meter)):
            self._listener.bytes_read(done, of)


def keep_written(attempts: Path, written: Mapping[str, int], target: Path) -> None:
    """Keep the files, with so many rows each, that attempts of tasks named; drop all others.

    Fails if the executors wrote to a folder that this machine does not share with them.
    """
    paths = {name: attempts / name for name in written if (attempts / name).is_file()}
    rows = sum(written.values())
    here = sum(pq.read_metadata(path).num_rows for path in paths.values())
    if here != rows:
        raise ForensicsError(
            f"The executors wrote {rows:,} rows into {target}, and {here:,} of them are here. The"
            " output folder must lie where the driver and all executors see the same files."
        )
    _make_empty(target)
    for name, path in paths.items():
        path.rename(target / name)
    if not paths:
        pq.write_table(STAGED_SCHEMA.empty_table(), target / "part-0.parquet")
    shutil.rmtree(attempts)


def _make_empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _file_uri(path: Path) -> str:
    """Return the URI of a local file: on a cluster a bare path would lie in its HDFS."""
    return f"file://{path.absolute()}"


# Seconds between two status requests to Spark.
_POLL_SECONDS = 1.0
# A reader of these files holds one row group at a time, and needs memory for all of it.
# The size is that of compressed rows, of which a million may be as short.
_SMALL_ROW_GROUPS = {
    "parquet.block.size": str(16 << 20),
    "parquet.block.row.count.limit": str(ROWS_OF_GROUP),
}
_SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Off: after each row Spark would weigh the whole batch, and so take most of the time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Tasks of so many bytes: all would hang on the largest where there are as few as cores.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Microseconds that pyarrow and Spark both read; the default is an old twelve-byte form.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
