"""The JSON Schemas for editors: they take every shipped file, and refuse what people get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forensics.events import rules
from forensics.ingest import json_objects, wrappers
from forensics.lib.yaml_with_lines import load_yaml, rule_files, rules_folder
from forensics.parsing import layouts
from forensics.rule_tools.generate_docs import generate_schemas
from forensics.rule_tools.rule_text import all_kinds
from forensics.schemas import FACTS
from tests.rule_tools.test_check import LAYOUT, RULE

FOLDERS = {
    "event-rule.json": "events",
    "layout.json": "layouts",
    "kinds.json": "kinds",
    "wrapper.json": "wrappers",
}


def schema(name: str) -> dict[str, Any]:
    """Read a schema with today's facts and kinds, whether its file has them yet or not."""
    found: dict[str, Any] = json.loads(generate_schemas(all_kinds())[name])
    return found


def told(name: str, document: object) -> list[str]:
    checker = jsonschema.Draft202012Validator(schema(name))
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(document)]


def refused(name: str, text: str, folder: Path) -> str:
    path = folder / "one.yaml"
    path.write_text(text)
    return "\n".join(told(name, load_yaml(path)))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", FOLDERS)
def test_every_shipped_file_fits_its_schema(name: str) -> None:
    checker = jsonschema.Draft202012Validator(schema(name))
    paths = list(rule_files(FOLDERS[name]))
    problems = [
        f"{path}: {error.json_path}: {error.message}"
        for path in paths
        for error in checker.iter_errors(load_yaml(path))
    ]

    assert problems == []
    assert len(paths) > 5


def test_the_schemas_are_up_to_date() -> None:
    old = [
        name
        for name, text in generate_schemas(all_kinds()).items()
        if (rules_folder() / "schema" / name).read_text("utf-8") != text
    ]

    assert old == [], "facts or kinds have changed since they were written; run `make docs`"


def test_the_schemas_know_the_keys_that_the_loaders_know() -> None:
    rule = schema("event-rule.json")
    parts = rule["$defs"]

    assert set(rule["properties"]) == rules._RULE_KEYS
    assert set(parts["wording"]["properties"]) == rules._WORDING_KEYS
    assert set(parts["each"]["properties"]) == rules._EACH_KEYS
    assert set(parts["example"]["properties"]) == rules._EXAMPLE_KEYS
    assert list(parts["facts"]["properties"]) == FACTS.names
    assert set(schema("layout.json")["properties"]) == layouts._KEYS
    wrapper = schema("wrapper.json")["properties"]
    assert set(wrapper) == wrappers._KEYS
    assert set(wrapper["json"]["properties"]) == set(json_objects.ROLES)
    assert set(wrapper["pairs"]["properties"]) == set(json_objects.ROLES)


def test_the_rule_and_the_layout_of_these_tests_fit(tmp_path: Path) -> None:
    assert refused("event-rule.json", RULE, tmp_path) == ""
    assert refused("layout.json", LAYOUT, tmp_path) == ""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kind:", "kinds:", "'kinds' was unexpected"),
        ("kind:", "kinds:", "'kind' is a required property"),
        ("    match:", "    mach:", "'mach' was unexpected"),
        (
            'versions: ["3.1", "4.3"]',
            "each: {of: x, match: y}",
            "'versions' is a required property",
        ),
        ('["3.1", "4.3"]', "[3.1, 4.3]", "3.1 is not of type 'string'"),
        ('["3.1", "4.3"]', '["3.1"]', "['3.1'] is too short"),
        ('["3.1", "4.3"]', '["3.1", "now"]', "'now' does not match"),
        ("set:", "restates: sometimes\nset:", "'sometimes' is not one of ['fresh', 'replay', 'alw"),
        ("set:", "restates: [fresh]\nset:", "['fresh'] is not one of ['fresh', 'replay', 'always"),
        ("{leader:", "{header:", "'header' is not one of ['topic', 'partition'"),
        ("gives: {topic: a-b", "gives: {tropic: a-b", "$.wordings[0].examples[0].gives"),
        ("partition: 3,", "partition: three,", "$.wordings[0].examples[0].gives"),
        ("- line:", "- lines:", "'line' is a required property"),
        ("gives:", "seen: yesterday\n        gives:", "'yesterday' is not one of ['recorded',"),
        ("logger: Partition", "logger: kafka.cluster.Partition", "$.logger"),
        ("id: isr.updated", "id: ISR updated", "'ISR updated' does not match"),
        ("kind: partition_state", "kind: Partition State", "$.kind"),
        ("refuses:\n  -", "refuses:", "is not of type 'array'"),
    ],
)
def test_what_people_get_wrong_in_a_rule_is_refused(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    text = RULE.replace(old, new, 1)

    assert text != RULE
    assert expected in refused("event-rule.json", text, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("\ntime:", "\ntimes:", "'times' was unexpected"),
        ("{time:time}", "{when:time}", "does not match"),
        ("level: INFO", "lever: INFO", "'lever' was unexpected"),
        ("examples:", "refuses:", "'examples' is a required property"),
    ],
)
def test_what_people_get_wrong_in_a_layout_is_refused(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    text = LAYOUT[: LAYOUT.index("refuses:")].replace(old, new, 1)

    assert expected in refused("layout.json", text, tmp_path)


@pytest.mark.parametrize(
    "text", ["BrokerLost: a broker is gone", "broker_lost: ''", "a: [b]", "a: {mean: b}"]
)
def test_what_people_get_wrong_in_kinds_is_refused(text: str, tmp_path: Path) -> None:
    assert refused("kinds.json", text, tmp_path) != ""
    right = "broker_lost: a broker is gone\nbroker_seen: {means: a broker is there, context: true}"
    assert refused("kinds.json", right, tmp_path) == ""
