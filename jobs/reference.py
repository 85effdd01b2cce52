"""Write a page about all commands and options, out of their help texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from forensics.cli.app import PROGRAM_NAME, jobs_folder, load_command, run_file

WIDTH = 100
HEAD = """\
# Commands

What each command says of itself with `-h`. This page is written by `kafka-forensics reference`.
"""


@click.command()
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the page goes; else to standard output.",
)
def command(out: Path | None) -> None:
    """Write a page about all commands and options, out of their help texts.

    The page is Markdown, and the same wherever and however wide a terminal it is written in.

    \b
    Example:
      kafka-forensics reference -o commands.md
    """
    text = page()
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"written: {out}")


def page() -> str:
    """Write the page."""
    parts = [HEAD]
    for call, one in _every():
        words = " ".join((PROGRAM_NAME, *call))
        context = click.Context(one, info_name=words, terminal_width=WIDTH, max_content_width=WIDTH,
                                help_option_names=["-h", "--help"])  # fmt: skip
        parts.append(f"\n## {' '.join(call)}\n\n```text\n{one.get_help(context).strip()}\n```\n")
    return "".join(parts)


def _every() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for path in sorted(jobs_folder().glob("*.py")):
        if not path.name.startswith("_"):
            yield from _below((path.stem.replace("_", "-"),), load_command(path))


def _below(
    call: tuple[str, ...], one: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield call, one
    if isinstance(one, click.Group):
        for name in sorted(one.commands):
            yield from _below((*call, name), one.commands[name])


if __name__ == "__main__":
    run_file(__file__)
