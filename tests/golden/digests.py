"""Digests of everything that the package writes: the proof that a change of code changes no word.

    python -m tests.golden.digests              compare with tests/golden/digests.json
    python -m tests.golden.digests --update     keep the digests of now
    python -m tests.golden.digests NAME...      only these recordings, or "week-store"

It reads every recording in sample_logs/, and those in the folders of $FORENSICS_RECORDINGS
(separated by colons), in this process. For each it keeps one SHA-256 of findings.json, of
report.html and of the rows of each table; for the weekly audit one of each file of a store.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.dataset as ds

from forensics import pipeline
from forensics.events.packs import load_rule_set
from forensics.sandbox import run_archives
from forensics.settings import Settings
from tests.weekly.audits import Audits, archives_in

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("digests.json")
STORE = "week-store"

Digests = dict[str, str]


def recordings() -> dict[str, Path]:
    """Find the archive of every recording; those outside the project only where they are there."""
    folders = [ROOT / "sample_logs"]
    folders += [
        Path(name) for name in os.environ.get("FORENSICS_RECORDINGS", "").split(":") if name
    ]
    found = {}
    for folder in folders:
        for archive in sorted(folder.glob("*/logs*")):
            prefix = "" if folder == folders[0] else f"{folder.name}/"
            found[prefix + archive.parent.name] = archive
    return found


def digest_of(data: bytes) -> str:
    """Return a SHA-256, short enough to read and long enough to trust."""
    return hashlib.sha256(data).hexdigest()[:24]


def rows_digest(folder: Path) -> str:
    """Digest the rows of a table, in their order, whatever the files and row groups are."""
    table = ds.dataset(folder, format="parquet").to_table()
    rows = "\n".join(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())
    return digest_of(f"{table.schema.names}\n{rows}".encode())


def postmortem_digests(archive: Path) -> Digests:
    """Make the postmortem of an archive and digest all that it writes."""
    with TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        # The page and findings.json name the archive: a link keeps the path out of them.
        link = Path(scratch) / archive.name
        link.symlink_to(archive)
        os.chdir(scratch)
        read = run_archives([link.name], out)
        settings = Settings((link.name,), out)
        pipeline.finish_run(read.files, read.past, load_rule_set(()), settings, lambda _: None)
        found = {
            name: digest_of((out / name).read_bytes()) for name in ("findings.json", "report.html")
        }
        for table in sorted((out / "tables").iterdir()):
            found[f"tables/{table.name}"] = rows_digest(table)
    return found


def store_digests() -> Digests:
    """Give four archives to a weekly store and digest every file that it keeps."""
    with TemporaryDirectory() as scratch:
        os.chdir(scratch)
        archives = archives_in(Path(scratch) / "in")
        audits = Audits(Path(scratch) / "store")
        audits.run(*archives.values())
        files = sorted(path for path in audits.store.rglob("*") if path.is_file())
        return {
            path.relative_to(audits.store).as_posix(): digest_of(path.read_bytes())
            for path in files
            if path.name not in ("_RESULT.json", ".lock")
        }


def digests(names: list[str]) -> Iterator[tuple[str, Digests]]:
    """Digest the chosen recordings, or all, and a weekly store."""
    for name, archive in recordings().items():
        if not names or name in names:
            yield name, postmortem_digests(archive)
    if not names or STORE in names:
        yield STORE, store_digests()


def main() -> int:
    """Compare, or keep, and say which files differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--kept", type=Path, default=KEPT)
    asked = parser.parse_args()
    kept_path = asked.kept.resolve()
    kept = json.loads(kept_path.read_text("utf-8")) if kept_path.exists() else {}
    differing = 0
    for name, found in digests(asked.names):
        before = kept.get(name, {})
        changed = sorted(one for one in {*found, *before} if found.get(one) != before.get(one))
        differing += bool(changed)
        print(f"{name}: {'differs: ' + ', '.join(changed) if changed else 'same'}", flush=True)
        kept[name] = found
    if asked.update:
        text = json.dumps(kept, indent=1, sort_keys=True) + "\n"
        kept_path.write_text(text, encoding="utf-8")
        return 0
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
