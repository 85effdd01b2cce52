"""Turns the records that passed the sieve into entries: time, level, logger, message."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Offsets, Signature
from forensics.parsing.fast_path import can_split, sort_by_fit, split_lines
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import first_lines, later_lines
from forensics.parsing.timestamps import NO_TIME

# Records as they stand in the log; `kind` is the number of the signature they begin with.
EXTRACTED = pa.schema(
    [
        ("kind", pa.uint8()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("text", pa.binary()),
        ("more", pa.binary()),
    ]
)
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
        # the lines of the record after its first one
        ("more", pa.binary()),
    ]
)
# As much of a line as is kept as evidence.
MAX_TEXT_BYTES = 2000


def group_layouts(layouts: tuple[Layout, ...]) -> list[list[Layout]]:
    """Group layouts that begin alike: the start of a line cannot tell them apart."""
    groups: dict[Signature, list[Layout]] = {}
    for layout in layouts:
        groups.setdefault(layout.signature, []).append(layout)
    return list(groups.values())


def group_signatures(groups: list[list[Layout]]) -> list[Signature]:
    """Give the one signature of each group."""
    return [group[0].signature for group in groups]


def read_times(
    cut: Records, rows: Offsets, groups: list[list[Layout]]
) -> np.typing.NDArray[np.int64]:
    """Read the times of some records, in microseconds of UTC as logged."""
    found = np.full(len(rows), NO_TIME, np.int64)
    kinds = cut.kinds[rows]
    for kind, layouts in enumerate(groups, 1):
        mine = np.flatnonzero(kinds == kind)
        if len(mine):
            places = cut.starts[rows[mine]] + layouts[0].time_offset
            found[mine] = layouts[0].time.read(cut.data, places)
    return found


def extract_records(cut: Records, rows: Offsets, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Lift some records out of a cut, so that many can be read at once: a pattern has a price."""
    moments = read_times(cut, rows, groups)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(cut.kinds[rows]),
            pa.array(cut.lines[rows]),
            pa.array(cut.offsets[rows]),
            pa.array(moments, mask=moments == NO_TIME),
            first_lines(cut, rows),
            later_lines(cut, rows),
        ],
        schema=EXTRACTED,
    )


def parse_records(cut: Records, rows: Offsets, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Lift and read some records of a cut."""
    return parse_extracted(extract_records(cut, rows, groups), groups)


def parse_extracted(lifted: pa.RecordBatch, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Read lifted records as entries; those that no layout fits entirely are left out."""
    parts = []
    for kind, layouts in enumerate(groups, 1):
        mine = lifted.filter(pc.equal(lifted["kind"], pa.scalar(kind, pa.uint8())))
        for layout in sort_by_fit(mine["text"], layouts) if len(mine) else ():
            if not len(mine):
                break
            if can_split(layout):
                fits, columns = split_lines(layout, mine["text"])
                parts += _found(mine, layout, fits, columns)
                mine = mine.filter(pc.invert(fits))
            fields = pc.extract_regex(mine["text"], layout.template.pattern)
            fits = fields.is_valid()
            some = fields.filter(fits)
            columns = {field.name: some.field(field.name) for field in some.type}
            parts += _found(mine, layout, fits, columns)
            mine = mine.filter(pc.invert(fits))
            if layout.opening and layout.closing:
                fits, columns = _long_messages(mine, layout, layout.opening.pattern, layout.closing)
                parts += _found(mine, layout, fits, columns)
                mine = mine.filter(pc.invert(fits))
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=ENTRIES)
    return pa.concat_batches(parts) if len(parts) > 1 else parts[0]


def find_layout(cut: Records, row: int, layouts: list[Layout]) -> str | None:
    """Name the layout that reads one record, among those that begin alike."""
    line = first_lines(cut, np.array([row], np.int64))
    for layout in layouts:
        if pc.extract_regex(line, layout.template.pattern).null_count == 0:
            return layout.id
    # A message of several lines has its end further down: the beginning has to do.
    return layouts[0].id


def _long_messages(
    lifted: pa.RecordBatch, layout: Layout, opening: str, closing: str
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Read messages of several lines: what the layout puts after a message ends the last line."""
    first = pc.extract_regex(lifted["text"], opening)
    last = pc.extract_regex(lifted["more"], closing)
    fits = pc.and_(first.is_valid(), last.is_valid())
    columns = {
        field.name: part.field(field.name).filter(fits)
        for part in (first, last)
        for field in part.type
        if field.name in (*layout.template.fields, "more")
    }
    return fits, columns


def _found(
    lifted: pa.RecordBatch, layout: Layout, fits: pa.Array, columns: Mapping[str, pa.Array]
) -> list[pa.RecordBatch]:
    mine = lifted.filter(fits)
    if not len(mine):
        return []
    nothing = pa.nulls(len(mine), pa.binary())
    logger = columns.get("logger", nothing)
    if layout.logger:
        logger = pa.repeat(pa.scalar(layout.logger.encode(), pa.binary()), len(mine))
    else:
        logger = pc.replace_substring_regex(logger, r"^.*\.", "")
    arrays = [
        mine["line"],
        mine["offset"],
        mine["ts"],
        columns.get("level", nothing),
        logger,
        columns.get("message", nothing),
        columns.get("client", nothing),
        pc.binary_slice(mine["text"], 0, MAX_TEXT_BYTES),
        columns.get("more", mine["more"]),
    ]
    return [pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)]
