"""Incidents: detectors look at the past, and what they find becomes the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forensics.history import Past
from forensics.incidents.case import Case
from forensics.incidents.detecting import Answers, Detector, ask
from forensics.incidents.detectors import detectors
from forensics.incidents.finding import Finding
from forensics.incidents.verdict import document
from forensics.limits import load_limits

__all__ = ["Answers", "Case", "Detector", "Finding", "detectors", "document", "find"]


def find(
    tables: Path, past: Past, limits: Mapping[str, Mapping[str, Any]] | None = None
) -> Answers:
    """Ask every detector, and give the findings worst first."""
    case = Case(tables, past, load_limits() if limits is None else limits)
    return ask(case, detectors())
