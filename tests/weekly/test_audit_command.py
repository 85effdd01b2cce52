"""The commands `audit` and `rebuild`: what they end with, and what they say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.lib.limits import parse_limits
from forensics.weekly.store import lock_store
from tests.weekly.audits import Audits, archives_in, ignore_message


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archives_in(tmp_path_factory.mktemp("given"))["four"]


@pytest.fixture(scope="module")
def built(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("made") / "store"
    Audits(store).run(archive)
    return store


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "store")


def call(*words: object) -> Result:
    """Call a command; nothing here is new, so none of them needs Spark."""
    return CliRunner().invoke(make_group(jobs_folder()), list(map(str, words)), prog_name="x")


def test_a_quiet_day(archive: Path, store: Path) -> None:
    result = call("audit", archive, "--store", store)
    findings = (store / "weeks" / "2026-W47" / "findings.json").read_text("utf-8")

    assert 0 == result.exit_code
    labels = [line.split()[0] for line in result.stdout.splitlines()]
    assert ["read", "found", "INCIDENT", "page", "all"] == labels
    assert f"2026-W47: {json.loads(findings)['summary']}" in result.stdout
    assert (store / "weeks" / "2026-W47" / "index.html").as_uri() in result.stdout


def test_findings_of_a_level_end_with_3(archive: Path, store: Path) -> None:
    result = call("audit", archive, "--store", store, "--fail-on", "low", "-q", "--json")

    assert (3, 3) == (result.exit_code, json.loads(result.stdout)["exit_code"])
    assert "" == result.stderr


def test_what_cannot_be_read_ends_with_4_if_that_is_asked_for(archive: Path, store: Path) -> None:
    gone = store.with_name("gone.log")

    assert 0 == call("audit", archive, gone, "--store", store).exit_code
    result = call("audit", archive, gone, "--store", store, "--strict")
    assert 4 == result.exit_code
    assert "warning: gone.log: " in result.stderr


def test_a_store_that_is_held_ends_with_5(archive: Path, store: Path) -> None:
    with lock_store(store, 0, ignore_message):
        for words in (("audit", archive, "--store", store), ("rebuild", store)):
            result = call(*words)
            assert 5 == result.exit_code
            assert "" == result.stdout
            assert result.stderr.startswith(f"Error: Another run holds {store}: process ")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--week", "46"), 1, "Error: '46' is no week; write the ISO year and week"),
        (("--week", "2026-W01"), 1, "has no logs of 2026-W01; it has 2026-W47 to 2026-W47."),
        (("--keep-weeks", "0"), 2, "0 is not in the range x>=1"),
    ],
)
def test_what_makes_no_sense_is_told(
    words: tuple[str, ...], code: int, says: str, archive: Path, store: Path
) -> None:
    result = call("audit", archive, "--store", store, *words)

    assert code == result.exit_code
    assert says in result.stderr


def test_nothing_to_read_is_an_error(store: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = call("audit", tmp_path / "empty", "--store", store)

    assert 1 == result.exit_code
    assert "Error: nothing to read in " in result.stderr


def test_only_a_store_can_be_rebuilt(tmp_path: Path) -> None:
    result = call("rebuild", tmp_path)

    assert 1 == result.exit_code
    assert f"Error: {tmp_path} is no store: it has no store.json." in result.stderr


def test_the_output_of_a_command_is_audited_by_a_pasted_pattern(tmp_path: Path) -> None:
    lines = "".join(
        f"2026-11-18 11:38:{n:02},123 | x{n % 7} [KafkaServer id=1] started\\n" for n in range(40)
    )
    audits = Audits(tmp_path / "store")
    wishes: dict[str, Any] = {"commands": (f"printf '{lines}'",), "log_patterns": ("%d | %X %m%n",)}

    first = audits.run(**wishes)
    again = audits.run(**wishes)

    assert (first["files"], first["new"], first["events"]) == (1, 1, 40)
    assert (again["new"], again["week"]) == (0, "2026-W47")


def test_limits_hold_in_an_audit_and_are_named(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2026-11-18 11:38:00,123] INFO x (kafka.server.KafkaServer)\n" * 400)
    audits = Audits(tmp_path / "store")

    audits.run(log, limits=parse_limits(["unpacked_bytes=1000"]))

    assert any("unpacked_bytes" in line for line in audits.said)


def test_an_audit_of_nothing_is_a_wrong_command_line(tmp_path: Path) -> None:
    assert 2 == call("audit", "--store", tmp_path / "s").exit_code
    assert 1 == call("audit", "x", "--store", tmp_path / "s", "--limit", "entrys=5").exit_code
