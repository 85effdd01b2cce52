"""Where driver and executors do not see the same files, the run says so; none of it needs a JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.engine.spark import open_spark
from forensics.engine.task_files import ScanTasks, TaskFiles
from forensics.errors import ArchiveError, ForensicsError
from forensics.events.scan import STAGED_SCHEMA
from forensics.ingest.read_plan import plan_reading

SAMPLE = Path(__file__).parents[2] / "sample_logs/391-rebalances"


def test_only_the_attempts_that_count_are_read(tmp_path: Path) -> None:
    splits = plan_reading([str(SAMPLE)]).splits[:2]
    first, second = (pa.record_batch({"id": [number]}) for number in range(2))
    files = TaskFiles(str(tmp_path / "written"))
    tasks = ScanTasks([splits[:1], splits[1:]], "", files.exchange, str(tmp_path), context=False)
    lost = list(tasks(iter([first])))
    # What is tried again gives the same rows under another name; a killed attempt leaves half.
    named = [row for batch in tasks(iter([first, second])) for row in batch.to_pylist()]
    (tmp_path / "written/killed.parquet").write_bytes(b"PAR1")

    files.keep(tmp_path / "scan", STAGED_SCHEMA, [(row["name"], row["rows"]) for row in named])

    kept = pq.read_table(tmp_path / "scan")
    assert len(named) == 2
    assert lost[0]["rows"][0].as_py() == named[0]["rows"]
    assert len(kept) == sum(row["rows"] for row in named)
    assert kept.schema.equals(STAGED_SCHEMA)


def test_an_archive_that_an_executor_does_not_see_is_named(tmp_path: Path) -> None:
    log = tmp_path / "logs/server.log"
    log.parent.mkdir()
    log.write_text("[2026-11-18 11:51:22,793] INFO started (kafka.server.KafkaServer)\n")
    splits = plan_reading([str(log)]).splits
    shutil.rmtree(log.parent)
    first = pa.record_batch({"id": [0]})

    with pytest.raises(ArchiveError, match=r"server\.log is not there on .* see the same files"):
        list(ScanTasks([splits], "", str(tmp_path), "", context=False)([first]))


@pytest.mark.parametrize("variable", [True, False])
def test_spark_connect_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    """Its sessions have no SparkContext, on which counting, describing and stopping tasks rest."""
    remote = "sc://127.0.0.1:15002"
    if variable:
        monkeypatch.setenv("SPARK_REMOTE", remote)

    with (
        pytest.raises(ForensicsError, match=r"sc://.* no SparkContext"),
        open_spark(str(tmp_path), None if variable else remote),
    ):
        pytest.fail("it was opened")
