"""Puts pseudonyms in the place of names, wherever in a text these stand: in one pass.

A name begins where a run of letters begins and ends where one ends, and the longest one counts. A
name that is a word of Kafka's own is only taken where something around it says that it is a name:
`topic broker`, `[Partition broker-1`, `clientId=producer`.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from forensics.redaction.name_patterns import is_word, replace_addresses
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
# How far one looks back.
_NEAR = 24
# Tables cut what they quote, to no less than this.
_CUT, _LONG = 230, 300
# So many sets of words are looked for by a pattern of their own.
_PATTERNS = 2000
_TAIL = re.compile(r"(?<![\w.-])[\w.-]+$")


@dataclass(frozen=True)
class _Name:
    """A name as it is written, and what is written instead."""

    text: str
    kind: str
    instead: str
    # only where something around it says so
    shy: bool


class _Alike:
    """Names that begin alike, however many: found by their lengths, the longest first."""

    def __init__(self) -> None:
        self._names: dict[str, list[_Name]] = {}
        self._lengths: list[int] = []

    def add(self, name: _Name) -> None:
        self._names.setdefault(name.text.lower(), []).append(name)
        self._lengths = sorted({*self._lengths, len(name.text)}, reverse=True)

    def all(self) -> Iterator[_Name]:
        return (name for alike in self._names.values() for name in alike)

    def at(self, text: str, begin: int) -> Iterator[_Name]:
        """Give the names that stand in a text at a place."""
        for length in self._lengths:
            for name in self._names.get(text[begin : begin + length].lower(), ()):
                if _stands(name, text, begin):
                    yield name


class Replacer:
    """Knows all names of a run, and writes texts without them."""

    def __init__(
        self,
        names: Mapping[str, Iterable[str]],
        pseudonyms: Pseudonyms,
        partitions: Collection[tuple[str, int]] = (),
    ) -> None:
        """Take the names of the classes that are to go; `ips` among them asks for addresses."""
        self._pseudonyms = pseudonyms
        self._addresses = "ips" in names
        self._partitions = frozenset(partitions)
        self._exact = {kind: dict.fromkeys(every, "") for kind, every in names.items()}
        # By how they begin: by a run of letters, or by a mark that is none.
        self._by_run: dict[str, _Alike] = {}
        self._by_mark: dict[str, _Alike] = {}
        for kind in sorted(names):
            for name in sorted(names[kind]):
                self._add(kind, name)
        self._patterns: dict[frozenset[str], re.Pattern[str]] = {}
        self._sorted = sorted(
            one.text for known in self._by_run.values() for one in known.all() if not one.shy
        )
        marks = "".join(map(re.escape, self._by_mark))
        self._begins = re.compile(rf"[^\W_]+|[{marks}]") if marks else _RUN

    def knows(self, kind: str, name: str) -> bool:
        """Whether a name is one of a class that is to go."""
        return name in self._exact.get(kind, ())

    def pseudonym_of(self, kind: str, name: str) -> str:
        """Give what stands for a name in a column of its own."""
        return self._pseudonyms.get(kind, name) if name else name

    def replace_addresses(self, text: str) -> str:
        """Write a text without addresses, where these are to go."""
        if not self._addresses:
            return text
        return replace_addresses(text, lambda one: self._pseudonyms.get("ips", one))

    def replace(self, text: str, own: Collection[str] = ()) -> str:
        """Write a text without names; those in `own` are taken wherever they stand."""
        text = self.replace_addresses(text)
        parts: list[str] = []
        done = 0
        begins = self._beginnings(text)
        for run in begins.finditer(text) if begins else ():
            begin = run.start()
            if begin < done:
                continue
            mark = run[0]
            known = self._by_run.get(mark.lower()) or self._by_mark.get(mark)
            for name in known.at(text, begin) if known else ():
                if name.shy and name.text not in own and not self._meant(name, text, begin):
                    continue
                parts += (text[done:begin], name.instead)
                done = begin + len(name.text)
                break
        return "".join((*parts, self._torn(text, done))) if parts else self._torn(text, 0)

    def _beginnings(self, text: str) -> re.Pattern[str] | None:
        """Give what finds where names may begin; most of a text is other words."""
        if self._by_mark:
            return self._begins
        hits = frozenset(run for run in _RUN.findall(text) if run.lower() in self._by_run)
        if not hits:
            return None
        if hits not in self._patterns:
            if len(self._patterns) > _PATTERNS:
                self._patterns.clear()
            words = "|".join(map(re.escape, sorted(hits, key=len, reverse=True)))
            self._patterns[hits] = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])")
        return self._patterns[hits]

    def _torn(self, text: str, done: int) -> str:
        """Give the rest of a text; where it was cut off, half a name may be its end."""
        if len(text) - done > 0 and len(text.encode("utf-8", "replace")) >= _CUT:
            tail = _TAIL.search(text, max(done, len(text) - _LONG))
            if tail and self._begins_name(tail[0]):
                return f"{text[done : tail.start()]}…"
        return text[done:]

    def _begins_name(self, tail: str) -> bool:
        at = bisect.bisect_left(self._sorted, tail)
        return at < len(self._sorted) and self._sorted[at].startswith(tail)

    def _add(self, kind: str, name: str) -> None:
        if not name.strip() or kind == "ips" or self._pseudonyms.is_pseudonym(name):
            return
        instead = self._pseudonyms.get(kind, name)
        shy = is_word(name)
        # As JSON, as URLs and as Kafka's own names of metrics write it.
        forms = {name, json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]}
        forms |= {write(name.encode("utf-8", "surrogatepass")) for write in (quote, quote_plus)}
        for form in sorted(forms):
            first = _RUN.match(form)
            known = self._by_run if first else self._by_mark
            key = first[0].lower() if first else form[0]
            known.setdefault(key, _Alike()).add(_Name(form, kind, instead, shy))

    def _meant(self, name: _Name, text: str, begin: int) -> bool:
        """Whether what stands around a word says that it is a name."""
        end = begin + len(name.text)
        before = text[max(0, begin - _NEAR) : begin]
        if before[-1:] in _QUOTES and text[end : end + 1] in _QUOTES:
            return True
        if name.kind == "topics":
            number = _NUMBER.match(text, end)
            if number and (name.text, int(number[1][:9])) in self._partitions:
                return True
        if name.kind == "hosts" and _AFTER_HOST.match(text, end):
            return True
        told = _BEFORE.get(name.kind)
        return told is not None and told.search(before) is not None


def _stands(name: _Name, text: str, begin: int) -> bool:
    end = begin + len(name.text)
    if name.kind == "hosts":
        if text[begin:end].lower() != name.text.lower():
            return False
    elif not text.startswith(name.text, begin):
        return False
    # A name that ends with a letter ends where letters end.
    return not (end < len(text) and _INSIDE.match(name.text[-1]) and _INSIDE.match(text[end]))
