"""Tries every rule and every layout on its own example lines, the way a scan reads them.

Each example goes through splitter, prefilter, layouts and matcher, so that a rule that holds here
also holds in a log. Declared detectors are tried on the logs that they carry as samples. All
problems are found at once, each with its line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from forensics.detection.declarative.interpreter import make_detector
from forensics.detection.declarative.spec import DeclaredDetector
from forensics.detection.registry import all_detectors, load_declarations, load_shipped_declarations
from forensics.detection.thresholds import load_limits
from forensics.errors import Problem, collect_problems, duplicate_ids
from forensics.events.event_columns import MatchedEvents, build_events
from forensics.events.log_reader import LogReader
from forensics.events.packs import Pack
from forensics.events.rules import Example, Rule, Wording
from forensics.ingest.record_splitter import RecordSplitter
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.wrapper_detection import check_wrappers
from forensics.lib.text_format import quantity
from forensics.lib.time_units import to_datetime
from forensics.lib.yaml_with_lines import line_of, line_of_refused
from forensics.parsing.entries import group_layouts, group_signatures, parse_records
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE
from forensics.sandbox import run_lines
from forensics.schemas import FACTS

_ENTRY = ("time", "level", "logger", "message", "client")


@dataclass
class _ExampleRun:
    """The examples as entries and events, by their text, and which wordings match them."""

    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    matched_by: Mapping[str, list[int]] = field(default_factory=dict)
    prefiltered: Collection[str] = ()


def check_rules(
    layouts: tuple[Layout, ...], rules: Sequence[Rule], wrappers: Sequence[Wrapper] | None = None
) -> list[Problem]:
    """Find all faults of some layouts, rules and wrappers, in the order of their files.

    Without `wrappers`, those that are shipped are checked.
    """
    wordings = [(rule, wording) for rule in rules for wording in rule.wordings]
    reader = LogReader(layouts, rules)
    run = _run_examples(reader, wordings)
    plain = [str(example.get("line", "")) for layout in layouts for example in layout.examples]
    problems = [*check_wrappers(reader.signatures, plain, wrappers=wrappers)]
    problems += [*check_layouts(layouts), *_find_missing_parts(rules)]
    for number, (rule, wording) in enumerate(wordings):
        for example in wording.examples:
            for fault in _check_example(example, number, wordings, run):
                problems.append(Problem(rule.path, example.line_number, fault))
        for line in wording.must_not_match:
            if number in run.matched_by.get(line, ()):
                by = f"by the match of line {wording.line_number}"
                message = f"{rule.id} takes a line that it must refuse ({by})"
                problems.append(Problem(rule.path, line_of_refused(rule.path, line), message))
    return sorted(set(problems))


def _find_missing_parts(rules: Sequence[Rule]) -> Iterator[Problem]:
    """Yield what rules lack that they must have."""
    for rule in rules:
        if not any(wording.must_not_match for wording in rule.wordings):
            message = f"{rule.id} has no 'refuses'; give a line that is near, and not meant"
            yield Problem(rule.path, 1, message)
        for wording in rule.wordings:
            if not wording.examples:
                message = "wording has no example; give a whole line of a log and what it gives"
                yield Problem(rule.path, wording.line_number, message)


def _run_examples(reader: LogReader, wordings: Sequence[tuple[Rule, Wording]]) -> _ExampleRun:
    texts = [example.line for _, wording in wordings for example in wording.examples]
    texts += [line for _, wording in wordings for line in wording.must_not_match]
    texts = list(dict.fromkeys(texts))
    records = reader.split_records(texts)
    if records is None:
        return _ExampleRun()
    by_line = number_lines(texts)
    entries = reader.parse_all(records)
    known = {by_line[row["line"]]: row for row in to_rows(entries) if row["line"] in by_line}
    prefiltered = reader.prefiltered(records)["line"].to_pylist()
    matched_by: dict[str, list[int]] = defaultdict(list)
    parts: list[MatchedEvents] = []
    numbers = {id(wording): number for number, (_, wording) in enumerate(wordings)}
    lines = entries["line"].to_pylist()
    for wording, matched in reader.matcher.match_all(entries):
        parts += matched
        for row in dict.fromkeys(matched[0].rows.tolist()):
            if lines[row] in by_line:
                matched_by[by_line[lines[row]]].append(numbers[id(wording)])
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    # An event may cite a later line of its record, but has the record's offset.
    begins = dict(zip(entries["offset"].to_pylist(), lines, strict=True))
    found, _ = build_events(entries, parts)
    for event in found.select(["offset", *FACTS.names]).to_pylist():
        if begins[event["offset"]] in by_line:
            events[by_line[begins[event["offset"]]]].append(event)
    passed = {by_line[line] for line in prefiltered if line in by_line}
    return _ExampleRun(known, events, matched_by, passed)


def _check_example(
    example: Example, number: int, wordings: Sequence[tuple[Rule, Wording]], run: _ExampleRun
) -> Iterator[str]:
    rule, _ = wordings[number]
    entry = run.entries.get(example.line)
    matched_by = run.matched_by.get(example.line, [])
    for other, wording in (wordings[index] for index in matched_by if index != number):
        yield f"the example is also taken by {other.id} ({other.path}:{wording.line_number})"
    if entry is None:
        yield "no layout reads the example"
    elif entry["logger"] not in rule.loggers and ANY_LOGGER not in rule.loggers:
        yield f"the example's logger is {entry['logger']}, not {' or '.join(rule.loggers)}"
    elif rule.warn_or_worse_only and entry["level"] not in WARN_OR_WORSE:
        yield f"the example's level is {entry['level']}, and its rule is loud"
    elif number not in matched_by:
        yield "'match' does not take its own example"
    elif example.line not in run.prefiltered:
        yield "a scan would pass over the example"
    elif matched_by == [number]:
        yield from _compare_events(example.expected, run.events[example.line])


def _compare_events(expected: object, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Compare events with what `gives` says: of the first event, or a list of all of them."""
    if isinstance(expected, Sequence) and len(expected) != len(events):
        yield f"gives {len(expected)} events, got {len(events)}"
        return
    # A line's own events come first; what it says beside its news comes after.
    wanted = expected if isinstance(expected, Sequence) else [expected]
    for facts, event in zip(wanted, events, strict=False):
        yield from _compare_facts(facts, event)


def _compare_facts(expected: object, event: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(expected, Mapping):
        yield "'gives' is no mapping; write facts and their values, such as {topic: orders}"
        return
    for name, value in expected.items():
        wanted = list(value) if isinstance(value, list) else value
        if name not in FACTS.names:
            yield f"gives {name}: there is no such fact"
        elif event[name] != wanted:
            yield f"gives {name}: expected {wanted!r}, got {event[name]!r}"


def find_detector_problems(packs: Sequence[Pack], *, shipped: bool) -> list[Problem]:
    """Find what is wrong with the detectors of packs, and with their samples."""
    problems: list[Problem] = []
    rules = list(load_shipped_declarations()) if shipped else []
    for pack in packs:
        with collect_problems(problems):
            rules += load_declarations(pack.pages_in("detectors"))
    if not problems:
        with collect_problems(problems):
            all_detectors(packs)
    return problems or list(find_sample_problems(rules, packs))


def find_sample_problems(
    rules: Iterable[DeclaredDetector], packs: Sequence[Pack] = ()
) -> Iterator[Problem]:
    """Try declared detectors on their own samples; each must find as much as a sample says."""
    limits = load_limits()
    for rule in rules:
        find = make_detector(rule).find
        for sample in rule.samples:
            with TemporaryDirectory() as scratch:
                context = run_lines(sample.logs, Path(scratch), packs).context(limits)
                count = len(list(find(context)))
            if count != sample.expected:
                wanted = quantity(sample.expected, "finding")
                message = f"sample {sample.name!r} must give {wanted} and gives {count}"
                yield Problem(rule.origin, sample.line, message)


def check_layouts(layouts: tuple[Layout, ...]) -> Iterator[Problem]:
    """Yield the problems of layouts: each is tried alone, and then together with the others."""
    lines = [str(one.get("line", "")) for layout in layouts for one in layout.examples]
    together = _read(layouts, lines)
    alone = {layout.id: _read((layout,), lines) for layout in layouts}
    yield from duplicate_ids((layout.id, layout.origin.file) for layout in layouts)
    for layout in layouts:
        file = layout.origin.file
        if not layout.refuses:
            yield Problem(file, 1, f"layout {layout.id} has no 'refuses'")
        for line in _read((layout,), layout.refuses):
            says = f"layout {layout.id} reads a line that it must refuse"
            yield Problem(file, line_of_refused(file, line), says)
        for one in layout.examples:
            for says in _example(one, layout, alone, together):
                yield Problem(file, line_of(one, "line"), says)


def _example(
    example: Mapping[str, Any],
    layout: Layout,
    alone: Mapping[str, Mapping[str, Any]],
    together: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    line = str(example.get("line", ""))
    if line not in alone[layout.id]:
        yield f"layout {layout.id} does not read its own example"
    for other in sorted(name for name, read_by in alone.items() if line in read_by):
        if other != layout.id:
            yield f"the example is also read by layout {other}"
    for name, value in example.get("gives", {}).items():
        if name not in _ENTRY:
            yield f"gives {name}: a layout gives {', '.join(_ENTRY)}"
            continue
        wanted, got = _wanted(name, value), together.get(line, {}).get(name)
        if line in together and got != wanted:
            yield f"gives {name}: expected {_shown(wanted)}, got {_shown(got)}"


def number_lines(lines: Sequence[str]) -> dict[int, str]:
    r"""Return the line at which each text begins; an example may have several lines.

    >>> number_lines(["one", "two\n  and more", "three"])
    {1: 'one', 2: 'two\n  and more', 4: 'three'}
    """
    numbers = accumulate((line.count("\n") + 1 for line in lines), initial=1)
    return dict(zip(numbers, lines, strict=False))


def to_rows(entries: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield entries as plain values, with `time` added."""
    for row in entries.to_pylist():
        row["time"] = None if row["ts"] is None else to_datetime(row["ts"])
        for name in ("level", "logger", "message", "client"):
            row[name] = None if row[name] is None else row[name].decode("utf-8", "replace")
        yield row


def _read(layouts: tuple[Layout, ...], lines: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    groups = group_layouts(layouts)
    text = "\n".join(lines).encode("utf-8", "replace")
    records = RecordSplitter(group_signatures(groups)).feed(text, final=True)
    if records is None:
        return {}
    places = number_lines(lines)
    entries = to_rows(parse_records(records, np.arange(len(records.starts)), groups))
    return {places[row["line"]]: row for row in entries if row["line"] in places}


def _wanted(name: str, value: Any) -> Any:
    if name == "logger":
        # Only the last part of a logger counts: layouts cut it, and Kafka has moved classes.
        return str(value).rpartition(".")[2]
    if name != "time":
        return value
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
