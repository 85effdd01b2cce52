"""Write a page about all commands and options, out of their help texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from forensics.cli.app import PROGRAM_NAME, jobs_folder, load_command, run_file

WIDTH = 100
HEAD = """\
# Commands

What each command says of itself with `-h`. This page is written by `kafka-forensics reference`.
"""

_MAN_WIDTH = 76
_MAN_HEAD = """\
.\\" Written by `make docs` from the help texts; what is changed here is lost.
.TH KAFKA\\-FORENSICS 1
.SH NAME
kafka\\-forensics \\- read archives of Apache Kafka logs and write what happened
.SH SYNOPSIS
.B kafka\\-forensics
.I COMMAND
[OPTION]... [ARGUMENT]...
.SH COMMANDS
"""
_MAN_TAIL = """\
.SH EXIT STATUS
0: done; 1: failed, in one sentence; 2: the command line makes no sense; 3: there is a finding of
the level of \\-\\-fail\\-on or above; 4: the logs do not let anyone tell; 5: another run holds the
store; 130: interrupted.
.SH ENVIRONMENT
KAFKA_FORENSICS_COMMAND_OPTION, as in KAFKA_FORENSICS_POSTMORTEM_FAIL_ON=high, stands for an option
that is not given. JAVA_HOME names the Java that Spark runs on.
"""


@click.command()
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the page goes; else to standard output.",
)
@click.option("--man", is_flag=True, help="Write a page for `man` instead of Markdown.")
def command(out: Path | None, *, man: bool) -> None:
    """Write a page about all commands and options, out of their help texts.

    The page is Markdown, and the same wherever and however wide a terminal it is written in.

    \b
    Example:
      kafka-forensics reference -o commands.md
      kafka-forensics reference --man -o kafka-forensics.1
    """
    text = man_page() if man else page()
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"written: {out}")


def page() -> str:
    """Write the page."""
    parts = [HEAD]
    for call, one in _every():
        parts.append(f"\n## {' '.join(call)}\n\n```text\n{_help(call, one, WIDTH)}\n```\n")
    return "".join(parts)


def man_page() -> str:
    """Write the page for `man`: the help texts as they are, in the form of roff."""
    parts = [_MAN_HEAD]
    for call, one in _every():
        text = _roff(_help(call, one, _MAN_WIDTH))
        parts.append(f".SS {_roff(' '.join(call))}\n.nf\n{text}\n.fi\n")
    return "".join([*parts, _MAN_TAIL])


def _help(call: tuple[str, ...], one: click.Command, width: int) -> str:
    words = " ".join((PROGRAM_NAME, *call))
    context = click.Context(one, info_name=words, terminal_width=width, max_content_width=width,
                            help_option_names=["-h", "--help"])  # fmt: skip
    return one.get_help(context).strip()


def _roff(text: str) -> str:
    r"""Return a text that stands in a page of `man` as it is.

    >>> print(_roff(".profile\n  a-b '\\b'"))
    \&.profile
    \&  a\-b \(aq\eb\(aq
    """
    for sign, name in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha")):
        text = text.replace(sign, name)
    return re.sub(r"(?m)^(?=[. ])", r"\\&", text.replace("~", "\\(ti"))


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
