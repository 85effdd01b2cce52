"""The tables for spreadsheets, notebooks and databases: one file a table, or a view of each."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.lib.storage import absolute, write_atomically
from forensics.lib.text_safety import visible
from forensics.run_output.integrity import FINDINGS_FILE
from forensics.run_output.reader import RunOutput
from forensics.schemas import TABLES, describe

TEXT = pa.string()
FINDINGS = pa.schema(
    [(name, TEXT) for name in ("id", "detector", "severity", "confidence", "title", "from", "to")]
    + [("brokers", pa.list_(pa.int32())), ("partitions", pa.list_(TEXT))]
    + [("clients", pa.list_(TEXT)), ("evidence", pa.int32()), ("explanation", TEXT)]
)
# What begins a formula in a spreadsheet, also in full-width forms.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Of findings.json, in DuckDB's words.
_FINDING_TYPES = {
    **dict.fromkeys(FINDINGS.names, "VARCHAR"),
    **dict.fromkeys(("from", "to"), "TIMESTAMPTZ"),
    **{name: ["VARCHAR"] for name in ("partitions", "clients", "actions")},
    "brokers": ["INTEGER"],
    "measures": "JSON",
    "evidence": [{"file": "VARCHAR", "line": "BIGINT", "text": "VARCHAR"}],
}
_LARGE = f"maximum_object_size = {128 << 20}"
Batches = Iterable[pa.RecordBatch]


def table_names(run: RunOutput) -> list[str]:
    """Return the names of what can be exported: the findings and the saved tables."""
    return ["findings", *(name for name in run.tables.names() if run.tables.column_names(name))]


def write_csv(run: RunOutput, folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Write tables as CSV; an apostrophe keeps text from being taken for a formula."""
    return _write_each(run, folder, wanted, "csv", _csv)


def write_parquet(run: RunOutput, folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Write tables as single Parquet files, with all values as they were read."""
    return _write_each(run, folder, wanted, "parquet", _parquet)


def write_views(run: RunOutput, _more: bool = False) -> Iterator[str]:
    """Write SQL for DuckDB: a view of each table where it lies, with what its columns mean."""
    folder = absolute(str(run.folder))
    for name in sorted(set(table_names(run)) & set(TABLES)):
        files = _sql_text(f"{_literal(folder)}/tables/{name}/*.parquet")
        yield f"CREATE OR REPLACE VIEW {name} AS FROM read_parquet({files});\n"
        schema = TABLES[name]
        yield f"COMMENT ON VIEW {name} IS {_sql_text(describe(schema))};\n"
        for field in schema:
            meaning = _sql_text(describe(field))
            yield f'COMMENT ON COLUMN {name}."{field.name}" IS {meaning};\n'
    document = _sql_text(f"{_literal(folder)}/{FINDINGS_FILE}")
    shape = _sql_text(json.dumps([_FINDING_TYPES]))
    yield "CREATE OR REPLACE VIEW findings AS WITH document AS (FROM read_json("
    yield f"{document}, columns = {{findings: 'JSON'}}, {_LARGE})), rows AS ("
    yield f"SELECT unnest(from_json(findings, {shape})) AS row FROM document)"  # noqa: S608
    yield " SELECT unnest(row) FROM rows;\n"


def _literal(path: str) -> str:
    """Return a path in which no character stands for others.

    >>> _literal("/logs/[a]*")
    '/logs/[[]a][*]'
    """
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def safe_cell(value: object) -> object:
    """Return a value as it may stand in a cell.

    >>> [safe_cell(value) for value in ("=1+1", -1, [1, 2], "a" + chr(27))]
    ["'=1+1", -1, '[1, 2]', 'a⟨U+001B⟩']
    """
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return visible(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def _write_each(
    run: RunOutput,
    folder: Path,
    wanted: Sequence[str],
    suffix: str,
    write: Callable[[Path, pa.Schema, Batches], None],
) -> list[Path]:
    known = table_names(run)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        message = f"--table {unknown[0]}: {run.folder} has {', '.join(known)}."
        raise ForensicsError(message)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in wanted or known:
        path = folder / f"{name}.{suffix}"
        with write_atomically(path) as partial:
            write(partial, *_read(run, name))
        written.append(path)
    return written


def _read(run: RunOutput, name: str) -> tuple[pa.Schema, Batches]:
    if name == "findings":
        rows = [
            {column: row.get(column) for column in FINDINGS.names}
            | {"evidence": len(row.get("evidence") or ())}
            for row in run.document.get("findings") or ()
        ]
        return FINDINGS, pa.Table.from_pylist(rows, schema=FINDINGS).to_batches()
    data = run.tables.dataset(name)
    return data.schema if data else pa.schema([]), run.tables.scan(name)


def _csv(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        for batch in batches:
            rows = batch.to_pylist()
            writer.writerows([safe_cell(row[name]) for name in schema.names] for row in rows)


def _parquet(path: Path, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
