"""The page shows what was found in archives: first what is damaged, then what was left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from forensics.lib.arrow_io import write_table
from forensics.report.sections import coverage
from forensics.run_output.reader import open_run
from forensics.schemas import CONTAINERS


def page(folder: Path, *rows: dict[str, object]) -> str:
    plain: dict[str, object] = {"how": "in order", "entries": 1, "read": 1, "left_out": 0}
    table = pa.Table.from_pylist([plain | {"reasons": []} | row for row in rows], CONTAINERS)
    write_table(table, folder / "tables/containers")
    (folder / "findings.json").write_text('{"schema": 1, "findings": []}')
    return str(coverage._container_table(open_run(folder)) or "")


def test_what_is_damaged_stands_first_and_whole_files_are_only_counted(tmp_path: Path) -> None:
    reason = {"reason": "symbolic links: not followed", "entries": 2, "examples": ["a"]}
    shown = page(
        tmp_path,
        {"container": "a.gz", "format": "gzip"},
        {"container": "b.tar", "format": "tar", "entries": 7, "read": 5, "left_out": 2,
         "reasons": [reason]},
        {"container": "<c>.zip", "format": "zip", "damaged": "its directory is missing"},
    )  # fmt: skip

    assert "3 containers" in shown
    assert "9 entries, 7 read, 2 left out" in shown
    assert shown.index("&lt;c&gt;.zip") < shown.index("b.tar")
    assert "2 symbolic links: not followed" in shown
    assert "a.gz" not in shown


def test_a_run_without_containers_shows_none(tmp_path: Path) -> None:
    assert page(tmp_path, {"container": "a.gz", "format": "gzip"}) == ""
