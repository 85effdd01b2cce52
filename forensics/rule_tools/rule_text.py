"""Describes rules in words: for lists, for a terminal, and for the pages in docs/."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from forensics.errors import ForensicsError
from forensics.events.packs import version_numbers
from forensics.events.rules import MORE, ROUTINE, Kind, Rule, Wording, load_kinds
from forensics.lib.text_safety import printable
from forensics.schemas import FACTS, describe


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type for people.

    >>> type_name(pa.list_(pa.int32())), type_name(pa.timestamp("us", tz="UTC"))
    ('list of int32', 'timestamp, UTC')
    """
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return "timestamp, UTC" if pa.types.is_timestamp(kind) else str(kind)


# What `restates` of a rule means, in a sentence.
RESTATES_MEANINGS: Mapping[str, str] = {
    "fresh": "Re-tells an older state where the previous epoch is -1, as after a restart.",
    "replay": "Controllers write it again, under a new time, when they read their log at a start.",
    "always": "The state may be older than the line.",
}
_WIDTH = 96


def all_kinds() -> Mapping[str, Kind]:
    """Return every shipped kind, and that of lines that tell nothing."""
    return {**load_kinds(), ROUTINE: Kind("a line that is known and tells nothing")}


def kind_description(kind: Kind) -> str:
    """Return what a kind means, and whether it only gives context."""
    return f"{kind.description} (context)" if kind.context else kind.description


def rule_family(rule: Rule) -> str:
    """Return the family of a rule: the folder of events/ that its file is in, at whatever depth."""
    return rule_file(rule).split("/")[0]


def rule_file(rule: Rule) -> str:
    """Return the path of a rule's file below events/, or with its folder where a pack has none."""
    path = Path(rule.path)
    folders = path.parts[:-1]
    start = len(folders) - folders[::-1].index("events") if "events" in folders else -2
    return "/".join(path.parts[start:])


def event_kinds(rule: Rule) -> list[str]:
    """Return the kinds of events that a rule gives, that of its main event first."""
    extras = (extra.kind for wording in rule.wordings for extra in wording.also)
    return list(dict.fromkeys([rule.kind, *extras]))


def version_range(versions: Iterable[str]) -> tuple[str, str]:
    """Return the oldest and the newest of some versions.

    >>> version_range(["3.9", "0.11", "3.10"])
    ('0.11', '3.10')
    """
    ranked = sorted(versions, key=version_numbers)
    return ranked[0], ranked[-1]


def newest_version(rules: Iterable[Rule]) -> str:
    """Return the newest version of Kafka that the rules know: most wordings last to it."""
    lasts = Counter(wording.versions[-1] for rule in rules for wording in rule.wordings)
    return max(lasts, key=lambda version: (lasts[version], version_numbers(version)), default="")


def rule_versions(rule: Rule) -> list[str]:
    """Return the first and the last version of every wording of a rule."""
    return [version for wording in rule.wordings for version in wording.versions]


def version_phrase(versions: Sequence[str], last: str) -> str:
    """Return from which to which version something is written; `last` is the newest known.

    >>> [version_phrase(pair, "4.3") for pair in (["2.1", "4.3"], ["1.0", "3.8"], ["3.5", "3.5"])]
    ['since 2.1', '1.0 to 3.8', 'only 3.5']
    """
    first, until = version_range(versions)
    if until == last:
        return f"since {first}"
    return f"only {first}" if first == until else f"{first} to {until}"


def summarise_rule(rule: Rule) -> dict[str, Any]:
    """Return what a list of rules shows of one, as plain values."""
    oldest, latest = version_range(rule_versions(rule))
    return {
        "id": rule.id,
        "kind": rule.kind,
        "family": rule_family(rule),
        "loggers": list(rule.loggers),
        "versions": [oldest, latest],
        "wordings": len(rule.wordings),
        "means": rule.description,
        "file": rule.path,
    }


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five names that were perhaps meant.

    >>> similar_names("isr.updatet", ["isr.updated", "isr.rejected", "leader.starts"])
    ['isr.updated']
    >>> similar_names("leader", ["isr.updated", "quorum.leader-starts"])
    ['quorum.leader-starts']
    """
    names = {known_name.lower(): known_name for known_name in sorted(set(known))}
    containing = [lower for lower in names if name.lower() in lower]
    alike = get_close_matches(name.lower(), names, n=3)
    return [names[lower] for lower in dict.fromkeys([*alike, *containing])][:5]


def find_rule(rules: Iterable[Rule], name: str) -> Rule:
    """Find a rule by its id, or by id@version, as events and `rules explain` name it."""
    by_id = {rule.id: rule for rule in rules}
    rule_id = name.partition("@")[0]
    if rule_id in by_id:
        return by_id[rule_id]
    guesses = similar_names(rule_id, by_id)
    hint = f"Did you mean {' or '.join(guesses)}?" if guesses else "`rules list` names them all."
    raise ForensicsError(f"There is no rule {printable(rule_id)!r}. {hint}")


def fact_sources(rule: Rule) -> dict[str, list[str]]:
    """Return the facts of a rule's main events, and for each where its values come from.

    No source means that the line itself holds it under this name.
    """
    facts: dict[str, list[str]] = {}
    for wording in rule.wordings:
        sources: dict[str, str] = dict.fromkeys(wording.captured_names, "")
        sources |= {name: _value_source(value) for name, value in wording.settings.items()}
        for name, source in sources.items():
            if name in FACTS.names and source not in facts.setdefault(name, []):
                facts[name].append(source)
    return {
        name: [source for source in facts[name] if source] for name in FACTS.names if name in facts
    }


def best_example(rule: Rule) -> tuple[str, Mapping[str, Any]]:
    """Return the best example, recorded before published before built, and its first event."""
    order = ("recorded", "published", None)
    examples = [example for wording in rule.wordings for example in wording.examples]
    if not examples:
        return "", {}
    best = min(examples, key=lambda example: order.index(example.provenance))
    expected = best.expected
    return best.line, expected if isinstance(expected, Mapping) else next(iter(expected), {})


def describe_items(wording: Wording) -> str:
    """Return where the items of a wording's list are, or nothing."""
    if wording.each is None:
        return ""
    where = "the lines after the first" if wording.each.of == MORE else f"<{wording.each.of}>"
    by = {"\n": "", ",": ", separated by commas"}.get(
        wording.each.by, f", separated by {json.dumps(wording.each.by)}"
    )
    only = "".join(
        f", where {name} is {' or '.join(values)}" for name, values in wording.each.only.items()
    )
    return f"each item of {where}{by}{only}"


def describe_rule(rule: Rule) -> Iterator[str]:
    """Yield everything about a rule as lines of text."""
    oldest, latest = version_range(rule_versions(rule))
    yield rule.id
    kind = all_kinds().get(rule.kind)
    yield f"  kind      {rule.kind}" + (f": {printable(kind_description(kind))}" if kind else "")
    yield f"  loggers   {', '.join(rule.loggers)}"
    yield f"  versions  {oldest} to {latest}, wordings: {len(rule.wordings)}"
    yield f"  file      {rule.path}"
    for title, text in (("Means", rule.description), ("Beware", rule.caveats)):
        if text:
            yield from ("", title, *_wrap(text))
    facts = fact_sources(rule)
    if facts:
        yield from ("", "Facts")
        width = max(map(len, facts))
        for name, sources in facts.items():
            from_ = f" [{'; '.join(sources)}]" if sources else ""
            yield f"  {name:<{width}}  {describe(FACTS.field(name))}{from_}"
    yield from ("", "Wordings")
    for wording in rule.wordings:
        yield from _wording(wording)
    refused = dict.fromkeys(line for wording in rule.wordings for line in wording.must_not_match)
    if refused:
        yield from ("", "Refuses")
        yield from (text for line in refused for text in _indent_lines(line, "  "))


def _wording(wording: Wording) -> Iterator[str]:
    yield f"  {' to '.join(dict.fromkeys(version_range(wording.versions)))}"
    yield f"    match    {printable(wording.template.source)}"
    if wording.each:
        yield f"    for      {describe_items(wording)}"
        yield f"             {printable(wording.each.template.source)}"
    for extra in wording.also:
        facts = ", ".join(f"{name} {_value_source(value)}" for name, value in extra.facts.items())
        yield f"    also     {extra.kind}: {facts}"
    if wording.restates in RESTATES_MEANINGS:
        yield f"    time     {RESTATES_MEANINGS[str(wording.restates)]}"
    for example in wording.examples:
        first, *rest = _indent_lines(example.line, "             ")
        provenance = f"  ({example.provenance})" if example.provenance else ""
        yield f"    example  {first.strip()}{provenance}"
        yield from rest
        yield from _describe_expected(example.expected)


def _describe_expected(expected: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for event in [expected] if isinstance(expected, Mapping) else expected:
        facts = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in event.items())
        yield f"      gives  {printable(' '.join(facts))}"


def _indent_lines(text: str, indent: str) -> list[str]:
    return [indent + printable(line) for line in text.split("\n")]


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(
        printable(text), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _value_source(value: Any) -> str:
    """Return where a fact of `set` comes from: another name, or a constant."""
    if isinstance(value, str) and value.startswith("{"):
        return f"the same as <{value[1:-1]}>"
    return f"always {value}"
