"""A draft of a rule holds as it is, whatever line it is made from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from forensics.errors import ForensicsError
from forensics.events.log_reader import LogReader
from forensics.events.packs import RuleSet
from forensics.events.rules import Rule, load_rules
from forensics.lib.log_templates import compile_template
from forensics.lib.yaml_with_lines import FileText, load_yaml, rules_folder
from forensics.parsing.layouts import Layout
from forensics.rule_tools.check import check_rules, to_rows
from forensics.rule_tools.rule_text import all_kinds
from forensics.rule_tools.scaffold import (
    RuleDraft,
    _near_miss,
    _quote_yaml,
    draft_rule,
    guess_template,
    schema_address,
)

LINE = '[2026-11-18 11:51:22,793] INFO Cleaner 0 is slowest: "12 ms" \\ | {x} on a-3 (k.LogCleaner)'
# Every so many of the shipped examples is drafted in full; all of them are matched.
STRIDE = 97


@pytest.fixture(scope="session")
def found(layouts: tuple[Layout, ...], rules: tuple[Rule, ...]) -> RuleSet:
    return RuleSet(layouts, rules, ())


def drafted(found: RuleSet, line: str | None, logger: str) -> tuple[str, Rule]:
    text = draft_rule(RuleDraft("a.draft", logger, "routine", line), found, all_kinds(), "x.json")
    return text, load_rules([FileText("a-draft.yaml", text.encode())])[0]


def test_a_draft_holds_beside_the_rules_of_its_logger(found: RuleSet) -> None:
    drafts = [drafted(found, line, "k.LogCleaner") for line in (LINE, None)]

    for text, rule in drafts:
        assert text.startswith("# yaml-language-server: $schema=x.json\n")
        assert rule.wordings[0].versions[-1] == "4.3"
        assert rule.description
    peers = [rule for rule in found.rules if "LogCleaner" in rule.loggers]
    problems = check_rules(found.layouts, [*peers, *(replace(r, id=r.path) for _, r in drafts)])
    assert [str(one) for one in problems if "a-draft" in str(one)] == []


def test_a_draft_is_made_from_its_line(found: RuleSet) -> None:
    _, rule = drafted(found, LINE, "LogCleaner")
    (wording,) = rule.wordings

    assert wording.template.source == (
        'Cleaner {:int} is slowest: "{duration_ms:int} ms" \\ | {} on a-3'
    )
    assert wording.examples[0].line == LINE
    assert wording.examples[0].expected == {"duration_ms": 12}
    assert wording.must_not_match == (LINE.replace("slowest", "not slowest"),)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Log for partition a-b-3 and partition c-0", "{:tp} and partition {:topic}-{:int}"),
        ("Truncating partition(s) a-b-3: 7", "Truncating partition(s) {:tp}: {:int}"),
        ("[Log partition=__a.b-0, dir=/x/y-1]", "[Log partition={:tp}, dir=/x/y-1]"),
        ("for partitions a-1,b-2 here", "for partitions {} here"),
        ("[kafka-log-cleaner-thread-0]: Starting", "[kafka-log-cleaner-thread-0]: Starting"),
        ("[ReplicaFetcherThread-0-2]: Stopped", "[ReplicaFetcherThread-0-2]: Stopped"),
        ("10.0.0.1:9092 v4.3.0 at 11:51:22,7 in /a/0/b x86", None),
        ("kafka1:9092 (id: 1) 2026-11-18 0x12 a1 1a", "kafka1:9092 (id: {:int}) 2026-11-18 0x"),
        ("took 5ms, then 6 ms, 1.5 s", "took {duration_ms:int}ms, then {:int} ms, {:int}.{:int} s"),
        ("ISR [1, 2] -> [-1], not [] of -1.", "ISR {:ints} -> {:ints}, not [] of {:int}."),
        ("id J-U4p8IiTWCbGg0PGYYtjA.", "id {:word}."),
        ("id 0a1b2c3d-0000-1111-2222-333344445555,", "id {:word},"),
        ("{orders=3} {topic} {a:int} {", "{orders={:int}} {} {} {"),
    ],
)
def test_what_differs_from_line_to_line_is_passed_over(message: str, expected: str | None) -> None:
    assert (expected or message) in guess_template(message)


def test_the_match_of_any_line_takes_it_and_refuses_what_is_near(
    found: RuleSet, rules: tuple[Rule, ...]
) -> None:
    lines = [one.line for rule in rules for word in rule.wordings for one in word.examples]
    book = LogReader(found.layouts, ())
    cut = book.split_records(list(dict.fromkeys(lines)))
    assert cut is not None
    tried = 0
    for row in to_rows(book.parse_all(cut)):
        message = row["message"] or ""
        if not re.search("[A-Za-z]{2}", message):
            continue
        match = guess_template(message)
        pattern = re.compile(compile_template(match).pattern)
        assert pattern.search(message), match
        assert not pattern.search(_near_miss(message, message, match)), match
        tried += 1
    assert tried > 200


def test_a_draft_from_any_shipped_example_holds(found: RuleSet) -> None:
    pairs = [(rule, one.line) for rule in found.rules for w in rule.wordings for one in w.examples]
    for rule, line in pairs[::STRIDE]:
        for logger in rule.loggers:
            others = tuple(one for one in found.rules if logger not in one.loggers)
            try:
                drafted(RuleSet(found.layouts, others, ()), line, logger)
            except ForensicsError as error:
                # A rule may listen to several loggers; its example is of one of them.
                assert "The line's logger is" in str(error), line  # noqa: PT017


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (RuleDraft("Upper", "X", "routine"), "'Upper' is no id"),
        (RuleDraft("../up", "X", "routine"), "'../up' is no id"),
        (RuleDraft("a.b", "X Y", "routine"), "'X Y' is no logger"),
        (RuleDraft("a.b", "X", "rutine"), "There is no kind 'rutine'; did you mean routine"),
        (RuleDraft("isr.updated", "X", "routine"), "There is a rule isr.updated already, in "),
        (RuleDraft("a.b", "X", "routine", "no record"), "No layout reads the line"),
        (RuleDraft("a.b", "X", "routine", LINE), "The line's logger is LogCleaner, not X."),
        (RuleDraft("a.b", "X", "routine", "[2026-11-18 11:51:22,793] INFO 1 (X)"), "has no words"),
    ],
)
def test_what_cannot_be_drafted_is_said(wanted: RuleDraft, says: str, found: RuleSet) -> None:
    with pytest.raises(ForensicsError) as error:
        draft_rule(wanted, found, all_kinds(), "x.json")

    assert says in str(error.value)


def test_a_line_that_a_rule_takes_already_is_said(found: RuleSet) -> None:
    (rule,) = (one for one in found.rules if one.id == "isr.updated")
    example = rule.wordings[0].examples[0]

    with pytest.raises(ForensicsError, match=r"The rule isr\.updated@.* takes this line already"):
        draft_rule(
            RuleDraft("a.b", "Partition", "routine", example.line), found, all_kinds(), "x.json"
        )


def test_a_draft_keeps_the_lines_after_the_first(found: RuleSet) -> None:
    line = LINE + "\njava.io.IOException: a\n\tat b.C.d(C.java:7)"

    _, rule = drafted(found, line, "LogCleaner")

    assert rule.wordings[0].examples[0].line == line


def test_a_file_holds_any_line(tmp_path: Path) -> None:
    text = "".join(map(chr, [*range(0x2100), 0xFEFF, 0xFFFD, 0x1F600, 0xE0001])) + "\\u0041 {a} %s"
    (tmp_path / "one.yaml").write_text(f"line: {_quote_yaml(text)}\n")

    assert load_yaml(tmp_path / "one.yaml") == {"line": text}


def test_the_schema_is_found_from_the_checkout_and_from_anywhere(tmp_path: Path) -> None:
    inside = rules_folder().parent / "packs" / "mine" / "a.yaml"

    assert schema_address(inside) == "../../rules/schema/event-rule.json"
    assert (
        schema_address(tmp_path / "a.yaml")
        == (rules_folder() / "schema/event-rule.json").resolve().as_uri()
    )
    assert (rules_folder() / "schema/event-rule.json").exists()
