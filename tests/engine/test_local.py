"""What engines write: sorted, and in groups that a reader can skip."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.engine.local import LocalEngine
from forensics.lib import arrow_io

SCHEMA = pa.schema([("kind", pa.string()), ("line", pa.int64())])


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
