"""The command as it is started."""

from __future__ import annotations

import subprocess
import sys

# Ctrl-C while a module of the command is loaded.
STOPPED = """
import sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "forensics.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
import forensics.__main__
"""


def test_ctrl_c_while_modules_are_loaded_ends_with_one_word() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED], check=False, capture_output=True, text=True
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")
