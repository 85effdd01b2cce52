"""The command line's manners. The commands here are written for the test; no Spark is started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from forensics import __version__
from forensics.cli.app import jobs_folder, main, make_group, run_file

SHOW = '''\
"""Show what was given.

More about it.
"""
import click

@click.command()
@click.option("--out", default="nowhere", help="Where it goes.")
def command(out: str) -> None:
    """Show what was given, at length."""
    click.echo(f"out={out}")
'''

TALKS = '''\
"""Say much, and write a file."""
import click
from pathlib import Path

@click.command()
def command() -> None:
    for number in range(100_000):
        click.echo(f"line {number}")
    Path("written").write_text("whole")
'''

HERE = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

RAISES = '''\
"""Go wrong."""
import click
from forensics.errors import ArchiveError

@click.command()
def command() -> None:
    raise {what}
'''


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    (tmp_path / "show_all.py").write_text(SHOW)
    (tmp_path / "_shared.py").write_text("")
    return tmp_path


def call(jobs: Path, *arguments: str) -> Result:
    return CliRunner().invoke(make_group(jobs), arguments, prog_name="kafka-forensics")


def test_a_file_is_a_command_and_its_underscores_are_dashes(jobs: Path) -> None:
    assert call(jobs, "show-all", "--out", "here").output == "out=here\n"


def test_a_file_that_begins_with_an_underscore_is_not_a_command(jobs: Path) -> None:
    assert call(jobs, "_shared").exit_code == 2
    assert "shared" not in call(jobs, "--help").output


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_first_line_of_each_file(flag: str, jobs: Path) -> None:
    done = call(jobs, flag)

    assert done.exit_code == 0
    assert "show-all  Show what was given." in done.output
    assert "More about it" not in done.output


def test_help_loads_no_command(jobs: Path) -> None:
    (jobs / "explode.py").write_text('"""Explode."""\nraise SystemExit("loaded")\n')
    (jobs / "half.py").write_text("def half(:\n")

    done = call(jobs, "--help")

    assert done.exit_code == 0
    assert "explode" in done.output
    assert "syntax error" in done.output


def test_the_help_of_a_command_is_its_own(jobs: Path) -> None:
    done = call(jobs, "show-all", "-h")

    assert "Usage: kafka-forensics show-all" in done.output
    assert "at length" in done.output
    assert "--out" in done.output


def test_the_version_is_the_package_s(jobs: Path) -> None:
    assert f"kafka-forensics, version {__version__}\n" == call(jobs, "--version").output


def test_an_unknown_command_gets_a_suggestion(jobs: Path) -> None:
    done = call(jobs, "show-al")

    assert done.exit_code == 2
    assert "Did you mean" in done.stderr
    assert "show-all" in done.stderr


def test_what_a_person_can_put_right_is_one_sentence(jobs: Path) -> None:
    text = RAISES.format(what='ArchiveError("logs.zip is empty.")')
    (jobs / "wrong.py").write_text(text)

    done = call(jobs, "wrong")

    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: logs.zip is empty.\n")


def test_a_mistake_of_ours_keeps_its_traceback(jobs: Path) -> None:
    (jobs / "wrong.py").write_text(RAISES.format(what='KeyError("isr")'))

    assert isinstance(call(jobs, "wrong").exception, KeyError)


def test_ctrl_c_ends_with_130(jobs: Path) -> None:
    (jobs / "wrong.py").write_text(RAISES.format(what="KeyboardInterrupt"))

    assert call(jobs, "wrong").exit_code == 130


def test_ctrl_c_ends_with_130_in_whatever_a_library_runs(jobs: Path) -> None:
    """Python itself would end by the signal, which a program that waits for it tells apart."""
    text = RAISES.format(what="KeyboardInterrupt").replace("    raise", "    exec('raise")
    (jobs / "wrong.py").write_text(f"{text.rstrip()}')\n")
    script = jobs / "_start.py"
    script.write_text(
        "from pathlib import Path\nfrom forensics.cli.app import main\n"
        "main(['wrong'], Path(__file__).parent)\n"
    )

    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=HERE
    )

    assert (130, "interrupted\n") == (done.returncode, done.stderr)


def test_a_command_chooses_its_own_exit_code(jobs: Path) -> None:
    (jobs / "wrong.py").write_text(RAISES.format(what="SystemExit(3)"))

    assert call(jobs, "wrong").exit_code == 3


def test_a_file_without_a_command_says_what_it_must_define(jobs: Path) -> None:
    (jobs / "empty.py").write_text('"""Nothing yet."""\n')

    assert "empty.py must define a click command" in call(jobs, "empty").stderr


def test_an_option_can_come_from_the_environment(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_ALL_OUT", "from-env")

    with pytest.raises(SystemExit) as done:
        main(["show-all"], jobs=jobs)

    assert (done.value.code, capsys.readouterr().out) == (0, "out=from-env\n")


def test_who_reads_one_line_ends_no_command(tmp_path: Path) -> None:
    """As `| head -1` does; the file that a command writes beside it is whole."""
    (tmp_path / "talk.py").write_text(TALKS)
    run = "import sys; from pathlib import Path; from forensics.cli.app import main; "
    run += f"main(['talk'], Path({str(tmp_path)!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", run], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as talk:
        assert talk.stdout is not None
        assert talk.stderr is not None
        assert talk.stdout.readline() == b"line 0\n"
        talk.stdout.close()
        warned = talk.stderr.read()

    assert (talk.returncode, warned) == (0, b"")
    assert (tmp_path / "written").read_text() == "whole"


def test_a_file_of_jobs_runs_by_itself(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As spark-submit does it."""
    monkeypatch.setattr(sys, "argv", ["jobs/show_all.py", "--out", "there"])

    with pytest.raises(SystemExit):
        run_file(str(jobs / "show_all.py"))

    assert capsys.readouterr().out == "out=there\n"


def test_python_m_forensics_is_the_same_command() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "forensics", "--help"], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("Usage: kafka-forensics ")
    # Far above what it takes, far below what a JVM takes.
    assert time.monotonic() - started < 5


def test_every_shipped_command_loads_without_spark_and_explains_itself() -> None:
    code = """
import sys, click
from forensics.cli.app import make_group, jobs_folder
commands = make_group(jobs_folder())
context = click.Context(commands)
for name, listed in commands.commands.items():
    assert listed.short_help, f"{name} needs a docstring on top of its file"
    command = commands.resolve_command(context, [name])[1]
    assert command.help, f"{name} has no help"
heavy = {"great_expectations", "pandas", "plotly", "pyspark"} & set(sys.modules)
assert not heavy, f"loaded too early: {heavy}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr == ""


def test_the_commands_are_found_beside_the_package_in_a_checkout() -> None:
    assert Path(__file__).parents[2] / "jobs" == jobs_folder()
    assert isinstance(make_group(jobs_folder()), click.Group)
