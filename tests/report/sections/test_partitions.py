"""The table of partitions: worst first, those unchanged counted, histories exact and small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from forensics.report import partition_ranking
from forensics.report.sections import partitions
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import START, at, document, finding, lost, reign, save


def block(html: str) -> dict[str, Any]:
    """Read the data that the search goes through."""
    found = re.search(r'id="partitions-data">(.*?)</script>', html)
    assert found
    value: dict[str, Any] = json.loads(found[1])
    return value


def spelled(flat: list[int], each: int, start: int = START) -> list[tuple[int, ...]]:
    """Undo the coding of one history: its moments instead of the time since the row before."""
    rows, moment = [], start
    place = 2 if each == 4 else 1
    for first in range(0, len(flat), each):
        row = flat[first : first + each]
        moment += row[place]
        rows.append((moment - START, *(value for at_, value in enumerate(row) if at_ != place)))
    return rows


def test_the_worst_stand_first_and_the_unchanged_are_only_counted(unclean: Path) -> None:
    """Eight of orders-v2, two of which nobody ever moved."""
    found, every = partition_ranking.rank_partitions(load_run(unclean))
    html = partitions.render(load_run(unclean))

    assert every == 11
    assert [harm.name for harm in found[:3]] == [
        ("metrics-firehose", 2), ("metrics-firehose", 1), ("metrics-firehose", 0)
    ]  # fmt: skip
    assert [harm.max_lost for harm in found[:3]] == [1293, 1262, 845]
    assert "11 partitions: 9 changed, 2 did not." in html
    assert len(block(html)["rows"]) == 9
    assert 'id="p/metrics-firehose/2"' in html
    assert "orders-v2-2" not in html


def test_a_loss_without_a_bound_is_the_worst(unclean: Path) -> None:
    row = lost(1, 2, None) | {"partition": "orders-v2-2"}
    one = finding("F-1", "unclean-election", "critical", measures={"partitions": [row]})
    write_findings(document([one]), unclean / "findings.json")

    found, _ = partition_ranking.rank_partitions(load_run(unclean))

    assert (found[0].name, found[0].max_lost) == (("orders-v2", 2), None)


def test_a_history_is_told_to_the_millisecond(unclean: Path) -> None:
    """As the tables hold it; what lies between two epochs is not known."""
    rows = reign("t", 0, (0, 1, 0, 10_001), (1, -1, 10_001, 12_345), (2, 2, 20_000, None))
    save(unclean, "leadership", rows)
    save(unclean, "isr", [
        {"topic": "t", "partition": 0, "isr": isr, "started_at": at(since), "ended_at": at(till)}
        for isr, since, till in (([1, 2], 0, 10_001), ([2], 10_001, None))
    ])  # fmt: skip
    found = block(partitions.render(load_run(unclean)))
    [[led, synced]] = found["histories"]

    assert found["topics"] == ["t"]
    assert spelled(led, 4) == [
        (0, 1, 0, 0), (10_001, -1, 1, 0), (12_345, -2, -1, 0), (20_000, 2, 2, 0),
    ]  # fmt: skip
    assert [(when, found["isrs"][code]) for when, code in spelled(synced, 2)] == [
        (0, [1, 2]), (10_001, [2]),
    ]  # fmt: skip


def test_equal_histories_are_in_the_page_once(tmp_path: Path) -> None:
    rows = [row for number in range(500)
            for row in reign("t", number, (0, 1, 0, 9_000), (1, 2, 9_000, None))]  # fmt: skip
    save(tmp_path, "leadership", rows)
    write_findings(document([]), tmp_path / "findings.json")
    found = block(partitions.render(load_run(tmp_path)))

    assert len(found["histories"]) == 1
    assert len(found["rows"]) == 500


def test_what_has_no_room_is_counted_and_where_it_is_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_ranking, "MAX_BYTES", 2000)
    rows = [
        row
        for number in range(50)
        for row in reign("t", number, (0, 1, 0, 9_000 + number), (1, 2, 9_000 + number, None))
    ]
    save(tmp_path, "leadership", rows)
    write_findings(document([]), tmp_path / "findings.json")
    html = partitions.render(load_run(tmp_path))
    told = [row for row in block(html)["rows"] if row[-1] >= 0]

    assert 0 < len(told) < 50
    assert f"The histories of {50 - len(told)} partitions are in tables/leadership" in html


def test_without_a_script_the_worst_histories_stand_as_tables(unclean: Path) -> None:
    html = partitions.render(load_run(unclean))
    [still] = re.findall(r"<noscript>(.*?)</noscript>", html, re.DOTALL)

    assert "History of metrics-firehose-2" in still
    assert "2 (unclean)" in still
    assert "11:38:51.318" in still


def test_no_table_is_said(quiet: Path) -> None:
    save(quiet, "leadership", [])

    assert "No leader epoch and no ISR" in partitions.render(load_run(quiet))
