"""An audit through Spark, as people start it: the store is what it would be without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.weekly.audits import Audits, archives_in
from tests.weekly.shifted_logs import read_store

pytestmark = pytest.mark.spark


def test_spark_gives_the_same_store_byte_for_byte(tmp_path: Path) -> None:
    """The archive reaches over the edge of a week, so that there are two."""
    given = archives_in(tmp_path / "given")["two"]
    done = subprocess.run(
        [sys.executable, "-m", "forensics", "audit", given, "--store", tmp_path / "spark",
         "--master", "local[2]", "--json"],
        env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    audits = Audits(tmp_path / "here")
    expected = audits.run(given)

    assert 0 == done.returncode, done.stderr
    result = json.loads(done.stdout)
    assert ["2026-W45", "2026-W46"] == result["built"] == expected["built"]
    assert result == json.loads((tmp_path / "spark" / "_RESULT.json").read_text("utf-8"))
    assert read_store(audits.store) == read_store(tmp_path / "spark")
