"""The command as people start it: what it says, how it ends, and how quickly it helps."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.conftest import SAMPLES
from tests.spark.truth import table

COMMAND = Path(sys.executable).with_name("kafka-forensics")
LOGS = SAMPLES / "430-unclean/logs"

Done = subprocess.CompletedProcess[str]


def call(folder: Path, *arguments: str, **environment: str) -> Done:
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good archive and one that was cut off."""
    root = tmp_path_factory.mktemp("command")
    for name in ("server.log", "state-change.log"):
        (root / f"good-{name}").write_bytes((LOGS / "broker-1" / name).read_bytes())
    packed = gzip.compress((LOGS / "broker-2/server.log").read_bytes())
    (root / "cut.log.gz").write_bytes(packed[: len(packed) * 3 // 4])
    return root


@pytest.fixture(scope="module")
def done(folder: Path) -> Done:
    """One run over what is good, what is cut, and what is not there."""
    archives = ["nope", "good-server.log", "cut.log.gz", "good-state-change.log"]
    return call(folder, "postmortem", *archives, "-o", "out", "--master", "local[2]")


@pytest.mark.spark
def test_what_cannot_be_read_is_a_warning_and_the_rest_is_read(done: Done, folder: Path) -> None:
    rows = {row["file"]: row for row in table(folder / "out", "files")}

    assert (0, "") == (done.returncode, done.stderr if done.returncode else "")
    assert (
        f"warning: nope: there is no file or folder {folder / 'nope'}; the rest is read\n"
        in done.stderr
    )
    assert {"nope", "good-server.log", "cut.log.gz", "good-state-change.log"} == set(rows)
    for name in ("server.log", "state-change.log"):
        text = (LOGS / "broker-1" / name).read_bytes()
        assert text.count(b"\n") == rows[f"good-{name}"]["lines"]


@pytest.mark.spark
def test_a_damaged_file_is_named_and_read_as_far_as_it_goes(done: Done, folder: Path) -> None:
    row = next(row for row in table(folder / "out", "files") if row["file"] == "cut.log.gz")

    assert (
        f"warning: cut.log.gz: gzip data cut off after {row['bytes']} bytes of text" in done.stderr
    )
    assert 1000 < row["lines"] < (LOGS / "broker-2/server.log").read_bytes().count(b"\n")
    assert row["damaged"].startswith("gzip data cut off")


@pytest.mark.spark
def test_the_last_words_are_the_verdict_and_the_page(done: Done, folder: Path) -> None:
    document = json.loads((folder / "out/findings.json").read_text(encoding="utf-8"))
    lines = done.stdout.splitlines()

    assert len(lines) <= 8
    assert lines[0].startswith("read ")
    assert any(line.startswith(("INCIDENT", "CANNOT TELL")) for line in lines)
    assert document["verdict"] != "clear"
    assert lines[-1].split() == ["page", (folder / "out/report.html").as_uri()]
    assert (folder / "out/report.html").stat().st_size > 10_000
    assert "Traceback" not in done.stderr


def test_only_a_missing_path_is_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    nope = tmp_path / "nope"
    done = call(tmp_path, "postmortem", str(nope), "-o", "out")

    assert (1, "") == (done.returncode, done.stdout)
    why = f"nothing to read in {nope} (nope: there is no file or folder {nope})"
    assert f"Error: {why}\n" == done.stderr
    (result,) = (tmp_path / "out").iterdir()
    assert (1, f"ArchiveError: {why}") == tuple(
        json.loads(result.read_text())[name] for name in ("exit_code", "reason")
    )


def test_a_run_without_archives_says_how_it_is_used(tmp_path: Path) -> None:
    done = call(tmp_path, "postmortem", "-o", "out")

    assert 2 == done.returncode
    assert "Missing argument 'ARCHIVE...'" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["postmortem", "--help"]])
def test_help_needs_no_java_and_is_quick(arguments: list[str], tmp_path: Path) -> None:
    """The better of two tries counts: another process may have had the machine."""
    took = []
    for _ in range(2):
        started = time.monotonic()
        done = call(tmp_path, *arguments, JAVA_HOME="/nowhere", PATH="/nowhere")
        took.append(time.monotonic() - started)
        assert (0, "") == (done.returncode, done.stderr)
        assert done.stdout.startswith("Usage: kafka-forensics ")

    assert min(took) < 3


@pytest.mark.spark
def test_a_pack_of_ones_own_is_used_and_named(tmp_path: Path) -> None:
    pack = tmp_path / "acme"
    (pack / "kinds").mkdir(parents=True)
    (pack / "pack.yaml").write_text("name: acme\nversion: '7'\ndisable: [log.loaded]\n")
    (pack / "kinds/acme.yaml").write_text("acme_flagged: a flag\n")
    line = "[2026-11-18 11:51:22,793] INFO flag late raised for orders-3 (com.acme.Interceptor)"
    (pack / "flag.yaml").write_text(
        "id: acme.flag\nkind: acme_flagged\nlogger: Interceptor\nwordings:\n"
        '  - versions: ["3.0", "4.3"]\n    match: "flag {detail:word} raised for {:tp}"\n'
        f'    examples: [{{line: "{line}", gives: {{topic: orders, partition: 3}}}}]\n'
        f'refuses: ["{line.replace("raised", "lowered")}"]\n'
    )
    server = (LOGS / "broker-1/server.log").read_text().splitlines()[:400]
    (tmp_path / "server.log").write_text("\n".join([*server, line, ""]))

    done = call(
        tmp_path, "postmortem", "server.log", "-o", "out", "--rules", "acme", "--master", "local[1]"
    )

    events = table(tmp_path / "out", "events")
    found = json.loads((tmp_path / "out/findings.json").read_text())
    # Four hundred lines of one broker do not let anyone tell.
    assert (4, "cannot_tell") == (done.returncode, found["verdict"])
    assert [("orders", 3, 401)] == [
        (row["topic"], row["partition"], row["line"])
        for row in events
        if row["rule"] == "acme.flag@3.0"
    ]
    assert "log_loaded" not in {row["kind"] for row in events}
    assert ["kafka-forensics", "acme"] == [one["name"] for one in found["packs"]]
