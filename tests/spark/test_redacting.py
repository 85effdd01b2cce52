"""A redacted postmortem from the command line: killed in its midst, then run to its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forensics.redaction.pseudonyms import CLASSES
from tests.report.export_outputs import survivors
from tests.spark.conftest import SAMPLES

pytestmark = pytest.mark.spark

NAMES = ["app-orders", "app-metrics", "metrics-firehose", "orders-v2", "payments.events"]


def started(out: Path) -> subprocess.Popen[str]:
    archive = SAMPLES / "430-unclean" / "logs"
    words = (
        "postmortem",
        archive,
        "-o",
        out,
        "--redact",
        "all",
        "--master",
        "local[2]",
        "-q",
        "--json",
    )
    return subprocess.Popen(
        [sys.executable, "-m", "forensics", *map(str, words)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_nothing_that_has_a_name_ever_lies_in_the_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started(out)
    while not list(tmp_path.glob(".out.private-*/run/tables/events/*.parquet")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()

    # What a kill leaves is in a folder that its owner alone can enter.
    (private,) = tmp_path.glob(".out.private-*")
    assert private.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in out.glob("*")] in ([], [".lock"])

    process = started(out)
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    result = json.loads(told)
    assert (result["verdict"], result["page"]) == ("incident", str(out / "report.html"))
    assert "command" not in result
    assert json.loads((out / "_RESULT.json").read_text("utf-8")) == result
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.redaction-map.json"]
    document = json.loads((out / "findings.json").read_text("utf-8"))
    assert document["redaction"]["classes"] == list(CLASSES)
    assert survivors([out], NAMES) == set()
