"""Epochs that fall in one file's telling, wherever its events are parted into batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from forensics.parsing.time_statistics import (
    MAX_KEPT,
    EpochRegression,
    EpochRegressions,
    find_news,
    list_states,
)
from forensics.schemas import EVENTS

Row = dict[str, Any]


def told(line: int, epoch: int | None, version: int | None = None, **more: Any) -> Row:
    return {"kind": "partition_state", "topic": "t", "partition": 0, "line": line,
            "leader_epoch": epoch, "partition_epoch": version} | more  # fmt: skip


def states(rows: list[Row]) -> pa.RecordBatch:
    events = pa.RecordBatch.from_pylist(rows, schema=EVENTS)
    return list_states(events, find_news(events))


def found(rows: list[Row], size: int = 1000) -> list[EpochRegression]:
    falls = EpochRegressions()
    for at in range(0, len(rows), size):
        falls.add(states(rows[at : at + size]))
    assert falls.count == len(falls.regressions)
    return falls.regressions


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_lower_epoch_of_the_same_partition_is_a_fall(size: int) -> None:
    rows = [
        told(1, 5, 70),
        told(2, 3, 10, partition=1),
        told(3, 3, 10, topic="u"),
        told(4, 4, 60),
        told(5, 4, 61),
        told(6, 3, 11, partition=1),
        told(7, None, 9, topic="u"),
    ]
    expected = [
        ("t", 0, "leader_epoch", 5, 4, 4),
        ("t", 0, "partition_epoch", 70, 60, 4),
        ("u", 0, "partition_epoch", 10, 9, 7),
    ]
    assert expected == found(rows, size)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_topic_that_is_created_again_begins_anew(size: int) -> None:
    assert [] == found([told(1, 5, 70), told(2, 0, 0), told(3, 1, 2)], size)
    assert [] == found([told(1, 5, 70), told(2, 0, None, telling="fresh"), told(3, 1, 2)], size)


def test_who_tells_of_the_past_is_not_held_to_it() -> None:
    assert [] == found([told(1, 5), told(2, 2, telling="replay"), told(3, 3, telling="fresh")])
    assert [] == found([told(1, 5), told(2, 2, kind="truncated"), told(3, -1), told(4, None)])


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "other", [{"broker": 2}, {"controller": 1}, {"broker": 1, "logger": "kafka.cluster.Partition"}]
)
def test_each_writer_of_a_file_has_an_order_of_its_own(size: int, other: Row) -> None:
    """A controller's thread is ahead of the one that answers it, and three brokers share a file."""
    own = {"broker": 1, "logger": "state.change.logger"}
    rows = [told(1, 5, 7, **own), told(2, 6, 8, **other), told(3, 5, 7, **own)]

    assert found(rows, size) == []
    assert len(found([*rows, told(4, 5, 7, **other)], size)) == 2


def test_a_file_of_two_clusters_keeps_the_first_few() -> None:
    rows = [told(number, epoch, partition=number) for epoch in (9, 3) for number in range(80)]
    falls = EpochRegressions()
    falls.add(states(rows))

    assert (80, MAX_KEPT) == (falls.count, len(falls.regressions))
    assert list(range(MAX_KEPT)) == [fall[1] for fall in falls.regressions]
