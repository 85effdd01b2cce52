"""A number that is wrong, or a lie, costs neither hours nor memory, and the rest is still told."""

from __future__ import annotations

import time
from pathlib import Path

from forensics.detection.registry import detect
from forensics.detection.thresholds import load_limits
from forensics.report.histories.partition import _missing_versions
from forensics.sandbox import run_lines

MOST = 2_147_483_000
STARTS = (
    "[2026-11-18 11:{minute}:00,000] INFO [Broker id=1] Leader orders-7 with topic id"
    " Some(Ryr4ARyzTu2whwW6IpwSyw) starts at leader epoch {epoch} from offset 40 with partition"
    " epoch {version}, high watermark 40, ISR [1,2,3], adding replicas [] and removing replicas []"
    " . Previous leader Some(2) and previous leader epoch was {before}. (state.change.logger)\n"
)
CUT = (
    "[2026-11-18 11:50:00,000] INFO [UnifiedLog partition=orders-7, dir=/data] Truncating to offset"
    " 12 (kafka.log.UnifiedLog)\n"
)


def test_epochs_billions_apart(tmp_path: Path) -> None:
    log = "".join(
        STARTS.format(minute=40 + n, epoch=epoch, version=version, before=epoch - 1)
        for n, (epoch, version) in enumerate([(1, 3), (2, 4), (MOST, MOST), (MOST + 1, MOST + 1)])
    )
    begun = time.process_time()
    trial = run_lines({"broker-1/state-change.log": log, "broker-1/server.log": CUT}, tmp_path)
    case = trial.context(load_limits())
    answers = detect(trial.tables, trial.past)

    assert time.process_time() - begun < 20
    rows = case.rows("leadership", None, ["leader_epoch", "previous_leader", "leader"])
    told = {row["leader_epoch"]: row for row in rows}
    assert [1, 2, MOST, MOST + 1] == sorted(told)
    assert [1, 1] == [told[one]["leader"] for one in (2, MOST)]
    # Nobody knows who led just before it.
    assert told[MOST]["previous_leader"] in (None, 2)
    assert answers.outcomes


def test_a_gap_of_billions_is_named_in_a_few_words() -> None:
    row = {"partition_epoch": MOST, "started_at": 0}
    (placed,) = _missing_versions({"partition_epoch": 3}, row, 0)

    assert len(str(placed)) < 1000
