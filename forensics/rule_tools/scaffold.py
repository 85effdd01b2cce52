"""Drafts a rule from one line of a log: a valid file, which a person then completes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.errors import ForensicsError, RuleError
from forensics.events.log_reader import LogReader
from forensics.events.packs import RuleSet
from forensics.events.rules import Kind, Rule, load_rules
from forensics.lib.log_templates import compile_template, rewrite_template
from forensics.lib.text_safety import printable
from forensics.lib.yaml_with_lines import FileText, rules_folder
from forensics.parsing.layouts import Layout
from forensics.rule_tools.check import check_rules, to_rows
from forensics.rule_tools.rule_text import newest_version, similar_names
from forensics.schemas import FACTS

_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_LOGGER = re.compile(r"[\w.$-]+")

# Numbers and names that are no part of a version, an address, a time or a path.
_ALONE = r"(?:(?<![\w.:/@+-])(?<!:[0-9]{2},)|(?<=[A-Za-z]:))"
_ENDS = r"(?![\w/@+-]|[.:]\w)"
_TP = r"[a-zA-Z0-9._-]*[a-zA-Z_][a-zA-Z0-9._-]*-[0-9]+"
_TOKENS = re.compile(
    # Without the word before it, `name-0` may also be a thread.
    r"(?P<partition>(?P<lead>\b(?:[Pp]artitions?(?:\(s\))?(?: [a-z]+(?= )){0,2}|[Rr]eplica"
    rf"|[Ll]eader|[Ff]ollower|[Ll]og)(?:[ =:][\[({{]?|[\[({{])){_TP}"
    rf"(?P<others>(?:, ?{_TP})*){_ENDS})"
    r"|(?P<client>\bclientId=)(?:[^\s,()\[\]]+)"
    r"|(?P<group>\bgroupId=)(?:[^\s,()\[\]]+)"
    rf"|(?P<uuid>{_ALONE}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_ENDS})"
    rf"|(?P<id>{_ALONE}(?=[\w-]*[0-9])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{{22}}{_ENDS})"
    r"|(?P<list>\[-?[0-9]+(?:, ?-?[0-9]+)*\])"
    rf"|(?P<ms>{_ALONE}[0-9]+(?= ?ms\b))"
    rf"|(?P<decimal>{_ALONE}[0-9]+\.[0-9]+{_ENDS})"
    rf"|(?P<number>{_ALONE}-?[0-9]+{_ENDS})"
)
# The template of a token's first and of its later occurrences: a fact is captured once.
_PARTS = {
    "client": ("clientId={client:word}", "clientId={:word}"),
    "group": ("groupId={group:word}", "groupId={:word}"),
    "uuid": ("{:word}", "{:word}"),
    "id": ("{:word}", "{:word}"),
    "list": ("{:ints}", "{:ints}"),
    "ms": ("{duration_ms:int}", "{:int}"),
    "decimal": ("{:int}.{:int}", "{:int}.{:int}"),
    "number": ("{:int}", "{:int}"),
}
_WORD = re.compile(r"[A-Za-z]{2,}")

_SAMPLE = (
    "[2026-01-01 12:00:00,000] INFO Something ({id}) on partition orders-0 took 12 ms ({logger})"
)

_TEXT = """\
# yaml-language-server: $schema={schema}
# A draft that holds and says nothing yet: write what it means, then run `rules check`.
id: {id}
# What happened, of rules/kinds/; `routine` is a line that tells nothing.
kind: {kind}
logger: {logger}
means: >
  To be written: one or two plain sentences on what the line tells.
beware: >
  To be written, or to be left out: what the line does not mean.
wordings:
  # The first and the last version that write it so.
  - versions: ["{version}", "{version}"]
    # {{name:type}} captures a fact, {{:type}} passes over it; docs/tables.md lists the facts.
    match: {match}
    examples:
      - line: {line}
        gives: {gives}
# Lines that are near, and not meant.
refuses:
  - {refused}
"""


@dataclass(frozen=True)
class RuleDraft:
    """What a new rule begins with."""

    id: str
    logger: str
    kind: str
    line: str | None = None


def draft_rule(draft: RuleDraft, rules: RuleSet, kinds: Mapping[str, Kind], schema: str) -> str:
    """Write a rule as YAML that `rules check` has nothing against.

    `schema` is where an editor finds the JSON Schema of rules.
    """
    _check_draft(draft, rules, kinds)
    line = draft.line or _SAMPLE.format(id=draft.id, logger=draft.logger)
    # Bytes that are no UTF-8 come as surrogates, which no file can hold.
    line = line.encode("utf-8", "replace").decode()
    logger = draft.logger.rpartition(".")[2]
    peers = [rule for rule in rules.rules if logger in rule.loggers]
    message = _read_message(line, logger, LogReader(rules.layouts, peers))
    match = guess_template(message)
    parts = {
        "schema": schema,
        "id": draft.id,
        "kind": draft.kind,
        "logger": logger,
        "version": newest_version(rules.rules),
        "match": _quote_yaml(match),
        "line": _quote_yaml(line),
        "refused": _quote_yaml(_near_miss(line, message, match)),
    }
    text = _TEXT.format(**parts, gives="{}")
    facts = _extract_facts(_load_rule(text, draft), line, rules.layouts)
    text = _TEXT.format(**parts, gives=_flow(facts))
    problems = check_rules(rules.layouts, [*peers, _load_rule(text, draft)])
    if faults := [problem for problem in problems if problem.file == draft.id]:
        raise RuleError(faults)
    return text


def guess_template(message: str) -> str:
    """Make a template of a message: what surely differs from line to line becomes a part.

    >>> guess_template("[Partition a-b-3 broker=1] Closed in 12 ms: epoch 7, ISR [1,2], v3.9.1")
    '[Partition {:tp} broker={:int}] Closed in {duration_ms:int} ms: epoch {:int}, ISR {:ints}, v3.9.1'
    >>> guess_template("[Consumer clientId=a-1, groupId=b] Thread-0 adds partitions c-0, c-1 of {d}")
    '[Consumer clientId={client:word}, groupId={group:word}] Thread-0 adds partitions {} of {}'
    """  # noqa: E501
    pieces: list[str] = []
    seen: set[str] = set()
    end = 0
    for token in _TOKENS.finditer(message):
        pieces.append(_literal(message[end : token.start()]))
        end = token.end()
        kind = str(token.lastgroup)
        if kind == "partition":
            again = "{:topic}-{:int}" if kind in seen else "{:tp}"
            # Several partitions should give an event each, which a person must write.
            pieces.append(token["lead"] + ("{}" if token["others"] else again))
        else:
            pieces.append(_PARTS[kind][kind in seen])
        if not token["others"]:
            seen.add(kind)
    return "".join([*pieces, _literal(message[end:])])


def schema_address(file: Path) -> str:
    """Return where a rule in a file finds the schema: in the checkout, or installed."""
    schema = rules_folder() / "schema" / "event-rule.json"
    home = schema.resolve().parents[2]
    here = file.resolve().parent
    if not here.is_relative_to(home):
        return schema.resolve().as_uri()
    up = "../" * len(here.relative_to(home).parts)
    return f"{up}rules/schema/event-rule.json"


def _check_draft(draft: RuleDraft, rules: RuleSet, kinds: Mapping[str, Kind]) -> None:
    if not _ID.fullmatch(draft.id):
        advice = "an id is lower case words with dots and dashes between, such as fetcher.removed"
        raise ForensicsError(f"{printable(draft.id)!r} is no id: {advice}.")
    if not _LOGGER.fullmatch(draft.logger):
        advice = "give the last part of its name, such as ReplicaFetcherThread"
        raise ForensicsError(f"{printable(draft.logger)!r} is no logger: {advice}.")
    if draft.kind not in kinds:
        guesses = similar_names(draft.kind, kinds)
        hint = f"did you mean {' or '.join(guesses)}?" if guesses else "rules/kinds/ lists them."
        raise ForensicsError(f"There is no kind {printable(draft.kind)!r}; {hint}")
    for rule in rules.rules:
        if rule.id == draft.id:
            advice = "choose another id, or copy that file into a pack to replace the rule"
            raise ForensicsError(f"There is a rule {rule.id} already, in {rule.path}: {advice}.")


def _read_message(line: str, logger: str, book: LogReader) -> str:
    """Read a line as a scan does; it must be the logger's, and no rule may take it yet."""
    cut = book.split_records([line])
    entries = book.parse_all(cut) if cut is not None else None
    if entries is None or len(entries) != 1:
        advice = "give one whole line as it stands in the file, with time, level and logger"
        raise ForensicsError(f"No layout reads the line: {advice}.")
    (entry,) = to_rows(entries)
    message = str(entry["message"] or "")
    if entry["logger"] != logger:
        raise ForensicsError(
            f"The line's logger is {printable(str(entry['logger']))}, not {logger}."
        )
    if not _WORD.search(message):
        raise ForensicsError("The line has no words that a rule could know it by.")
    takers = sorted(set(book.matcher.match(entries)["rule"].to_pylist()))
    if takers:
        advice = f"see: kafka-forensics rules show {takers[0].partition('@')[0]}"
        raise ForensicsError(f"The rule {takers[0]} takes this line already; {advice}")
    return message


def _literal(text: str) -> str:
    """Keep text as it is, but for braces, which would be read as a part: they become any text."""
    return rewrite_template(text, lambda _name, _kind: "{}")


def _near_miss(line: str, message: str, match: str) -> str:
    """Change the words of a line until the template no longer matches."""
    template = compile_template(match)
    pattern = re.compile(template.pattern)
    changes = [f"{message} and more", f"Not so: {message}"]
    longest = max(_WORD.findall(template.longest_literal), key=len, default="")
    if longest:
        changes.insert(0, message.replace(longest, f"not {longest}", 1))
    changed = next((one for one in changes if not pattern.search(one)), "Something else")
    return line.replace(message, changed, 1)


def _load_rule(text: str, draft: RuleDraft) -> Rule:
    (rule,) = load_rules([FileText(draft.id, text.encode())], {draft.kind: Kind("")})
    return rule


def _extract_facts(rule: Rule, line: str, layouts: tuple[Layout, ...]) -> dict[str, Any]:
    book = LogReader(layouts, [rule])
    cut = book.split_records([line])
    events = book.matcher.match(book.parse_all(cut)).to_pylist() if cut is not None else []
    return {
        name: value
        for name, value in (events[0] if events else {}).items()
        if name in FACTS.names and value is not None
    }


def _flow(facts: Mapping[str, Any]) -> str:
    return f"{{{', '.join(_pairs(facts))}}}"


def _pairs(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        yield f"{name}: {_quote_yaml(value) if isinstance(value, str) else json.dumps(value)}"


def _quote_yaml(text: str) -> str:
    r"""Write text between double quotes as YAML reads it; a file of rules holds no odd characters.

    >>> print(_quote_yaml("say \"a\\b\", \x1b[0m, größe \U0001f600"))
    "say \"a\\b\", \u001b[0m, größe 😀"
    """
    marks = json.dumps(text, ensure_ascii=False)
    return "".join(mark if mark.isprintable() else f"\\U{ord(mark):08X}" for mark in marks)
