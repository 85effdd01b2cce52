"""The timeline of an archive: it is read first, and what is kept of that can be asked again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from tests.spark.conftest import SAMPLES

LOGS = SAMPLES / "430-unclean/logs"
PARTS = ("broker-1/state-change.log", "broker-2/state-change.log", "controller-1/controller.log")


@pytest.mark.slow
def test_an_archive_is_read_and_kept_and_can_be_asked_again(tmp_path: Path) -> None:
    for name in PARTS:
        (tmp_path / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(LOGS / name, tmp_path / "logs" / name)
    archive, out = str(tmp_path / "logs"), str(tmp_path / "out")
    asked = ["--partition", "metrics-firehose-1", "--broker", "2"]
    command = make_group(jobs_folder())

    first = CliRunner().invoke(
        command, ["timeline", archive, *asked, "-o", out, "--engine", "local"]
    )
    again = CliRunner().invoke(command, ["timeline", out, *asked])

    assert (0, 0) == (first.exit_code, again.exit_code)
    assert first.stdout == again.stdout
    assert first.stdout.startswith(
        "metrics-firehose-1: 5 leader epochs (0 to 4), led by 2, 1, none"
    )
    assert "epoch 3: broker 2 leads; unclean election" in first.stdout
    assert "logs/controller-1/controller.log:98" in first.stdout
    assert "\nbroker 2: " in first.stdout
    assert (tmp_path / "out/report.html").is_file()
