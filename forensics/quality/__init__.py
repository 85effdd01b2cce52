"""Quality: what the tables must fulfil before anybody acts on them."""

from __future__ import annotations

from forensics.quality.gate import CHECKS, Check, Gate, check
from forensics.quality.given import Given
from forensics.quality.lowering import lowered
from forensics.quality.running import checked_suites, prepare
from forensics.quality.suites import Expectation, suites
from forensics.quality.telling import told

__all__ = [
    "CHECKS",
    "Check",
    "Expectation",
    "Gate",
    "Given",
    "check",
    "checked_suites",
    "lowered",
    "prepare",
    "suites",
    "told",
]


