"""Writes a redacted copy of a saved run: tables, findings.json and the page; no log is read.

Numbers, times and epochs stay; every name is replaced by its pseudonym.
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
from forensics.lib.folder_lock import LOCK_FILE
from forensics.redaction.collect_names import collect_names
from forensics.redaction.column_policy import ColumnPolicy, finding_names
from forensics.redaction.pseudonyms import CLASSES, Pseudonyms
from forensics.redaction.text_replacer import Replacer
from forensics.report import page
from forensics.run_output import findings
from forensics.run_output.reader import RunOutput, open_run

# The parts of a run that are copied.
_FINDINGS, _TABLES = "findings.json", "tables"
# What the run that is just now writing has there, or an earlier one that failed.
_OF_RUNS = frozenset({LOCK_FILE, "_RESULT.json"})


def redact_run(source: Path, out: Path, classes: Collection[str], secret: Path) -> ColumnPolicy:
    """Write the run in `source` with pseudonyms into `out`; `secret` is the private map."""
    run = open_run(source)
    check_target(out, secret)
    if out.resolve() == source.resolve() or source.resolve() in out.resolve().parents:
        message = f"{out} is, or is inside, the run that is to be redacted; name another folder."
        raise ForensicsError(message)
    pseudonyms = Pseudonyms.open(secret)
    policy = _make_policy(run, classes, pseudonyms)
    with _private_folder(out) as folder:
        for table in run.tables.names():
            _redact_table(run, table, folder / _TABLES / table, policy)
        findings.write_findings(_redact_document(run.document, policy, classes), folder / _FINDINGS)
        page.draw_report(folder)
        # Save the map first: without it, nobody could find the names again.
        pseudonyms.save(secret)
        _move(folder, out)
    return policy


def redact_result(result: Mapping[str, Any], policy: ColumnPolicy) -> dict[str, Any]:
    """Redact `_RESULT.json`, without the command line."""
    return {key: policy.redact_json(value, key) for key, value in result.items()
            if key not in ("page", "command")}  # fmt: skip


def check_target(out: Path, secret: Path) -> None:
    """Refuse a target that holds other files, or would hold the map."""
    target = secret.resolve()
    if out.resolve() == target or out.resolve() in target.parents:
        message = f"The map {secret} would be inside {out}; name a place that nobody gets by --map."
        raise ForensicsError(message)
    if not secret.parent.is_dir():
        message = f"--map {secret}: there is no folder {secret.parent}; make it first."
        raise ForensicsError(message)
    old = {path.name for path in out.iterdir()} - _OF_RUNS if out.is_dir() else set()
    if old and not (_FINDINGS in old and "redaction" in open_run(out).document):
        message = f"{out} holds files that are not redacted; name a new folder."
        raise ForensicsError(message)


def _make_policy(run: RunOutput, classes: Collection[str], pseudonyms: Pseudonyms) -> ColumnPolicy:
    found = collect_names(run)
    kinds = (*(kind for kind in CLASSES if kind in classes), "findings", "chains")
    names = {kind: found.names.get(kind, set()) for kind in kinds}
    first = ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)
    # The names of folders, which sentences may contain, are known only after this.
    names["paths"] = first.redact_paths(str(row["file"]) for row in run.rows("files", ["file"]))
    return ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)


def _redact_document(
    document: Mapping[str, Any], policy: ColumnPolicy, classes: Collection[str]
) -> dict[str, Any]:
    """Redact findings.json, and list in it the classes that are redacted."""
    own = {name for finding in document.get("findings") or () for name in finding_names(finding)}
    redacted = {
        key: policy.redact_json(value, key, () if key == "findings" else own)
        for key, value in document.items()
        if key != "redaction"
    }
    before = (document.get("redaction") or {}).get("classes", ())
    known = [kind for kind in CLASSES if kind in {*classes, *before}]
    return redacted | {"redaction": {"classes": known, "secrets": "masked"}}


def _redact_table(run: RunOutput, name: str, target: Path, policy: ColumnPolicy) -> None:
    data = run.tables.dataset(name)
    target.mkdir(parents=True)
    if data is None:
        return
    schema = data.schema.remove_metadata()
    with pq.ParquetWriter(target / "part-0.parquet", schema, compression="zstd") as writer:
        for batch in run.tables.scan(name):
            writer.write_batch(policy.redact_batch(batch.replace_schema_metadata(None)))


@contextmanager
def _private_folder(out: Path) -> Iterator[Path]:
    """Make a private folder beside `out`, and delete it afterwards."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.half-", dir=out.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(folder: Path, out: Path) -> None:
    """Replace an earlier redaction by a new one; findings.json comes last."""
    out.mkdir(exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == _FINDINGS):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
