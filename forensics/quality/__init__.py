"""Quality: what the tables must fulfil before anybody acts on them."""

from __future__ import annotations

from collections.abc import Iterable

from forensics.errors import RuleError
from forensics.events.packs import Pack
from forensics.quality.gate import CHECKS, Check, Gate, check
from forensics.quality.given import Given
from forensics.quality.lowering import lowered
from forensics.quality.running import faults, prepare
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


def checked_suites(packs: Iterable[Pack] = ()) -> list[Expectation]:
    """Read the suites, those of packs tried: before hours of work, not after them."""
    packs = list(packs)
    found = suites(packs)
    own = [one for one in found if any(one.origin.startswith(pack.origin) for pack in packs)]
    if problems := faults(own) if own else []:
        raise RuleError(problems)
    return found
