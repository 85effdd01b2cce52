"""The first line of a table, and lines that only look like one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forensics.ingest.csv_documents import read_header, split_row
from tests.ingest.sample_archives import write
from tests.ingest.whole_runs import read
from tests.ingest.written_logs import PLAIN


def test_a_row_with_wide_cells_is_split_in_linear_time() -> None:
    begun = time.process_time()
    cells = split_row(f"a{' ' * 400_000}b | c")

    assert (len(cells), cells[1]) == (2, "c")
    assert time.process_time() - begun < 2


def test_the_first_line_of_a_table_names_its_columns() -> None:
    assert (";", ["time", "a message"]) == read_header(b'time;"a message"\r\n')


@pytest.mark.parametrize("line", [b"a,b\rc,d\n", b"\x00,\r\xff,x\n", b"a, b, c" * 200 + b"\rx"])
def test_a_carriage_return_in_the_middle_makes_no_header(line: bytes) -> None:
    assert read_header(line) is None


def test_a_log_whose_first_line_holds_a_carriage_return_is_read(tmp_path: Path) -> None:
    text = b"a, b,\rc\n" + PLAIN["broker-1/server.log"]
    write(tmp_path / "logs", {"broker-1/server.log": text})

    assert len(read(tmp_path / "logs").rows) > 20
