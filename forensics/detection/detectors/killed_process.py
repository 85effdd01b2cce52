"""Processes that others saw killed, where no absence of a broker in these logs is that end."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.controller_losses import ends_of_losses, runs_of_losses
from forensics.detection.shared.process_ends import (
    END_WORDS,
    ProcessEnd,
    quote,
    rows_of,
    unattributed_ends,
)
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "killed-process"
NEEDS = SERVERS
_SHOWN = 10
_MAY_BE_A_BROKER = re.compile(r"kafka|broker|java", re.IGNORECASE)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each pod, container or machine, and reason."""
    groups: dict[tuple[str, str], list[ProcessEnd]] = defaultdict(list)
    told = {
        id(end)
        for run, is_churn in runs_of_losses(context)
        if not is_churn
        for end in ends_of_losses(context, [loss for loss in run if loss.lost_at is not None])
    }
    for end in unattributed_ends(context):
        if id(end) in told:
            continue
        subject = end.row["subject"] or ""
        named = subject if " " in subject else f"machine of {end.row['file']}"
        groups[named, end.reason].append(end)
    for (subject, reason), ends in sorted(groups.items()):
        yield _finding(context, subject, reason, ends)


def _finding(
    context: DetectionContext, subject: str, reason: str, ends: Sequence[ProcessEnd]
) -> Finding:
    limits, rows = context.limits[NAME], list(rows_of(ends))
    moments = [end.moments[0] for end in ends if end.moments]
    begin = min(moments, default=context.logs_end)
    is_near = any(_MAY_BE_A_BROKER.search(f"{row['subject']} {row['detail']}") for row in rows)
    what = f"a process {END_WORDS[reason].what}"
    times = f" {quantity(len(rows), 'time')}" if len(rows) > 1 else ""
    undated = "" if moments else ", at a time that is not told"
    return context.finding(
        NAME,
        limits["severity" if is_near else "other"],
        f"{subject[:1].upper()}{subject[1:]}: {_WHAT.get(reason, what)}{times}{undated}",
        begin,
        max(moments, default=begin),
        rows[:_SHOWN],
        measures={"reason": reason, "ends": len(rows), "dated": len(moments)},
        explanation=f"{END_WORDS[reason].why} {quote(rows[0])}. {_NOT_TIED}",
        actions=[_TIE],
        why=f"{quantity(len(rows), 'line')} of its end, none within an absence of its broker",
        doubts=["It may be no broker at all, or an end before or after these logs."],
    )


_WHAT = {"host": "it was lost or not ready", "evicted": "it was evicted"}
_NOT_TIED = (
    "No absence of a broker in these logs fits it by name and time, so it explains nothing here."
)
_TIE = (
    "If it is one of these brokers, collect its logs from around that time, under the name of its "
    "pod, container or machine."
)
