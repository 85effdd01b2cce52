"""The verdict sentence, by a fixed grammar, from what findings.json says."""

from __future__ import annotations

from forensics.lib.text_format import count, percent, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import (
    describe_missing_logs,
    loss_would_be_visible,
    unanswered_detectors,
)
from forensics.report.data_loss import sum_losses
from forensics.report.finding_text import describe_scope, finding_period, short_title
from forensics.run_output.reader import RunOutput


def verdict_sentence(run: RunOutput) -> str:
    """Say what happened in one sentence, or that nothing did, or that it cannot be told."""
    quality = run.document.get("quality") or {}
    if closed := quality.get("closed"):
        return _closed_gate(run, closed[0])
    verdict = run.document.get("verdict")
    if verdict == "incident" and run.incidents:
        return _incident(run)
    start, end = map(time_text, run.window or (None, None))
    during = f" between {start} and {end} {current_zone().label}" if run.window else ""
    archive = run.document.get("archive") or {}
    lines = int(archive.get("lines") or sum(row["lines"] for row in run.files))
    tail = "; ".join([f"{_parsed_share(run)} of {count(lines, 'line')} understood", *_looked(run)])
    if verdict == "clear":
        return f"Nothing of level medium or higher found{during}; {tail}."
    if not lines or not archive.get("events"):
        return "Cannot tell: nothing in the input could be used as a Kafka log."
    failed = quality.get("failed") or ()
    doubts = [str(one.get("otherwise")) for one in failed if one.get("consequence") == "downgrade"]
    missing = ", ".join(part for part in (describe_missing_logs(run), *doubts) if part)
    why = f" ({missing})" if missing else ""
    return (
        f"Cannot tell: nothing of level medium or higher found{during}, but the logs "
        f"cover too little to say that nothing happened{why}; {tail}."
    )


def _closed_gate(run: RunOutput, why: str) -> str:
    count_text = count(len(run.incidents), "finding")
    rest = f" {count_text} of level medium or higher: do not act on them before that is settled."
    return f"Cannot tell: the quality gate is closed, {why}.{rest if run.incidents else ''}"


def _incident(run: RunOutput) -> str:
    worst = run.incidents[0]
    return (
        f"{short_title(worst)} on {describe_scope(worst)}, {finding_period(run, worst)}; "
        f"data loss {_data_loss(run)}; confidence {worst.confidence}."
    )


def _data_loss(run: RunOutput) -> str:
    if totals := sum_losses(run.findings):
        return str(totals)
    if any(finding.detector == "unclean-election" for finding in run.findings):
        return "possible, not bounded"
    return "none seen" if loss_would_be_visible(run) else "cannot tell"


def _looked(run: RunOutput) -> list[str]:
    """Say how many kinds of trouble were looked for, and how many could not be."""
    asked = len(run.document.get("detectors") or ())
    if not asked:
        return []
    unanswered = len(unanswered_detectors(run))
    looked = f"{count(asked - unanswered, 'kind')} of trouble looked for"
    return [f"{looked}, {unanswered} could not be" if unanswered else looked]


def _parsed_share(run: RunOutput) -> str:
    lines = sum(row["lines"] for row in run.files)
    if not lines:
        return "an unknown share"
    return percent(lines - sum(row["unparsed_lines"] for row in run.files), lines)
