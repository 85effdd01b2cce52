"""Check that everything a run needs is here: Python, Java, Spark, memory, disk, a sample run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.app import JSON_OPTION, QUIET_OPTION, run_file, style_output
from forensics.cli.option_sources import ENV_PREFIX, read_config

if TYPE_CHECKING:
    from forensics.cli.doctor import Check
    from forensics.engine.progress import Progress


COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@click.option("--no-spark", is_flag=True, help="Do not start Spark; quick, and needs no Java.")
@click.option(
    "--quick-start", is_flag=True,
    help="Keep the classes that Java loads (some 200 MB in your cache), so that runs start sooner.",
)  # fmt: skip
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
    quick_start: bool,
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

    if no_spark and quick_start:
        raise click.UsageError("--quick-start needs Spark; leave --no-spark.")
    checks: list[Check] = []
    with Progress(sys.stderr, quiet=quiet or as_json).open() as progress:
        given = None if no_spark else progress
        for check in _checks(context, master, out, path, given, quick_start=quick_start):
            checks.append(check)
            progress.end_stage()
            if not as_json and not (quiet and check.state == "ok"):
                _print_check(check)
    problems = sum(check.state == "problem" for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    if as_json:
        rows = [
            {
                "name": check.name,
                "state": check.state,
                "says": check.message,
                "advice": check.advice,
            }
            for check in checks
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
    *,
    quick_start: bool,
) -> Iterator[Check]:
    from forensics.cli import doctor

    # One by one: the last ones take their time.
    broken = False
    for check in (*doctor.check_machine(os.environ, out), _configuration(context, path)):
        broken = broken or (check.state == doctor.PROBLEM and check.name in ("java", "packages"))
        yield check
    if progress is None:
        yield from doctor.check_without_spark()
    elif not broken:
        if quick_start:
            yield from doctor.check_quick_start()
        yield from doctor.check_with_spark(master, progress)


def _configuration(context: click.Context, path: Path | None) -> Check:
    from forensics.cli.doctor import OK, PROBLEM, Check
    from forensics.errors import ConfigError

    try:
        config = read_config(context.find_root().command, path)
    except ConfigError as error:
        advice = "Correct the file; `config show` reads it, too."
        return Check("config", PROBLEM, str(error), advice)
    if config.path is None:
        return Check("config", OK, "no file, and none needed")
    count = sum(map(len, config.settings.values()))
    return Check("config", OK, f"{config.path}: {count} options set")


def _print_check(check: Check) -> None:
    state = style_output(f"{check.state:8}", fg=COLOURS[check.state])
    print(f"{state}{check.name:11}{check.message}", flush=True)
    if check.advice:
        print(f"{'':19}{check.advice}", flush=True)


if __name__ == "__main__":
    run_file(__file__)
