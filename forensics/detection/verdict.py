"""Decides the verdict over all findings, and builds findings.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow.compute as pc

from forensics.detection.runner import DetectionResults
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import RuleSet
from forensics.history.clocks.model import Clocks
from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.text_format import quantity
from forensics.lib.time_units import to_iso
from forensics.run_output.findings import INCIDENT_SEVERITIES, Finding
from forensics.run_output.reader import Tables

INCIDENT, CLEAR, CANNOT_TELL = "incident", "clear", "cannot_tell"
# Errors of servers that no rule knows: what ends a process may be an incident of any kind.
UNREAD_ERRORS = "unread-errors"
# With a smaller share of lines in a known layout, silence proves nothing; that no record was lost
# is a stronger claim.
MIN_PARSED_SHARE = 0.5
MIN_PARSED_SHARE_FOR_LOSS = 0.95
# So many routine events are named in the summary.
_SHOWN = 2
# Notes about a file that was read to its end: it is no log, or a line of it is too long.
_HARMLESS_NOTE = re.compile(
    r"binary data, not a log|text, not a log|no known log layout at its beginning"
    r"|\d+ line\(s\) longer than 1 MB, read in part"
    r"|\d+ fact\(s\) with a number that Kafka cannot have written, left out"
    r"|only its first \d+ MB were looked at"
    # One or two are damage of a few bytes.
    r"|[12] line\(s\) that state something have a time that cannot be, the first is line [\d,]+"
    # So few may be quoted.
    r"|[12] line\(s\) were read as no event although they say what rules look for.*"
)


class JudgedFinding(Protocol):
    """What the verdict takes of a finding, be it new or saved."""

    @property
    def detector(self) -> str:
        """Who found it."""

    @property
    def severity(self) -> str:
        """How bad it is."""

    @property
    def measures(self) -> Mapping[str, Any]:
        """What was counted."""


def decide_verdict(
    findings: Iterable[JudgedFinding],
    files: Iterable[Mapping[str, Any]],
    *,
    knows_leaders: bool,
    lacks_logs: bool,
) -> str:
    """Return the verdict over some findings; `files` are rows of tables/files."""
    findings = list(findings)
    if not INCIDENT_SEVERITIES.isdisjoint(one.severity for one in findings):
        return INCIDENT
    if any(map(_is_fatal, findings)):
        return CANNOT_TELL
    conclusive = is_silence_conclusive(files, knows_leaders=knows_leaders, lacks_logs=lacks_logs)
    return CLEAR if conclusive else CANNOT_TELL


def _is_fatal(finding: JudgedFinding) -> bool:
    """Return True for errors that no rule knows and a process ended of."""
    return finding.detector == UNREAD_ERRORS and bool(finding.measures.get("fatal"))


def is_silence_conclusive(
    files: Iterable[Mapping[str, Any]],
    *,
    knows_leaders: bool,
    lacks_logs: bool,
    min_parsed_share: float = MIN_PARSED_SHARE,
) -> bool:
    """Return True if logs that tell of no incident show that there was none."""
    files = list(files)
    lines = sum(row["lines"] for row in files)
    unparsed = sum(row["unparsed_lines"] for row in files)
    return (
        bool(lines)
        and knows_leaders
        and not lacks_logs
        and unparsed <= lines * (1 - min_parsed_share)
        and not any(is_damaged(row["damaged"]) for row in files)
    )


def is_damaged(notes: str | None) -> bool:
    """Return True if the notes about a file, as tables/files has them, say that a part is lost.

    >>> is_damaged("binary data, not a log"), is_damaged("gzip stream ends early"), is_damaged(None)
    (False, True, False)
    >>> is_damaged("3 line(s) were read as no event although they say what rules look for (x)")
    True
    """
    return any(not _HARMLESS_NOTE.fullmatch(note) for note in notes.split("; ")) if notes else False


def withhold_verdict(document: Mapping[str, Any], summary: str) -> dict[str, Any]:
    """Return findings.json with the verdict that these logs cannot tell, and why."""
    return {**document, "verdict": CANNOT_TELL, "summary": summary}


def build_findings_document(
    tables: Tables,
    files: Iterable[FileAccount],
    clocks: Clocks,
    results: DetectionResults,
    rules: RuleSet,
) -> dict[str, Any]:
    """Build findings.json."""
    files, findings = list(files), results.findings
    rows = [one.to_row() for one in files]
    # That a node was silent for long hides nothing: where nothing happens, there is little to say.
    verdict = decide_verdict(
        findings,
        rows,
        knows_leaders=tables.count_rows("leadership", pc.field("how") == "observed") > 0,
        lacks_logs=tables.count_rows("coverage", pc.field("state").isin(LACKING_STATES)) > 0,
    )
    moments = [
        clocks.correct(one.node, moment, one.file)
        for one in files
        for moment in (one.first, one.last)
        if moment is not None
    ]
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
        "trigger": [dict(one) for one in results.trigger],
        "impact": dict(results.impact),
        "findings": rows_of_findings,
        "chains": [dict(chain) for chain in results.chains],
        "suppressed": [one.document() for one in results.suppressed],
        "detectors": [one.document() for one in results.outcomes],
        "packs": [dict(pack) for pack in rules.packs],
        "rules": _rules(rows_of_findings, rules),
    }


def _rules(findings: Sequence[Mapping[str, Any]], rules: RuleSet) -> dict[str, Any]:
    """Return what the lines of each rule that evidence rests on mean, and do not mean."""
    used = {
        str(one["rule"]).partition("@")[0]
        for finding in findings
        for one in finding["evidence"]
        if one["rule"]
    }
    return {
        rule.id: {"means": rule.description, "beware": rule.caveats}
        for rule in sorted(rules.rules, key=lambda rule: rule.id)
        if rule.id in used
    }


def _summary(verdict: str, findings: Sequence[Finding]) -> str:
    if verdict == INCIDENT:
        count = sum(finding.severity in INCIDENT_SEVERITIES for finding in findings)
        more = f"; {quantity(count - 1, 'more finding')}" if count > 1 else ""
        return findings[0].title + more
    if verdict == CLEAR:
        routine = [one.title for one in findings if _is_routine(one)]
        more = f" Routine: {'. '.join(routine[:_SHOWN])}." if routine else ""
        unread = [one.title for one in findings if one.detector == UNREAD_ERRORS]
        but = f" But {'; '.join(unread[:_SHOWN])}." if unread else ""
        return f"No incident in these logs, which are complete enough to tell.{but}{more}"
    if fatal := [one.title for one in findings if _is_fatal(one)]:
        return f"No incident was found, but {'; '.join(fatal[:_SHOWN])}, some of them at FATAL."
    return "No incident was found, but these logs are not complete enough to rule one out."


def _is_routine(finding: Finding) -> bool:
    """Return True for what an operator did: rolls, reassignments, restarts that ended."""
    if finding.detector == "broker-restart":
        kind, away = finding.measures.get("kind"), finding.measures.get("away_s")
        failed = finding.measures.get("failed_starts")
        return kind == "controlled" and away is not None and not failed
    return finding.detector in ("rolling-restart", "reassignment")
