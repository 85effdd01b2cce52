"""Checks a saved output folder before anything is built on it: whole, and of the right shape.

Somebody may have sent it, cut it, or changed it. What is wrong is one sentence with the file, at
little cost: of the tables only the footers are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.lib.folder_lock import LOCK_FILE, find_owner
from forensics.lib.text_format import parse_millis
from forensics.schemas import TABLES

FINDINGS_FILE, RESULT_FILE = "findings.json", "_RESULT.json"
_ADVICE = "Make it anew with kafka-forensics postmortem ARCHIVE... -o OUT."
_INTERRUPTED = frozenset({1, 130})

# A run of a hundred thousand partitions has 30 MB.
_MOST_JSON_BYTES = 128 << 20
_FIRST_TIME, _LAST_TIME = datetime(1900, 1, 1, tzinfo=UTC), datetime(2250, 1, 1, tzinfo=UTC)
_FIRST_MILLIS, _LAST_MILLIS = (round(edge.timestamp() * 1000) for edge in (_FIRST_TIME, _LAST_TIME))
# The tables that grow with the archive, and are never held whole.
_GROWING = frozenset({"events", "leadership", "isr"})
_MOST_ROWS, _MOST_PARTS, _MOST_GROUP_BYTES = 1_000_000, 20_000, 1 << 30
# Parquet may hold the same row a million times in a few bytes; no run has such rows.
_MOST_ROWS_OF_A_BYTE = 50


def refuse_unfinished(out: Path, *, whole: bool) -> None:
    """Raise an error if the run in a folder is under way, was killed, or failed."""
    if owner := find_owner(out):
        raise ForensicsError(f"A run is still writing {out}: {owner}. Try again when it is done.")
    path, was_killed = out / RESULT_FILE, (out / LOCK_FILE).is_file()
    if not path.is_file():
        if whole and not was_killed:
            return
        raise ForensicsError(
            f"The run in {out} did not finish: there is no {RESULT_FILE}, which is written last."
            f" {_ADVICE}"
        )
    result = read_json(path)
    if result.get("exit_code") in _INTERRUPTED:
        reason = str(result.get("reason") or "no reason given").partition("\n")[0]
        raise ForensicsError(f"The run in {out} did not finish: {reason.rstrip('.')}. {_ADVICE}")


def read_json(path: Path, advice: str = _ADVICE) -> dict[str, Any]:
    """Read a JSON object; raise an error with the file if it is none."""
    if path.stat().st_size > _MOST_JSON_BYTES:
        raise ForensicsError(f"{path} has more than {_MOST_JSON_BYTES >> 20} MB. {advice}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ForensicsError(f"{path} is no JSON: {error}.") from error
    except RecursionError as error:
        raise ForensicsError(f"{path} is nested deeper than anything this writes.") from error
    if not isinstance(document, dict):
        raise ForensicsError(f"{path} holds {_name_of(document)} where an object was expected.")
    return document


# The shape of findings.json: a type, a list of one shape, or a mapping of shapes by key. What is
# null or missing is as good as empty, and what is not named here may be anything.
_TEXT, _NUMBER = (str,), (int, float)
_SIGHTING = {"file": _TEXT, "line": (int,), "text": _TEXT, "rule": _TEXT}
_FINDING = {
    **dict.fromkeys(("id", "detector", "severity", "confidence", "title", "from", "to"), _TEXT),
    **dict.fromkeys(("explanation", "why", "confidence_reason", "state"), _TEXT),
    "brokers": [(int,)],
    "partitions": [_TEXT],
    "clients": [_TEXT],
    "measures": {},
    "evidence": [_SIGHTING],
    "actions": [_TEXT],
    "doubts": [_TEXT],
}
_DOCUMENT = {
    "verdict": _TEXT,
    "summary": _TEXT,
    "window": {"from": _TEXT, "to": _TEXT},
    "archive": dict.fromkeys(("files", "bytes", "lines", "events"), _NUMBER),
    "findings": [_FINDING],
    "suppressed": [{}],
    "chains": [{}],
    "trigger": [{"kind": _TEXT, "node": _TEXT, "at": _TEXT, "evidence": [_SIGHTING]}],
    "impact": {},
    "packs": [{}],
    "quality": {},
    "redaction": {},
}


def read_document(path: Path) -> dict[str, Any]:
    """Read findings.json and check the shape of all that is read of it."""
    document = read_json(path)
    for fault in chain(_shape_faults(document, _DOCUMENT, ""), _far_times(document)):
        raise ForensicsError(f"{path}: {fault}. {_ADVICE}")
    return document


def _far_times(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield times that no log can have; a text that is no time at all is as good as none."""
    holders = [("window", document.get("window") or {})]
    findings = enumerate(document.get("findings") or ())
    holders += [(f"findings[{at}]", finding) for at, finding in findings]
    for place, holder in holders:
        for key in ("from", "to"):
            millis = parse_millis(holder.get(key))
            if millis is not None and not _FIRST_MILLIS <= millis <= _LAST_MILLIS:
                yield f"{place}.{key} is {holder[key]}, when there was no Kafka"


def _shape_faults(value: Any, shape: Any, place: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(shape, tuple):
        if not isinstance(value, shape) or isinstance(value, bool):
            yield f"{place} is {_name_of(value)}, not {_name_of(shape[0]())}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{place} is {_name_of(value)}, not a list"
            return
        for at, item in enumerate(value):
            yield from _shape_faults(item, shape[0], f"{place}[{at}]")
            if item is None:
                yield f"{place}[{at}] is nothing"
    elif not isinstance(value, dict):
        yield f"{place} is {_name_of(value)}, not an object"
    else:
        for key, inner in shape.items():
            yield from _shape_faults(value.get(key), inner, f"{place}.{key}".lstrip("."))


def _name_of(value: Any) -> str:
    names: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "a truth"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "nothing")


@contextmanager
def naming_table(folder: Path) -> Iterator[None]:
    """Name the table whose reading fails: its pages may be damaged behind a sound footer."""
    try:
        yield
    except (pa.ArrowException, OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        why = str(error).partition("\n")[0]
        raise ForensicsError(f"{folder} is damaged and cannot be read: {why[:300]}") from error


def check_tables(folder: Path) -> None:
    """Raise an error for the first table that is not as a run writes it."""
    for name, schema in TABLES.items():
        if (folder / name).is_dir():
            _check_table(folder / name, schema, grows=name in _GROWING)


def _check_table(folder: Path, schema: pa.Schema, *, grows: bool) -> None:
    rows = 0
    parts = sorted(path for path in folder.rglob("*") if path.name[0] not in "._")
    if len(parts) > _MOST_PARTS:
        raise ForensicsError(f"{folder} has more than {_MOST_PARTS:,} files. {_ADVICE}")
    for path in parts:
        if path.is_dir():
            continue
        count, fault = _read_footer(path, schema)
        rows += count
        if fault is None and not grows and rows > _MOST_ROWS:
            fault = f"it has {rows:,} rows, and no run more than {_MOST_ROWS:,}"
        if fault:
            raise ForensicsError(f"{path} is not as a run writes it: {fault}. {_ADVICE}")


def check_file(path: Path, schema: pa.Schema, most_rows: int, advice: str) -> None:
    """Raise an error if one Parquet file is not as it was written."""
    rows, fault = _read_footer(path, schema)
    if fault is None and rows > most_rows:
        fault = f"it has {rows:,} rows, more than {most_rows:,}"
    if fault:
        raise ForensicsError(f"{path} is not as it was written: {fault}. {advice}")


def _read_footer(path: Path, schema: pa.Schema) -> tuple[int, str | None]:
    """Return how many rows a file has, and what is wrong with it."""
    try:
        with pq.ParquetFile(path) as file:
            footer, found = file.metadata, file.schema_arrow
            return footer.num_rows, _part_fault(footer, found, schema, path.stat().st_size)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        why = str(error).partition("\n")[0]
        raise ForensicsError(f"{path} is no whole Parquet file: {why[:300]}") from error


def _part_fault(
    footer: pq.FileMetaData, found: pa.Schema, schema: pa.Schema, size: int
) -> str | None:
    for field in schema:
        at = found.get_field_index(field.name)
        if at >= 0 and not _is_alike(found.field(at).type, field.type):
            return f"{field.name} is {found.field(at).type}, not {field.type}"
    if footer.num_rows > _MOST_ROWS + size * _MOST_ROWS_OF_A_BYTE:
        return f"{footer.num_rows:,} rows in {size:,} bytes"
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if group.total_byte_size > _MOST_GROUP_BYTES:
            return f"{group.total_byte_size:,} bytes in one group of rows"
        for index in range(group.num_columns):
            column = group.column(index)
            # Arrow ends the process where these differ and its figures are asked for.
            if column.physical_type != footer.schema.column(index).physical_type:
                return f"{column.path_in_schema} is {column.physical_type} in a group of rows"
            if fault := _time_fault(column):
                return fault
    return None


def _time_fault(column: pq.ColumnChunkMetaData) -> str | None:
    """Say if a column holds a time that no log and no clock can have."""
    if not column.is_stats_set or column.statistics.logical_type.type != "TIMESTAMP":
        return None
    try:
        edges = (column.statistics.min, column.statistics.max)
    except (OverflowError, ValueError):
        return f"a time in {column.path_in_schema} is beyond all calendars"
    for edge in edges:
        if isinstance(edge, datetime):
            moment = edge if edge.tzinfo else edge.replace(tzinfo=UTC)
            if not _FIRST_TIME <= moment <= _LAST_TIME:
                return f"a time in {column.path_in_schema} is of the year {moment.year}"
    return None


def _is_alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True for types that are read alike: writers differ in units, zones and names."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _is_alike(found.value_type, wanted.value_type)
    if pa.types.is_struct(wanted):
        names = {field.name: field.type for field in wanted}
        return pa.types.is_struct(found) and all(
            _is_alike(field.type, names[field.name]) for field in found if field.name in names
        )
    tests = (pa.types.is_timestamp, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    kind = next((test for test in tests if test(wanted)), None)
    if kind is not None:
        return bool(kind(found))
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
