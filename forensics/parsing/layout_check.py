"""Tries every layout on its own example lines, as a scan reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from forensics.errors import Problem, duplicate_ids
from forensics.ingest.record_splitter import RecordSplitter
from forensics.lib.time_units import to_datetime
from forensics.lib.yaml_with_lines import line_of, line_of_refused
from forensics.parsing.entries import group_layouts, group_signatures, parse_records
from forensics.parsing.layouts import Layout

_ENTRY = ("time", "level", "logger", "message", "client")


def check_layouts(layouts: tuple[Layout, ...]) -> Iterator[Problem]:
    """Yield the problems of layouts: each is tried alone, and then together with the others."""
    lines = [str(one.get("line", "")) for layout in layouts for one in layout.examples]
    together = _read(layouts, lines)
    alone = {layout.id: _read((layout,), lines) for layout in layouts}
    yield from duplicate_ids((layout.id, layout.origin.file) for layout in layouts)
    for layout in layouts:
        file = layout.origin.file
        if not layout.refuses:
            yield Problem(file, 1, f"layout {layout.id} has no 'refuses'")
        for line in _read((layout,), layout.refuses):
            says = f"layout {layout.id} reads a line that it must refuse"
            yield Problem(file, line_of_refused(file, line), says)
        for one in layout.examples:
            for says in _example(one, layout, alone, together):
                yield Problem(file, line_of(one, "line"), says)


def _example(
    example: Mapping[str, Any],
    layout: Layout,
    alone: Mapping[str, Mapping[str, Any]],
    together: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    line = str(example.get("line", ""))
    if line not in alone[layout.id]:
        yield f"layout {layout.id} does not read its own example"
    for other in sorted(name for name, read_by in alone.items() if line in read_by):
        if other != layout.id:
            yield f"the example is also read by layout {other}"
    for name, value in example.get("gives", {}).items():
        if name not in _ENTRY:
            yield f"gives {name}: a layout gives {', '.join(_ENTRY)}"
            continue
        wanted, got = _wanted(name, value), together.get(line, {}).get(name)
        if line in together and got != wanted:
            yield f"gives {name}: expected {_shown(wanted)}, got {_shown(got)}"


def number_lines(lines: Sequence[str]) -> dict[int, str]:
    r"""Return the line at which each text begins; an example may have several lines.

    >>> number_lines(["one", "two\n  and more", "three"])
    {1: 'one', 2: 'two\n  and more', 4: 'three'}
    """
    numbers = accumulate((line.count("\n") + 1 for line in lines), initial=1)
    return dict(zip(numbers, lines, strict=False))


def to_rows(entries: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield entries as plain values, with `time` added."""
    for row in entries.to_pylist():
        row["time"] = None if row["ts"] is None else to_datetime(row["ts"])
        for name in ("level", "logger", "message", "client"):
            row[name] = None if row[name] is None else row[name].decode("utf-8", "replace")
        yield row


def _read(layouts: tuple[Layout, ...], lines: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    groups = group_layouts(layouts)
    text = "\n".join(lines).encode("utf-8", "replace")
    records = RecordSplitter(group_signatures(groups)).feed(text, final=True)
    if records is None:
        return {}
    places = number_lines(lines)
    entries = to_rows(parse_records(records, np.arange(len(records.starts)), groups))
    return {places[row["line"]]: row for row in entries if row["line"] in places}


def _wanted(name: str, value: Any) -> Any:
    if name == "logger":
        # Only the last part of a logger counts: layouts cut it, and Kafka has moved classes.
        return str(value).rpartition(".")[2]
    if name != "time":
        return value
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
