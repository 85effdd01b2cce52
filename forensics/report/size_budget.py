"""How much of findings.json a page holds: all of it where there is room, else what says most."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.lib.text_safety import script_json

# Characters that the data may take as they are, and packed; a page has 6 MB, its library takes 2.
MAX_PLAIN_CHARS, MAX_PACKED_CHARS = 500_000, 350_000
# Characters of a quoted line, lines of a finding, items of any list of its: less and less.
LIMIT_STEPS = (
    (240, 40, 1000), (120, 40, 200), (60, 40, 50), (60, 10, 20), (0, 3, 5), (0, 1, 1),
)  # fmt: skip
QUOTE_LENGTHS = (2000, 1000, 480, 240, 120, 60)
Document = Mapping[str, Any]


@dataclass(frozen=True)
class FittedDocument:
    """The data of a page: to be read as it stands, and, where that is not all, the whole of it."""

    document: Document
    is_whole: bool
    packed: str | None = None


def fit_document(document: Document) -> FittedDocument:
    """Give what fits of a document; each cut is marked where it was made."""
    text = script_json(document)
    if len(text) <= MAX_PLAIN_CHARS:
        return FittedDocument(document, is_whole=True)
    small = document
    for step in LIMIT_STEPS:
        small = _smaller(document, *step)
        if len(script_json(small)) <= MAX_PLAIN_CHARS:
            break
    whole = gzip_base64(text)
    return FittedDocument(
        small, is_whole=False, packed=whole if len(whole) <= MAX_PACKED_CHARS else None
    )


def gzip_base64(text: str) -> str:
    """Pack a text so that a browser can unpack it, the same way on every machine."""
    # Wrapped by hand: the gzip module writes the time and, by version, the system into its header.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return base64.b64encode(packer.compress(text.encode()) + packer.flush()).decode("ascii")


def fit_quotes(texts: Iterable[str], room: int) -> int | None:
    """Say how many characters of each text fit into a room in all; None where all of them do.

    >>> fit_quotes(["x" * 100] * 3, 300), fit_quotes(["x" * 100] * 3, 200)
    (None, 60)
    """
    sizes = [len(text) for text in texts]
    if sum(sizes) <= room:
        return None
    fits = (most for most in QUOTE_LENGTHS if sum(min(size, most) for size in sizes) <= room)
    return next(fits, QUOTE_LENGTHS[-1])


def _smaller(document: Document, letters: int, lines: int, items: int) -> Document:
    found = [_cut(one, letters, lines, items) for one in document.get("findings") or ()]
    says = "Cut to fit this page; findings.json has all."
    return {**document, "findings": found, "cut": says}


def _cut(finding: Document, letters: int, lines: int, items: int) -> Document:
    """Cut a finding: quoted lines say how much is gone, and lists how long they were."""
    small: dict[str, Any] = {}
    left: dict[str, int] = {}
    for name, value in finding.items():
        if name == "evidence":
            small[name] = [_quoted(row, letters) for row in (value or ())[:lines]]
            most = lines
        elif isinstance(value, Mapping):
            small[name] = {key: _listed(one, items) for key, one in value.items()}
            long = {f"{name}.{key}": _more(one, items) for key, one in value.items()}
            left |= {key: more for key, more in long.items() if more}
            continue
        else:
            small[name], most = _listed(value, items), items
        if more := _more(value, most):
            left[name] = more
    return small | ({"cut": left} if left else {})


def _quoted(row: Document, letters: int) -> Document:
    text = str(row.get("text") or "")
    if len(text) <= letters:
        return row
    return {**row, "text": text[:letters], "more": len(text) - letters}


def _listed(value: object, items: int) -> object:
    return value[:items] if isinstance(value, list) else value


def _more(value: object, items: int) -> int:
    return (
        max(0, len(value) - items)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else 0
    )
