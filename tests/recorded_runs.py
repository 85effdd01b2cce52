"""Recordings of sample_logs/, read once in a session of tests, whichever worker asks first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.sandbox import SandboxRun, run_archives

__all__ = ["SAMPLES", "logs_of", "make_once", "read_recording"]

SAMPLES = Path(__file__).parents[1] / "sample_logs"


def logs_of(name: str) -> Path:
    """Return the archive of a recording."""
    return next(one for one in (SAMPLES / name).iterdir() if one.name.startswith("logs"))


def make_once(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker makes; nobody may write to it afterwards."""
    base = folders.getbasetemp()
    # The workers of pytest-xdist have folders of their own in that of the session.
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = base / f"shared-{name}", base / f"shared-{name}.done"
    with (base / f"shared-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def read_recording(folders: pytest.TempPathFactory, name: str) -> SandboxRun:
    """Return what was made of a recording: its tables are shared, the rest is the caller's own."""

    def make(folder: Path) -> None:
        run = run_archives([str(logs_of(name))], folder / "out")
        (folder / "run").write_bytes(pickle.dumps(run))

    folder = make_once(folders, f"recording-{name}", make)
    run: SandboxRun = pickle.loads((folder / "run").read_bytes())
    return run
