"""The verdict sentence, by a fixed grammar, from what findings.json says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forensics.lib.formatting import clock, count, share, span
from forensics.lib.time_zone import current
from forensics.report.coverage_advice import lacks, tells_of_loss
from forensics.report.finding_text import headline, scope
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Finding, Saved


@dataclass(frozen=True)
class Loss:
    """What the unclean elections took, summed over their partitions."""

    partitions: int
    at_least: int
    at_most: int
    unbounded: int
    sure: bool
    # how many of the lost had been acknowledged, in words; empty where nothing is known of it
    acknowledged: str = ""

    def __str__(self) -> str:
        on = f"on {count(self.partitions, 'partition')}"
        if self.unbounded:
            return "possible, not bounded"
        if not self.at_most:
            return "none seen"
        if self.at_least and self.sure:
            least, most = f"{self.at_least:,}", f"{self.at_most:,}"
            return f"confirmed {least if least == most else f'{least}..{most}'} records {on}"
        return f"possible, at most {count(self.at_most, 'record')} {on}"


def ledger(findings: Sequence[Finding]) -> list[tuple[Finding, PartitionLoss]]:
    """Give every partition of every unclean election, with the finding it belongs to."""
    return [
        (finding, row)
        for finding in findings
        if finding.detector == "unclean-election"
        for row in finding.losses
    ]


def loss(findings: Sequence[Finding]) -> Loss | None:
    """Sum up the ledger; None where no partition is in it."""
    rows = ledger(findings)
    if not rows:
        return None
    most = [row.lost_records_max for _, row in rows]
    return Loss(
        partitions=sum(1 for bound in most if bound != 0),
        at_least=sum(row.lost_records_min for _, row in rows),
        at_most=sum(bound or 0 for bound in most),
        unbounded=sum(1 for bound in most if bound is None),
        sure=all(finding.confidence != "possible" for finding, _ in rows),
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


def is_open(saved: Saved, finding: Finding) -> bool:
    """Whether the logs do not see a finding end."""
    last = saved.window[1] if saved.window else None
    return finding.end is None or (last is not None and finding.end >= last)


def when(saved: Saved, finding: Finding) -> str:
    """Say from when to when a finding reaches; logs that end before it does say no more."""
    if not is_open(saved, finding) or not saved.window:
        return span(finding.start, finding.end)
    return f"{span(finding.start, saved.window[1])}, to the end of the logs"


def blind(saved: Saved) -> list[dict[str, Any]]:
    """Give the detectors that could not look, or failed: nothing is said of what they look for."""
    rows = saved.document.get("detectors") or ()
    return [dict(row) for row in rows if row.get("status") in ("not_evaluable", "failed")]


def untold(saved: Saved) -> str:
    """Say how many kinds of trouble were looked for, and how many could not be."""
    asked = len(saved.document.get("detectors") or ())
    deaf = len(blind(saved))
    if not asked:
        return ""
    looked = f"{count(asked - deaf, 'kind')} of trouble looked for"
    return f"{looked}, {deaf} could not be" if deaf else looked


def sentence(saved: Saved) -> str:
    """Say what happened in one sentence, or which of the three other things is the case."""
    verdict = saved.document.get("verdict")
    if closed := _closed(saved):
        return closed
    if verdict == "incident" and saved.incidents:
        return _incident(saved)
    understood = f"{_understood(saved)} of {count(_lines(saved), 'line')} understood"
    understood += f"; {untold(saved)}" if untold(saved) else ""
    if verdict == "clear":
        return f"Nothing of level medium or higher found{_window(saved)}; {understood}."
    if not _lines(saved) or not (saved.document.get("archive") or {}).get("events"):
        return "Cannot tell: nothing in the input could be used as a Kafka log."
    missing = ", ".join(one for one in (lacks(saved), *_doubted(saved)) if one)
    why = f" ({missing})" if missing else ""
    return (
        f"Cannot tell: nothing of level medium or higher found{_window(saved)}, but the logs "
        f"cover too little to say that nothing happened{why}; {understood}."
    )


def _closed(saved: Saved) -> str:
    """Say that the gate of quality is closed, if so; what was found is told with less trust."""
    told = (saved.document.get("quality") or {}).get("closed") or ()
    if not told:
        return ""
    found = count(len(saved.incidents), "finding")
    rest = f" {found} of level medium or higher: do not act on them before that is settled."
    return f"Cannot tell: the quality gate is closed, {told[0]}.{rest if saved.incidents else ''}"


def _doubted(saved: Saved) -> list[str]:
    """Name the checks that failed, and for which nothing is sure."""
    failed = (saved.document.get("quality") or {}).get("failed") or ()
    return [str(one.get("otherwise")) for one in failed if one.get("consequence") == "downgrade"]


def _incident(saved: Saved) -> str:
    worst = saved.incidents[0]
    return (
        f"{headline(worst)} on {scope(worst)}, {when(saved, worst)}; "
        f"data loss {_loss_words(saved)}; confidence {worst.confidence}."
    )


def _loss_words(saved: Saved) -> str:
    taken = loss(saved.findings)
    if taken:
        return str(taken)
    if any(finding.detector == "unclean-election" for finding in saved.findings):
        return "possible, not bounded"
    return "none seen" if tells_of_loss(saved) else "cannot tell"


def _lines(saved: Saved) -> int:
    counted = (saved.document.get("archive") or {}).get("lines")
    return int(counted or sum(row["lines"] for row in saved.files))


def _understood(saved: Saved) -> str:
    total = sum(row["lines"] for row in saved.files)
    if not total:
        return "an unknown share"
    return share(total - sum(row["unparsed_lines"] for row in saved.files), total)


def _window(saved: Saved) -> str:
    if not saved.window:
        return ""
    return f" between {clock(saved.window[0])} and {clock(saved.window[1])} {current().label}"
