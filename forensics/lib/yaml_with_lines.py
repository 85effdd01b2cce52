"""Reads YAML 1.2 with line numbers: every mapping and list knows the lines of its items.

The parser is libyaml's, since five hundred rules are read at each start. As in YAML 1.2, `no` and
`on` are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forensics.errors import Problem, RuleError
from forensics.lib.package_data import data_folder

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True)
class FileText:
    """The content of a file that this machine may not have."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the text, as a path does."""
        return self.data.decode(encoding)


class _Loader(_Base):  # type: ignore[misc]
    """Leaves the types of scalars to `_scalar`."""

    def resolve(self, kind: object, value: object, implicit: object) -> str:
        """Return the same tag for every node: tags are not used."""
        del kind, value, implicit
        return ""

    def descend_resolver(self, node: object, index: object) -> None:
        """Do nothing: tags are not used."""

    def ascend_resolver(self) -> None:
        """Do nothing."""


class _LinedDict(dict[Any, Any]):
    """A mapping that knows its line, and the line of each key."""

    line = 1
    lines: Mapping[Any, int] = {}


class _LinedList(list[Any]):
    """A list that knows its line, and the line of each item."""

    line = 1
    lines: Mapping[Any, int] = {}


def load_yaml(path: Path | FileText) -> Mapping[str, Any]:
    """Read one YAML mapping; errors name file and line.

    The result keeps line numbers, which `line_of` reads.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError as error:
        says = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise RuleError([Problem(str(path), 1, says)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        says = f"not readable as YAML: {getattr(error, 'problem', None) or error}"
        raise RuleError([Problem(str(path), mark.line + 1 if mark else 1, says)]) from None
    if not isinstance(node, yaml.MappingNode):
        raise RuleError([Problem(str(path), 1, "a mapping was expected, such as 'id: ...'")])
    document: Mapping[str, Any] = _construct(node, path)
    return document


def line_of(node: object, key: object = None) -> int:
    """Return the line of a mapping or list, or of one key or item of it (1 if unknown)."""
    line: int = getattr(node, "line", 1)
    if key is None:
        return line
    lines: Mapping[Any, int] = getattr(node, "lines", {})
    return lines.get(key, line)


def line_of_refused(file: str, line: str) -> int:
    """Return where a refused line is written in a file; reads the file again."""
    document = load_yaml(Path(file))
    for holder in (document, *document.get("wordings", ())):
        refused = holder.get("refuses", ())
        if line in refused:
            return line_of(refused, list(refused).index(line))
    return 1


def rules_folder() -> Path:
    """Return the folder rules/."""
    return data_folder("rules")


def rule_files(below: str) -> Iterator[Path]:
    """Yield the YAML files below one folder of rules/."""
    yield from sorted((rules_folder() / below).rglob("*.yaml"))


def _construct(node: Any, path: Path | FileText) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        items = _LinedList(_construct(one, path) for one in node.value)
        items.line = line
        items.lines = {at: one.start_mark.line + 1 for at, one in enumerate(node.value)}
        return items
    mapping = _LinedDict()
    lines: dict[Any, int] = {}
    mapping.line, mapping.lines = line, lines
    for name, value in node.value:
        key = _construct(name, path)
        at = name.start_mark.line + 1
        if not isinstance(key, (str, int)):
            raise RuleError([Problem(str(path), at, "a key must be a word")])
        if key in mapping:
            says = f"not readable as YAML: found duplicate key {key!r}"
            raise RuleError([Problem(str(path), at, says)])
        lines[key] = at
        mapping[key] = _construct(value, path)
    return mapping


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
