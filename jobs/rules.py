"""List, show, write and check the rules, or see what they make of a log.

The rules are YAML files; each carries lines of real logs and what they must give.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.app import JSON_OPTION, RULES_OPTION, load_command, run_file

if TYPE_CHECKING:
    from forensics.errors import Problem
    from forensics.events.log_reader import LogReader
    from forensics.events.packs import Pack
    from forensics.ingest.read_plan import Split
    from forensics.rule_tools.rule_coverage import ArchiveWalk, RuleTally


SHAPES = 50
# Line numbers start anew in each split, so files are read whole here.
WHOLE = 1 << 62


@click.group()
def command() -> None:
    """List, show, write and check the rules, or see what they make of a log."""


# The commands that need no log.
catalogue_ = load_command(Path(__file__).with_name("_catalogue.py"))
assert isinstance(catalogue_, click.Group)
for listed in catalogue_.commands.values():
    command.add_command(listed)


@command.command(name="check")
@click.argument(
    "paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--samples",
    is_flag=True,
    help="Try the shipped detectors on their samples, too; takes some seconds.",
)
@JSON_OPTION
def check_(paths: Sequence[Path], *, samples: bool, as_json: bool) -> None:
    """Try all layouts, event rules and detectors on their own examples.

    PATH is a YAML file with an event rule, or a pack (a folder of them): they are checked together
    with the shipped rules, and one that has the id of a shipped rule takes its place. A pack's
    detectors are tried on their samples, its limits.yaml must fit the detectors there are, and its
    expectations in quality/ the tables; what it suppresses for longer than somebody meant it to is
    a problem, too.

    Prints every problem as `file:line: sentence` and ends with 1, or says that all hold. With
    --json the problems are a list of objects with file, line and says; it is empty where all hold.

    \b
    Example:
      kafka-forensics rules check my-rules/
    """
    from forensics.errors import RuleError
    from forensics.events.packs import merge_packs, open_pack
    from forensics.rule_tools.check import check_rules

    packs = [open_pack(path) for path in paths]
    found, problems = merge_packs(packs)
    problems += check_rules(found.layouts, found.rules)
    if not problems and (samples or any(pack.pages_in("detectors") for pack in packs)):
        from forensics.sandbox import find_detector_problems

        problems += find_detector_problems(packs, shipped=samples)
    problems += [*limit_problems(packs), *suite_problems(packs)]
    if as_json:
        rows = [
            {"file": one.file, "line": one.line, "says": one.message} for one in sorted(problems)
        ]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        raise SystemExit(1 if problems else 0)
    if problems:
        raise RuleError(problems)
    wordings = [wording for rule in found.rules for wording in rule.wordings]
    examples = sum(len(wording.examples) for wording in wordings)
    print(
        f"{len(found.rules)} rules, {len(wordings)} wordings, {examples} examples, "
        f"{len(found.layouts)} layouts: all hold"
    )


def limit_problems(packs: Sequence[Pack]) -> list[Problem]:
    """Find what is wrong with the limits of packs, and what they suppress for too long."""
    from datetime import UTC, datetime

    from forensics.detection.thresholds import find_expired_suppressions, load_limits
    from forensics.errors import RuleError
    from forensics.events.packs import LIMITS

    pages = [pack.pages[LIMITS] for pack in packs if LIMITS in pack.pages]
    files = [Path(page.name) for pack in packs for page in pack.pages_in("detectors")]
    own = [path.stem.replace("_", "-") for path in files]
    try:
        load_limits(pages, own)
    except RuleError as error:
        return error.problems
    return list(find_expired_suppressions(pages, datetime.now(UTC).date()))


def suite_problems(packs: Sequence[Pack]) -> list[Problem]:
    """Find what is wrong with the expectations of packs: words, columns, names, arguments."""
    from forensics.errors import RuleError
    from forensics.quality.gx_runner import load_checked_expectations

    if not any(pack.pages_in("quality") for pack in packs):
        return []
    try:
        load_checked_expectations(packs)
    except RuleError as error:
        return error.problems
    return []


@command.command()
@click.argument("file", type=click.Path(exists=True))
@click.option("--unclaimed", is_flag=True, help="Show the shapes of the records no rule takes.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Show at most so many lines (all; with --unclaimed {SHAPES}).",
)
@RULES_OPTION
def explain(file: str, limit: int | None, packs: Sequence[Path], *, unclaimed: bool) -> None:
    """Say which rule takes which line of FILE.

    FILE is a log, a folder or an archive of any form. Beside each rule stands what it reads from
    the line. After the lines come the counts: records by rule, records in all, and lines that no
    layout reads.

    With --unclaimed: the messages of loggers that the rules know, and that no rule takes, with
    digits as #, the most frequent first.

    \b
    Example:
      kafka-forensics rules explain server.log --limit 20
    """
    from forensics.rule_tools.rule_coverage import RuleTally, explain_matches

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A log may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
    tally = RuleTally()
    lines = explain_matches(_splits([file]), _book(packs), tally)
    shown = 0 if unclaimed else limit
    for line in islice(lines, shown):
        print(line)
    # What is not shown is counted all the same.
    for _ in lines:
        pass
    _close(tally, SHAPES if limit is None else limit, unclaimed=unclaimed)


@command.command(name="coverage")
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=SHAPES,
    show_default=True,
    help="Show so many loggers, and so many shapes.",
)
@click.option("--json", "as_json", is_flag=True, help="Write all of it as JSON.")
@RULES_OPTION
def coverage_(archives: Sequence[str], limit: int, packs: Sequence[Path], *, as_json: bool) -> None:
    """Say which loggers and shapes of ARCHIVE no rule claims.

    Of each logger: its records, those that tell something, those known to tell nothing (routine),
    and the rest. A shape is a message with its numbers, ids and partitions masked; the first line
    of each is named, and `rules explain` shows what the rules make of it.

    \b
    Example:
      kafka-forensics rules coverage broker-logs.tar.gz --limit 20
    """
    from forensics.rule_tools.rule_coverage import measure_coverage

    counted = measure_coverage(_splits(archives), _book(packs))
    _warn(counted)
    if as_json:
        print(json.dumps(counted.to_dict(), indent=2))
        return
    for line in counted.to_lines(limit):
        print(line)


@command.command(name="profile")
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "--limit", type=click.IntRange(min=0), default=30, show_default=True, help="Show so many rules."
)
@RULES_OPTION
def profile_(archives: Sequence[str], limit: int, packs: Sequence[Path]) -> None:
    """Say what the rules cost on ARCHIVE, the dearest first.

    Scans it in this process, without Spark, as one worker would. First come the seconds of each
    step of the scan; `cut` is all that is not sieving, reading or matching. Then come the wordings:
    the milliseconds of each, the records that it was asked about, and those that it took.

    \b
    Example:
      kafka-forensics rules profile broker-logs.tar.gz --rules my-rules/
    """
    from forensics.events.packs import load_rule_set, open_pack
    from forensics.rule_tools.profile import profile_scan

    found = load_rule_set([open_pack(pack) for pack in packs])
    for line in profile_scan(_splits(archives), found.layouts, found.active_rules()).to_lines(
        limit
    ):
        print(line)


def _splits(archives: Sequence[str]) -> Sequence[Split]:
    """Plan to read whole files, and warn of what cannot be read."""
    from forensics.ingest.read_plan import plan_reading
    from forensics.lib.text_safety import printable

    work = plan_reading(archives, WHOLE)
    for label, problem in work.problems:
        click.echo(f"warning: {printable(label)}: {printable(problem)}; the rest is read", err=True)
    return work.splits


def _book(packs: Sequence[Path]) -> LogReader:
    from forensics.events.log_reader import LogReader
    from forensics.events.packs import load_rule_set, open_pack

    found = load_rule_set([open_pack(pack) for pack in packs])
    return LogReader(found.layouts, found.rules)


def _warn(walk: ArchiveWalk) -> None:
    for damage in walk.damaged:
        click.echo(f"warning: {damage}; what came before was read", err=True)


def _close(tally: RuleTally, limit: int, *, unclaimed: bool) -> None:
    counts = tally.shapes.most_common(limit) if unclaimed else sorted(tally.rules.items())
    for name, count in counts:
        print(f"{count:>8}  {name}")
    _warn(tally)
    print(
        f"{tally.records} records, {tally.claimed} claimed, "
        f"{tally.unparsed_lines} lines in no known layout"
    )


if __name__ == "__main__":
    run_file(__file__)
