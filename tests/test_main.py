"""The command as it is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A signal while a module of the command is loaded.
STOPPED = """
import os, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "forensics.cli.app":
            os.kill(os.getpid(), signal.SIGNAL)
sys.meta_path.insert(0, Stop())
import forensics.__main__
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_modules_are_loaded_ends_with_one_word(name: str) -> None:
    program = STOPPED.replace("SIGNAL", name)

    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")
