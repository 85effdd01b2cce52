"""List, show, write and check the rules, or see what they make of a log.

The rules are YAML files; each carries lines of real logs and what they must give.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics.cli.app import (
    JSON_OPTION,
    RULES_OPTION,
    print_any_character,
    run_file,
    write_new_file,
)
from forensics.cli.option_sources import refuse_unnamed_programs
from forensics.cli.value_completion import complete_with, rule_names

if TYPE_CHECKING:
    from forensics.errors import Problem
    from forensics.events.packs import Pack, RuleSet
    from forensics.events.rules import Rule
    from forensics.ingest.read_plan import Split
    from forensics.rule_tools.rule_coverage import ArchiveWalk


SHAPES = 50
# A terminal is not as wide as the longest list of loggers.
MAX_LOGGERS = 2
# Line numbers start anew in each split, so files are read whole here.
WHOLE_FILES = 1 << 62


@click.group()
def command() -> None:
    """List, show, write and check the rules, or see what they make of a log."""


@command.command(name="list")
@click.option("--kind", help="Only rules that tell this kind of event, be it beside their news.")
@click.option("--logger", help="Only rules that listen to this logger; its last part is enough.")
@click.option("--family", help="Only rules of this folder of rules/events/.")
@click.option("--json", "as_json", is_flag=True, help="Write a list of objects as JSON.")
@RULES_OPTION
def list_(
    kind: str | None,
    logger: str | None,
    family: str | None,
    packs: Sequence[Path],
    *,
    as_json: bool,
) -> None:
    """List the rules, a line each.

    The columns are: id, kind of event, loggers, oldest to newest version, and number of wordings.
    They are aligned on a terminal; in a pipe or a file there are tabs between them.

    \b
    Example:
      kafka-forensics rules list --kind partition_state --logger ReplicaManager
    """
    from forensics.rule_tools import rule_text

    rules: Sequence[Rule] = _load(packs).rules
    logger = logger and logger.rpartition(".")[2]
    rules = _select(rules, "kind", kind, rule_text.event_kinds)
    rules = _select(rules, "logger", logger, lambda rule: rule.loggers)
    rules = _select(rules, "family", family, lambda rule: [rule_text.rule_family(rule)])
    rows = [rule_text.summarise_rule(rule) for rule in sorted(rules, key=lambda rule: rule.id)]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for line in _format_rows(rows, aligned=sys.stdout.isatty()):
        print(line)


@command.command()
@click.argument("name", metavar="ID", shell_complete=complete_with(rule_names))
@RULES_OPTION
def show(name: str, packs: Sequence[Path]) -> None:
    """Show everything of the rule with this ID.

    What it means, its wordings with their versions, the facts it gives, its examples, and the lines
    it refuses. ID may also be what an event says of its rule, such as isr.updated@3.1.

    \b
    Example:
      kafka-forensics rules show isr.updated
    """
    from forensics.rule_tools.rule_text import describe_rule, find_rule

    print_any_character()
    for line in describe_rule(find_rule(_load(packs).rules, name)):
        print(line)


@command.command()
@click.argument("name", metavar="ID")
@click.option("--logger", required=True, help="Who writes the line; the last part is enough.")
@click.option("--line", help="A whole line of a log, with its time and logger.")
@click.option("--kind", default="routine", show_default=True, help="The kind of event it tells.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="my-rules",
    show_default=True,
    help="The folder of your rules; it is made where there is none.",
)
def new(name: str, logger: str, line: str | None, kind: str, folder: Path) -> None:
    """Write a draft of a rule with this ID.

    The draft passes `rules check DIR` as it is. Of --line it makes the example, the match (numbers
    and partitions become parts of a template) and a line that is near and refused. What the line
    means is left to you. A file that is there already is never touched.

    \b
    Example:
      kafka-forensics rules new cleaner.slow --logger LogCleaner \\
        --line '[2026-11-18 11:51:22,793] INFO Cleaner 0 is slow (kafka.log.LogCleaner)'
    """
    from forensics.events.rules import read_kinds
    from forensics.rule_tools.rule_text import all_kinds
    from forensics.rule_tools.scaffold import RuleDraft, draft_rule, schema_address

    file = folder / f"{name.replace('.', '-')}.yaml"
    # No line may be taken by two rules, and the user's own rules count, too.
    rules = _load([folder] if any(folder.rglob("*.yaml")) else [])
    own = (pair for path in (folder / "kinds").rglob("*.yaml") for pair in read_kinds(path))
    kinds = {**all_kinds(), **dict(own)}
    text = draft_rule(RuleDraft(name, logger, kind, line), rules, kinds, schema_address(file))
    write_new_file(file, text, "choose another ID or another --dir")
    print(f"{file}: now say what it means, then run: kafka-forensics rules check {folder}")


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def docs(folder: Path) -> None:
    """Write the pages about the rules into DIR.

    DIR/rules/ gets a page for each family of rules, one for the kinds of events, and an index;
    DIR/tables.md is about the tables of a run, DIR/detectors.md about what finds incidents. Pages
    of families that are gone are deleted. Files that this command has not written are left alone.

    \b
    Example:
      kafka-forensics rules docs docs
    """
    from forensics.errors import ForensicsError
    from forensics.rule_tools.generate_docs import (
        GENERATED_MARK,
        generate_pages,
        render_detector_docs,
    )
    from forensics.rule_tools.rule_text import all_kinds

    pages = generate_pages(_load(()).rules, all_kinds())
    pages |= {"detectors.md": f"{GENERATED_MARK}\n\n{render_detector_docs()}"}
    files = {folder / name: text for name, text in pages.items()}
    existing = {path for path in (*files, *(folder / "rules").glob("*.md")) if path.exists()}
    generated = {path for path in existing if path.read_text("utf-8").startswith(GENERATED_MARK)}
    if foreign := sorted(set(files) & (existing - generated)):
        message = "was not written by this command, and would be lost; move it away."
        raise ForensicsError("\n".join(f"{path} {message}" for path in foreign))
    for path in generated - set(files):
        path.unlink()
    _write_files(files)
    print(f"{len(files)} pages in {folder}")


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def schema(folder: Path) -> None:
    """Write the JSON Schemas of rules, layouts, wrappers and kinds into DIR.

    Editors check and complete YAML by them. Let the first line of a rule be:

    \b
      # yaml-language-server: $schema=DIR/event-rule.json

    \b
    Example:
      kafka-forensics rules schema rules/schema
    """
    from forensics.rule_tools.generate_docs import generate_schemas
    from forensics.rule_tools.rule_text import all_kinds

    files = {folder / name: text for name, text in generate_schemas(all_kinds()).items()}
    _write_files(files)
    print(f"{len(files)} schemas in {folder}")


@command.command(name="check")
@click.argument(
    "paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path),
    callback=refuse_unnamed_programs,
)  # fmt: skip
@click.option(
    "--samples",
    is_flag=True,
    help="Try the shipped detectors on their samples, too; takes some seconds.",
)
@JSON_OPTION
def check_(paths: Sequence[Path], *, samples: bool, as_json: bool) -> None:
    """Try all layouts, wrappers, event rules and detectors on their own examples.

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
    for pack in packs:
        if pack.programs:
            print(f"runs Python of pack {pack.origin}", file=sys.stderr)
    rules, problems = merge_packs(packs)
    problems += check_rules(rules.layouts, rules.rules, rules.wrappers)
    if not problems and (samples or any(pack.pages_in("detectors") for pack in packs)):
        from forensics.rule_tools.check import find_detector_problems

        problems += find_detector_problems(packs, shipped=samples)
    problems += [*find_limit_problems(packs), *find_suite_problems(packs)]
    if as_json:
        rows = [
            {"file": one.file, "line": one.line, "says": one.message} for one in sorted(problems)
        ]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        raise SystemExit(1 if problems else 0)
    if problems:
        raise RuleError(problems)
    wordings = [wording for rule in rules.rules for wording in rule.wordings]
    examples = sum(len(wording.examples) for wording in wordings)
    print(
        f"{len(rules.rules)} rules, {len(wordings)} wordings, {examples} examples, "
        f"{len(rules.layouts)} layouts, {len(rules.wrappers)} wrappers: all hold"
    )


def find_limit_problems(packs: Sequence[Pack]) -> list[Problem]:
    """Find what is wrong with the limits of packs, and what they suppress for too long."""
    from datetime import UTC, datetime

    from forensics.detection.thresholds import find_expired_suppressions, load_limits
    from forensics.errors import collect_problems
    from forensics.events.packs import LIMITS

    pages = [pack.pages[LIMITS] for pack in packs if LIMITS in pack.pages]
    files = [Path(page.name) for pack in packs for page in pack.pages_in("detectors")]
    detectors = [path.stem.replace("_", "-") for path in files]
    problems: list[Problem] = []
    with collect_problems(problems):
        load_limits(pages, detectors)
    return problems or list(find_expired_suppressions(pages, datetime.now(UTC).date()))


def find_suite_problems(packs: Sequence[Pack]) -> list[Problem]:
    """Find what is wrong with the expectations of packs: words, columns, names, arguments."""
    from forensics.errors import collect_problems
    from forensics.quality.gx_runner import load_checked_expectations

    problems: list[Problem] = []
    if any(pack.pages_in("quality") for pack in packs):
        with collect_problems(problems):
            load_checked_expectations(packs)
    return problems


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
    from forensics.events.log_reader import LogReader
    from forensics.rule_tools.rule_coverage import RuleTally, explain_matches

    print_any_character()
    tally = RuleTally()
    rules = _load(packs)
    lines = explain_matches(
        _plan_whole_files([file]), LogReader(rules.layouts, rules.rules, rules.wrappers), tally
    )
    for line in islice(lines, 0 if unclaimed else limit):
        print(line)
    # The lines that are not shown count all the same.
    for _ in lines:
        pass
    shapes = tally.shapes.most_common(SHAPES if limit is None else limit)
    for name, count in shapes if unclaimed else sorted(tally.rules.items()):
        print(f"{count:>8}  {name}")
    _warn_of_damage(tally)
    print(
        f"{tally.records} records, {tally.claimed} claimed, "
        f"{tally.unparsed_lines} lines in no known layout"
    )


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
    from forensics.events.log_reader import LogReader
    from forensics.rule_tools.rule_coverage import measure_rule_coverage

    rules = _load(packs)
    coverage = measure_rule_coverage(
        _plan_whole_files(archives), LogReader(rules.layouts, rules.rules, rules.wrappers)
    )
    _warn_of_damage(coverage)
    if as_json:
        print(json.dumps(coverage.to_dict(), indent=2))
        return
    for line in coverage.to_lines(limit):
        print(line)


@command.command(name="profile")
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...", type=click.Path())
@click.option(
    "--limit", type=click.IntRange(min=0), default=30, show_default=True, help="Show so many rules."
)
@RULES_OPTION
def profile_(archives: Sequence[str], limit: int, packs: Sequence[Path]) -> None:
    """Say what the rules cost on ARCHIVE, the most expensive first.

    Scans it in this process, without Spark, as one worker would. First come the seconds of each
    step of the scan: prefilter, parse, match, and all other. Then come the wordings: the
    milliseconds of each, the records it was tried on, and those that it matched.

    \b
    Example:
      kafka-forensics rules profile broker-logs.tar.gz --rules my-rules/
    """
    from forensics.rule_tools.rule_coverage import profile_scan

    rules, splits = _load(packs), _plan_whole_files(archives)
    for line in profile_scan(splits, rules.layouts, rules.active_rules()).to_lines(limit):
        print(line)


def _load(packs: Sequence[Path]) -> RuleSet:
    """Read the shipped rules, and the packs laid over them."""
    from forensics.events.packs import load_rule_set, open_pack

    return load_rule_set([open_pack(pack) for pack in packs])


def _plan_whole_files(archives: Sequence[str]) -> Sequence[Split]:
    """Plan to read whole files, and warn of what cannot be read."""
    from forensics.ingest.read_plan import plan_reading
    from forensics.lib.text_safety import printable

    work = plan_reading(archives, WHOLE_FILES)
    for label, problem in work.problems:
        click.echo(f"warning: {printable(label)}: {printable(problem)}; the rest is read", err=True)
    return work.splits


def _warn_of_damage(walk: ArchiveWalk) -> None:
    for damage in walk.damaged:
        click.echo(f"warning: {damage}; what came before was read", err=True)


def _select(
    rules: Sequence[Rule], what: str, wanted: str | None, values: Callable[[Rule], Sequence[str]]
) -> Sequence[Rule]:
    """Keep the rules that have a value; one that no rule has is most often misspelt."""
    from forensics.errors import ForensicsError
    from forensics.rule_tools.rule_text import similar_names

    if wanted is None:
        return rules
    kept = [rule for rule in rules if wanted in values(rule)]
    if not kept:
        guesses = similar_names(wanted, (name for rule in rules for name in values(rule)))
        hint = f" Did you mean {' or '.join(guesses)}?" if guesses else ""
        raise ForensicsError(f"No rule has the {what} {wanted!r}.{hint}")
    return kept


def _format_rows(rules: Iterable[Mapping[str, Any]], *, aligned: bool) -> Iterable[str]:
    rows = []
    for rule in rules:
        loggers = rule["loggers"]
        if aligned and len(loggers) > MAX_LOGGERS:
            loggers = [*loggers[:MAX_LOGGERS], f"+{len(loggers) - MAX_LOGGERS}"]
        versions = "-".join(rule["versions"])
        rows.append([rule["id"], rule["kind"], ",".join(loggers), versions, str(rule["wordings"])])
    if not aligned:
        return ["\t".join(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _write_files(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    run_file(__file__)
