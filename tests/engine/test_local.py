"""The engine without Spark: a whole postmortem where there is no Java, and what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from forensics.engine import local
from forensics.engine.local import LocalEngine
from forensics.engine.progress import ProgressListener
from forensics.errors import ForensicsError
from forensics.events.packs import packs_to_json
from forensics.ingest.read_plan import plan_reading
from forensics.lib import arrow_io
from forensics.lib.limits import DEFAULT_LIMITS
from forensics.lib.second_process import open_second_process

LOGS = Path(__file__).parents[2] / "sample_logs/430-unclean/logs"
SAMPLE = Path(__file__).parents[2] / "sample_logs/391-failed-disk/logs.tar.gz"
COLUMNS = ("topic", "partition", "line")
TOLD = pa.schema([("topic", pa.string()), ("lines", pa.list_(pa.int64()))])
SCHEMA = pa.schema([("kind", pa.string()), ("line", pa.int64())])
# Runs the command, and says which modules of Spark were loaded for it.
RUN = """
import sys
from forensics.cli.app import main
try:
    main(sys.argv[1:])
finally:
    print(sorted(name for name in sys.modules if name.startswith("pyspark")))
"""


def test_a_postmortem_needs_neither_java_nor_spark(tmp_path: Path) -> None:
    environ = {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = ["postmortem", str(SAMPLE), "-o", str(tmp_path / "out"), "--engine", "local", "-q"]
    ended = subprocess.run(
        [sys.executable, "-c", RUN, *command],
        env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert (0, "[]\n", "") == (ended.returncode, ended.stdout, ended.stderr)
    document = json.loads((tmp_path / "out/findings.json").read_text("utf-8"))
    assert "incident" == document["verdict"]
    assert "disk-failure" in {one["detector"] for one in document["findings"]}
    assert (tmp_path / "out/report.html").stat().st_size > 100_000


def test_a_large_archive_is_refused_with_what_to_do(tmp_path: Path) -> None:
    engine, work = LocalEngine(max_bytes=1000), plan_reading([str(SAMPLE)], 1 << 20, DEFAULT_LIMITS)

    with pytest.raises(ForensicsError, match=r"is for 1\.0 kB at most.*Leave --engine out"):
        engine.scan(work.splits, packs_to_json(()), tmp_path / "scan")


@pytest.mark.parametrize(
    "words",
    [("postmortem", "x", "-o", "out"), ("audit", "x", "--store", "s"),
     ("timeline", "x", "--broker", "1"), ("rebuild", "s")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_master_is_for_spark(words: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(
        make_group(jobs_folder()), [*words, "--engine", "local", "--master", "local[2]"]
    )

    assert 2 == ended.exit_code
    assert "--master is Spark's" in ended.output


@pytest.mark.parametrize("sizes", [[], [3], [2, 0, 5, 1]])
def test_batches_are_written_as_one_table(sizes: list[int], tmp_path: Path) -> None:
    schema = pa.schema([("number", pa.int64())])
    tables = [pa.record_batch([pa.array(range(size))], schema=schema) for size in sizes]
    arrow_io.write_batches(iter(tables), schema, tmp_path / "t", rows=4)

    found = pq.read_table(tmp_path / "t")
    assert [number for size in sizes for number in range(size)] == found["number"].to_pylist()
    assert schema == found.schema


def test_a_file_is_sorted_and_its_groups_are_small(tmp_path: Path) -> None:
    rows = 2 * arrow_io.ROWS_OF_GROUP
    kinds = ["started", None, "fenced", "started"] * (rows // 4)
    table = pa.table([pa.array(kinds), pa.array(range(rows))], schema=SCHEMA)
    arrow_io.write_table(table, tmp_path / "from")

    LocalEngine().map_batches(
        tmp_path / "from", tmp_path / "to", lambda batches: batches, SCHEMA, ("kind", "line")
    )

    (path,) = (tmp_path / "to").glob("*.parquet")
    found = [(row["kind"] or "~", row["line"]) for row in pq.read_table(path).to_pylist()]
    assert found == sorted(found)
    assert pq.read_metadata(path).num_row_groups == 2


def tell_partitions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say of each partition how many rows came together, and the lines that they have."""
    for rows in arrow_io.iter_partitions(batches, COLUMNS):
        held = list(rows)
        told = {"topic": held[0]["topic"], "lines": [row["line"] for row in held]}
        yield pa.RecordBatch.from_pylist([told], TOLD)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_two_processes_fold_each_partition_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, *, is_lost: bool
) -> None:
    rows: list[tuple[str, str | None, int | None, int]] = [
        # One of them has half of all lines, and some lines name no topic.
        ("state", None if line % 7 == 0 else f"t{line % 5}", line % 3 * (line % 2), line)
        for line in range(count)
    ]
    rows += [("state", "none", None, 0), ("other", "t1", 1, 1)]
    names = dict(zip(("kind", *COLUMNS), zip(*rows, strict=True), strict=True))
    arrow_io.write_table(pa.table(names), tmp_path / "events")
    monkeypatch.setattr(local, "SHARED_EVENTS", 0)
    monkeypatch.setattr(local, "_PART_EVENTS", 20)

    alone = fold(LocalEngine(), tmp_path)
    with open_second_process() as second:
        if is_lost and second.pid:
            second.start(os._exit, 1)
        both = fold(LocalEngine(second=second), tmp_path)

    assert alone == both
    assert list(range(count)) == sorted(line for row in both for line in row["lines"])
    assert len(both) == len({(row["topic"], row["lines"][0]) for row in both})


def fold(engine: LocalEngine, folder: Path) -> list[dict[str, Any]]:
    found = engine.map_partitions(folder / "events", ["state"], COLUMNS, tell_partitions, TOLD)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


class HeardProgress(ProgressListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []

    def bytes_read(self, done: int, total: int) -> None:
        self.heard.append((done, total))


@pytest.mark.parametrize("is_lost", [False, True])
def test_two_processes_scan_each_piece_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    work, listener = plan_reading([str(LOGS)], 100_000, DEFAULT_LIMITS), HeardProgress()
    LocalEngine().scan(work.splits, packs_to_json(()), tmp_path / "alone")
    monkeypatch.setattr(local, "SHARED_BYTES", 0)
    with open_second_process() as second:
        if is_lost and second.pid:
            second.start(os._exit, 1)
        engine = LocalEngine(listener, second=second)
        engine.scan(work.splits, packs_to_json(()), tmp_path / "both")

    alone, both = (pq.read_table(tmp_path / name) for name in ("alone", "both"))
    order = [(name, "ascending") for name in ("file", "split", "line", "offset", "kind", "account")]
    assert alone.sort_by(order).to_pylist() == both.sort_by(order).to_pylist()
    assert sorted(listener.heard) == listener.heard
    total = sum(split.bytes for split in work.splits)
    assert listener.heard[-1] == (total, total)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "both"]
