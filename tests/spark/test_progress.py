"""What is told while Spark reads: figures that its tasks have really reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forensics.engine import spark
from forensics.engine.progress import ProgressListener
from forensics.ingest.read_plan import plan_reading
from tests.spark.conftest import SAMPLES

SERVER = SAMPLES / "430-unclean/logs/broker-1/server.log"
SIZE = 40 << 20


class Listener(ProgressListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.counts: list[tuple[int, int]] = []

    def begin_stage(self, stage: str) -> None: ...

    def end_stage(self) -> None: ...

    def bytes_read(self, done: int, total: int) -> None:
        self.reads.append((done, total))

    def tasks_done(self, done: int, total: int) -> None:
        self.counts.append((done, total))


@pytest.mark.spark
def test_bytes_are_told_while_tasks_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself tells of a task only when it has ended."""
    monkeypatch.setattr(spark, "_POLL_SECONDS", 0.05)
    before = dict(os.environ)
    text = SERVER.read_bytes()
    log = tmp_path / "server.log"
    log.write_bytes(text * (SIZE // len(text)))
    splits = plan_reading([str(log)], 4 << 20).splits
    listener = Listener()
    cluster = spark.SparkEngine(str(tmp_path / "written"), "local[1]", listener)
    try:
        cluster.scan(splits, "", tmp_path / "staging/scan")
    finally:
        cluster.stop()
        os.environ.clear()
        os.environ.update(before)

    done = [count for count, _ in listener.reads]
    assert {log.stat().st_size} == {of for _, of in listener.reads}
    assert any(0 < count < log.stat().st_size for count in done)
    assert max(done) <= log.stat().st_size
    counts = {told for told in listener.counts if told[1]}
    assert counts
    assert all(ended <= of for ended, of in counts)
    assert cluster._poller._thread is not None
    assert not cluster._poller._thread.is_alive()
