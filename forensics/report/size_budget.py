"""Fit findings.json into a page: all of it where there is room, else the parts that say most."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from forensics.lib.text_safety import script_json

# Characters that the data may take as they are, and packed; a page has 6 MB, its library takes 2.
MAX_PLAIN_CHARS, MAX_PACKED_CHARS = 500_000, 350_000
# Characters of a quoted line, lines of a finding, items of any list of its: less and less.
LIMIT_STEPS = (
    (240, 40, 1000), (120, 40, 200), (60, 40, 50), (60, 10, 20), (0, 3, 5), (0, 1, 1),
)  # fmt: skip
_PORTION = 1 << 20
QUOTE_LENGTHS = (2000, 1000, 480, 240, 120, 60)
Document = Mapping[str, Any]


@dataclass(frozen=True)
class FittedDocument:
    """The data of a page: to be read as it stands, and, where that is not all, the whole of it."""

    document: Document
    is_whole: bool
    packed: str | None = None


def fit_document(document: Document) -> FittedDocument:
    """Return what fits of a document; each cut is marked where it was made."""
    if _is_within(document, MAX_PLAIN_CHARS):
        return FittedDocument(document, is_whole=True)
    small = document
    for limits in LIMIT_STEPS:
        small = _cut_document(document, *limits)
        if is_within := _is_within(small, MAX_PLAIN_CHARS):
            break
    findings = small.get("findings") or ()
    if not is_within and findings:
        # The worst findings stand first.
        size = sum(map(len, _write(small)))
        kept = max(1, len(findings) * MAX_PLAIN_CHARS // size)
        small = {**small, "findings": findings[:kept], "findings_left_out": len(findings) - kept}
    return FittedDocument(small, is_whole=False, packed=_pack(_write(document), MAX_PACKED_CHARS))


def gzip_base64(text: str) -> str:
    """Pack a text so that a browser can unpack it, the same way on every machine."""
    return _pack([text]) or ""


def _write(document: Document) -> Iterator[str]:
    """Write what `script_json` does, one finding after the other.

    Of a hundred megabytes most pages hold half of one, and the rest need not be written.
    """
    between = "{"
    for name, value in document.items():
        yield f"{between}{script_json(name)}:"
        between = ","
        if name == "findings" and isinstance(value, list) and value:
            for number, finding in enumerate(value):
                yield f"{',' if number else '['}{script_json(finding)}"
            yield "]"
        else:
            yield script_json(value)
    yield "}" if document else "{}"


def _is_within(document: Document, most: int) -> bool:
    return all(size <= most for size in accumulate(map(len, _write(document))))


def _pack(texts: Iterable[str], most: float = math.inf) -> str | None:
    """Pack texts into at most so many characters; None as soon as it is more."""
    # Not by the gzip module: it writes the time and, by version, the system into its header.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bytearray()
    for portion in _portions(texts):
        packed += packer.compress(portion.encode())
        if len(packed) * 4 / 3 > most:
            return None
    found = base64.b64encode(packed + packer.flush()).decode("ascii")
    return found if len(found) <= most else None


def _portions(texts: Iterable[str]) -> Iterator[str]:
    held = ""
    for text in texts:
        held += text
        while len(held) >= _PORTION:
            yield held[:_PORTION]
            held = held[_PORTION:]
    yield held


def fit_quotes(texts: Iterable[str], room: int) -> int | None:
    """Return how many characters of each text fit into a room in all; None where all of them do.

    >>> fit_quotes(["x" * 100] * 3, 300), fit_quotes(["x" * 100] * 3, 200)
    (None, 60)
    """
    sizes = [len(text) for text in texts]
    if sum(sizes) <= room:
        return None
    fits = (limit for limit in QUOTE_LENGTHS if sum(min(size, limit) for size in sizes) <= room)
    return next(fits, QUOTE_LENGTHS[-1])


def _cut_document(document: Document, max_chars: int, max_lines: int, max_items: int) -> Document:
    findings = [_cut_finding(finding, max_chars, max_lines, max_items)
                for finding in document.get("findings") or ()]  # fmt: skip
    note = "Cut to fit this page; findings.json has all."
    return {**document, "findings": findings, "cut": note}


def _cut_finding(finding: Document, max_chars: int, max_lines: int, max_items: int) -> Document:
    """Cut a finding: quoted lines say how much is gone, and lists how long they were."""
    small: dict[str, Any] = {}
    left_out: dict[str, int] = {}
    for name, value in finding.items():
        if isinstance(value, Mapping):
            small[name] = {key: _cut_list(one, max_items) for key, one in value.items()}
            parts = {f"{name}.{key}": _count_beyond(one, max_items) for key, one in value.items()}
        elif name == "evidence":
            small[name] = [_cut_quote(row, max_chars) for row in (value or ())[:max_lines]]
            parts = {name: _count_beyond(value, max_lines)}
        else:
            small[name] = _cut_list(value, max_items)
            parts = {name: _count_beyond(value, max_items)}
        left_out |= {key: number for key, number in parts.items() if number}
    return small | ({"cut": left_out} if left_out else {})


def _cut_quote(row: Document, max_chars: int) -> Document:
    text = str(row.get("text") or "")
    left = len(text) - max_chars
    return {**row, "text": text[:max_chars], "more": left} if left > 0 else row


def _cut_list(value: object, max_items: int) -> object:
    return value[:max_items] if isinstance(value, list) else value


def _count_beyond(value: object, max_items: int) -> int:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return 0
    return max(0, len(value) - max_items)
