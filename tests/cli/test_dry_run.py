"""What a run without a run says: what a real one would find, from the heads of the files."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.cli.dry_run import HEAD_BYTES, preview_run
from forensics.events.file_accounts import FileAccount
from forensics.ingest.read_plan import plan_reading
from forensics.settings import Settings
from tests.recorded_runs import read_recording

SAMPLES = Path(__file__).parents[2] / "sample_logs"
SERVER = SAMPLES / "430-unclean/logs/broker-1/server.log"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["postmortem", *arguments])


@pytest.mark.parametrize("archive", ["430-unclean/logs", "282-flapping/logs.tar.gz"])
def test_it_says_of_each_file_what_a_real_run_says(
    archive: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(SAMPLES / archive)
    seen = preview_run(Settings((path,), Path()))
    real = read_recording(tmp_path_factory, archive.partition("/")[0]).files

    def told(one: FileAccount) -> tuple[object, ...]:
        return one.to_row()["layout"], one.node, one.role

    assert {row["file"]: (row["layout"], row["node"], row["role"]) for row in seen.rows} == {
        name: told(one) for name, one in real.items()
    }
    assert sum(split.bytes for split in plan_reading([path]).splits) == seen.bytes
    assert 0 < seen.seconds[0] < seen.seconds[1]


def read_so_far() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def test_less_than_a_megabyte_of_each_file_is_read(tmp_path: Path) -> None:
    lines = SERVER.read_bytes().splitlines(keepends=True) * 40
    random.Random(1).shuffle(lines)
    text = b"".join(lines)
    (tmp_path / "server.log").write_bytes(text)
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(text, 1))
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("broker-1/server.log", text)
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "server.log", "broker-1/server.log")
        archive.add(SERVER, "broker-2/server.log")
    settings = Settings((str(tmp_path),), Path())
    # Rules are read once in a process.
    preview_run(Settings((str(SERVER),), Path()))
    before = read_so_far()
    seen = preview_run(settings)
    read = read_so_far() - before

    assert all(path.stat().st_size > 2 * HEAD_BYTES for path in tmp_path.iterdir())
    # The heads of the four files, and what is written of them to be scanned, once each.
    assert read < 4 * (1 << 20) + 4 * HEAD_BYTES
    assert ["apache"] * 4 == [row["layout"] for row in seen.rows]
    # The second file in it stands too far behind to be seen.
    assert [f"{tmp_path.name}/packed.tar.gz"] == list(seen.partly)


def test_a_broken_archive_is_no_reason_to_stop(tmp_path: Path) -> None:
    packed = gzip.compress(SERVER.read_bytes())
    (tmp_path / "cut.log.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "empty.log").touch()
    (tmp_path / "noise.bin").write_bytes(random.Random(2).randbytes(5000))
    done = call(str(tmp_path), str(tmp_path / "nope"), "--dry-run")

    assert 0 == done.exit_code
    assert "nope: there is no file or folder" in done.stdout
    assert "would be left out" in done.stdout
    told = {line.split()[0].rpartition("/")[2]: line for line in done.stdout.splitlines()}
    assert "apache" in told["cut.log.gz"]
    assert "empty" in told["empty.log"]
    assert "binary, not a log" in told["noise.bin"]


def test_files_that_are_empty_are_told(tmp_path: Path) -> None:
    (tmp_path / "server.log").touch()
    done = call(str(tmp_path), "--dry-run")

    assert 0 == done.exit_code
    assert "1 file, 0 B to read" in done.stdout


def test_an_empty_file_in_an_archive_is_told_from_one_that_is_not_understood(
    tmp_path: Path,
) -> None:
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("broker-1/controller.log"))
        packed.add(SERVER, "broker-1/server.log")
    done = call(str(tmp_path / "logs.tar.gz"), "--dry-run")
    told = {line.split()[0].rpartition("/")[2]: line for line in done.stdout.splitlines()}

    assert "empty" in told["controller.log"]
    assert "apache" in told["server.log"]


def test_it_writes_nothing_and_needs_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = json.loads(call(str(SERVER), "--dry-run", "--json", "-o", "out").stdout)

    assert [] == list(tmp_path.iterdir())
    (row,) = told["files"]
    assert ("server.log", "apache", "broker-1") == (row["file"], row["layout"], row["node"])
    assert {"files", "not_read", "partly_seen", "bytes", "cores", "seconds"} == set(told)


def test_without_it_a_folder_is_needed() -> None:
    done = call(str(SERVER))

    assert (2, True) == (done.exit_code, "Missing option '-o' / '--out'" in done.stderr)


def test_where_there_is_no_java_it_says_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forensics.engine.java._candidates", lambda _: iter(()))

    assert "--engine local needs none" in call(str(SERVER), "--dry-run").stdout.splitlines()[-1]
    told = call(str(SERVER), "--dry-run", "--engine", "local").stdout
    assert "Java" not in told
    assert told.splitlines()[-1].endswith("on 1 core")
