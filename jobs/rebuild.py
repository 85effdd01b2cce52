"""Build the weeks of a store again, from the events that it keeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from forensics.cli.app import (
    ENGINE_OPTION,
    JSON_OPTION,
    MASTER_OPTION,
    QUIET_OPTION,
    RULES_OPTION,
    WAIT_OPTION,
    command_words,
    refuse_master_of_local,
    run_file,
    tell,
)
from forensics.cli.value_completion import complete_with, week_names


@click.command()
@click.argument("store", type=click.Path(file_okay=False))
@click.option(
    "--week", metavar="WEEK", shell_complete=complete_with(week_names),
    help="Only this week, such as 2026-W46; else all.",
)  # fmt: skip
@WAIT_OPTION
@MASTER_OPTION
@ENGINE_OPTION
@RULES_OPTION
@JSON_OPTION
@QUIET_OPTION
def command(  # noqa: PLR0917 - each is an option of its own
    store: str,
    week: str | None,
    wait: float,
    master: str | None,
    engine: str,
    packs: tuple[Path, ...],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build the weeks of a store again, from the events that it keeps.

    No log is read. Findings and pages are made by the rules of now, so this is for rules of finding
    that have changed: limits, detectors. Where nothing has changed, the same bytes come out. Rules
    of reading only hold for logs that are given to `audit` again; a week names the others.

    \b
    Example:
      kafka-forensics rebuild audits
      kafka-forensics rebuild audits --week 2026-W46 --rules our-rules/
    """
    from forensics.engine.progress import Progress
    from forensics.lib import storage
    from forensics.run_result import ExitCode
    from forensics.weekly.iso_week import Week
    from forensics.weekly_audit import AuditRequest, audit

    refuse_master_of_local(engine, master)
    if not storage.is_remote(store) and not Path(store).is_dir():
        raise click.BadParameter(f"there is no folder {store}", param_hint="STORE")
    request = AuditRequest(
        (), store, Week.parse(week) if week else None, None, wait, packs, master,
        command=command_words(), engine=engine,
    )  # fmt: skip
    with Progress(sys.stderr, quiet=quiet).open() as progress:
        result = audit(request, progress.notify, progress)
    if as_json:
        click.echo(json.dumps(result, indent=1, ensure_ascii=False))
    elif result["exit_code"] == ExitCode.STORE_LOCKED:
        tell(f"Error: {result['reason']}", err=True)
    elif not quiet:
        for name, verdict in result.get("weeks", {}).items():
            tell(f"{name}: {verdict}")
    raise SystemExit(result["exit_code"])


if __name__ == "__main__":
    run_file(__file__)
