"""Names in findings of stale metadata the finding that tells why the leaders moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forensics.detection.causality.links import allowed_sources
from forensics.lib.text_format import parse_millis
from forensics.lib.time_units import MILLISECOND, SECOND
from forensics.run_output.findings import Finding

_STALE = "stale-metadata"
_ABOUT_PARTITIONS = ("unclean-election", "offline-partitions", "reassignment")
# How far the move may be from what took the leader away: a session has to run out.
_NEAR = 30 * SECOND


def explain_moves(findings: Sequence[Finding]) -> list[Finding]:
    """Add to each finding of stale metadata the id and title of the one that explains its move."""
    others = [finding for finding in findings if finding.detector != _STALE]
    return [
        _explain(finding, others) if finding.detector == _STALE else finding for finding in findings
    ]


def _explain(finding: Finding, others: Sequence[Finding]) -> Finding:
    source = _find_source(finding, others)
    if source is None:
        return finding
    text = f"{finding.explanation} Why the leaders moved: finding {source.id} ({source.title})."
    return replace(
        finding, explanation=text, measures={**finding.measures, "explained_by": source.id}
    )


def _find_source(finding: Finding, others: Sequence[Finding]) -> Finding | None:
    """Find it by the cause, and by the former leader or the partitions, not by time alone."""
    measures = finding.measures
    since = parse_millis(measures.get("led_since"))
    sources = list(allowed_sources(measures.get("cause")) or ())
    if since is None:
        return None
    moment = since * MILLISECOND
    former = set(measures.get("led_before", ()))
    fitting = [
        one
        for one in others
        if one.detector in sources
        and one.begin - _NEAR <= moment <= one.end + _NEAR
        and (
            set(finding.partitions) & set(one.partitions)
            if one.detector in _ABOUT_PARTITIONS
            else former & set(one.brokers)
        )
    ]
    return min(
        fitting,
        key=lambda one: (sources.index(one.detector), abs(one.begin - moment), one.id),
        default=None,
    )
