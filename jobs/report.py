"""Draw the page again from what a postmortem has saved."""

from __future__ import annotations

import json
from pathlib import Path

import click

from forensics.cli.app import (
    JSON_OPTION,
    OUTPUT_THERE,
    QUIET_OPTION,
    run_file,
    tell,
)


@click.command()
@click.argument("out", type=OUTPUT_THERE)
@click.option("--from", "since", metavar="TIME", help="Leave out what was over before this time.")
@click.option("--to", "till", metavar="TIME", help="Leave out what began after this time.")
@click.option(
    "--report-tz", "zone", default="UTC", show_default=True, metavar="ZONE",
    help="Write all times in this IANA time zone, such as Europe/Berlin.",
)  # fmt: skip
@click.option(
    "--html", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the page goes; else into OUT, as report.html when nothing is left out.",
)  # fmt: skip
@click.option(
    "--assets", type=click.Choice(["inline", "shared"]), default="inline", show_default=True,
    help="Hold what draws the figures in the page, or in one file beside it for many pages.",
)  # fmt: skip
@JSON_OPTION
@QUIET_OPTION
def command(  # noqa: PLR0917 - each is an option of its own
    out: str | Path,
    since: str | None,
    till: str | None,
    zone: str,
    target: Path | None,
    assets: str,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Draw the page again from what a postmortem has saved.

    OUT is the output folder of `postmortem`: its findings.json and tables are read, and no log, so
    neither Spark nor Java is needed. Nothing in OUT but the page is written.

    With --assets shared a page is small, and plotly.HASH.js beside it is needed to see its figures:
    for folders of many pages that are kept, sent and moved together.

    With --from or --to the page tells only of what reaches into that time, and says so; its
    verdict is that window's own. It gets a name of its own, beside report.html.

    TIME is as 2026-11-18T11:38:51, in ZONE; where the logs are of one day, 11:38:51 is enough.

    \b
    Example:
      kafka-forensics report out
      kafka-forensics report out --report-tz Asia/Kolkata
      kafka-forensics report out --from 11:38 --to 11:41 --html election.html
      kafka-forensics report out --assets shared --html weeks/2026-47.html
    """
    from forensics.report.page import redraw_report
    from forensics.run_output.remote_folder import local_folder, put_page

    shared = assets == "shared"
    folder = local_folder(str(out))
    drawn = redraw_report(folder, since=since, till=till, zone=zone, target=target, shared=shared)
    page = put_page(folder, out, drawn) if isinstance(out, str) and not target else str(drawn)
    if as_json:
        click.echo(json.dumps({"page": page}))
    elif not quiet:
        tell(f"page: {page}")


if __name__ == "__main__":
    run_file(__file__)
