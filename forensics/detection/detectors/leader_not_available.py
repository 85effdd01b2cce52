"""Topics for which clients were told that there is no leader, and for how long.

A topic that is made as a client first asks for it has none for a moment: nothing to see there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "leader-not-available"
NEEDS = CLIENTS
_ERROR, _EXISTS = "LEADER_NOT_AVAILABLE", "TOPIC_ALREADY_EXISTS"
_KINDS = ("client_error", "metadata_failed", "metadata_leaderless", "admin_metadata_failed")
_PLACE = ("ts", "node", "file", "line", "text", "rule", "topic", "error", "detail")
_REFUSALS = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each topic and time; a client that names none is a subject too."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(_KINDS)) & (pc.field("error") == _ERROR)
    found = find_sessions(context, where, ["topic"], limits["gap"], ["client", "node", "partition"])
    long = [one for one in found if one.seconds > limits["made"]]
    reigns = _reigns(context, {one.subject[0] for one in long if one.subject[0]})
    refused = _refused(context) if long else []
    for one in long:
        topic = one.subject[0]
        near = limits["gap"] * SECOND
        told = [
            row
            for row in refused
            if row["topic"] == topic and one.begin - near <= row["at"] <= one.end + near
        ]
        yield _finding(context, one, _cause(one, reigns.get(topic, ()), told), told)


def _reigns(context: DetectionContext, topics: Collection[str]) -> Mapping[str, Sequence[Row]]:
    """Read who led the partitions of these topics; of each only what is needed."""
    if not topics:
        return {}
    where = in_topics(topics)
    found: dict[str, list[Row]] = {}
    for row in context.each("leadership", where, ["topic", "leader", "started_at", "ended_at"]):
        found.setdefault(row["topic"], []).append(row)
    return found


def _refused(context: DetectionContext) -> list[Row]:
    """Read which topics could not be made."""
    where = (pc.field("kind") == "topic_refused") & pc.field("ts").is_valid()
    rows = context.each("events", where & pc.field("topic").is_valid(), _PLACE)
    return sorted((row for row in rows if row["error"] != _EXISTS), key=by_time)


def _cause(one: EventSession, reigns: Sequence[Row], refused: Sequence[Row]) -> str:
    """Say what the brokers' logs know of the topic meanwhile."""
    during = [
        row
        for row in reigns
        if (row["started_at"] is None or row["started_at"] <= one.end)
        and (row["ended_at"] is None or row["ended_at"] >= one.begin)
    ]
    if any(row["leader"] == -1 for row in during):
        return "leaderless"
    if refused:
        return "refused"
    return "led" if any((row["leader"] or 0) >= 0 for row in during) else "unknown"


def _finding(
    context: DetectionContext, one: EventSession, cause: str, refused: Sequence[Row]
) -> Finding:
    limits = context.limits[NAME]
    topic = one.subject[0]
    evidence = [*one.first, *refused[:_REFUSALS]]
    confidence, reason = context.confidence(one.begin, one.end, evidence, stated=True)
    clients = [*one.values("client")] or [*one.values("node")]
    what = f"topic {topic}" if topic else "some partitions"
    return Finding(
        detector=NAME,
        severity=_severity(limits, one, cause),
        confidence=confidence,
        title=f"Clients were told for {one.seconds:.0f} s that {what} has no leader"
        f" ({_WORDS[cause]})",
        begin=one.begin,
        end=one.end,
        evidence=evidence,
        partitions=[f"{topic}-{number}" for number in one.values("partition") if topic],
        clients=sorted(clients),
        measures={
            "topic": topic,
            "errors": one.count,
            "duration_s": one.seconds,
            "cause": cause,
            "clients": len(clients),
        },
        explanation=_EXPLANATIONS[cause],
        actions=_actions(context, topic, cause),
        why=f"{one.count} errors over {one.seconds} s; a new topic has its leaders within"
        f" {limits['made']} s, and more than {limits['escalates']} s are no change of leader",
        reason=reason,
        doubts=_DOUBTS,
    )


def _severity(limits: Mapping[str, Any], one: EventSession, cause: str) -> str:
    if one.seconds <= limits["escalates"]:
        return str(limits["short"])
    return str(limits["leaderless" if cause == "leaderless" else "long"])


def _actions(context: DetectionContext, topic: str | None, cause: str) -> list[str]:
    if topic is None:
        return [f"{context.commands.unavailable()}   # which partitions have no leader now?"]
    look = f"{context.commands.topic(topic)}   # does it exist, and has each partition a leader?"
    return [look, _ADVICE[cause]]


_WORDS = {
    "leaderless": "and it had none",
    "refused": "it could not be made",
    "led": "though it had one",
    "unknown": "no broker's log tells of it",
}
_EXPLANATIONS = {
    "leaderless": "The clients were right: the brokers' logs tell of partitions without a leader "
    "meanwhile. What took the leaders away is a finding of its own.",
    "refused": "The topic does not exist and could not be made; clients that ask for it are told "
    "that it has no leader, and ask again.",
    "led": "In the brokers' logs the partitions had leaders all the time. Either the leader has no "
    "listener of the name that these clients use, or the brokers they ask have old metadata.",
    "unknown": "No broker's log here tells of this topic: whether it was ever made, and who led it,"
    " is not known.",
}
_ADVICE = {
    "leaderless": "Bring back a broker that is in sync; the clients then go on by themselves.",
    "refused": "Make the topic by hand, with no more replicas than there are brokers.",
    "led": "Compare advertised.listeners of all brokers with the bootstrap servers of the clients.",
    "unknown": "If it is to be made by clients, look at auto.create.topics.enable and at the number"
    " of brokers against default.replication.factor.",
}
_DOUBTS = (
    "An error of one topic may hide those of others: a client names only the first.",
    "Clients that ask seldom make a short time look long, or two times like one.",
)
