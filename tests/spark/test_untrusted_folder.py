"""Workers import nothing from the folder in which a run is started: logs may have brought it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
RUN = """
from forensics.engine.spark import open_spark

with open_spark("written", "local[1]") as engine:
    print(engine.session.range(2).mapInArrow(lambda batches: batches, "id long").count())
"""


def test_workers_do_not_import_from_the_current_folder(tmp_path: Path) -> None:
    logs, script = tmp_path / "logs", tmp_path / "run.py"
    logs.mkdir()
    (logs / "traceback.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    script.write_text(RUN)

    done = subprocess.run(
        [sys.executable, str(script)], cwd=logs, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert not (tmp_path / "ran").exists()
