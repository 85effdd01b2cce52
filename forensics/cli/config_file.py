"""The configuration file: where it is, what it may hold, and which of its lines sets what.

The command line and the environment go before its values. A section is a command, a key the long
name of one of its options; nothing in it is skipped in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from forensics.errors import ConfigError, Problem, RuleError, did_you_mean
from forensics.lib.yaml_with_lines import line_of, load_yaml, read_limited

FILE_NAME = "kafka-forensics.yaml"
# The words by which a command is called, such as ("rules", "list").
CommandPath = tuple[str, ...]


_NUMBER_TYPES: dict[str, type] = {
    "integer": int, "integer range": int, "float": float, "float range": float,
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """An option or an argument, as a configuration file sees it."""

    param: click.Parameter

    @property
    def key(self) -> str:
        """The long name without dashes, such as fail-on; for an argument its own name."""
        longest = max(self.param.opts, key=len)
        return longest.lstrip("-") if isinstance(self.param, click.Option) else self.name

    @property
    def name(self) -> str:
        """The name of the command's parameter."""
        return str(self.param.name)

    @property
    def is_multiple(self) -> bool:
        """True if it may be given more than once."""
        return bool(getattr(self.param, "multiple", False)) or self.param.nargs != 1

    @property
    def is_flag(self) -> bool:
        """True if it takes no value."""
        return bool(getattr(self.param, "is_flag", False))

    @property
    def is_path(self) -> bool:
        """True if it names a file or a folder."""
        return isinstance(self.param.type, click.Path | click.File)

    @property
    def default(self) -> Any:
        """The value that holds if none is given, or None."""
        with click.Context(click.Command("none")) as context:
            value = self.param.get_default(context)
        if self.is_flag:
            return bool(value) if isinstance(value, bool) else False
        return value if isinstance(value, str | int | float | list | tuple | Path) else None

    def check(self, value: object, *, fully: bool) -> str | None:
        """Return what is wrong with one value; only `fully` looks for files that must exist."""
        wanted = _NUMBER_TYPES.get(self.param.type.name)
        if self.is_flag:
            if not isinstance(value, bool | str):
                return f"true or false was expected, not {value!r}"
        elif wanted:
            if isinstance(value, bool) or not isinstance(value, int | wanted):
                return f"a number was expected, not {value!r}"
        elif not isinstance(value, str):
            return f"text was expected, not {value!r}; put it in quotes if it is text"
        elif "\0" in value:
            return "a text with a zero character, which no path and no name can have"
        if self.is_path and not fully:
            return None
        return self._conversion_fault(value)

    def _conversion_fault(self, value: Any) -> str | None:
        try:
            self.param.type.convert(value, self.param, None)
        except click.BadParameter as error:
            kind = self.param.type
            choices = kind.choices if isinstance(kind, click.Choice) else ()
            return error.message + did_you_mean(value, choices).replace("; did", " Did")
        return None


Commands = Mapping[CommandPath, Mapping[str, Option]]


@dataclass(frozen=True)
class Setting:
    """A value, and the line of the file that sets it."""

    value: Any
    source: str


@dataclass(frozen=True)
class Config:
    """The settings of a file by command and by option."""

    path: Path | None = None
    settings: Mapping[CommandPath, Mapping[str, Setting]] = field(default_factory=dict)

    def defaults(self, call: CommandPath) -> dict[str, Any]:
        """Return the values for one command, as click takes them for its defaults."""
        return {name: setting.value for name, setting in self.settings.get(call, {}).items()}

    def source_of(self, call: CommandPath, name: str) -> str | None:
        """Return which line sets an option of a command."""
        setting = self.settings.get(call, {}).get(name)
        return setting.source if setting else None


def lies_with(folder: Path, logs: Iterable[str], saved: Iterable[str] = ()) -> bool:
    """Return True if what lies in a folder may have come with what is read.

    So it is where the folder is, lies in, or holds an archive of logs, or lies in a saved output.
    """
    folder = folder.resolve()
    archives = {path for name in logs for path in _places(name)}
    outputs = {path for name in saved for path in _places(name)}
    inside = any(path == folder or path in folder.parents for path in archives | outputs)
    return inside or any(folder in path.parents for path in archives)


def _places(name: str) -> Iterator[Path]:
    """Yield where a path is, and where it leads to."""
    if name != "-" and "://" not in name:
        path = Path(os.path.normpath(Path(name).absolute()))
        yield from (path, Path(os.path.realpath(path)))


def find_config(
    environ: Mapping[str, str], here: Path, *, skip_folder: bool = False
) -> Path | None:
    """Find the file that is read when none is named: in this folder, or in the user's home.

    A file that another user can write is refused: it may name packs. `skip_folder` leaves this
    folder out.
    """
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config"))
    users = home / "kafka-forensics" / "config.yaml"
    places = ((here / FILE_NAME, Path(FILE_NAME)), (users, users))
    for path, shown in places[skip_folder:]:
        if path.is_file():
            status = path.stat()
            if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o002:
                message = (
                    "another user can write this file; if you trust it, name it: --config FILE"
                )
                raise ConfigError([Problem(str(shown), 1, message)])
            return shown
    return None


def load_config(path: Path, commands: Commands, running: CommandPath | None = None) -> Config:
    """Read a file and check all of it; the files that it sets for `running` must exist.

    Relative paths are relative to the file, and `~` is the user's home.
    """
    problems: list[Problem] = []
    settings: dict[CommandPath, dict[str, Setting]] = {}
    for call, section, name in _iter_settings(path, _read_document(path), commands, problems):
        options, value, line = commands[call], section[name], line_of(section, name)
        if name not in options:
            message = f"{' '.join(call)} has no option {name!r}{_suggestion(name, options)}"
            problems.append(Problem(str(path), line, message))
        elif value is not None:
            option = options[name]
            value = _normalise_value(option, value, path.parent)
            values = value if option.is_multiple else [value]
            checks = (option.check(each, fully=call == running) for each in values)
            problems += [Problem(str(path), line, f"{name}: {fault}") for fault in checks if fault]
            settings.setdefault(call, {})[option.name] = Setting(value, f"{path}:{line}")
    if problems:
        raise ConfigError(problems)
    return Config(path, settings)


def _read_document(path: Path) -> Mapping[str, Any]:
    try:
        lines = read_limited(path).decode("utf-8").splitlines()
        # `config new` comments everything out, which YAML calls no mapping.
        if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
            return {}
        return load_yaml(path)
    except RuleError as error:
        raise ConfigError(error.problems) from None
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise ConfigError([Problem(str(path), 1, message)]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), 1, f"cannot be read: {error.strerror}")]) from None


def _iter_settings(
    path: Path, node: Mapping[str, Any], commands: Commands, problems: list[Problem],
    above: CommandPath = (),
) -> Iterator[tuple[CommandPath, Mapping[str, Any], str]]:  # fmt: skip
    """Yield every key that is set, with its command and its section."""
    for name, value in node.items():
        call = (*above, str(name))
        line = line_of(node, name)
        depth = len(above)
        if not any(known[: depth + 1] == call for known in commands):
            below = {known[depth] for known in commands if known[:depth] == above != known}
            message = f"there is no command {' '.join(call)!r}{_suggestion(str(name), below)}"
            problems.append(Problem(str(path), line, message))
        elif value is None:
            continue
        elif not isinstance(value, Mapping):
            message = f"{' '.join(call)} is a command: its options stand indented below it"
            problems.append(Problem(str(path), line, message))
        elif call in commands:
            yield from ((call, value, key) for key in value)
        else:
            yield from _iter_settings(path, value, commands, problems, call)


def _normalise_value(option: Option, value: Any, folder: Path) -> Any:
    """Make a list of what may be given more than once, and let paths begin at the file's folder."""
    if option.is_multiple:
        values = value if isinstance(value, list) else [value]
        return [_resolve_path(each, folder) if option.is_path else each for each in values]
    return _resolve_path(value, folder) if option.is_path else value


def _resolve_path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or value == "-" or "://" in value:
        return value
    with suppress(RuntimeError):
        # A user whom nobody knows stays as he is written.
        value = str(Path(value).expanduser())
    return str(folder / value)


def _suggestion(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known) or f"; there are: {', '.join(sorted(known))}"
