"""Runs where a machine gives little: a small or read-only temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.ingest.sample_archives import write
from tests.ingest.written_logs import PLAIN

ROOT = Path(__file__).parents[2]
_MB = 1 << 20
pytestmark = pytest.mark.slow


def run(tmp_path: Path, *archives: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a postmortem without Spark."""
    command = [sys.executable, "-m", "forensics", "postmortem", *map(str, archives), "-q"]
    return subprocess.run(
        [*command, "-o", str(tmp_path / "out"), "--engine", "local"], cwd=ROOT, text=True,
        env=os.environ | environment, capture_output=True, check=False,
    )  # fmt: skip


def test_gigabytes_of_zeros_are_not_written_to_the_temporary_folder(tmp_path: Path) -> None:
    """They claim to be a zip, which is read from its end."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [packer.compress(b"PK\3\4"), *(packer.compress(bytes(8 * _MB)) for _ in range(256))]
    logs = write(tmp_path / "logs", PLAIN)
    (logs / "zeros.gz").write_bytes(b"".join(parts) + packer.flush())
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    # A file of more than 200 MB cannot be written.
    limit = f'ulimit -f {200 * 1024}; exec "$@"'
    command = [
        sys.executable,
        "-m",
        "forensics",
        "postmortem",
        str(logs),
        "-q",
        "--engine",
        "local",
    ]
    ran = subprocess.run(
        ["bash", "-c", limit, "-", *command, "-o", str(tmp_path / "out")], cwd=ROOT, text=True,
        env=os.environ | {"TMPDIR": str(scratch)}, capture_output=True, check=False,
    )  # fmt: skip

    assert ran.returncode in (0, 4), ran.stderr
    assert "zeros.gz" in ran.stderr
    assert list(scratch.iterdir()) == []


def test_a_temporary_folder_that_cannot_be_written_hinders_nobody(tmp_path: Path) -> None:
    ran = run(tmp_path, write(tmp_path / "logs", PLAIN), TMPDIR=str(tmp_path / "gone"))

    assert ran.returncode in (0, 4), ran.stderr
