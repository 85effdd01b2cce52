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
from forensics.events.log_reader import Book
from forensics.events.matcher import Part, assembled
from forensics.events.rules import Example, Rule, Wording
from forensics.ingest.wrapper_detection import check_wrappers
from forensics.lib.yaml_with_lines import line_of_refused
from forensics.parsing.layout_check import check_layouts, number_lines, to_rows
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE
from forensics.schemas import FACTS


@dataclass
class _Trial:
    """Lines that were tried: what they are as entries and events, and which wordings take them."""

    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    takers: Mapping[str, list[int]] = field(default_factory=dict)
    passed: Collection[str] = ()


def check(layouts: tuple[Layout, ...], rules: Sequence[Rule]) -> list[Problem]:
    """Find everything that does not hold in some layouts and rules, in the order of the files."""
    wordings = [(rule, wording) for rule in rules for wording in rule.wordings]
    book = Book(layouts, rules)
    trial = _try(book, wordings)
    plain = [str(one.get("line", "")) for layout in layouts for one in layout.examples]
    problems = [*check_wrappers(book.signatures, plain)]
    problems += [*check_layouts(layouts), *_shape(rules)]
    for number, (rule, wording) in enumerate(wordings):
        for example in wording.examples:
            for says in _example(example, number, wordings, trial):
                problems.append(Problem(rule.path, example.at, says))
        for line in wording.refuses:
            if number in trial.takers.get(line, ()):
                at = line_of_refused(rule.path, line)
                says = f"{rule.id} takes a line that it must refuse (by the match of line"
                problems.append(Problem(rule.path, at, f"{says} {wording.at})"))
    return sorted(set(problems))


def _shape(rules: Sequence[Rule]) -> Iterator[Problem]:
    """Yield what a rule must have before anything can be tried."""
    for rule in rules:
        if not any(wording.refuses for wording in rule.wordings):
            says = f"{rule.id} has no 'refuses'; give a line that is near, and not meant"
            yield Problem(rule.path, 1, says)
        for wording in rule.wordings:
            if not wording.examples:
                says = "wording has no example; give a whole line of a log and what it gives"
                yield Problem(rule.path, wording.at, says)


def _try(book: Book, wordings: Sequence[tuple[Rule, Wording]]) -> _Trial:
    lines = [one.line for _, wording in wordings for one in wording.examples]
    lines += [line for _, wording in wordings for line in wording.refuses]
    lines = list(dict.fromkeys(lines))
    cut = book.cut(lines)
    if cut is None:
        return _Trial()
    firsts = number_lines(lines)
    entries = book.entries(cut)
    known = {firsts[row["line"]]: row for row in to_rows(entries) if row["line"] in firsts}
    passed = {firsts[line] for line in book.passed(cut)["line"].to_pylist() if line in firsts}
    takers: dict[str, list[int]] = defaultdict(list)
    parts: list[Part] = []
    numbers = {id(wording): number for number, (_, wording) in enumerate(wordings)}
    places = entries["line"].to_pylist()
    for _, wording, found in book.matcher.claims(entries):
        parts += found
        for at in dict.fromkeys(found[0].rows.tolist()):
            if places[at] in firsts:
                takers[firsts[places[at]]].append(numbers[id(wording)])
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in assembled(entries, parts).select(["line", *FACTS.names]).to_pylist():
        if row["line"] in firsts:
            events[firsts[row["line"]]].append(row)
    return _Trial(known, events, takers, passed)


def _example(
    example: Example, number: int, wordings: Sequence[tuple[Rule, Wording]], trial: _Trial
) -> Iterator[str]:
    rule, _ = wordings[number]
    entry = trial.entries.get(example.line)
    takers = trial.takers.get(example.line, [])
    for whose, wording in (wordings[other] for other in takers if other != number):
        yield f"the example is also taken by {whose.id} ({whose.path}:{wording.at})"
    if entry is None:
        yield "no layout reads the example"
    elif entry["logger"] not in rule.loggers and ANY_LOGGER not in rule.loggers:
        yield f"the example's logger is {entry['logger']}, not {' or '.join(rule.loggers)}"
    elif rule.loud and entry["level"] not in WARN_OR_WORSE:
        yield f"the example's level is {entry['level']}, and its rule is loud"
    elif number not in takers:
        yield "'match' does not take its own example"
    elif example.line not in trial.passed:
        yield "a scan would pass over the example"
    elif takers == [number]:
        # A line's own events come first; what it says beside its news comes after.
        events = trial.events[example.line]
        gives = [example.gives] if isinstance(example.gives, Mapping) else example.gives
        if gives is not example.gives or len(gives) == len(events):
            for wanted, event in zip(gives, events, strict=False):
                yield from _facts(wanted, event)
        else:
            yield f"gives {len(gives)} events, got {len(events)}"


def _facts(gives: object, event: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(gives, Mapping):
        yield "'gives' is no mapping; write facts and their values, such as {topic: orders}"
        return
    for name, value in gives.items():
        wanted = list(value) if isinstance(value, list) else value
        if name not in FACTS.names:
            yield f"gives {name}: there is no such fact"
        elif event[name] != wanted:
            yield f"gives {name}: expected {wanted!r}, got {event[name]!r}"
