"""Workers import nothing from the folder in which a run is started: logs may have brought it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.spark import open_spark

pytestmark = pytest.mark.spark


def test_workers_do_not_import_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traceback.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)

    with open_spark("local[1]") as engine:
        rows = engine.session.range(2).mapInPandas(iter, "id long").collect()

    assert len(rows) == 2
    assert not (tmp_path / "ran").exists()
