"""What the Tab key offers as values: names out of an output folder, a store, or the rules.

A shell waits for it, so little is read; and whatever is wrong, it offers nothing rather than fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from forensics.lib.node_ids import broker_id
from forensics.lib.whole_numbers import whole_number

# The parameters that name an output folder or a store, in the order in which they are looked at.
_FOLDERS = ("archives", "out", "store")
_MOST = 500
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class NodeNumber(click.ParamType[int]):
    """The number of a broker, also as logs and pages write it: broker-2."""

    name = "broker"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read 2, broker-2 and broker 2 as 2."""
        text = str(value).strip().lower().replace(" ", "-")
        number = whole_number(text) if text.isdecimal() else broker_id(text)
        if number is None:
            self.fail(f"{value!r} is no broker; write its id, such as 2 or broker-2.", param, ctx)
        return number


def complete_with(names: Callable[[Path], Iterable[tuple[str, str]]]) -> Completer:
    """Return what completes a value out of the first named folder; each name with its help."""

    def complete(
        context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found: list[CompletionItem] = []
        with suppress(Exception):
            for folder in _folders(context, param):
                for name, help_ in names(folder):
                    if name.startswith(incomplete) and len(found) < _MOST:
                        found.append(CompletionItem(name, help=help_ or None))
        return found

    return complete


def _folders(context: click.Context, param: click.Parameter) -> Iterable[Path]:
    named = [context.params.get(name) for name in _FOLDERS if name != param.name]
    paths = [each for one in named for each in (one if isinstance(one, tuple) else (one,)) if each]
    # Behind an option that waits for its value click has put arguments nowhere else.
    paths += [word for word in context.args if not word.startswith("-")]
    # What a finding is looked up in by default.
    return [Path(path) for path in paths or ["out"]]


def partition_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give every partition of a run."""
    return sorted({(f"{topic}-{number}", "") for topic, number in _partitions(folder)})


def topic_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give every topic of a run."""
    return sorted({(str(topic), "") for topic, _ in _partitions(folder)})


def _partitions(folder: Path) -> Iterable[tuple[str, int]]:
    rows = _tables(folder).read("leadership", ["topic", "partition"])
    pairs = rows.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    return ((row["topic"], row["partition"]) for row in pairs if row["topic"])


def broker_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give every broker of a run, as pages name it."""
    brokers = _tables(folder).read("lanes", ["broker"])["broker"].unique().to_pylist()
    return [
        (f"broker-{number}", "") for number in sorted(one for one in brokers if one is not None)
    ]


def finding_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give the id of every finding, with its title."""
    from forensics.run_output.integrity import FINDINGS_FILE, read_json  # noqa: PLC0415 - slow

    findings = read_json(folder / FINDINGS_FILE).get("findings") or ()
    return [(str(one["id"]), f"{one['severity']}: {one['title']}") for one in findings]


def table_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give every table of a run."""
    return [("findings", ""), *((name, "") for name in _tables(folder).names())]


def week_names(folder: Path) -> Iterable[tuple[str, str]]:
    """Give the weeks of a store, the newest first."""
    weeks = (path.name for path in (folder / "weeks").iterdir() if path.is_dir())
    return [(week, "") for week in sorted(weeks, reverse=True)]


def rule_names(_folder: Path) -> Iterable[tuple[str, str]]:
    """Give the id of every shipped rule."""
    from forensics.lib.yaml_with_lines import rules_folder  # noqa: PLC0415 - slow

    # A rule stands in a file of its name.
    return sorted((path.stem, "") for path in (rules_folder() / "events").rglob("*.yaml"))


def _tables(folder: Path) -> Any:
    from forensics.run_output.reader import Tables  # noqa: PLC0415 - slow

    return Tables(folder / "tables")
