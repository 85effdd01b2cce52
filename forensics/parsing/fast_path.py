"""Parses the commonest shape of a line without a regex: level, message, logger at the end.

A regex with captures reads some tens of megabytes a second, splitting at fixed texts hundreds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_starts import MAX_RECORD
from forensics.lib.log_templates import TYPES
from forensics.parsing.layouts import Layout

_SHAPE = "{level:word} {message} ({logger:logger}"
_PLACE = TYPES["place"]
_SAMPLE = 16
# Longer than any line that is kept; without an end, Arrow cannot slice lines that are too short.
_FAR = 2 * MAX_RECORD
_NAMES = ("level", "message", "logger")


def can_split(layout: Layout) -> bool:
    """Return True if a layout has the shape: time, fixed text, level, message, logger."""
    before, found, _ = layout.template.source.partition(_SHAPE)
    return bool(found) and not layout.time.zoned and "{" not in before.partition("{time:time}")[2]


def split_lines(layout: Layout, lines: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Split lines; returns which of them have the shape, and the columns of those.

    The layout's pattern decides about all other lines.
    """
    fixed = layout.template.source.partition(_SHAPE)[0].partition("{time:time}")[2].encode()
    begin = layout.time_offset + len(layout.time.shape)
    head = pc.binary_slice(lines, begin, begin + len(fixed))
    rest = pc.split_pattern(
        pc.binary_slice(lines, begin + len(fixed), _FAR), pattern=" (", max_splits=1, reverse=True
    )
    fits = pc.and_(
        pc.equal(head, pa.scalar(fixed, pa.binary())), pc.equal(pc.list_value_length(rest), 2)
    )
    front, logger = (_part(rest, index, fits) for index in (0, 1))
    words = pc.split_pattern(front, pattern=" ", max_splits=1)
    whole = pc.and_(
        pc.match_substring_regex(logger, rf"^[\w.$-]+{_PLACE}\)$"),
        pc.equal(pc.fill_null(pc.list_value_length(words), 0), 2),
    )
    fits = pc.fill_null(pc.and_(fits, whole), False)
    level, message = (_part(words, index, fits).filter(fits) for index in (0, 1))
    named = pc.match_substring_regex(level, r"^[^\s,()\[\]]+$")
    if not pc.all(named).as_py():
        return pa.repeat(pa.scalar(False), len(lines)), {}
    names = pc.binary_slice(logger.filter(fits), 0, -1)
    if pc.any(pc.match_substring(names, ":")).as_py():
        names = pc.replace_substring_regex(names, _PLACE + "$", "")
    return fits, dict(zip(_NAMES, (level, message, names), strict=True))


def sort_by_fit(lines: pa.Array, layouts: list[Layout]) -> list[Layout]:
    """Sort layouts of one signature: first those that read most of a few sampled lines.

    No line is read by two of them, so the order only changes how long it takes.
    """
    if len(layouts) == 1:
        return layouts
    places = np.unique(np.linspace(0, len(lines) - 1, _SAMPLE).astype(np.int64))
    some = lines.take(pa.array(places))
    misses = {
        layout.id: pc.extract_regex(some, layout.template.pattern).null_count for layout in layouts
    }
    return sorted(layouts, key=lambda layout: (misses[layout.id], layout.id))


def extract_loggers(lines: pa.Array, layout: Layout) -> pa.Array:
    """Find the loggers of lines by the fixed texts around them; empty if there is none.

    In a line of another shape the text there is no logger, and no rule has such a logger.
    """
    if layout.logger:
        reads = pc.match_substring_regex(lines, layout.template.pattern)
        return pc.if_else(reads, pa.scalar(layout.logger.encode(), pa.binary()), b"")
    before, found, after = layout.template.source.partition("{logger:logger}")
    if not found:
        return pa.repeat(pa.scalar(b"", pa.binary()), len(lines))
    if before[-1:] == "}" and after.startswith(" {"):
        # Nothing but blanks stands around it, as around any word.
        fields = pc.extract_regex(lines, layout.template.pattern)
        return pc.fill_null(fields.field("logger"), b"")
    # The time may hold the same fixed texts; it has a known place.
    lines = pc.binary_slice(lines, layout.time_offset + len(layout.time.shape), _FAR)
    opening = before.rpartition("}")[2] or " "
    closing = after.removeprefix("{:spaces}").partition("{")[0] or " "
    # The message may hold anything, so lines are split on the other side of it.
    front = _side(lines, closing, 0, last="{message" in before)
    found = pc.replace_substring_regex(_side(front, opening, 1, last=True), r"\s+$", "")
    return pc.if_else(pc.match_substring_regex(found, r"^[\w.$-]+$"), found, b"")


def _side(lines: pa.Array, text: str, side: int, *, last: bool) -> pa.Array:
    """Split lines once, at the first or last occurrence of a text, and return one side."""
    parts = pc.split_pattern(lines, pattern=text, max_splits=1, reverse=last)
    return _part(parts, side, pc.equal(pc.list_value_length(parts), 2))


def _part(lists: pa.Array, index: int, fits: pa.Array) -> pa.Array:
    """Return one part of each split line; null if the line did not split."""
    empty = pa.scalar([b"", b""], pa.list_(pa.binary()))
    return pc.list_element(pc.if_else(pc.fill_null(fits, False), lists, empty), index)
