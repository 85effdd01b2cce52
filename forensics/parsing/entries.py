"""Parses the records that passed the prefilter into entries: time, level, logger, message."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Offsets, Signature
from forensics.parsing.fast_path import can_split, sort_by_fit, split_lines
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import PROBES, first_lines, later_lines, list_kinds
from forensics.parsing.timestamps import NO_TIME

# Records as they are in the log; `kind` is the number of the signature they begin with.
EXTRACTED = pa.schema(
    [
        # the number of the piece of a file it is from, where those of many are parsed at once
        ("part", pa.int32()),
        ("kind", pa.uint8()),
        ("line", pa.int64()),
        ("height", pa.int64()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("text", pa.binary()),
        ("more", pa.binary()),
        # the numbers of the rules' cheap patterns that its first line has; null if not known
        ("probes", PROBES),
    ]
)
ENTRIES = pa.schema(
    [
        ("part", pa.int32()),
        ("line", pa.int64()),
        # how many lines of the file it takes
        ("height", pa.int64()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("level", pa.binary()),
        ("logger", pa.binary()),
        ("message", pa.binary()),
        ("client", pa.binary()),
        ("text", pa.binary()),
        # the lines of the record after its first one
        ("more", pa.binary()),
        ("probes", PROBES),
    ]
)
# So much of a line is kept as evidence.
MAX_TEXT_BYTES = 2000


def group_layouts(layouts: tuple[Layout, ...]) -> list[list[Layout]]:
    """Group layouts with the same signature: the start of a line cannot tell them apart."""
    groups: dict[Signature, list[Layout]] = {}
    for layout in layouts:
        groups.setdefault(layout.signature, []).append(layout)
    return list(groups.values())


def group_signatures(groups: list[list[Layout]]) -> list[Signature]:
    """Return the signature of each group."""
    return [group[0].signature for group in groups]


def read_times(
    records: Records, rows: Offsets, groups: list[list[Layout]]
) -> np.typing.NDArray[np.int64]:
    """Read the times of some records, in microseconds of UTC as logged."""
    times = np.full(len(rows), NO_TIME, np.int64)
    kinds = records.kinds[rows]
    for kind in list_kinds(kinds):
        if kind:
            some, layout = np.flatnonzero(kinds == kind), groups[kind - 1][0]
            offsets = records.starts[rows[some]] + layout.time_offset
            times[some] = layout.time.read(records.data, offsets)
    return times


def extract_records(
    records: Records,
    rows: Offsets,
    groups: list[list[Layout]],
    probes: pa.Array | None = None,
    part: int = 0,
) -> pa.RecordBatch:
    """Copy some records, so that those of many blocks and pieces can be parsed at once."""
    moments = read_times(records, rows, groups)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(rows), part, np.int32)),
            pa.array(records.kinds[rows]),
            pa.array(records.lines[rows]),
            pa.array(records.heights[rows]),
            pa.array(records.offsets[rows]),
            pa.array(moments, mask=moments == NO_TIME),
            first_lines(records, rows),
            later_lines(records, rows),
            pa.nulls(len(rows), PROBES) if probes is None else probes,
        ],
        schema=EXTRACTED,
    )


def parse_records(records: Records, rows: Offsets, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Extract some records and parse them."""
    return parse_extracted(extract_records(records, rows, groups), groups)


def parse_extracted(extracted: pa.RecordBatch, groups: list[list[Layout]]) -> pa.RecordBatch:
    """Parse extracted records as entries; leaves out those that no layout fits entirely."""
    parts = []
    for kind in list_kinds(extracted["kind"].to_numpy()):
        left = extracted.filter(pc.equal(extracted["kind"], pa.scalar(kind, pa.uint8())))
        for layout in sort_by_fit(left["text"], groups[kind - 1]):
            if not len(left):
                break
            if can_split(layout):
                fits, columns = split_lines(layout, left["text"])
                parts += _build_entries(left, layout, fits, columns)
                left = left.filter(pc.invert(fits))
            fields = pc.extract_regex(left["text"], layout.template.pattern)
            fits = fields.is_valid()
            some = fields.filter(fits)
            columns = {field.name: some.field(field.name) for field in some.type}
            parts += _build_entries(left, layout, fits, columns)
            left = left.filter(pc.invert(fits))
            if layout.opening and layout.closing:
                fits, columns = _long_messages(left, layout, layout.opening.pattern, layout.closing)
                parts += _build_entries(left, layout, fits, columns)
                left = left.filter(pc.invert(fits))
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=ENTRIES)
    return pa.concat_batches(parts) if len(parts) > 1 else parts[0]


def find_layout(records: Records, row: int, layouts: list[Layout]) -> str | None:
    """Return the id of the layout that reads one record, among those of one signature."""
    line = first_lines(records, np.array([row], np.int64))
    for layout in layouts:
        if pc.extract_regex(line, layout.template.pattern).null_count == 0:
            return layout.id
    # The end of a message of several lines is further down; only the signature is known.
    return layouts[0].id


def _long_messages(
    extracted: pa.RecordBatch, layout: Layout, opening: str, closing: str
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Parse messages of several lines: what the layout puts after a message ends the last one."""
    first = pc.extract_regex(extracted["text"], opening)
    last = pc.extract_regex(extracted["more"], closing)
    fits = pc.and_(first.is_valid(), last.is_valid())
    columns = {
        field.name: part.field(field.name).filter(fits)
        for part in (first, last)
        for field in part.type
        if field.name in (*layout.template.fields, "more")
    }
    return fits, columns


def _build_entries(
    extracted: pa.RecordBatch, layout: Layout, fits: pa.Array, columns: Mapping[str, pa.Array]
) -> list[pa.RecordBatch]:
    left = extracted.filter(fits)
    if not len(left):
        return []
    nothing = pa.nulls(len(left), pa.binary())
    logger = columns.get("logger", nothing)
    if layout.logger:
        logger = pa.repeat(pa.scalar(layout.logger.encode(), pa.binary()), len(left))
    else:
        logger = pc.replace_substring_regex(logger, r"^.*\.", "")
    arrays = [
        left["part"],
        left["line"],
        left["height"],
        left["offset"],
        left["ts"],
        columns.get("level", nothing),
        logger,
        columns.get("message", nothing),
        columns.get("client", nothing),
        pc.binary_slice(left["text"], 0, MAX_TEXT_BYTES),
        columns.get("more", left["more"]),
        left["probes"],
    ]
    return [pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)]
