"""The options of commands: how the environment and a configuration file name them.

Every option of every command can be set in both under the name of its flag, without its being
declared: whoever writes a command need not think of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import click

from forensics.cli import config_file
from forensics.cli.config_file import CommandPath, Config
from forensics.errors import ConfigError, did_you_mean

ENV_PREFIX = "KAFKA_FORENSICS"
# Commands that must work whatever a file says, and have nothing to set.
UNCONFIGURED = frozenset({"completion", "config", "doctor"})
_ELSEWHERE = "config"
_NUMBER_TYPES: dict[str, type] = {
    "integer": int,
    "integer range": int,
    "float": float,
    "float range": float,
}


@dataclass(frozen=True)
class Option:
    """An option or an argument, as a configuration file sees it."""

    param: click.Parameter

    @property
    def key(self) -> str:
        """Its long name without the dashes, such as fail-on; an argument's own name."""
        longest = max(self.param.opts, key=len)
        return longest.lstrip("-") if isinstance(self.param, click.Option) else self.name

    @property
    def name(self) -> str:
        """What the command calls it."""
        return str(self.param.name)

    @property
    def is_multiple(self) -> bool:
        """Whether it may be given more than once."""
        return bool(getattr(self.param, "multiple", False)) or self.param.nargs != 1

    @property
    def is_flag(self) -> bool:
        """Whether it is there or not."""
        return bool(getattr(self.param, "is_flag", False))

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a folder."""
        return isinstance(self.param.type, click.Path | click.File)

    @property
    def default(self) -> Any:
        """What holds when nobody says anything; None where nothing does."""
        with click.Context(click.Command("none")) as context:
            value = self.param.get_default(context)
        if self.is_flag:
            return bool(value) if isinstance(value, bool) else False
        return value if isinstance(value, str | int | float | list | tuple | Path) else None

    def check(self, value: object, *, fully: bool) -> str | None:
        """Say what is wrong with one value; only `fully` looks for files that must be there."""
        wanted = _NUMBER_TYPES.get(self.param.type.name)
        if self.is_flag:
            if not isinstance(value, bool | str):
                return f"true or false was expected, not {value!r}"
        elif wanted:
            if isinstance(value, bool) or not isinstance(value, int | wanted):
                return f"a number was expected, not {value!r}"
        elif not isinstance(value, str):
            return f"text was expected, not {value!r}; put it in quotes if it is text"
        if self.is_path and not fully:
            return None
        try:
            self.param.type.convert(value, self.param, None)
        except click.BadParameter as error:
            return error.message + _suggestion(str(value), self.param.type)
        return None


def _suggestion(value: str, kind: click.ParamType[Any]) -> str:
    choices = map(str, kind.choices) if isinstance(kind, click.Choice) else ()
    return did_you_mean(value, choices).replace("; did", " Did")


def iter_commands(
    command: click.Command, call: CommandPath
) -> Iterator[tuple[CommandPath, click.Command]]:
    """Yield every command that does something, with the words by which it is called."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from iter_commands(inner, (*call, name))
    else:
        yield call, command


def configurable_options(command: click.Command) -> dict[str, Option]:
    """Give what a file may set of a command, by key; an option goes before an argument."""
    options = [Option(param) for param in command.params if param.name != _ELSEWHERE]
    flags = {one.key for one in options if isinstance(one.param, click.Option)}
    hidden = [one for one in options if one.key in flags and isinstance(one.param, click.Argument)]
    return {option.key: option for option in options if option not in hidden}


def env_variable(call: CommandPath, key: str) -> str:
    """Name the variable of the environment that sets an option.

    >>> env_variable(("rules", "check"), "no-color")
    'KAFKA_FORENSICS_RULES_CHECK_NO_COLOR'
    """
    return "_".join((ENV_PREFIX, *call, key)).upper().replace("-", "_")


def bind_sources(command: click.Command, call: CommandPath) -> None:
    """Let a command that was just loaded take values from the environment and from a file."""
    for names, inner in iter_commands(command, call):
        if names[0] in UNCONFIGURED:
            continue
        for option in configurable_options(inner).values():
            option.param.envvar = option.param.envvar or env_variable(names, option.key)
        # What a file turns on, the command line must be able to turn off.
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
    path = path or config_file.find_config(os.environ, Path.cwd())
    if path is None:
        return Config()
    commands: dict[CommandPath, click.Command] = getattr(top, "configurable_commands", dict)()
    if call and command:
        commands[call] = command
    keys = {name: configurable_options(known) for name, known in commands.items()}
    return config_file.load_config(path, keys, call)


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
