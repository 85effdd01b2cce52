"""The command `rules`: what it says of the rules, and of a log."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.lib.text_safety import printable
from tests.rule_tools.test_check import RULE

SAMPLE = Path(__file__).parents[2] / "sample_logs/430-unclean/logs"
LOG = """\
stray words before any record

[2026-11-18 11:51:22,793] INFO [Partition a-b-3 broker=1] ISR updated to 1,2  and version updated to 7 (kafka.cluster.Partition)
[2026-11-18 11:51:22,800] INFO [Partition a-b-3 broker=1] Something \x1b[31m else 12 (kafka.cluster.Partition)
[2026-11-18 11:51:22,801] INFO [Partition a-b-4 broker=2] Something \x1b[31m else 3 (kafka.cluster.Partition)
[2026-11-18 11:51:22,802] INFO [Partition a-b-4 broker=2] Only once (kafka.cluster.Partition)
[2026-11-18 11:51:22,803] INFO Cleaner 0: nobody listens (com.acme.Cleaner)
"""  # noqa: E501


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    return path


def rules(*arguments: str) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["rules", *arguments])


def test_check_says_in_one_line_that_all_hold() -> None:
    done = rules("check")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("wrappers: all hold\n")
    assert done.stdout.count("\n") == 1


def test_check_prints_file_and_line_of_every_problem_and_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "isr.yaml"
    path.write_text(RULE.replace("isr: [1, 2]", "isr: []").replace("partition: 3", "partition: 4"))

    done = rules("check", str(path))

    assert done.exit_code == 1
    assert f"{path}:9: gives isr: expected [], got [1, 2]\n" in done.stderr
    assert f"{path}:9: gives partition: expected 4, got 3\n" in done.stderr


def test_explain_shows_the_rule_and_its_facts_and_counts_at_the_end(log: Path) -> None:
    done = rules("explain", str(log))

    assert done.stdout.splitlines() == [
        (
            "server.log:3 isr.updated@3.1 partition_state topic=a-b partition=3 leader=1"
            " partition_epoch=7 isr=[1,2] broker=1"
        ),
        "       1  isr.updated@3.1",
        "5 records, 1 claimed, 1 lines in no known layout",
    ]


def test_unclaimed_shows_the_shapes_of_the_loggers_we_know(log: Path) -> None:
    done = rules("explain", str(log), "--unclaimed")

    assert done.stdout.splitlines() == [
        "       2  Partition INFO [Partition a-b-# broker=#] Something <U+001B>[#m else #",
        "       1  Partition INFO [Partition a-b-# broker=#] Only once",
        "5 records, 1 claimed, 1 lines in no known layout",
    ]


def test_a_limit_shows_less_and_counts_the_same(log: Path) -> None:
    assert rules("explain", str(log), "--unclaimed", "--limit", "1").stdout.count("\n") == 2
    assert rules("explain", str(log), "--limit", "0").stdout.splitlines() == [
        "       1  isr.updated@3.1",
        "5 records, 1 claimed, 1 lines in no known layout",
    ]


def test_a_member_of_an_archive_is_explained_like_a_file(log: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs.tgz", "w:gz") as archive:
        archive.add(log, "broker-1/server.log")

    done = rules("explain", str(tmp_path / "logs.tgz"))

    assert done.stdout.startswith("logs.tgz!broker-1/server.log:3 isr.updated@3.1 ")


def test_a_damaged_archive_is_read_as_far_as_it_goes(log: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs.tgz", "w:gz") as archive:
        archive.add(log, "server.log")
    whole = (tmp_path / "logs.tgz").read_bytes()
    (tmp_path / "logs.tgz").write_bytes(whole[:-30])

    done = rules("explain", str(tmp_path / "logs.tgz"))

    assert done.exit_code == 0
    assert done.stderr.startswith("warning: logs.tgz")


def test_what_is_claimed_does_not_depend_on_the_size_of_the_blocks_a_file_is_read_in(
    tmp_path: Path,
) -> None:
    once = LOG[LOG.index("[") :]
    path = tmp_path / "big.log"
    path.write_text(once * 6000)

    done = rules("explain", str(path), "--limit", "0")

    assert done.stdout.endswith("30000 records, 6000 claimed, 0 lines in no known layout\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = "import sys; from forensics.cli.app import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "rules", "explain", str(SAMPLE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert first.startswith(b"logs/")
    assert errors == b""


def test_a_log_with_other_letters_is_shown_on_a_terminal_that_has_none(tmp_path: Path) -> None:
    path = tmp_path / "größe.log"
    path.write_text(LOG)
    code = "import sys; from forensics.cli.app import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, "rules", "explain", str(path)],
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        cwd=SAMPLE.parents[2],
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"gr\\xf6\\xdfe.log:3 ")


def test_every_character_that_a_terminal_obeys_is_shown_as_its_code() -> None:
    everything = "".join(map(chr, [*range(0x3000), *range(0xD7F0, 0xE010), 0x1F600, 0xE0001]))

    shown = printable(everything)

    assert shown.isprintable()
    assert "\x1b" not in shown
    assert printable("größe \U0001f600") == "größe \U0001f600"
