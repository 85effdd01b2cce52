"""Patterns for what stands between the parts of log lines, made from many examples of it.

What is the same in all examples is taken literally; what differs is taken by its class: digits, a
name, something in quotes or brackets, blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKENS = re.compile(
    r'(?P<quoted>"[^"\n]*")|(?P<square>\[[^\[\]\n]*\])|(?P<round>\([^()\n]*\))'
    r"|(?P<curly>\{[^{}\n]*\})|(?P<address>[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:[:-][0-9]+)?(?![\w.]))"
    r"|(?P<digits>[0-9]+(?![A-Za-z0-9_]))|(?P<name>[^\W_][\w.@/-]*)"
    r"|(?P<blank>[ \t]+)|(?P<other>[^\n])"
)
_CLASSES = {
    "quoted": r'"[^"\n]*"',
    "square": r"\[[^\[\]\n]*\]",
    "round": r"\([^()\n]*\)",
    "curly": r"\{[^{}\n]*\}",
    "address": r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+(?:[:-][0-9]+)?",
    "digits": "[0-9]+",
    "name": r"[^\W_][\w.@/-]*",
}
_SHOWN = {
    "quoted": '"..."',
    "square": "[...]",
    "round": "(...)",
    "curly": "{...}",
    "address": "ADDRESS",
    "digits": "N",
    "name": "NAME",
}
# Fewer examples of one form than this share of all, and the gap may be anything.
_AGREE = 0.95
# Names of many values count things; who writes has few names.
_FEW = 24
_NAMING = {"name", "square", "curly", "address"}


@dataclass(frozen=True)
class GapPart:
    """One part of a gap: its class, its pattern, and how it is shown to people."""

    kind: str
    pattern: str
    shown: str
    # Whether it may name who wrote the line.
    names: bool = False

    @property
    def varies(self) -> bool:
        """Whether it differs from line to line."""
        return self.pattern != re.escape(self.shown)


def gap_parts(examples: Sequence[str], *, all_fit: bool = False) -> tuple[GapPart, ...]:
    r"""Return the parts that fit (nearly) all examples of a gap; all of them if `all_fit`.

    >>> "".join(part.pattern for part in gap_parts([" 1: [", "12: ["]))
    '[ \\t]*[0-9]+:\\ \\['
    """
    if not examples:
        return ()
    if len(set(examples)) == 1:
        return tuple(_literal(*token) for token in gap_tokens(examples[0]))
    cut = [gap_tokens(example) for example in examples]
    forms = Counter(_form(one) for one in cut)
    form, count = max(forms.items(), key=lambda item: (item[1], item[0]))
    if count < _AGREE * len(examples):
        return _loose(examples)
    parts = tuple(_align([one for one in cut if _form(one) == form], len(form)))
    if all_fit and count < len(examples):
        either = (parts, _loose(examples))
        pattern = "|".join("".join(part.pattern for part in one) for one in either)
        return (GapPart("loose", f"(?:{pattern})", "".join(part.shown for part in parts)),)
    return parts


def _form(tokens: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Name the tokens without the blanks, which may pad any of them."""
    return tuple(text if kind == "other" else kind for kind, text in tokens if kind != "blank")


def _align(cut: Sequence[Sequence[tuple[str, str]]], size: int) -> Iterator[GapPart]:
    """Merge token lists of one form; between two tokens there may be blanks."""
    blanks: list[list[str]] = [[] for _ in range(size + 1)]
    tokens: list[list[tuple[str, str]]] = [[] for _ in range(size)]
    for one in cut:
        at, blank = 0, ""
        for kind, text in one:
            if kind == "blank":
                blank = text
                continue
            blanks[at].append(blank)
            tokens[at].append((kind, text))
            at, blank = at + 1, ""
        blanks[at].append(blank)
    for at in range(size + 1):
        if set(blanks[at]) != {""}:
            same = len(set(blanks[at])) == 1
            pattern = re.escape(blanks[at][0]) if same else r"[ \t]*"
            yield GapPart("blank", pattern, blanks[at][0] if same else " ")
        if at < size:
            yield _merge(tokens[at])


def gap_form(text: str) -> tuple[str, ...]:
    """Return the classes of what stands in a gap, without the blanks."""
    return _form(gap_tokens(text))


def gap_tokens(text: str) -> list[tuple[str, str]]:
    """Cut a text into tokens: the class of each, and what it holds."""
    return [(match.lastgroup or "other", match[0]) for match in _TOKENS.finditer(text)]


def _literal(kind: str, text: str) -> GapPart:
    return GapPart(kind, re.escape(text), text, kind in _NAMING)


def _merge(tokens: Sequence[tuple[str, str]]) -> GapPart:
    kind = tokens[0][0]
    texts = {text for _, text in tokens}
    if len(texts) == 1:
        return _literal(*tokens[0])
    few = len(texts) <= _FEW
    return GapPart(kind, _CLASSES[kind], _SHOWN[kind], few and kind in _NAMING)


def _loose(examples: Sequence[str]) -> tuple[GapPart, ...]:
    """Keep what all examples begin and end with; anything may stand between."""
    front = common_prefix(examples)
    back = common_prefix([example[len(front) :][::-1] for example in examples])[::-1]
    few = len(set(examples)) <= _FEW
    parts = [GapPart("other", re.escape(front), front)] if front else []
    parts.append(GapPart("loose", r"[^\n]*?", "...", few))
    if back:
        parts.append(GapPart("other", re.escape(back), back))
    return tuple(parts)


def common_prefix(texts: Sequence[str]) -> str:
    """Return what all texts begin with.

    >>> common_prefix(["] INFO", "] WARN"])
    '] '
    """
    first, last = min(texts, default=""), max(texts, default="")
    size = 0
    while size < min(len(first), len(last)) and first[size] == last[size]:
        size += 1
    return first[:size]
