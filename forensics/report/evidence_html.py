"""Quoted log lines as HTML: the line, where it stands, and the lines around it that were saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.text_format import count
from forensics.report.html import Child, Markup, code, join, tag
from forensics.run_output.reader import Evidence, RunOutput

# Lines to either side, characters of each. With more quotes the page is large enough without them.
CONTEXT_LINES, MAX_CHARS, MAX_QUOTES = 5, 104, 200
LineKey = tuple[str, int]


class QuoteContext:
    """Where the quoted lines begin in their unpacked files, what those files are, what is around.

    Only lines that were read as facts are saved, so the context has gaps.
    """

    def __init__(self, run: RunOutput, quoted: Iterable[Evidence]) -> None:
        """Look up all lines that a section quotes in one go."""
        wanted = {(line.file, line.line) for line in quoted if line.line is not None}
        self._neighbours = _read_neighbours(run, wanted)
        self._offsets = _read_offsets(run, wanted)
        self._rules = set(run.document.get("rules") or ())
        self._digests = {row["file"]: row["sha256"] for row in run.files if row["sha256"]}

    def rule_link(self, evidence: Evidence) -> Child:
        """Link to what the page says of the rule that read a line."""
        if not evidence.rule:
            return None
        text = f"read by {evidence.rule}"
        has_entry = evidence.rule in self._rules
        return tag("a", text, href=f"#rule-{evidence.rule}") if has_entry else text

    def render_around(self, evidence: Evidence, first: int, last: int) -> Markup | None:
        """Quote the saved lines from `first` to `last`, counted from a line; gaps are shown."""
        if evidence.line is None:
            return None
        lines: list[str] = []
        for number in range(evidence.line + first, evidence.line + last + 1):
            text = self._neighbours.get((evidence.file, number))
            if text is not None:
                lines.append(f"{number}  {text[:MAX_CHARS]}{'…' if len(text) > MAX_CHARS else ''}")
            elif lines[-1:] != ["…"]:
                lines.append("…")
        return None if lines == ["…"] else tag("pre", "\n".join(lines), class_="near")

    def describe_position(self, evidence: Evidence) -> str:
        """Say where a line is, to the byte, and in which file by its digest."""
        offset = self._offsets.get((evidence.file, evidence.line))
        digest = self._digests.get(evidence.file)
        parts = [f"byte {offset:,}"] if offset is not None else []
        parts += [f"file SHA-256 {digest[:16]}…"] if digest else []
        return ", ".join(parts)


def _read_neighbours(run: RunOutput, wanted: Collection[LineKey]) -> Mapping[LineKey, str]:
    """Read what is saved of the lines near some lines."""
    if not wanted or len(wanted) > MAX_QUOTES or "text" not in run.tables.column_names("events"):
        return {}
    near = {
        (file, line + step)
        for file, line in wanted
        for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)
        if step and line + step > 0
    }
    texts: dict[LineKey, str] = {}
    is_near = ds.field("line").isin(sorted({line for _, line in near}))
    where = is_near & ds.field("text").is_valid()
    for chunk in run.chunks("events", ("file", "line", "text"), where):
        for row in chunk.to_pylist():
            key = row["file"], row["line"]
            if key in near and len(row["text"]) > len(texts.get(key, "")):
                texts[key] = row["text"]
    return texts


def _read_offsets(run: RunOutput, wanted: Collection[LineKey]) -> dict[tuple[str, Any], int]:
    offsets: dict[tuple[str, Any], int] = {}
    is_wanted = ds.field("line").isin(sorted({line for _, line in wanted}))
    # Settings have the offset of their record, which begins some lines above.
    is_wanted &= ~ds.field("kind").isin(["setting_seen", "client_setting_seen"])
    for chunk in run.chunks("events", ("file", "line", "offset"), is_wanted) if wanted else ():
        for row in chunk.filter(pc.is_valid(chunk["offset"])).to_pylist():
            if (row["file"], row["line"]) in wanted:
                offsets[row["file"], row["line"]] = row["offset"]
    return offsets


# What stands before the message of a line, and behind it.
LINE_HEAD = re.compile(
    r"[\[(]?\d[\d:.,TZ+/ -]{7,35}[\])]?\s*(?:\[[^\]]{1,80}\]\s*)?"
    r"(?:(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b:?\s*)?"
)
LINE_TAIL = re.compile(r"\s*\((?:[\w$-]+\.)*[\w$-]+\)\s*$")
MAX_MARKED = 170


def mark_line(line: Evidence, setting: str = "") -> Markup:
    """Show where a line stands, and the line, with its message marked; of a long one a part.

    Of a record of many lines about a setting, the line of that setting is shown.
    """
    rows = line.text.splitlines() or [""]
    row = next((one for one in rows if setting and setting in one), rows[0])
    head = LINE_HEAD.match(row)
    start = head.end() if head else 0
    tail = LINE_TAIL.search(row, start)
    end = tail.start() if tail else len(row)
    if setting and setting in row[start:end]:
        start = row.index(setting, start)
    message = row[start:end]
    cut = "\u2026" if len(message) > MAX_MARKED else ""
    place = f"{line.file}:{line.line}" if line.line is not None else line.file
    said = tag("span", row[:start], tag("mark", f"{message[:MAX_MARKED]}{cut}"), class_="said")
    return join([code(place), " ", said])


def parse_evidence(rows: Sequence[Mapping[str, Any]] | None) -> tuple[Evidence, ...]:
    """Read quoted lines as findings.json has them, each once."""
    lines = (
        Evidence(
            str(row.get("file") or ""),
            row.get("line"),
            str(row.get("text") or ""),
            str(row.get("rule") or "").partition("@")[0] or None,
        )
        for row in rows or ()
    )
    return tuple(dict.fromkeys(lines))


def render_quote(
    evidence: Evidence, context: QuoteContext, max_chars: int | None = None,
    pointer: str | None = None,
) -> Markup:  # fmt: skip
    """Render one quoted line, folded; of a line with more than `max_chars`, its beginning.

    `pointer` tells a script where the whole line stands in findings.json.
    """
    name = f"{evidence.file}:{evidence.line}" if evidence.line is not None else evidence.file
    left = len(evidence.text) - max_chars if max_chars is not None else 0
    cut = f"and {count(left, 'character')} more in findings.json" if left > 0 else None
    notes = (cut, context.describe_position(evidence) or None, context.rule_link(evidence))
    below = [note for note in notes if note]
    return tag(
        "details",
        tag("summary", code(name)),
        context.render_around(evidence, -CONTEXT_LINES, -1),
        tag("pre", evidence.text[:max_chars]) if evidence.text else None,
        context.render_around(evidence, 1, CONTEXT_LINES),
        tag("small", join(below, "; ")) if below else None,
        class_="chip",
        data_quote=pointer if cut else None,
    )
