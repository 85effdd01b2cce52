"""What trends need of one week, read from that week's folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from forensics.report.narrowing import READ_SHARE
from forensics.report.saved import INCIDENT, Finding, Saved, load
from forensics.trends.covering import Cover, Span, clipped, covers, length
from forensics.trends.nights import KEPT_PARTITIONS, NIGHTS, burns, nights_of
from forensics.trends.signals import Counts, counts
from forensics.trends.signatures import signature, size, topics_of
from forensics.trends.topics import named, turns
from forensics.trends.weeks import Week

__all__ = ["Summary", "summary_of", "window_of"]

Summary = Mapping[str, Any]

SCHEMA = 1
HOUR = 3_600_000
DAY = 24 * HOUR
# Of so much repeated trouble nobody reads more; what is left out is counted.
GROUPS, EACH, NODES = 1000, 50, 2000
LACKING = ("missing", "rotated", "hidden")


def summary_of(week_dir: Path, week: str, older: Sequence[str] = ()) -> Summary:
    """Sum one week up, from its findings.json and tables.

    `older` names the files of it that were read by other rules than the rest.
    """
    named_week = Week.named(week)
    span = named_week.begin // 1000, named_week.end // 1000
    return window_of(load(week_dir), span, week) | {"older_rules": sorted(older)}


def window_of(saved: Saved, window: Span, name: str) -> dict[str, Any]:
    """Sum a window up; what began before it is told of the window before."""
    findings = [one for one in saved.findings if _begins(one, window)]
    seen = covers(saved, window)
    counted = counts(saved, window, findings)
    groups = _groups(findings)
    return {
        "schema": SCHEMA,
        "week": name,
        "window": list(window),
        "verdict": _verdict(saved, findings, seen, window),
        "summary": findings[0].title if findings else "",
        "levels": dict(sorted(Counter(one.severity for one in findings).items())),
        "rules": _rules(saved),
        "nodes": {one.node: _covered(one, window) for one in seen[:NODES]},
        "brokers": _brokers(seen, counted),
        "signals": {
            "brokers": {str(number): dict(one) for number, one in counted.brokers.items()},
            "cluster": dict(counted.cluster),
        },
        "away": {str(number): dict(one) for number, one in sorted(counted.away.items())},
        "findings": groups[:GROUPS],
        "findings_left_out": max(0, len(groups) - GROUPS),
        "detectors": _detectors(saved),
        "hours": _hours(counted, seen, window),
        "nights": _nights(saved, window),
        "versions": _versions(saved, window),
        "topics": named(saved, window),
        "topic_turns": turns(saved, window),
        "files": _files(saved, window),
    }


def _begins(finding: Finding, window: Span) -> bool:
    return finding.start is not None and window[0] <= finding.start < window[1]


def _verdict(saved: Saved, findings: Iterable[Finding], seen: Sequence[Cover], window: Span) -> str:
    if any(one.severity in INCIDENT for one in findings):
        return "incident"
    rows = [row for row in saved.files if _touches(row["first_ts"], row["last_ts"], window)]
    lines = sum(row["lines"] for row in rows)
    loose = sum(row["unparsed_lines"] for row in rows)
    broken = any(row["damaged"] for row in rows)
    told = any(one.is_server and one.spans for one in seen)
    known = told and saved.count("leadership", ds.field("how") == "observed")
    blind = not lines or not known or broken or loose > lines * READ_SHARE
    return "cannot_tell" if blind or _lacks(saved, window) else "clear"


def _lacks(saved: Saved, window: Span) -> bool:
    rows = saved.rows("coverage", ["state", "started_at", "ended_at"])
    return any(row["state"] in LACKING and _touches(row["started_at"], row["ended_at"], window)
               for row in rows)  # fmt: skip


def _touches(start: int | None, end: int | None, window: Span) -> bool:
    return (start is None or start < window[1]) and (end is None or end >= window[0])


def _rules(saved: Saved) -> list[list[str]]:
    packs = saved.document.get("packs") or ()
    return sorted([str(pack.get("name")), str(pack.get("sha256"))] for pack in packs)


def _covered(one: Cover, window: Span) -> dict[str, Any]:
    days = range(window[0], window[1], DAY)
    return {
        "role": one.role,
        "broker": one.broker,
        "covered_ms": length(one.spans),
        "days": [length(clipped(one.spans, (at, min(at + DAY, window[1])))) for at in days],
    }


def _brokers(seen: Iterable[Cover], counted: Counts) -> list[int]:
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
        "findings": [[one.id, one.severity, one.start] for one in mine[:EACH]],
    }


def _detectors(saved: Saved) -> dict[str, Any]:
    """Keep of each detector's answer whether it could have seen anything, and why not."""
    return {
        str(one.get("detector")): {
            "status": str(one.get("status")),
            "why": [str(reason) for reason in (one.get("reasons") or ())[:2]],
        }
        for one in saved.document.get("detectors") or ()
    }


def _hours(counted: Counts, seen: Iterable[Cover], window: Span) -> list[int | None]:
    """Count the leaderships lost in each hour; None where no log of a server tells of it."""
    hours = -(-(window[1] - window[0]) // HOUR)
    found = np.bincount((counted.moves - window[0]) // HOUR, minlength=hours).tolist()
    spans = [span for one in seen if one.is_server for span in one.spans]
    places = (((start - window[0]) // HOUR, -(-(end - window[0]) // HOUR)) for start, end in spans)
    told = {at for first, last in places for at in range(first, last)}
    return [many if many or at in told else None for at, many in enumerate(found)]


def _nights(saved: Saved, window: Span) -> dict[str, Any]:
    found = burns(saved, window)
    return {
        "nights": len(nights_of(window)),
        "partitions": [[one.partition, one.nights, one.minutes] for one in found[:KEPT_PARTITIONS]],
        "left_out": max(0, len(found) - KEPT_PARTITIONS),
        # how many are thin in more nights than anybody should bear
        "often": sum(one.nights > NIGHTS for one in found),
    }


def _versions(saved: Saved, window: Span) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for row in saved.files:
        told = row["kafka_version"] and row["node"] and row["role"] in ("broker", "controller")
        if told and _touches(row["first_ts"], row["last_ts"], window):
            found.setdefault(row["node"], set()).add(row["kafka_version"])
    return {node: sorted(told) for node, told in sorted(found.items())[:NODES]}


def _files(saved: Saved, window: Span) -> dict[str, int]:
    rows = [row for row in saved.files if _touches(row["first_ts"], row["last_ts"], window)]
    told = {name: sum(row[name] for row in rows) for name in ("lines", "unparsed_lines")}
    return {"files": len(rows), "damaged": sum(bool(row["damaged"]) for row in rows)} | told
