"""Show how the lines of a log are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from forensics.cli.app import PATTERN_OPTION, RULES_OPTION, print_any_character, run_file

# Line numbers start anew in each split, so files are read whole here.
WHOLE_FILES = 1 << 62


@click.group()
def command() -> None:
    """Show how the lines of a log are read."""


@command.command(name="try")
@click.argument("file", metavar="FILE", type=click.Path())
@PATTERN_OPTION
@RULES_OPTION
def try_(file: str, log_patterns: Sequence[str], packs: Sequence[Path]) -> None:
    """Say which layout reads which lines of FILE, and which lines none reads.

    FILE is a log, a folder or an archive of any form. Of each file: from which line to which a
    layout was met, how many records it read, and whether it is a known one, was inferred from the
    lines themselves, pasted as --log-pattern, or found in logging configuration beside the logs;
    then the most frequent shapes of the lines that stay unread, with numbers
    as # and words as NAME, and one line of each.

    \b
    Example:
      kafka-forensics layout try server.log
      kafka-forensics layout try server.log --log-pattern '%d{ISO8601} | %p | %c | %m%n'
    """
    from forensics.events.packs import open_packs
    from forensics.ingest.read_plan import plan_reading
    from forensics.rule_tools.layout_trial import configure_reader, try_layouts

    print_any_character()
    splits = plan_reading([file], WHOLE_FILES).splits
    reader = configure_reader(splits, open_packs(packs, log_patterns))
    for trial in try_layouts(splits, reader):
        for line in trial.to_lines():
            print(line)


if __name__ == "__main__":
    run_file(__file__)
