"""The tables as files that spreadsheets and notebooks open: CSV and Parquet, one file a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.lib.text_safety import visible
from forensics.run_output.reader import RunOutput

TEXT = pa.string()
FINDINGS = pa.schema(
    [(name, TEXT) for name in ("id", "detector", "severity", "confidence", "title", "from", "to")]
    + [("brokers", pa.list_(pa.int32())), ("partitions", pa.list_(TEXT))]
    + [("clients", pa.list_(TEXT)), ("evidence", pa.int32()), ("explanation", TEXT)]
)
# What a spreadsheet takes for the beginning of a formula, also in the wide forms of East Asia.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
Batches = Iterable[pa.RecordBatch]


def table_names(run: RunOutput) -> list[str]:
    """List what there is: the findings and the tables that were saved."""
    return ["findings", *(name for name in run.tables.names() if run.column_names(name))]


def write_csv(run: RunOutput, folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Write tables as CSV; text that a spreadsheet would calculate gets an apostrophe in front."""
    return _each(run, folder, wanted, "csv", _csv)


def write_parquet(run: RunOutput, folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Write tables as single Parquet files, with every value as it was read."""
    return _each(run, folder, wanted, "parquet", _parquet)


def safe_cell(value: object) -> object:
    """Make one value fit for a cell.

    >>> safe("=1+1"), safe(-1), safe([1, 2]), safe("a" + chr(27))
    ("'=1+1", -1, '[1, 2]', 'a⟨U+001B⟩')
    """
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(FORMULA) else value
    return visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def _each(
    run: RunOutput,
    folder: Path,
    wanted: Sequence[str],
    suffix: str,
    write: Callable[[Path, pa.Schema, Batches], None],
) -> list[Path]:
    every = table_names(run)
    unknown = [name for name in wanted if name not in every]
    if unknown:
        message = f"--table {unknown[0]}: {run.folder} has {', '.join(every)}."
        raise ForensicsError(message)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in wanted or every:
        path = folder / f"{name}.{suffix}"
        schema, batches = _table(run, name)
        half = path.with_name(f".{path.name}.half")
        write(half, schema, batches)
        half.replace(path)
        written.append(path)
    return written


def _table(run: RunOutput, name: str) -> tuple[pa.Schema, Batches]:
    if name == "findings":
        rows = [_finding(row) for row in run.document.get("findings") or ()]
        return FINDINGS, pa.Table.from_pylist(rows, schema=FINDINGS).to_batches()
    data = run.tables.dataset(name)
    return data.schema if data else pa.schema([]), run.tables.scan(name)


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: row.get(name) for name in FINDINGS.names}
    return plain | {"evidence": len(row.get("evidence") or ())}


def _csv(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        for batch in batches:
            writer.writerows(_rows(batch, schema.names))


def _rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[list[object]]:
    for row in batch.to_pylist():
        yield [safe_cell(row[name]) for name in columns]


def _parquet(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
