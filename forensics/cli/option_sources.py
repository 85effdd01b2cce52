"""Binds the options of commands to the environment and to the configuration file.

Both can set every option of every command by the name of its flag; no command declares that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import click

from forensics.cli.config_file import CommandPath, Config, Option, find_config, load_config
from forensics.errors import ConfigError

ENV_PREFIX = "KAFKA_FORENSICS"
# Commands that must work with a broken file, and have nothing to set.
UNCONFIGURED = frozenset({"completion", "config", "doctor"})
_ELSEWHERE = "config"


def iter_commands(
    command: click.Command, call: CommandPath
) -> Iterator[tuple[CommandPath, click.Command]]:
    """Yield every command that is no group, with the words by which it is called."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from iter_commands(inner, (*call, name))
    else:
        yield call, command


def configurable_options(command: click.Command) -> dict[str, Option]:
    """Return the options that a file may set, by key; an option goes before an argument."""
    options = [Option(param) for param in command.params if param.name != _ELSEWHERE]
    flags = {one.key for one in options if isinstance(one.param, click.Option)}
    hidden = [one for one in options if one.key in flags and isinstance(one.param, click.Argument)]
    return {option.key: option for option in options if option not in hidden}


def env_variable(call: CommandPath, key: str) -> str:
    """Return the environment variable that sets an option.

    >>> env_variable(("rules", "check"), "no-color")
    'KAFKA_FORENSICS_RULES_CHECK_NO_COLOR'
    """
    return "_".join((ENV_PREFIX, *call, key)).upper().replace("-", "_")


def bind_sources(command: click.Command, call: CommandPath) -> None:
    """Let a loaded command take values from the environment and from a file."""
    for names, inner in iter_commands(command, call):
        if names[0] in UNCONFIGURED:
            continue
        for option in configurable_options(inner).values():
            option.param.envvar = option.param.envvar or env_variable(names, option.key)
        # The command line must be able to turn off what a file turns on.
        vars(inner)["make_parser"] = MethodType(_parser, inner)
        inner.params.append(CONFIG_OPTION)


def _parser(command: click.Command, context: click.Context) -> Any:
    parser = type(command).make_parser(command, context)
    for param in command.params:
        if isinstance(param, click.Option) and param.is_bool_flag and not param.secondary_opts:
            off = f"--no-{Option(param).key}"
            parser.add_option(param, [off], dest=param.name, action="store_const", const=False)
    return parser


def _configure(context: click.Context, _: click.Parameter, value: object) -> None:
    if context.resilient_parsing:
        return
    call, root = _command_path(context), context.find_root()
    try:
        path = value if isinstance(value, Path) else None
        config = read_config(root.command, path, call, context.command)
    except ConfigError as error:
        raise click.UsageError(str(error), context) from error
    context.default_map = config.defaults(call)


def read_config(
    top: click.Command, path: Path | None, call: CommandPath | None = None,
    command: click.Command | None = None,
) -> Config:  # fmt: skip
    """Read the configuration file, `path` or else the one that is found, and check all of it.

    `top` knows all commands; `call` and `command` are the one that runs. A Config without a path
    stands for no file.
    """
    path = path or find_config(os.environ, Path.cwd())
    if path is None:
        return Config()
    commands: dict[CommandPath, click.Command] = getattr(top, "configurable_commands", dict)()
    if call and command:
        commands[call] = command
    keys = {name: configurable_options(known) for name, known in commands.items()}
    return load_config(path, keys, call)


def _command_path(context: click.Context) -> CommandPath:
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return tuple(names)


CONFIG_OPTION = click.Option(
    ["--config"],
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=f"{ENV_PREFIX}_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=_configure,
    help=(
        "Take what is not said here from this YAML file; else from ./kafka-forensics.yaml or "
        "~/.config/kafka-forensics/config.yaml. --no-FLAG takes back a flag that it sets."
    ),
)
