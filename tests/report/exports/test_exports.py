"""Exports: other tools get what the page says, and nothing that a log says runs in them."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from forensics.cli.app import jobs_folder, make_group
from forensics.report.exports import TEXT_FORMATS, event_stream
from forensics.report.exports.markdown import code_span, escape, fenced_block
from forensics.report.exports.tables import safe_cell
from forensics.run_output.reader import load_run
from tests.browser.outputs import ATTACKS, told_by
from tests.report.sample_runs import errors, save

Rewrite = Callable[[Path, dict[str, Any]], None]
MARKDOWN = (
    "# Forged heading", "- item", "1. item", "> quote", "```\nfence\n```", "~~~", "    indented",
    "[link](https://evil.example/)", "![x](https://evil.example/x.png)", "<https://evil.example>",
    "https://evil.example/ www.evil.example a@evil.example", "@everyone #17", "**bold** _it_ ~~s~~",
    "| a | b |\n| - | - |", "[x]: https://evil.example", "`` ` ``", "<b>bold</b><!-- x",
    "a\n===\nb\n---", "&lt;b&gt; $x$ :rocket:", "\\", "`",
)  # fmt: skip
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\uff1d1+1")


def export(out: Path, form: str, *options: str | Path) -> Result:
    arguments = ["export", str(out), "--format", form, *map(str, options)]
    return CliRunner().invoke(make_group(jobs_folder()), arguments)


def text_of(out: Path, form: str, *options: str) -> str:
    done = export(out, form, *options)
    assert done.exit_code == 0, done.output
    return done.stdout


def lines_of(out: Path, form: str, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(out, form, *options).splitlines()]


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"{tag} {sorted(name for name, _ in attrs)}")


def rendered(text: str) -> list[str]:
    """Render Markdown as ticket systems do, and give the elements that come out."""
    mistune = pytest.importorskip("mistune")
    render = mistune.create_markdown(escape=False, plugins=["url", "table", "strikethrough"])
    return Tags(render(text)).found


def test_views_name_every_table_where_it_lies_and_what_its_columns_mean(
    unclean: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "o'clock [1]"
    moved.symlink_to(unclean)

    text = export(moved, "sql").output

    assert f"read_parquet('{tmp_path}/o''clock [[]1]/tables/isr/*.parquet');" in text
    assert 'COMMENT ON COLUMN outages."why" IS \'no_leader, leader_dead,' in text
    assert 'COMMENT ON COLUMN lanes."started_before" IS \'the latest such moment' in text
    made = re.findall(r"^CREATE OR REPLACE VIEW (\w+) ", text, re.MULTILINE)
    tables = {path.name for path in (unclean / "tables").iterdir()}
    assert sorted(made) == sorted({*tables, "findings"})


def test_a_ticket_says_what_the_page_says_first(unclean: Path) -> None:
    text = text_of(unclean, "markdown")

    assert (
        "2,535 to 3,400 records lost on 3 partitions. Confidence in what happened: confirmed."
        in text
    )
    for name in ("F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f"):
        assert f"`{name}`" in text
    assert "| `metrics-firehose-1` | 3 | 2 | 1 | 845 | 1262 |" in text
    assert "[2026-11-18 11:38:51,318] INFO metrics-firehose-0 is at epoch 2`\n" in text
    assert "gzip ends early, after 812 lines" in text
    assert "\n- [ ] " in text
    titles = ["Why", "Impact", "To do", "Not known", "What happened", "Data loss", "Evidence"]
    places = [text.index(f"## {title}") for title in titles]
    assert places == sorted(places)
    assert text.count("\n") <= 60
    assert text.count("\n") < text_of(unclean, "markdown", "--full").count("\n")
    assert {"h1 []", "h2 []", "table []", "code []"} <= set(rendered(text))


def test_a_full_ticket_says_why_each_finding_fired(unclean: Path) -> None:
    text = text_of(unclean, "markdown", "--full")

    for finding in load_run(unclean).incidents:
        assert f"`{finding.id}`" in text
    assert "What to do:" in text


def test_a_command_in_a_ticket_can_be_copied() -> None:
    """Only in a table a bar has to be escaped; elsewhere the backslash would be copied."""
    assert code_span("dmesg | tail") == "`dmesg | tail`"
    assert code_span("a|b", is_cell=True) == r"`a\|b`"


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The elements of a ticket of a run that says nothing bad."""
    out = told_by("harmless", tmp_path_factory.mktemp("harmless") / "out")
    return rendered(text_of(out, "markdown"))


@pytest.mark.parametrize("hostile", [*ATTACKS, *MARKDOWN, "\n".join(MARKDOWN)])
def test_a_ticket_keeps_text_text(hostile: str, harmless: Any, tmp_path: Path) -> None:
    """Rendered, the ticket of hostile logs has the very elements of a harmless one."""
    text = text_of(told_by(hostile, tmp_path / "hostile"), "markdown")

    assert rendered(text) == harmless
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    outside = re.sub(r"(?s)(`{3,})text\n.*?\n\1|(`+) ?.*? ?\2", "", text)
    assert "@everyone" not in outside
    assert "#17" not in outside


@given(st.text(max_size=40))
def test_no_text_closes_its_fence_or_its_backticks(text: str) -> None:
    block = fenced_block([text, text])
    fence = block.partition("text\n")[0]

    assert re.findall(f"(?m)^{fence}", block) == [fence, fence]
    assert "\n" not in code_span(text) + escape(text)
    run = re.match("`+", code_span(text))
    assert run
    assert f"`{run[0]}" not in code_span(text)


def test_the_timeline_is_in_order_and_holds_findings_and_states(unclean: Path) -> None:
    rows = lines_of(unclean, "jsonl")
    times = [row["time"] for row in rows if row["time"]]

    assert times == sorted(times)
    # What has no time comes last, so that the first line has one.
    assert [row["time"] for row in rows[: len(times)]] == times
    assert {"finding", "leadership", "isr", "lanes"} == {row["what"] for row in rows}
    unclean_ones = [row["says"] for row in rows if row.get("clean") is False]
    assert unclean_ones[0] == (
        "metrics-firehose-0: broker 2 leads from leader epoch 2 on by an unclean election"
    )
    found = next(row for row in rows if row.get("id") == "F-3f2a91c0")
    assert found["time"] == "2026-11-18T11:38:51.318Z"
    assert found["evidence"][0]["line"] == 18244
    assert len(lines_of(unclean, "jsonl", "--events")) == len(rows) + 400


def test_events_stand_at_the_corrected_time(unclean: Path) -> None:
    """A node 37 s ahead logs 37 s too late; what it logged is kept beside it."""
    save(unclean, "events", [errors()[0] | {"node": "broker-3", "evidence": None}])
    row = next(row for row in lines_of(unclean, "jsonl", "--events") if row["what"] == "events")

    assert row["time"] == "2026-11-18T11:38:12.822Z"
    assert row["logged_at"] == "2026-11-18T11:38:49.822Z"
    assert row["evidence"] == [{"file": "incident.tgz!app-metrics/client.log", "line": 0}]


def test_a_timeline_longer_than_memory_is_in_order_too(
    unclean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list(event_stream.stream_events(load_run(unclean), events=True))
    monkeypatch.setattr(event_stream, "MAX_ROWS_IN_MEMORY", 7)

    assert list(event_stream.stream_events(load_run(unclean), events=True)) == whole


def test_timesketch_gets_its_three_fields_in_every_line(unclean: Path) -> None:
    rows = lines_of(unclean, "timesketch", "--events")

    for row in rows:
        assert row["message"]
        assert row["timestamp_desc"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", row["datetime"])
    ended = [row for row in rows if row["timestamp_desc"] == "Finding ended"]
    assert len(ended) == 5
    assert any(row["tag"] == ["critical", "unclean-election"] for row in ended)


@pytest.mark.parametrize("form", ["jsonl", "timesketch"])
def test_no_line_of_a_timeline_is_broken_by_a_log(form: str, tmp_path: Path) -> None:
    text = text_of(told_by("\n".join(ATTACKS), tmp_path), form, "--events")

    assert text.isascii()
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
    assert "\x1b" not in text


def test_junit_fails_for_incidents_and_only_for_them(unclean: Path, rewrite: Rewrite) -> None:
    outcomes = [
        {"detector": "unclean-election", "status": "fired", "reasons": []},
        {"detector": "disk-failure", "status": "quiet", "reasons": []},
        {"detector": "long-pause", "status": "not_evaluable", "reasons": ["no GC log"]},
        {"detector": "of-our-own", "status": "failed", "reasons": ["KeyError"]},
    ]
    rewrite(unclean, {"detectors": outcomes})
    root = ET.fromstring(text_of(unclean, "junit"))
    cases = {case.get("name", ""): case for case in root.iter("testcase")}
    failed = {name.split()[0] for name, case in cases.items() if case.find("failure") is not None}

    assert failed == {"verdict", "F-3f2a91c0", "F-1b", "F-2c", "F-4e"}
    assert cases["F-5f Broker 3 is 37 s ahead"].get("classname") == "kafka-forensics.clock-skew"
    quiet = [case for case in root.iter("testcase") if case.get("name") == "nothing found"]
    inside = [(case.get("classname"), [one.tag for one in case]) for case in quiet]
    assert inside == [
        ("kafka-forensics.disk-failure", []),
        ("kafka-forensics.long-pause", ["skipped"]),
        ("kafka-forensics.of-our-own", ["error"]),
    ]
    suite = root.find("testsuite")
    assert suite is not None
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["9", "5", "1", "1"]
    assert len(list(root.iter("testcase"))) == 9


def test_logs_that_cannot_tell_do_not_make_a_build_green(quiet: Path, rewrite: Rewrite) -> None:
    assert "<error" not in text_of(quiet, "junit")

    rewrite(quiet, {"verdict": "cannot_tell"})

    assert ET.fromstring(text_of(quiet, "junit")).find(".//error[@type='cannot_tell']") is not None


@pytest.mark.parametrize("hostile", [*ATTACKS, "]]>", "\ufffe\uffff\x00", "&#0; &x;"])
def test_junit_is_xml_whatever_the_logs_say(hostile: str, tmp_path: Path) -> None:
    root = ET.fromstring(text_of(told_by(hostile, tmp_path), "junit"))

    assert {one.tag for one in root.iter()} == {
        "testsuites", "testsuite", "testcase", "failure", "system-out"
    }  # fmt: skip
    assert len(list(root.iter("testcase"))) == 4


def test_a_folder_of_sheets_holds_every_row(unclean: Path, tmp_path: Path) -> None:
    done = export(unclean, "csv", "-o", tmp_path / "sheets")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "sheets").iterdir()}

    assert {"findings.csv", "leadership.csv", "events.csv"} <= names
    assert not [name for name in names if name.startswith(".")]
    with (tmp_path / "sheets/leadership.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    run = load_run(unclean).rows("leadership", ["topic", "leader", "started_at"])
    assert [row["topic"] for row in rows] == [row["topic"] for row in run]
    assert rows[1]["leader"] == "-1"
    assert rows[1]["started_at"] == "2026-11-18T11:38:48.922000Z"


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_is_a_formula(formula: str, tmp_path: Path) -> None:
    out = told_by(formula, tmp_path / "out")
    assert export(out, "csv", "-o", tmp_path / "sheets").exit_code == 0

    seen = 0
    for path in (tmp_path / "sheets").iterdir():
        for row in csv.reader(io.StringIO(path.read_text("utf-8"), newline="")):
            for cell in row:
                seen += formula.strip() in cell
                assert not re.match(r"[=+@\t\r\n\uff1d\uff0b\uff0d\uff20]", cell)
                assert not cell.startswith("-") or re.fullmatch(r"-\d+(\.\d+)?", cell)
    assert seen > 10


@given(st.text())
def test_a_cell_shows_what_it_cannot_hold(text: str) -> None:
    cell = safe_cell(text)

    assert isinstance(cell, str)
    assert not set("\n\t\r\x1b\u202e") & set(cell)
    assert not cell.startswith(("=", "+", "-", "@"))


def test_parquet_files_are_the_tables_as_they_were_read(unclean: Path, tmp_path: Path) -> None:
    options = ["--table", "isr", "--table", "findings", "-o", str(tmp_path / "p")]
    assert export(unclean, "parquet", *options).exit_code == 0

    assert {path.name for path in (tmp_path / "p").iterdir()} == {"isr.parquet", "findings.parquet"}
    before = pq.read_table(unclean / "tables/isr")
    assert pq.read_table(tmp_path / "p/isr.parquet").equals(before)
    assert pq.read_table(tmp_path / "p/findings.parquet").num_rows == 5


def test_a_window_narrows_what_is_written(unclean: Path) -> None:
    rows = lines_of(unclean, "jsonl", "--from", "11:39:10")

    assert {row["id"] for row in rows if "id" in row} == {"F-3f2a91c0", "F-5f"}


def test_a_file_is_written_whole_and_named(unclean: Path, tmp_path: Path) -> None:
    done = export(unclean, "markdown", "-o", tmp_path / "ticket.md")

    assert done.stdout == f"written: {tmp_path / 'ticket.md'}\n"
    assert (tmp_path / "ticket.md").read_text("utf-8") == text_of(unclean, "markdown")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["ticket.md"]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_the_same_run_gives_the_same_bytes(unclean: Path, form: str) -> None:
    assert text_of(unclean, form) == text_of(unclean, form)


@pytest.mark.parametrize(
    ("form", "options", "code", "says"),
    [
        ("csv", [], 2, "name it by -o FOLDER"),
        ("csv", ["-o", "x", "--from", "11:38"], 2, "whole tables"),
        ("markdown", ["--table", "isr"], 2, "--table is for csv and parquet"),
        ("junit", ["--events"], 2, "--events is for jsonl and timesketch"),
        ("slack", ["--full"], 2, "--full is for markdown"),
        ("parquet", ["-o", "x", "--table", "nope"], 1, "--table nope: "),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    unclean: Path, form: str, options: list[str], code: int, says: str
) -> None:
    done = export(unclean, form, *(str(unclean / "x") if one == "x" else one for one in options))

    assert done.exit_code == code
    assert says in done.stderr
