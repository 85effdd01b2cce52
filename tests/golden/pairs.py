"""Reads golden pairs: a title, what is given, a line `=>`, what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Pair", "pairs"]


@dataclass(frozen=True)
class Pair:
    """One golden pair, in lines."""

    title: str
    given: tuple[str, ...]
    expected: tuple[str, ...]


def pairs(name: str) -> list[Pair]:
    """Read the pairs of one file of this folder; the text before the first title is for readers."""
    path = Path(__file__).with_name(name)
    found = list(_pairs(path.read_text(encoding="utf-8")))
    assert found, f"{name} holds no pair"
    assert len({pair.title for pair in found}) == len(found), f"{name} has a title twice"
    return found


def _pairs(text: str) -> Iterator[Pair]:
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip()]
        if not lines or not lines[0].startswith("# "):
            continue
        middle = lines.index("=>")
        yield Pair(lines[0][2:], tuple(lines[1:middle]), tuple(lines[middle + 1 :]))
