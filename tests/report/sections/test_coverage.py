"""The coverage section says how lines were read, where that was not known beforehand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from forensics.lib.arrow_io import write_table
from forensics.report.sections import coverage
from forensics.run_output.reader import open_run
from forensics.schemas import FILES, LAYOUTS

ROW = {"file": "logs/a.log", "layout": "apache", "found": "known", "first_line": 1,
       "last_line": 9, "records": 9}  # fmt: skip


def page(folder: Path, *rows: dict[str, object]) -> str:
    table = pa.Table.from_pylist([ROW | row for row in rows], LAYOUTS)
    write_table(table, folder / "tables/layouts")
    log = {"file": "logs/a.log", "node": "broker-1", "role": "broker", "lines": 9, "records": 9,
           "unparsed_lines": 0}  # fmt: skip
    write_table(pa.Table.from_pylist([log], FILES), folder / "tables/files")
    (folder / "findings.json").write_text('{"schema": 1, "findings": []}')
    return str(coverage.render(open_run(folder)))


def test_layouts_that_were_not_known_are_listed_with_their_lines(tmp_path: Path) -> None:
    pasted = {"layout": "%d <%p> %m", "found": "pasted", "first_line": 10, "last_line": 2000,
              "records": 1500}  # fmt: skip
    other = pasted | {"file": "logs/b.log", "first_line": 1}
    shown = page(tmp_path, {}, pasted, other)

    assert "How lines were read" in shown
    assert "%d &lt;%p&gt; %m" in shown
    assert "given by --log-pattern" in shown
    assert "3,000" in shown
    assert "2 files, as logs/a.log, lines 10 to 2,000" in shown


@pytest.mark.parametrize("rows", [(), ({},)])
def test_nothing_is_said_of_layouts_that_everybody_knows(
    rows: tuple[dict[str, object], ...], tmp_path: Path
) -> None:
    assert "How lines were read" not in page(tmp_path, *rows)
