"""Replaces names by pseudonyms wherever a text contains them, in one pass.

A name starts where a run of letters starts and ends where one ends; the longest name wins. A name
that is also a word of Kafka is replaced only if its context says that it is a name:
`topic broker`, `[Partition broker-1`, `clientId=producer`.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, quote_plus

from forensics.redaction.name_patterns import is_kafka_word, replace_addresses
from forensics.redaction.pseudonyms import Pseudonyms

_RUN = re.compile(r"[^\W_]+")
_INSIDE = re.compile(r"[^\W_]")
_NUMBER = re.compile(r"-(\d+)(?![\w-])")
_QUOTES = frozenset("'\"`")
_ID = r"""(?:[._ ]?(?:id|name))?['"]?[ =:]{1,3}['"\[({]{0,2}"""
_BEFORE = {
    "topics": re.compile(rf"(?i)\btopics?{_ID}$|topic with name $"),
    "clients": re.compile(
        rf"(?i)(?:client|group|member|transactional|application|instance){_ID}$"
        rf"|\b(?:consumer|producer) ['\"]?$|thread \| $"
    ),
    "hosts": re.compile(rf"(?i)://$|host{_ID}$|unknownhost\w*: $"),
    "principals": re.compile(rf"(?i)\b[a-z]+:$|(?:user|principal){_ID}$"),
}
_AFTER_HOST = re.compile(r":\d{2,5}\b|/\d|/<")
# How far to look back for a hint.
_CONTEXT = 24
# Tables cut long quotes, to no less than this; no name in them is longer.
_MIN_CUT_BYTES, _MAX_TAIL = 230, 300
_MAX_PATTERNS = 2000
_TAIL = re.compile(r"(?<![\w.-])[\w.-]+$")


@dataclass(frozen=True)
class _Name:
    """A name in one of its spellings, and its pseudonym."""

    text: str
    kind: str
    pseudonym: str
    # a name that is also a word: replaced only if the context says that it is a name
    is_word: bool


class _NamesByLength:
    """Names with the same start, looked up by their lengths, the longest first."""

    def __init__(self) -> None:
        self._names: dict[str, list[_Name]] = {}
        self._lengths: list[int] = []

    def add(self, name: _Name) -> None:
        self._names.setdefault(name.text.lower(), []).append(name)
        self._lengths = sorted({*self._lengths, len(name.text)}, reverse=True)

    def all(self) -> Iterator[_Name]:
        return (name for names in self._names.values() for name in names)

    def at(self, text: str, begin: int) -> Iterator[_Name]:
        """Yield the names that start at a position of a text."""
        for length in self._lengths:
            for name in self._names.get(text[begin : begin + length].lower(), ()):
                if _matches(name, text, begin):
                    yield name


class Replacer:
    """Replaces all names of a run in texts."""

    def __init__(
        self,
        names: Mapping[str, Iterable[str]],
        pseudonyms: Pseudonyms,
        partitions: Collection[tuple[str, int]] = (),
    ) -> None:
        """Replace the names of some classes; the class `ips` means all addresses."""
        self._pseudonyms = pseudonyms
        self._replaces_addresses = "ips" in names
        self._partitions = frozenset(partitions)
        self._known = {kind: frozenset(known) for kind, known in names.items()}
        # By their start: the first run of letters, or the first character that is not a letter.
        self._by_run: dict[str, _NamesByLength] = {}
        self._by_mark: dict[str, _NamesByLength] = {}
        for kind in sorted(names):
            for name in sorted(names[kind]):
                self._add(kind, name)
        self._patterns: dict[frozenset[str], re.Pattern[str]] = {}
        self._sorted = sorted(
            name.text for names in self._by_run.values() for name in names.all() if not name.is_word
        )
        marks = "".join(map(re.escape, self._by_mark))
        self._starts = re.compile(rf"[^\W_]+|[{marks}]") if marks else _RUN

    def knows(self, kind: str, name: str) -> bool:
        """Return True if a name of a class is to be replaced."""
        return name in self._known.get(kind, ())

    def pseudonym_of(self, kind: str, name: str) -> str:
        """Return the pseudonym of a value that is a name."""
        return self._pseudonyms.get(kind, name) if name else name

    def replace_addresses(self, text: str) -> str:
        """Replace the addresses in a text, if asked for."""
        if not self._replaces_addresses:
            return text
        return replace_addresses(text, partial(self._pseudonyms.get, "ips"))

    def replace(self, text: str, own: Collection[str] = ()) -> str:
        """Replace the names in a text; those in `own` without regard to the context."""
        text = self.replace_addresses(text)
        parts: list[str] = []
        done = 0
        starts = self._pattern_of_starts(text)
        for match in starts.finditer(text) if starts else ():
            begin = match.start()
            if begin < done:
                continue
            known = self._by_run.get(match[0].lower()) or self._by_mark.get(match[0])
            for name in known.at(text, begin) if known else ():
                if not name.is_word or name.text in own or self._is_meant(name, text, begin):
                    parts += (text[done:begin], name.pseudonym)
                    done = begin + len(name.text)
                    break
        return "".join((*parts, self._rest(text, done)))

    def _pattern_of_starts(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern of where names may start; most of a text is other words."""
        if self._by_mark:
            return self._starts
        hits = frozenset(run for run in _RUN.findall(text) if run.lower() in self._by_run)
        if not hits:
            return None
        if hits not in self._patterns:
            if len(self._patterns) > _MAX_PATTERNS:
                self._patterns.clear()
            words = "|".join(map(re.escape, sorted(hits, key=len, reverse=True)))
            self._patterns[hits] = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])")
        return self._patterns[hits]

    def _rest(self, text: str, done: int) -> str:
        """Return the rest of a text; if it was cut, drop what may be the start of a name."""
        if len(text) > done and len(text.encode("utf-8", "replace")) >= _MIN_CUT_BYTES:
            tail = _TAIL.search(text, max(done, len(text) - _MAX_TAIL))
            if tail and self._starts_name(tail[0]):
                return f"{text[done : tail.start()]}…"
        return text[done:]

    def _starts_name(self, tail: str) -> bool:
        index = bisect.bisect_left(self._sorted, tail)
        return index < len(self._sorted) and self._sorted[index].startswith(tail)

    def _add(self, kind: str, name: str) -> None:
        if not name.strip() or kind == "ips" or self._pseudonyms.is_pseudonym(name):
            return
        pseudonym, word = self._pseudonyms.get(kind, name), is_kafka_word(name)
        # The spellings in JSON, in URLs and in names of Kafka's metrics.
        spellings = {name, json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]}
        encoded = name.encode("utf-8", "surrogatepass")
        for spelling in sorted({*spellings, quote(encoded), quote_plus(encoded)}):
            first = _RUN.match(spelling)
            by_start = self._by_run if first else self._by_mark
            start = first[0].lower() if first else spelling[0]
            names = by_start.setdefault(start, _NamesByLength())
            names.add(_Name(spelling, kind, pseudonym, word))

    def _is_meant(self, name: _Name, text: str, begin: int) -> bool:
        """Return True if the context of a word says that it is a name."""
        end = begin + len(name.text)
        before = text[max(0, begin - _CONTEXT) : begin]
        if before[-1:] in _QUOTES and text[end : end + 1] in _QUOTES:
            return True
        if name.kind == "topics":
            number = _NUMBER.match(text, end)
            if number and (name.text, int(number[1][:9])) in self._partitions:
                return True
        if name.kind == "hosts" and _AFTER_HOST.match(text, end):
            return True
        hint = _BEFORE.get(name.kind)
        return hint is not None and hint.search(before) is not None


def _matches(name: _Name, text: str, begin: int) -> bool:
    end = begin + len(name.text)
    found = text[begin:end]
    if found != name.text and not (name.kind == "hosts" and found.lower() == name.text.lower()):
        return False
    # A name that ends with a letter must end where a run of letters ends.
    return not (end < len(text) and _INSIDE.match(name.text[-1]) and _INSIDE.match(text[end]))
