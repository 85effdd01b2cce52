"""Says what began the incident that the headline is about: who went first, and how.

By mechanism, not by closeness: a partition was lost because its leader went, or because those who
could have taken over had gone before. What has no such part in the headline began nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, in_topics, partition_name
from forensics.detection.shared.absence_causes import (
    absences_by_zookeeper,
    death_reasons,
    failed_starts,
    host_wide_absences,
    no_quorum_absences,
)
from forensics.detection.shared.process_ends import END_WORDS
from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.observations import has_moment_between
from forensics.lib.intervals import IntervalIndex, index_by
from forensics.lib.node_ids import broker_node
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import INCIDENT_SEVERITIES, Finding

_KINDS = {
    "crash": "crash",
    "pause": "pause",
    "isolated": "network",
    "controlled": "controlled",
}
# A partition's leader or replica leaves within that of the broker: a follower is dropped from the
# ISR after replica.lag.time.max.ms.
_DROPPED = 45 * SECOND
_EARLY = SECOND
# What follows within that is the same incident.
_SAME_INCIDENT = 300 * SECOND
# Where sessions of most brokers end with it. How it failed is not in the logs of brokers.
_ZOOKEEPER = "zookeeper"
# Findings about records or partitions: only what took these away began them.
_OF_PARTITIONS = ("unclean-election", "offline-partitions", "truncation", "under-min-isr")
_OF_CONTROLLERS = ("controller-lost", "controller-churn", "quorum-trouble", "slow-controller")
_MAX_LINES = 3
Place = Mapping[str, Any]
_FindingsOfBrokers = Mapping[int, IntervalIndex[Finding]]


@dataclass(frozen=True)
class _Root:
    """One thing that may have begun an incident."""

    kind: str
    node: str
    begin: int
    end: int
    evidence: Sequence[Place]
    finding: str | None = None
    absence: Absence | None = None
    # why its process ended, where those who ran it say so
    reason: str | None = None
    # whether partitions waited for the next controller
    delays: bool = False


def find_trigger(context: DetectionContext, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return `trigger` of findings.json: the first of each kind and node, in the order of time."""
    if not findings or findings[0].severity not in INCIDENT_SEVERITIES:
        return []
    headline = findings[0]
    incidents = [one for one in findings if one.severity in INCIDENT_SEVERITIES]
    links = [
        _Root("network", broker_node(broker), one.begin, one.end, one.evidence, one.id)
        for one in incidents
        if one.detector == "network-partition"
        for broker in one.brokers
    ]
    roots = [*_roots(context, incidents), *_controller_roots(context, findings), *links]
    roots += _zookeeper_roots(context, incidents)
    roots += _living_roots(incidents, roots)
    if headline.detector in _OF_PARTITIONS:
        chosen = _of_partitions(context, headline, roots)
    else:
        reporting = _index_by_broker(incidents)
        chosen = [
            one
            for one in roots
            if one.absence is None
            or one.node == _ZOOKEEPER
            or _findings_about(reporting, one.absence)
        ]
        chosen = _same_incident(headline, chosen)
    first: dict[tuple[str, str], _Root] = {}
    for root in sorted(chosen, key=lambda root: (root.begin, root.node, root.kind)):
        first.setdefault((root.kind, root.node), root)
    return [
        {
            "kind": root.kind,
            "node": root.node,
            "at": to_iso(root.begin),
            "finding": root.finding,
            "evidence": [
                {name: line.get(name) for name in ("file", "line", "text", "rule")}
                for line in root.evidence[:_MAX_LINES]
            ],
        }
        | ({"reason": root.reason} if root.reason else {})
        for root in first.values()
    ]


def _roots(context: DetectionContext, findings: Sequence[Finding]) -> Iterator[_Root]:
    """Yield the absences of brokers that have causes of their own."""
    disks = {
        broker: one for one in findings if one.detector == "disk-failure" for broker in one.brokers
    }
    reasons = death_reasons(context)
    common = host_wide_absences(context) | no_quorum_absences(context)
    common |= absences_by_zookeeper(context)
    reporting = _index_by_broker(findings)
    for absence in context.absences:
        if (absence.broker, absence.begin) in common:
            continue
        end = absence.end if absence.end is not None else context.logs_end
        node = broker_node(absence.broker)
        told = next(iter(_findings_about(reporting, absence)), None)
        kind, begin = _KINDS.get(absence.kind, "unknown"), absence.begin
        evidence: Sequence[Place] = absence.evidence
        why, line = reasons.get((absence.broker, absence.begin), ("", None))
        if why == "disk":
            kind, told = "disk", disks.get(absence.broker, told)
        tried = failed_starts(context, absence)
        if absence.kind == "controlled" and tried.by_settings:
            # It left in order, and did not come back because of what was set meanwhile.
            kind, evidence = "config", [*tried.rows[:2], *evidence]
        if by_others := why in END_WORDS and line is not None:
            kind = kind if absence.kind == "controlled" else "crash"
            evidence = [line, *evidence]
        known = why if by_others else None
        yield _Root(kind, node, begin, end, evidence, told.id if told else None, absence, known)


def _zookeeper_roots(context: DetectionContext, findings: Sequence[Finding]) -> Iterator[_Root]:
    """Yield ZooKeeper for each broker whose session ended with those of most others."""
    silences = [
        one
        for one in findings
        if one.detector == "session-expiry" and one.measures["kind"] in _BY_ZOOKEEPER
    ]
    common = absences_by_zookeeper(context) if silences else frozenset()
    for absence in context.absences:
        end = absence.end if absence.end is not None else context.logs_end
        near = (
            one
            for one in silences
            if one.begin - _SESSION_ENDS <= end and absence.begin <= one.end + _SESSION_ENDS
        )
        told = min(near, key=lambda one: (one.begin, one.id), default=None)
        if told and (absence.broker, absence.begin) in common:
            yield _Root(
                "unknown", _ZOOKEEPER, told.begin, end, told.evidence, told.id, absence=absence
            )


# Ways in which ZooKeeper fails brokers, and how long after it their sessions are seen to be over.
_BY_ZOOKEEPER = ("unreachable", "common")
_SESSION_ENDS = 5 * SECOND


def _living_roots(findings: Iterable[Finding], known: Iterable[_Root]) -> Iterator[_Root]:
    """Yield what went wrong with brokers that went on: a disk, an address, short freezes."""
    brokers = {(root.kind, root.node) for root in known}
    for one in findings:
        kind = _LIVING.get(one.detector, "")
        # Clients alone may have a wrong name service; what nodes cannot use either is the broker's.
        if one.detector == "unreachable-listener" and not one.measures.get("advertised"):
            kind = ""
        for broker in one.brokers if kind else ():
            if (kind, broker_node(broker)) not in brokers:
                yield _Root(kind, broker_node(broker), one.begin, one.end, one.evidence, one.id)


# A freeze that was over before its session is no absence.
_LIVING = {"disk-failure": "disk", "unreachable-listener": "config", "long-pause": "pause"}


def _controller_roots(context: DetectionContext, findings: Sequence[Finding]) -> Iterator[_Root]:
    """Yield controllers that were lost, or hung, but no broker with them."""
    away = {broker_node(absence.broker) for absence in context.absences}
    terms = [one for one in context.history.lanes.terms.terms if one.span.state == "active"]
    for one in findings:
        nodes = list(one.measures.get("lost_by") or ()) if one.detector in _OF_CONTROLLERS else []
        if one.detector == "long-pause" and not one.brokers:
            nodes = str(one.measures["node"]).split(", ")
        for node in nodes:
            if node not in away:
                led = one.detector in _OF_CONTROLLERS or any(
                    term.node == node
                    and term.span.begin < one.end
                    and (term.span.end is None or one.begin <= term.span.end + _EARLY)
                    for term in terms
                )
                kind = "controller" if led else "pause"
                delays = bool(one.measures.get("delayed_partitions"))
                yield _Root(kind, node, one.begin, one.end, one.evidence, one.id, delays=delays)


def _index_by_broker(findings: Iterable[Finding]) -> _FindingsOfBrokers:
    """Let the findings about absences be looked up by broker and time."""
    return index_by(
        (one for one in findings if one.detector in _ABOUT_ABSENCES),
        lambda one: set(one.brokers),
        lambda one: (one.begin - _EARLY, _told_until(one) + _EARLY),
    )


def _told_until(finding: Finding) -> int:
    """Return until when lines tell of it: a directory that failed is offline long after that."""
    if finding.detector != "disk-failure":
        return finding.end
    return max((row["at"] for row in finding.evidence if "at" in row), default=finding.begin)


def _findings_about(index: _FindingsOfBrokers, absence: Absence) -> list[Finding]:
    """Return the findings that tell of an absence, in their order."""
    own = index.get(absence.broker)
    return own.around(absence.begin, absence.noticed) if own else []


_ABOUT_ABSENCES = (
    "flapping-broker", "broker-restart", "isolated-broker", "long-pause", "disk-failure",
    "rolling-restart",
)  # fmt: skip


def _same_incident(headline: Finding, roots: Iterable[_Root]) -> list[_Root]:
    """Keep what follows each other closely, around the headline."""
    ordered = sorted(roots, key=lambda root: root.begin)
    groups = sessions(ordered, lambda root: root.begin, _SAME_INCIDENT, lambda root: root.end)
    return [
        root
        for group in groups
        if group[0].begin - _SAME_INCIDENT <= headline.end
        and headline.begin <= max(one.end for one in group) + _SAME_INCIDENT
        for root in group
    ]


def _of_partitions(
    context: DetectionContext, headline: Finding, roots: Iterable[_Root]
) -> list[_Root]:
    """Keep those whose leaving took a leader or a replica from the partitions of the headline."""
    names = {*headline.partitions, *(loss.partition for loss in headline.losses)}
    lost = {
        *_leaders_lost(context, headline, names),
        *_replicas_lost(context, names, headline),
    }
    taken: dict[int, list[int]] = defaultdict(list)
    for broker, at in sorted(lost):
        taken[broker].append(at)
    near = headline.begin - _EARLY, headline.end + _EARLY
    return [
        root
        for root in roots
        # Without a controller nobody elects the next leader.
        if (root.delays and root.begin <= near[1] and near[0] <= root.end)
        or (
            root.absence is not None
            and has_moment_between(
                taken[root.absence.broker],
                root.absence.begin - _EARLY,
                min(root.end, root.absence.begin + _DROPPED) + _EARLY,
            )
        )
    ]


def _leaders_lost(
    context: DetectionContext, headline: Finding, names: set[str]
) -> Iterator[tuple[int, int]]:
    """Yield who led a partition as it became unavailable, and when."""
    where = in_topics({name.rpartition("-")[0] for name in names}) & ~pc.field("planned")
    columns = ("topic", "partition", "previous_leader", "started_at", "ended_at")
    for row in context.each("outages", where, columns):
        end = row["ended_at"] if row["ended_at"] is not None else context.logs_end
        near = row["started_at"] <= headline.end + _EARLY and end >= headline.begin - _EARLY
        if near and row["previous_leader"] is not None and partition_name(row) in names:
            yield row["previous_leader"], row["started_at"]


def _replicas_lost(
    context: DetectionContext, names: set[str], headline: Finding
) -> Iterator[tuple[int, int]]:
    """Yield who left the ISR of a partition before all of it was gone, and when.

    Only where the last of an ISR was lost: while another one is in sync, a replica that left took
    nothing away.
    """
    where = in_topics({name.rpartition("-")[0] for name in names}) & pc.field("isr").is_valid()
    columns = ("topic", "partition", "leader", "isr", "started_at")
    left: list[tuple[int, int]] = []
    last: tuple[str, Sequence[int]] = ("", ())
    for row in context.each("isr", where, columns):
        name, at = partition_name(row), row["started_at"]
        if name not in names or at is None or at > headline.end + _EARLY:
            continue
        if name != last[0]:
            left, last = [], (name, ())
        left += [(broker, at) for broker in set(last[1]) - set(row["isr"])]
        # Who is back in sync is missed no more.
        left = [one for one in left if one[0] not in row["isr"]]
        gone = row["leader"] == -1 or not row["isr"]
        if gone and at >= headline.begin - _DROPPED:
            yield from left
        last = (name, row["isr"] or last[1])
