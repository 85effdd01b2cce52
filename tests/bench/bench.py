"""Measures how fast logs are scanned, beside a plain Spark job that a user would write instead.

Both read archives made from recorded broker logs: of a hundred records, five are lines that some
rule claims, and ninety-five are records of the same brokers that none does. What counts is the
marginal speed, the bytes between two sizes over the seconds between them, so that starting Spark
does not count for either. Run it alone: it wants two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from forensics.events.log_reader import LogReader  # noqa: E402
from forensics.events.packs import load_rule_set  # noqa: E402
from forensics.events.rules import Wording  # noqa: E402
from forensics.ingest.read_plan import plan_reading  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

SOURCE = ROOT / "sample_logs/430-unclean/logs"
# The JVM's own log is left out: it is dropped at a glance, and would flatter the scan.
FILES = ("server.log", "state-change.log", "log-cleaner.log")
MB = 1_000_000
LARGEST_FILE = 256 * MB
CLAIMED = 0.05
ROUNDS = 2
WORDINGS = 12
FASTEST, RATIO = 150, 10
HEADER = r"^\[(.{23})\] ([A-Z]+) "
ENDING = r" \(([\w.$-]+)\)\s*$"


@dataclass(frozen=True)
class Speed:
    """What one way of reading took for two sizes, and what that means."""

    name: str
    megabytes: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def marginal(self) -> float:
        """MB/s between the two sizes."""
        return (self.megabytes[1] - self.megabytes[0]) / (self.seconds[1] - self.seconds[0])


@dataclass(frozen=True)
class Pool:
    """Records of real brokers, and how often each wording occurs among them."""

    claimed: list[bytes]
    others: list[bytes]
    frequent: list[Wording]
    heard: float


def records(book: LogReader) -> Pool:
    """Sort the records of the recorded brokers by whether a rule claims them."""
    claimed: list[bytes] = []
    others: list[bytes] = []
    counts: Counter[int] = Counter()
    wordings = [(rule, wording) for rule in book.rules for wording in rule.wordings]
    heard = 0
    for path in sorted(path for name in FILES for path in SOURCE.glob(f"broker-*/{name}")):
        cut = book.split_records(path.read_text("utf-8").splitlines())
        if cut is None:
            continue
        taken = set(book.read_events(cut)["offset"].to_pylist())
        kept = set(book.prefiltered(cut)["line"].to_pylist())
        for number, (start, end) in enumerate(zip(cut.starts, cut.ends, strict=True)):
            record = cut.data[start:end].tobytes().rstrip(b"\n") + b"\n"
            (claimed if int(start) in taken else others).append(record)
            heard += int(cut.lines[number]) in kept and int(start) not in taken
        entries = book.parse_all(cut)
        for number, (rule, wording) in enumerate(wordings):
            mine = entries.filter(
                pc.is_in(entries["logger"], pa.array([n.encode() for n in rule.loggers]))
            )
            fits = pc.extract_regex(mine["message"], wording.template.pattern)
            counts[number] += len(fits) - fits.null_count
    frequent = [wordings[number][1] for number, _ in counts.most_common(WORDINGS)]
    return Pool(claimed, others, frequent, heard / len(others))


def make(folder: Path, size: int, pool: Pool, seed: int = 1) -> Path:
    """Write an archive of about `size` bytes, the same for the same seed."""
    shuffled = random.Random(seed)
    folder.mkdir(parents=True)
    for number in range(-(-size // LARGEST_FILE)):
        left = min(size - number * LARGEST_FILE, LARGEST_FILE)
        broker = folder / f"broker-{number + 1}"
        broker.mkdir()
        with (broker / "server.log").open("wb") as file:
            while left > 0:
                drawn = shuffled.choices(pool.others, k=950) + shuffled.choices(pool.claimed, k=50)
                shuffled.shuffle(drawn)
                block = b"".join(drawn)
                file.write(block)
                left -= len(block)
    return folder


def weight(folder: Path) -> int:
    """Sum up the bytes of an archive."""
    return sum(path.stat().st_size for path in folder.rglob("*.log"))


def measure(
    name: str, work: Callable[[Path, Path], None], sizes: Sequence[Path], out: Path
) -> Speed:
    """Time a way of reading on two archives: a warm-up, then the best of some rounds each.

    The rounds take turns, so that what else the machine does falls on both sizes.
    """
    work(sizes[0], out)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for number, folder in enumerate(sizes):
            started = time.perf_counter()
            work(folder, out)
            times[number].append(time.perf_counter() - started)
    small, large = (weight(folder) / MB for folder in sizes)
    print(f"  {name}: {small:.0f} MB in {_told(times[0])} s", file=sys.stderr)
    print(f"  {name}: {large:.0f} MB in {_told(times[1])} s", file=sys.stderr)
    return Speed(name, (small, large), (min(times[0]), min(times[1])))


def _told(times: Sequence[float]) -> str:
    return ", ".join(f"{one:.1f}" for one in times)


def plainly(
    session: SparkSession, frequent: Sequence[Wording], literals: Sequence[str]
) -> Callable[[Path, Path], None]:
    """Write the job that a user would: lines, one filter, and a chain of expressions."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    line = F.col("value")
    patterns = [HEADER + _java(wording) + ENDING for wording in frequent]
    names = sorted({name for wording in frequent for name in wording.template.fields})

    def fact(name: str) -> Column:
        found = [
            F.nullif(
                F.regexp_extract(line, pattern, wording.template.fields.index(name) + 3), F.lit("")
            )
            for pattern, wording in zip(patterns, frequent, strict=True)
            if name in wording.template.fields
        ]
        return F.coalesce(*found).alias(name)

    which = F.when(line.rlike(patterns[0]), frequent[0].template.source)
    for pattern, wording in zip(patterns[1:], frequent[1:], strict=True):
        which = which.when(line.rlike(pattern), wording.template.source)
    wanted = line.rlike("|".join(re.escape(text) for text in sorted(literals, key=len)[::-1]))

    def work(folder: Path, out: Path) -> None:
        lines = session.read.option("recursiveFileLookup", "true").text(str(folder))
        events = lines.where(wanted).select(
            F.regexp_extract(line, HEADER, 1).alias("ts"),
            F.regexp_extract(line, HEADER, 2).alias("level"),
            which.alias("rule"),
            *(fact(name) for name in names),
        )
        events.where("rule is not null").write.mode("overwrite").parquet(str(out))

    return work


def _java(wording: Wording) -> str:
    """Write a pattern in Java's dialect: groups by number, since their names hold underscores."""
    body = re.sub(r"\(\?P<\w+>", "(", wording.template.pattern)
    return body.removeprefix("^").removesuffix(r"\s*$")


def bench(folder: Path, megabytes: tuple[int, int], plain_mb: tuple[int, int]) -> list[Speed]:
    """Make the archives and measure both ways in one Spark session."""
    from forensics.engine.spark import SparkEngine  # noqa: PLC0415

    load = os.getloadavg()[0]
    print(f"  load of the machine before the start: {load:.1f}", file=sys.stderr)
    found = load_rule_set()
    rules = found.active_rules()
    book = LogReader(found.layouts, rules)
    pool = records(book)
    sizes = [make(folder / f"logs-{mb}", mb * MB, pool) for mb in megabytes]
    plain = [make(folder / f"plain-{mb}", mb * MB, pool) for mb in plain_mb]
    print(f"  {pool.heard:.0%} of the unclaimed records pass the sieve", file=sys.stderr)
    cluster = SparkEngine("local[2]")
    try:

        def scan(archive: Path, out: Path) -> None:
            cluster.scan(plan_reading([str(archive)]).splits, "", out)

        all_texts = sorted({w.template.longest_literal for rule in rules for w in rule.wordings})
        few_texts = sorted({wording.template.longest_literal for wording in pool.frequent})
        full = plainly(cluster.session, pool.frequent, all_texts)
        lean = plainly(cluster.session, pool.frequent, few_texts)
        return [
            measure("scan, all rules", scan, sizes, folder / "out"),
            measure("plain Spark, all rules' texts", full, plain, folder / "out"),
            measure(f"plain Spark, {WORDINGS} wordings' texts", lean, plain, folder / "out"),
        ]
    finally:
        cluster.stop()


def main() -> int:
    """Run the bench; returns 1 when the scan is slower than it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the archives are made (a temp folder)")
    parser.add_argument("--mb", type=int, nargs=2, default=(256, 1000), help="sizes for the scan")
    parser.add_argument("--plain-mb", type=int, nargs=2, default=(16, 48), help="for plain Spark")
    parser.add_argument("--no-gate", action="store_true", help="measure only, and end with 0")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forensics-bench-", dir=given.dir))
    try:
        speeds = bench(folder, tuple(given.mb), tuple(given.plain_mb))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    scan, full, *_ = speeds
    if any(one.seconds[0] >= one.seconds[1] for one in speeds):
        print("More bytes took less time: the machine was busy. Run it again.", file=sys.stderr)
        return 1
    print(f"{'way of reading':<34} {'MB':>12} {'seconds':>14} {'MB/s':>8} {'ratio':>7}")
    for one in speeds:
        sizes = "{:.0f} {:.0f}".format(*one.megabytes)
        times = "{:.2f} {:.2f}".format(*one.seconds)
        ratio = scan.marginal / one.marginal
        print(f"{one.name:<34} {sizes:>12} {times:>14} {one.marginal:>8.1f} {ratio:>7.1f}")
    ratio = scan.marginal / full.marginal
    rows = [asdict(one) | {"mb_per_s": round(one.marginal, 1)} for one in speeds]
    print(json.dumps({"speeds": rows, "ratio": round(ratio, 1)}))
    return int(not given.no_gate and (scan.marginal < FASTEST or ratio < RATIO))


if __name__ == "__main__":
    sys.exit(main())
