"""Reads expectations from YAML, those of rules/quality/ and of packs, and describes their tables.

The tables are small: events are counted by file and kind, and history is measured by partition. An
expectation is one of Great Expectations by name and arguments, in words, with the consequence of a
failure. One that has the id of a shipped one replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.errors import Problem, RuleError, did_you_mean, reading_page
from forensics.events.packs import Pack
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rule_files


@dataclass(frozen=True)
class MeasuredTable:
    """What one row is, what it is about, and what each column means."""

    row: str
    # what a failed row concerns: archive, files, nodes, partitions or findings
    about: str
    columns: Mapping[str, str]


TABLES: Mapping[str, MeasuredTable] = {
    "archive": MeasuredTable(
        "the whole archive",
        "archive",
        {
            "files": "how many files were read",
            "nodes": "how many brokers, controllers and clients they are of",
            "lines": "all lines",
            "records": "records in a known layout",
            "parsed_share": "the share of lines in a known layout, 0 to 1",
            "events": "log events read from them",
            "leader_epochs": "leader epochs that were rebuilt",
            "findings": "findings before any was downgraded",
        },
    ),
    "files": MeasuredTable(
        "one input file",
        "files",
        {
            "file": "its name, as archive!entry",
            "node": "who wrote it; null: not known",
            "role": "broker, controller or client; null: not known",
            "layout": "the layout of its lines",
            "kafka_version": "the version it names",
            "bytes": "unpacked",
            "lines": "all lines",
            "records": "records in a known layout",
            "continuation_lines": "later lines of records",
            "blank_lines": "lines without a word",
            "unparsed_lines": "lines in no known layout",
            "duplicate_lines": "lines of a file that was there twice",
            "events": "log events read from it",
            "damaged": "what is wrong with it; null: nothing",
            "parsed_share": "the share of lines in a known layout, 0 to 1",
            "stray_share": "the share of lines that belong to no record, by their looks",
            "lines_left_over": "lines that are in none of those five",
            "steps_back": "how often its time goes backwards by 2 s or more, and stays there",
            "farthest_step_back": "the farthest of them, in seconds",
            "first_year": "the earliest year that it names",
            "days_ahead": "how far its latest time is beyond that of all other nodes, in days",
            "odd_levels": "records whose level is none that is known",
            "fallen_epochs": "how often it names a lower epoch of a partition than before",
        },
    ),
    "events": MeasuredTable(
        "the events of one kind in one file",
        "files",
        {
            "file": "the name of the file",
            "node": "who wrote it",
            "kind": "the kind of event",
            "events": "how many there are",
            "without_time": "those without a time",
            "without_place": "those without a file or a line",
            "odd_levels": "those whose level is none that is known",
            "negative_partitions": "those that name a partition below 0",
            "negative_epochs": "those that name an epoch below -1, which means none",
            "strange_leaders": "those that name a leader no replica, ISR or registration names",
        },
    ),
    "leadership": MeasuredTable(
        "all leader epochs of one partition",
        "partitions",
        {
            "topic": "the topic",
            "partition": "its number",
            "epochs": "how many leader epochs are known",
            "unknown_leaders": "those of which nobody says who led",
            "inferred": "those that follow from others, and that no line tells",
            "doubled_epochs": "epochs that stand there twice",
            "shortest": "the shortest, in seconds; below 0 it ends before it begins",
            "overlap": "how far one reaches into the next, in seconds",
            "without_evidence": "those that are called observed, and name no line",
            "strange_leaders": "those whose leader is none of the replicas",
            "strange_isr": "those whose ISR has a member that is none of the replicas",
        },
    ),
    "isr": MeasuredTable(
        "all states of one partition",
        "partitions",
        {
            "topic": "the topic",
            "partition": "its number",
            "states": "how many are known",
            "doubled_epochs": "partition epochs that stand there twice",
            "shortest": "the shortest, in seconds; below 0 it ends before it begins",
            "overlap": "how far one reaches into the next, in seconds",
            "without_evidence": "those that are called observed, and name no line",
            "strange_leaders": "those whose leader is none of the replicas",
            "strange_isr": "those whose ISR has a member that is none of the replicas",
        },
    ),
    "clocks": MeasuredTable(
        "one node's clock",
        "nodes",
        {
            "node": "whose it is",
            "offset_ms": "how far it is ahead of the reference; null: not known",
            "uncertainty_ms": "how well that is known",
            "anchors": "how many states tie it to others",
            "zone_shift_minutes": "a wrong time zone",
            "kind": "how it was wrong",
            "drift_ppm": "how much faster it runs",
            "steps": "how often it was set",
        },
    ),
    "lanes": MeasuredTable(
        "one stretch of one node's life",
        "nodes",
        {
            "node": "whose it is",
            "role": "broker, controller or client",
            "state": "up, paused, fenced and so on",
            "seconds": "how long it lasts; null: to the end of the logs",
            "overlap": "how far it reaches into the next one of that node and role, in seconds",
            "evidence": "how many lines state it",
        },
    ),
    "coverage": MeasuredTable(
        "one stretch that a node's log covers, or a hole in it",
        "nodes",
        {
            "node": "whose it is",
            "role": "broker, controller or client",
            "log": "which of its logs; null: all",
            "state": "covered, down, or a hole: silent, missing, rotated, hidden",
            "seconds": "how long it lasts",
            "overlap": "how far it reaches into the next one of that log, in seconds",
            "files": "how many files it rests on",
            "records": "how many records",
        },
    ),
    "findings": MeasuredTable(
        "one finding",
        "findings",
        {
            "id": "its id",
            "detector": "who found it",
            "severity": "info to critical",
            "confidence": "possible, likely or confirmed",
            "seconds": "how long it lasts",
            "evidence": "how many lines it quotes",
            "strange_places": "those that are in no file of the archive, or beyond its end",
            "brokers": "how many it names",
            "partitions": "how many it names",
            "clients": "how many it names",
        },
    ),
}


# What a failed expectation brings about, from the least to the gravest.
CONSEQUENCES = ("note", "downgrade", "close")
CHECK_SEVERITIES = ("info", "warning", "critical")
# Arguments of Great Expectations that name columns.
_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_HEAD = {"about", "expectations"}
_NEEDED = ("id", "table", "expectation", "words", "otherwise", "consequence")
_KEYS = {*_NEEDED, "arguments", "where", "severity"}
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Expectation:
    """One expectation, where it is written, and what its failure means."""

    id: str
    table: str
    kind: str
    words: str
    otherwise: str
    consequence: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    # only rows whose columns have these values; a list names several
    where: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"
    origin: str = ""
    line: int = 1


def load_expectations(packs: Sequence[Pack] = ()) -> list[Expectation]:
    """Read all expectations by id; one error names everything that is wrong with them."""
    known: dict[str, Expectation] = {}
    problems: list[Problem] = []
    own = [FileText(str(path), path.read_bytes()) for path in rule_files("quality")]
    for pages in (own, *(pack.pages_in("quality") for pack in packs)):
        new: dict[str, Expectation] = {}
        for page in pages:
            try:
                with reading_page(str(page)):
                    for one in _expectations(page, problems):
                        if one.id in new:
                            says = f"the id {one.id!r} is taken (line {new[one.id].line})"
                            problems.append(Problem(str(page), one.line, says))
                        new[one.id] = one
            except RuleError as error:
                problems += error.problems
        known |= new
    if problems:
        raise RuleError(sorted(problems))
    return [known[name] for name in sorted(known)]


def suggest(name: object, known: Iterable[object]) -> str:
    """Return the end of a sentence: the known name that was meant, or a short list of all."""
    names = sorted(map(str, known))
    listed = f"; known: {', '.join(names)}" if len(names) <= 12 else ""
    return did_you_mean(name, names) or listed


def _expectations(page: FileText, problems: list[Problem]) -> Iterator[Expectation]:
    document = load_yaml(page)
    for key in sorted(set(document) - _HEAD, key=str):
        says = f"unknown key {key!r}{suggest(key, _HEAD)}"
        problems.append(Problem(str(page), line_of(document, key), says))
    entries = document.get("expectations")
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        says = "'expectations' must be a list, and not empty"
        problems.append(Problem(str(page), line_of(document, "expectations"), says))
        return
    for entry in entries:
        faults = [Problem(str(page), line_of(entry, key), says) for key, says in _faults(entry)]
        problems += faults
        if not faults:
            yield Expectation(
                id=entry["id"],
                table=entry["table"],
                kind=entry["expectation"],
                words=entry["words"].strip(),
                otherwise=entry["otherwise"].strip(),
                consequence=entry["consequence"],
                arguments=dict(entry.get("arguments") or {}),
                where=dict(entry.get("where") or {}),
                severity=entry.get("severity", "warning"),
                origin=str(page),
                line=line_of(entry),
            )


def _faults(entry: object) -> Iterator[tuple[object, str]]:
    """Yield what is wrong with one expectation, with the key that it is about."""
    if not isinstance(entry, Mapping):
        yield None, "each expectation is a mapping, such as {id: ..., table: files, ...}"
        return
    for key in sorted(set(entry) - _KEYS, key=str):
        yield key, f"unknown key {key!r}{suggest(key, _KEYS)}"
    texts = {key: entry.get(key) for key in _NEEDED}
    missing = [key for key, text in texts.items() if not isinstance(text, str) or not text.strip()]
    yield from ((key, f"{key!r} is missing, or is no text") for key in missing)
    if not missing:
        yield from _value_faults(entry)


def _value_faults(one: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    if not _ID.fullmatch(one["id"]):
        yield "id", f"the id {one['id']!r} must be lower case, with dashes"
    for key in ("arguments", "where"):
        if not isinstance(one.get(key) or {}, Mapping):
            yield key, f"{key!r} must be a mapping"
            return
    named = {"consequence": CONSEQUENCES, "severity": CHECK_SEVERITIES, "table": TABLES}
    for key, known in named.items():
        if key in one and one[key] not in known:
            yield key, f"there is no {key} {one[key]!r}{suggest(one[key], known)}"
    if one["table"] in TABLES:
        yield from _column_faults(one)


def _column_faults(one: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    known = TABLES[one["table"]].columns
    arguments = one.get("arguments") or {}
    named = [(key, name) for key in _COLUMNS for name in _listed(arguments.get(key))]
    named += [("where", name) for name in one.get("where") or {}]
    for key, name in named:
        if name not in known:
            at = "where" if key == "where" else "arguments"
            yield at, f"{one['table']} has no column {name!r}{suggest(name, known)}"


def _listed(value: object) -> Sequence[object]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)
