"""The command `rules profile`: a scan in one process, and what each wording costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.events import scan
from forensics.events.log_reader import LogReader
from forensics.events.packs import RuleSet, load_rule_set
from forensics.events.scan import Scanner
from forensics.ingest.read_plan import plan_reading
from forensics.rule_tools import rule_coverage
from forensics.rule_tools.rule_coverage import Cost, Profile, profile_scan

SAMPLE = Path(__file__).parents[2] / "sample_logs/430-unclean/logs/broker-1"
LOG = """\
[2026-11-18 11:51:22,793] INFO [Partition a-b-3 broker=1] ISR updated to 1,2  and version updated to 7 (kafka.cluster.Partition)
[2026-11-18 11:51:22,794] INFO [Partition a-b-4 broker=1] ISR updated to 1,2  and version updated to 8 (kafka.cluster.Partition)
[2026-11-18 11:51:22,800] INFO [Partition a-b-3 broker=1] Something else 12 (kafka.cluster.Partition)
[2026-11-18 11:51:22,803] INFO Cleaner 0: nobody listens (com.acme.Cleaner)
"""  # noqa: E501


@pytest.fixture(scope="module")
def known() -> RuleSet:
    return load_rule_set()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    return path


def profiled(path: Path, known: RuleSet) -> Profile:
    return profile_scan(
        plan_reading([str(path)], 1 << 62).splits, known.layouts, known.active_rules()
    )


def said(*arguments: str | Path) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["rules", "profile", *map(str, arguments)])


def test_records_and_events_are_those_of_the_scan(known: RuleSet) -> None:
    found = profiled(SAMPLE, known)

    scanner = Scanner(LogReader(known.layouts, known.active_rules()))
    batches = [one for split in plan_reading([str(SAMPLE)]).splits for one in scanner.scan(split)]
    accounts = [
        json.loads(row) for one in batches for row in one["account"].drop_null().to_pylist()
    ]
    assert found.events == sum(one["account"].null_count for one in batches) > 0
    assert found.records == sum(one["records"] for one in accounts) > 0
    assert found.bytes == sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file())
    assert found.records >= found.prefiltered > 0


def test_each_wording_knows_what_it_was_asked_and_what_it_took(log: Path, known: RuleSet) -> None:
    found = profiled(log, known)

    taken = {name: cost.matched for (name, _), cost in found.wordings.items() if cost.matched}
    assert taken == {"isr.updated": 2}
    # Each was asked about all that had passed the prefilter, until one took it all.
    assert {cost.tried for cost in found.wordings.values()} == {found.prefiltered} == {2}
    assert found.events == 2


def test_a_rule_is_asked_only_if_a_scan_asks_it(log: Path, known: RuleSet) -> None:
    asked = {name for name, _ in profiled(log, known).wordings}

    heard = {rule.id for rule in known.active_rules() if "Partition" in rule.loggers}
    assert asked <= heard
    assert heard < {rule.id for rule in known.rules if "Partition" in rule.loggers}


def test_seconds_are_those_between_two_looks_at_the_watch(
    log: Path, known: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: Iterator[int] = count()
    monkeypatch.setattr(rule_coverage, "perf_counter", lambda: float(next(ticks)))

    found = profiled(log, known)

    # A step looks twice. Inside of `match` each wording looks twice, too.
    claims = len(found.wordings)
    assert found.steps["parse"] == 1
    assert found.steps["prefilter"] == 2
    assert found.steps["match"] == 1 + 2 * claims
    assert [cost.seconds for cost in found.wordings.values()] == [1] * claims
    assert sum(found.steps.values()) == next(ticks) - 1


def test_much_text_is_matched_a_part_at_a_time_as_in_a_scan(
    tmp_path: Path, known: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG * 8000)
    whole = profiled(log, known)
    monkeypatch.setattr(scan, "_MATCH_BATCH_BYTES", 1)

    parts = profiled(log, known)

    assert (whole.records, whole.events) == (parts.records, parts.events) == (32_000, 16_000)
    assert whole.prefiltered == parts.prefiltered
    assert sum(one.matched for one in parts.wordings.values()) == 16_000


def test_the_dearest_wording_comes_first() -> None:
    cheap, dear = Cost(0.001, 10, 1), Cost(0.25, 1000, 2)
    found = Profile(
        {"other": 1.0, "match": 3.0},
        {("a.cheap", 3): cheap, ("b.dear", 9): dear, ("a.alike", 2): replace(cheap)},
        *(8_000_000, 12_345, 678, 9),
    )

    assert list(found.to_lines(2)) == [
        "8.0 MB, 12,345 records, 4.00 s, 2 MB/s",
        "  other         1.00 s   25 %",
        "  match         3.00 s   75 %",
        "678 records passed the prefilter, 9 events",
        "       ms      tried    matched  rule:line of the wording",
        "    250.0       1000          2  b.dear:9",
        "      1.0         10          1  a.alike:2",
    ]


def test_the_command_tells_steps_and_then_wordings(log: Path) -> None:
    done = said(log, "--limit", "2")

    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("0.0 MB, 4 records, ")
    assert [line.split()[0] for line in lines[1:5]] == ["other", "prefilter", "parse", "match"]
    assert re.fullmatch(r"\d records passed the prefilter, 2 events", lines[5])
    assert len(lines) == 9
    assert all(re.fullmatch(r" +\d+\.\d +\d+ +\d+  [a-z.-]+:\d+", line) for line in lines[7:])


def test_a_rule_of_ones_own_is_measured_too(log: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "id: own.odd\nkind: partition_state\nlogger: Cleaner\nwordings:\n"
        '  - {versions: ["4.0", "4.3"], match: "Cleaner {broker:int}: nobody listens"}\n'
    )

    done = said(log, "--rules", own, "--limit", "1000")

    assert re.search(r" 1 +1  own\.odd:5$", done.stdout, re.MULTILINE)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(LOG)
    (tmp_path / "logs.7z").write_bytes(b"7z\xbc\xaf\x27\x1c")

    done = said(tmp_path)

    assert done.exit_code == 0
    assert done.stderr.startswith("warning: ")
    assert "logs.7z" in done.stderr
    assert ", 4 records, " in done.stdout
