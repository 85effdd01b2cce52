"""Runs where a machine gives little: memory, open files, a disk that is full or read-only."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.ingest.sample_archives import write, zipped
from tests.ingest.written_logs import PLAIN

ROOT = Path(__file__).parents[2]
_MB = 1 << 20
_PATIENCE = 600
_UNSHARE = ("unshare", "--map-root-user", "--mount", "--propagation", "private")
pytestmark = pytest.mark.slow


def run(
    tmp_path: Path, *archives: Path, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a postmortem without Spark, in a shell that has run some commands `before`."""
    command = [sys.executable, "-m", "forensics", "postmortem", *map(str, archives), "-q"]
    return subprocess.run(
        ["bash", "-c", f'{before}\nexec "$@"', "-", *command, "-o", str(tmp_path / "out"),
         "--engine", "local"],
        cwd=ROOT, text=True, env=os.environ | environment, capture_output=True, check=False,
        timeout=_PATIENCE,
    )  # fmt: skip


def apart(*commands: str) -> str:
    """Return what lets a shell go on with mounts of its own, after some commands."""
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("NO RUN WITH MOUNTS OF ITS OWN: this user may not unshare")
    mounts = " && ".join(commands)
    return f'set -- {" ".join(_UNSHARE)} bash -c \'{mounts} && exec "$@"\' - "$@"'


def test_gigabytes_of_zeros_are_not_written_to_the_temporary_folder(tmp_path: Path) -> None:
    """They claim to be a zip, which is read from its end."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [packer.compress(b"PK\3\4"), *(packer.compress(bytes(8 * _MB)) for _ in range(256))]
    logs = write(tmp_path / "logs", PLAIN)
    (logs / "zeros.gz").write_bytes(b"".join(parts) + packer.flush())
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    # A file of more than 200 MB cannot be written.
    ran = run(tmp_path, logs, before=f"ulimit -f {200 * 1024}", TMPDIR=str(scratch))

    assert ran.returncode in (0, 4), ran.stderr
    assert "zeros.gz" in ran.stderr
    assert list(scratch.iterdir()) == []


def test_a_temporary_folder_that_cannot_be_written_hinders_nobody(tmp_path: Path) -> None:
    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), TMPDIR=str(tmp_path / "gone"))

    assert ran.returncode in (0, 4), ran.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the findings of a run on a machine that gives enough."""
    folder = tmp_path_factory.mktemp("plain")
    assert run(folder, write(folder / "logs", PLAIN)).returncode in (0, 4)
    return (folder / "out/findings.json").read_bytes()


# Kilobytes that may be mapped, and those of a stack: the threads of Arrow have no room for such.
@pytest.mark.parametrize("limit", ["-v 700000", "-v 1500000", "-s 2000000 -v 1500000"])
def test_a_run_needs_little_memory_where_it_is_limited(
    limit: str, plain: bytes, tmp_path: Path
) -> None:
    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), before=f"ulimit {limit} || exit 9")

    assert ran.returncode in (0, 4), ran.stderr
    assert plain == (tmp_path / "out/findings.json").read_bytes()


# In some a library cannot be loaded, in others a thread or a table has no room.
@pytest.mark.parametrize("kilobytes", [60_000, 150_000, 250_000, 340_000, 380_000, 420_000])
def test_a_run_without_enough_memory_ends_with_a_sentence(kilobytes: int, tmp_path: Path) -> None:
    limit = f"ulimit -v {kilobytes} || exit 9"

    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), before=limit)

    assert ran.returncode in (0, 1, 4), ran.stderr
    assert "Traceback" not in ran.stderr
    if ran.returncode == 1:
        assert f"`ulimit -v` lets a process map {kilobytes:,} KB" in ran.stderr.splitlines()[-1]


def test_few_open_files_are_enough(plain: bytes, tmp_path: Path) -> None:
    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), before="ulimit -n 64 || exit 9")

    assert ran.returncode in (0, 4), ran.stderr
    assert plain == (tmp_path / "out/findings.json").read_bytes()


# Kilobytes that there are for the output.
@pytest.mark.parametrize("kilobytes", [40, 200, 800])
def test_a_full_disk_is_named(kilobytes: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    # What is left there is seen from inside alone.
    disk = apart(f"mount -t tmpfs -o size={kilobytes}k none {out}")

    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), before=disk)

    assert (1, True) == (ran.returncode, ran.stderr.startswith(f"Error: {out}"))
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_temporary_folders_that_can_only_be_read_hinder_nobody(
    plain: bytes, tmp_path: Path
) -> None:
    """The logs lie in a zip in a gz, which is read from its end."""
    logs = tmp_path / "logs.zip.gz"
    logs.write_bytes(gzip.compress(zipped({f"logs/{name}": PLAIN[name] for name in PLAIN})))
    kept, inside = tmp_path / "kept", Path("/mnt")
    kept.mkdir()
    mounts = apart(
        f"mount --bind {tmp_path} {inside}", *(
            f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
            for folder in ("/tmp", "/var/tmp", "/dev/shm")
        ),
    )  # fmt: skip

    ran = run(inside, inside / logs.name, before=mounts, TMPDIR="")

    assert ran.returncode in (0, 4), ran.stderr
    found = json.loads((tmp_path / "out/findings.json").read_bytes())
    assert [one["title"] for one in json.loads(plain)["findings"]] == [
        one["title"] for one in found["findings"]
    ]
