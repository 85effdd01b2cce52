"""A saved output that is damaged, hostile or half is one sentence with the file, at little cost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics import schemas
from forensics.cli.app import jobs_folder, make_group
from forensics.errors import ForensicsError
from forensics.lib.folder_lock import lock_output
from forensics.run_output.findings import write_findings
from forensics.run_output.integrity import read_document
from forensics.run_output.reader import open_run
from tests.report.sample_runs import document, finding, leadership, save

Damage = Callable[[Path], object]
FIRST = "findings.json: findings[0]"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Save a run that came to its end."""
    folder = tmp_path / "out"
    save(folder, "leadership", leadership())
    save(folder, "lanes", [])
    (folder / "tables" / "checks").mkdir()
    write_findings(document([finding("F-1", "disk-failure", "high")]), folder / "findings.json")
    (folder / "_RESULT.json").write_text('{"exit_code": 0}')
    return folder


def killed(out: Path) -> None:
    """Leave what a process leaves that is killed while it writes tables."""
    for name in ("_RESULT.json", "findings.json"):
        (out / name).unlink()


def text(content: str) -> Damage:
    return lambda out: (out / "findings.json").write_text(content)


def changed(**keys: Any) -> Damage:
    def change(out: Path) -> None:
        path = out / "findings.json"
        found = json.loads(path.read_text())
        found["findings"][0] |= keys
        path.write_text(json.dumps(found))

    return change


def table(name: str, rows: pa.Table) -> Damage:
    def write(out: Path) -> None:
        folder = out / "tables" / name
        shutil.rmtree(folder)
        folder.mkdir()
        pq.write_table(rows, folder / "part-0.parquet")

    return write


def part(change: Callable[[bytes], bytes]) -> Damage:
    def write(out: Path) -> None:
        path = out / "tables" / "leadership" / "part-0.parquet"
        path.write_bytes(change(path.read_bytes()))

    return write


FAR = pa.array([9_200_000_000_000_000_000], pa.int64()).cast(schemas.LANES.field("started_at").type)
MANY = pa.table({"node": pa.nulls(1_000_001, pa.string())})
DAMAGED: dict[str, tuple[Damage, str]] = {
    "a list": (text("[]"), "findings.json holds a list where an object was expected"),
    "deep": (text("[" * 200_000), "findings.json is nested deeper"),
    "cut": (text('{"findings": ['), "findings.json is no JSON"),
    "findings": (text('{"findings": "x"}'), "findings.json: findings is a text, not a list"),
    "a finding": (text('{"findings": [7]}'), f"{FIRST} is a number, not an object"),
    "a title": (changed(title=[1]), f"{FIRST}.title is a list, not a text"),
    "brokers": (changed(brokers=["a"]), f"{FIRST}.brokers[0] is a text, not a number"),
    "evidence": (changed(evidence=[3]), f"{FIRST}.evidence[0] is a number, not an object"),
    "a far time": (changed(to="9999-12-31T23:59:59Z"), f"{FIRST}.to is 9999-12-31T23:59:59Z, when"),
    "a table of text": (part(lambda _: b"hello"), "part-0.parquet is no whole Parquet file"),
    "an empty table": (part(lambda _: b""), "part-0.parquet is no whole Parquet file"),
    "a cut table": (part(lambda data: data[:300]), "part-0.parquet is no whole Parquet file"),
    "wrong types": (
        table("leadership", pa.table({"leader_epoch": ["x"]})),
        "part-0.parquet is not as a run writes it: leader_epoch is string, not int32",
    ),
    "the year 290,000": (
        table("lanes", pa.table({"started_at": FAR})),
        "a time in started_at is beyond all calendars",
    ),
    "the year 1": (
        table("lanes", pa.table({"started_at": pa.array([datetime(1, 1, 1)])})),  # noqa: DTZ001
        "a time in started_at is of the year 1",
    ),
    "too many rows": (table("lanes", MANY), "it has 1,000,001 rows, and no run more than"),
    "no result": (lambda out: (out / "_RESULT.json").unlink(), "did not finish: there is no _RES"),
    "a failed run": (
        lambda out: (out / "_RESULT.json").write_text('{"exit_code": 1, "reason": "disk"}'),
        "did not finish: disk. Make it anew",
    ),
    "a killed run": (
        killed,
        "did not finish: there is no _RESULT.json",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_is_one_sentence_with_the_file(out: Path, name: str) -> None:
    damage, says = DAMAGED[name]
    damage(out)

    with pytest.raises(ForensicsError) as refused:
        open_run(out)

    assert str(out) in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "words", [("report",), ("export", "--format", "jsonl"), ("show", "F-1", "-o"), ("redact", "-o")]
)
def test_every_command_ends_with_one(out: Path, words: tuple[str, ...]) -> None:
    (out / "_RESULT.json").unlink()
    arguments = [*words, str(out)] if words[0] != "redact" else ["redact", str(out), "-o", "new"]

    done = CliRunner().invoke(make_group(jobs_folder()), arguments)

    assert (done.exit_code, done.stdout) == (1, "")
    assert "did not finish" in done.stderr
    assert not (out / "report.html").exists()


def test_a_run_that_is_under_way_is_left_alone(out: Path) -> None:
    with lock_output(out), pytest.raises(ForensicsError, match="A run is still writing"):
        open_run(out)

    assert open_run(out).findings[0].id == "F-1"


def test_pages_that_are_damaged_behind_a_sound_footer_name_their_table(out: Path) -> None:
    part(lambda data: data[:4] + b"\xff" * 200 + data[204:])(out)

    with pytest.raises(ForensicsError, match=r"tables/leadership is damaged and cannot be read"):
        open_run(out).tables.read("leadership", ["topic", "partition", "leader", "started_at"])


def test_a_column_that_is_another_in_a_group_of_rows_ends_no_process(out: Path) -> None:
    # Its type and its list of encodings, as a footer says them of each column in each group.
    text, number = b"\x15\x0c\x19", b"\x15\x02\x19"
    part(lambda data: data.replace(text, number))(out)

    with pytest.raises(ForensicsError, match="topic is INT32 in a group of rows"):
        open_run(out)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.sampled_from(["findings", "window", "archive", "trigger", "impact", "verdict"]), JSON)
def test_any_json_in_any_place_is_read_or_refused(out: Path, key: str, value: Any) -> None:
    path = out / "findings.json"
    path.write_text(json.dumps({"findings": [], key: value}))

    try:
        run = open_run(out)
        assert run.findings is not None
        assert run.window is None or run.window[0] < run.window[1]
    except ForensicsError as refused:
        assert str(path) in str(refused)  # noqa: PT017 - both ends are right


def test_what_this_program_writes_is_read(out: Path) -> None:
    assert read_document(out / "findings.json")["findings"][0]["id"] == "F-1"
