"""Read log archives and write the postmortem page, findings.json and tables."""

from __future__ import annotations

import json
from pathlib import Path

import click

from forensics.console import RULES, run
from forensics.ending import LEVELS


@click.command()
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...")
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the page, findings.json and tables; made if it is not there.",
)
@click.option("--master", help="Spark master; default: local[*], or what spark-submit says.")
@click.option(
    "--split-size",
    default=64 << 20,
    show_default=True,
    type=click.IntRange(min=1024),
    help="Bytes of a plain file that one task reads.",
)
@RULES
@click.option("--context", is_flag=True, help="Keep also events that only give context; slower.")
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    help="End with 3 if there is a finding of this level or above; without it findings end with 0.",
)
@click.option("--strict", is_flag=True, help="End with 4 if something could not be read.")
@click.option("--json", "as_json", is_flag=True, help="Print _RESULT.json instead of sentences.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors.")
def command(
    archives: tuple[str, ...],
    out: Path,
    master: str | None,
    split_size: int,
    packs: tuple[Path, ...],
    *,
    context: bool,
    fail_on: str | None,
    strict: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read log archives and write the postmortem page, findings.json and tables.

    ARCHIVE is a folder, a log file, or a .gz, .tar, .tar.gz, .zip (told by content, not by name);
    several are read as one cluster's.

    Ends with 0 when it is done, 1 when it failed, 2 when the command line makes no sense, 3 as
    --fail-on says, 4 when the logs do not let anyone tell, and 130 when it was interrupted.
    OUT/_RESULT.json says the same and is written last.

    \b
    Example:
      kafka-forensics postmortem logs.tar.gz -o out
      kafka-forensics postmortem broker-1/ broker-2/ clients.zip -o out --master 'local[4]'
    """
    from forensics.pipeline import postmortem
    from forensics.settings import Settings

    def say(text: str) -> None:
        if not quiet or text.startswith("warning"):
            click.echo(text, err=True)

    settings = Settings(archives, out, master, split_size, packs, context, fail_on, strict)
    result = postmortem(settings, say)
    if as_json:
        click.echo(json.dumps(result, indent=1, ensure_ascii=False))
    elif not quiet:
        click.echo(f"{result['verdict']}: {result['summary']}")
        click.echo(f"page: {out / 'report.html'}")
    raise SystemExit(result["exit_code"])


if __name__ == "__main__":
    run(__file__)
