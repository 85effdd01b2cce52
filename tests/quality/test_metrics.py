"""The measures that expectations are about: small tables, whatever the archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics import schemas
from forensics.events.file_accounts import FileAccount
from forensics.quality import metrics
from forensics.quality.expectations import TABLES
from forensics.quality.metrics import GateInput
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables

Row = dict[str, Any]
SECOND = 1_000_000
DAY = 86_400 * SECOND
NOW = 1_790_000_000 * SECOND


def given(folder: Path, **run: Sequence[Row]) -> GateInput:
    for name, rows in run.items():
        (folder / name).mkdir()
        found = pa.Table.from_pylist(list(rows), schema=getattr(schemas, name.upper()))
        pq.write_table(found, folder / name / "part-0.parquet")
    return GateInput(Tables(folder), ())


def state(number: int, begin: float | None, end: float | None, **more: Any) -> Row:
    times = [None if at is None else NOW + int(at * SECOND) for at in (begin, end)]
    plain = {"topic": "t", "partition": 0, "leader_epoch": number, "partition_epoch": number,
             "leader": 1, "isr": [1, 2], "replicas": [1, 2, 3], "how": "observed",
             "started_at": times[0], "ended_at": times[1],
             "evidence": [{"file": "f", "line": 1}]}  # fmt: skip
    return plain | more


def measured(folder: Path, rows: Sequence[Row]) -> Row:
    """Measure one partition's leadership; the table of states must agree where it has the same."""
    both = given(folder, leadership=rows, isr=rows)
    found, states = metrics.measure_leadership(both), metrics.measure_isr(both)
    for name in set(found.columns) & set(states.columns):
        pd.testing.assert_series_equal(found[name], states[name])
    (row,) = found.to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_history_as_it_should_be_has_no_fault(tmp_path: Path) -> None:
    row = measured(tmp_path, [state(0, 1, 5), state(1, 5, 5.5), state(2, 5.5, None)])

    assert ("t", 0, 3) == (row["topic"], row["partition"], row["epochs"])
    assert [0.5, 0.0] == pytest.approx([row["shortest"], row["overlap"]])
    assert {0} == {row[name] for name in row if name.startswith(("strange", "without", "doubled"))}


@pytest.mark.parametrize(
    ("rows", "column", "expected"),
    [
        ([state(0, 1, 9), state(1, 4, 10)], "overlap", 5.0),
        # the order is that of time, not of the table
        ([state(0, 4, 10), state(1, 1, 9)], "overlap", 5.0),
        ([state(0, 9, 4)], "shortest", -5.0),
        ([state(3, 1, 2), state(3, 2, 3), state(3, 3, 4)], "doubled_epochs", 2),
        ([state(0, 1, 2, leader=4)], "strange_leaders", 1),
        ([state(0, 1, 2, leader=-1)], "strange_leaders", 0),
        ([state(0, 1, 2, leader=4, replicas=None)], "strange_leaders", 0),
        ([state(0, 1, 2, isr=[1, 4]), state(1, 2, 3, isr=[4, 5])], "strange_isr", 2),
        ([state(0, 1, 2, isr=[1, 4], replicas=[])], "strange_isr", 0),
        ([state(0, 1, 2, isr=None), state(1, 2, 3, isr=[])], "strange_isr", 0),
        ([state(0, 1, 2, evidence=[]), state(1, 2, 3, evidence=None)], "without_evidence", 2),
        ([state(0, 1, 2, evidence=[], how="inferred")], "without_evidence", 0),
        ([state(0, 1, 2, leader=None)], "unknown_leaders", 1),
    ],
)
def test_a_fault_of_a_history_is_measured(
    rows: Sequence[Row], column: str, expected: float, tmp_path: Path
) -> None:
    both = given(tmp_path, leadership=rows)

    assert [pytest.approx(expected)] == metrics.measure_leadership(both)[column].tolist()


def test_times_that_are_not_known_are_not_compared(tmp_path: Path) -> None:
    row = measured(tmp_path, [state(0, None, 5), state(1, 2, None), state(2, 3, 4)])

    assert pytest.approx(1.0) == row["shortest"]
    assert row["overlap"] != row["overlap"], "nothing is known of it"


def test_a_long_table_is_measured_in_parts_that_never_cut_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two epochs lie on both sides of what would be a cut."""
    monkeypatch.setattr(metrics, "_PART", 2)
    monkeypatch.setattr(Tables, "scan", _one_by_one)
    rows = [state(0, 1, 2), state(0, 1, 2, partition=1), state(3, 2, 3, partition=1)]
    rows += [state(3, 3, 4, partition=1), state(0, 9, 5, topic="u"), state(1, 6, 7, topic="u")]
    found = metrics.measure_leadership(given(tmp_path, leadership=rows))

    assert [("t", 0), ("t", 1), ("u", 0)] == list(
        found[["topic", "partition"]].itertuples(index=False, name=None)
    )
    assert [0, 1, 0] == found["doubled_epochs"].tolist()
    assert -4.0 == found["shortest"].min()


def _one_by_one(tables: Tables, name: str, columns: Sequence[str]) -> Any:
    table = tables.read(name, columns)
    return (batch for at in range(len(table)) for batch in table.slice(at, 1).to_batches())


def test_empty_tables_have_their_columns(tmp_path: Path) -> None:
    names = ("leadership", "isr", "clocks", "lanes", "coverage", "events")
    empty = given(tmp_path, **dict.fromkeys(names, ()))

    for name in names:
        frame = getattr(metrics, f"measure_{name}")(empty)
        assert (0, set(TABLES[name].columns)) == (len(frame), set(frame.columns))


def account(name: str, node: str | None, last: int, **more: Any) -> FileAccount:
    one = FileAccount(name, node=node, first=NOW, last=last, **more)
    one.counts.update(lines=10, records=6, continuation_lines=2, unparsed_lines=1, blank_lines=1)
    return one


def test_files_are_measured_by_their_accounts(tmp_path: Path) -> None:
    odd = account("a", "n1", NOW + 3 * DAY, levels={"I": 5, "X": 2}, stepped=3, fallen=4)
    odd.steps = [(NOW + 9 * SECOND, NOW, 5), (NOW + 4 * SECOND, NOW, 9)]
    old = account("b", "n1", NOW + DAY, gaps=[(0, NOW, 3)])
    lost = account("c", "n2", NOW)
    lost.counts["lines"] += 5
    twice = account("d", "n1", NOW + 9 * DAY, duplicate_of="a", stepped=1)
    frame = metrics.measure_files(GateInput(Tables(tmp_path), [odd, old, lost, twice])).set_index(
        "file"
    )

    assert [3, 0, 0, 0] == frame["steps_back"].tolist()
    assert [9, 0, 0, 0] == frame["farthest_step_back"].tolist()
    assert [2, 0, 0, 0] == frame["odd_levels"].tolist()
    assert [4, 0, 0, 0] == frame["fallen_epochs"].tolist()
    assert [0, 0, 5, 0] == frame["lines_left_over"].tolist()
    assert (2026, 1970) == (frame.loc["a", "first_year"], frame.loc["b", "first_year"])
    # Files of one node are compared with those of others, which end at the same time or before.
    assert [3, 1, -3] == frame["days_ahead"].tolist()[:3]
    assert pd.isna(frame.loc["d", "days_ahead"])


def test_one_node_alone_is_ahead_of_nobody(tmp_path: Path) -> None:
    frame = metrics.measure_files(
        GateInput(Tables(tmp_path), [account("a", "n1", NOW), account("b", "n1", NOW)])
    )

    assert frame["days_ahead"].isna().all()


def event(kind: str, **more: Any) -> Row:
    return {"kind": kind, "ts": NOW, "node": "n", "file": "f", "line": 1, "text": "t",
            "level": "INFO"} | more  # fmt: skip


def test_events_are_counted_by_file_and_kind(tmp_path: Path) -> None:
    told = [
        event("partition_state", leader=1, partition=0, leader_epoch=-1),
        event("partition_state", leader=9, partition=-2, leader_epoch=-2),
        event("partition_state", leader=-1, partition_epoch=-5, ts=None),
        event("paused", line=None, level="HUCH", leader=9),
        event("paused", file="g", level="Warning"),
    ]
    frame = metrics.measure_events(given(tmp_path, events=told, isr=[state(0, 1, 2)], lanes=()))
    rows = {(row["file"], row["kind"]): row for row in frame.to_dict("records")}

    assert [("f", "partition_state"), ("f", "paused"), ("g", "paused")] == list(rows)
    states = rows["f", "partition_state"]
    assert (3, 1, 1, 2, 1, 0) == tuple(
        states[name]
        for name in ("events", "without_time", "negative_partitions", "negative_epochs",
                     "strange_leaders", "odd_levels")
    )  # fmt: skip
    assert (1, 1, 0) == tuple(
        rows["f", "paused"][name] for name in ("without_place", "odd_levels", "strange_leaders")
    )
    assert 0 == rows["g", "paused"]["odd_levels"]


def test_evidence_must_be_a_line_of_a_file_that_was_read(tmp_path: Path) -> None:
    places = [{"file": "a", "line": line, "text": "", "rule": None} for line in (1, 10, 11)]
    places.append({"file": "nowhere", "line": 1, "text": "", "rule": None})
    one = Finding("x", "low", "likely", "T", NOW, NOW - SECOND, places, brokers=(1, 2))
    (row,) = metrics.measure_findings(
        GateInput(Tables(tmp_path), [account("a", "n1", NOW)], findings=[one])
    ).to_dict("records")

    assert (4, 2, -1.0, 2) == tuple(
        row[name] for name in ("evidence", "strange_places", "seconds", "brokers")
    )


def test_a_cluster_may_have_more_brokers_than_a_number_has_bits(tmp_path: Path) -> None:
    """Ids are what somebody chose: large, and far apart."""
    ids = [1001 + 7 * n for n in range(200)]
    rows = [
        state(at, at, at + 1, replicas=ids[at : at + 3], isr=[ids[at], ids[at + 2]], leader=ids[at])
        for at in range(190)
    ]
    rows[70] |= {"isr": [ids[3]], "leader": ids[74]}
    rows[189] |= {"isr": [1], "leader": 99_999}
    found = metrics.measure_leadership(given(tmp_path, leadership=rows))

    assert [(2, 2)] == list(
        found[["strange_leaders", "strange_isr"]].itertuples(index=False, name=None)
    )
