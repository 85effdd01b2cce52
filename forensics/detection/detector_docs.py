"""Renders docs/detectors.md: what each detector is about, what it needs, its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    """Render the page."""
    limits, reasons = load_limits(), _read_reasons()
    return _HEAD + "".join(
        _section(one, limits.get(one.name, {}), reasons.get(one.name, {}))
        for one in all_detectors()
    )


def _section(detector: Detector, limits: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    needs = detector.requirements
    text = f"\n## {detector.name}\n\n{detector.about}\n\nNeeds a {needs.description}.\n"
    if needs.events:
        text += f"Speaks only where some line tells of {', '.join(needs.events)}.\n"
    rows = [
        f"| `{key}` | {value} | {reasons.get(key, '').replace('|', '&#124;')} |\n"
        for key, value in limits.items()
        if key != SUPPRESS
    ]
    head = "\n| limit | value | why |\n| --- | --- | --- |\n" if rows else ""
    return text + head + "".join(rows)


def _read_reasons() -> Mapping[str, Mapping[str, str]]:
    """Read the comments of limits.yaml by detector and limit: YAML itself forgets them."""
    reasons: dict[str, dict[str, str]] = {}
    detector = ""
    for line in (rules_folder() / "limits.yaml").read_text("utf-8").splitlines():
        if line and not line[0].isspace() and line.endswith(":"):
            detector = line[:-1]
        elif match := _COMMENT.match(line):
            reasons.setdefault(detector, {})[match["key"]] = match["why"]
    return reasons
