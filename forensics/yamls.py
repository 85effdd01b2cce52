"""The one place that reads YAML: every mapping and value knows the line it stands on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from forensics.errors import Problem, RuleError

__all__ = ["line_of", "read", "shipped"]


def read(path: Path) -> Mapping[str, Any]:
    """Read one YAML mapping; a duplicate key or broken syntax names file and line.

    The result keeps ruamel's line numbers, which `line_of` reads.
    """
    try:
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        says = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise RuleError([Problem(str(path), 1, says)]) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        says = f"not readable as YAML: {getattr(error, 'problem', error)}"
        raise RuleError([Problem(str(path), mark.line + 1 if mark else 1, says)]) from None
    if not isinstance(document, Mapping):
        raise RuleError([Problem(str(path), 1, "a mapping was expected, such as 'id: ...'")])
    return document


def line_of(node: object, key: object = None) -> int:
    """Say on which line of its file a mapping, or one key of it, stands (1 where unknown)."""
    marks = getattr(node, "lc", None)
    if marks is None or marks.line is None:
        return 1
    if key is None:
        return int(marks.line) + 1
    try:
        position = marks.item(key) if isinstance(node, Sequence) else marks.key(key)
    except (KeyError, IndexError, TypeError):
        return int(marks.line) + 1
    return int(position[0]) + 1


def shipped(folder: str) -> Iterator[Path]:
    """Yield the YAML files of one folder of rules/, from the checkout or from the wheel."""
    package = Path(__file__).parent
    for root in (package / "_data" / "rules", package.parent / "rules"):
        if (root / folder).is_dir():
            yield from sorted((root / folder).glob("*.yaml"))
            return
