"""Completion, as the shells themselves ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What the Tab key does: the words so far go to the function that the script has set up.
BASH = """
eval "$(kafka-forensics completion bash)"
tab() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  compopt() { echo "files"; }
  $(complete -p kafka-forensics | sed 's/.*-F \\([^ ]*\\).*/\\1/') kafka-forensics
  printf '%s\\n' "${COMPREPLY[@]}"
}
"""
ZSH = """
autoload -Uz compinit && compinit -u -d "$HOME/dump"
eval "$(kafka-forensics completion zsh)"
# What would be shown is printed; both stand in arrays of the function that calls these.
compadd() { print -l -- "${completions[@]}"; }
_describe() { print -l -- "${completions_with_descriptions[@]%%:*}"; }
tab() { words=("$@"); CURRENT=$#; _kafka_forensics_completion; }
"""
FISH = """
kafka-forensics completion fish | source
function tab; complete -C (string join ' ' -- $argv) | string split -f1 \\t; end
"""
SHELLS = {"bash": (BASH, ["--norc"]), "zsh": (ZSH, ["-f"]), "fish": (FISH, ["--no-config"])}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The command on the PATH, a home of its own, and no Java anywhere."""
    command = tmp_path / "bin/kafka-forensics"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m forensics "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "JAVA_HOME": "/nowhere",
    }  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_choices_are_completed(
    shell: str, environment: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    setup, plain = SHELLS[shell]
    tabs = ("tim", "postmortem --fail", "postmortem --fail-on cri", "rules cov")
    asked = "".join(f"echo '= {tab}'\ntab kafka-forensics {tab}\n" for tab in tabs)
    done = subprocess.run(
        [shell, *plain, "-c", setup + asked],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    blocks = (block.split("\n") for block in done.stdout.split("= ")[1:])
    found = {block[0]: [word for word in block[1:] if word] for block in blocks}
    assert found == {
        "tim": ["timeline"],
        "postmortem --fail": ["--fail-on"],
        "postmortem --fail-on cri": ["critical"],
        "rules cov": ["coverage"],
    }, done.stderr


def test_the_script_is_printed_without_anything_heavy() -> None:
    code = """
import sys
from forensics.cli.app import main
try:
    main(["completion", "bash"])
except SystemExit as end:
    assert not end.code
heavy = {"great_expectations", "pandas", "plotly", "pyarrow", "pyspark"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "_KAFKA_FORENSICS_COMPLETE=bash_complete" in done.stdout
