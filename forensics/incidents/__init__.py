"""Incidents: detectors look at the past, and what they find becomes the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.events.packs import LIMITS, Pack
from forensics.history import Past
from forensics.incidents.case import Case
from forensics.incidents.detecting import Answers, Detector, Outcome, ask
from forensics.incidents.detectors import detectors
from forensics.incidents.finding import Finding
from forensics.incidents.guests import everyone
from forensics.incidents.verdict import document
from forensics.limits import load_limits

__all__ = [
    "Answers",
    "Case",
    "Detector",
    "Finding",
    "Outcome",
    "detectors",
    "document",
    "everyone",
    "find",
]


def find(tables: Path, past: Past, packs: Sequence[Pack] = ()) -> Answers:
    """Ask every detector, also those of packs, and give the findings worst first."""
    asked = everyone(packs)
    pages = [pack.pages[LIMITS] for pack in packs if LIMITS in pack.pages]
    limits = load_limits(pages, [one.name for one in asked])
    return ask(Case(tables, past, limits), asked)
