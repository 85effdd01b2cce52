"""Add log archives to a store, week by week, and draw the pages of the weeks they change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics.cli.app import (
    CLUSTER_OPTION,
    COMMAND_OPTION,
    ENGINE_OPTION,
    JSON_OPTION,
    LIMIT_OPTION,
    MAP_OPTION,
    MASTER_OPTION,
    PATTERN_OPTION,
    QUIET_OPTION,
    RULES_OPTION,
    STRICT_OPTION,
    VERBOSE_OPTION,
    WAIT_OPTION,
    command_words,
    print_rows,
    refuse_master_of_local,
    run_file,
    tell,
)
from forensics.cli.value_completion import complete_with, week_names
from forensics.settings import SEVERITIES

if TYPE_CHECKING:
    from forensics.weekly_audit import AuditRequest


@click.command()
@click.argument("archives", nargs=-1, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "--store",
    required=True,
    type=click.Path(file_okay=False),
    help="Folder, or address such as s3://bucket/audits, that keeps what was read and a page for "
    "each week; made if it is not there.",
)
@click.option(
    "--week",
    metavar="WEEK",
    shell_complete=complete_with(week_names),
    help="Draw only this week, such as 2026-W46, and end by what it says; else by the newest.",
)
@click.option(
    "--keep-weeks",
    type=click.IntRange(min=1),
    help="Keep so many of the newest weeks; older ones go, and are not read again.",
)
@WAIT_OPTION
@MASTER_OPTION
@ENGINE_OPTION
@RULES_OPTION
@MAP_OPTION
@CLUSTER_OPTION
@PATTERN_OPTION
@COMMAND_OPTION
@LIMIT_OPTION
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="End with 3 if that week has a finding of this level or above.",
)
@STRICT_OPTION
@JSON_OPTION
@QUIET_OPTION
@VERBOSE_OPTION
def command(  # noqa: PLR0917 - each is an option of its own
    archives: tuple[str, ...],
    store: str,
    week: str | None,
    keep_weeks: int | None,
    wait: float,
    master: str | None,
    engine: str,
    packs: tuple[Path, ...],
    node_map: tuple[str, ...],
    cluster: str | None,
    log_patterns: tuple[str, ...],
    commands: tuple[str, ...],
    limit_words: tuple[str, ...],
    *,
    fail_on: str | None,
    strict: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Add log archives to a store, week by week, and draw the pages of the weeks they change.

    ARCHIVE is a folder, a log file, or a .gz, .tar, .tar.gz, .zip. What was read before is known by
    its bytes and not read again; what comes late changes the weeks it is about. Any order of the
    same archives gives the same store. A killed run leaves it as it was, or the next completes it.

    Weeks are those of ISO 8601, in UTC; a finding belongs to the week in which it begins. STORE has
    index.html, latest.html, and for each week weeks/WEEK/index.html, report.html and findings.json.
    notes.yaml in it is yours: owner, ticket and accepted_until by finding.

    Ends with 0 to 4 and 130 as `postmortem` does, and with 5 when another run holds the store.
    STORE/_RESULT.json says how the last run ended.

    \b
    Example:
      kafka-forensics audit /var/log/archive/2026-W46.tar.gz --store audits
      kafka-forensics audit logs/ --store audits --week 2026-W46 --fail-on high --wait 600
      kafka-forensics audit logs/ late/ --store audits --keep-weeks 26 -q --json
    """
    from forensics.lib.limits import parse_limits
    from forensics.run_result import ExitCode
    from forensics.weekly.iso_week import Week
    from forensics.weekly_audit import AuditRequest

    if not archives and not commands:
        raise click.MissingParameter(param_hint="'ARCHIVE...'", param_type="argument")
    refuse_master_of_local(engine, master)
    request = AuditRequest(
        archives, store, Week.parse(week) if week else None, keep_weeks, wait, packs, master,
        fail_on=fail_on, strict=strict, command=command_words(),
        node_map=node_map, log_patterns=log_patterns, commands=commands,
        limits=parse_limits(limit_words), engine=engine, cluster=cluster,
    )  # fmt: skip
    result = _run(request, quiet=quiet, verbose=verbose)
    if as_json:
        click.echo(json.dumps(result, indent=1, ensure_ascii=False))
    elif result["exit_code"] == ExitCode.STORE_LOCKED:
        tell(f"Error: {result['reason']}", err=True)
    elif not quiet:
        from forensics.report.terminal_summary import week_rows

        print_rows(week_rows(result))
    raise SystemExit(result["exit_code"])


def _run(request: AuditRequest, *, quiet: bool, verbose: bool) -> dict[str, Any]:
    from forensics import run_result
    from forensics.engine.progress import Progress
    from forensics.lib.second_process import open_second_process
    from forensics.weekly_audit import audit

    with (
        open_second_process(["forensics.quality.gate"], request.master) as second,
        Progress(sys.stderr, quiet=quiet, verbose=verbose).open() as progress,
    ):
        result = audit(request, progress.notify, progress, second=second)
        for line in run_result.format_summary(result) if "verdict" in result else ():
            progress.notify(line)
    return result


if __name__ == "__main__":
    run_file(__file__)
