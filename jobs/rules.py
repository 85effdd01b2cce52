"""Check the rules against their examples, or see what they make of a log.

The rules are YAML files; each carries lines of real logs and what they must give.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.console import run

if TYPE_CHECKING:
    from forensics.events.explaining import Tally

__all__ = ["command"]

SHAPES = 50
# Line numbers start anew in each split, so files are read whole here.
WHOLE = 1 << 62


@click.group()
def command() -> None:
    """Check the rules, or see what they make of a log."""


@command.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def check(paths: Sequence[Path]) -> None:
    """Try all layouts and event rules on their own examples.

    PATH is a YAML file with an event rule, or a folder of them: they are checked together with the
    shipped rules, and one that has the id of a shipped rule takes its place.

    Prints every problem as `file:line: sentence` and ends with 1, or says that all hold.

    Example: kafka-forensics rules check my-rules/
    """
    from forensics.entries.layouts import load_layouts
    from forensics.errors import RuleError
    from forensics.events import checking

    layouts = load_layouts()
    rules, problems = checking.gather(paths)
    problems += checking.check(layouts, rules)
    if problems:
        raise RuleError(problems)
    wordings = [wording for rule in rules for wording in rule.wordings]
    examples = sum(len(wording.examples) for wording in wordings)
    print(
        f"{len(rules)} rules, {len(wordings)} wordings, {examples} examples, "
        f"{len(layouts)} layouts: all hold"
    )


@command.command()
@click.argument("file", type=click.Path(exists=True))
@click.option("--unclaimed", is_flag=True, help="Show the shapes of the records no rule takes.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Show at most so many lines (all; with --unclaimed {SHAPES}).",
)
def explain(file: str, limit: int | None, *, unclaimed: bool) -> None:
    """Say which rule takes which line of FILE, and what it reads from it.

    FILE is a log, a folder or an archive of any form. After the lines come the counts: records by
    rule, records in all, and lines that no layout reads.

    With --unclaimed: the messages of loggers that the rules know, and that no rule takes, with
    digits as #, the most frequent first.

    Example: kafka-forensics rules explain server.log --limit 20
    """
    from forensics.archives.planning import plan
    from forensics.entries.layouts import load_layouts
    from forensics.events.checking import Book
    from forensics.events.explaining import Tally, explain, plain
    from forensics.events.rules import load_rules

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A log may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
    work = plan([file], WHOLE)
    for label, problem in work.problems:
        click.echo(f"warning: {plain(label)}: {plain(problem)}; the rest is read", err=True)
    tally = Tally()
    lines = explain(work.splits, Book(load_layouts(), load_rules()), tally)
    shown = 0 if unclaimed else limit
    for line in islice(lines, shown):
        print(line)
    # What is not shown is counted all the same.
    for _ in lines:
        pass
    _close(tally, SHAPES if limit is None else limit, unclaimed=unclaimed)


def _close(tally: Tally, limit: int, *, unclaimed: bool) -> None:
    counts = tally.shapes.most_common(limit) if unclaimed else sorted(tally.rules.items())
    for name, count in counts:
        print(f"{count:>8}  {name}")
    for damage in tally.damaged:
        click.echo(f"warning: {damage}; what came before was read", err=True)
    print(
        f"{tally.records} records, {tally.claimed} claimed, "
        f"{tally.nowhere} lines in no known layout"
    )


if __name__ == "__main__":
    run(__file__)
