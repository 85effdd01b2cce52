r"""Templates of log text, `{name:type}`, compiled to RE2, which matches in linear time.

>>> compiled = compile_template("[Partition {:tp} broker={broker:int}] ISR is {isr:ints}")
>>> compiled.fields
('topic', 'partition', 'broker', 'isr')
>>> compiled.literals
('[Partition ', ' broker=', '] ISR is ')
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

# No type matches a line break unless it says so. None counts repetitions: RE2 unrolls counted ones,
# and long programs run ten times slower.
TYPES = {
    "text": r"[^\n]*?",
    "rest": r"(?s:.*)",
    "letters": r"[A-Za-z]+",
    "word": r"[^\s,()\[\]]+",
    "int": r"-?[0-9]+",
    "digit": r"[0-9]",
    "tens": r"[0-9][0-9]?",
    "hundreds": r"[0-9][0-9][0-9]+",
    # a second or more, with a fraction
    "seconds": r"[1-9][0-9]*[.,][0-9]+",
    "ints": r"(?:[A-Za-z]*[\[(])?[-0-9, ]*[\])]?",
    "maybe": r"(?:[A-Za-z.]+(?:[\[(]-?[0-9]+[\])])?|-?[0-9]+)",
    "spaces": r" +",
    # the seconds since a JVM began, and what one up to version 8 says of its collections
    "uptime": r"(?:[0-9]+[.,][0-9]+: )?",
    "collection": r"(?:\[|\{Heap|Total time for which |Application time: )(?s:.*)",
    # what stands before an indented line, where collectors trim it or put blanks for tabs
    "indent": r"(?:[^\n]*\t)?[ ]*",
    "logger": r"[\w.$-]+",
    # the source line after a logger (log4j's %L, which some templates print as it is)
    "place": r"(?::(?:[0-9]+|%L|\?))?",
    "topic": r"[a-zA-Z0-9._-]+",
    "folder": r"/[^\n\]]*?",
    # a host with its port, and what is said of it
    "peer": r"(?:[\w.-]+|\[[0-9a-fA-F:.%]+\]):[0-9]+(?:: [^\n]*)?",
    # also as Scala prints what may be missing: Some(...), None
    "id": r"(?:Some\()?[\w-]+\)?",
}
# Kafka joins topic and partition with a dash; topics may hold dashes, so the last one counts.
TOPIC_PARTITION = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)"

_PART = re.compile(r"\{(?P<name>\w*)(?::(?P<type>\w+))?\}")


class TemplateError(ValueError):
    """A template that cannot be compiled; the text says why."""


@dataclass(frozen=True)
class Template:
    """A compiled template: its pattern, the names it captures, its fixed texts."""

    source: str
    body: str
    fields: tuple[str, ...]
    literals: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """The pattern of the whole text; it may end with blanks."""
        return f"^{self.body}\\s*$"

    @cached_property
    def probe(self) -> str:
        r"""A cheap pattern that every matching text has: its two longest fixed texts, in order.

        >>> compile_template("[Broker id={:int}] Leader {} starts").probe
        '\\[Broker\\ id=.*\\]\\ Leader\\ '
        """
        ranked = sorted(range(len(self.literals)), key=lambda i: -len(self.literals[i]))
        return ".*".join(re.escape(self.literals[i]) for i in sorted(ranked[:2]))

    @cached_property
    def longest_literal(self) -> str:
        """The longest fixed text: a cheap check before the pattern."""
        return max(self.literals, key=len, default="")


def compile_template(source: str, types: dict[str, str] | None = None) -> Template:
    """Compile a template; `types` adds types, such as the time of a layout."""
    known = TYPES | (types or {})
    pieces: list[str] = []
    fields: list[str] = []
    literals: list[str] = []
    end = 0
    for part in _PART.finditer(source):
        literals.append(source[end : part.start()])
        pieces.append(re.escape(literals[-1]))
        pieces.append(_compile_part(part["name"], part["type"] or "text", known, fields))
        end = part.end()
    literals.append(source[end:])
    pieces.append(re.escape(literals[-1]))
    body = "".join(pieces)
    return Template(source, body, tuple(fields), tuple(text for text in literals if text))


def rewrite_template(source: str, spell: Callable[[str, str], str]) -> str:
    """Rewrite a template: `spell` returns the replacement of a part, given its name and type.

    >>> rewrite_template("[Broker id={broker:int}] {}", lambda name, kind: name or kind)
    '[Broker id=broker] text'
    """
    return _PART.sub(lambda part: spell(part["name"], part["type"] or "text"), source)


def _compile_part(name: str, kind: str, known: dict[str, str], fields: list[str]) -> str:
    if kind == "tp":
        taken = {"topic", "partition"} & set(fields)
        if taken:
            message = f"{{:tp}} captures {sorted(taken)} a second time; write {{}} for one of them"
            raise TemplateError(message)
        fields += ["topic", "partition"]
        return TOPIC_PARTITION
    if kind not in known:
        names = ", ".join(sorted({*known, "tp"}))
        message = f"there is no type {kind!r} (in {{{name}:{kind}}}); the types are {names}"
        raise TemplateError(message)
    if not name:
        return f"(?:{known[kind]})"
    if name in fields:
        message = f"the name {name!r} stands twice; write {{:{kind}}} for a part that is not kept"
        raise TemplateError(message)
    fields.append(name)
    return f"(?P<{name}>{known[kind]})"
