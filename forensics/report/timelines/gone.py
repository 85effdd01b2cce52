"""What a partition lost, and where its lines contradict what Kafka promises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.dataset as ds

from forensics.report.saved import Row, Saved
from forensics.report.timelines.saying import moment, who
from forensics.report.timelines.steps import MOST, Place, Placed, Step, places
from forensics.report.words import count

__all__ = ["breaches", "cuts", "losses"]

CUTS = (
    "leader_epoch", "leader", "kept", "broker", "started_at", "cut_to", "log_end",
    "high_watermark", "unclean", "written_from", "written_to", "evidence",
)  # fmt: skip
BREACHES = ("invariant", "detail", "leader_epoch", "partition_epoch", "started_at", "count",
            "alone", "evidence")  # fmt: skip
BOUNDS = ("lost_from", "lost_to", "lost_records_min", "lost_records_max")
PROOFS = 6


def cuts(saved: Saved, mine: ds.Expression) -> Iterator[Step]:
    """Tell of each log that was cut so as to follow a new leader."""
    for row in saved.table("cuts", CUTS, mine)[:MOST].to_pylist():
        cutter = "a replica" if row["broker"] is None else f"broker {row['broker']}"
        parts = [f"{cutter} cut its log to offset {_number(row['cut_to'])}"]
        parts.append(f"to follow {_losing_leader(row)}")
        if row["log_end"] is not None and row["cut_to"] is not None:
            gone = count(max(0, row["log_end"] - row["cut_to"]), "record")
            parts.append(f"{gone} gone from it, its log had ended at {row['log_end']:,}")
        written = [row["written_from"], row["written_to"]]
        if any(written):
            first, last = (moment(one) for one in written)
            parts.append(f"written between {first} and {last}")
        facts = {name: row[name] for name in CUTS if name != "evidence" and row[name] is not None}
        facts = {name: value for name, value in facts.items() if value not in written}
        node = {} if row["broker"] is None else {"node": f"broker-{row['broker']}"}
        yield Step(
            "cut", row["started_at"], "; ".join(parts), evidence=places(row), facts=facts | node
        )


def _losing_leader(row: Row) -> str:
    if row["leader"] in (None, -1):
        return "a new leader"
    epoch = "" if row["leader_epoch"] is None else f" in epoch {row['leader_epoch']}"
    return f"{who(row['leader'])}{epoch}"


def _number(value: int | None) -> str:
    return "that is not said" if value is None else f"{value:,}"


def breaches(saved: Saved, mine: ds.Expression) -> Iterator[Step]:
    """Tell where lines contradict what Kafka promises of every partition."""
    for row in saved.table("breaches", BREACHES, mine)[:MOST].to_pylist():
        name = str(row["invariant"] or "invariant").replace("_", " ")
        more = f" ({count(row['count'], 'time')})" if (row["count"] or 0) > 1 else ""
        facts = {key: row[key] for key in ("invariant", "leader_epoch", "partition_epoch")}
        says = f"contradiction, {name}: {row['detail'] or 'see the lines'}{more}"
        yield Step("breach", row["started_at"], says, evidence=places(row), facts=facts)


def losses(saved: Saved, name: str, begun: Mapping[int, int], first: int) -> Iterator[Placed]:
    """Tell what the findings say was lost, at the leader epoch by which it was lost."""
    for finding in saved.findings:
        rows = finding.measures.get("partitions")
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict) or row.get("partition") != name or "lost_from" not in row:
                continue
            epoch = row.get("leader_epoch")
            at = finding.start if epoch is None else begun.get(epoch, finding.start)
            word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.])")
            proofs = [one for one in finding.evidence if word.search(one.text)]
            facts: dict[str, Any] = {key: row[key] for key in sorted(row) if key != "partition"}
            step = Step(
                "loss", at, f"{_lost(row)} (finding {finding.id}, {finding.confidence})",
                evidence=tuple(Place(one.file, one.line) for one in proofs[:PROOFS]),
                facts=facts | {"finding": finding.id, "confidence": finding.confidence},
            )  # fmt: skip
            yield Placed(first if at is None else at, 6, step)


def _lost(row: Row) -> str:
    """Say how much was lost, as far as it is bounded."""
    start, end, least, most = (row.get(bound) for bound in BOUNDS)
    if most == 0:
        return "loss: none, no record stood beyond the new leader's log"
    if most is None and not least:
        return "loss: possible, no line bounds it"
    where = f" from offset {start:,}" if isinstance(start, int) else ""
    where += f" to {end - 1:,}" if isinstance(end, int) else ""
    if most is None:
        return f"loss: at least {count(least, 'record')}{where}, no upper bound"
    if least == most:
        return f"loss: {count(most, 'record')}{where}"
    return f"loss: {least or 0:,} to {count(most, 'record')}{where}"
