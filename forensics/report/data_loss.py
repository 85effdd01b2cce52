"""What findings say of lost records: after unclean elections, and cut after clean ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forensics.lib.node_ids import client_name
from forensics.lib.text_format import count, join_names, pluralize
from forensics.run_output.findings import LOSING, PartitionLoss
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
    # whether the brokers that have them are not back, and will truncate them then: some, or all
    some_left: bool = False
    is_left: bool = False

    @property
    def how(self) -> str:
        """What became of them, in words."""
        left = "left on brokers that are not back"
        if self.is_left:
            return left
        return f"truncated, or {left}," if self.some_left else "truncated"

    def __str__(self) -> str:
        most = count(self.at_most, "record")
        both = most if self.at_least == self.at_most else f"{self.at_least:,} to {most}"
        return f"{both} of {count(self.partitions, 'partition')}"


def loss_rows(findings: Sequence[SavedFinding]) -> LossRows:
    """Return every partition that lost its records' last copy, with the finding it belongs to."""
    return _partition_rows(findings, *LOSING)


def lost_and_spared(findings: Sequence[SavedFinding]) -> tuple[list[str], list[str]]:
    """Name the partitions that lost or may have lost records, and the others with such leaders."""
    rows = [row for _, row in loss_rows(findings)]
    lost = list(dict.fromkeys(row.partition for row in rows if row.lost_records_max != 0))
    return lost, [name for name in dict.fromkeys(row.partition for row in rows) if name not in lost]


def clean_truncation_rows(findings: Sequence[SavedFinding]) -> LossRows:
    """Return every partition that was cut after a clean change of leader, with its finding."""
    return _partition_rows(findings, "truncation")


def _partition_rows(findings: Sequence[SavedFinding], *detectors: str) -> LossRows:
    return [
        (finding, row)
        for finding in findings
        if finding.detector in detectors
        for row in finding.losses
    ]


def sum_losses(findings: Sequence[SavedFinding]) -> LossTotals | None:
    """Sum up what went with the last copy in sync; None where no partition is named."""
    rows = loss_rows(findings)
    if not rows:
        return None
    bounds = [row.lost_records_max for _, row in rows]
    return LossTotals(
        partitions=len({row.partition for _, row in rows if row.lost_records_max != 0}),
        at_least=sum(row.lost_records_min for _, row in rows),
        at_most=sum(bound or 0 for bound in bounds),
        unbounded=len({row.partition for _, row in rows if row.lost_records_max is None}),
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
    left = [row.cut_on == [] for _, row in rows]
    partitions = len({row.partition for _, row in rows})
    return TruncationTotals(low, high, partitions, any(left), all(left))


def describe_client_losses(findings: Sequence[SavedFinding]) -> str:
    """Say what did not get into Kafka or out of it, though no broker lost it; empty if nothing."""
    incidents = [one for one in findings if one.is_incident]
    skips = [one for one in incidents if one.detector == "offset-reset"]
    is_refused = any(one.detector == "record-too-large" for one in incidents)
    few = [
        one for one in findings if is_refused and one.severity == "low" and one.measures.get("lost")
    ]
    parts = [_skipped(skips), *_deleted(findings, skips), _unwritten([*incidents, *few])]
    return "; ".join(part for part in parts if part)


def _skipped(findings: Sequence[SavedFinding]) -> str:
    """Say how many records consumers never saw: each with its own number."""
    known = _numbers(findings, "skipped")
    bounds = _numbers(findings, "skipped_max")
    texts = []
    if known:
        whose = _by_client(known) if len(known) > 1 else ""
        texts.append(f"consumers skipped at least {count(sum(known.values()), 'record')}{whose}")
    for name, most in bounds.items():
        more = "more" if known else "records"
        texts.append(f"{name} skipped up to {most:,} {more}")
    return ", ".join(texts)


def _deleted(findings: Sequence[SavedFinding], skips: Sequence[SavedFinding]) -> Iterator[str]:
    """Say what somebody deleted that clients still used."""
    topics = {
        topic: one.measures.get("deleted")
        for one in skips
        if one.measures.get("cause") == "delete_records"
        and isinstance(topic := one.measures.get("topic"), str)
    }
    for topic, number in topics.items():
        much = count(number, "record") if isinstance(number, int) else "records"
        yield f"somebody deleted {much} of {topic}"
    gone = sorted(
        topic
        for one in findings
        if one.detector == "deleted-topic-in-use"
        and isinstance(topic := one.measures.get("topic"), str)
    )
    if gone:
        topic, was = pluralize("topic", len(gone)), "were" if len(gone) > 1 else "was"
        yield (
            f"{topic} {join_names(gone, 4)} {was} deleted with all records: how many is not in "
            "the logs"
        )


def _unwritten(findings: Sequence[SavedFinding]) -> str:
    """Say how many records never got into Kafka: refused for their size, or given up."""
    sizes = [
        one
        for one in findings
        if one.detector == "record-too-large"
        and one.measures.get("limit") != "socket.request.max.bytes"
    ]  # fmt: skip
    refused = _numbers(sizes, "records")
    given_up = _numbers(
        [one for one in findings if one.detector == "undelivered-records"], "records_min"
    )
    large = f"{count(sum(refused.values()), 'record')} were too large to be written"
    left = f"producers gave up at least {count(sum(given_up.values()), 'record')}"
    if refused and given_up:
        every = sum(refused.values()) + sum(given_up.values())
        left = f"at least {count(sum(given_up.values()), 'record')} given up"
        large = large.replace(" were too large to be written", " too large")
        parts = f"{large}{_by_client(refused)}, and {left}{_by_client(given_up)}"
        return f"at least {count(every, 'record')} were never written: {parts}"
    if refused:
        return f"{large}{_by_client(refused)}"
    return f"{left}{_by_client(given_up)}" if given_up else ""


def _numbers(findings: Sequence[SavedFinding], measure: str) -> dict[str, int]:
    """Return a number of each client, the largest first; those without one are left out."""
    found: dict[str, int] = {}
    for one in findings:
        number = one.measures.get(measure)
        if isinstance(number, int) and number:
            name = join_names([client_name(name) for name in one.clients])
            found[name] = found.get(name, 0) + number
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def _by_client(numbers: Mapping[str, int]) -> str:
    """Say whose they are, in parentheses."""
    if len(numbers) == 1:
        return f" ({next(iter(numbers))})"
    named = [f"{name} {number:,}" for name, number in numbers.items() if name]
    return f" ({join_names(named, 4)})" if named else ""
