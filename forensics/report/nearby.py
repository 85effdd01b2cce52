"""The lines around a quoted one, as far as they were read as facts: no others are saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow.dataset as ds

from forensics.report.saved import Proof, Saved

__all__ = ["around", "neighbours"]

# Lines to either side; quoted lines with more of which a page is large enough; letters of a line.
REACH, MOST, LETTERS = 5, 200, 160
Place = tuple[str, int]


def neighbours(saved: Saved, wanted: Collection[Place]) -> Mapping[Place, str]:
    """Read what is saved of the lines near some lines."""
    if not wanted or len(wanted) > MOST:
        return {}
    near = {
        (file, line + step)
        for file, line in wanted
        for step in range(-REACH, REACH + 1)
        if step and line + step > 0
    }
    found: dict[Place, str] = {}
    here = ds.field("line").isin(sorted({line for _, line in near})) & ds.field("text").is_valid()
    if "text" not in saved.columns("events"):
        return {}
    for part in saved.parts("events", ("file", "line", "text"), here):
        for row in part.to_pylist():
            place = (row["file"], row["line"])
            if place in near and len(row["text"]) > len(found.get(place, "")):
                found[place] = row["text"]
    return found


def around(known: Mapping[Place, str], proof: Proof) -> tuple[str, str]:
    """Give the lines before and after a quoted one, each with its number; gaps are seen."""
    if proof.line is None:
        return "", ""
    before = range(proof.line - REACH, proof.line)
    after = range(proof.line + 1, proof.line + REACH + 1)
    return _block(known, proof, before), _block(known, proof, after)


def _block(known: Mapping[Place, str], proof: Proof, numbers: range) -> str:
    lines: list[str] = []
    for number in numbers:
        text: Any = known.get((proof.file, number))
        if text is not None:
            cut = "…" if len(text) > LETTERS else ""
            lines.append(f"{number}  {text[:LETTERS]}{cut}")
        elif not lines or lines[-1] != "…":
            lines.append("…")
    return "" if lines == ["…"] else "\n".join(lines)
