"""Read log archives and write the postmortem page, findings.json and tables."""

from __future__ import annotations

from pathlib import Path

import click

from forensics.console import RULES, run


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
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors.")
def command(
    archives: tuple[str, ...],
    out: Path,
    master: str | None,
    split_size: int,
    packs: tuple[Path, ...],
    *,
    context: bool,
    quiet: bool,
) -> None:
    """Read log archives and write the postmortem page, findings.json and tables.

    ARCHIVE is a folder, a log file, or a .gz, .tar, .tar.gz, .zip (told by content, not by name);
    several are read as one cluster's.

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

    settings = Settings(archives, out, master, split_size, packs, context)
    document = postmortem(settings, say)
    if not quiet:
        click.echo(f"{document['verdict']}: {document['summary']}")
        click.echo(f"page: {out / 'report.html'}")


if __name__ == "__main__":
    run(__file__)
