"""The Tab key offers the names that are there, and brokers are named as people see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from forensics.cli.app import PROGRAM_NAME, jobs_folder, make_group
from forensics.cli.value_completion import NodeNumber


def offered(*words: str) -> list[str]:
    complete = ShellComplete(make_group(jobs_folder()), {}, PROGRAM_NAME, "_X")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables: dict[str, list[dict[str, Any]]] = {
        "leadership": [{"topic": "orders-v2", "partition": n} for n in (0, 1, 10)]
        + [{"topic": "audit_log", "partition": 1}] * 2,
        "lanes": [{"broker": n} for n in (3, 1, None, 12)],
    }
    for name, rows in tables.items():
        (tmp_path / "out/tables" / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "out/tables" / name / "part.parquet")
    found = [{"id": "F-1b2c3d4e", "severity": "high", "title": "Broker 2 crashed"}]
    (tmp_path / "out/findings.json").write_text(json.dumps({"findings": found}))
    (tmp_path / "store/weeks/2026-W46").mkdir(parents=True)
    (tmp_path / "store/weeks/2026-W47").mkdir()
    return tmp_path / "out"


def test_names_of_a_run_are_offered(out: Path) -> None:
    partitions = ["orders-v2-0", "orders-v2-1", "orders-v2-10"]

    assert offered("timeline", str(out), "--partition", "ord") == partitions
    assert offered("timeline", str(out), "--topic", "") == ["audit_log", "orders-v2"]
    assert offered("timeline", str(out), "--broker", "broker-1") == ["broker-1", "broker-12"]
    assert offered("show", "--out", str(out), "F-") == ["F-1b2c3d4e"]
    assert offered("export", str(out), "--table", "l") == ["lanes", "leadership"]


def test_findings_of_the_usual_folder_are_offered(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out.parent)

    assert offered("show", "F-1") == ["F-1b2c3d4e"]


def test_weeks_and_rules_are_offered(out: Path) -> None:
    store = str(out.with_name("store"))

    assert offered("rebuild", store, "--week", "2026") == ["2026-W47", "2026-W46"]
    assert offered("compare", "--store", store, "2026-W46") == ["2026-W46"]
    assert "quorum-unclean" in offered("rules", "show", "quorum-un")


def test_where_there_is_nothing_nothing_fails(tmp_path: Path) -> None:
    assert offered("timeline", str(tmp_path / "gone"), "--broker", "") == []
    (tmp_path / "findings.json").write_text("no JSON")
    assert offered("show", "--out", str(tmp_path), "F") == []


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("broker-2", 2), ("Broker 2", 2)])
def test_a_broker_is_named_as_people_see_it(text: str, number: int) -> None:
    assert NodeNumber().convert(text, None, None) == number


@pytest.mark.parametrize("text", ["two", "-1", "controller-2", "broker-x", ""])
def test_what_is_no_broker_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no broker; write its id, such as 2"):
        NodeNumber().convert(text, None, None)
    done = CliRunner().invoke(
        make_group(jobs_folder()), ["timeline", "x", "--broker", text or "''"]
    )
    assert done.exit_code == 2
