"""What findings say of lost records: after unclean elections, and cut after clean ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.lib.text_format import count
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import SavedFinding

LossRows = list[tuple[SavedFinding, PartitionLoss]]


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
            return "none found"
        if self.at_least and self.is_certain:
            return f"confirmed {_join_bounds(self.at_least, self.at_most, '..')} records {on}"
        return f"possible, at most {count(self.at_most, 'record')} {on}"


@dataclass(frozen=True)
class TruncationTotals:
    """How many records were cut after clean elections, on how many partitions."""

    at_least: int
    at_most: int
    partitions: int

    def __str__(self) -> str:
        most = count(self.at_most, "record")
        both = most if self.at_least == self.at_most else f"{self.at_least:,} to {most}"
        return f"{both} of {count(self.partitions, 'partition')}"


def loss_rows(findings: Sequence[SavedFinding]) -> LossRows:
    """Return every partition of every unclean election, with the finding it belongs to."""
    return _partition_rows(findings, "unclean-election")


def clean_truncation_rows(findings: Sequence[SavedFinding]) -> LossRows:
    """Return every partition that was cut after a clean change of leader, with its finding."""
    return _partition_rows(findings, "truncation")


def _partition_rows(findings: Sequence[SavedFinding], detector: str) -> LossRows:
    return [
        (finding, row)
        for finding in findings
        if finding.detector == detector
        for row in finding.losses
    ]


def sum_losses(findings: Sequence[SavedFinding]) -> LossTotals | None:
    """Sum up what unclean elections took; None where they name no partition."""
    rows = loss_rows(findings)
    if not rows:
        return None
    bounds = [row.lost_records_max for _, row in rows]
    return LossTotals(
        partitions=sum(1 for bound in bounds if bound != 0),
        at_least=sum(row.lost_records_min for _, row in rows),
        at_most=sum(bound or 0 for bound in bounds),
        unbounded=bounds.count(None),
        is_certain=all(finding.confidence != "possible" for finding, _ in rows),
        acknowledged=_sum_acknowledged([row for _, row in rows]),
    )


def _sum_acknowledged(rows: Sequence[PartitionLoss]) -> str:
    low = sum(row.acknowledged_min or 0 for row in rows)
    bounds = [row.acknowledged_max for row in rows]
    if not (low or any(bounds)):
        return ""
    if None in bounds:
        return f"at least {low:,}"
    return _join_bounds(low, sum(bound or 0 for bound in bounds), " to ")


def _join_bounds(low: int, high: int, between: str) -> str:
    return f"{low:,}" if low == high else f"{low:,}{between}{high:,}"


def sum_clean_truncations(findings: Sequence[SavedFinding]) -> TruncationTotals | None:
    """Sum up what was cut after clean elections; None where nothing was."""
    rows = clean_truncation_rows(findings)
    bounded = [row for _, row in rows if row.lost_records_max]
    if not bounded:
        return None
    low = sum(row.lost_records_min for row in bounded)
    high = sum(row.lost_records_max or 0 for row in bounded)
    return TruncationTotals(low, high, len({row.partition for _, row in rows}))


def describe_client_losses(findings: Sequence[SavedFinding]) -> str:
    """Say what did not get into Kafka or out of it, though no broker lost it; empty if nothing."""
    given_up = _sum_measure(findings, "undelivered-records", "records_min")
    skipped = _sum_measure(findings, "offset-reset", "skipped")
    refused = _sum_measure(
        [one for one in findings if one.measures.get("limit") != "socket.request.max.bytes"],
        "record-too-large", "records",
    )  # fmt: skip
    parts = [f"consumers skipped at least {count(skipped, 'record')}"] if skipped else []
    parts += [f"{count(refused, 'record')} were too large to be written"] if refused else []
    parts += [f"producers gave up at least {count(given_up, 'record')}"] if given_up else []
    return ", ".join(parts)


def _sum_measure(findings: Sequence[SavedFinding], detector: str, measure: str) -> int:
    return sum(
        number
        for one in findings
        if one.detector == detector and isinstance(number := one.measures.get(measure), int)
    )
