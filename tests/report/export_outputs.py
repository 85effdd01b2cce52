"""Every text that a run has left, unpacked: to look for what must not be in it."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from forensics.report.exports import FOLDER_FORMATS, TEXT_FORMATS
from forensics.run_output.reader import load_run

__all__ = ["exported", "survivors", "texts"]

_PACKED = re.compile(rb'type="application/gzip"[^>]*>([A-Za-z0-9+/=\s]+)<')


def texts(out: Path) -> Iterator[tuple[str, str]]:
    """Give each file as it lies there, and what is packed inside pages and tables."""
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        yield f"name of {name}", name
        if not path.is_file():
            continue
        raw = path.read_bytes()
        yield name, raw.decode("utf-8", "replace")
        if path.suffix == ".html":
            for packed in _PACKED.findall(raw):
                whole = gzip.decompress(base64.b64decode(packed)).decode("utf-8", "replace")
                # The library of the figures is not made of logs.
                if "plotly.js" not in whole[:500]:
                    yield f"{name}, packed", whole
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            for column in table.column_names:
                for value in set(_strings(table.column(column).to_pylist())):
                    yield f"{name}, {column}", value


def exported(out: Path, target: Path) -> Path:
    """Write a run in every form that `export` and `timeline` know."""
    run = load_run(out)
    for name, write in FOLDER_FORMATS.items():
        write(run, target / name, ())
    for name, tell in TEXT_FORMATS.items():
        (target / f"{name}.txt").write_text("".join(tell(run, True)), "utf-8")
    topics = {name.rpartition("-")[0] for one in run.findings for name in one.partitions}
    asked = [part for topic in sorted(topics)[:5] for part in ("--topic", topic)]
    told = CliRunner().invoke(
        make_group(jobs_folder()), ["timeline", str(out), *asked, "--broker", "1", "--lines"]
    )
    (target / "timeline.txt").write_text(told.stdout, "utf-8")
    return target


def survivors(folders: list[Path], words: list[str]) -> set[tuple[str, str]]:
    """Give each of the words that stands somewhere, and where; not as a part of a longer one."""
    found = re.compile(
        "|".join(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])" for one in words)
    )
    return {
        (where, hit[0])
        for folder in folders
        for where, text in texts(folder)
        for hit in found.finditer(text)
    }


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
