"""Incidents: every module here with a `find` is a detector; its presence is enough."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from forensics.history import Past
from forensics.incidents.case import Case
from forensics.incidents.finding import Finding, ordered
from forensics.incidents.verdict import document
from forensics.limits import load_limits

__all__ = ["Case", "Finding", "detectors", "document", "find"]

Detector = Callable[[Case], Iterable[Finding]]


def detectors() -> Iterator[tuple[str, Detector]]:
    """Yield the detectors by name."""
    for module in pkgutil.iter_modules(__path__):
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "find", None)
        if found is not None:
            yield module.name, found


def find(tables: Path, past: Past) -> list[Finding]:
    """Ask every detector, and give the findings worst first."""
    case = Case(tables, past, load_limits())
    return ordered([finding for _, detector in detectors() for finding in detector(case)])
