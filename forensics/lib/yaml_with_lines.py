"""Reads YAML 1.2 with line numbers: every mapping and list knows the lines of its items.

The parser is libyaml's, since five hundred rules are read at each start. As in YAML 1.2, `no` and
`on` are words. A file is bounded in size, in depth, and in what its aliases unfold it to.
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
# The largest shipped file has 40 KB. libyaml looks each anchor up among all others, and knows no
# limit of depth but the C stack.
MAX_BYTES = 1 << 20
_MAX_DEPTH = 100
_MAX_VALUES = 100_000
# What a file must have to be deep: brackets, or blanks and signs at the beginning of a line.
_MAY_INDENT_DEEP = re.compile(rf"^[ \t?:-]{{{_MAX_DEPTH // 2}}}", re.MULTILINE)
# A number of more digits stays a word: nothing that is set here is so large.
_MOST_DIGITS = 30
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

    def read_bytes(self) -> bytes:
        """Return the content, as a path does."""
        return self.data


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
    text = ""
    try:
        text = read_limited(path).decode("utf-8")
        _refuse_deep(text, path)
        node = yaml.compose(text, Loader=_Loader)
    except UnicodeDecodeError as error:
        says = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise RuleError([Problem(str(path), 1, says)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        mark, place = getattr(error, "problem_mark", None), getattr(error, "position", 0)
        line = mark.line + 1 if mark else text.count("\n", 0, place) + 1
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        says = f"not readable as YAML: {why}"
        raise RuleError([Problem(str(path), line, says)]) from None
    if not isinstance(node, yaml.MappingNode):
        raise RuleError([Problem(str(path), 1, "a mapping was expected, such as 'id: ...'")])
    document: Mapping[str, Any] = _Builder(path).build(node)
    return document


def read_limited(path: Path | FileText) -> bytes:
    """Read a file of rules or settings; raise an error if it is larger than any such file is."""
    if isinstance(path, Path):
        if not path.is_file():
            if path.exists():
                raise RuleError([Problem(str(path), 1, "this is no file")])
            raise FileNotFoundError(2, "there is no such file", str(path))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    else:
        data = path.read_bytes()
    if len(data) > MAX_BYTES:
        says = f"more than {MAX_BYTES >> 20} MB, which no file of rules or settings has"
        raise RuleError([Problem(str(path), 1, says)])
    return data


def _refuse_deep(text: str, path: Path | FileText) -> None:
    """Raise an error for deep nesting before libyaml's recursion meets it."""
    brackets = text.count("[") + text.count("{")
    if brackets < _MAX_DEPTH // 2 and not _MAY_INDENT_DEEP.search(text):
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise RuleError(
                    [Problem(str(path), getattr(event.start_mark, "line", 0) + 1, _TOO_DEEP)]
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


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


_TOO_DEEP = f"nested more than {_MAX_DEPTH} deep"


class _Builder:
    """Builds the values of one document, within its limits.

    An alias is built anew at each of its places, so a few lines could unfold to more than any
    memory holds, or to what contains itself.
    """

    def __init__(self, path: Path | FileText) -> None:
        self._path = path
        self._count = self._depth = 0

    def build(self, node: Any) -> Any:
        """Build a node and all below it."""
        self._count += 1
        if self._count > _MAX_VALUES:
            raise self._error(node, f"more than {_MAX_VALUES:,} values, those of aliases included")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(node, f"{_TOO_DEEP}, or an alias that contains itself")
        built = self._list(node) if isinstance(node, yaml.SequenceNode) else self._mapping(node)
        self._depth -= 1
        return built

    def _list(self, node: Any) -> _LinedList:
        items = _LinedList(self.build(one) for one in node.value)
        items.line = node.start_mark.line + 1
        items.lines = {at: one.start_mark.line + 1 for at, one in enumerate(node.value)}
        return items

    def _mapping(self, node: Any) -> _LinedDict:
        mapping = _LinedDict()
        lines: dict[Any, int] = {}
        mapping.line, mapping.lines = node.start_mark.line + 1, lines
        for name, value in node.value:
            key = self.build(name)
            if not isinstance(key, (str, int)):
                raise self._error(name, "a key must be a word")
            if key in mapping:
                raise self._error(name, f"not readable as YAML: found duplicate key {key!r}")
            lines[key] = name.start_mark.line + 1
            mapping[key] = self.build(value)
        return mapping

    def _error(self, node: Any, says: str) -> RuleError:
        return RuleError([Problem(str(self._path), node.start_mark.line + 1, says)])


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _MOST_DIGITS else text
    return float(text) if _FLOAT.fullmatch(text) else text
