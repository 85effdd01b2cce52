"""Only what tasks have named becomes part of a table, and every row of a table is read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from forensics.engine.task_files import Chain, ReadPieces, TaskFiles, WriteRows, write_part
from forensics.errors import ForensicsError
from tests.ingest.object_store import serving

SCHEMA = pa.schema([("line", pa.int64()), ("text", pa.string())])


def rows(*lines: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"line": list(lines), "text": [f"line {line}" for line in lines]}, SCHEMA
    )


def write(files: TaskFiles, *lines: int) -> list[tuple[str, int]]:
    """Run one attempt of a task; give what it says."""
    told = write_part(files.exchange, SCHEMA, [rows(*lines)])
    return [(row["name"], row["rows"]) for batch in told for row in batch.to_pylist()]


def numbered(number: int) -> Iterator[pa.RecordBatch]:
    """Give what Spark gives to the task of that number."""
    yield pa.record_batch({"id": [number]})


def read(folder: Path) -> list[int]:
    found: list[int] = ds.dataset(folder, format="parquet").to_table()["line"].to_pylist()
    return found


def test_an_attempt_that_nobody_named_is_not_read(tmp_path: Path) -> None:
    files = TaskFiles(str(tmp_path / "written"))
    write(files, 1, 2)
    second = write(files, 1, 2)
    (tmp_path / "written/killed.parquet").write_bytes(b"PAR1")
    target = tmp_path / "scan"
    target.mkdir()
    (target / "of an earlier run.parquet").write_bytes(b"PAR1")

    files.keep(target, SCHEMA, [*second, *write(files, 3)])

    assert [1, 2, 3] == read(target)
    assert 2 == len(list(target.iterdir()))


def test_files_keep_the_order_of_tasks(tmp_path: Path) -> None:
    files = TaskFiles(str(tmp_path / "written"))
    named = [one for number in range(12) for one in write(files, number)]

    files.keep(tmp_path / "sorted", SCHEMA, named)

    names = sorted(path.name for path in (tmp_path / "sorted").iterdir())
    assert list(range(12)) == [pq.read_table(tmp_path / "sorted" / name)["line"][0].as_py()
                               for name in names]  # fmt: skip


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    files = TaskFiles(str(tmp_path / "written"))
    assert [] == list(write_part(files.exchange, SCHEMA, [rows()]))

    files.keep(tmp_path / "empty", SCHEMA, [])

    assert SCHEMA == pq.read_schema(next((tmp_path / "empty").iterdir()))
    assert [] == files.plan_tasks(tmp_path / "empty", 4)


def test_rows_that_executors_kept_to_themselves_are_missed(tmp_path: Path) -> None:
    files = TaskFiles(str(tmp_path / "written"))
    named = [*write(files, *range(7)), ("elsewhere.parquet", 1000)]

    with pytest.raises(ForensicsError, match=r"wrote 1,007 rows .* and 7 of them are here") as told:
        files.keep(tmp_path / "scan", SCHEMA, named)
    assert "or in a store: -o s3://BUCKET/FOLDER" in str(told.value)


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_every_row_is_in_one_task(tmp_path: Path, workers: int) -> None:
    source = tmp_path / "table"
    source.mkdir()
    for part, count in enumerate((40_000, 1, 7_000)):
        table = pa.Table.from_batches([rows(*range(part * 100_000, part * 100_000 + count))])
        pq.write_table(table, source / f"part-{part}.parquet", row_group_size=6_000)
    files = TaskFiles(str(tmp_path / "written"))

    tasks = files.plan_tasks(source, workers)
    work = ReadPieces(tasks, ["line"])
    shares = [
        [line for batch in work(numbered(number))
         for line in batch["line"].to_pylist()]
        for number in range(len(tasks))
    ]  # fmt: skip

    assert workers == len(tasks)
    assert read(source) == [line for share in shares for line in share]
    assert max(map(len, shares)) - min(map(len, shares)) <= 12_000


def test_what_is_read_is_chosen_changed_and_sorted_in_the_task(tmp_path: Path) -> None:
    source, target = tmp_path / "table", tmp_path / "other"
    source.mkdir()
    pq.write_table(pa.Table.from_batches([rows(5, 3, 9, 4)]), source / "part-0.parquet")
    files = TaskFiles(str(tmp_path / "written"))
    chosen = ReadPieces(files.plan_tasks(source, 1), SCHEMA.names, pc.field("line") > 3)
    work = Chain((chosen, WriteRows(files.exchange, SCHEMA, iter, ("line",))))

    told = [row for batch in work(numbered(0)) for row in batch.to_pylist()]
    files.keep(target, SCHEMA, [(row["name"], row["rows"]) for row in told])

    assert [4, 5, 9] == read(target)


@pytest.mark.slow
def test_executors_that_share_only_a_store(tmp_path: Path) -> None:
    """What they write is fetched from there, what the driver wrote is put there, both once."""
    with serving(tmp_path / "objects") as bucket:
        files = TaskFiles(bucket.address("run/_staging/1"))
        write(files, 8)
        target, own = tmp_path / "scan", tmp_path / "own"
        files.keep(target, SCHEMA, [*write(files, 1, 2), *write(files, 3)])
        assert [1, 2, 3] == read(target)
        target.rename(tmp_path / "events")
        own.mkdir()
        pq.write_table(pa.Table.from_batches([rows(7)]), own / "part-0.parquet")

        tasks = [files.plan_tasks(tmp_path / "events", 1), files.plan_tasks(own, 1)]
        tasks.append(files.plan_tasks(own, 1))
        found = [
            batch["line"].to_pylist()
            for one in tasks
            for batch in ReadPieces(one, ["line"])(numbered(0))
        ]
        there = list((bucket.folder / "run/_staging/1").iterdir())

    assert [[1, 2], [3], [7], [7]] == found
    assert 4 == len(there)
