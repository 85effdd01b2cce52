"""Turns the records that passed the sieve into entries: time, level, logger, message."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.cutting import Cut
from forensics.archives.starts import Places, Signature
from forensics.entries.layouts import Layout
from forensics.entries.sieve import texts
from forensics.entries.times import NO_TIME

__all__ = ["ENTRIES", "grouped", "layout_of", "parse", "signatures", "times"]

ENTRIES = pa.schema(
    [
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("level", pa.binary()),
        ("logger", pa.binary()),
        ("message", pa.binary()),
        ("client", pa.binary()),
        ("text", pa.binary()),
    ]
)
# As much of a line as is kept as evidence.
TEXT_KEPT = 2000


def grouped(layouts: tuple[Layout, ...]) -> list[list[Layout]]:
    """Group layouts that begin alike: the start of a line cannot tell them apart."""
    groups: dict[Signature, list[Layout]] = {}
    for layout in layouts:
        groups.setdefault(layout.signature, []).append(layout)
    return list(groups.values())


def signatures(groups: list[list[Layout]]) -> list[Signature]:
    """Give the one signature of each group."""
    return [group[0].signature for group in groups]


def times(cut: Cut, rows: Places, groups: list[list[Layout]]) -> np.typing.NDArray[np.int64]:
    """Read the times of some records, in microseconds of UTC as logged."""
    found = np.full(len(rows), NO_TIME, np.int64)
    kinds = cut.kinds[rows]
    for kind, layouts in enumerate(groups, 1):
        mine = np.flatnonzero(kinds == kind)
        if len(mine):
            places = cut.starts[rows[mine]] + layouts[0].time_at
            found[mine] = layouts[0].time.read(cut.data, places)
    return found


def parse(cut: Cut, rows: Places, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Parse some records of a cut; those that no layout fits entirely are left out."""
    parts = []
    for kind, layouts in enumerate(groups, 1):
        mine = rows[cut.kinds[rows] == kind]
        for layout in layouts:
            if not len(mine):
                break
            lines = texts(cut, mine)
            fields = pc.extract_regex(lines, layout.template.pattern)
            fits = fields.is_valid().to_numpy(zero_copy_only=False)
            if fits.any():
                chosen = mine[fits]
                moments = times(cut, chosen, groups)
                parts.append(_entries(cut, chosen, layout, fields.filter(fits), moments))
            mine = mine[~fits]
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=ENTRIES)
    return pa.concat_batches(parts) if len(parts) > 1 else parts[0]


def layout_of(cut: Cut, row: int, layouts: list[Layout]) -> str | None:
    """Name the layout that reads one record, among those that begin alike."""
    line = texts(cut, np.array([row], np.int64))
    for layout in layouts:
        if pc.extract_regex(line, layout.template.pattern).null_count == 0:
            return layout.id
    # A message of several lines has its end further down: the beginning has to do.
    return layouts[0].id


def _entries(
    cut: Cut,
    rows: Places,
    layout: Layout,
    fields: pa.StructArray,
    moments: np.typing.NDArray[np.int64],
) -> pa.RecordBatch:
    nothing = pa.nulls(len(rows), pa.binary())
    names = [field.name for field in fields.type]

    def column(name: str) -> pa.Array:
        return fields.field(name) if name in names else nothing

    logger = column("logger")
    if layout.logger:
        logger = pa.repeat(pa.scalar(layout.logger.encode(), pa.binary()), len(rows))
    else:
        logger = pc.replace_substring_regex(logger, r"^.*\.", "")
    lines = texts(cut, rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(cut.lines[rows]),
            pa.array(cut.starts[rows] + cut.offset),
            pa.array(moments, mask=moments == NO_TIME),
            column("level"),
            logger,
            column("message"),
            column("client"),
            pc.binary_slice(lines, 0, TEXT_KEPT),
        ],
        schema=ENTRIES,
    )
