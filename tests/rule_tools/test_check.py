"""A rule that does not hold is found, named with file and line, and does not hide the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.events.packs import merge_packs, open_pack
from forensics.events.rules import Rule, load_rules
from forensics.parsing.layouts import Layout, load_layouts
from forensics.rule_tools.check import check_layouts, check_rules

RULE = """\
id: isr.updated
kind: partition_state
logger: Partition
set: {leader: "{broker}"}
wordings:
  - versions: ["3.1", "4.3"]
    match: "[Partition {:tp} broker={broker:int}] ISR updated to {isr:ints} and version {partition_epoch:int}"
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO [Partition a-b-3 broker=1] ISR updated to 1,2 and version 7 (kafka.cluster.Partition)"
        gives: {topic: a-b, partition: 3, isr: [1, 2], partition_epoch: 7, leader: 1}
refuses:
  - "[2026-11-18 11:51:22,793] INFO [Partition a-b-3 broker=1] ISR kept (kafka.cluster.Partition)"
"""  # noqa: E501

LAYOUT = """\
id: mine
match: "<{time:time}> {level:word} {logger:logger}: {message:rest}"
time: "yyyy-MM-dd HH:mm:ssZ"
examples:
  - line: "<2026-11-18 11:31:58+01:00> INFO kafka.server.KafkaServer: started"
    gives: {time: "2026-11-18T10:31:58Z", level: INFO, logger: kafka.server.KafkaServer, message: started}
refuses:
  - "[2026-11-18 11:31:58] INFO other brackets"
"""  # noqa: E501


def write(folder: Path, text: str, name: str = "isr.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def found(path: Path, layouts: tuple[Layout, ...]) -> list[str]:
    return [f"{one.line}: {one.message}" for one in check_rules(layouts, load_rules([path]))]


def found_in_layout(path: Path) -> list[str]:
    return [f"{one.line}: {one.message}" for one in check_layouts(load_layouts([path]))]


def test_all_shipped_rules_and_layouts_hold(
    layouts: tuple[Layout, ...], rules: tuple[Rule, ...]
) -> None:
    assert [str(problem) for problem in check_rules(layouts, rules)] == []


def test_the_rule_of_these_tests_holds(tmp_path: Path, layouts: tuple[Layout, ...]) -> None:
    assert found(write(tmp_path, RULE), layouts) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ISR updated to {isr", "ISR changed to {isr", "9: 'match' does not take its own example"),
        ("isr: [1, 2]", "isr: [1]", "9: gives isr: expected [1], got [1, 2]"),
        ("leader: 1}", "leader: null}", "9: gives leader: expected None, got 1"),
        ("topic: a-b", "topic: a", "9: gives topic: expected 'a', got 'a-b'"),
        ("topic: a-b", "tropic: a-b", "9: gives tropic: there is no such fact"),
        ("gives: {", "gives: [3, {", "9: gives 2 events, got 1"),
        ("gives: {", "gives: [[{", "9: 'gives' is no mapping"),
        ("gives: {", "gives: 3 # {", "9: 'gives' is no mapping"),
        ("logger: Partition", "logger: Replica", "9: the example's logger is Partition, not Rep"),
        ('- line: "[2026', '- line: "2026', "9: no layout reads the example"),
        ("ISR kept", "ISR updated to 3 and version 9", "12: isr.updated takes a line that it must"),
    ],
)
def test_an_example_that_does_not_hold_is_named(
    old: str, new: str, expected: str, tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    text = RULE.replace(old, new, 1)
    if "[" in new and new.endswith("{"):
        text = text.replace("leader: 1}", "leader: 1}" + "]" * new.count("["))

    assert text != RULE
    assert [one[: len(expected)] for one in found(write(tmp_path, text), layouts)] == [expected]


def test_a_rule_needs_examples_and_refusals(tmp_path: Path, layouts: tuple[Layout, ...]) -> None:
    text = RULE[: RULE.index("    examples:")]

    says = found(write(tmp_path, text), layouts)

    assert [one.partition(";")[0] for one in says] == [
        "1: isr.updated has no 'refuses'",
        "7: wording has no example",
    ]


def test_a_line_that_two_wordings_take_is_ambiguous_whichever_comes_first(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    head, wordings, tail = RULE.partition("  - versions")
    looser = """\
  - versions: ["2.0", "3.0"]
    match: "[Partition {:tp} broker={broker:int}] ISR updated {detail}"
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO [Partition a-b-3 broker=1] ISR updated by hand (kafka.cluster.Partition)"
        gives: {detail: by hand}
"""  # noqa: E501
    before = found(write(tmp_path, head + looser + wordings + tail), layouts)
    at = RULE.index("refuses:")
    after = found(write(tmp_path, RULE[:at] + looser + RULE[at:]), layouts)

    assert len(before) == len(after) == 1
    assert before[0].startswith("14: the example is also taken by isr.updated (")
    assert after[0].startswith("9: the example is also taken by isr.updated (")


def test_a_line_that_two_rules_take_is_ambiguous(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    paths = [
        write(tmp_path, RULE),
        write(tmp_path, RULE.replace("id: isr.updated", "id: other"), "other.yaml"),
    ]

    problems = check_rules(layouts, load_rules(paths))

    assert [Path(one.file).name for one in problems] == ["isr.yaml", "other.yaml"]
    assert "also taken by other" in problems[0].message


def test_every_problem_is_found_in_one_run(tmp_path: Path, layouts: tuple[Layout, ...]) -> None:
    text = RULE.replace("isr: [1, 2]", "isr: []").replace("partition: 3", "partition: 4")

    assert len(found(write(tmp_path, text), layouts)) == 2


def test_a_match_without_fixed_text_is_found_where_the_logger_stands_first(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    text = """\
id: bare
kind: partition_state
logger: Odd
wordings:
  - versions: ["1.0", "4.3"]
    match: "{count:int}"
    examples:
      - line: "2026-11-18 11:38:17.373 INFO  [main] a.Odd - 12"
        gives: {count: 12}
refuses: ["2026-11-18 11:38:17.373 INFO  [main] a.Odd - twelve"]
"""
    paths = [write(tmp_path, text, "bare.yaml"), write(tmp_path, RULE)]

    assert check_rules(layouts, load_rules(paths)) == []


def test_a_rule_of_ones_own_stands_beside_the_shipped_ones_or_in_place_of_one(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    write(tmp_path, RULE)
    write(tmp_path, RULE.replace("id: isr.updated", "id: new.one"), "new.yaml")

    found, problems = merge_packs([open_pack(tmp_path)])

    assert problems == []
    assert {rule.id for rule in found.rules} == {rule.id for rule in rules} | {"new.one"}
    (mine,) = (rule for rule in found.rules if rule.id == "isr.updated")
    assert mine.path == str(tmp_path / "isr.yaml")


def test_what_cannot_be_read_as_a_rule_is_a_problem_and_the_rest_is_given(tmp_path: Path) -> None:
    write(tmp_path, RULE.replace("kind:", "kinda:"), "a-keys.yaml")
    write(tmp_path, RULE.replace('"[Partition', '"{x:nothing}[Partition'), "b-type.yaml")
    write(tmp_path, RULE.replace("means", "x") + "id: twice\n", "c-twice.yaml")
    write(tmp_path, "id: x\nkind: recovering\nlogger: Z\nwordings: 3\n", "d-shape.yaml")
    write(tmp_path, RULE.replace('["3.1", "4.3"]', "[]"), "e-versions.yaml")
    (tmp_path / "f-bytes.yaml").write_bytes(b"id: \xff\xfe\n")
    write(tmp_path, RULE, "g-good.yaml")
    write(tmp_path, RULE, "h-again.yaml")

    found, problems = merge_packs([open_pack(tmp_path)])

    where = sorted({(Path(one.file).name[0], one.line) for one in problems})
    assert where == [
        ("a", 1),
        ("a", 2),
        ("b", 7),
        ("c", 13),
        ("d", 1),
        ("e", 7),
        ("f", 1),
        ("h", 1),
    ]
    assert str(tmp_path / "h-again.yaml") in {rule.path for rule in found.rules}


def test_a_folder_without_rules_is_a_problem(tmp_path: Path) -> None:
    _, problems = merge_packs([open_pack(tmp_path)])

    assert [one.message for one in problems] == ["no rules here: there is no file *.yaml"]


def test_the_layout_of_these_tests_holds(tmp_path: Path) -> None:
    assert found_in_layout(write(tmp_path, LAYOUT)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("T10:31", "T11:31", "6: gives time: expected 2026-11-18T11:31:58+00:00, got 2026"),
        ("level: INFO", "level: WARN", "6: gives level: expected 'WARN', got 'INFO'"),
        ("logger: kafka.server.Kaf", "logger: Kaf", None),
        ("logger: kafka.server.Kaf", "logger: a.B", "6: gives logger: expected 'BkaServer'"),
        ("message: started}", "message: ended}", "6: gives message: expected 'ended', got 'star"),
        ("message: started}", "text: started}", "6: gives text: a layout gives time, level"),
        ('- line: "<2026', '- line: "(2026', "5: layout mine does not read its own example"),
        ('"[2026-11-18 11:31:58] INFO', '"<2026-11-18 11:31:58Z> INFO x:', "8: layout mine reads"),
        ("refuses:", "refuses: []\nabout:", "1: layout mine has no 'refuses'"),
    ],
)
def test_a_layout_that_does_not_hold_is_named(
    old: str, new: str, expected: str | None, tmp_path: Path
) -> None:
    text = LAYOUT.replace(old, new, 1)

    says = found_in_layout(write(tmp_path, text))

    assert text != LAYOUT
    wanted = [] if expected is None else [expected.partition(": ")[2]]
    assert [one.partition(": ")[2][: len(wanted[0])] for one in says] == wanted


def test_a_line_that_two_layouts_read_is_ambiguous(tmp_path: Path) -> None:
    other = LAYOUT.replace("id: mine", "id: other")
    paths = [write(tmp_path, LAYOUT), write(tmp_path, other, "other.yaml")]

    says = {one.message for one in check_layouts(load_layouts(paths))}

    assert says == {
        "the example is also read by layout mine",
        "the example is also read by layout other",
    }


def test_two_layouts_with_one_id_are_a_problem(tmp_path: Path) -> None:
    paths = [write(tmp_path, LAYOUT), write(tmp_path, LAYOUT, "other.yaml")]

    says = [one.message for one in check_layouts(load_layouts(paths))]

    assert any(one.startswith("id 'mine' is taken by ") for one in says)
