"""What an incident took from clients: partitions that were unavailable, clients, records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, once_per_run
from forensics.detection.shared.client_settings import (
    knows_acks,
    read_client_starts,
    topics_of_clients,
    topics_without_acks,
)
from forensics.detection.shared.leader_handovers import find_leader_gaps
from forensics.history.partitions.outages import LeaderGap
from forensics.lib.intervals import IntervalIndex, merge
from forensics.lib.node_ids import whole_client
from forensics.lib.time_units import MILLISECOND, SECOND, to_iso
from forensics.run_output.findings import INCIDENT_SEVERITIES, LOSING, Finding, total_loss

_COLUMNS = (
    "topic", "partition", "started_at", "ended_at", "ended_after", "planned", "previous_leader",
)  # fmt: skip
# So many partitions are named of which nobody knows whether they were unavailable.
_MAX_NAMED = 10
# Clients hear of it so much later: at their next request.
_HEARD = 3 * SECOND
# States of a client by its own log in which it does not get on.
_HIT = ("stale", "disconnected")


def measure_impact(context: DetectionContext, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return `impact` of findings.json; planned outages count on their own only."""
    hit: set[tuple[str, int]] = set()
    seconds = {True: 0, False: 0}
    longest = 0
    waits: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for row in context.each("outages", None, _COLUMNS):
        if row["planned"] and row["ended_at"] is None:
            # Everything was shut down at the end of the logs.
            continue
        end = row["ended_at"] if row["ended_at"] is not None else context.logs_end
        seconds[row["planned"]] += max(0, end - row["started_at"])
        if not row["planned"]:
            hit.add((row["topic"], row["partition"]))
            end = row["ended_after"] or end
            longest = max(longest, end - row["started_at"])
            waits[row["topic"]] = max(waits.get(row["topic"], 0), end - row["started_at"])
            spans.append((row["started_at"], _heard_until(context, row, end)))
            if len(spans) > _MAX_SPANS:
                spans = merge(spans)
    least, most = _records_lost(context, findings)
    return {
        "partitions_unavailable": len(hit),
        "unknown_leaders": describe_gaps(find_leader_gaps(context), hit),
        "partitions": _count_partitions(context),
        "partition_seconds": round(seconds[False] / SECOND, 1),
        "longest_s": round(longest / SECOND, 1),
        "planned_partition_seconds": round(seconds[True] / SECOND, 1),
        "clients_affected": len(
            _clients_hit(context, spans)
            | clients_in_trouble((one.detector, one.severity, one.clients) for one in findings)
            | clients_of_deleted(findings)
        ),
        "gives_up_early": _find_hasty(context, findings, waits),
        "records_lost_min": least,
        "records_lost_max": most,
    }


_MAX_SPANS = 10_000


def describe_gaps(
    gaps: Iterable[LeaderGap], hit: AbstractSet[tuple[str, int]]
) -> dict[str, Any] | None:
    """Say which further partitions may have been unavailable; None if there are none."""
    open_ = {
        (one.topic, one.partition): one for one in gaps if (one.topic, one.partition) not in hit
    }
    if not open_:
        return None
    ends = [one.end for one in open_.values() if one.end is not None]
    return {
        "partitions": len(open_),
        "names": [f"{topic}-{number}" for topic, number in sorted(open_)[:_MAX_NAMED]],
        "leaders": sorted({one.leader for one in open_.values()}),
        "from": to_iso(min(one.begin for one in open_.values())),
        "to": to_iso(max(ends)) if len(ends) == len(open_) else None,
    }


def _find_hasty(
    context: DetectionContext, findings: Sequence[Finding], waits: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return producers that gave up sooner than their topics could be written to again.

    Their own logs need not say that they did: only the application is told.
    """
    waits = dict(waits)
    for one in findings:
        if one.detector == "under-min-isr" and (refused := one.measures.get("longest_s")):
            for topic in {name.rpartition("-")[0] for name in one.partitions}:
                waits[topic] = max(waits.get(topic, 0), round(refused * SECOND))
    told = {
        name for one in findings if one.detector == "undelivered-records" for name in one.clients
    }
    last = {
        (one.node, one.client): limit * MILLISECOND
        for starts in read_client_starts(context).values() if waits
        for one in starts
        if one.is_producer and (limit := one.number("delivery.timeout.ms")) is not None
    }  # fmt: skip
    hasty = {key: limit for key, limit in last.items() if limit < max(waits.values(), default=0)}
    found = []
    for (node, client), topics in sorted(topics_of_clients(context, hasty).items()):
        limit = hasty[node, client]
        wait, topic = max(((waits.get(topic, 0), topic) for topic in topics), default=(0, ""))
        if wait > limit and not told & {node, client}:
            found.append({"client": client, "after_s": limit / SECOND, "topic": topic,
                          "wait_s": round(wait / SECOND, 1)})  # fmt: skip
    return found[:_MAX_NAMED]


def _heard_until(context: DetectionContext, row: Mapping[str, Any], end: int) -> int:
    """Return until when clients may hear of an outage: of a leader that froze, when it wakes."""
    begins, ends = _wakes(context).get(row["previous_leader"], ((), ()))
    # Of those that froze before its end, the last to wake; one that woke before it began has no
    # part in it.
    last = bisect_right(begins, end) - 1
    woke = ends[last] if last >= 0 else end
    return max(end, woke) + _HEARD


@once_per_run
def _wakes(context: DetectionContext) -> dict[int, tuple[list[int], list[int]]]:
    """Return for each broker when it froze, and until when those absences lasted at most."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for one in sorted(context.absences, key=lambda one: one.begin):
        if one.kind != "crash":
            begins, ends = found.setdefault(one.broker, ([], []))
            begins.append(one.begin)
            ends.append(max(one.end or context.logs_end, ends[-1] if ends else 0))
    return found


def _records_lost(context: DetectionContext, findings: Sequence[Finding]) -> tuple[int, int | None]:
    """Count what unclean elections lost; at most also what was cut of topics written with acks=1.

    A producer that was not told in time that such a record is written has sent it again. What else
    was cut after a clean election was acknowledged to nobody that waits for followers.
    """
    weak = set().union(*topics_without_acks(context).values())
    known = knows_acks(context)
    sure, open_ = [], []
    for finding in findings:
        for loss in finding.losses:
            topic = loss.partition.rpartition("-")[0]
            if finding.detector in LOSING or loss.below_high_watermark:
                sure.append(loss)
            elif topic in weak or (not known and not topic.startswith("__")):
                open_.append(loss)
    least, most = total_loss(sure)
    maybe = total_loss(open_)[1]
    return least, None if most is None or maybe is None else most + maybe


def _count_partitions(context: DetectionContext) -> int:
    """Count the partitions in the order of the table, where those of one follow each other."""
    count, last = 0, None
    for batch in context.batches(
        "leadership", pc.field("topic").is_valid(), ("topic", "partition")
    ):
        keys = zip(batch["topic"].to_pylist(), batch["partition"].to_pylist(), strict=True)
        for key in keys:
            count, last = count + (key != last), key
    return count


def clients_in_trouble(findings: Iterable[tuple[object, object, Iterable[str]]]) -> set[str]:
    """Return the clients that incidents are about, given detector, severity, clients of findings.

    One that met the same a few times only was affected, too.
    """
    every = [(detector, severity, list(clients)) for detector, severity, clients in findings]
    incidents = {detector for detector, severity, _ in every if severity in INCIDENT_SEVERITIES}
    return {
        whole_client(name)
        for detector, severity, clients in every
        if severity in INCIDENT_SEVERITIES or (severity == "low" and detector in incidents)
        for name in clients
    }


def clients_of_deleted(findings: Iterable[Finding]) -> set[str]:
    """Return the clients of topics that were deleted and created again: their data is gone."""
    return {
        whole_client(name)
        for one in findings
        if one.measures.get("suspect") == "topic_recreated"
        for name in one.clients
    }


def _clients_hit(context: DetectionContext, spans: Iterable[tuple[int, int]]) -> set[str]:
    """Return the clients that logged errors while partitions were unavailable."""
    outages = IntervalIndex(merge(spans), lambda span: span)
    where = (pc.field("role") == "client") & pc.field("state").isin(list(_HIT))
    columns = ("node", "started_at", "ended_at")
    return {
        row["node"]
        for row in context.each("lanes", where & pc.field("started_at").is_valid(), columns)
        if outages.around(row["started_at"], row["ended_at"] or context.logs_end)
    }
