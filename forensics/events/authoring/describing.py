"""Says in words what a rule holds: for lists, for a terminal, and for the pages in docs/."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from forensics.errors import ForensicsError
from forensics.events.authoring.columns import MEANINGS
from forensics.events.authoring.showing import plain
from forensics.events.faults import MORE
from forensics.events.kinds import ROUTINE, Kind, kinds
from forensics.events.rules import Rule, Wording
from forensics.tables import FACTS

__all__ = [
    "RETELLING",
    "described",
    "every_kind",
    "example_of",
    "facts_of",
    "family",
    "find",
    "items_told",
    "kinds_of",
    "meaning",
    "near",
    "newest",
    "since",
    "span",
    "summary",
    "versions_of",
]

# What `restates` of a rule means, in a sentence.
RETELLING: Mapping[str, str] = {
    "fresh": "Re-tells an older state where the previous epoch is -1, as after a restart.",
    "replay": "Controllers write it again, under a new time, when they read their log at a start.",
    "always": "Tells of a state that may be older than the line.",
}
_WIDTH = 96


def every_kind() -> Mapping[str, Kind]:
    """Give every shipped kind, and the one of lines that tell nothing."""
    return {**kinds(), ROUTINE: Kind("a line that is known and tells nothing")}


def meaning(kind: Kind) -> str:
    """Say what a kind means, and whether a scan reads it only when asked to."""
    return f"{kind.means} (context)" if kind.context else kind.means


def family(rule: Rule) -> str:
    """Name the family of a rule: the folder that holds its file."""
    return Path(rule.path).parent.name


def kinds_of(rule: Rule) -> list[str]:
    """Give the kinds of events that a rule tells: its own first, then those beside its news."""
    extras = (extra.kind for wording in rule.wordings for extra in wording.also)
    return list(dict.fromkeys([rule.kind, *extras]))


def span(versions: Iterable[str]) -> tuple[str, str]:
    """Give the oldest and the newest of some versions.

    >>> span(["3.9", "0.11", "3.10"])
    ('0.11', '3.10')
    """
    ranked = sorted(versions, key=_numbers)
    return ranked[0], ranked[-1]


def newest(rules: Iterable[Rule]) -> str:
    """Give the newest version of Kafka that the rules know: the one most wordings last to."""
    lasts = Counter(wording.versions[-1] for rule in rules for wording in rule.wordings)
    return max(lasts, key=lambda version: (lasts[version], _numbers(version)), default="")


def versions_of(rule: Rule) -> list[str]:
    """Give the first and the last version of every wording of a rule."""
    return [version for wording in rule.wordings for version in wording.versions]


def since(versions: Sequence[str], last: str) -> str:
    """Say since when, and until when, something is written; `last` is the newest version known.

    >>> [since(versions, "4.3") for versions in (["2.1", "4.3"], ["1.0", "3.8"], ["3.5", "3.5"])]
    ['since 2.1', '1.0 to 3.8', 'only 3.5']
    """
    first, until = span(versions)
    if until == last:
        return f"since {first}"
    return f"only {first}" if first == until else f"{first} to {until}"


def summary(rule: Rule) -> dict[str, Any]:
    """Give what a list of rules says of one, as plain values."""
    oldest, latest = span(versions_of(rule))
    return {
        "id": rule.id,
        "kind": rule.kind,
        "family": family(rule),
        "loggers": list(rule.loggers),
        "versions": [oldest, latest],
        "wordings": len(rule.wordings),
        "means": rule.means,
        "file": rule.path,
    }


def near(name: str, known: Iterable[str]) -> list[str]:
    """Give up to five names that were perhaps meant.

    >>> near("isr.updatet", ["isr.updated", "isr.rejected", "leader.starts"])
    ['isr.updated']
    >>> near("leader", ["isr.updated", "quorum.leader-starts"])
    ['quorum.leader-starts']
    """
    names = {one.lower(): one for one in sorted(set(known))}
    within = [one for one in names if name.lower() in one]
    alike = get_close_matches(name.lower(), names, n=3)
    return [names[one] for one in dict.fromkeys([*alike, *within])][:5]


def find(rules: Iterable[Rule], name: str) -> Rule:
    """Find a rule by its id, or by what events and `rules explain` say of it: id@version."""
    known = {rule.id: rule for rule in rules}
    wanted = name.partition("@")[0]
    if wanted in known:
        return known[wanted]
    guesses = near(wanted, known)
    hint = f"Did you mean {' or '.join(guesses)}?" if guesses else "`rules list` names them all."
    raise ForensicsError(f"There is no rule {plain(wanted)!r}. {hint}")


def facts_of(rule: Rule) -> dict[str, list[str]]:
    """Give the facts that a rule's own events carry, and for each where its values come from.

    No source means that the line itself holds it under this name.
    """
    facts: dict[str, list[str]] = {}
    for wording in rule.wordings:
        sources: dict[str, str] = dict.fromkeys(wording.names, "")
        sources |= {name: _source(value) for name, value in wording.settings.items()}
        for name, source in sources.items():
            if name in FACTS.names and source not in facts.setdefault(name, []):
                facts[name].append(source)
    return {
        name: [source for source in facts[name] if source] for name in FACTS.names if name in facts
    }


def example_of(rule: Rule) -> tuple[str, Mapping[str, Any]]:
    """Give the example that says most: a recorded one before others, and what it gives first."""
    order = ("recorded", "published")
    ranked = sorted(
        (one for wording in rule.wordings for one in wording.examples),
        key=lambda one: order.index(one.seen) if one.seen in order else len(order),
    )
    if not ranked:
        return "", {}
    gives = ranked[0].gives
    first = gives if isinstance(gives, Mapping) else next(iter(gives), {})
    return ranked[0].line, first


def items_told(wording: Wording) -> str:
    """Say where the items of a wording's list are, or nothing."""
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


def described(rule: Rule) -> Iterator[str]:
    """Yield the lines that tell everything of a rule."""
    oldest, latest = span(versions_of(rule))
    yield rule.id
    kind = every_kind().get(rule.kind)
    yield f"  kind      {rule.kind}" + (f": {plain(meaning(kind))}" if kind else "")
    yield f"  loggers   {', '.join(rule.loggers)}"
    yield f"  versions  {oldest} to {latest}, wordings: {len(rule.wordings)}"
    yield f"  file      {rule.path}"
    for title, text in (("Means", rule.means), ("Beware", rule.beware)):
        if text:
            yield from ("", title, *_wrapped(text))
    facts = facts_of(rule)
    if facts:
        yield from ("", "Facts")
        width = max(map(len, facts))
        for name, sources in facts.items():
            from_ = f" [{'; '.join(sources)}]" if sources else ""
            yield f"  {name:<{width}}  {MEANINGS[name]}{from_}"
    yield from ("", "Wordings")
    for wording in rule.wordings:
        yield from _wording(wording)
    refused = dict.fromkeys(line for wording in rule.wordings for line in wording.refuses)
    if refused:
        yield from ("", "Refuses")
        yield from (text for line in refused for text in _whole(line, "  "))


def _wording(wording: Wording) -> Iterator[str]:
    yield f"  {' to '.join(dict.fromkeys(span(wording.versions)))}"
    yield f"    match    {plain(wording.template.source)}"
    if wording.each:
        yield f"    for      {items_told(wording)}"
        yield f"             {plain(wording.each.template.source)}"
    for extra in wording.also:
        facts = ", ".join(f"{name} {_source(value)}" for name, value in extra.facts.items())
        yield f"    also     {extra.kind}: {facts}"
    if wording.restates in RETELLING:
        yield f"    time     {RETELLING[str(wording.restates)]}"
    for example in wording.examples:
        first, *rest = _whole(example.line, "             ")
        yield f"    example  {first.strip()}" + (f"  ({example.seen})" if example.seen else "")
        yield from rest
        yield from _given(example.gives)


def _given(gives: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in [gives] if isinstance(gives, Mapping) else gives:
        facts = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in one.items())
        yield f"      gives  {plain(' '.join(facts))}"


def _whole(text: str, indent: str) -> list[str]:
    return [indent + plain(line) for line in text.split("\n")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        plain(text), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _source(value: Any) -> str:
    """Say where a fact that `set` names comes from: another name, or a constant."""
    if isinstance(value, str) and value.startswith("{"):
        return f"the same as <{value[1:-1]}>"
    return f"always {value}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
