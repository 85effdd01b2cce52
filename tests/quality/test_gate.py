"""The gate at work: logs are spoilt, read by the real stages, and what is found is trusted less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.quality.expectations import load_expectations
from tests.quality.cases import SAMPLES, Judged, judged, later, rolling, spoilt

pytestmark = pytest.mark.slow

Spoil = Callable[[str, Callable[[str], str]], Judged]
STATE = (
    "[2026-11-18 {clock},000] INFO [Broker id=1] Leader orders-v2-7 with topic id "
    "Some(Ryr4ARyzTu2whwW6IpwSyw) starts at leader epoch {epoch} from offset 40 with partition "
    "epoch {version}, high watermark 40, ISR [1,2,3], adding replicas [] and removing replicas [] "
    ". Previous leader Some(2) and previous leader epoch was {before}. (state.change.logger)\n"
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a rolling restart."""
    return rolling(tmp_path_factory.mktemp("rolling"))


@pytest.fixture(scope="module")
def healthy(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """What is made of them as they are."""
    return judged(logs, tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def spoil(logs: Path, tmp_path: Path) -> Spoil:
    """Change one file and judge all of them."""

    def changed(name: str, change: Callable[[str], str]) -> Judged:
        return judged(spoilt(logs, tmp_path / "logs", name, change), tmp_path / "out")

    return changed


def test_logs_as_they_should_be_keep_the_gate_open(healthy: Judged) -> None:
    assert (set(), "clear", 0) == (healthy.failed, healthy.document["verdict"], healthy.code)
    assert {one.id for one in load_expectations()} == set(healthy.checks)
    assert {"gate": "open", "closed": [], "checks": len(healthy.checks), "failed": []} == (
        healthy.document["quality"]
    )
    assert not any(one["downgraded"] for one in healthy.document["findings"])


def test_time_that_goes_backwards_downgrades_what_rests_on_that_file(
    spoil: Spoil, healthy: Judged
) -> None:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        half = len(lines) // 2
        return later("".join(lines[:half]), 4000) + "".join(lines[half:])

    found = spoil("broker-3/server.log", change)
    row = found.checks["time-goes-forward"]

    assert not row["success"]
    assert ("1 of 23", "broker-3/server.log: 1") == (
        row["observed"].partition(":")[0],
        row["observed"].partition("!")[0][-22:],
    )
    touched = found.touched("time-goes-forward")
    assert touched
    assert sorted(row["findings"]) == sorted(one["id"] for one in touched)
    for one in found.document["findings"]:
        rests = {proof["file"].endswith("broker-3/server.log") for proof in one["evidence"]}
        assert (True in rests) == (one in touched)
    steps = touched[0]["downgraded"]
    assert ("confirmed", touched[0]["confidence"]) == (steps[0]["from"], steps[-1]["to"])
    assert "confirmed" != touched[0]["confidence"]
    step = next(one for one in steps if one["check"] == "time-goes-forward")
    assert step["because"] in touched[0]["confidence_reason"]
    assert any("An expectation failed: The time of a file" in says for says in touched[0]["doubts"])
    assert ("clear", 0) == (healthy.document["verdict"], healthy.code)
    # A truncation, of which nothing is true, comes of the wrong times: now it is no more than that.
    assert {"possible"} == {one["confidence"] for one in touched}


def test_epochs_that_fall_downgrade_their_partition_alone(spoil: Spoil) -> None:
    told = "".join(
        STATE.format(clock=clock, epoch=epoch, before=epoch - 1, version=version)
        for clock, epoch, version in (
            ("23:00:01", 41, 90),
            ("23:00:11", 12, 31),
            ("23:00:21", 13, 33),
        )
    )
    found = spoil("broker-1/state-change.log", lambda text: text + told)
    row = found.checks["epochs-never-fall"]

    assert not row["success"]
    assert "orders-v2-7: leader epoch 41, then 12 at" in row["observed"]
    assert "cannot_tell" == found.document["verdict"] or found.touched("epochs-never-fall")
    for one in found.document["findings"]:
        mine = "orders-v2-7" in one["partitions"]
        assert mine == (one in found.touched("epochs-never-fall"))


def test_a_log_of_which_two_fifths_are_unknown_is_not_called_clear(spoil: Spoil) -> None:
    def change(text: str) -> str:
        lines = len(text.splitlines()) * 2 // 3
        return "".join(f"event {number} of another program\n" for number in range(lines)) + text

    found = spoil("broker-3/server.log", change)
    row = found.checks["nearly-all-of-a-log-is-known"]

    assert (False, "0.6") == (row["success"], row["observed"][-3:])
    assert ("cannot_tell", 4) == (found.document["verdict"], found.code)
    assert row["otherwise"] in found.reason
    assert {"most-lines-are-known", "nearly-all-of-a-log-is-known"} == found.failed


def test_lines_of_another_program_between_those_of_a_server_are_seen_too(spoil: Spoil) -> None:
    """They stand below records, as stack traces do, and are counted with them."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        pairs = ([*lines[at : at + 3], f"took {at} ms\n" * 2] for at in range(0, len(lines), 3))
        return "".join(line for pair in pairs for line in pair)

    found = spoil("broker-3/server.log", change)
    row = found.checks["servers-write-no-stray-lines"]

    assert {"servers-write-no-stray-lines"} == found.failed
    assert row["observed"].endswith("broker-3/server.log: 0.4")
    assert ("cannot_tell", 4) == (found.document["verdict"], found.code)
    assert row["otherwise"] in found.document["summary"]


def test_a_detector_whose_logs_all_failed_cannot_tell(logs: Path, tmp_path: Path) -> None:
    junk = "".join(f"event {number} of another program\n" for number in range(20_000))
    found = judged(
        spoilt(logs, tmp_path / "logs", "app-orders/client.log", lambda text: junk + text)
        / "app-orders",
        tmp_path / "out",
    )
    answers = {one["detector"]: one for one in found.document["detectors"]}

    assert {"close", "downgrade", "note"} == {
        row["consequence"] for row in found.checks.values() if not row["success"]
    }
    client = answers["serialization-errors"]
    assert "not_evaluable" == client["status"]
    assert "nearly-all-of-a-log-is-known" in " ".join(client["reasons"])


@pytest.mark.parametrize("text", ["", "\n\n", "nothing that any logger writes\n" * 50])
def test_an_empty_input_closes_the_gate(text: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/server.log").write_text(text)
    found = judged(tmp_path / "logs", tmp_path / "out")

    assert ("cannot_tell", 4) == (found.document["verdict"], found.code)
    assert "records-were-read" in found.failed
    assert found.reason.startswith("the quality gate is closed: ")
    assert "no line of the archive could be read as a log's" in " ".join(
        found.document["quality"]["closed"]
    )


def test_a_suite_of_ones_own_closes_the_gate_and_changes_shipped_ones(
    logs: Path, tmp_path: Path
) -> None:
    """The pack's limit of parsed lines takes the place of the shipped one, by its id."""
    pack = tmp_path / "pack"
    (pack / "quality").mkdir(parents=True)
    (pack / "quality/ours.yaml").write_text("""
expectations:
  - id: every-broker-is-there
    table: files
    expectation: ExpectColumnDistinctValuesToContainSet
    arguments: {column: node, value_set: [broker-1, broker-2, broker-3, broker-4]}
    where: {role: broker}
    words: Each of our four brokers gave its logs.
    otherwise: logs of a broker are missing
    consequence: close
  - id: most-lines-are-known
    table: files
    expectation: ExpectColumnValuesToBeBetween
    arguments: {column: lines, min_value: 1000000}
    where: {node: [broker-1, broker-2]}
    words: Our logs are long.
    otherwise: a log is short
    consequence: note
""")
    found = judged(logs, tmp_path / "out", [pack])

    assert {"every-broker-is-there", "most-lines-are-known"} == found.failed
    row = found.checks["every-broker-is-there"]
    assert ("missing: broker-4", "close") == (row["observed"], row["consequence"])
    says = "logs of a broker are missing (missing: broker-4)"
    assert (4, f"the quality gate is closed: {says}") == (found.code, found.reason)
    assert ("cannot_tell", "closed") == (
        found.document["verdict"],
        found.document["quality"]["gate"],
    )
    assert says in found.document["summary"]
    # It is about the whole, so all that was found is less sure; by one step, and once.
    assert all(
        ["every-broker-is-there"] == [step["check"] for step in one["downgraded"]]
        for one in found.document["findings"]
    )


@pytest.mark.parametrize(
    "archive",
    ["282-expired-offsets/logs.tar.gz", "362-deleted-topic/logs.tar.gz", "430-unclean/logs"],
)
def test_logs_of_incidents_pass_too(archive: str, tmp_path: Path) -> None:
    """What is wrong with a cluster is no fault of its logs."""
    found = judged(SAMPLES / archive, tmp_path)

    assert (set(), "incident") == (found.failed, found.document["verdict"])
