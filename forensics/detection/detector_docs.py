"""Describes all detectors as a page of markdown: what each is about, what it needs, its limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from forensics.detection.registry import all_detectors
from forensics.detection.runner import Detector
from forensics.detection.thresholds import SUPPRESS, load_limits
from forensics.lib.yaml_with_lines import rules_folder

_HEAD = """\
# Detectors

Each looks at the rebuilt past and says what it found, with the lines that say so. `findings.json`
keeps every detector's answer under `detectors`: `fired`, `quiet`, or `not_evaluable` with the
reason. A detector that was quiet names the holes in the logs that it could not see into.

Levels and thresholds stand in `rules/limits.yaml`; [a pack](packs.md) may lay its own over them,
and may bring [detectors of its own](own-detectors.md). Times are in seconds.
"""
_COMMENT = re.compile(r"^  (?P<key>[a-z_]+):[^#]*#\s*(?P<why>.*)$")


def render_detector_docs() -> str:
    """Write the page."""
    return _HEAD + "".join(_section(one) for one in all_detectors())


def _section(one: Detector) -> str:
    limits = {name: value for name, value in load_limits().get(one.name, {}).items()
              if name != SUPPRESS}  # fmt: skip
    reasons = _reasons().get(one.name, {})
    parts = [f"\n## {one.name}\n\n{one.about}\n\nNeeds {_article(one.requirements.description)}.\n"]
    if one.requirements.events:
        parts.append(
            f"Speaks only where some line tells of {', '.join(one.requirements.events)}.\n"
        )
    if limits:
        parts.append("\n| limit | value | why |\n| --- | --- | --- |\n")
        parts += [_row(key, value, reasons.get(key, "")) for key, value in limits.items()]
    return "".join(parts)


def _article(words: str) -> str:
    return f"a {words}"


def _row(key: str, value: Any, why: str) -> str:
    return f"| `{key}` | {value} | {why.replace('|', '&#124;')} |\n"


def _reasons() -> Mapping[str, Mapping[str, str]]:
    """Read the comments of limits.yaml: YAML itself forgets them."""
    found: dict[str, dict[str, str]] = {}
    for name, lines in _blocks():
        for line in lines:
            if told := _COMMENT.match(line):
                found.setdefault(name, {})[told["key"]] = told["why"]
    return found


def _blocks() -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in (rules_folder() / "limits.yaml").read_text("utf-8").splitlines():
        if line and not line[0].isspace() and line.endswith(":"):
            yield name, lines
            name, lines = line[:-1], []
        lines.append(line)
    yield name, lines
