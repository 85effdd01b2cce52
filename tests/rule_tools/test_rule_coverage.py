"""The command `rules coverage`: whose records the rules know, and what the others look like."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.events.log_reader import LogReader
from forensics.events.rules import load_rules
from forensics.ingest.read_plan import plan_reading
from forensics.parsing.layouts import Layout
from forensics.rule_tools import rule_coverage
from forensics.rule_tools.rule_coverage import RuleCoverage, Shape, measure_rule_coverage

RULE = """\
id: mine.told
kind: partition_state
logger: Partition
wordings:
  - versions: ["3.1", "4.3"]
    match: "Leading {list}"
    each: {of: list, by: ", ", match: "{:tp}"}
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO Leading a-1 (kafka.cluster.Partition)"
        gives: {topic: a, partition: 1}
refuses:
  - "[2026-11-18 11:51:22,793] INFO Following a-1 (kafka.cluster.Partition)"
"""
ROUTINE = """\
id: mine.routine
kind: routine
logger: [Partition, LogCleaner]
wordings:
  - versions: ["3.1", "4.3"]
    match: "Nothing new of {}"
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO Nothing new of a (kafka.cluster.Partition)"
        gives: {}
refuses:
  - "[2026-11-18 11:51:22,793] INFO Nothing of a (kafka.cluster.Partition)"
"""
# Two records that tell (one of two partitions), three of routine, four that nobody claims.
LOG = """\
stray words before any record
[2026-11-18 11:51:22,793] INFO Leading a-1, b-2 (kafka.cluster.Partition)
[2026-11-18 11:51:22,794] INFO Leading c-3 (kafka.cluster.Partition)
[2026-11-18 11:51:22,795] INFO Nothing new of a (kafka.cluster.Partition)
[2026-11-18 11:51:22,796] INFO Nothing new of b (kafka.log.LogCleaner)
[2026-11-18 11:51:22,797] INFO Nothing new of c (kafka.log.LogCleaner)
[2026-11-18 11:51:22,798] WARN Odd \x1b[31m a-1 took 12 ms (kafka.cluster.Partition)
[2026-11-18 11:51:22,799] WARN Odd \x1b[31m b-v2-7 took 8 ms (kafka.cluster.Partition)
[2026-11-18 11:51:22,800] ERROR Odd \x1b[31m b-7 took 8 ms (kafka.cluster.Partition)
[2026-11-18 11:51:22,801] INFO Heard by none (com.acme.Cleaner)
"""
ODD = "Odd \x1b[#m <partition> took # ms"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "told.yaml").write_text(RULE)
    (folder / "routine.yaml").write_text(ROUTINE)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    return path


def counted(pack: Path, layouts: tuple[Layout, ...], *logs: Path) -> RuleCoverage:
    book = LogReader(layouts, load_rules(sorted(pack.glob("*.yaml"))))
    return measure_rule_coverage(plan_reading([str(log) for log in logs], 1 << 62).splits, book)


def said(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        make_group(jobs_folder()), ["rules", "coverage", *map(str, arguments)]
    )


def test_each_record_is_told_or_routine_or_unclaimed(
    pack: Path, log: Path, layouts: tuple[Layout, ...]
) -> None:
    found = counted(pack, layouts, log)

    assert found.loggers == {"Partition": 6, "LogCleaner": 2, "Cleaner": 1}
    assert found.telling == {"Partition": 2}
    assert found.routine == {"Partition": 1, "LogCleaner": 2}
    assert [found.unclaimed(name) for name in ("Partition", "LogCleaner", "Cleaner")] == [3, 0, 1]
    assert (found.records, found.claimed, found.unparsed_lines) == (9, 5, 1)


def test_a_line_counts_once_for_its_rule_however_many_events_it_makes(
    pack: Path, log: Path, layouts: tuple[Layout, ...]
) -> None:
    assert counted(pack, layouts, log).rules == {"mine.told": 2, "mine.routine": 3}


def test_what_looks_alike_is_one_shape_and_its_first_line_is_named(
    pack: Path, log: Path, layouts: tuple[Layout, ...]
) -> None:
    found = counted(pack, layouts, log)

    assert found.shapes == {
        Shape("Partition", "WARN", ODD): 2,
        Shape("Partition", "ERROR", ODD): 1,
        Shape("Cleaner", "INFO", "Heard by none"): 1,
    }
    assert found.first_lines[Shape("Partition", "WARN", ODD)] == "server.log:7"


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("of 01234567-89ab-cdef-0123-456789abcdef", "of <uuid>"),
        ("id J8qXRwI-Qyi2G0guFTiuYw, epoch 3", "id <id>, epoch #"),
        ("for a-1, b_c.d-2,e-3 and f-4", "for <partition> and <partition>"),
        ("at 0x1f", "at <hex>"),
        ("took 1.5 s", "took #.# s"),
        ("x" * 300, "x" * 200),
    ],
)
def test_what_says_nothing_new_is_masked(
    message: str, shape: str, pack: Path, tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"[2026-11-18 11:51:22,793] INFO {message} (kafka.cluster.Partition)\n")

    assert [one.text for one in counted(pack, layouts, log).shapes] == [shape]


def test_more_shapes_than_can_be_kept_lose_the_rare_ones(
    pack: Path, log: Path, layouts: tuple[Layout, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_coverage, "_MAX_SHAPES", 2)

    found = counted(pack, layouts, log)

    assert found.shapes == {Shape("Partition", "WARN", ODD): 2}
    assert set(found.first_lines) == set(found.shapes)


def test_counts_do_not_depend_on_the_size_of_the_blocks_a_file_is_read_in(
    pack: Path, tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG.partition("\n")[2] * 4000)

    found = counted(pack, layouts, log)

    assert (found.records, found.claimed, found.unparsed_lines) == (36_000, 20_000, 0)
    assert found.rules == {"mine.told": 8000, "mine.routine": 12_000}


def test_it_is_told_in_lines_that_a_terminal_may_have(pack: Path, log: Path) -> None:
    done = said(log, "--rules", pack, "--limit", "1")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        " unclaimed    telling    routine  logger",
        "         3          2          1  Partition",
        "",
        "         2  Partition WARN Odd <U+001B>[#m <partition> took # ms",
        "            server.log:7",
        "9 records, 5 claimed (55.6 %), 1 lines in no known layout",
    ]


def test_json_holds_all_of_it(pack: Path, log: Path) -> None:
    told = json.loads(said(log, "--rules", pack, "--limit", "1", "--json").stdout)

    assert {name: told[name] for name in ("records", "claimed", "nowhere")} == {
        "records": 9,
        "claimed": 5,
        "nowhere": 1,
    }
    assert told["loggers"] == [
        {"logger": "Partition", "unclaimed": 3, "telling": 2, "routine": 1},
        {"logger": "Cleaner", "unclaimed": 1, "telling": 0, "routine": 0},
        {"logger": "LogCleaner", "unclaimed": 0, "telling": 0, "routine": 2},
    ]
    assert [(one["text"], one["count"], one["first"]) for one in told["shapes"]] == [
        (ODD, 2, "server.log:7"),
        ("Heard by none", 1, "server.log:10"),
        (ODD, 1, "server.log:9"),
    ]
    assert told["rules"] == {"mine.routine": 3, "mine.told": 2}


def test_several_archives_are_counted_together(pack: Path, log: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs.tgz", "w:gz") as archive:
        archive.add(log, "broker-1/server.log")

    done = said(log, tmp_path / "logs.tgz", "--rules", pack)

    assert done.stdout.endswith("18 records, 10 claimed (55.6 %), 2 lines in no known layout\n")


def test_an_empty_log_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("")

    done = said(tmp_path / "server.log")

    assert done.exit_code == 0
    assert done.stdout.endswith("0 records, 0 claimed (0.0 %), 0 lines in no known layout\n")


def test_what_is_damaged_is_said_and_the_rest_is_counted(log: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs\x1b.tgz", "w:gz") as archive:
        archive.add(log, "server.log")
    whole = (tmp_path / "logs\x1b.tgz").read_bytes()
    (tmp_path / "logs\x1b.tgz").write_bytes(whole[:-30])

    done = said(tmp_path / "logs\x1b.tgz")

    assert done.exit_code == 0
    assert done.stderr.startswith("warning: logs<U+001B>.tgz")
    assert "\x1b" not in done.output
