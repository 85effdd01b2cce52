"""One line of one log, quoted: its place outside, its text inside.

The lines around a quoted one, as far as they were read as facts: no others are saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.formatting import count
from forensics.report.html import Child, Markup, code, join, tag
from forensics.run_output.reader import Evidence, RunOutput

# Lines to either side; quoted lines with more of which a page is large enough; letters of a line.
CONTEXT_LINES, MAX_QUOTES, MAX_CHARS = 5, 200, 160
LineKey = tuple[str, int]


def read_neighbours(run: RunOutput, wanted: Collection[LineKey]) -> Mapping[LineKey, str]:
    """Read what is saved of the lines near some lines."""
    if not wanted or len(wanted) > MAX_QUOTES:
        return {}
    near = {
        (file, line + step)
        for file, line in wanted
        for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)
        if step and line + step > 0
    }
    found: dict[LineKey, str] = {}
    here = ds.field("line").isin(sorted({line for _, line in near})) & ds.field("text").is_valid()
    if "text" not in run.column_names("events"):
        return {}
    for part in run.chunks("events", ("file", "line", "text"), here):
        for row in part.to_pylist():
            place = (row["file"], row["line"])
            if place in near and len(row["text"]) > len(found.get(place, "")):
                found[place] = row["text"]
    return found


def format_context(known: Mapping[LineKey, str], proof: Evidence) -> tuple[str, str]:
    """Give the lines before and after a quoted one, each with its number; gaps are seen."""
    if proof.line is None:
        return "", ""
    before = range(proof.line - CONTEXT_LINES, proof.line)
    after = range(proof.line + 1, proof.line + CONTEXT_LINES + 1)
    return _block(known, proof, before), _block(known, proof, after)


def _block(known: Mapping[LineKey, str], proof: Evidence, numbers: range) -> str:
    lines: list[str] = []
    for number in numbers:
        text: Any = known.get((proof.file, number))
        if text is not None:
            cut = "…" if len(text) > MAX_CHARS else ""
            lines.append(f"{number}  {text[:MAX_CHARS]}{cut}")
        elif not lines or lines[-1] != "…":
            lines.append("…")
    return "" if lines == ["…"] else "\n".join(lines)


class QuoteContext:
    """Where the quoted lines begin in their unpacked files, and what those files are."""

    def __init__(self, run: RunOutput, quoted: Iterable[Evidence]) -> None:
        """Look up all lines that a section quotes in one go."""
        wanted = {(one.file, one.line) for one in quoted if one.line is not None}
        self._near = read_neighbours(run, wanted)
        self._offsets = _offsets(run, wanted)
        self._rules = set(run.document.get("rules") or ())
        self._digests = {row["file"]: row["sha256"] for row in run.files if row["sha256"]}

    def rule_link(self, proof: Evidence) -> Child:
        """Lead to what the page says of the rule that read a line."""
        if not proof.rule:
            return None
        says = f"read by {proof.rule}"
        return tag("a", says, href=f"#rule-{proof.rule}") if proof.rule in self._rules else says

    def render_context(self, proof: Evidence) -> tuple[Markup | None, Markup | None]:
        """Quote the lines before and after one, as far as they are saved."""
        before, after = format_context(self._near, proof)
        return (
            tag("pre", before, class_="near") if before else None,
            tag("pre", after, class_="near") if after else None,
        )

    def describe_position(self, proof: Evidence) -> str:
        """Say where a line is, to the byte, and of which file by its digest."""
        offset = self._offsets.get((proof.file, proof.line))
        digest = self._digests.get(proof.file)
        words = [f"byte {offset:,}" if offset is not None else ""]
        words.append(f"file SHA-256 {digest[:16]}…" if digest else "")
        return ", ".join(word for word in words if word)


def _offsets(run: RunOutput, wanted: set[tuple[str, int]]) -> dict[tuple[str, Any], int]:
    if not wanted:
        return {}
    found: dict[tuple[str, Any], int] = {}
    here = ds.field("line").isin(sorted({line for _, line in wanted}))
    for part in run.chunks("events", ("file", "line", "offset"), here):
        for row in part.filter(pc.is_valid(part["offset"])).to_pylist():
            if (row["file"], row["line"]) in wanted:
                found[row["file"], row["line"]] = row["offset"]
    return found


def parse_proofs(rows: Sequence[Mapping[str, Any]] | None) -> tuple[Evidence, ...]:
    """Read quoted lines as findings.json has them, each once."""
    read = (
        Evidence(
            str(row.get("file") or ""),
            row.get("line"),
            str(row.get("text") or ""),
            str(row.get("rule") or "").partition("@")[0] or None,
        )
        for row in rows or ()
    )
    return tuple(dict.fromkeys(read))


def render_quote(
    proof: Evidence, places: QuoteContext, max_chars: int | None = None, quote: str | None = None
) -> Markup:
    """Set one quoted line, folded; of a line with more letters than `most`, its beginning.

    `quote` is where the whole line stands in findings.json, for a script to put it here.
    """
    place = f"{proof.file}:{proof.line}" if proof.line is not None else proof.file
    left = len(proof.text) - max_chars if max_chars is not None else 0
    cut = f"and {count(left, 'character')} more in findings.json" if left > 0 else None
    told: list[Child] = [
        part
        for part in (cut, places.describe_position(proof) or None, places.rule_link(proof))
        if part
    ]
    below = tag("small", join(told, "; ")) if told else None
    text = tag("pre", proof.text[:max_chars]) if proof.text else None
    before, after = places.render_context(proof)
    return tag(
        "details",
        tag("summary", code(place)),
        before,
        text,
        after,
        below,
        class_="chip",
        data_quote=quote if cut else None,
    )
