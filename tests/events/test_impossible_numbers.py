"""Whatever number stands in a line, a fact is right or null, and no line is half a fact."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.local import LocalEngine
from forensics.events.event_columns import IMPOSSIBLE, _parse_captured, parse_column
from forensics.events.file_accounts import FileAccount, sum_accounts
from forensics.events.log_reader import LogReader
from forensics.events.packs import load_rule_set
from forensics.events.rules import Rule
from forensics.pipeline import finish_run, plan_archives, rebuild_history, scan_archives
from forensics.sandbox import run_lines
from forensics.schemas import FACTS, IDS
from forensics.settings import Settings
from tests.ingest.sample_archives import write
from tests.ingest.written_logs import PLAIN

NUMBERS = (
    *("2147483647", "2147483648", "4294967296", "-2147483649", "-1", "0", "3000000000"),
    *(str(2**63 - 1), str(2**63), str(-(2**63)), str(10**30), "9" * 5000),
)
DATES = (
    *("[0000-00-00 00:00:00,000]", "[3000-13-45 99:99:99,999]", "[2026-02-30 01:02:03,004]"),
    *("[9999-12-31 23:59:59,999]", "[0001-01-01 00:00:00,000]", "[1970-01-01 00:00:00,000]"),
)
HEAD = re.compile(r"^\[?[0-9-]+[ T][0-9:,.]+\]?")
NUMBER = st.sampled_from(NUMBERS) | st.integers(-(10**25), 10**25).map(str)


def captured(*texts: str) -> pa.Array:
    return pa.array([text.encode() for text in texts], pa.binary())


@given(st.lists(NUMBER, min_size=1, max_size=8), st.sampled_from([pa.int32(), pa.int64()]))
def test_a_number_is_right_or_null_and_marked(texts: list[str], kind: pa.DataType) -> None:
    most = 2 ** (kind.bit_width - 1)
    expected = [
        int(text) if len(text) < 100 and -most <= int(text) < most else None for text in texts
    ]

    column, beyond = _parse_captured(captured(*texts), kind)

    assert column.to_pylist() == expected
    marked = [] if beyond is None else beyond.tolist()
    unlimited = {str(2**63 - 1), str(-(2**63))} if kind == pa.int64() else set()
    assert marked == [
        at for at, value in enumerate(expected) if value is None and texts[at] not in unlimited
    ]


@given(st.lists(st.lists(NUMBER, max_size=4), min_size=1, max_size=6))
def test_a_list_with_an_impossible_number_is_null(lists: list[list[str]]) -> None:
    column = parse_column(captured(*(f"[{', '.join(one)}]" for one in lists)), IDS)

    assert column.to_pylist() == [
        [int(text) for text in one]
        if all(len(text) < 100 and -(2**31) <= int(text) < 2**31 for text in one)
        else None
        for one in lists
    ]


def test_a_largest_number_of_java_stands_for_no_limit() -> None:
    column, beyond = _parse_captured(captured(str(2**63 - 1), "7"), pa.int64(), "log_end")

    assert (column.to_pylist(), beyond.tolist() if beyond is not None else None) == ([None, 7], [])


def damaged(line: str, chance: random.Random, share: float) -> str:
    """Put random numbers, and now and then an impossible date, into a line."""
    head = HEAD.match(line)
    date, rest = (head[0], line[head.end() :]) if head else ("", line)
    if date and chance.random() < share / 3:
        date = chance.choice(DATES)
    return date + re.sub(
        r"-?\d+", lambda old: chance.choice(NUMBERS) if chance.random() < share else old[0], rest
    )


@pytest.fixture(scope="module")
def lines(rules: tuple[Rule, ...]) -> list[str]:
    return [
        example.line for rule in rules for wording in rule.wordings for example in wording.examples
    ]


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 10**6))
def test_no_number_in_any_line_of_any_rule_can_stop_the_matching(
    book: LogReader, lines: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    some = [damaged(line, chance, 0.5) for line in chance.sample(lines, 300)]

    records = book.split_records(some)
    assert records is not None
    events = book.read_events(records)

    for field in FACTS:
        if field.type == pa.int32():
            low = [one for one in events[field.name].to_pylist() if one is not None]
            assert all(-(2**31) <= one < 2**31 for one in low)


def test_a_line_with_an_impossible_number_keeps_its_place_and_states_no_fact(
    tmp_path: Path,
) -> None:
    line = (
        "[2026-11-18 11:38:51,321] INFO [Partition orders-0 broker=1] ISR updated to {} "
        "and version updated to 5 (kafka.cluster.Partition)"
    )
    text = "\n".join([line.format("1,2"), line.format("1,2147483648"), line.format("1,-"), ""])

    run = run_lines({"broker-1/server.log": text}, tmp_path / "out")

    rows = run.tables.read("events", ["line", "kind", "isr", "partition"]).to_pylist()
    assert sorted(rows, key=lambda row: row["line"]) == [
        {"line": 1, "kind": "partition_state", "isr": [1, 2], "partition": 0},
        {"line": 2, "kind": IMPOSSIBLE, "isr": None, "partition": 0},
        {"line": 3, "kind": IMPOSSIBLE, "isr": None, "partition": 0},
    ]
    (note,) = run.tables.read("files", ["damaged"]).column(0).to_pylist()
    assert note == "2 fact(s) with a number that Kafka cannot have written, left out"


def test_the_note_counts_the_whole_file_however_it_was_split() -> None:
    counted = ("bytes", "lines", "records", "continuation_lines", "blank_lines", "unparsed_lines")
    part: dict[str, Any] = dict.fromkeys(counted, 0)
    part |= {"events": 1, "layouts": {}, "writers": {}, "notes": []}
    part |= {"broken": False, "first": None, "last": None, "impossible": 1}
    rows = [{"file": "a", "split": number, "account": part} for number in range(3)]

    account: FileAccount = sum_accounts(rows)["a"]

    assert account.to_row()["damaged"].startswith("3 fact(s) with a number")


def test_a_whole_run_survives_them_all(tmp_path: Path, lines: list[str]) -> None:
    chance = random.Random(7)
    brokers = ("broker=2147483648", "broker=99999999999999999999", "broker=1")
    for node in (1, 2):
        path = tmp_path / "logs" / f"broker-{node}" / "server.log"
        path.parent.mkdir(parents=True)
        some = [damaged(line, chance, 0.1) for line in chance.sample(lines, 60)]
        some += [
            f"{date} INFO [Partition t-0 {broker}] ISR updated to 1,2 and version updated to 5 "
            "(kafka.cluster.Partition)"
            for date in (*DATES, "[2026-11-18 11:00:00,000]")
            for broker in brokers
        ]
        path.write_text("\n".join(some) + "\n")
    assert_whole_run(tmp_path)


@pytest.mark.parametrize("date", DATES[:2])
def test_a_whole_run_survives_lines_of_every_kind_without_a_time(
    date: str, tmp_path: Path, lines: list[str]
) -> None:
    """A topic that was deleted nobody knows when is one of them."""
    logs = write(tmp_path / "logs", PLAIN)
    undated = [HEAD.sub(date, line, count=1) for line in lines]
    assert any("RemoveTopicRecord" in line for line in undated)
    for node in ("broker-1", "controller-1"):
        path = logs / node / "state-change.log"
        path.write_text("\n".join(undated) + "\n", "utf-8")

    assert_whole_run(tmp_path)


def assert_whole_run(folder: Path) -> None:
    """Take logs through all stages, up to the page."""
    run = Settings((str(folder / "logs"),), folder / "out", cluster="any")
    engine, rules, silent = LocalEngine(), load_rule_set(), list[str]().append

    work = plan_archives(run, silent)
    files = scan_archives(engine, work, (), run, silent)
    result = finish_run(files, rebuild_history(engine, files, run, silent), rules, run, silent)

    assert result["exit_code"] in (0, 4)
    assert (folder / "out" / "report.html").is_file()
