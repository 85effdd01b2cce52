"""What was cut off logs after clean changes of leader: lost to producers that did not wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.lib.formatting import count
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Finding


@dataclass(frozen=True)
class TruncationTotals:
    """How many records were cut, at least and at most, on how many partitions."""

    at_least: int
    at_most: int
    partitions: int

    def __str__(self) -> str:
        most = count(self.at_most, "record")
        both = most if self.at_least == self.at_most else f"{self.at_least:,} to {most}"
        return f"{both} of {count(self.partitions, 'partition')}"


def clean_truncation_rows(findings: Sequence[Finding]) -> list[tuple[Finding, PartitionLoss]]:
    """Give every partition that was cut after a clean change of leader."""
    return [
        (finding, row)
        for finding in findings
        if finding.detector == "truncation"
        for row in finding.losses
    ]


def sum_clean_truncations(findings: Sequence[Finding]) -> TruncationTotals | None:
    """Sum them up; None where there is none."""
    rows = clean_truncation_rows(findings)
    bounds = [(row.lost_records_min, row.lost_records_max) for _, row in rows]
    known = [(least, most) for least, most in bounds if most is not None]
    if not any(most for _, most in known):
        return None
    least, most = sum(least for least, _ in known), sum(most for _, most in known)
    return TruncationTotals(least, most, len({row.partition for _, row in rows}))
