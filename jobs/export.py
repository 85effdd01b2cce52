"""Write what a postmortem found for other tools: tickets, sheets, timelines, CI."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from forensics.cli.app import (
    QUIET_OPTION,
    SAVED_RUN,
    is_output_read,
    run_file,
    tell,
)
from forensics.cli.value_completion import complete_with, table_names
from forensics.lib.storage import write_atomically

FORMATS = (
    "markdown", "slack", "webhook", "grafana", "prometheus", "junit", "jsonl", "timesketch", "lnav",
    "csv", "parquet", "sql",
)  # fmt: skip


@click.command()
@click.argument("out", required=False, type=SAVED_RUN)
@click.option("--format", "form", required=True, type=click.Choice(FORMATS), help="What to write.")
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), metavar="TARGET",
    help="The file, or the folder for csv and parquet; else text goes to the terminal.",
)  # fmt: skip
@click.option(
    "--table", "tables", multiple=True, metavar="NAME",
    shell_complete=complete_with(table_names),
    help="csv, parquet: only this table, such as leadership; may be repeated.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="markdown: every finding with its evidence.")
@click.option("--events", is_flag=True, help="jsonl, timesketch: every single event, too.")
@click.option("--from", "since", metavar="TIME", help="Leave out what was over before this time.")
@click.option("--to", "till", metavar="TIME", help="Leave out what began after this time.")
@QUIET_OPTION
def command(
    out: Path | None,
    form: str,
    target: Path | None,
    tables: tuple[str, ...],
    *,
    since: str | None,
    till: str | None,
    events: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Write what a postmortem found for other tools: tickets, sheets, timelines, CI.

    OUT is the output folder of `postmortem`; no log is read, so neither Spark nor Java is needed.

    \b
      markdown    a ticket of some 60 lines: what, why, impact, actions, evidence
      slack       a message of Block Kit, for an incoming webhook of Slack
      webhook     the same answers as one JSON object, for any other webhook
      grafana     annotations, one body for POST /api/annotations a line
      prometheus  the figures of the run, and of the week where OUT is weeks/WEEK of a store, for
                  node_exporter's textfile collector
      junit       one test for each finding and detector: an incident fails, what these logs
                  cannot tell is an error
      jsonl       everything that happened, in the order of time, one JSON object a line
      timesketch  the same with message, datetime and timestamp_desc
      lnav        all known layouts of log lines, for `lnav -i`; needs no OUT
      csv         every table as a sheet, and the findings; no cell is a formula
      parquet     every table as one file, and the findings
      sql         a view of each table and of the findings, for DuckDB; OUT stays where it is

    TIME is as for `report`, in UTC; csv, parquet and sql hold whole tables.

    \b
    Example:
      kafka-forensics export out --format markdown -o ticket.md
      kafka-forensics export out --format csv -o sheets --table leadership --table findings
      kafka-forensics export out --format timesketch --from 11:38 --to 11:41 -o timeline.jsonl
      kafka-forensics export out --format junit -o TEST-kafka.xml
      kafka-forensics export out --format slack -o message.json
      kafka-forensics export out --format prometheus -o /var/lib/node_exporter/kafka.prom
      kafka-forensics export --format lnav -o kafka_log.json
      kafka-forensics export out --format sql -o views.sql
    """
    from forensics.report.exports import FOLDER_FORMATS, TEXT_FORMATS, lnav
    from forensics.report.time_window import narrow_run, parse_window
    from forensics.run_output.reader import open_run

    _check(form, target, tables, since or till, events=events, full=full)
    if form == "lnav":
        _write(lnav.write(), target, quiet=quiet)
        return
    if out is None:
        raise click.UsageError("Missing argument 'OUT'.")
    saved = open_run(out)
    if form in FOLDER_FORMATS and target:
        for path in FOLDER_FORMATS[form](saved, target, tables):
            if not quiet:
                tell(f"written: {path}")
        return
    if since is not None or till is not None:
        saved = narrow_run(saved, parse_window(saved, since, till))
    _write(TEXT_FORMATS[form](saved, events or full), target, quiet=quiet)


def _write(text: Iterator[str], target: Path | None, *, quiet: bool) -> None:
    """Write a text to the terminal, or whole into a file, and say so."""
    if target is None or str(target) == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        for piece in text:
            sys.stdout.write(piece)
            if not is_output_read():
                break
        return
    with (
        write_atomically(target) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(text)
    if not quiet:
        tell(f"written: {target}")


def _check(
    form: str,
    target: Path | None,
    tables: tuple[str, ...],
    window: str | None,
    *,
    events: bool,
    full: bool,
) -> None:
    """Refuse options that the format would ignore."""
    is_folder = form in ("csv", "parquet")
    if is_folder and (target is None or target.is_file()):
        raise click.UsageError(f"--format {form} writes a folder: name it by -o FOLDER.")
    if window and (is_folder or form in ("lnav", "sql")):
        what = "layouts" if form == "lnav" else "whole tables"
        raise click.UsageError(f"--format {form} writes {what}; leave --from and --to.")
    if tables and not is_folder:
        raise click.UsageError("--table is for csv and parquet.")
    if events and form not in ("jsonl", "timesketch"):
        raise click.UsageError("--events is for jsonl and timesketch.")
    if full and form != "markdown":
        raise click.UsageError("--full is for markdown.")


if __name__ == "__main__":
    run_file(__file__)
