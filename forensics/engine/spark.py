"""The engine on Spark: a session, and a thin method for each wide stage.

Spark is used nowhere else. What it throws is pages long; the one sentence that tells what went
wrong is looked for here.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from forensics.engine import java
from forensics.engine.base import PROGRAM, Batches, Engine, EventReader, GroupReducer
from forensics.engine.local import LocalEngine
from forensics.engine.progress import SILENT, ProgressListener
from forensics.engine.task_files import (
    WRITTEN,
    Chain,
    NumberedTasks,
    ReadPieces,
    ScanTasks,
    TaskFiles,
    WriteRows,
    count_rows,
    read_schema,
)
from forensics.errors import ForensicsError
from forensics.events.scan import STAGED_SCHEMA, compile_patterns
from forensics.ingest.read_counters import total_bytes_read
from forensics.ingest.read_plan import Split, bundle_splits
from forensics.lib.arrow_io import is_any_of
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.this_machine import Helper, start_helper

_TRACEBACK = "Traceback (most recent call last):"
# The last line of a Python traceback: the error by its name, at the margin.
_PYTHON_ERROR = re.compile(r"^([\w.]+): (\S.*)", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^Caused by: ([\w$.]+): (\S.*)", re.MULTILINE)
# A Java that was interrupted, too, may never answer.
_PATIENCE_SECONDS = 20
# From the end of its connections to the end of a process.
_ENDING_SECONDS = 1
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


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Turn what Spark throws into the one sentence of it that says what went wrong."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        ended = _why_java_ended()
        if not ended and not isinstance(error, (PySparkException, Py4JError)):
            raise
        # Where Java is gone, Python only sees that nobody answers.
        message = f"Spark could not finish: {ended or root_cause(str(error))}"
        raise ForensicsError(message) from error


def _why_java_ended() -> str:
    """Return what Java said as it ended; nothing, if it is there."""
    gateway = SparkContext._gateway  # noqa: SLF001 - nothing else tells it
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is None:
        # One that others have started, as spark-submit does.
        return ""
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
    code = None if process is None else process.poll()
    return java.last_words(code) if process is None or code is not None else ""


@dataclass(frozen=True)
class Rows:
    """What functions make of rows that Spark has brought into order; nothing is done yet."""

    parts: Sequence[tuple[DataFrame, Callable[[Batches], Batches]]]
    schema: pa.Schema

    def frame(self, wrap: Callable[[Callable[[Batches], Batches]], Any], schema: Any) -> DataFrame:
        """Return one frame of all parts, each function wrapped."""
        mapped = (frame.mapInArrow(wrap(function), schema) for frame, function in self.parts)
        return reduce(lambda one, other: one.union(other), mapped)


@contextmanager
def open_spark(  # noqa: PLR0913
    exchange: str,
    master: str | None,
    listener: ProgressListener = SILENT,
    title: str = PROGRAM,
    *,
    is_small: bool = False,
    second: SecondProcess = ALONE,
) -> Iterator[SparkEngine]:
    """Run Spark until the block ends; its errors become one sentence."""
    with translate_spark_errors():
        engine = SparkEngine(exchange, master, listener, title, is_small=is_small, second=second)
        try:
            yield engine
        except Exception as error:
            # Java may have ended by the same Ctrl-C before Python heard of it.
            if engine.is_interrupted:
                raise KeyboardInterrupt from error
            raise
        finally:
            engine.stop()


class SparkEngine:
    """A Spark session and the few things this package asks of it.

    Tables are read and written by tasks in Python, on whatever disk or store they are; Spark itself
    opens no file, and needs neither jars nor credentials. It shares the work, and sorts.
    """

    def __init__(  # noqa: PLR0913
        self,
        exchange: str,
        master: str | None = None,
        listener: ProgressListener = SILENT,
        title: str = PROGRAM,
        *,
        is_small: bool = False,
        second: SecondProcess = ALONE,
    ) -> None:
        """Open a session: on `master`, or as spark-submit says, or on this machine.

        Executors write into the folder `exchange`, a path or an address. What is small is over
        before Java has made the fastest code of itself. `second` takes part in what is done here.
        """
        _refuse_connect(master)
        self._files, self._listener, self._second = TaskFiles(exchange), listener, second
        with _interruptible():
            self.context, self._settings = _open_context(master, title, is_small=is_small)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
        self.is_interrupted = False
        self._poller = _StageProgressPoller(self.context, listener)

    @cached_property
    def session(self) -> SparkSession:
        """Spark SQL, which is asked where rows have to come together."""
        builder = SparkSession.builder
        for key, value in self._settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """End the jobs that run, and let Spark say nothing of what fails by that."""
        self.is_interrupted = True
        _ask_aside(lambda: self.context.setLogLevel("OFF"), self.context.cancelAllJobs)
        signal.default_int_handler(number, frame)

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""
        return int(self.context.defaultParallelism)

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        bundles = bundle_splits(splits, self.parallelism)
        with self._poller.count_bytes_read(target.with_name("meter"), splits) as meter:
            is_local = str(self.context.master).startswith("local")
            compiled = compile_patterns(splits, overlays, context=context)
            work = ScanTasks(
                bundles, overlays, self._files.exchange, str(meter), context, is_local, compiled
            )
            what = f"{len(splits)} pieces of the archives"
            self._run(work, len(bundles), target, STAGED_SCHEMA, what)

    def for_table(self, table: Path) -> Engine:
        """Return this process for a table that is read before Spark has planned a job.

        Not on a cluster, whose driver may have little of everything.
        """
        is_here = str(self.context.master).startswith("local")
        if is_here and count_rows(table) <= _FEW_ROWS:
            return LocalEngine(second=self._second)
        return self

    def map_batches(
        self,
        source: Path,
        target: Path,
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
        order: Sequence[str] = (),
    ) -> None:
        """Pass a table through a function of batches; each file is sorted by `order`."""
        tasks = self._files.plan_tasks(source, self.parallelism)
        read = ReadPieces(tasks, read_schema(source).names)
        write = WriteRows(self._files.exchange, schema, transform, order)
        self._run(Chain((read, write)), len(tasks), target, schema)

    def map_partitions(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> Rows:
        """Hand the events of some kinds to a function, each partition's together.

        They come in batches, sorted by partition: a group of its own for each would cost more
        than most partitions' few events are worth, and hold a large one whole.
        """
        where = is_any_of("kind", kinds) & pc.field("partition").is_valid()
        together = self._read(source, columns, where).repartition("topic", "partition")
        return Rows([(together.sortWithinPartitions("topic", "partition"), transform)], schema)

    def run_readers(self, source: Path, readers: Iterable[EventReader], schema: pa.Schema) -> Rows:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""
        parts: list[tuple[DataFrame, Callable[[Batches], Batches]]] = []
        for reader in readers:
            where = is_any_of("kind", reader.kinds) if reader.kinds else pc.scalar(True)
            for key in reader.keys:
                where &= pc.field(key).is_valid()
            grouped = self._read(source, reader.columns, where).repartition(*reader.keys)
            parts.append((grouped.sortWithinPartitions(*reader.keys), reader))
        return Rows(parts, schema)

    def write_temporary(self, table: Rows, target: Path) -> None:
        """Write a table that is read once and thrown away."""
        exchange, schema = self._files.exchange, table.schema
        named = from_arrow_schema(WRITTEN)
        self._commit(
            target, schema, table.frame(lambda work: WriteRows(exchange, schema, work), named)
        )

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""
        chosen = self._read(source, columns, pc.field("table") == table)
        by = [F.col(name).asc_nulls_last() for name in order]
        ranged = chosen.repartitionByRange(*by).sortWithinPartitions(*by)
        schema = read_schema(source, columns)
        write = WriteRows(self._files.exchange, schema, iter)
        self._commit(target, schema, ranged.mapInArrow(write, from_arrow_schema(WRITTEN)))

    def reduce_groups(
        self,
        table: Rows,
        keys: list[str],
        reduce: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
        rows = table.frame(lambda work: work, from_arrow_schema(table.schema))
        ordered = rows.repartition(*keys).sortWithinPartitions(*keys)
        reduced = ordered.mapInArrow(GroupReducer(keys, reduce), from_arrow_schema(schema))
        self._describe("groups of rows")
        found = reduced.collect()
        return pa.Table.from_pylist([row.asDict(recursive=True) for row in found], schema)

    def _run(
        self,
        work: Callable[[Batches], Batches],
        tasks: int,
        target: Path,
        schema: pa.Schema,
        what: str | None = None,
    ) -> None:
        """Run tasks that get their numbers and write files of a table.

        Without SQL, which takes Java seconds to load, and Python's workers half a second.
        """
        self._describe(what or target.name)
        numbers = self.context.parallelize(range(tasks), max(1, tasks))
        self._files.keep(target, schema, numbers.mapPartitions(NumberedTasks(work)).collect())

    def _read(self, source: Path, columns: Sequence[str], where: pc.Expression) -> DataFrame:
        """Read some columns of chosen rows of a table."""
        tasks = self._files.plan_tasks(source, self.parallelism)
        schema = from_arrow_schema(read_schema(source, columns))
        work = ReadPieces(tasks, tuple(columns), where)
        # One number for each task, each in a partition of its own.
        numbers = self.session.range(0, len(tasks), 1, max(1, len(tasks)))
        return numbers.mapInArrow(work, schema)

    def _commit(self, target: Path, schema: pa.Schema, written: DataFrame) -> None:
        """Run the tasks that write a table; the files that they name are that table."""
        self._describe(target.name)
        # One row for each task, in their order.
        named = [(row["name"], row["rows"]) for row in written.collect()]
        self._files.keep(target, schema, named)

    def _describe(self, what: str) -> None:
        """Say in Spark's UI and in its event log which stage of a run the next jobs belong to."""
        stage = self._listener.stage or PROGRAM
        self.context.setJobGroup(stage, f"{stage}: {what}", interruptOnCancel=False)

    def stop(self) -> None:
        """End the session, if it is still there: Ctrl-C may have reached Spark first."""
        self._poller.stop()
        _ignore_ended_java()
        # That of SQL forgets its default session, too, which another run would find.
        stop = self.session.stop if "session" in vars(self) else self.context.stop
        if self.is_interrupted:
            _ask_aside(stop)
        else:
            with suppress(Py4JError, OSError):
                stop()
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _refuse_connect(master: str | None) -> None:
    """Say why an address of Spark Connect is no master."""
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        raise ForensicsError(
            "Spark Connect (sc://) cannot run this: its sessions have no SparkContext, by which"
            " tasks are counted, described and stopped. Use spark-submit, or --master."
        )


def _refuse_nameless_user() -> None:
    """Raise an error if this user has no name, as in a container: Hadoop's login needs one."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError as error:
        raise ForensicsError(
            f"Spark does not start for a user without a name, and {os.getuid()} has none here (in"
            " /etc/passwd). Run as a user who has one, or with --engine local."
        ) from error


def _open_context(
    master: str | None, title: str, *, is_small: bool
) -> tuple[SparkContext, Mapping[str, str]]:
    """Start Spark with our settings, over which go all that the user has made; return both."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        _refuse_nameless_user()
    is_local = not submitted and (not master or master.startswith("local"))
    settings = _SPARK_SETTINGS | (_LOCAL_SETTINGS if is_local else {})
    # Workers would otherwise start PATH's python3, which has none of our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Workers are started with -m, which would let them import from the current folder first:
    # modules that may have come with logs.
    os.environ["PYTHONSAFEPATH"] = "1"
    if not submitted:
        settings |= java.prepare(is_local=is_local, is_small=is_small)
    # Starts Java, which reads spark-defaults.conf and what spark-submit was given.
    SparkContext._ensure_initialized()  # noqa: SLF001 - nothing else tells what the user has set
    given = SparkConf()
    conf = SparkConf()
    if given.get("spark.app.name", "") in _NO_NAMES | {Path(sys.argv[0]).name}:
        conf.setAppName(title)
    if master or not submitted:
        conf.setMaster(master or given.get("spark.master") or "local[*]")
    if not submitted:
        # Java is started as for a shell, which would draw bars over ours.
        conf.set("spark.ui.showConsoleProgress", "false")
    ours = {key: value for key, value in settings.items() if not given.contains(key)}
    conf.setAll(list(ours.items()))
    context = SparkContext.getOrCreate(conf)
    if not given.contains("spark.log.level"):
        context.setLogLevel("ERROR")
    return context, ours


# What Spark calls a program that has no name.
_NO_NAMES = frozenset({"", "pyspark-shell"})


def end_java() -> None:
    """End the Java that Spark ran in, which would stay until this process ends."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None  # noqa: SLF001
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _ask_aside(*questions: Callable[[], object]) -> None:
    """Ask Java something in another thread, which has a connection of its own.

    That of a thread whose call was interrupted still waits for the answer to it.
    """

    def ask() -> None:
        for question in questions:
            with suppress(Exception):
                question()

    start_helper(ask).join(_PATIENCE_SECONDS)


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
        # Spark stops what it has begun to start.
        _ignore_ended_java()
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


def _ignore_ended_java() -> None:
    """Let Spark not warn of a Java that has ended: `translate_spark_errors` says why it has."""
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown", RuntimeWarning)


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

    def __init__(self, context: SparkContext, listener: ProgressListener) -> None:
        self._tracker = context.statusTracker()
        self._listener = listener
        self._meter, self._bytes = Path(), 0
        self._stopped = threading.Event()
        self._thread: Helper | None = None
        if listener is not SILENT:
            self._thread = start_helper(self._poll)

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
        if self._thread and self._thread.is_alive():
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
            # A task reads a little beyond the end of its piece.
            self._listener.bytes_read(min(done, of), of)


# Ten jobs of Spark, each of which starts anew to learn how it is done, take as long as the history
# of so many events takes here.
_FEW_ROWS = 100_000
# Seconds between two status requests to Spark.
_POLL_SECONDS = 1.0
_SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Off: after each row Spark would weigh the whole batch, and so take most of the time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Tasks of so many bytes: all would hang on the largest where there are as few as cores.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
}
# On this machine nobody asks for the pages of Spark, which take a port and half a second.
_LOCAL_SETTINGS = {"spark.ui.enabled": "false"}
