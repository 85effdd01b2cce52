"""Binds the options of commands to the environment and to the configuration file.

Both can set every option of every command by the name of its flag; no command declares that.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

import click
from click.core import ParameterSource

from forensics.cli.config_file import (
    FILE_NAME,
    CommandPath,
    Config,
    Option,
    find_config,
    lies_with,
    load_config,
)
from forensics.errors import ConfigError
from forensics.lib.text_safety import printable

ENV_PREFIX = "KAFKA_FORENSICS"
# Commands that must work with a broken file, and have nothing to set.
UNCONFIGURED = frozenset({"completion", "config", "doctor"})
_ELSEWHERE = "config"
# The parameters that name logs, and the arguments that name what an earlier run has left.
_LOGS, _SAVED = ("archives", "file"), ("out", "store", "a", "b")
# What a context remembers: the words of the command line, and the configuration that was read.
_GIVEN, _CONFIG = "kafka_forensics.given", "kafka_forensics.config"


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
    parse = parser.parse_args

    def parse_and_note(args: list[str]) -> Any:
        # The configuration file is looked for before any value is read, and depends on them.
        parsed = parse(args)
        context.meta[_GIVEN] = parsed[0]
        return parsed

    vars(parser)["parse_args"] = parse_and_note
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
        config = _read_trusted(context, call, root.command, value)
    except ConfigError as error:
        raise click.UsageError(str(error), context) from error
    context.default_map = config.defaults(call)
    context.meta[_CONFIG] = config


def _read_trusted(
    context: click.Context, call: CommandPath, top: click.Command, named: object
) -> Config:
    """Read the file that is named, or the one that is found and cannot have come with logs."""
    if isinstance(named, Path):
        return read_config(top, named, call, context.command)
    here = Path.cwd()
    arguments = {p.name for p in context.command.params if isinstance(p, click.Argument)}
    kinds = (_LOGS, [name for name in _SAVED if name in arguments])
    given = [_given_paths(context, names) for names in kinds]
    if not (here / FILE_NAME).is_file():
        return read_config(top, None, call, context.command)
    if not lies_with(here, *given):
        config = read_config(top, None, call, context.command)
        set_here = [_set_paths(config.defaults(call), names) for names in kinds]
        if config.path != Path(FILE_NAME) or not lies_with(here, *set_here):
            return config
    click.echo(
        f"left alone: ./{FILE_NAME} lies with what is read and may have come with it; if it is"
        f" yours, name it: --config {FILE_NAME}",
        err=True,
    )
    return read_config(top, None, call, context.command, skip_folder=True)


def _given_paths(context: click.Context, names: Collection[str]) -> list[str]:
    """Return the paths that the command line or the environment gives for some parameters."""
    given: dict[str, Any] = dict(context.meta.get(_GIVEN, {}))
    for param in context.command.params:
        if param.name in names and not _set_paths(given, [param.name]):
            given[param.name] = param.value_from_envvar(context)
    return _set_paths(given, names)


def _set_paths(values: Mapping[str, Any], names: Collection[str]) -> list[str]:
    found = (values.get(name) for name in names)
    lists = (value if isinstance(value, list | tuple) else [value] for value in found)
    # click has a sign of its own for what is not given.
    return [str(one) for values in lists for one in values if isinstance(one, str | Path)]


def refuse_unnamed_programs(
    context: click.Context, param: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse packs that hold Python, unless the command line names them; a callback of options."""
    name = str(param.name)
    if paths and context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        from forensics.events.packs import open_pack  # noqa: PLC0415 - slow, and rarely needed

        config = context.meta.get(_CONFIG) or Config()
        source = config.source_of(_command_path(context), name) or "the environment"
        for path in paths:
            if programs := open_pack(path).programs:
                message = (
                    f"{source} names the pack {path}, which holds Python ({programs[0].name});"
                    f" that runs only if the command line names it: {param.opts[0]} {path}"
                )
                raise click.UsageError(printable(message), context)
    return paths


def read_config(
    top: click.Command, path: Path | None, call: CommandPath | None = None,
    command: click.Command | None = None, *, skip_folder: bool = False,
) -> Config:  # fmt: skip
    """Read the configuration file, `path` or else the one that is found, and check all of it.

    `top` knows all commands; `call` and `command` are the one that runs; `skip_folder` looks for
    none in the current folder. A Config without a path stands for no file.
    """
    path = path or find_config(os.environ, Path.cwd(), skip_folder=skip_folder)
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
        "Take what is not said here from this YAML file; else from ./kafka-forensics.yaml (unless "
        "it lies with the logs) or ~/.config/kafka-forensics/config.yaml. --no-FLAG takes back a "
        "flag that it sets."
    ),
)
