"""The verdict over all findings, and the document that machines read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.runner import DetectionResults
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import RuleSet
from forensics.history.clocks.model import Clocks
from forensics.lib.time_units import to_iso
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables

_INCIDENT = ("medium", "high", "critical")
# With less than this share of lines in a known layout, silence proves nothing.
_READ_SHARE = 0.5


def build_findings_document(
    tables: Tables,
    files: Iterable[FileAccount],
    clocks: Clocks,
    answers: DetectionResults,
    catalogue: RuleSet,
) -> dict[str, Any]:
    """Build findings.json."""
    files, findings = list(files), answers.findings
    verdict = _verdict(tables, files, findings)
    moments = [
        clocks.correct(one.node, moment)
        for one in files
        for moment in (one.first, one.last)
        if moment is not None
    ]
    rows = [one.to_row() for one in files]
    rows_of_findings = [finding.to_json() for finding in findings]
    return {
        "schema": 1,
        "verdict": verdict,
        "summary": _summary(verdict, findings),
        "window": {
            "from": to_iso(min(moments)) if moments else None,
            "to": to_iso(max(moments)) if moments else None,
        },
        "archive": {
            "files": len(rows),
            "bytes": sum(row["bytes"] for row in rows),
            "lines": sum(row["lines"] for row in rows),
            "events": sum(row["events"] for row in rows),
        },
        "findings": rows_of_findings,
        "chains": [dict(chain) for chain in answers.chains],
        "suppressed": [one.document() for one in answers.suppressed],
        "detectors": [one.document() for one in answers.outcomes],
        "packs": [dict(pack) for pack in catalogue.packs],
        "rules": _rules(rows_of_findings, catalogue),
    }


def _rules(findings: Sequence[Mapping[str, Any]], catalogue: RuleSet) -> dict[str, Any]:
    """Say of each rule that a finding's evidence rests on what its lines mean, and do not mean."""
    used = {
        str(one["rule"]).partition("@")[0]
        for finding in findings
        for one in finding["evidence"]
        if one["rule"]
    }
    return {
        rule.id: {"means": rule.description, "beware": rule.caveats}
        for rule in sorted(catalogue.rules, key=lambda rule: rule.id)
        if rule.id in used
    }


def _verdict(tables: Tables, files: Sequence[FileAccount], findings: Sequence[Finding]) -> str:
    if any(finding.severity in _INCIDENT for finding in findings):
        return "incident"
    lines = sum(one.counts["lines"] for one in files)
    loose = sum(one.counts["unparsed_lines"] for one in files)
    broken = any(one.broken for one in files)
    known = pc.field("how") == "observed"
    epochs = tables.count_rows("leadership", known)
    if not lines or not epochs or broken or loose > lines * _READ_SHARE or _lacks_logs(tables):
        return "cannot_tell"
    return "clear"


def _lacks_logs(tables: Tables) -> bool:
    """Whether logs are missing that would tell if something happened.

    That a node was silent for long is no such thing: where nothing happens, there is little to say.
    """
    lacking = pc.field("state").isin(["missing", "rotated", "hidden"])
    return tables.count_rows("coverage", lacking) > 0


def _summary(verdict: str, findings: Sequence[Finding]) -> str:
    if verdict == "incident":
        count = sum(finding.severity in _INCIDENT for finding in findings)
        more = f" ({count - 1} more)" if count > 1 else ""
        return findings[0].title + more
    if verdict == "clear":
        return "Nothing above routine was found, and the logs were good enough to tell."
    return "Nothing was found, but these logs are not enough to say that nothing happened."
