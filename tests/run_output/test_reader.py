"""What is asked of a table does not depend on how often it was asked."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from forensics.lib.arrow_io import write_table
from forensics.run_output import reader
from forensics.run_output.reader import Tables

KINDS = ["ping", "pong", "lost"]
EVENTS = pa.table({"kind": [KINDS[n * n % 3] for n in range(1000)], "line": range(1000)})


def ask(tables: Tables) -> list[object]:
    where = pc.field("kind") == "pong"
    batches = tables.scan("events", ["line"], where, rows=100)
    return [
        [row for batch in batches for row in batch.to_pylist()],
        tables.count_rows("events", where),
        tables.read("events", ["kind", "none"], pc.field("line") > 990).to_pylist(),
        [row for batch in tables.scan("events") for row in batch.to_pylist()],
        tables.count_rows("nothing"),
    ]


def is_held(tables: Tables) -> bool:
    return isinstance(tables.dataset("events"), ds.InMemoryDataset)


def test_a_table_that_is_read_often_is_held_and_gives_the_same_rows(tmp_path: Path) -> None:
    write_table(EVENTS, tmp_path / "events")
    tables = Tables(tmp_path)
    first = ask(tables)
    assert not is_held(tables)
    assert [ask(tables) for _ in range(3)] == [first] * 3
    assert is_held(tables)
    assert first[3] == EVENTS.to_pylist()
    # What is held is not read again.
    (tmp_path / "events/part-0.parquet").unlink()
    assert ask(tables) == first


def test_a_long_table_is_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_HELD_ROWS", len(EVENTS) - 1)
    write_table(EVENTS, tmp_path / "events")
    tables = Tables(tmp_path)
    assert all(ask(tables) == ask(Tables(tmp_path)) for _ in range(4))
    assert not is_held(tables)
