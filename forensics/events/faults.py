"""What can be wrong with one wording before any line is tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forensics.tables import FACTS

if TYPE_CHECKING:
    from forensics.events.rules import Wording

__all__ = ["MORE", "faults"]

# The lines of a record after its first one, as an `each` may name them.
MORE = "more"
_RESTATES = (None, "fresh", "replay", "always")
# Where an example comes from; without a word it was built from the text in Kafka's source.
_SEEN = (None, "recorded", "published")


def faults(wording: Wording) -> Iterator[str]:
    """Yield what is wrong with one wording, a sentence each."""
    yield from _of_names(wording)
    yield from _of_each(wording)
    if not wording.versions:
        yield "'versions' is empty; write the first and the last"
    if wording.restates not in _RESTATES:
        yield f"'restates' is {wording.restates!r}; it may be fresh, replay or always"
    for example in wording.examples:
        if example.seen not in _SEEN:
            yield f"'seen' is {example.seen!r}; it may be recorded or published, or be left out"


def _of_names(wording: Wording) -> Iterator[str]:
    known = set(FACTS.names)
    also = [name for extra in wording.also for name in extra.facts]
    for name in (*wording.settings, *also):
        if name not in known:
            yield f"there is no fact {name!r}; the facts are {', '.join(FACTS.names)}"
    sources = [value for extra in wording.also for value in extra.facts.values()]
    wanted = {str(v)[1:-1] for v in (*wording.settings.values(), *sources) if _is_name(v)}
    for name in sorted(wanted - set(wording.names)):
        yield f"'match' captures no {name!r}"
    if wording.each:
        wanted.add(wording.each.of)
    for name in wording.names:
        if name not in known and name not in wanted:
            yield f"{name!r} is captured for nothing; it is no fact: write {{:type}} instead"


def _of_each(wording: Wording) -> Iterator[str]:
    if wording.each is None:
        return
    if wording.each.of not in (*wording.template.fields, MORE):
        yield f"'each' is of {wording.each.of!r}, which 'match' does not capture"
    for name in {*wording.each.only} - {*wording.each.template.fields}:
        yield f"'only' names {name!r}, which the match of 'each' does not capture"
    for name in {*wording.each.template.fields} & {*wording.template.fields}:
        yield f"{name!r} is captured by 'match' and by the match of 'each'"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{") and value.endswith("}")
