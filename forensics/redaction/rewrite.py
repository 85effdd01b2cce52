"""Makes a redacted run out of a saved one, without the logs: tables, findings.json, then the page.

The numbers, times and epochs are those of the run; what has a name has another one everywhere.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.redaction.collect_names import collect_names
from forensics.redaction.column_policy import ColumnPolicy, finding_names
from forensics.redaction.pseudonyms import CLASSES, Pseudonyms
from forensics.redaction.replacer import Replacer
from forensics.report import page
from forensics.report.page import open_output
from forensics.run_output import findings
from forensics.run_output.reader import RunOutput

# What a run is made of; all else in its folder is not looked at.
_FINDINGS, _TABLES = "findings.json", "tables"


def redact_run(source: Path, out: Path, classes: Collection[str], secret: Path) -> ColumnPolicy:
    """Write the run in `source` with other names into `out`; `secret` is the private map."""
    run = open_output(source)
    check_target(out, secret)
    if out.resolve() == source.resolve() or source.resolve() in out.resolve().parents:
        message = f"{out} is, or is inside, the run that is to be redacted; name another folder."
        raise ForensicsError(message)
    tables = run.tables.names()
    pseudonyms = Pseudonyms.open(secret)
    treatment = _treatment(run, tables, classes, pseudonyms)
    with _half_made(out) as half:
        for table in tables:
            _table(run, table, half / _TABLES / table, treatment)
        findings.write_findings(_document(run.document, treatment, classes), half / _FINDINGS)
        page.draw_report(half)
        # First the map: a run whose names nobody can lead back would be worth little.
        pseudonyms.save(secret)
        _move(half, out)
    return treatment


def redact_result(result: Mapping[str, Any], treatment: ColumnPolicy) -> dict[str, Any]:
    """Redact what `_RESULT.json` says of a run; how it was called stays with who called it."""
    return {key: treatment.redact_json(one, key) for key, one in result.items()
            if key not in ("page", "command")}  # fmt: skip


def check_target(out: Path, secret: Path) -> None:
    """Refuse a folder or a map that would give away what is to be hidden."""
    whole = secret.resolve()
    if out.resolve() == whole or out.resolve() in whole.parents:
        message = f"The map {secret} would be inside {out}; name a place that nobody gets by --map."
        raise ForensicsError(message)
    if not secret.parent.is_dir():
        message = f"--map {secret}: there is no folder {secret.parent}; make it first."
        raise ForensicsError(message)
    old = [path.name for path in out.iterdir()] if out.is_dir() else []
    if old and not (_FINDINGS in old and "redaction" in open_output(out).document):
        message = f"{out} holds files that are not redacted; name a new folder."
        raise ForensicsError(message)


def _treatment(
    run: RunOutput, tables: Collection[str], classes: Collection[str], pseudonyms: Pseudonyms
) -> ColumnPolicy:
    found = collect_names(run, tables)
    kinds = (*(kind for kind in CLASSES if kind in classes), "findings", "chains")
    names = {kind: found.names.get(kind, set()) for kind in kinds}
    first = ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)
    # What folders are called is known only now; sentences may name them, too.
    names["paths"] = first.redact_paths(str(row["file"]) for row in run.rows("files", ["file"]))
    return ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)


def _document(
    document: Mapping[str, Any], treatment: ColumnPolicy, classes: Collection[str]
) -> dict[str, Any]:
    """Redact findings.json, and say in it what was redacted, now and before."""
    own = {name for one in document.get("findings") or () for name in finding_names(one)}
    told = {
        key: treatment.redact_json(one, key, () if key == "findings" else own)
        for key, one in document.items()
        if key != "redaction"
    }
    every = {*classes, *(document.get("redaction") or {}).get("classes", ())}
    known = [kind for kind in CLASSES if kind in every]
    return told | {"redaction": {"classes": known, "secrets": "masked"}}


def _table(run: RunOutput, name: str, target: Path, treatment: ColumnPolicy) -> None:
    data = run.tables.dataset(name)
    target.mkdir(parents=True)
    if data is None:
        return
    with pq.ParquetWriter(
        target / "part-0.parquet", data.schema.remove_metadata(), compression="zstd"
    ) as writer:
        for batch in run.tables.scan(name):
            plain = batch.replace_schema_metadata(None)
            writer.write_batch(treatment.redact_batch(plain))


@contextmanager
def _half_made(out: Path) -> Iterator[Path]:
    """Give a private folder beside `out`, which is gone afterwards."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.half-", dir=out.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(half: Path, out: Path) -> None:
    """Put what is made in the place of what was there of an earlier redaction."""
    out.mkdir(exist_ok=True)
    for path in sorted(half.iterdir(), key=lambda one: one.name == _FINDINGS):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
