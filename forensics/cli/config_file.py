"""The configuration file: where it is, what it may say, and which of its lines says what.

It gives options values that the command line and the environment go before. A section is a command,
a key the long name of one of its options; nothing in it is skipped in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from forensics.errors import ConfigError, Problem, RuleError, did_you_mean
from forensics.lib.yaml_with_lines import line_of, load_yaml

FILE_NAME = "kafka-forensics.yaml"
# The words by which a command is called, such as ("rules", "list").
CommandPath = tuple[str, ...]


class ConfigurableOption(Protocol):
    """One option or argument that a file may set."""

    @property
    def name(self) -> str:
        """What the command calls it."""

    @property
    def is_multiple(self) -> bool:
        """Whether it may be given more than once."""

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a folder."""

    def check(self, value: object, *, fully: bool) -> str | None:
        """Say what is wrong with one value; only `fully` looks for files that must be there."""


Commands = Mapping[CommandPath, Mapping[str, ConfigurableOption]]


@dataclass(frozen=True)
class Setting:
    """A value, and the line of the file that says it."""

    value: Any
    source: str


@dataclass(frozen=True)
class Config:
    """What a file says, by command and by option."""

    path: Path | None = None
    settings: Mapping[CommandPath, Mapping[str, Setting]] = field(default_factory=dict)

    def defaults(self, call: CommandPath) -> dict[str, Any]:
        """Give the values for one command, as click takes them for its defaults."""
        return {name: one.value for name, one in self.settings.get(call, {}).items()}

    def source_of(self, call: CommandPath, name: str) -> str | None:
        """Say which line sets an option of a command."""
        setting = self.settings.get(call, {}).get(name)
        return setting.source if setting else None


def find_config(environ: Mapping[str, str], here: Path) -> Path | None:
    """Find the file that is read when none is named: in this folder, or the user's own.

    One that another user could have written is refused: it may name packs, and packs hold code.
    """
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config"))
    users = home / "kafka-forensics" / "config.yaml"
    for path, shown in ((here / FILE_NAME, Path(FILE_NAME)), (users, users)):
        if path.is_file():
            status = path.stat()
            if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o002:
                says = "another user can write this file; if you trust it, name it: --config FILE"
                raise ConfigError([Problem(str(shown), 1, says)])
            return shown
    return None


def load_config(path: Path, commands: Commands, running: CommandPath | None = None) -> Config:
    """Read a file and check all of it; what is set for `running` must be there, too.

    Relative paths are relative to the file, and `~` is the user's home.
    """
    document = _read_document(path)
    problems: list[Problem] = []
    settings: dict[CommandPath, dict[str, Setting]] = {}
    for call, section, name in _iter_settings(path, document, commands, problems):
        known = commands[call]
        value, place = section[name], Problem(str(path), line_of(section, name), "")
        if name not in known:
            says = f"{' '.join(call)} has no option {name!r}{_suggestion(name, known)}"
            problems.append(Problem(place.file, place.line, says))
            continue
        option = known[name]
        if value is None:
            continue
        given = _normalise_value(option, value, path.parent)
        wrong = [
            option.check(one, fully=call == running)
            for one in (given if option.is_multiple else [given])
        ]
        problems += [Problem(place.file, place.line, f"{name}: {says}") for says in wrong if says]
        at = f"{place.file}:{place.line}"
        settings.setdefault(call, {})[option.name] = Setting(given, at)
    if problems:
        raise ConfigError(problems)
    return Config(path, settings)


def _read_document(path: Path) -> Mapping[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        # As `config new` leaves it: all is commented out, which YAML calls no mapping.
        if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
            return {}
        return load_yaml(path)
    except RuleError as error:
        raise ConfigError(error.problems) from None
    except UnicodeDecodeError as error:
        says = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise ConfigError([Problem(str(path), 1, says)]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), 1, f"cannot be read: {error.strerror}")]) from None


def _iter_settings(
    path: Path,
    node: Mapping[str, Any],
    commands: Commands,
    problems: list[Problem],
    at: CommandPath = (),
) -> Iterator[tuple[CommandPath, Mapping[str, Any], str]]:
    """Yield every key that is set, with its section and the command of it."""
    for name, value in node.items():
        call = (*at, str(name))
        line = line_of(node, name)
        if call not in commands and not any(one[: len(call)] == call for one in commands):
            below = {one[len(at)] for one in commands if one[: len(at)] == at and one != at}
            says = f"there is no command {' '.join(call)!r}{_suggestion(str(name), below)}"
            problems.append(Problem(str(path), line, says))
        elif value is None:
            continue
        elif not isinstance(value, Mapping):
            says = f"{' '.join(call)} is a command: its options stand indented below it"
            problems.append(Problem(str(path), line, says))
        elif call in commands:
            yield from ((call, value, key) for key in value)
        else:
            yield from _iter_settings(path, value, commands, problems, call)


def _normalise_value(option: ConfigurableOption, value: Any, folder: Path) -> Any:
    """Make a list of what may be given more than once, and paths those of the file's folder."""
    if option.is_multiple:
        values = value if isinstance(value, list) else [value]
        return [_resolve_path(one, folder) if option.is_path else one for one in values]
    return _resolve_path(value, folder) if option.is_path else value


def _resolve_path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or value == "-" or "://" in value:
        return value
    return str(folder / Path(value).expanduser())


def _suggestion(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known) or f"; there are: {', '.join(sorted(known))}"
