"""The commands `rules list`, `show`, `new`, `docs` and `schema`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.events import packs
from forensics.events.rules import Kind, Rule, load_rules
from forensics.lib.yaml_with_lines import FileText, load_yaml
from forensics.rule_tools.check import check_rules
from forensics.rule_tools.generate_docs import GENERATED_MARK
from forensics.rule_tools.rule_text import describe_rule, version_phrase, version_range

OURS = Path(__file__).parents[2] / "rules" / "events"

LISTED = """\
id: listed.rule
kind: partition_state
logger: [Partition, ReplicaManager, KafkaApis]
means: What is listed.
beware: Not the order.
restates: always
set: {leader: "{broker}", error: NONE}
wordings:
  - versions: ["3.9", "3.10"]
    match: "Listed by {broker:int}: {list}"
    each: {of: list, by: ", ", match: "{:tp}={detail:word}", only: {detail: [a, b]}}
    also:
      - {kind: broker_fenced, broker: "{broker}", count: 1}
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO Listed by 1: x-0=a, y-1=b (kafka.cluster.Partition)"
        gives:
          - {topic: x, partition: 0, detail: a}
          - {topic: y, partition: 1, detail: b}
        seen: published
  - versions: ["0.11", "3.8"]
    match: "Listed: {:tp}"
    set: {leader: "{partition}"}
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO Listed: \\e[31mx-0 (a.Partition)\\n\\tat a.B"
        gives: {topic: x}
refuses:
  - "[2026-11-18 11:51:22,793] INFO Listen: x-0 (kafka.cluster.Partition)"
"""

SHOWN = """\
listed.rule
  kind      partition_state: MEANING
  loggers   Partition, ReplicaManager, KafkaApis
  versions  0.11 to 3.10, wordings: 2
  file      listed.yaml

Means
  What is listed.

Beware
  Not the order.

Facts
  topic      the topic
  partition  the number of the partition in its topic
  leader     the broker that leads the partition; -1 where there is none [SOURCES]
  broker     BROKER
  error      ERROR [always NONE]
  detail     a short text, such as a reason or an address

Wordings
  3.9 to 3.10
    match    Listed by {broker:int}: {list}
    for      each item of <list>, separated by ", ", where detail is a or b
             {:tp}={detail:word}
    also     broker_fenced: broker the same as <broker>, count always 1
    time     The state may be older than the line.
    example  [2026-11-18 11:51:22,793] INFO Listed by 1: x-0=a, y-1=b (kafka.cluster.Partition)  (published)
      gives  topic="x" partition=0 detail="a"
      gives  topic="y" partition=1 detail="b"
  0.11 to 3.8
    match    Listed: {:tp}
    time     The state may be older than the line.
    example  [2026-11-18 11:51:22,793] INFO Listed: <U+001B>[31mx-0 (a.Partition)
             <U+0009>at a.B
      gives  topic="x"

Refuses
  [2026-11-18 11:51:22,793] INFO Listen: x-0 (kafka.cluster.Partition)
"""  # noqa: E501


@pytest.fixture(scope="module")
def parsed() -> dict[FileText, tuple[Rule, ...]]:
    return {}


@pytest.fixture(autouse=True)
def parse_once(parsed: dict[FileText, tuple[Rule, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command reads all rules; here the same text is parsed once."""

    def load(pages: Sequence[FileText], known: Mapping[str, Kind]) -> tuple[Rule, ...]:
        (page,) = pages
        if page not in parsed:
            parsed[page] = load_rules(pages, known)
        return parsed[page]

    monkeypatch.setattr(packs, "load_rules", load)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack" / "odd"
    folder.mkdir(parents=True)
    (folder / "listed-rule.yaml").write_text(LISTED)
    return folder


def rules(*arguments: str | Path) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["rules", *map(str, arguments)])


def listed(*arguments: str | Path) -> list[list[str]]:
    done = rules("list", *arguments)
    assert done.exit_code == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_list_gives_every_rule_a_line() -> None:
    rows = listed()

    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert len(rows) == len(list(OURS.rglob("*.yaml")))
    (row,) = (row for row in rows if row[0] == "isr.updated")
    assert row[1:3] == ["partition_state", "Partition"]
    assert row[3].endswith("-4.3")
    assert int(row[4]) >= 4


def test_list_counts_versions_as_numbers_over_all_wordings(pack: Path) -> None:
    (row,) = (row for row in listed("--rules", pack) if row[0] == "listed.rule")

    assert row == [
        *("listed.rule", "partition_state", "Partition,ReplicaManager,KafkaApis", "0.11-3.10", "2")
    ]


def test_list_keeps_what_is_asked_for(pack: Path) -> None:
    by_family = listed("--family", "isr")
    by_kind = listed("--kind", "broker_fenced", "--rules", pack)
    by_both = listed("--logger", "kafka.cluster.Partition", "--kind", "isr_rejected")

    assert {row[0] for row in by_family} == {
        load_yaml(path)["id"] for path in (OURS / "isr").glob("*.yaml")
    }
    assert "listed.rule" in {row[0] for row in by_kind}
    assert {row[1] for row in by_kind} == {"broker_fenced", "partition_state"}
    assert {"isr.rejected"} <= {row[0] for row in by_both}
    assert {row[1] for row in by_both} == {"isr_rejected"}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--kind", "partition_stat", "No rule has the kind 'partition_stat'. Did you mean part"),
        ("--logger", "ReplicaManagre", "No rule has the logger 'ReplicaManagre'. Did you mean Rep"),
        ("--family", "zzz", "No rule has the family 'zzz'.\n"),
    ],
)
def test_list_says_what_was_perhaps_meant(option: str, value: str, says: str) -> None:
    done = rules("list", option, value)

    assert (done.exit_code, done.stdout) == (1, "")
    assert says in done.stderr


def test_list_is_json_where_it_is_asked_for(pack: Path) -> None:
    done = rules("list", "--json", "--family", "odd", "--rules", pack)

    assert json.loads(done.stdout) == [
        {
            "id": "listed.rule",
            "kind": "partition_state",
            "family": "odd",
            "loggers": ["Partition", "ReplicaManager", "KafkaApis"],
            "versions": ["0.11", "3.10"],
            "wordings": 2,
            "means": "What is listed.",
            "file": str(pack / "listed-rule.yaml"),
        }
    ]


def test_list_is_aligned_on_a_terminal(
    pack: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = make_group(jobs_folder())
    with click.Context(commands) as context:
        command = commands.resolve_command(context, ["rules"])[1]
    assert isinstance(command, click.Group)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen: Any = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    command.main(
        ["list", "--logger", "Partition", "--kind", "partition_state", "--rules", str(pack)],
        standalone_mode=False,
    )

    lines = screen.getvalue().splitlines()
    assert "\t" not in screen.getvalue()
    assert len({line.index("partition_state") for line in lines}) == 1
    assert any("Partition,ReplicaManager,+1  " in line for line in lines)
    assert capsys.readouterr().err == ""


def test_show_tells_everything_of_a_rule() -> None:
    (rule,) = load_rules([FileText("listed.yaml", LISTED.encode())])

    lines = "\n".join(describe_rule(rule)) + "\n"

    for mark, start, end in (
        ("MEANING", "partition_state: ", "\n"),
        ("SOURCES", "there is none [", "]"),
        ("BROKER", "  broker     ", "\n"),
        ("ERROR", "  error      ", " [always"),
    ):
        said = lines.partition(start)[2].partition(end)[0]
        assert said
        lines = lines.replace(start + said + end, start + mark + end, 1)
    assert lines == SHOWN
    assert "[the same as <broker>; the same as <partition>]" in "\n".join(describe_rule(rule))


def test_show_takes_an_id_and_what_an_event_says_of_its_rule() -> None:
    done = rules("show", "isr.updated@3.1")

    assert done.stdout == rules("show", "isr.updated").stdout
    assert done.stdout.startswith("isr.updated\n  kind      partition_state: ")


def test_show_says_which_ids_are_near() -> None:
    done = rules("show", "isr.updatet")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "There is no rule 'isr.updatet'. Did you mean isr.updated" in done.stderr
    assert "`rules list` names them all" in rules("show", "qqq").stderr


def test_new_writes_a_rule_that_holds(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    line = "[2026-11-18 11:51:22,793] INFO Cleaner 0 is slowest on a-3 (kafka.log.LogCleaner)"

    done = rules("new", "cleaner.slow", "--logger", "LogCleaner", "--line", line, "--dir", folder)
    other = rules("new", "cleaner.quick", "--logger", "kafka.log.LogCleaner", "--dir", folder)

    assert (done.exit_code, other.exit_code) == (0, 0), done.stderr + other.stderr
    assert f"rules check {folder}" in done.stdout
    assert load_yaml(folder / "cleaner-slow.yaml")["id"] == "cleaner.slow"
    found = packs.load_rule_set([packs.open_pack(folder)])
    # As `rules check` does it; of the others only those that hear the same lines.
    beside = [rule for rule in found.rules if "LogCleaner" in rule.loggers]
    assert [one for one in check_rules(found.layouts, beside) if str(folder) in str(one)] == []
    first, _, _ = (folder / "cleaner-slow.yaml").read_text().partition("\n")
    assert first.startswith("# yaml-language-server: $schema=file:///")
    assert first.endswith("/rules/schema/event-rule.json")


def test_new_touches_nothing_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "a-b.yaml"
    file.write_text(LISTED)

    done = rules("new", "a.b", "--logger", "X", "--dir", tmp_path)

    assert done.exit_code == 1
    assert f"{file} is there already; choose another ID or another --dir." in done.stderr
    assert file.read_text() == LISTED


def test_new_does_not_take_a_line_that_a_rule_of_ones_own_takes(tmp_path: Path) -> None:
    line = "[2026-11-18 11:51:22,793] INFO Cleaner 0 is slowest on a-3 (kafka.log.LogCleaner)"
    options = ("--logger", "LogCleaner", "--line", line, "--dir", tmp_path)
    rules("new", "cleaner.slow", *options)

    done = rules("new", "cleaner.slower", *options)

    assert done.exit_code == 1
    assert "The rule cleaner.slow@" in done.stderr
    assert not (tmp_path / "cleaner-slower.yaml").exists()


def test_docs_writes_its_pages_twice_alike_and_takes_away_what_is_old(tmp_path: Path) -> None:
    first = rules("docs", tmp_path)
    pages = {path: path.read_bytes() for path in tmp_path.rglob("*.md")}
    (tmp_path / "rules" / "gone.md").write_text(f"{GENERATED_MARK}\nold\n")
    (tmp_path / "rules" / "notes.md").write_text("by hand\n")

    second = rules("docs", tmp_path)

    assert first.stdout == second.stdout == f"{len(pages)} pages in {tmp_path}\n"
    assert {path: path.read_bytes() for path in pages} == pages
    assert not (tmp_path / "rules" / "gone.md").exists()
    assert (tmp_path / "rules" / "notes.md").read_text() == "by hand\n"


def test_docs_never_writes_over_what_others_wrote(tmp_path: Path) -> None:
    (tmp_path / "tables.md").write_text("by hand\n")

    done = rules("docs", tmp_path)

    assert done.exit_code == 1
    assert f"{tmp_path / 'tables.md'} was not written by this command" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["tables.md"]


def test_schema_writes_the_schemas(tmp_path: Path) -> None:
    done = rules("schema", tmp_path / "new")

    assert done.stdout == f"5 schemas in {tmp_path / 'new'}\n"
    names = {path.name: json.loads(path.read_text()) for path in (tmp_path / "new").iterdir()}
    assert set(names) == {
        "event-rule.json",
        "kinds.json",
        "layout.json",
        "quality.json",
        "wrapper.json",
    }


def test_a_check_leaves_pandas_and_arrow_to_whoever_wants_them_later(tmp_path: Path) -> None:
    """Arrow asks once whether there is pandas: hiding it for speed would last for the process."""
    (tmp_path / "no-rule.yaml").write_text("id: 3\n")
    code = """
import sys
from click.testing import CliRunner
from forensics.cli.app import jobs_folder, make_group
done = CliRunner().invoke(make_group(jobs_folder()), ["rules", "check", *sys.argv[1:]])
assert done.exit_code == len(sys.argv) - 1, done.output
import pandas as pd, pyarrow as pa
assert pa.array(pd.Series([1.0, None])).null_count == 1
assert pa.array([1, pd.NA], from_pandas=True).null_count == 1
assert pa.array([1, None]).to_pandas().isna().tolist() == [False, True]
"""
    for given in ([], [str(tmp_path / "no-rule.yaml")]):
        command = [sys.executable, "-c", code, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_versions_are_told_by_their_numbers() -> None:
    assert version_range(["3.10", "3.9", "0.8.2"]) == ("0.8.2", "3.10")
    assert version_phrase(["3.9", "3.10"], "3.10") == "since 3.9"
