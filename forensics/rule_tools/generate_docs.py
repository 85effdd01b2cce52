"""The pages in docs/ that are written from the rules: what Kafka logs, and what it means.

The same rules give the same bytes, so that a test can say whether the pages are up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from forensics.events.rules import Kind, Rule, Wording
from forensics.lib.log_templates import rewrite_template
from forensics.lib.text_safety import md_anchor, md_block, md_code, md_table, md_text
from forensics.rule_tools.rule_text import (
    COLUMN_MEANINGS,
    RESTATES_MEANINGS,
    best_example,
    describe_items,
    event_kinds,
    fact_sources,
    kind_description,
    newest_version,
    rule_family,
    rule_versions,
    type_name,
    version_phrase,
)
from forensics.schemas import EVENTS

# The first line of every page: it tells people not to edit it, and us which pages are ours.
GENERATED_MARK = "<!-- Written by `make docs` from rules/; what is changed here is lost. -->"
_RULES = "../../rules/events"

_READING = """\
Each rule says of one kind of log line what it means. Of each rule stand here:

- what it looks like, in all its wordings, and which versions write it so. `<name>` is a value that
  is read, `<number>` and `<list>` are values that are not kept, and `…` is any text. "since 2.1"
  means that version {newest}, the newest that the rules know, still writes it; librdkafka and other
  clients count their own versions;
- what it means, and what it does not mean;
- the facts it gives: columns of the [table of events](../events.md);
- a line of a log.

A rule of the kind `routine` knows lines that tell nothing; they are known so that what nobody knows
stands out. `kafka-forensics rules show ID` tells all of one rule on a terminal."""

_KINDS = """\
What can have happened: the values of `kind` in the [table of events](../events.md). Those marked as
context are many, and nothing is built on them: they are kept only with `postmortem --context`."""

_EVENTS = """\
Each row is one fact that a log line states: what a [rule](rules/README.md) read from it. The table
is a folder of Parquet files, `tables/events`. What a line does not say is null."""


def generate_pages(rules: Iterable[Rule], kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Write all pages; the keys are their places below docs/."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    families: dict[str, list[Rule]] = {}
    for rule in ordered:
        families.setdefault(rule_family(rule), []).append(rule)
    last = newest_version(ordered)
    written = {
        "events.md": _events(),
        "rules/README.md": _index(families, _rules_by_kind(ordered, kinds), last),
        "rules/kinds.md": _kinds(kinds, _rules_by_kind(ordered, kinds)),
    }
    for name, members in sorted(families.items()):
        written[f"rules/{name}.md"] = _family(name, members, last)
    return written


def readable_template(source: str) -> str:
    """Write a template as a person would.

    >>> readable_template("[Partition {:tp} broker={broker:int}] ISR is {:ints} at {:int}{}")
    '[Partition <topic>-<partition> broker=<broker>] ISR is <list> at <number>…'
    """
    return rewrite_template(source, _readable_part)


def _readable_part(name: str, kind: str) -> str:
    if kind == "tp":
        return "<topic>-<partition>"
    unkept = {"int": "<number>", "digit": "<number>", "ints": "<list>", "spaces": " "}
    return f"<{name}>" if name else unkept.get(kind, "…")


def _rules_by_kind(rules: Iterable[Rule], kinds: Mapping[str, Kind]) -> dict[str, list[Rule]]:
    """Give for each kind the rules that tell it, be it beside their news."""
    tellers: dict[str, list[Rule]] = {kind: [] for kind in sorted(kinds)}
    for rule in rules:
        for kind in event_kinds(rule):
            tellers.setdefault(kind, []).append(rule)
    return tellers


def _index(
    families: Mapping[str, Sequence[Rule]], tellers: Mapping[str, Sequence[Rule]], last: str
) -> str:
    count = sum(map(len, families.values()))
    wordings = sum(len(rule.wordings) for members in families.values() for rule in members)
    by_family = [
        (
            f"[{md_text(name)}]({name}.md)",
            str(len(members)),
            ", ".join(_kind(kind) for kind in sorted({rule.kind for rule in members})),
        )
        for name, members in sorted(families.items())
    ]
    by_kind = [
        (_kind(kind), ", ".join(_link(one) for one in members))
        for kind, members in sorted(tellers.items())
        if members
    ]
    return _page(
        [
            "# The rules",
            "",
            f"{count} rules, {wordings} wordings.",
            "",
            _READING.format(newest=last),
            "",
            "## By family",
            "",
            *md_table(("family", "rules", "kinds of events"), by_family),
            "",
            "## By kind",
            "",
            *md_table(("kind of event", "told by"), by_kind),
        ]
    )


def _kinds(kinds: Mapping[str, Kind], tellers: Mapping[str, Sequence[Rule]]) -> str:
    rows = (
        (
            md_anchor(kind) + md_code(kind),
            md_text(kind_description(kinds[kind])) if kind in kinds else "",
            ", ".join(_link(one) for one in members) or "no rule yet",
        )
        for kind, members in sorted(tellers.items())
    )
    return _page(
        ["# Kinds of events", "", _KINDS, "", *md_table(("kind", "meaning", "told by"), rows)]
    )


def _events() -> str:
    rows = (
        (md_code(field.name), type_name(field.type), md_text(COLUMN_MEANINGS[field.name]))
        for field in EVENTS
    )
    return _page(
        ["# The table of events", "", _EVENTS, "", *md_table(("column", "type", "meaning"), rows)]
    )


def _family(name: str, members: Sequence[Rule], last: str) -> str:
    rows = (
        (
            f"[{md_text(rule.id)}](#{rule.id})",
            _kind(rule.kind),
            version_phrase(rule_versions(rule), last),
        )
        for rule in members
    )
    head = [f"# Rules: {md_text(name)}", "", "[All rules](README.md)", ""]
    contents = md_table(("rule", "kind of event", "versions"), rows)
    return _page(chain(head, contents, *(_rule(rule, last) for rule in members)))


def _rule(rule: Rule, last: str) -> Iterator[str]:
    loggers = ", ".join(map(md_code, rule.loggers))
    file = f"{_RULES}/{rule_family(rule)}/{Path(rule.path).name}"
    yield from ("", md_anchor(rule.id), "", f"## {md_text(rule.id)}", "")
    when = version_phrase(rule_versions(rule), last)
    yield f"Kind {_kind(rule.kind)}, logger {loggers}, {when}; [the rule]({file})."
    if rule.description:
        yield from ("", md_text(rule.description))
    if rule.caveats:
        yield from ("", f"**Beware:** {md_text(rule.caveats)}")
    for wording in rule.wordings:
        yield from ("", *_wording(wording, last))
    for told in dict.fromkeys(wording.restates for wording in rule.wordings):
        if told in RESTATES_MEANINGS:
            yield from ("", md_text(RESTATES_MEANINGS[str(told)]))
    yield from _facts(rule)
    line, _ = best_example(rule)
    if line:
        yield from ("", "Example:", "", md_block(line.split("\n")))


def _wording(wording: Wording, last: str) -> Iterator[str]:
    when = version_phrase(wording.versions, last)
    yield f"{when[0].upper()}{when[1:]}:"
    yield ""
    yield md_block([readable_template(wording.template.source)])
    if wording.each:
        says = f"One event for {describe_items(wording)}:"
        yield from (
            "",
            md_text(says),
            "",
            md_block([readable_template(wording.each.template.source)]),
        )


def _facts(rule: Rule) -> Iterator[str]:
    _, gives = best_example(rule)
    rows = [
        (
            md_code(name),
            md_text("; ".join([COLUMN_MEANINGS[name], *sources])),
            md_code(json.dumps(gives[name], ensure_ascii=False)) if name in gives else "",
        )
        for name, sources in fact_sources(rule).items()
    ]
    if rows:
        yield from ("", *md_table(("fact", "meaning", "in the example"), rows))


def _kind(kind: str) -> str:
    return f"[{md_code(kind)}](kinds.md#{kind})"


def _link(rule: Rule) -> str:
    return f"[{md_text(rule.id)}]({rule_family(rule)}.md#{rule.id})"


def _page(lines: Iterable[str]) -> str:
    return "\n".join([GENERATED_MARK, "", *lines, ""])
