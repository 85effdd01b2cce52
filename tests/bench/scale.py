"""Folds a large generated archive with little memory, and says what each process took.

The archive: 200,000 partitions of 100 brokers with 5 million transitions between them, a million of
these on one partition. It is made as the table of events that a scan of its logs would leave; a
smaller one is made as log files and read from there. Both go through every later stage in a
process of its own on local[2], its JVM held to 1 GB of heap. Fails when the Python driver grows
beyond 1 GB, or when it takes too long. Run it alone: it wants two cores.
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from forensics.schemas import EVENTS, FILES  # noqa: E402

MB = 1 << 20
HEAP, MOST_MB = "1g", 1024
PATIENCE = 470
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


def run(out: Path, logs: Path | None) -> None:
    """Do the work that is measured, in a process of its own."""
    from forensics import pipeline  # noqa: PLC0415
    from forensics.engine.spark import SparkEngine  # noqa: PLC0415
    from forensics.events.file_accounts import FileAccount  # noqa: PLC0415
    from forensics.events.packs import load_rule_set  # noqa: PLC0415
    from forensics.lib.arrow_io import write_table  # noqa: PLC0415
    from forensics.settings import Settings  # noqa: PLC0415

    began = time.perf_counter()

    def say(text: str) -> None:
        print(f"  {time.perf_counter() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    settings = Settings((str(logs),), out, "local[2]")
    if logs is not None:
        pipeline.postmortem(settings, say)
        return
    files = {}
    for node in [f"broker-{one}" for one in range(BROKERS)] + [f"app-{one}" for one in range(50)]:
        role = "broker" if node.startswith("broker") else "client"
        name = "state-change" if role == "broker" else "client"
        one = FileAccount(f"big.tar.gz!{node}/{name}.log", node=node, role=role)
        one.counts.update(lines=50_000, records=50_000, events=50_000, bytes=9_000_000)
        one.first, one.last = BEGIN, BEGIN + DAY + 120 * SECOND
        files[one.file] = one
    write_table(
        pa.Table.from_pylist([one.to_row() for one in files.values()], schema=FILES),
        settings.tables / "files",
    )
    cluster = SparkEngine(settings.exchange, settings.master)
    try:
        past = pipeline.rebuild_history(cluster, files, settings, say)
    finally:
        cluster.stop()
        shutil.rmtree(settings.staging, ignore_errors=True)
    result = pipeline.finish_run(files, past, load_rule_set(), settings, say)
    say(f"stages {result['seconds']}, slowest detectors {result['slowest']}")


def watched(command: list[str], patience: float) -> tuple[int, float, dict[str, int]]:
    """Run a command; give its exit code, seconds, and the peak of each kind of process in MB."""
    most: dict[str, int] = {}
    began = time.perf_counter()
    submit = f"--driver-memory {HEAP} pyspark-shell"
    # Spark's workers look for this very tree, too, whatever else is installed.
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while child.poll() is None:
            for name, peak in _peaks(child.pid):
                most[name] = max(most.get(name, 0), peak)
            if time.perf_counter() - began > patience:
                print(f"  stopped after {patience:.0f} s", file=sys.stderr)
                return 124, patience, most
            time.sleep(0.25)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return child.returncode, time.perf_counter() - began, most


def _peaks(root: int) -> Iterator[tuple[str, int]]:
    """Give the kind and the peak memory of a process and all that it started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
            if os.getsid(int(path.name)) != root and int(path.name) != root:
                continue
            name = status["Name"].strip()
            kind = "driver" if int(path.name) == root else "jvm" if name == "java" else "worker"
            yield kind, int(status["VmHWM"].split()[0]) // 1024
        except (OSError, KeyError, ValueError):
            # It ended while it was looked at.
            continue


def main() -> int:
    """Run the bench; returns 1 when it failed or the driver took more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the archives are made (a temp folder)")
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--transitions", type=int, default=5_000_000)
    parser.add_argument("--longest", type=int, default=1_000_000, help="of one partition alone")
    parser.add_argument("--only", choices=["events", "logs"], help="one of the two archives")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for each archive")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--logs", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(given.run, given.logs)
        return 0
    size = Size(given.partitions, given.transitions, given.longest)
    small = Size(given.partitions // 100, given.transitions // 20, given.longest // 20)
    wanted: dict[str, tuple[Size, Callable[[Path, Size], int]]] = {
        "events": (size, make_events),
        "logs": (small, make_logs),
    }
    results = []
    for name, (what, make) in wanted.items():
        if given.only in (None, name):
            results.append(bench(name, what, make, given.dir, given.patience))
    print(json.dumps({"heap": HEAP, "runs": results}))
    return int(any(not one["ok"] for one in results))


def bench(
    name: str, size: Size, make: Callable[[Path, Size], int], folder: Path | None, patience: float
) -> dict[str, object]:
    """Make one archive, run through it, and say what that took."""
    work = Path(tempfile.mkdtemp(prefix="forensics-scale-", dir=folder))
    try:
        out, logs = work / "out", work / "logs"
        rows = make(out / "tables/events" if name == "events" else logs, size)
        print(f"{name}: {size.partitions:,} partitions, {rows:,} lines", file=sys.stderr)
        command = [sys.executable, __file__, "--run", str(out)]
        command += ["--logs", str(logs)] if name == "logs" else []
        code, seconds, most = watched(command, patience)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ok = code == 0 and most.get("driver", 0) <= MOST_MB
    found = {"name": name, "ok": ok, "exit": code, "lines": rows, "seconds": round(seconds, 1)}
    return found | {f"{kind}_mb": peak for kind, peak in sorted(most.items())}


if __name__ == "__main__":
    sys.exit(main())
