"""What others would do with the same logs, each in a process of its own: `peers.py NAME FOLDER`.

All but the last two only find lines that hold one of some dozen texts, and take a few fields out.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

# What an engineer would look for after a bad night.
TEXTS = (
    "ISR updated to", "partition change for", "starts at leader epoch", "Truncating to offset",
    "Stopped fetchers", "started (kafka.server", "shutting down", "fenced",
    "Preparing to rebalance",
    "could not be established", "Disconnected from node", "No space left",
)  # fmt: skip
PATTERN = "|".join(map(re.escape, TEXTS))
TIME = r"^\[?(\d{4}-\d\d-\d\d[ T][\d:]{8})"
PARTITION = r"([\w.]+(?:-[\w.]+)*)-(\d+)"


def with_duckdb(folder: Path) -> int:
    """Read lines as a table of one column, filter by a pattern and extract by others."""
    duckdb = import_module("duckdb")

    duckdb.sql("set threads to 2")
    suffix = ".gz" if any(folder.rglob("*.gz")) else ""
    lines = (
        f"read_csv('{folder}/**/*log*{suffix}', columns={{'line': 'VARCHAR'}}, delim='\x01', "
        " quote='', escape='', header=false, auto_detect=false, strict_mode=false,"
        " ignore_errors=true, max_line_size=16000000)"
    )
    found = duckdb.sql(
        "select count(distinct a), count(distinct b), count(*) from ("
        f" select regexp_extract(line, '{TIME}', 1) a, regexp_extract(line, '{PARTITION}', 1) b"
        f" from {lines} where regexp_matches(line, '{PATTERN}'))"
    ).fetchall()
    return int(found[0][2])


def with_polars(folder: Path) -> int:
    """Do the same with Polars, lazily."""
    pl = import_module("polars")

    files = [str(path) for path in sorted(folder.rglob("*log*")) if path.stat().st_size]
    lines = pl.scan_csv(
        files, has_header=False, separator="\x01", quote_char=None, new_columns=["line"],
        schema={"line": pl.String}, truncate_ragged_lines=True, encoding="utf8-lossy",
    )  # fmt: skip
    kept = lines.filter(pl.col("line").str.contains(PATTERN)).select(
        pl.col("line").str.extract(TIME, 1).alias("ts"),
        pl.col("line").str.extract(PARTITION, 1).alias("topic"),
        pl.col("line").str.extract(PARTITION, 2).alias("partition"),
    )
    return len(kept.collect())


def with_pyspark(folder: Path) -> int:
    """Write the job that a user would: lines, one filter, a few expressions, a table."""
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from forensics.engine import java  # noqa: PLC0415

    os.environ.update(java.find_java(os.environ).environment)
    session = SparkSession.builder.master("local[2]").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    line = F.col("value")
    read = session.read.option("recursiveFileLookup", "true").text(str(folder))
    kept = read.where(line.rlike(PATTERN)).select(
        F.regexp_extract(line, TIME, 1).alias("ts"),
        F.regexp_extract(line, PARTITION, 1).alias("topic"),
        F.regexp_extract(line, PARTITION, 2).alias("partition"),
    )
    out = folder.with_name(folder.name + "-plain")
    kept.write.mode("overwrite").parquet(str(out))
    count = session.read.parquet(str(out)).count()
    session.stop()
    return count


def with_scan(folder: Path) -> int:
    """Scan in this process by all our rules, without Spark; keep nothing."""
    from forensics.events.scan import compile_patterns, load_scanner  # noqa: PLC0415
    from forensics.ingest.read_plan import plan_reading  # noqa: PLC0415
    from forensics.lib.arrow_io import take_system_memory  # noqa: PLC0415

    take_system_memory()
    scanner = load_scanner()
    splits = plan_reading([str(folder)]).splits
    scanner.reader.search_at_once(compile_patterns(splits))
    return sum(map(len, scanner.scan_all(splits)))


WAYS: dict[str, Callable[[Path], int]] = {
    "duckdb": with_duckdb, "polars": with_polars, "pyspark": with_pyspark, "scan": with_scan,
}  # fmt: skip

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    print(WAYS[sys.argv[1]](Path(sys.argv[2])))
