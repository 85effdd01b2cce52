"""Where driver and executors do not see the same files, the run says so; none of it needs a JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.engine import spark
from forensics.engine.spark import ScanTasks
from forensics.errors import ArchiveError, ForensicsError
from forensics.ingest.read_plan import plan_reading


def wrote(folder: Path, rows: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"line": range(rows)}), folder / f"part-{rows}.parquet")


def test_rows_that_executors_kept_to_themselves_are_missed(tmp_path: Path) -> None:
    wrote(tmp_path / "scan", 3)
    wrote(tmp_path / "scan", 4)

    spark._verify_rows_on_driver(tmp_path / "scan", 7)
    with pytest.raises(ForensicsError, match="and 7 of them are here") as told:
        spark._verify_rows_on_driver(tmp_path / "scan", 1007)
    with pytest.raises(ForensicsError, match="and 0 of them are here"):
        spark._verify_rows_on_driver(tmp_path / "nothing", 7)

    assert "must lie where the driver and all executors see the same files" in str(told.value)


def test_an_archive_that_an_executor_does_not_see_is_named(tmp_path: Path) -> None:
    log = tmp_path / "logs/server.log"
    log.parent.mkdir()
    log.write_text("[2026-11-18 11:51:22,793] INFO started (kafka.server.KafkaServer)\n")
    splits = plan_reading([str(log)]).splits
    shutil.rmtree(log.parent)
    first = pa.record_batch({"id": [0]})

    with pytest.raises(ArchiveError, match=r"server\.log is not there on .* see the same files"):
        list(ScanTasks([splits], "", "", context=False)([first]))


def test_a_bare_path_never_means_the_file_system_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert f"file://{tmp_path}/out 1:2/tables" == spark._file_uri(Path("out 1:2/tables"))
