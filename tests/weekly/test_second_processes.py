"""A week with the logs of two processes that used the id of one broker."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from forensics.detection.registry import load_shipped_declarations


def test_a_week_takes_a_second_process_for_no_broker_as_a_postmortem_does(tmp_path: Path) -> None:
    [rule] = (one for one in load_shipped_declarations() if one.id == "duplicate-broker-id")
    for name, text in rule.samples[0].logs.items():
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    store = tmp_path / "store"
    given = ["audit", tmp_path / "logs", "--store", store, "--engine", "local", "-q"]

    done = CliRunner().invoke(make_group(jobs_folder()), [str(one) for one in given])

    [week] = store.glob("weeks/*/findings.json")
    found = json.loads(week.read_text())["findings"]
    assert done.exception is None or done.exit_code in {3, 4}, done.output
    assert "duplicate-broker-id" in {one["detector"] for one in found}
    assert not {one["detector"] for one in found} & {"broker-restart", "offline-partitions"}
