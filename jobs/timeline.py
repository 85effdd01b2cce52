"""Show the history of partitions or brokers, with the lines that tell it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics.cli.app import (
    ENGINE_OPTION,
    OUTPUT,
    QUIET_OPTION,
    RULES_OPTION,
    command_words,
    print_any_character,
    refuse_master_of_local,
    run_file,
    style_output,
)
from forensics.cli.value_completion import (
    NodeNumber,
    broker_names,
    complete_with,
    partition_names,
    topic_names,
)

if TYPE_CHECKING:
    from forensics.report.histories.selection import Selection
    from forensics.report.histories.timeline import Timeline
    from forensics.run_output.reader import RunOutput
    from forensics.settings import Settings


COLOURS: dict[str, dict[str, Any]] = {
    "summary": {"bold": True},
    "main": {"fg": "cyan", "bold": True},
    "alarm": {"fg": "red", "bold": True},
    "unknown": {"fg": "yellow"},
    "evidence": {"dim": True},
    "quote": {"dim": True},
}


@click.command()
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "--partition", "partitions", multiple=True, metavar="TOPIC-N",
    shell_complete=complete_with(partition_names),
    help="Show this partition, such as orders-v2-3; may be repeated.",
)  # fmt: skip
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC",
    shell_complete=complete_with(topic_names),
    help="Show all partitions of this topic; may be repeated.",
)  # fmt: skip
@click.option(
    "--broker", "brokers", multiple=True, type=NodeNumber(), metavar="ID",
    shell_complete=complete_with(broker_names),
    help="Show this broker, or controller, such as 2 or broker-2; may be repeated.",
)  # fmt: skip
@click.option("--from", "since", metavar="TIME", help="Show nothing before this time, in UTC.")
@click.option("--to", "till", metavar="TIME", help="Show nothing after this time, in UTC.")
@click.option("--lines", "quote", is_flag=True, help="Quote the lines of evidence, too.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Draw it into one self-contained page, too.",
)  # fmt: skip
@click.option(
    "-o", "--out", type=OUTPUT,
    help="Of an archive: keep the page, findings.json and tables of its postmortem here.",
)  # fmt: skip
@click.option("--master", help="Of an archive: Spark master; default: local[*].")
@ENGINE_OPTION
@RULES_OPTION
@QUIET_OPTION
def command(
    archives: tuple[str, ...],
    *,
    partitions: tuple[str, ...],
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    since: str | None,
    till: str | None,
    page: Path | None,
    out: str | Path | None,
    master: str | None,
    engine: str,
    packs: tuple[Path, ...],
    quote: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show the history of partitions or brokers, with the lines that tell it.

    ARCHIVE is what `postmortem` has left in its output folder: then neither Spark nor Java is
    needed, and the answer is there at once. Or it is what `postmortem` reads, a folder of logs or
    an archive, several being one cluster's: then that is read first.

    Of a partition: each leader epoch, and between them the versions of the in-sync replicas, cuts,
    losses and offsets. Of a broker: its life, its terms as controller, what it took over and lost,
    and its findings. FILE:LINE under a sentence is the evidence for it.

    TIME is as 2026-11-18T11:38:51; where the logs are of one day, 11:38:51 is enough.

    \b
    Example:
      kafka-forensics timeline out --partition orders-v2-3
      kafka-forensics timeline out --broker 2 --from 11:38 --to 11:41 --lines
      kafka-forensics timeline logs.tar.gz -o out --topic orders-v2 --html orders.html
    """
    from forensics.report.histories import build_timelines
    from forensics.report.histories.selection import Selection
    from forensics.run_output.reader import open_run
    from forensics.settings import Settings

    refuse_master_of_local(engine, master)
    wanted = Selection(partitions, topics, brokers, since, till)
    _check(wanted, page)
    settings = Settings(
        archives, Path(), master, packs=packs, engine=engine, command=command_words()
    )
    with _open_output(settings, out, quiet=quiet) as folder:
        saved = open_run(folder)
        stories = build_timelines(saved, wanted)
        _write(saved, stories, as_json=as_json, quote=quote)
        if page:
            _draw(saved, stories, page, as_json=as_json)


def _check(wanted: Selection, page: Path | None) -> None:
    """Refuse what cannot be meant before an archive is read for it."""
    from forensics.errors import ForensicsError
    from forensics.report.histories.selection import check_selection

    if not (wanted.partitions or wanted.topics or wanted.brokers):
        raise click.UsageError(
            "Say whose history: --partition orders-v2-3, --topic orders-v2 or --broker 2."
        )
    check_selection(wanted)
    if page and not page.parent.is_dir():
        raise ForensicsError(f"--html {page}: there is no folder {page.parent}; make it first.")


def _draw(saved: RunOutput, stories: list[Timeline], page: Path, *, as_json: bool) -> None:
    from forensics.report.histories.timeline_page import write_page

    write_page(saved, stories, page)
    # With --json, standard output holds nothing but JSON.
    click.echo(f"page: {page}", err=as_json)


@contextmanager
def _open_output(settings: Settings, out: str | Path | None, *, quiet: bool) -> Iterator[Path]:
    """Yield the output folder of a postmortem: the one that is named, or one made for this."""
    from forensics.errors import ForensicsError
    from forensics.run_output.remote_folder import is_saved_run, local_folder, open_output

    archives = settings.archives
    outputs = [path for path in archives if is_saved_run(path)]
    if outputs:
        if len(archives) > 1:
            raise ForensicsError(
                f"{outputs[0]} is the output of a postmortem, and is read alone; "
                "name either one such folder or archives."
            )
        if out:
            raise ForensicsError(f"{outputs[0]} is read as it is; leave -o out.")
        yield local_folder(outputs[0])
    elif out:
        with open_output(out) as folder:
            address = out if isinstance(out, str) else None
            yield _postmortem(replace(settings, out=folder, address=address), quiet=quiet)
    else:
        with tempfile.TemporaryDirectory(prefix="kafka-forensics-") as scratch:
            yield _postmortem(replace(settings, out=Path(scratch)), quiet=quiet)


def _postmortem(settings: Settings, *, quiet: bool) -> Path:
    from forensics.engine.progress import Progress
    from forensics.pipeline import postmortem

    # Only a person at a terminal is waiting; a pipe gets warnings alone.
    with Progress(sys.stderr, quiet=quiet or not sys.stderr.isatty()).open() as progress:
        postmortem(settings, progress.notify, progress)
    return settings.out


def _write(saved: RunOutput, stories: list[Timeline], *, as_json: bool, quote: bool) -> None:
    from forensics.report.histories.phrases import render_lines, to_json

    print_any_character()
    if as_json:
        print(json.dumps(to_json(saved, stories), indent=1))
        return
    for number, story in enumerate(stories):
        if number:
            print()
        for line in render_lines(story, _paint, quote=quote):
            print(line)


def _paint(what: str, text: str) -> str:
    return style_output(text, **COLOURS.get(what, {}))


if __name__ == "__main__":
    run_file(__file__)
