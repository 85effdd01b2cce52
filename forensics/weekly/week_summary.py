"""The content of week.json: what later weeks are compared with, out of one week's folder alone."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict

import numpy as np
import pyarrow.dataset as ds

from forensics.detection.verdict import decide_verdict
from forensics.errors import ForensicsError
from forensics.history.log_coverage import LACKING_STATES
from forensics.lib import intervals
from forensics.lib.intervals import Interval
from forensics.lib.node_ids import broker_node
from forensics.lib.text_format import HOUR, pluralize
from forensics.report.cluster_facts import read_cluster_facts
from forensics.report.summary_actions import first_action
from forensics.run_output.reader import Row, RunOutput, SavedFinding, load_run
from forensics.weekly import week_metrics
from forensics.weekly.coverage_normalisation import (
    SERVER_ROLES,
    NodeCoverage,
    WindowCoverage,
    measure_window_coverage,
)
from forensics.weekly.iso_week import Week
from forensics.weekly.week_metrics import DAY, SignalCounts

SUMMARY_FILE = "week.json"
SCHEMA = 1
# A signature of more names than this has the first ones, and a digest of all of them.
_MAX_SIGNATURE_NAMES, _MAX_SIGNATURE_CHARS = 4, 120
# Nobody reads more; what is left out is counted.
_MAX_GROUPS, _MAX_PER_GROUP, _MAX_NODES = 1000, 50, 2000
# The measure by which findings of a detector are compared; of other detectors each counts one.
_SIZE_MEASURES = {
    "broker-restart": "away_s",
    "controller-churn": "changes",
    "controller-lost": "losses",
    "flapping-broker": "cycles",
    "isr-storm": "shrinks",
    "long-pause": "pauses",
    "offline-partitions": "partition_seconds",
    "rebalance-storm": "rebalances",
    "stale-metadata": "errors",
}


_SIZE_UNITS = {"broker-restart": "seconds away", "flapping-broker": "times away"}


class NodeSummary(TypedDict):
    """One node, and how much of the window its logs cover: in all, and day by day."""

    role: str
    broker: int | None
    covered_ms: int
    days: list[int]


class FindingGroup(TypedDict):
    """The findings of one detector about the same thing; level and title are the worst one's."""

    signature: str
    detector: str
    severity: str
    incident: bool
    confidence: str
    title: str
    brokers: list[int]
    clients: list[str]
    topics: list[str]
    count: int
    levels: dict[str, int]
    size: float
    # id, severity and start of each, in milliseconds
    findings: list[list[Any]]
    # the first thing to do about the worst one; older summaries do not say
    action: NotRequired[str]


class SignalsSummary(TypedDict):
    """Each signal, by broker (as JSON writes its number) and for the cluster."""

    brokers: dict[str, dict[str, float]]
    cluster: dict[str, float | None]


@dataclass
class WeekSummary:
    """One week, or any other window that is compared; fields are named as in week.json."""

    week: str
    window: list[int]
    verdict: str
    summary: str
    levels: dict[str, int]
    # name and digest of each pack of rules
    rules: list[Any]
    nodes: dict[str, NodeSummary]
    brokers: list[int]
    signals: SignalsSummary
    away: dict[str, week_metrics.AbsenceCounts]
    findings: list[FindingGroup]
    findings_left_out: int
    # whether each detector could have seen anything, and why not
    detectors: dict[str, dict[str, Any]]
    # leaderships lost by hour; None where no log covers it
    hours: list[int | None]
    nights: week_metrics.LowIsrNights
    versions: dict[str, list[str]]
    topics: week_metrics.TopicCounts
    topic_turns: dict[str, list[str]]
    files: dict[str, int]
    # files that were read by other rules than the rest
    older_rules: list[str] = field(default_factory=list)
    # id, versions and kind of the cluster, as far as the lines tell
    cluster: str = ""
    schema: int = SCHEMA

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of a week.json."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            says = f"a {SUMMARY_FILE} is damaged: {error}; kafka-forensics rebuild STORE mends it"
            raise ForensicsError(says) from error

    def to_json(self) -> str:
        """Return the text of a week.json."""
        return json.dumps(vars(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def window_ms(self) -> int:
        """The length of the window."""
        return self.window[1] - self.window[0]

    @property
    def last_day(self) -> date:
        """The last day of the window: what is accepted until then is accepted in it."""
        return date(1970, 1, 1) + timedelta(milliseconds=self.window[1] - 1)

    @property
    def servers(self) -> dict[str, int]:
        """The brokers and controllers, and how long the logs of each cover the window."""
        return {name: node["covered_ms"] for name, node in self.nodes.items()
                if node["role"] in SERVER_ROLES}  # fmt: skip

    def coverage(self, nodes: Collection[str] | None = None) -> WindowCoverage:
        """Return how much the logs of some nodes cover, or those of all servers."""
        servers = self.servers
        names = servers if nodes is None else nodes
        covered = sum(servers.get(name, 0) for name in names)
        return WindowCoverage(covered, self.window_ms * len(names), self.window_ms)

    def broker_coverage(self, broker: int) -> WindowCoverage:
        """Return how much the logs of one broker cover."""
        return self.coverage([self.node_of(broker)])

    def node_of(self, broker: int) -> str:
        """Return the name of the node that is a broker."""
        names = (name for name, node in self.nodes.items() if node["broker"] == broker)
        return next(names, broker_node(broker))

    def count(self, signal: str, broker: int | None = None) -> float | None:
        """Return a signal of one broker, or of the whole cluster; None if it is not known."""
        if broker is not None:
            return float(self.signals["brokers"].get(str(broker), {}).get(signal, 0))
        if signal in self.signals["cluster"]:
            value = self.signals["cluster"][signal]
            return None if value is None else float(value)
        return float(sum(each.get(signal, 0) for each in self.signals["brokers"].values()))


def signature_of(finding: SavedFinding) -> str:
    """Name what a finding is about, without its time: the same trouble has one name in every week.

    >>> signature_of(SavedFinding("F-1", "flapping-broker", "high", "likely", "", 0, 1, (3, 2)))
    'flapping-broker: brokers 2, 3'
    """
    if finding.brokers:
        subject = _subject("broker", [str(broker) for broker in sorted(finding.brokers)])
    elif finding.clients:
        subject = _subject("client", sorted(finding.clients))
    else:
        topics = topics_of(finding.partitions)
        subject = _subject("topic", topics) if topics else "cluster"
    return f"{finding.detector}: {subject}"


def _subject(noun: str, names: Sequence[str]) -> str:
    word = pluralize(noun, len(names))
    text = ", ".join(names[:_MAX_SIGNATURE_NAMES])
    if len(names) <= _MAX_SIGNATURE_NAMES and len(text) <= _MAX_SIGNATURE_CHARS:
        return f"{word} {text}"
    # It matters which names these all are, and not only how many.
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:6]
    left = len(names) - _MAX_SIGNATURE_NAMES
    more = f" and {left} more" if left > 0 else ""
    return f"{word} {text[:_MAX_SIGNATURE_CHARS]}{more} #{digest}"


def topics_of(partitions: Sequence[str]) -> list[str]:
    """Return the topics of some partitions.

    >>> topics_of(["orders-v2-1", "orders-v2-0"])
    ['orders-v2']
    """
    return sorted({name.rpartition("-")[0] for name in partitions})


def summarise_week(week_dir: Path, name: str, older_rules: Sequence[str] = ()) -> WeekSummary:
    """Sum one week up, from its findings.json and tables."""
    summary = summarise_window(load_run(week_dir), Week.parse(name).window_ms, name)
    summary.older_rules = sorted(older_rules)
    return summary


def summarise_window(run: RunOutput, window: Interval, name: str) -> WeekSummary:
    """Sum a window up; a finding that began before it belongs to the window before."""
    findings = [
        finding
        for finding in run.findings
        if finding.start_ms is not None and window[0] <= finding.start_ms < window[1]
    ]
    files = [row for row in run.files if _touches(row["first_ts"], row["last_ts"], window)]
    nodes = measure_window_coverage(run, window)
    counts = week_metrics.count_signals(run, window, findings)
    groups = _group_findings(findings)
    packs = run.document.get("packs") or ()
    named_brokers = {node.broker for node in nodes if node.broker is not None}
    return WeekSummary(
        week=name,
        window=list(window),
        verdict=decide_verdict(
            findings,
            files,
            knows_leaders=any(node.is_server and node.intervals for node in nodes)
            and run.count_rows("leadership", ds.field("how") == "observed") > 0,
            lacks_logs=any(
                row["state"] in LACKING_STATES
                and _touches(row["started_at"], row["ended_at"], window)
                for row in run.rows("coverage", ["state", "started_at", "ended_at"])
            ),
        ),
        summary=findings[0].title if findings else "",
        levels=_count_levels(findings),
        rules=sorted([str(pack.get("name")), str(pack.get("sha256"))] for pack in packs),
        nodes={node.node: _summarise_node(node, window) for node in nodes[:_MAX_NODES]},
        brokers=sorted({*named_brokers, *counts.brokers, *counts.away}),
        signals={
            "brokers": {str(broker): each for broker, each in counts.brokers.items()},
            "cluster": counts.cluster,
        },
        away={str(broker): each for broker, each in sorted(counts.away.items())},
        findings=groups[:_MAX_GROUPS],
        findings_left_out=max(0, len(groups) - _MAX_GROUPS),
        detectors={
            str(outcome.get("detector")): {
                "status": str(outcome.get("status")),
                "why": [str(reason) for reason in (outcome.get("reasons") or ())[:2]],
            }
            for outcome in run.document.get("detectors") or ()
        },
        hours=_count_by_hour(counts, nodes, window),
        nights=week_metrics.count_low_isr_nights(run, window),
        versions=_versions(files),
        topics=week_metrics.count_topics(run, window),
        topic_turns=week_metrics.created_and_deleted_topics(run, window),
        files={
            "files": len(files),
            "damaged": sum(bool(row["damaged"]) for row in files),
            "lines": sum(row["lines"] for row in files),
            "unparsed_lines": sum(row["unparsed_lines"] for row in files),
        },
        cluster=str(read_cluster_facts(run)),
    )


def _touches(start: int | None, end: int | None, window: Interval) -> bool:
    return (start is None or start < window[1]) and (end is None or end >= window[0])


def _summarise_node(node: NodeCoverage, window: Interval) -> NodeSummary:
    days = ((start, min(start + DAY, window[1])) for start in range(window[0], window[1], DAY))
    return {
        "role": node.role,
        "broker": node.broker,
        "covered_ms": intervals.total_length(node.intervals),
        "days": [intervals.total_length(intervals.clip(node.intervals, day)) for day in days],
    }


def _group_findings(findings: Sequence[SavedFinding]) -> list[FindingGroup]:
    """Group findings about the same thing, in their order: the worst first.

    Incidents are apart from the others: a planned restart is not the crash of last week.
    """
    groups: dict[tuple[str, bool], list[SavedFinding]] = {}
    for finding in findings:
        groups.setdefault((signature_of(finding), finding.is_incident), []).append(finding)
    return [_group(signature, group) for (signature, _), group in groups.items()]


def _group(signature: str, findings: Sequence[SavedFinding]) -> FindingGroup:
    worst = findings[0]
    return {
        "signature": signature,
        "detector": worst.detector,
        "severity": worst.severity,
        "incident": worst.is_incident,
        "confidence": worst.confidence,
        "title": worst.title,
        "brokers": sorted(worst.brokers),
        "clients": sorted(worst.clients)[:_MAX_PER_GROUP],
        "topics": topics_of(worst.partitions)[:_MAX_PER_GROUP],
        "count": len(findings),
        "levels": _count_levels(findings),
        "size": round(sum(map(_size, findings)), 3),
        "findings": [[finding.id, finding.severity, finding.start_ms]
                     for finding in findings[:_MAX_PER_GROUP]],
        "action": first_action(worst),
    }  # fmt: skip


def _count_levels(findings: Iterable[SavedFinding]) -> dict[str, int]:
    return dict(sorted(Counter(finding.severity for finding in findings).items()))


def size_unit(detector: str) -> str:
    """Say what the size of such a finding counts.

    >>> size_unit("broker-restart"), size_unit("offline-partitions"), size_unit("config-risk")
    ('seconds away', 'partition seconds', 'findings')
    """
    return _SIZE_UNITS.get(detector) or _SIZE_MEASURES.get(detector, "findings").replace("_", " ")


def _size(finding: SavedFinding) -> float:
    """Return how large a finding is, in the measure of its detector."""
    value = finding.measures.get(_SIZE_MEASURES.get(finding.detector, ""))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value is not None else 1.0


def _count_by_hour(
    counts: SignalCounts, nodes: Iterable[NodeCoverage], window: Interval
) -> list[int | None]:
    """Count the leaderships lost in each hour; None where no log of a server covers it."""
    hours = -(-(window[1] - window[0]) // HOUR)
    lost = np.bincount((counts.lost_at - window[0]) // HOUR, minlength=hours).tolist()
    covered = {
        hour
        for node in nodes if node.is_server
        for start, end in node.intervals
        for hour in range((start - window[0]) // HOUR, -(-(end - window[0]) // HOUR))
    }  # fmt: skip
    return [count if count or hour in covered else None for hour, count in enumerate(lost)]


def _versions(files: Iterable[Row]) -> dict[str, list[str]]:
    """Return the Kafka versions of each server."""
    versions: dict[str, set[str]] = {}
    for row in files:
        if row["kafka_version"] and row["node"] and row["role"] in SERVER_ROLES:
            versions.setdefault(row["node"], set()).add(row["kafka_version"])
    return {node: sorted(each) for node, each in sorted(versions.items())[:_MAX_NODES]}
