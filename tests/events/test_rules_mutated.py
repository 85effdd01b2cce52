"""The examples are worth something: no fixed text of any shipped rule can change unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from forensics.events.log_reader import LogReader
from forensics.events.matcher import Matcher
from forensics.events.rules import Rule, Wording
from forensics.lib.log_templates import _PART, Template, compile_template
from forensics.rule_tools.check import _compare_facts, number_lines

pytestmark = pytest.mark.slow


def mutated(template: Template) -> Iterator[Template]:
    """Change one character of each piece of fixed text; which one depends on the text alone."""
    source, begin = template.source, 0
    pieces = []
    for part in _PART.finditer(source):
        pieces.append((begin, part.start()))
        begin = part.end()
    for first, last in (*pieces, (begin, len(source))):
        # Blanks at the end are of no account.
        length = len(source[first:last].rstrip()) if last == len(source) else last - first
        if length:
            at = first + int(sha256(source[first:last].encode()).hexdigest(), 16) % length
            other = source[at].swapcase() if source[at].isalpha() else "~"
            yield compile_template(source[:at] + other + source[at + 1 :])


def mutants(wording: Wording) -> Iterator[Wording]:
    """Change what else a wording fixes: constants, and how a list is read."""
    for name, value in wording.settings.items():
        if not (isinstance(value, str) and value.startswith("{")):
            yield replace(wording, settings={**wording.settings, name: changed(value)})
    each = wording.each
    if each is None:
        return
    yield replace(wording, each=replace(each, by=each.by + "~"))
    for template in mutated(each.template):
        yield replace(wording, each=replace(each, template=template))
    for name, values in each.only.items():
        for value in values:
            fewer = [one for one in values if one != value]
            yield replace(wording, each=replace(each, only={**each.only, name: fewer}))


def changed(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + 1
    return [*value, 7] if isinstance(value, list) else f"{value}~"


@dataclass(frozen=True)
class Examples:
    """All examples, read once: the entries, and which of them is whose."""

    entries: pa.RecordBatch
    at: dict[str, int]

    def of(self, wording: Wording) -> pa.RecordBatch:
        rows = [self.at[one.line] for one in wording.examples]
        return self.entries.take(pa.array(rows, pa.int64()))


@pytest.fixture(scope="session")
def examples(book: LogReader, rules: tuple[Rule, ...]) -> Examples:
    """Read every example as a layout reads it."""
    lines = [one.line for rule in rules for wording in rule.wordings for one in wording.examples]
    lines = list(dict.fromkeys(lines))
    cut = book.split_records(lines)
    assert cut is not None
    firsts = number_lines(lines)
    entries = book.parse_all(cut)
    places = entries["line"].to_pylist()
    return Examples(entries, {firsts[line]: at for at, line in enumerate(places) if line in firsts})


def holds(rule: Rule, wording: Wording, examples: Examples) -> bool:
    """Whether every example of a wording still gives what it says."""
    entries = examples.of(wording)
    events = Matcher([replace(rule, wordings=(wording,))]).match(entries).to_pylist()
    # What is read of the later lines of a record has lines of its own, but the record's offset.
    by_record: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        by_record.setdefault(event["offset"], []).append(event)
    for example, offset in zip(wording.examples, entries["offset"].to_pylist(), strict=True):
        found = by_record.get(offset, [])
        single = isinstance(example.expected, Mapping)
        gives = [example.expected] if single else example.expected
        if not found or (not single and len(gives) != len(found)):
            return False
        if any(list(_compare_facts(one, event)) for one, event in zip(gives, found, strict=False)):
            return False
    return True


def test_one_wrong_character_in_any_piece_of_any_match_is_noticed(
    rules: tuple[Rule, ...], examples: Examples
) -> None:
    unseen, tried = [], 0
    for rule in rules:
        for wording in rule.wordings:
            texts = examples.of(wording)["message"]
            for template in mutated(wording.template):
                tried += 1
                if not pc.extract_regex(texts, template.pattern).null_count:
                    unseen.append(f"{rule.path}:{wording.line_number}: {template.source}")

    assert unseen == []
    assert tried > 5000


def test_no_constant_and_no_part_of_a_list_can_change_unseen(
    rules: tuple[Rule, ...], examples: Examples
) -> None:
    unseen, tried = [], 0
    for rule in rules:
        for wording in rule.wordings:
            assert holds(rule, wording, examples)
            for mutant in mutants(wording):
                tried += 1
                if holds(rule, mutant, examples):
                    what = mutant.each if mutant.settings == wording.settings else mutant.settings
                    unseen.append(f"{rule.path}:{wording.line_number}: {what}")

    assert unseen == []
    assert tried > 500
