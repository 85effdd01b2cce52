"""What trends need of one week, read from that week's folder alone.

Names what a finding is about without its time: the same trouble has one name in every week.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from forensics.detection.verdict import decide_verdict
from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.formatting import pluralize
from forensics.run_output.reader import Finding, RunOutput, load_run
from forensics.weekly.coverage_normalisation import (
    NodeCoverage,
    Span,
    clipped,
    length,
    measure_coverage,
)
from forensics.weekly.iso_week import Week
from forensics.weekly.metrics import (
    KEPT_PARTITIONS,
    MAX_LOW_ISR_NIGHTS,
    Counts,
    count_signals,
    count_topics,
    created_and_deleted_topics,
    find_low_isr_nights,
    nights_in,
)

# Of more names than this only the first stand there, and a digest of all of them.
NAMES = 4
LETTERS = 120
WHOLE = "cluster"
# By what two findings of one detector are compared; of others each finding counts one.
SIZES = {
    "broker-restart": "away_s",
    "controller-churn": "changes",
    "flapping-broker": "cycles",
    "isr-storm": "shrinks",
    "long-pause": "pauses",
    "offline-partitions": "partition_seconds",
    "rebalance-storm": "rebalances",
    "stale-metadata": "errors",
}


def signature(finding: Finding) -> str:
    """Say the detector, and which brokers, else which clients, else which topics.

    >>> signature(Finding("F-1", "flapping-broker", "high", "likely", "", 0, 1, (3, 2)))
    'flapping-broker: brokers 2, 3'
    """
    topics = topics_of(finding.partitions)
    if finding.brokers:
        names = [str(one) for one in sorted(finding.brokers)]
        subject = _named("broker", names)
    elif finding.clients:
        subject = _named("client", sorted(finding.clients))
    else:
        subject = _named("topic", topics) if topics else WHOLE
    return f"{finding.detector}: {subject}"


def topics_of(partitions: Sequence[str]) -> list[str]:
    """Give the topics of some partitions.

    >>> topics_of(["orders-v2-1", "orders-v2-0"])
    ['orders-v2']
    """
    return sorted({name.rpartition("-")[0] for name in partitions})


def size(finding: Finding) -> float:
    """Give how large a finding is, in the measure of its detector."""
    return _number(finding.measures, SIZES.get(finding.detector, ""))


def _number(measures: Mapping[str, Any], name: str) -> float:
    value = measures.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and value is not None else 1.0


def _named(noun: str, names: Sequence[str]) -> str:
    word = pluralize(noun, len(names))
    text = ", ".join(names[:NAMES])
    if len(names) <= NAMES and len(text) <= LETTERS:
        return f"{word} {text}"
    # Which ones they all are matters, and not only how many.
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:6]
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{word} {text[:LETTERS]}{more} #{digest}"


WeekSummary = Mapping[str, Any]

SCHEMA = 1
HOUR = 3_600_000
DAY = 24 * HOUR
# Of so much repeated trouble nobody reads more; what is left out is counted.
GROUPS, EACH, NODES = 1000, 50, 2000


def summarise_week(week_dir: Path, week: str, older: Sequence[str] = ()) -> WeekSummary:
    """Sum one week up, from its findings.json and tables.

    `older` names the files of it that were read by other rules than the rest.
    """
    named_week = Week.parse(week)
    span = named_week.begin // 1000, named_week.end // 1000
    return summarise_window(load_run(week_dir), span, week) | {"older_rules": sorted(older)}


def summarise_window(run: RunOutput, window: Span, name: str) -> dict[str, Any]:
    """Sum a window up; what began before it is told of the window before."""
    findings = [one for one in run.findings if _begins(one, window)]
    seen = measure_coverage(run, window)
    counted = count_signals(run, window, findings)
    groups = _groups(findings)
    return {
        "schema": SCHEMA,
        "week": name,
        "window": list(window),
        "verdict": _verdict(run, findings, seen, window),
        "summary": findings[0].title if findings else "",
        "levels": dict(sorted(Counter(one.severity for one in findings).items())),
        "rules": _rules(run),
        "nodes": {one.node: _covered(one, window) for one in seen[:NODES]},
        "brokers": _brokers(seen, counted),
        "signals": {
            "brokers": {str(number): dict(one) for number, one in counted.brokers.items()},
            "cluster": dict(counted.cluster),
        },
        "away": {str(number): dict(one) for number, one in sorted(counted.away.items())},
        "findings": groups[:GROUPS],
        "findings_left_out": max(0, len(groups) - GROUPS),
        "detectors": _detectors(run),
        "hours": _hours(counted, seen, window),
        "nights": _nights(run, window),
        "versions": _versions(run, window),
        "topics": count_topics(run, window),
        "topic_turns": created_and_deleted_topics(run, window),
        "files": _files(run, window),
    }


def _begins(finding: Finding, window: Span) -> bool:
    return finding.start_ms is not None and window[0] <= finding.start_ms < window[1]


def _verdict(
    run: RunOutput, findings: Iterable[Finding], seen: Sequence[NodeCoverage], window: Span
) -> str:
    logged = any(one.is_server and one.spans for one in seen)
    return decide_verdict(
        (one.severity for one in findings),
        [row for row in run.files if _touches(row["first_ts"], row["last_ts"], window)],
        knows_leaders=logged and run.count_rows("leadership", ds.field("how") == "observed") > 0,
        lacks_logs=any(
            row["state"] in LACKING_STATES and _touches(row["started_at"], row["ended_at"], window)
            for row in run.rows("coverage", ["state", "started_at", "ended_at"])
        ),
    )


def _touches(start: int | None, end: int | None, window: Span) -> bool:
    return (start is None or start < window[1]) and (end is None or end >= window[0])


def _rules(run: RunOutput) -> list[list[str]]:
    packs = run.document.get("packs") or ()
    return sorted([str(pack.get("name")), str(pack.get("sha256"))] for pack in packs)


def _covered(one: NodeCoverage, window: Span) -> dict[str, Any]:
    days = range(window[0], window[1], DAY)
    return {
        "role": one.role,
        "broker": one.broker,
        "covered_ms": length(one.spans),
        "days": [length(clipped(one.spans, (at, min(at + DAY, window[1])))) for at in days],
    }


def _brokers(seen: Iterable[NodeCoverage], counted: Counts) -> list[int]:
    named_ones = {one.broker for one in seen if one.broker is not None}
    return sorted(named_ones | set(counted.brokers) | set(counted.away))


def _groups(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Put findings together that are about the same; the worst first, as they come.

    What is an incident stands alone: a restart that was asked for is not the crash of last week.
    """
    found: dict[tuple[str, bool], list[Finding]] = {}
    for one in findings:
        found.setdefault((signature(one), one.is_incident), []).append(one)
    return [_group(name, mine) for (name, _), mine in found.items()]


def _group(name: str, mine: Sequence[Finding]) -> dict[str, Any]:
    worst = mine[0]
    return {
        "signature": name,
        "detector": worst.detector,
        "severity": worst.severity,
        "incident": worst.is_incident,
        "confidence": worst.confidence,
        "title": worst.title,
        "brokers": sorted(worst.brokers),
        "clients": sorted(worst.clients)[:EACH],
        "topics": topics_of(worst.partitions)[:EACH],
        "count": len(mine),
        "levels": dict(sorted(Counter(one.severity for one in mine).items())),
        "size": round(sum(map(size, mine)), 3),
        "findings": [[one.id, one.severity, one.start_ms] for one in mine[:EACH]],
    }


def _detectors(run: RunOutput) -> dict[str, Any]:
    """Keep of each detector's answer whether it could have seen anything, and why not."""
    return {
        str(one.get("detector")): {
            "status": str(one.get("status")),
            "why": [str(reason) for reason in (one.get("reasons") or ())[:2]],
        }
        for one in run.document.get("detectors") or ()
    }


def _hours(counted: Counts, seen: Iterable[NodeCoverage], window: Span) -> list[int | None]:
    """Count the leaderships lost in each hour; None where no log of a server tells of it."""
    hours = -(-(window[1] - window[0]) // HOUR)
    found = np.bincount((counted.moves - window[0]) // HOUR, minlength=hours).tolist()
    spans = [span for one in seen if one.is_server for span in one.spans]
    places = (((start - window[0]) // HOUR, -(-(end - window[0]) // HOUR)) for start, end in spans)
    told = {at for first, last in places for at in range(first, last)}
    return [many if many or at in told else None for at, many in enumerate(found)]


def _nights(run: RunOutput, window: Span) -> dict[str, Any]:
    found = find_low_isr_nights(run, window)
    return {
        "nights": len(nights_in(window)),
        "partitions": [[one.partition, one.nights, one.minutes] for one in found[:KEPT_PARTITIONS]],
        "left_out": max(0, len(found) - KEPT_PARTITIONS),
        # how many are thin in more nights than anybody should bear
        "often": sum(one.nights > MAX_LOW_ISR_NIGHTS for one in found),
    }


def _versions(run: RunOutput, window: Span) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for row in run.files:
        told = row["kafka_version"] and row["node"] and row["role"] in ("broker", "controller")
        if told and _touches(row["first_ts"], row["last_ts"], window):
            found.setdefault(row["node"], set()).add(row["kafka_version"])
    return {node: sorted(told) for node, told in sorted(found.items())[:NODES]}


def _files(run: RunOutput, window: Span) -> dict[str, int]:
    rows = [row for row in run.files if _touches(row["first_ts"], row["last_ts"], window)]
    told = {name: sum(row[name] for row in rows) for name in ("lines", "unparsed_lines")}
    return {"files": len(rows), "damaged": sum(bool(row["damaged"]) for row in rows)} | told
