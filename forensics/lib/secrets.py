r"""Masks secrets as *** wherever text enters: a log may hold passwords, a postmortem never.

The patterns run in RE2 over whole columns, after one cheap probe: a log without secrets costs no
more than the probe.

>>> mask_text("login with password=hunter2, retrying")
'login with password=***, retrying'
>>> mask_text("ssl.key.password = [hidden], sasl.jaas.config = null")
'ssl.key.password = [hidden], sasl.jaas.config = null'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.lib.pattern_set import PatternSet
from forensics.lib.secret_patterns import MASK, PRIVATE_KEY, PROBE, STEPS
from forensics.lib.text_safety import escape_undecodable

_JOINTS = re.compile("([/!])")
# In such a text no pattern takes long, and both kinds of patterns mean the same.
_SHORT, _QUICK_PROBE = 256, re.compile(PROBE, re.ASCII)
_BLOCK = re.compile(f"({PRIVATE_KEY[0]}).*?(?={PRIVATE_KEY[1]}|\\Z)", re.DOTALL)
# The rest of a key whose first lines are missing.
_OPEN = re.compile(rf"\A(?:(?!{PRIVATE_KEY[0]}).)*?(?={PRIVATE_KEY[1]})", re.DOTALL)


def mask_column(texts: pa.Array, probes: PatternSet | None = None) -> pa.Array:
    """Mask the secrets of a column, of text or of bytes; a column without any stays as it is.

    `probes` are those of `list_probes`, as a set that is quicker for many texts.
    """
    suspect = _find_suspects(texts, probes)
    if not pc.any(suspect).as_py():
        return texts
    some = texts.filter(suspect)
    for probe, more, steps in STEPS:
        asked = pc.match_substring_regex(some, probe)
        if more:
            counts = [pc.count_substring_regex(some.filter(asked), one) for one in more]
            asked = pc.replace_with_mask(asked, asked, pc.greater(*counts))
        matching = some.filter(asked)
        for pattern, instead in steps if len(matching) else ():
            matching = pc.replace_substring_regex(matching, pattern, instead)
        some = pc.replace_with_mask(some, asked, matching)
    return pc.replace_with_mask(texts, suspect, some)


def list_probes() -> list[str]:
    """Return patterns, one of which every text with a secret has."""
    return [probe for probe, _, _ in STEPS]


def _find_suspects(texts: pa.Array, probes: PatternSet | None) -> pa.Array:
    found = probes.find(texts) if probes else None
    if found is None:
        return pc.fill_null(pc.match_substring_regex(texts, PROBE), False)
    suspect = np.zeros(len(texts), np.bool_)
    suspect[found[1]] = True
    return pa.array(suspect)


def mask_text(text: str) -> str:
    """Mask the secrets of one text; bytes that are no UTF-8 are written as their codes."""
    return escape_undecodable(_mask_each([text])[0])


def mask_lines(lines: Sequence[str]) -> list[str]:
    """Mask the secrets of lines that follow each other: a private key has many of them."""
    if not lines:
        return []
    whole = _BLOCK.sub(_mask_block, _OPEN.sub(_mask_block, "\n".join(lines)))
    return _mask_each(whole.split("\n")) if lines else []


class NameMasker:
    """Masks the secrets in names of files, part by part; two names stay two.

    >>> names = NameMasker()
    >>> names.mask("a/token=x.log"), names.mask("a/token=y.log")
    ('a/token=***', 'a/token=***#2')
    """

    def __init__(self) -> None:
        """Begin with no name."""
        self._shown: dict[str, str] = {}
        self._taken: Counter[str] = Counter()

    def mask(self, name: str) -> str:
        """Return the masked name."""
        return self.mask_all([name])[name]

    def mask_all(self, names: Iterable[str]) -> dict[str, str]:
        """Return all masked names by their names."""
        new = [name for name in dict.fromkeys(names) if name not in self._shown]
        split = [_JOINTS.split(name) for name in new]
        parts = list(dict.fromkeys(part for one in split for part in one))
        known = dict(zip(parts, _mask_each(parts), strict=True))
        for name, one in zip(new, split, strict=True):
            shown = escape_undecodable("".join(known[part] for part in one))
            self._taken[shown] += 1
            again = self._taken[shown]
            self._shown[name] = shown if again == 1 else f"{shown}#{again}"
        return self._shown


def _mask_each(texts: Sequence[str]) -> list[str]:
    masked = list(texts)
    rows = [row for row, text in enumerate(texts) if _may_hold_secrets(text)]
    if rows:
        # As bytes: a text may hold half a surrogate pair, which is no character to Arrow.
        some = [texts[row].encode("utf-8", "surrogatepass") for row in rows]
        found = mask_column(pa.array(some, pa.binary())).to_pylist()
        for row, one in zip(rows, found, strict=True):
            masked[row] = one.decode("utf-8", "surrogatepass")
    return masked


def _may_hold_secrets(text: str) -> bool:
    """Ask the probe about a short text: Arrow compiles it for each column, which takes longer."""
    if len(text) > _SHORT or not text.isascii() or not text.isprintable():
        return True
    return _QUICK_PROBE.search(text) is not None


def _mask_block(block: re.Match[str]) -> str:
    """Mask every line of a private key but its header."""
    head = block.group(1) if block.re is _BLOCK else ""
    lines = block.group()[len(head) :].split("\n")
    return head + "\n".join(MASK if line.strip() else line for line in lines)
