"""Measures of what is claimed: each finding, and whether its lines are where it says."""

from __future__ import annotations

from typing import Any

import pandas as pd

from forensics.incidents import Finding
from forensics.quality.columns import TABLES
from forensics.quality.given import Given

__all__ = ["findings"]

_NUMBERS = ("seconds", "evidence", "strange_places", "brokers", "partitions", "clients")


def findings(given: Given) -> pd.DataFrame:
    """Measure each finding."""
    rows = [_row(one, given) for one in given.findings]
    frame = pd.DataFrame(rows, columns=list(TABLES["findings"].columns))
    for name in _NUMBERS:
        frame[name] = frame[name].astype(float)
    return frame


def _row(one: Finding, given: Given) -> dict[str, Any]:
    return {
        "id": one.id,
        "detector": one.detector,
        "severity": one.severity,
        "confidence": one.confidence,
        "seconds": (one.end - one.begin) / 1e6,
        "evidence": len(one.evidence),
        "strange_places": sum(not _is_there(place, given) for place in one.evidence),
        "brokers": len(one.brokers),
        "partitions": len(one.partitions),
        "clients": len(one.clients),
    }


def _is_there(place: Any, given: Given) -> bool:
    """Whether a line is one of a file that was read."""
    file = given.accounts.get(place["file"])
    return file is not None and 1 <= (place["line"] or 0) <= file.counts["lines"]
