"""Writes findings.json, byte for byte the same for the same findings."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forensics.report.words import LEVELS

__all__ = ["write_findings"]

# One order for the keys of every object; a key that is not named here follows, by name.
KEYS = (
    "schema", "verdict", "summary", "window", "archive",
    "id", "detector", "severity", "confidence", "title", "from", "to",
    "brokers", "clients", "measures", "evidence", "explanation", "actions",
    "partition", "leader_epoch", "leader", "previous_leader",
    "lost_from", "lost_to", "lost_records_min", "lost_records_max",
    "file", "line", "text", "findings",
)  # fmt: skip
RANK = {key: place for place, key in enumerate(KEYS)}
# Legal in JSON, but they turn a terminal or an editor against its reader.
RAW = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def write_findings(document: Mapping[str, Any], path: Path) -> None:
    """Write the document whole or not at all: readers never see half a file."""
    ordered = dict(document)
    ordered["findings"] = sorted(document.get("findings", ()), key=_harm)
    text = json.dumps(_plain(ordered), indent=1, ensure_ascii=False, allow_nan=False)
    text = RAW.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text + "\n", encoding="utf-8")
    half.replace(path)


def _harm(finding: Mapping[str, Any]) -> tuple[int, str, str]:
    level = finding.get("severity")
    place = LEVELS.index(level) if level in LEVELS else len(LEVELS)
    return place, str(finding.get("from") or ""), str(finding.get("id") or "")


def _plain(value: object) -> object:
    if isinstance(value, str):
        # Half a surrogate pair is no character and breaks strict readers: keep it as its code.
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: (RANK.get(str(key), len(KEYS)), str(key)))
        return {str(_plain(str(key))): _plain(value[key]) for key in keys}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
