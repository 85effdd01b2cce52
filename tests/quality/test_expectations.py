"""Suites of expectations in YAML: what is shipped, and what is said of what people get wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forensics.errors import RuleError
from forensics.events.packs import open_pack
from forensics.lib.yaml_with_lines import load_yaml, rule_files, rules_folder
from forensics.quality.expectations import CHECK_SEVERITIES, CONSEQUENCES, TABLES, load_expectations
from forensics.quality.gx_runner import find_problems, load_checked_expectations

SUITE = """about: Ours.
expectations:
  - id: our-brokers
    table: files
    expectation: ExpectColumnValuesToBeBetween
    arguments: {column: parsed_share, min_value: 0.9}
    where: {role: [broker, controller]}
    words: Nine of ten lines are known.
    otherwise: a log is not understood
    consequence: close
    severity: critical
"""


def pack(folder: Path, text: str = SUITE) -> Path:
    (folder / "quality").mkdir()
    (folder / "quality/ours.yaml").write_text(text)
    return folder


def said(folder: Path) -> list[str]:
    try:
        load_checked_expectations([open_pack(folder)])
    except RuleError as error:
        return [f"{problem.line}: {problem.message}" for problem in error.problems]
    return []


def test_every_shipped_expectation_is_known_to_the_library_and_has_words() -> None:
    found = load_expectations()

    assert [] == find_problems(found)
    assert 40 < len(found)
    assert set(TABLES) == {one.table for one in found}
    assert all(one.words.endswith(".") and not one.otherwise.endswith(".") for one in found)


def test_every_table_has_a_count_of_rows_beside_what_holds_on_an_empty_one() -> None:
    counted = {
        one.table for one in load_expectations() if one.kind.startswith("ExpectTableRowCount")
    }

    assert set(TABLES) == counted


def test_a_pack_adds_expectations_and_replaces_shipped_ones_by_id(tmp_path: Path) -> None:
    text = SUITE + SUITE.partition("expectations:\n")[2].replace("our-brokers", "lines-add-up")
    found = {one.id: one for one in load_expectations([open_pack(pack(tmp_path, text))])}

    assert len(load_expectations()) + 1 == len(found)
    ours = found["our-brokers"]
    assert ("close", "critical", {"role": ["broker", "controller"]}) == (
        ours.consequence,
        ours.severity,
        ours.where,
    )
    assert "a log is not understood" == found["lines-add-up"].otherwise
    assert [] == said(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("table: files", "table: file", "4: there is no table 'file'; did you mean 'files'?"),
        (
            "ValuesToBeBetween",
            "ValuesToBeBetwen",
            "did you mean 'ExpectColumnValuesToBeBetween'?",
        ),
        (
            "parsed_share",
            "parse_share",
            "6: files has no column 'parse_share'; did you mean 'parsed_share'?",
        ),
        ("{role:", "{roles:", "7: files has no column 'roles'; did you mean 'role'?"),
        ("min_value", "minimum", "6: our-brokers: ExpectColumnValuesToBeBetween takes no"),
        ("min_value", "row_condition", "6: our-brokers: ExpectColumnValuesToBeBetween takes no"),
        ("0.9}", "most}", "6: our-brokers: min_value: value is not a valid float"),
        (", min_value: 0.9", "", "6: our-brokers: min_value and max_value cannot both be None"),
        ("close", "exit", "10: there is no consequence 'exit'; known: close, downgrade, note"),
        ("critical", "high", "11: there is no severity 'high'"),
        ("otherwise: a log is not understood", "", "3: 'otherwise' is missing, or is no text"),
        ("our-brokers", "Our Brokers", "3: the id 'Our Brokers' must be lower case"),
        ("words:", "word:", "8: unknown key 'word'; did you mean 'words'?"),
        ("expectations:", "expectation:", "2: unknown key 'expectation'; did you mean"),
        ("about: Ours.", "about: [", "did not find expected"),
    ],
)
def test_what_people_get_wrong_is_told_with_its_line(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    assert old in SUITE
    assert any(expected in one for one in said(pack(tmp_path, SUITE.replace(old, new, 1))))


def test_an_id_may_not_be_used_twice_in_one_pack(tmp_path: Path) -> None:
    text = SUITE + SUITE.partition("expectations:\n")[2]

    assert ["12: the id 'our-brokers' is taken (line 3)"] == said(pack(tmp_path, text))


def test_the_command_that_checks_rules_checks_suites(tmp_path: Path) -> None:
    wrong = pack(tmp_path, SUITE.replace("parsed_share", "share"))
    done = subprocess.run(
        [sys.executable, "-m", "forensics", "rules", "check", str(wrong)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.returncode
    assert f"{tmp_path}/quality/ours.yaml:6: files has no column 'share'" in done.stderr


def schema() -> Any:
    return json.loads((rules_folder() / "schema/quality.json").read_text("utf-8"))


def test_the_schema_for_editors_takes_what_is_shipped_and_names_what_there_is() -> None:
    for path in rule_files("quality"):
        jsonschema.validate(json.loads(json.dumps(load_yaml(path))), schema())
    one = schema()["$defs"]["expectation"]["properties"]
    assert set(TABLES) == set(one["table"]["enum"])
    assert set(CONSEQUENCES) == set(one["consequence"]["enum"])
    assert set(CHECK_SEVERITIES) == set(one["severity"]["enum"])


def test_the_guide_names_every_table_column_and_shipped_expectation() -> None:
    guide = (Path(__file__).parents[2] / "docs/quality.md").read_text("utf-8")

    for name, table in TABLES.items():
        assert f"### `{name}`" in guide
        for column, means in table.columns.items():
            assert f"| `{column}` | {means} |" in guide, f"{name}.{column}"
    for one in load_expectations():
        row = f"| `{one.id}` | `{one.table}` | {one.words} | {one.consequence} |"
        assert row in guide, row
