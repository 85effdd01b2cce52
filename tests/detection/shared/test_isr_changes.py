"""Who leaves an ISR is found in columns, and is the same as row by row."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.detection.shared.isr_changes import find_dropouts
from forensics.schemas import ISR
from tests.detection.cases import SECOND, Row, case

# More than are read at once, so that partitions lie across the seam.
ROWS, PARTITIONS = 51_000, 7


def states(seed: int) -> list[Row]:
    """Make states of partitions, one after the other, that lose and regain members."""
    choose = random.Random(seed)
    return [
        {
            "topic": "t",
            "partition": at * PARTITIONS // ROWS,
            "leader": choose.choice([1, 2, None]),
            "isr": choose.choice([None, [], [1], [1, 2], [1, 2, 3], [2, 3], [3, 1]]),
            "replicas": choose.choice([[1, 2, 3], [1, 2, 3], [2, 3]]),
            "started_at": choose.choice([None, at * SECOND // 50, at * SECOND // 50]),
        }
        for at in range(ROWS)
    ]


def slowly(rows: list[Row], least: int) -> dict[int, tuple[Counter[tuple[int, int]], set[int]]]:
    """Do the same row by row."""
    drops: dict[int, Counter[tuple[int, int]]] = {}
    often: Counter[tuple[int, int]] = Counter()
    for before, after in zip(rows, rows[1:], strict=False):
        lists = (before["isr"], after["isr"], after["started_at"])
        if before["partition"] != after["partition"] or None in lists:
            continue
        shorter = len(after["isr"]) < len(before["isr"])
        for broker in set(before["isr"]) - set(after["isr"]) if shorter else ():
            if broker in after["replicas"]:
                leader = -1 if after["leader"] is None else after["leader"]
                second = after["started_at"] // SECOND
                drops.setdefault(broker, Counter())[second, leader] += 1
                often[broker, after["partition"]] += 1
    return {
        broker: (found, {number for one, number in often
                         if one == broker and often[one, number] >= least})
        for broker, found in drops.items()
    }  # fmt: skip


def test_drops_are_those_found_row_by_row(tmp_path: Path) -> None:
    rows, made = states(850), case(tmp_path)
    pq.write_table(pa.Table.from_pylist(rows, schema=ISR), tmp_path / "isr" / "part-0.parquet")

    for least in (3, 710):
        wanted, found = slowly(rows, least), find_dropouts(made, least)

        assert {broker for broker, (_, again) in wanted.items() if again} == set(found)
        assert found
        for broker, one in found.items():
            assert wanted[broker][0] == one.drops
            assert wanted[broker][1] == {number for _, number in one.repeated}


def test_without_a_table_nobody_dropped_out(tmp_path: Path) -> None:
    made = case(tmp_path)
    (tmp_path / "isr" / "part-0.parquet").unlink()
    (tmp_path / "isr").rmdir()

    assert {} == find_dropouts(made, 3)
