"""The one place that reads YAML: every mapping and value knows the line it stands on.

The parser is libyaml's, since five hundred rules are read at each start, and the values are those
of YAML 1.2: `no` and `on` are words here, as everybody who writes them expects.
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
    """A file that was read before, and that this machine may not have."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name

    def read_text(self, encoding: str = "utf-8") -> str:
        """Give the text, as a path does."""
        return self.data.decode(encoding)


class _Loader(_Base):  # type: ignore[misc]
    """Leaves it to `_scalar` to say what a plain word is."""

    def resolve(self, kind: object, value: object, implicit: object) -> str:
        """Give every node the same tag: none is ever asked for."""
        del kind, value, implicit
        return ""

    def descend_resolver(self, node: object, index: object) -> None:
        """Do nothing: there are no tags by path."""

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
    """Read one YAML mapping; a duplicate key or broken syntax names file and line.

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
    """Say on which line of its file a mapping, or one key of it, stands (1 where unknown)."""
    line: int = getattr(node, "line", 1)
    if key is None:
        return line
    lines: Mapping[Any, int] = getattr(node, "lines", {})
    return lines.get(key, line)


def line_of_refused(file: str, line: str) -> int:
    """Find where a refused line is written; only asked when there is something to say."""
    document = load_yaml(Path(file))
    for holder in (document, *document.get("wordings", ())):
        refused = holder.get("refuses", ())
        if line in refused:
            return line_of(refused, list(refused).index(line))
    return 1


def rules_folder() -> Path:
    """Say where rules/ is."""
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
