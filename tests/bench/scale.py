"""Reads large generated archives with little memory, and says what each process took.

Three archives, each in a process of its own on local[2], its JVM held to 1 GB of heap:

- `events`: 200,000 partitions of 100 brokers with 5 million transitions between them, a million of
  these on one partition, made as the table of events that a scan of its logs would leave;
- `logs`: a twentieth of these transitions as log files;
- `text`: gigabytes of quiet logs with an incident in each 388 MB (only where it is asked for).

With `--only reads` it says instead how many bytes each detector reads of the tables of an archive
that is nothing but incidents, with the events sorted by kind and in the order of files.

Fails when a process of Python grows beyond what it may have, or when all processes together have
worked too long. These are seconds of processors, and do not grow with what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from forensics.lib.this_machine import collect_garbage_seldom, return_memory  # noqa: E402

# As the command does, before Arrow is loaded.
return_memory()
collect_garbage_seldom()

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from forensics.engine.progress import ProgressListener  # noqa: E402
from forensics.events.file_accounts import FileAccount  # noqa: E402
from forensics.history.rebuild import History  # noqa: E402
from forensics.run_output.findings import Finding  # noqa: E402
from forensics.schemas import EVENTS, FILES  # noqa: E402
from tests.bench.past_archive import write_past  # noqa: E402

MB = 1 << 20
HEAP = "1g"
# What the driver may have, and a Java or a worker of an executor.
MOST_MB = {"driver": 1024, "java": 2048, "worker": 2048}
# Seconds of processors, of all processes together; and seconds in which nothing at all was done.
PATIENCE, SILENCE = 900, 120
TICKS = os.sysconf("SC_CLK_TCK")
TEXT_BYTES, TEXT_SHARE = 8 * 10**9, 0.001
BROKERS, TOPICS = 100, 500
BEGIN, DAY = 1_795_000_000_000_000, 86_400_000_000
SECOND = 1_000_000
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Size:
    """How much is made."""

    partitions: int
    transitions: int
    longest: int

    @property
    def each(self) -> int:
        """How many transitions a partition has that is not the longest."""
        return max(1, (self.transitions - self.longest) // max(1, self.partitions - 1))


@dataclass(frozen=True)
class Steps:
    """Some transitions: which partition, and which of its versions."""

    partition: Ints
    version: Ints
    ts: Ints

    @property
    def epoch(self) -> Ints:
        """The leader epoch: each is two versions long, the ISR first shrinks and then is whole."""
        return self.version // 2

    @property
    def first(self) -> Ints:
        """The first replica; the others have the next numbers."""
        return self.partition % BROKERS

    def replica(self, number: Ints) -> Ints:
        """The replicas, by number; in the end each broker shares partitions with every other."""
        apart = (self.partition // BROKERS) % 33 + 1
        found: Ints = (self.first + number % 3 * apart) % BROKERS
        return found

    @property
    def leader(self) -> Ints:
        """The leader; one partition in a thousand is without one for an epoch."""
        leader = self.replica(self.epoch)
        dark = (self.partition % 1000 == 7) & (self.epoch == 5)
        found: Ints = np.where(dark, -1, leader)
        return found

    @property
    def isr(self) -> list[list[int]]:
        """Who is in sync: all, or the leader and the next one, who will lead."""
        replicas = np.sort(np.stack(self.replicas, 1), 1).tolist()
        two = np.stack([self.replica(self.epoch), self.replica(self.epoch + 1)], 1)
        rows = zip(self.version.tolist(), replicas, np.sort(two, 1).tolist(), strict=True)
        return [pair if version % 2 else three for version, three, pair in rows]

    @property
    def replicas(self) -> list[Ints]:
        """The first replica of each, the second, the third."""
        return [self.replica(np.full(len(self.partition), number)) for number in range(3)]


def steps(size: Size) -> Iterator[Steps]:
    """Make transitions in the order of time: a partition's stand far from each other."""
    others = np.arange(1, size.partitions, dtype=np.int64)
    share = -(-size.longest // size.each)
    for version in range(size.each):
        begin = BEGIN + DAY * version // size.each
        # One broker's partitions move together, within a minute.
        moments = begin + (others % BROKERS) * 60 * SECOND + (others * 7919) % (20 * SECOND)
        long = np.arange(version * share, min((version + 1) * share, size.longest), dtype=np.int64)
        yield Steps(
            np.concatenate([others, np.zeros(len(long), np.int64)]),
            np.concatenate([np.full(len(others), version), long]),
            np.concatenate([moments, BEGIN + long * DAY // max(1, size.longest)]),
        )


def tabulated(some: Steps, line: int, node: Ints) -> pa.Table:
    """Give transitions as rows of the table of events, told by `node`."""
    count = len(some.version)
    words = pa.array([f"broker-{one}" for one in range(BROKERS)])
    files = pa.array([f"big.tar.gz!broker-{one}/state-change.log" for one in range(BROKERS)])
    topics = pa.array([f"topic-{one:03d}" for one in range(TOPICS)])
    replicas = np.stack(some.replicas, 1).astype(np.int32)
    columns = {
        "kind": pa.repeat("partition_state", count),
        "ts": pa.array(some.ts, pa.timestamp("us", tz="UTC")),
        "node": words.take(pa.array(node)),
        "file": files.take(pa.array(node)),
        "line": pa.array(np.arange(line, line + count)),
        "offset": pa.array(np.arange(line, line + count) * 180),
        "topic": topics.take(pa.array(some.partition % TOPICS)),
        "partition": pa.array((some.partition // TOPICS).astype(np.int32)),
        "leader": pa.array(some.leader.astype(np.int32)),
        "leader_epoch": pa.array(some.epoch.astype(np.int32)),
        "partition_epoch": pa.array(some.version.astype(np.int32)),
        "isr": pa.array(some.isr, pa.list_(pa.int32())),
        "replicas": pa.FixedSizeListArray.from_arrays(replicas.ravel(), 3).cast(
            pa.list_(pa.int32())
        ),
        "broker": pa.array(node.astype(np.int32)),
        "rule": pa.repeat("partition.leader@1", count),
        "level": pa.repeat("INFO", count),
        "logger": pa.repeat("state.change.logger", count),
        "text": pa.array([f"[broker {one}] a line, as long as they are: {line + at} " + "." * 90
                          for at, one in enumerate(node.tolist())]),
    }  # fmt: skip
    empty = {name: pa.nulls(count, EVENTS.field(name).type) for name in EVENTS.names}
    return pa.table(empty | columns, schema=EVENTS)


def make_events(folder: Path, size: Size) -> int:
    """Write the table of events: each transition by its leader, one in ten by a follower too."""
    folder.mkdir(parents=True)
    line = 1
    for number, some in enumerate(steps(size)):
        lead = some.replica(some.epoch)
        table = tabulated(some, line, lead)
        # A new leader epoch is what both hear of at once.
        begun = some.version % 2 == 0
        again = np.flatnonzero(begun & (np.arange(len(lead)) % 5 == number // 2 % 5))
        heard = Steps(some.partition[again], some.version[again], some.ts[again] + 30_000)
        follows = tabulated(heard, line + len(lead), heard.replica(heard.epoch + 1))
        table = pa.concat_tables([table, follows, _errors(number, size.partitions // 10)])
        part = folder / f"part-{number:05d}.parquet"
        pq.write_table(table, part, compression="snappy", row_group_size=100_000)
        line += len(table)
    return line - 1


def _errors(number: int, count: int) -> pa.Table:
    """Give errors of clients that ask the wrong broker."""
    at = np.arange(count)
    rows = {
        "kind": pa.repeat("client_error", count),
        "ts": pa.array(BEGIN + number * SECOND * 3600 + at * 700, pa.timestamp("us", tz="UTC")),
        "node": pa.array([f"app-{one}" for one in (at % 50).tolist()]),
        "file": pa.array([f"big.tar.gz!app-{one}/client.log" for one in (at % 50).tolist()]),
        "line": pa.array(number * count + at),
        "topic": pa.array([f"topic-{one:03d}" for one in (at % TOPICS).tolist()]),
        "partition": pa.array((at % 100).astype(np.int32)),
        "client": pa.array([f"app-{one}" for one in (at % 50).tolist()]),
        "error": pa.repeat("NOT_LEADER_OR_FOLLOWER", count),
        "text": pa.repeat("Got error produce response with NOT_LEADER_OR_FOLLOWER", count),
    }
    empty = {name: pa.nulls(count, EVENTS.field(name).type) for name in EVENTS.names}
    return pa.table(empty | rows, schema=EVENTS)


def make_logs(folder: Path, size: Size) -> int:
    """Write log files of brokers that say the same as a table would."""
    found: dict[int, list[tuple[int, str]]] = {one: [] for one in range(BROKERS)}
    for some in steps(size):
        nodes = some.replica(some.epoch).tolist()
        rows = zip(some.partition, some.version, some.ts, nodes, some.isr, strict=True)
        for partition, version, ts, node, isr in rows:
            found[node].append((int(ts), _line(int(partition), int(version), int(ts), node, isr)))
    for node, lines in found.items():
        (folder / f"broker-{node}").mkdir(parents=True)
        text = "".join(line for _, line in sorted(lines))
        (folder / f"broker-{node}" / "server.log").write_text(text, "utf-8")
    return sum(map(len, found.values()))


def _line(partition: int, version: int, ts: int, node: int, isr: list[int]) -> str:
    name = f"topic-{partition % TOPICS:03d}-{partition // TOPICS}"
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ts // SECOND))
    start, members = f"[{moment},{ts // 1000 % 1000:03d}] INFO", ",".join(map(str, isr))
    if version % 2:
        return (
            f"{start} [Partition {name} broker={node}] ISR updated to {members} and version "
            f"updated to {version} (kafka.cluster.Partition)\n"
        )
    return (
        f"{start} [Broker id={node}] Leader {name} with topic id Some(Ryr4ARyzTu2whwW6IpwSyw) "
        f"starts at leader epoch {version // 2} from offset {version} with partition epoch "
        f"{version}, high watermark {version}, ISR [{members}], adding replicas [] and removing "
        "replicas [] . Previous leader None and previous leader epoch was -1. "
        "(state.change.logger)\n"
    )


class Meter(ProgressListener):
    """Notes what this process took in each stage: its peak, what it read, and how long it worked.

    What Spark's processes do meanwhile, whoever watches from outside sees.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._before = (0, 0.0)
        self.stages: dict[str, dict[str, float]] = {}

    def begin_stage(self, stage: str) -> None:
        """Let the peak begin anew."""
        super().begin_stage(stage)
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._now()

    def end_stage(self) -> None:
        """Note the stage that ends."""
        bytes_read, worked = self._now()
        self.stages[self.stage] = {
            "peak_mb": _status(Path("/proc/self"), "VmHWM") // 1024,
            "read_mb": (bytes_read - self._before[0]) // MB,
            "worked_s": round(worked - self._before[1], 1),
        }
        self._target.write_text(json.dumps(self.stages))
        super().end_stage()

    def _now(self) -> tuple[int, float]:
        return _bytes_read(Path("/proc/self")), time.process_time()


def run(out: Path, logs: Path | None, meter: Path) -> None:
    """Do the work that is measured, in a process of its own."""
    from forensics import pipeline  # noqa: PLC0415
    from forensics.engine.spark import open_spark  # noqa: PLC0415
    from forensics.events.packs import load_rule_set  # noqa: PLC0415
    from forensics.lib.arrow_io import release_arrow_memory  # noqa: PLC0415
    from forensics.run_result import Stopwatch  # noqa: PLC0415
    from forensics.settings import Settings  # noqa: PLC0415

    began = time.perf_counter()

    def say(text: str) -> None:
        print(f"  {time.perf_counter() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    settings, listener = Settings((str(logs),), out, "local[2]"), Meter(meter)
    if logs is not None:
        pipeline.postmortem(settings, say, listener)
        return
    files = _accounts(settings.tables)
    # As a postmortem does that has read its archives.
    with Stopwatch(listener) as watch:
        with open_spark(settings.exchange, settings.master, listener) as cluster:
            with watch.stage("history"):
                past = pipeline.rebuild_history(cluster, files, settings, say)
            shutil.rmtree(settings.staging, ignore_errors=True)
        release_arrow_memory()
        result = pipeline.finish_run(files, past, load_rule_set(), settings, say, watch)
    say(f"slowest detectors {result['slowest']}")


def run_reads(out: Path, logs: Path) -> None:
    """Count the bytes that each detector reads, with events sorted by kind, and not sorted."""
    from forensics import pipeline  # noqa: PLC0415
    from forensics.engine.local import LocalEngine  # noqa: PLC0415
    from forensics.lib.arrow_io import sort_rows, write_table  # noqa: PLC0415
    from forensics.settings import Settings  # noqa: PLC0415

    settings, engine = Settings((str(logs),), out, engine="local"), LocalEngine()
    work = pipeline.plan_archives(settings, print)
    files = pipeline.scan_archives(engine, work, (), settings, print)
    past = pipeline.rebuild_history(engine, files, settings, print)
    sorted_by_kind = _count_reads(settings.tables, past)
    events = settings.tables / "events"
    table = pq.read_table(events)
    write_table(sort_rows(table, ("file", "line", "offset")), events)
    by_file = _count_reads(settings.tables, past)
    size = sum(path.stat().st_size for path in events.iterdir())
    print(json.dumps({"events": len(table), "bytes": size, "read": sum(sorted_by_kind.values()),
                      "unsorted": sum(by_file.values())}))  # fmt: skip
    for name, count in sorted(sorted_by_kind.items(), key=lambda item: (-item[1], item[0])):
        print(json.dumps({"detector": name, "read": count, "unsorted": by_file[name]}))


def _count_reads(tables: Path, past: History) -> dict[str, int]:
    """Run all detectors; what several of them need, the first one reads."""
    from forensics.detection.context import DetectionContext  # noqa: PLC0415
    from forensics.detection.registry import all_detectors  # noqa: PLC0415
    from forensics.detection.runner import Detector, run_detectors  # noqa: PLC0415
    from forensics.detection.thresholds import load_limits  # noqa: PLC0415
    from forensics.run_output.reader import Tables  # noqa: PLC0415

    read: dict[str, int] = {}

    def find(context: DetectionContext, detector: Detector) -> list[Finding]:
        before = _bytes_read(Path("/proc/self"))
        found = list(detector.find(context))
        read[detector.name] = _bytes_read(Path("/proc/self")) - before
        return found

    detectors = all_detectors()
    limits = load_limits([], [detector.name for detector in detectors])
    counted = [replace(one, find=partial(find, detector=one)) for one in detectors]
    run_detectors(DetectionContext(Tables(tables), past, limits), counted)
    return read


def _accounts(tables: Path) -> dict[str, FileAccount]:
    """Give the files that the events are from, and write their table."""
    from forensics.lib.arrow_io import write_table  # noqa: PLC0415

    files = {}
    for node in [f"broker-{one}" for one in range(BROKERS)] + [f"app-{one}" for one in range(50)]:
        role = "broker" if node.startswith("broker") else "client"
        name = "state-change" if role == "broker" else "client"
        one = FileAccount(f"big.tar.gz!{node}/{name}.log", node=node, role=role)
        one.counts.update(lines=50_000, records=50_000, events=50_000, bytes=9_000_000)
        one.first, one.last = BEGIN, BEGIN + DAY + 120 * SECOND
        files[one.file] = one
    rows = [one.to_row() for one in files.values()]
    write_table(pa.Table.from_pylist(rows, schema=FILES), tables / "files")
    return files


@dataclass
class Used:
    """What one process has used: the most memory, what it read, how long it worked."""

    kind: str
    peak_mb: int = 0
    bytes_read: int = 0
    seconds: float = 0.0


def watched(command: list[str], patience: float) -> tuple[int, float, list[Used]]:
    """Run a command; give its exit code, its seconds, and what each of its processes used."""
    used: dict[int, Used] = {}
    began = time.perf_counter()
    submit = f"--driver-memory {HEAP} pyspark-shell"
    # Spark's workers look for this very tree, too, whatever else is installed.
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, env=environment, start_new_session=True)
    worked, since = 0.0, began
    try:
        while child.poll() is None:
            for pid in _processes(child.pid):
                _note(used, pid, child.pid)
            now, total = time.perf_counter(), sum(one.seconds for one in used.values())
            if total > worked:
                worked, since = total, now
            if total > patience or now - since > SILENCE:
                why = "so much work" if total > patience else f"{SILENCE} s without any"
                print(f"  stopped after {total:.0f} s of processors: {why}", file=sys.stderr)
                return 124, now - began, list(used.values())
            time.sleep(0.25)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return child.returncode, time.perf_counter() - began, list(used.values())


def _processes(session: int) -> Iterator[int]:
    """Give the processes of a session."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == session:
                yield int(path.name)
        except OSError:
            # It ended while it was looked at.
            continue


def _note(used: dict[int, Used], pid: int, root: int) -> None:
    """Note what a process has used so far."""
    path = Path("/proc") / str(pid)
    try:
        name, _, rest = (path / "stat").read_text("utf-8", "replace").rpartition(") ")
        fields = rest.split()
        kind = "driver" if pid == root else "java" if name.endswith("(java") else "worker"
        one = used.setdefault(pid, Used(kind))
        # Before it is Java, or a worker, it is a copy of the one that started it.
        one.kind = kind
        one.seconds = sum(map(int, fields[11:13])) / TICKS
        one.bytes_read = _bytes_read(path)
        one.peak_mb = max(one.peak_mb, _status(path, "VmHWM") // 1024)
    except (OSError, IndexError, StopIteration):
        return


def _status(path: Path, key: str) -> int:
    lines = (path / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def _bytes_read(path: Path) -> int:
    return int((path / "io").read_text().split()[1])


def main() -> int:
    """Run the bench; returns 1 when it failed or a process took more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the archives are made (a temp folder)")
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--transitions", type=int, default=5_000_000)
    parser.add_argument("--longest", type=int, default=1_000_000, help="of one partition alone")
    parser.add_argument("--bytes", type=int, default=TEXT_BYTES, help="of the text")
    parser.add_argument(
        "--share", type=float, default=TEXT_SHARE, help="of lines that say something"
    )
    parser.add_argument("--only", choices=["events", "logs", "text", "reads"], help="one of these")
    parser.add_argument("--parts", type=float, nargs="+", default=[1.0], help="sizes, of the whole")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds of processors")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--logs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--meter", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(given.run, given.logs, given.meter)
        return 0
    results = []
    for part in given.parts:
        if given.only == "reads":
            with tempfile.TemporaryDirectory(prefix="forensics-scale-", dir=given.dir) as work:
                logs = write_past(Path(work, "logs"), int(part * given.bytes), share=1)
                run_reads(Path(work, "out"), logs)
            continue
        size = Size(*(int(part * one) for one in (
            given.partitions, given.transitions, given.longest)))  # fmt: skip
        small = Size(size.partitions // 100, size.transitions // 20, size.longest // 20)
        wanted: dict[str, Callable[[Path], int]] = {
            "events": partial(make_events, size=size),
            "logs": partial(make_logs, size=small),
        }
        if given.only == "text":
            wanted["text"] = partial(make_text, size=int(part * given.bytes), share=given.share)
        for name, make in wanted.items():
            if given.only in (None, name):
                results.append(bench(f"{name} {part:g}", make, given.dir, given.patience))
                print(json.dumps(results[-1]), flush=True)
    return int(any(not one["ok"] for one in results))


def make_text(folder: Path, size: int, share: float) -> int:
    """Write quiet logs with a few incidents, or with a share of 1 nothing but incidents."""
    write_past(folder, size, share)
    return size


def bench(
    name: str, make: Callable[[Path], int], folder: Path | None, patience: float
) -> dict[str, object]:
    """Make one archive, run through it, and say what that took."""
    work = Path(tempfile.mkdtemp(prefix="forensics-scale-", dir=folder))
    is_table = name.startswith("events")
    try:
        out, logs, meter = work / "out", work / "logs", work / "stages.json"
        rows = make(out / "tables/events" if is_table else logs)
        print(f"{name}: {rows:,} {'bytes' if 'text' in name else 'lines'}", file=sys.stderr)
        command = [sys.executable, __file__, "--run", str(out), "--meter", str(meter)]
        command += [] if is_table else ["--logs", str(logs)]
        code, seconds, used = watched(command, patience)
        stages = json.loads(meter.read_text()) if meter.is_file() else {}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    peaks = {kind: max((one.peak_mb for one in used if one.kind == kind), default=0)
             for kind in MOST_MB}  # fmt: skip
    # Its own notes see what is between two looks; the peak begins anew with each stage.
    peaks["driver"] = max([peaks["driver"], *(one["peak_mb"] for one in stages.values())])
    ok = code == 0 and all(peaks[kind] <= most for kind, most in MOST_MB.items())
    return {
        "name": name, "ok": ok, "exit": code, "size": rows, "seconds": round(seconds, 1),
        "worked_s": {kind: round(sum(one.seconds for one in used if one.kind == kind))
                     for kind in MOST_MB},
        "peak_mb": peaks,
        "read_mb": {kind: sum(one.bytes_read for one in used if one.kind == kind) // MB
                    for kind in MOST_MB},
        "stages": stages,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
