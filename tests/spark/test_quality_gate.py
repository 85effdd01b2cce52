"""The gate through the command: exit code 4, its sentence, the page, and the library's pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.conftest import SAMPLES
from tests.spark.test_command import call

LOG = SAMPLES / "430-unclean/logs/broker-1/server.log"
SUITE = """expectations:
  - id: every-broker-is-there
    table: files
    expectation: ExpectColumnDistinctValuesToContainSet
    arguments: {column: node, value_set: [broker-1, broker-2]}
    words: Both of our brokers gave their logs.
    otherwise: logs of a broker are missing
    consequence: close
"""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack/quality").mkdir(parents=True)
    (tmp_path / "pack/quality/ours.yaml").write_text(SUITE)
    return tmp_path / "pack"


@pytest.mark.slow
def test_a_suite_of_ones_own_ends_the_command_with_4(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "logs/broker-1").mkdir(parents=True)
    (tmp_path / "logs/broker-1/server.log").write_bytes(LOG.read_bytes())
    done = call(
        tmp_path, "postmortem", "logs", "-o", "out", "--rules", str(pack), "--data-docs", "docs",
        "--engine", "local",
    )  # fmt: skip

    assert 4 == done.returncode, done.stderr
    told = json.loads((tmp_path / "out/_RESULT.json").read_text("utf-8"))
    says = "the quality gate is closed: logs of a broker are missing (missing: broker-2)"
    assert (4, says) == (told["exit_code"], told["reason"])
    assert {"gate": "closed", "close": 1} == {
        "gate": told["quality"]["gate"],
        "close": told["quality"]["failed"]["close"],
    }
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "the quality gate is closed, logs of a broker are missing" in page
    assert "The gate is closed." in page
    assert "Cannot tell: the quality gate is closed, logs of a broker are missing" in done.stdout
    assert (tmp_path / "docs/index.html").exists()


@pytest.mark.slow
def test_an_empty_log_ends_the_command_with_4(tmp_path: Path) -> None:
    (tmp_path / "server.log").touch()
    done = call(tmp_path, "postmortem", "server.log", "-o", "out", "--engine", "local")

    assert 4 == done.returncode, done.stderr
    assert "the quality gate is closed, no line of the archive could be read" in done.stdout


def test_a_wrong_suite_ends_the_command_before_anything_is_read(pack: Path, tmp_path: Path) -> None:
    (pack / "quality/ours.yaml").write_text(SUITE.replace("ContainSet", "ContainSets"))
    done = call(tmp_path, "postmortem", str(LOG), "-o", "out", "--rules", str(pack))

    assert 1 == done.returncode
    says = "there is no expectation 'ExpectColumnDistinctValuesToContainSets'; did you mean"
    assert f"{pack}/quality/ours.yaml:4: every-broker-is-there: {says}" in done.stderr
    assert not (tmp_path / "out/tables").exists()
