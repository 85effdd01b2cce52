"""What `-h` prints: every command shows how it is called, in lines that can be copied."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from forensics.cli.app import PROGRAM_NAME, jobs_folder, make_group

Call = tuple[str, ...]


def commands() -> Iterator[tuple[Call, click.Command]]:
    """Find every command that does something, with the words by which it is called."""
    top = make_group(jobs_folder())
    with click.Context(top) as context:
        found: list[tuple[Call, click.Command | None]]
        found = [((name,), top.resolve_command(context, [name])[1]) for name in top.commands]
    while found:
        path, command = found.pop()
        if isinstance(command, click.Group):
            found += [((*path, name), inner) for name, inner in command.commands.items()]
        elif command:
            yield path, command


COMMANDS = dict(commands())
everyone = pytest.mark.parametrize("path", sorted(COMMANDS), ids=" ".join)


def shown(path: Call) -> str:
    done = CliRunner().invoke(make_group(jobs_folder()), [*path, "-h"], prog_name=PROGRAM_NAME)
    assert done.exit_code == 0
    return done.stdout


def examples(path: Call) -> list[list[str]]:
    """Give the words of each example, as a shell reads them."""
    block = re.search(r"^  Example:\n((?:    .*\n)+)", shown(path), re.MULTILINE)
    lines = re.sub(r"\\\n *", "", block[1]).splitlines() if block else []
    return [shlex.split(line) for line in lines]


def test_there_are_commands_to_look_at() -> None:
    assert {("postmortem",), ("timeline",), ("rules", "check"), ("rules", "new")} <= set(COMMANDS)


@everyone
def test_every_example_stands_on_a_line_of_its_own(path: Call) -> None:
    found = examples(path)

    assert found
    assert [words[: len(path) + 1] for words in found] == [[PROGRAM_NAME, *path]] * len(found)


@everyone
def test_every_example_is_understood(path: Call) -> None:
    """An option that is gone, or an argument too many, would be refused here."""
    command = COMMANDS[path]
    for words in examples(path):
        with click.Context(command) as context:
            given, left, _ = command.make_parser(context).parse_args(words[len(path) + 1 :])

        assert left == []
        required = {one.name for one in command.params if one.required}
        assert required <= {name for name, value in given.items() if value}


@everyone
def test_nothing_in_the_help_is_meant_for_click(path: Call) -> None:
    assert "\b" not in shown(path)
    assert "\\b" not in shown(path)


@everyone
def test_every_option_says_what_it_does(path: Call) -> None:
    options = [one for one in COMMANDS[path].params if isinstance(one, click.Option)]

    assert [one.name for one in options if not one.help] == []
