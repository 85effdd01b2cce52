"""Check that everything a run needs is here: Python, Java, Spark, memory, disk, a sample run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.app import JSON_OPTION, QUIET_OPTION, run_file
from forensics.cli.option_sources import ENV_PREFIX

if TYPE_CHECKING:
    from forensics.cli.doctor import Check
    from forensics.engine.progress import Progress


COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@click.option("--no-spark", is_flag=True, help="Do not start Spark; quick, and needs no Java.")
@click.option("--master", help="Spark master to start the sample run on; default: local[2].")
@click.option(
    "-o", "--out", default=".", show_default=True, type=click.Path(path_type=Path), metavar="DIR",
    help="Where the output of runs is to go: is it writable, and is there room?",
)  # fmt: skip
@click.option(
    "--config", "path", metavar="FILE", envvar=f"{ENV_PREFIX}_CONFIG",
    type=click.Path(path_type=Path),
    help="Check this configuration file; else the one that would be found.",
)  # fmt: skip
@JSON_OPTION
@QUIET_OPTION
@click.pass_context
def command(
    context: click.Context,
    master: str | None,
    out: Path,
    path: Path | None,
    *,
    no_spark: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check that everything a run needs is here: Python, Java, Spark, memory, disk, a sample run.

    Each line is ok, a warning or a problem, and says what to do about it. The sample run reads a
    tiny archive end to end, as `postmortem` does, and is gone afterwards. No browser is needed to
    write a page. Nothing is sent anywhere.

    Ends with 0, or with 1 if there is a problem.

    \b
    Example:
      kafka-forensics doctor
      kafka-forensics doctor --no-spark
      kafka-forensics doctor --json -o /data/reports
    """
    from forensics.engine.progress import Progress

    found = []
    with Progress(sys.stderr, quiet=quiet or as_json).open() as progress:
        for check in _checks(context, master, out, path, None if no_spark else progress):
            found.append(check)
            progress.end_stage()
            if not as_json and not (quiet and check.state == "ok"):
                _tell(check)
    problems = sum(check.state == "problem" for check in found)
    warnings = sum(check.state == "warning" for check in found)
    if as_json:
        rows = [
            {"name": one.name, "state": one.state, "says": one.message, "advice": one.advice}
            for one in found
        ]
        print(json.dumps({"problems": problems, "warnings": warnings, "checks": rows}, indent=1))
    elif not quiet:
        print(
            f"{problems} problems, {warnings} warnings" if problems or warnings else "all is well"
        )
    raise SystemExit(1 if problems else 0)


def _checks(
    context: click.Context,
    master: str | None,
    out: Path,
    path: Path | None,
    progress: Progress | None,
) -> Iterator[Check]:
    from forensics.cli import doctor

    # One after the other, as they are found: the last ones take their time.
    broken = False
    for check in (*doctor.check_machine(os.environ, out), _configuration(context, path)):
        broken = broken or (check.state == doctor.PROBLEM and check.name in ("java", "packages"))
        yield check
    if progress is None:
        yield from doctor.check_without_spark()
    elif not broken:
        yield from doctor.check_with_spark(master, progress)


def _configuration(context: click.Context, path: Path | None) -> Check:
    from forensics.cli import config_file
    from forensics.cli.doctor import OK, PROBLEM, Check
    from forensics.cli.option_sources import configurable_options
    from forensics.errors import ConfigError

    try:
        path = path or config_file.find_config(os.environ, Path.cwd())
        everything = context.find_root().command.configurable_commands()  # type: ignore[attr-defined]
        keys = {call: configurable_options(one) for call, one in everything.items()}
        config = config_file.load_config(path, keys) if path else config_file.Config()
    except ConfigError as error:
        return Check(
            "config", PROBLEM, str(error), "Correct the file; `config show` reads it, too."
        )
    count = sum(map(len, config.settings.values()))
    return Check(
        "config", OK, f"{path}: {count} options set" if path else "no file, and none needed"
    )


def _tell(check: Check) -> None:
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
    state = f"{check.state:8}"
    shown = state if plain else click.style(state, fg=COLOURS[check.state])
    print(f"{shown}{check.name:11}{check.message}", flush=True)
    if check.advice:
        print(f"{'':19}{check.advice}", flush=True)


if __name__ == "__main__":
    run_file(__file__)
