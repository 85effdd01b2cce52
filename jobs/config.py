"""Show where each option's value comes from, and write a configuration file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from forensics.cli.app import JSON_OPTION, PROGRAM_NAME, run_file, write_new_file
from forensics.cli.config_file import FILE_NAME, CommandPath, Config, Option
from forensics.cli.option_sources import ENV_PREFIX, configurable_options, env_variable, read_config
from forensics.errors import ConfigError, did_you_mean

FILE = click.option(
    "--config",
    "path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=f"{ENV_PREFIX}_CONFIG",
    help="This file; else ./kafka-forensics.yaml or ~/.config/kafka-forensics/config.yaml.",
)
INVALID = 1


@click.group()
def command() -> None:
    """Show where each option's value comes from, and write a configuration file.

    A value on the command line goes before one of the environment, that before one of the file,
    and that before the default. The file is YAML: a section is a command, a key the long name of
    one of its options. Its relative paths begin at its own folder.
    """


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.argument("words", nargs=-1, metavar="[COMMAND] [ARGUMENTS]...", type=click.UNPROCESSED)
@FILE
@JSON_OPTION
@click.pass_context
def show(
    context: click.Context, words: tuple[str, ...], path: Path | None, *, as_json: bool
) -> None:
    """Say of each option what value it has, and where that comes from.

    Of one COMMAND, or of all. ARGUMENTS are those that COMMAND would be called with. Where a value
    comes from is the command line, a variable of the environment, FILE:LINE, or the default.
    Ends with 1 if a value is not one that the option takes, and with 2 if the file is wrong.

    \b
    Example:
      kafka-forensics config show
      kafka-forensics config show postmortem
      kafka-forensics config show postmortem --json
      kafka-forensics config show rules list --config team.yaml
    """
    commands = _commands(context)
    call = _called(words, commands)
    try:
        config = read_config(context.find_root().command, path, call)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    rest = words[len(call) :]
    options = {
        name: list(_rows(name, one, config, rest))
        for name, one in commands.items()
        if name[: len(call)] == call
    }
    if as_json:
        named = {" ".join(name): rows for name, rows in options.items()}
        print(json.dumps({"file": config.path and str(config.path), "options": named}, indent=1))
    else:
        print(f"file: {config.path or 'none'}")
        for line in _lines(options):
            print(line)
    if any(row["wrong"] for rows in options.values() for row in rows):
        raise SystemExit(INVALID)


@command.command()
@click.argument("target", metavar="[FILE]", default=FILE_NAME, type=click.Path(path_type=Path))
@click.pass_context
def new(context: click.Context, target: Path) -> None:
    """Write a file with every option of every command, its default, and what it does.

    Everything in it is commented out, so it changes nothing until you say so. FILE is
    ./kafka-forensics.yaml if it is not named, and - is the terminal. A file that is there already
    is never touched.

    \b
    Example:
      kafka-forensics config new
      kafka-forensics config new ~/.config/kafka-forensics/config.yaml
    """
    text = "\n".join(_template(_commands(context))) + "\n"
    if str(target) == "-":
        print(text, end="")
        return
    write_new_file(target, text, "name another file, or move it away")
    advice = "take away the # before what you want to set"
    print(f"{target}: {advice}, then: {PROGRAM_NAME} config show")


def _commands(context: click.Context) -> dict[CommandPath, click.Command]:
    top: Any = context.find_root().command
    commands: dict[CommandPath, click.Command] = top.configurable_commands()
    return commands


def _called(words: tuple[str, ...], commands: Mapping[CommandPath, click.Command]) -> CommandPath:
    """Find the command that words begin with; a group's name alone is that of all its commands."""
    if not words:
        return ()
    for length in (2, 1):
        if any(name[:length] == words[:length] for name in commands):
            return words[:length]
    there = sorted({name[0] for name in commands})
    hint = did_you_mean(words[0], there) or f"; there are: {', '.join(there)}"
    raise click.UsageError(f"There is no command {words[0]!r} that can be configured{hint}")


def _rows(
    call: CommandPath, one: click.Command, config: Config, arguments: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    top = click.Context(click.Group(PROGRAM_NAME), info_name=PROGRAM_NAME)
    context = one.make_context(
        " ".join(call), list(arguments), top, resilient_parsing=True,
        default_map=config.defaults(call),
    )  # fmt: skip
    for key, option in configurable_options(one).items():
        source = context.get_parameter_source(option.name)
        value, place, wrong = context.params.get(option.name), "default", None
        if source is click.core.ParameterSource.ENVIRONMENT:
            place = f"environment {env_variable(call, key)}"
            value, wrong = _read(option, context)
        elif source is click.core.ParameterSource.DEFAULT_MAP:
            place = str(config.source_of(call, option.name))
        elif source is click.core.ParameterSource.COMMANDLINE:
            place = "command line"
        elif option.param.required:
            place = "must be said"
        yield {"option": key, "value": _plain(value), "from": place, "wrong": wrong}


def _read(option: Option, context: click.Context) -> tuple[Any, str | None]:
    raw = option.param.value_from_envvar(context)
    try:
        return option.param.type_cast_value(context, raw), None
    except click.BadParameter as error:
        return raw, error.message


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _lines(told: Mapping[CommandPath, list[dict[str, Any]]]) -> Iterator[str]:
    everything = [row for rows in told.values() for row in rows]
    name = max((len(row["option"]) for row in everything), default=0)
    width = min(40, max((len(_shown(row["value"])) for row in everything), default=0))
    for call, rows in told.items():
        yield f"\n{' '.join(call)}"
        for row in rows:
            line = f"  {row['option']:{name}}  {_shown(row['value']):{width}}  {row['from']}"
            yield line + (f": {row['wrong']}" if row["wrong"] else "")


def _shown(value: Any) -> str:
    """Show a value as a shell would take it."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(
        shlex.quote(str(one)) for one in (value if isinstance(value, list) else [value])
    )


def _template(commands: Mapping[CommandPath, click.Command]) -> Iterator[str]:
    yield f"# {PROGRAM_NAME}: what options are when nobody says otherwise. A value on the command"
    yield "# line goes before one of the environment, and that before one of this file; what holds,"
    yield f"# and where it comes from, says: {PROGRAM_NAME} config show"
    yield "# Relative paths begin at the folder of this file."
    above: CommandPath = ()
    for call, one in commands.items():
        yield ""
        for depth, word in enumerate(call):
            if call[: depth + 1] != above[: depth + 1]:
                yield f"{'  ' * depth}{word}:"
        above = call
        indent = "  " * len(call)
        for key, option in configurable_options(one).items():
            for text in _about(call, key, option):
                yield f"{indent}# {text}"
            yield f"{indent}#{key}: {_yaml(option)}".rstrip()


def _about(call: CommandPath, key: str, option: Option) -> Iterator[str]:
    says = (
        getattr(option.param, "help", None)
        or f"What stands for {option.param.make_metavar(click.Context(click.Command('none')))}."
    )
    yield says
    if isinstance(option.param.type, click.Choice):
        yield f"One of: {', '.join(map(str, option.param.type.choices))}."
    if option.is_multiple:
        yield "A list, such as [one, another]."
    yield f"In the environment: {env_variable(call, key)}"


def _yaml(option: Option) -> str:
    value = option.default
    if option.is_multiple:
        return json.dumps(_plain(value or []))
    if value is None:
        return ""
    return json.dumps(value if isinstance(value, bool | int | float) else str(value))


if __name__ == "__main__":
    run_file(__file__)
