"""Rows out of batches: each partition's together, wherever the batches happen to be cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from forensics.lib import arrow_io
from forensics.lib.arrow_io import iter_partitions, read_batches, to_batches, write_batches

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("isr", pa.list_(pa.int32())),
    ]
)
Row = dict[str, Any]


def row(topic: str, partition: int, ts: int | None = 1, isr: list[int] | None = None) -> Row:
    return {"topic": topic, "partition": partition, "ts": ts, "isr": isr}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2))), st.integers(1, 7))
def test_a_partition_s_rows_come_together_however_batches_are_cut(
    keys: list[tuple[str, int]], size: int
) -> None:
    rows = [row(*key, ts=number) for number, key in enumerate(sorted(keys))]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    found = [list(some) for some in iter_partitions(table.to_batches(size), SCHEMA.names)]

    assert rows == [one for some in found for one in some]
    assert len(set(keys)) == len(found)


def test_times_are_microseconds_and_what_is_not_asked_for_stays_behind() -> None:
    table = pa.Table.from_pylist([row("t", 0, 5, [2, 1]), row("t", 0, None)], schema=SCHEMA)
    found = next(iter_partitions(table.to_batches(), ["topic", "partition", "ts"]))

    assert [("t", 0, 5), ("t", 0, None)] == [tuple(one.values()) for one in found]


def test_rows_that_name_the_same_file_share_its_name() -> None:
    """Else a million statements would hold a million names."""
    table = pa.Table.from_pylist([row("a-topic", n) for n in range(9)], schema=SCHEMA)
    names = [one["topic"] for one in arrow_io.iter_rows(table.to_batches(), ["topic"])]

    assert 1 == len({id(name) for name in names})


def test_rows_go_into_batches_of_which_none_is_large() -> None:
    rows = ({"topic": "t", "partition": number} for number in range(12_000))
    found = list(to_batches(rows, SCHEMA))

    assert [5000, 5000, 2000] == [len(one) for one in found]
    assert row("t", 11_999, None) == found[-1].to_pylist()[-1]


def test_many_batches_of_a_row_are_written_in_little_memory(tmp_path: Path) -> None:
    schema = pa.schema([(f"column {number}", pa.string()) for number in range(60)])
    begun, most, count = pa.total_allocated_bytes(), 0, 8_000

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for _ in range(count):
            yield pa.RecordBatch.from_arrays([pa.array(["x"])] * 60, schema=schema)
            most = max(most, pa.total_allocated_bytes() - begun)

    write_batches(batches(), schema, tmp_path / "table")

    # A row has 60 texts of one letter.
    assert most < 10 * count * 60
    assert sum(map(len, read_batches(tmp_path / "table"))) == count
