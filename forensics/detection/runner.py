"""Runs all detectors, and keeps each outcome: fired, quiet, not evaluable or failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.detection.causality.chains import build_chains, explain_moves
from forensics.detection.causality.trigger import find_trigger
from forensics.detection.context import DetectionContext
from forensics.detection.impact import measure_impact
from forensics.detection.requirements import SERVERS, LogRequirements, Visibility
from forensics.detection.thresholds import SuppressedFinding, find_suppression
from forensics.lib.arrow_io import release_arrow_memory
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.run_output.findings import Finding, sort_findings

# Of fewer events the detectors are done before another process has begun with them.
_MANY_EVENTS = 50_000
# They read leaders and ISRs of all partitions; who is asked last should have answered soon.
_LONGEST = ("under-replicated", "leader-imbalance", "stale-metadata")


@dataclass(frozen=True)
class Detector:
    """A detector; `requirements` say when its silence means that nothing happened."""

    name: str
    find: Callable[[DetectionContext], Iterable[Finding]]
    requirements: LogRequirements = SERVERS
    about: str = ""
    # not shipped: its failure must not take the page with it
    is_third_party: bool = False


@dataclass(frozen=True)
class Outcome:
    """How one detector ended: fired, quiet, not_evaluable, or failed; with reasons."""

    detector: str
    status: str
    findings: int = 0
    suppressed: int = 0
    # why it is not evaluable, or which gaps it could not see into
    reasons: Sequence[str] = ()
    about: str = ""

    def document(self) -> dict[str, Any]:
        """Return it as findings.json has it."""
        return vars(self) | {"reasons": list(self.reasons)}


@dataclass(frozen=True)
class DetectionResults:
    """All findings, the worst first, those that were accepted before, and all outcomes."""

    findings: Sequence[Finding] = ()
    suppressed: Sequence[SuppressedFinding] = ()
    outcomes: Sequence[Outcome] = ()
    chains: Sequence[Mapping[str, Any]] = field(default_factory=list)
    # what began the incident of the headline, and what it took from clients
    trigger: Sequence[Mapping[str, Any]] = ()
    impact: Mapping[str, Any] = field(default_factory=dict)
    # how long each detector took
    seconds: Mapping[str, float] = field(default_factory=dict)
    requirements: Mapping[str, LogRequirements] = field(default_factory=dict)


def run_detectors(
    context: DetectionContext, detectors: Iterable[Detector], second: SecondProcess = ALONE
) -> DetectionResults:
    """Run each detector, then chain their findings.

    Of many events, `second` asks a part of the shipped detectors: what others have written may
    rest on being run in this process.
    """
    detectors = sorted(detectors, key=lambda detector: detector.name)
    if not second.is_there or context.tables.count_rows("events") < _MANY_EVENTS:
        second = ALONE
    shared = [one for one in detectors if not one.is_third_party]
    shared.sort(key=lambda one: one.name not in _LONGEST)
    asked = {
        answer.detector: answer
        for part in second.share(len(shared), _AskDetectors(context, shared))
        for answer in part
    }
    own = [one for one in detectors if one.is_third_party]
    asked |= {one.name: _ask_detector(one, context) for one in own}
    shown: list[Finding] = []
    accepted: list[SuppressedFinding] = []
    outcomes: list[Outcome] = []
    seconds = {detector.name: asked[detector.name].seconds for detector in detectors}
    for detector in detectors:
        answer = asked[detector.name]
        if answer.failure:
            reasons = [f"it failed: {answer.failure}"]
            outcomes.append(Outcome(detector.name, "failed", reasons=reasons, about=detector.about))
            continue
        findings = answer.findings
        suppressed = [one for it in findings if (one := find_suppression(it, context.limits))]
        hidden = {one.finding.id for one in suppressed}
        kept = [finding for finding in findings if finding.id not in hidden]
        shown += kept
        accepted += suppressed
        outcomes.append(_outcome(detector, len(kept), len(suppressed), context.visibility))
    begun = time.monotonic()
    findings = explain_moves(sort_findings(shown))
    chains = build_chains(context, findings)
    trigger, impact = find_trigger(context, findings), measure_impact(context, findings)
    seconds["chains"] = round(time.monotonic() - begun, 2)
    return DetectionResults(
        findings,
        sorted(accepted, key=lambda one: one.finding.id),
        outcomes,
        chains,
        trigger,
        impact,
        seconds,
        {detector.name: detector.requirements for detector in detectors},
    )


@dataclass(frozen=True)
class _Answer:
    """What one detector has found or why it failed, and how long it took."""

    detector: str
    findings: Sequence[Finding]
    failure: str
    seconds: float


@dataclass(frozen=True)
class _AskDetectors:
    """Asks those of some detectors whose numbers it is given."""

    context: DetectionContext
    detectors: Sequence[Detector]

    def __call__(self, numbers: Iterator[int]) -> list[_Answer]:
        """Return the answers."""
        return [_ask_detector(self.detectors[number], self.context) for number in numbers]


def _ask_detector(detector: Detector, context: DetectionContext) -> _Answer:
    """Run a detector; only one that is not shipped may fail."""
    begun, findings, failure = time.monotonic(), list[Finding](), ""
    try:
        findings = list(detector.find(context))
    except Exception as error:
        if not detector.is_third_party:
            raise
        failure = f"{type(error).__name__}: {error}"
    finally:
        release_arrow_memory()
    return _Answer(detector.name, findings, failure, round(time.monotonic() - begun, 2))


def _outcome(detector: Detector, findings: int, suppressed: int, visibility: Visibility) -> Outcome:
    name, about, requirements = detector.name, detector.about, detector.requirements
    fired = findings or suppressed
    if not fired and (missing := visibility.missing_logs(requirements)):
        return Outcome(name, "not_evaluable", reasons=[missing], about=about)
    # A detector that fired may have missed something, too.
    gaps, status = visibility.describe_gaps(requirements), "fired" if fired else "quiet"
    return Outcome(name, status, findings, suppressed, gaps, about)
