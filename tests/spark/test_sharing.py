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
from forensics.events.scan import STAGED_SCHEMA
from forensics.ingest.read_plan import plan_reading

SAMPLE = Path(__file__).parents[2] / "sample_logs/391-rebalances"


def wrote(folder: Path, rows: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"line": range(rows)}), folder / f"part-{rows}.parquet")


def test_rows_that_executors_kept_to_themselves_are_missed(tmp_path: Path) -> None:
    wrote(tmp_path / "attempts", 3)
    wrote(tmp_path / "attempts", 4)

    named = {"part-3.parquet": 3, "part-4.parquet": 4}
    with pytest.raises(ForensicsError, match="and 7 of them are here") as told:
        spark.keep_written(
            tmp_path / "attempts", named | {"part-9.parquet": 1000}, tmp_path / "scan"
        )
    with pytest.raises(ForensicsError, match="and 0 of them are here"):
        spark.keep_written(tmp_path / "nothing", named, tmp_path / "scan")
    assert "must lie where the driver and all executors see the same files" in str(told.value)

    spark.keep_written(tmp_path / "attempts", named, tmp_path / "scan")
    assert sorted(path.name for path in (tmp_path / "scan").iterdir()) == sorted(named)


def test_only_the_attempts_that_count_are_read(tmp_path: Path) -> None:
    splits = plan_reading([str(SAMPLE)]).splits[:2]
    (tmp_path / "attempts").mkdir()
    first, second = (pa.record_batch({"id": [number]}) for number in range(2))
    tasks = ScanTasks([splits[:1], splits[1:]], "", f"{tmp_path}/attempts", str(tmp_path), False)
    lost = list(tasks([first]))
    # What is tried again gives the same rows under another name; a killed attempt leaves half.
    named = [row for batch in tasks([first, second]) for row in batch.to_pylist()]
    (tmp_path / "attempts/part-00001-killed.parquet").write_bytes(b"PAR1")
    wrote(tmp_path / "scan", 5)

    spark.keep_written(
        tmp_path / "attempts", {row["name"]: row["rows"] for row in named}, tmp_path / "scan"
    )

    kept = pq.read_table(tmp_path / "scan")
    assert len(named) == 2
    assert lost[0]["rows"][0].as_py() == named[0]["rows"]
    assert len(kept) == sum(row["rows"] for row in named)
    assert kept.schema.equals(STAGED_SCHEMA)
    assert not (tmp_path / "attempts").exists()


def test_a_scan_of_nothing_leaves_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    spark.keep_written(tmp_path / "attempts", {}, tmp_path / "scan")
    assert pq.read_table(tmp_path / "scan").schema.equals(STAGED_SCHEMA)


def test_an_archive_that_an_executor_does_not_see_is_named(tmp_path: Path) -> None:
    log = tmp_path / "logs/server.log"
    log.parent.mkdir()
    log.write_text("[2026-11-18 11:51:22,793] INFO started (kafka.server.KafkaServer)\n")
    splits = plan_reading([str(log)]).splits
    shutil.rmtree(log.parent)
    first = pa.record_batch({"id": [0]})

    with pytest.raises(ArchiveError, match=r"server\.log is not there on .* see the same files"):
        list(ScanTasks([splits], "", str(tmp_path), "", context=False)([first]))


def test_a_bare_path_never_means_the_file_system_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert f"file://{tmp_path}/out 1:2/tables" == spark._file_uri(Path("out 1:2/tables"))
