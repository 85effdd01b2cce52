"""Incidents: detectors look at the past, and what they find becomes the verdict."""

from __future__ import annotations

from forensics.incidents.case import Case
from forensics.incidents.detecting import Answers, Detector, Outcome
from forensics.incidents.detectors import detectors
from forensics.incidents.finding import Finding
from forensics.incidents.guests import everyone, find
from forensics.incidents.verdict import document

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


