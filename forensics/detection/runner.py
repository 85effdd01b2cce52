"""Asks every detector, and keeps what each of them answered: also that it cannot tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.detection.causality.chains import build_chains
from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS, LogRequirements, Visibility
from forensics.detection.suppressions import SuppressedFinding, find_suppression
from forensics.lib.arrow_io import release_arrow_memory
from forensics.run_output.findings import Finding, sort_findings


@dataclass(frozen=True)
class Detector:
    """Something that looks at a case; what it needs says when its silence means something."""

    name: str
    find: Callable[[DetectionContext], Iterable[Finding]]
    requirements: LogRequirements = SERVERS
    about: str = ""
    # of somebody's own, whose failure must not take the page with it
    is_third_party: bool = False


@dataclass(frozen=True)
class Outcome:
    """What one detector answered: fired, quiet, not_evaluable, or failed; with reasons."""

    detector: str
    status: str
    findings: int = 0
    suppressed: int = 0
    # why nothing can be said, or what could not be seen while being quiet
    reasons: Sequence[str] = ()
    about: str = ""

    def document(self) -> dict[str, Any]:
        """Give it as it stands in findings.json."""
        return vars(self) | {"reasons": list(self.reasons)}


@dataclass(frozen=True)
class DetectionResults:
    """All findings, worst first, what was accepted before, and every detector's answer."""

    findings: Sequence[Finding] = ()
    suppressed: Sequence[SuppressedFinding] = ()
    outcomes: Sequence[Outcome] = ()
    chains: Sequence[Mapping[str, Any]] = field(default_factory=list)
    # how long each detector took: no part of what was found
    seconds: Mapping[str, float] = field(default_factory=dict)
    # which logs each detector needs before its silence means something
    requirements: Mapping[str, LogRequirements] = field(default_factory=dict)


def run_detectors(context: DetectionContext, detectors: Iterable[Detector]) -> DetectionResults:
    """Ask each detector in turn."""
    detectors = list(detectors)
    sight = Visibility(context.tables)
    shown: list[Finding] = []
    hidden: list[SuppressedFinding] = []
    outcomes: list[Outcome] = []
    seconds: dict[str, float] = {}
    for detector in sorted(detectors, key=lambda one: one.name):
        begun = time.monotonic()
        try:
            found = list(detector.find(context))
        except Exception as error:
            if not detector.is_third_party:
                raise
            outcomes.append(_failed(detector, error))
            continue
        finally:
            seconds[detector.name] = round(time.monotonic() - begun, 2)
            release_arrow_memory()
        taken = [one for finding in found if (one := find_suppression(finding, context.limits))]
        gone = {one.finding.id for one in taken}
        kept = [finding for finding in found if finding.id not in gone]
        shown += kept
        hidden += taken
        outcomes.append(_outcome(detector, len(kept), len(taken), sight))
    accepted = sorted(hidden, key=lambda one: one.finding.id)
    found = sort_findings(shown)
    begun = time.monotonic()
    links = build_chains(context, found)
    seconds["chains"] = round(time.monotonic() - begun, 2)
    needs = {one.name: one.requirements for one in detectors}
    return DetectionResults(found, accepted, outcomes, links, seconds, needs)


def _failed(detector: Detector, error: Exception) -> Outcome:
    reason = f"it failed: {type(error).__name__}: {error}"
    return Outcome(detector.name, "failed", reasons=[reason], about=detector.about)


def _outcome(detector: Detector, found: int, taken: int, sight: Visibility) -> Outcome:
    if found or taken:
        # What fired did see enough; what it may have missed still belongs beside it.
        reasons: Sequence[str] = sight.describe_gaps(detector.requirements)
        return Outcome(detector.name, "fired", found, taken, reasons, detector.about)
    lacks = sight.missing_logs(detector.requirements)
    if lacks:
        return Outcome(detector.name, "not_evaluable", reasons=[lacks], about=detector.about)
    blind = sight.describe_gaps(detector.requirements)
    return Outcome(detector.name, "quiet", reasons=blind, about=detector.about)
