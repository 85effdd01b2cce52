"""The commands of `rules` that need no log: list, show, new, docs, schema."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forensics.cli.app import RULES_OPTION

if TYPE_CHECKING:
    from forensics.events.packs import RuleSet
    from forensics.events.rules import Rule


# A terminal is not as wide as the longest list of loggers.
LOGGERS = 2


@click.group()
def command() -> None:
    """Say what the rules are, and write new ones."""


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

    rules: Sequence[Rule] = _found(packs).rules
    last = logger and logger.rpartition(".")[2]
    rules = _only(rules, "kind", kind, {rule.id: rule_text.event_kinds(rule) for rule in rules})
    rules = _only(rules, "logger", last, {rule.id: rule.loggers for rule in rules})
    rules = _only(
        rules, "family", family, {rule.id: [rule_text.rule_family(rule)] for rule in rules}
    )
    told = [rule_text.summarise_rule(rule) for rule in sorted(rules, key=lambda rule: rule.id)]
    if as_json:
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    for line in _lines(told, aligned=sys.stdout.isatty()):
        print(line)


@command.command()
@click.argument("name", metavar="ID")
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

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A line of a log may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in describe_rule(find_rule(_found(packs).rules, name)):
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
    from forensics.errors import ForensicsError
    from forensics.events.rules import read_kinds
    from forensics.rule_tools.rule_text import all_kinds
    from forensics.rule_tools.scaffold import RuleDraft, draft_rule, schema_address

    file = folder / f"{name.replace('.', '-')}.yaml"
    # No line may be taken by two rules, and your own count too.
    mine = [folder] if any(folder.rglob("*.yaml")) else []
    own = (pair for path in (folder / "kinds").rglob("*.yaml") for pair in read_kinds(path))
    known = {**all_kinds(), **dict(own)}
    text = draft_rule(
        RuleDraft(name, logger, kind, line), _found(mine), known, schema_address(file)
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        message = f"{file} is there already; choose another ID or another --dir."
        raise ForensicsError(message) from None
    print(f"{file}: now say what it means, then run: kafka-forensics rules check {folder}")


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def docs(folder: Path) -> None:
    """Write the pages about the rules into DIR.

    DIR/rules/ gets a page for each family of rules, one for the kinds of events, and an index;
    DIR/events.md is about the table of events, DIR/detectors.md about what finds incidents. Pages
    of families that are gone are deleted. Files that this command has not written are left alone.

    \b
    Example:
      kafka-forensics rules docs docs
    """
    from forensics.detection.detector_docs import render_detector_docs
    from forensics.errors import ForensicsError
    from forensics.rule_tools.generate_docs import GENERATED_MARK, generate_pages
    from forensics.rule_tools.rule_text import all_kinds

    made = generate_pages(_found(()).rules, all_kinds())
    made |= {"detectors.md": f"{GENERATED_MARK}\n\n{render_detector_docs()}"}
    written = {folder / name: text for name, text in made.items()}
    there = {path for path in (*written, *(folder / "rules").glob("*.md")) if path.exists()}
    ours = {path for path in there if path.read_text("utf-8").startswith(GENERATED_MARK)}
    if foreign := sorted(set(written) & (there - ours)):
        says = "was not written by this command, and would be lost; move it away."
        raise ForensicsError("\n".join(f"{path} {says}" for path in foreign))
    for path in ours - set(written):
        path.unlink()
    _write(written)
    print(f"{len(written)} pages in {folder}")


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def schema(folder: Path) -> None:
    """Write the JSON Schemas of rules, layouts and kinds into DIR.

    Editors check and complete YAML by them. Let the first line of a rule be:

    \b
      # yaml-language-server: $schema=DIR/event-rule.json

    \b
    Example:
      kafka-forensics rules schema rules/schema
    """
    from forensics.rule_tools.json_schemas import generate_schemas
    from forensics.rule_tools.rule_text import all_kinds

    written = {folder / name: text for name, text in generate_schemas(all_kinds()).items()}
    _write(written)
    print(f"{len(written)} schemas in {folder}")


def _found(packs: Sequence[Path]) -> RuleSet:
    """Read the rules: those shipped, and the packs laid over them."""
    from forensics.events.packs import load_rule_set, open_pack

    return load_rule_set([open_pack(pack) for pack in packs])


def _only(
    rules: Sequence[Rule], what: str, wanted: str | None, has: Mapping[str, Sequence[str]]
) -> Sequence[Rule]:
    """Keep the rules that have something; what none has is most often misspelt."""
    from forensics.errors import ForensicsError
    from forensics.rule_tools.rule_text import similar_names

    if wanted is None:
        return rules
    kept = [rule for rule in rules if wanted in has[rule.id]]
    if not kept:
        guesses = similar_names(wanted, (name for names in has.values() for name in names))
        hint = f" Did you mean {' or '.join(guesses)}?" if guesses else ""
        raise ForensicsError(f"No rule has the {what} {wanted!r}.{hint}")
    return kept


def _lines(told: Iterable[Mapping[str, Any]], *, aligned: bool) -> Iterable[str]:
    rows = []
    for one in told:
        loggers = one["loggers"]
        if aligned and len(loggers) > LOGGERS:
            loggers = [*loggers[:LOGGERS], f"+{len(loggers) - LOGGERS}"]
        versions = "-".join(one["versions"])
        rows.append([one["id"], one["kind"], ",".join(loggers), versions, str(one["wordings"])])
    if not aligned:
        return ["\t".join(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _write(written: Mapping[Path, str]) -> None:
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
