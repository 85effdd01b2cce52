"""Tries every rule on its own example lines, the way a scan reads them.

Each example goes through the cutter, the sieve, the layouts and the matcher, so that a rule that
holds here also holds in a log. Nothing stops at the first problem: each is one line to put right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.errors import Problem
from forensics.events.log_reader import LogReader
from forensics.events.matcher import MatchedEvents, build_events
from forensics.events.rules import Example, Rule, Wording
from forensics.ingest.wrapper_detection import check_wrappers
from forensics.lib.yaml_with_lines import line_of_refused
from forensics.parsing.layout_check import check_layouts, number_lines, to_rows
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE
from forensics.schemas import FACTS


@dataclass
class _ExampleRun:
    """Lines that were tried: what they are as entries and events, and which wordings take them."""

    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    matched_by: Mapping[str, list[int]] = field(default_factory=dict)
    prefiltered: Collection[str] = ()


def check_rules(layouts: tuple[Layout, ...], rules: Sequence[Rule]) -> list[Problem]:
    """Find everything that does not hold in some layouts and rules, in the order of the files."""
    wordings = [(rule, wording) for rule in rules for wording in rule.wordings]
    book = LogReader(layouts, rules)
    trial = _run_examples(book, wordings)
    plain = [str(one.get("line", "")) for layout in layouts for one in layout.examples]
    problems = [*check_wrappers(book.signatures, plain)]
    problems += [*check_layouts(layouts), *_find_missing_parts(rules)]
    for number, (rule, wording) in enumerate(wordings):
        for example in wording.examples:
            for says in _check_example(example, number, wordings, trial):
                problems.append(Problem(rule.path, example.line_number, says))
        for line in wording.must_not_match:
            if number in trial.matched_by.get(line, ()):
                at = line_of_refused(rule.path, line)
                says = f"{rule.id} takes a line that it must refuse (by the match of line"
                problems.append(Problem(rule.path, at, f"{says} {wording.line_number})"))
    return sorted(set(problems))


def _find_missing_parts(rules: Sequence[Rule]) -> Iterator[Problem]:
    """Yield what a rule must have before anything can be tried."""
    for rule in rules:
        if not any(wording.must_not_match for wording in rule.wordings):
            says = f"{rule.id} has no 'refuses'; give a line that is near, and not meant"
            yield Problem(rule.path, 1, says)
        for wording in rule.wordings:
            if not wording.examples:
                says = "wording has no example; give a whole line of a log and what it gives"
                yield Problem(rule.path, wording.line_number, says)


def _run_examples(book: LogReader, wordings: Sequence[tuple[Rule, Wording]]) -> _ExampleRun:
    lines = [one.line for _, wording in wordings for one in wording.examples]
    lines += [line for _, wording in wordings for line in wording.must_not_match]
    lines = list(dict.fromkeys(lines))
    cut = book.split_records(lines)
    if cut is None:
        return _ExampleRun()
    firsts = number_lines(lines)
    entries = book.parse_all(cut)
    known = {firsts[row["line"]]: row for row in to_rows(entries) if row["line"] in firsts}
    passed = {firsts[line] for line in book.prefiltered(cut)["line"].to_pylist() if line in firsts}
    takers: dict[str, list[int]] = defaultdict(list)
    parts: list[MatchedEvents] = []
    numbers = {id(wording): number for number, (_, wording) in enumerate(wordings)}
    places = entries["line"].to_pylist()
    for wording, found in book.matcher.match_all(entries):
        parts += found
        for at in dict.fromkeys(found[0].rows.tolist()):
            if places[at] in firsts:
                takers[firsts[places[at]]].append(numbers[id(wording)])
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in build_events(entries, parts).select(["line", *FACTS.names]).to_pylist():
        if row["line"] in firsts:
            events[firsts[row["line"]]].append(row)
    return _ExampleRun(known, events, takers, passed)


def _check_example(
    example: Example, number: int, wordings: Sequence[tuple[Rule, Wording]], trial: _ExampleRun
) -> Iterator[str]:
    rule, _ = wordings[number]
    entry = trial.entries.get(example.line)
    takers = trial.matched_by.get(example.line, [])
    for whose, wording in (wordings[other] for other in takers if other != number):
        yield f"the example is also taken by {whose.id} ({whose.path}:{wording.line_number})"
    if entry is None:
        yield "no layout reads the example"
    elif entry["logger"] not in rule.loggers and ANY_LOGGER not in rule.loggers:
        yield f"the example's logger is {entry['logger']}, not {' or '.join(rule.loggers)}"
    elif rule.warn_or_worse_only and entry["level"] not in WARN_OR_WORSE:
        yield f"the example's level is {entry['level']}, and its rule is loud"
    elif number not in takers:
        yield "'match' does not take its own example"
    elif example.line not in trial.prefiltered:
        yield "a scan would pass over the example"
    elif takers == [number]:
        # A line's own events come first; what it says beside its news comes after.
        events = trial.events[example.line]
        gives = [example.expected] if isinstance(example.expected, Mapping) else example.expected
        if gives is not example.expected or len(gives) == len(events):
            for wanted, event in zip(gives, events, strict=False):
                yield from _compare_facts(wanted, event)
        else:
            yield f"gives {len(gives)} events, got {len(events)}"


def _compare_facts(gives: object, event: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(gives, Mapping):
        yield "'gives' is no mapping; write facts and their values, such as {topic: orders}"
        return
    for name, value in gives.items():
        wanted = list(value) if isinstance(value, list) else value
        if name not in FACTS.names:
            yield f"gives {name}: there is no such fact"
        elif event[name] != wanted:
            yield f"gives {name}: expected {wanted!r}, got {event[name]!r}"
