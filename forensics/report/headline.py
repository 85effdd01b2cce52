"""The verdict sentence, by a fixed grammar, from what findings.json says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forensics.lib.formatting import count, percent, span_text, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import describe_missing_logs, loss_would_be_visible
from forensics.report.finding_text import describe_scope, short_title
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Finding, RunOutput


@dataclass(frozen=True)
class LossTotals:
    """What the unclean elections took, summed over their partitions."""

    partitions: int
    at_least: int
    at_most: int
    unbounded: int
    is_certain: bool
    # how many of the lost had been acknowledged, in words; empty where nothing is known of it
    acknowledged: str = ""

    def __str__(self) -> str:
        on = f"on {count(self.partitions, 'partition')}"
        if self.unbounded:
            return "possible, not bounded"
        if not self.at_most:
            return "none seen"
        if self.at_least and self.is_certain:
            least, most = f"{self.at_least:,}", f"{self.at_most:,}"
            return f"confirmed {least if least == most else f'{least}..{most}'} records {on}"
        return f"possible, at most {count(self.at_most, 'record')} {on}"


def loss_rows(findings: Sequence[Finding]) -> list[tuple[Finding, PartitionLoss]]:
    """Give every partition of every unclean election, with the finding it belongs to."""
    return [
        (finding, row)
        for finding in findings
        if finding.detector == "unclean-election"
        for row in finding.losses
    ]


def sum_losses(findings: Sequence[Finding]) -> LossTotals | None:
    """Sum up the ledger; None where no partition is in it."""
    rows = loss_rows(findings)
    if not rows:
        return None
    most = [row.lost_records_max for _, row in rows]
    return LossTotals(
        partitions=sum(1 for bound in most if bound != 0),
        at_least=sum(row.lost_records_min for _, row in rows),
        at_most=sum(bound or 0 for bound in most),
        unbounded=sum(1 for bound in most if bound is None),
        is_certain=all(finding.confidence != "possible" for finding, _ in rows),
        acknowledged=_acknowledged([row for _, row in rows]),
    )


def _acknowledged(rows: Sequence[PartitionLoss]) -> str:
    least = [row.acknowledged_min or 0 for row in rows]
    most = [row.acknowledged_max for row in rows]
    if not (sum(least) or any(most)):
        return ""
    if None in most:
        return f"at least {sum(least):,}"
    low, high = sum(least), sum(bound or 0 for bound in most)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def is_open(run: RunOutput, finding: Finding) -> bool:
    """Whether the logs do not see a finding end."""
    last = run.window[1] if run.window else None
    return finding.end_ms is None or (last is not None and finding.end_ms >= last)


def finding_period(run: RunOutput, finding: Finding) -> str:
    """Say from when to when a finding reaches; logs that end before it does say no more."""
    if not is_open(run, finding) or not run.window:
        return span_text(finding.start_ms, finding.end_ms)
    return f"{span_text(finding.start_ms, run.window[1])}, to the end of the logs"


def unanswered_detectors(run: RunOutput) -> list[dict[str, Any]]:
    """Give the detectors that could not look, or failed: nothing is said of what they look for."""
    rows = run.document.get("detectors") or ()
    return [dict(row) for row in rows if row.get("status") in ("not_evaluable", "failed")]


def describe_detector_coverage(run: RunOutput) -> str:
    """Say how many kinds of trouble were looked for, and how many could not be."""
    asked = len(run.document.get("detectors") or ())
    deaf = len(unanswered_detectors(run))
    if not asked:
        return ""
    looked = f"{count(asked - deaf, 'kind')} of trouble looked for"
    return f"{looked}, {deaf} could not be" if deaf else looked


def verdict_sentence(run: RunOutput) -> str:
    """Say what happened in one sentence, or which of the three other things is the case."""
    verdict = run.document.get("verdict")
    if closed := _closed(run):
        return closed
    if verdict == "incident" and run.incidents:
        return _incident(run)
    understood = f"{_understood(run)} of {count(_lines(run), 'line')} understood"
    understood += f"; {describe_detector_coverage(run)}" if describe_detector_coverage(run) else ""
    if verdict == "clear":
        return f"Nothing of level medium or higher found{_window(run)}; {understood}."
    if not _lines(run) or not (run.document.get("archive") or {}).get("events"):
        return "Cannot tell: nothing in the input could be used as a Kafka log."
    missing = ", ".join(one for one in (describe_missing_logs(run), *_doubted(run)) if one)
    why = f" ({missing})" if missing else ""
    return (
        f"Cannot tell: nothing of level medium or higher found{_window(run)}, but the logs "
        f"cover too little to say that nothing happened{why}; {understood}."
    )


def _closed(run: RunOutput) -> str:
    """Say that the gate of quality is closed, if so; what was found is told with less trust."""
    told = (run.document.get("quality") or {}).get("closed") or ()
    if not told:
        return ""
    found = count(len(run.incidents), "finding")
    rest = f" {found} of level medium or higher: do not act on them before that is settled."
    return f"Cannot tell: the quality gate is closed, {told[0]}.{rest if run.incidents else ''}"


def _doubted(run: RunOutput) -> list[str]:
    """Name the checks that failed, and for which nothing is sure."""
    failed = (run.document.get("quality") or {}).get("failed") or ()
    return [str(one.get("otherwise")) for one in failed if one.get("consequence") == "downgrade"]


def _incident(run: RunOutput) -> str:
    worst = run.incidents[0]
    return (
        f"{short_title(worst)} on {describe_scope(worst)}, {finding_period(run, worst)}; "
        f"data loss {_loss_words(run)}; confidence {worst.confidence}."
    )


def _loss_words(run: RunOutput) -> str:
    taken = sum_losses(run.findings)
    if taken:
        return str(taken)
    if any(finding.detector == "unclean-election" for finding in run.findings):
        return "possible, not bounded"
    return "none seen" if loss_would_be_visible(run) else "cannot tell"


def _lines(run: RunOutput) -> int:
    counted = (run.document.get("archive") or {}).get("lines")
    return int(counted or sum(row["lines"] for row in run.files))


def _understood(run: RunOutput) -> str:
    total = sum(row["lines"] for row in run.files)
    if not total:
        return "an unknown share"
    return percent(total - sum(row["unparsed_lines"] for row in run.files), total)


def _window(run: RunOutput) -> str:
    if not run.window:
        return ""
    return (
        f" between {time_text(run.window[0])} and {time_text(run.window[1])} {current_zone().label}"
    )
