"""Topics for which clients were told that there is no leader, and for how long.

A topic that is created as a client first asks for it has none for a moment: that is not reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time, in_topics
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.leader_handovers import (
    EpochKey,
    Handover,
    measure_propagation,
    read_handovers,
)
from forensics.detection.shared.process_stalls import find_stalls
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "leader-not-available"
NEEDS = CLIENTS
_ERROR, _EXISTS = "LEADER_NOT_AVAILABLE", "TOPIC_ALREADY_EXISTS"
_KINDS = ("client_error", "metadata_failed", "metadata_leaderless", "admin_metadata_failed")
_COLUMNS = (*EVIDENCE_COLUMNS, "topic", "error")
_MAX_REFUSALS = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each topic and time; a client that names none is a subject too."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(_KINDS)) & (pc.field("error") == _ERROR)
    columns = ["client", "node", "partition"]
    found = find_sessions(context, where, ["topic"], limits["gap"], columns)
    long = [session for session in found if session.seconds > limits["made"]]
    epochs = _read_leader_epochs(context, {topic for one in long if (topic := one.subject[0])})
    refusals = _read_refusals(context) if long else []
    handovers = _read_first_handovers(context, epochs)
    near = limits["gap"] * SECOND
    for session in long:
        topic, begin, end = session.subject[0], session.begin - near, session.end + near
        refused = [row for row in refusals if row["topic"] == topic and begin <= row["at"] <= end]
        slow = _find_slow(context, session, handovers.get(topic))
        cause = _cause(session, epochs.get(topic, ()), refused, slow)
        lines = {"refused": refused, "slow": slow}.get(cause, ())
        yield _finding(context, session, cause, lines)


def _read_leader_epochs(
    context: DetectionContext, topics: Collection[str]
) -> Mapping[str, Sequence[Row]]:
    """Read who led the partitions of these topics; of each only what is needed."""
    if not topics:
        return {}
    where = in_topics(topics)
    epochs: dict[str, list[Row]] = defaultdict(list)
    columns = ["topic", "leader", "started_at", "ended_at", "leader_epoch", "election"]
    for row in context.each("leadership", where, columns):
        epochs[row["topic"]].append(row)
    return epochs


def _read_first_handovers(
    context: DetectionContext, epochs: Mapping[str, Sequence[Row]]
) -> Mapping[str, Handover]:
    """Read how the first leaders of each topic became known."""
    wanted: dict[EpochKey, int] = {
        (topic, None, row["leader_epoch"]): row["started_at"] - SECOND
        for topic, rows in epochs.items()
        for row in rows
        if row["election"] == "initial" and None not in (row["started_at"], row["leader_epoch"])
    }
    return {key[0]: one for key, one in read_handovers(context, wanted).items()}


def _find_slow(
    context: DetectionContext, session: EventSession, handover: Handover | None
) -> list[Row]:
    """Find lines that show a cluster under load: leaders taken up late, processes that hung."""
    most = context.limits[NAME]["made"]
    rows: list[Row] = []
    propagation = None if handover is None else measure_propagation(context, handover)
    if propagation is not None and propagation.is_surely_over(most):
        first, late = propagation.lines
        rows += [first, late] if first["at"] <= session.end and late["at"] >= session.begin else []
    servers = {one["node"] for one in context.visibility.files
               if one["role"] in ("broker", "controller")}  # fmt: skip
    for stall in find_stalls(context, most):
        if stall.node in servers and stall.begin <= session.end and stall.end >= session.begin:
            rows += [dict(line) for line in stall.evidence[:1]]
    where = (pc.field("kind") == "quorum_event_slow") & pc.field("ts").is_valid()
    where &= pc.field("duration_ms") > most * 1000
    for row in context.each("events", where, EVIDENCE_COLUMNS):
        if session.begin <= row["at"] <= session.end + most * SECOND:
            rows.append(row)
    return sorted(rows, key=lambda row: row["at"])[:_MAX_REFUSALS]


def _read_refusals(context: DetectionContext) -> list[Row]:
    """Read which topics could not be created."""
    where = (pc.field("kind") == "topic_refused") & pc.field("ts").is_valid()
    rows = context.each("events", where & pc.field("topic").is_valid(), _COLUMNS)
    return sorted((row for row in rows if row["error"] != _EXISTS), key=by_time)


def _cause(
    session: EventSession, epochs: Sequence[Row], refused: Sequence[Row], slow: Sequence[Row]
) -> str:
    """Return what the brokers' logs say about the topic meanwhile."""
    leaders = [
        row["leader"]
        for row in epochs
        if (row["started_at"] is None or row["started_at"] <= session.end)
        and (row["ended_at"] is None or row["ended_at"] >= session.begin)
    ]
    if -1 in leaders:
        return "leaderless"
    if refused or slow:
        return "refused" if refused else "slow"
    return "led" if any((leader or 0) >= 0 for leader in leaders) else "unknown"


def _finding(
    context: DetectionContext, session: EventSession, cause: str, lines: Sequence[Row]
) -> Finding:
    limits = context.limits[NAME]
    topic = session.subject[0]
    evidence = [*session.first, *lines[:_MAX_REFUSALS]]
    clients = [*session.values("client")] or [*session.values("node")]
    subject = f"topic {topic}" if topic else "some partitions"
    level = "leaderless" if cause == "leaderless" else "long"
    return context.finding(
        NAME,
        limits[level if session.seconds > limits["escalates"] else "short"],
        f"Clients were told for {session.seconds:.0f} s that {subject} has no leader"
        f" ({_WORDS[cause]})",
        session.begin,
        session.end,
        evidence,
        partitions=[f"{topic}-{number}" for number in session.values("partition") if topic],
        clients=sorted(clients),
        measures={
            "topic": topic,
            "errors": session.count,
            "duration_s": session.seconds,
            "cause": cause,
            "clients": len(clients),
        },
        explanation=_EXPLANATIONS[cause],
        actions=_actions(context, topic, cause),
        why=f"{session.count} errors over {session.seconds} s; a new topic has its leaders within"
        f" {limits['made']} s, and more than {limits['escalates']} s are no change of leader",
        doubts=_DOUBTS,
    )


def _actions(context: DetectionContext, topic: str | None, cause: str) -> list[str]:
    if topic is None:
        return [f"{context.commands.unavailable()}   # which partitions have no leader now?"]
    look = f"{context.commands.topic(topic)}   # does it exist, and has each partition a leader?"
    controller = f"{context.commands.controller()}   # is there an active controller?"
    return [look, controller, _ADVICE[cause]]


_WORDS = {
    "leaderless": "and it had none",
    "refused": "it could not be created",
    "slow": "the cluster was slow, as under load",
    "led": "though it had one",
    "unknown": "no broker's log shows it",
}
_EXPLANATIONS = {
    "leaderless": "The clients were right: the brokers' logs show partitions without a leader "
    "at that time. What took the leaders away is a finding of its own.",
    "refused": "The topic does not exist and could not be created; clients that ask for it are "
    "told that it has no leader, and ask again.",
    "slow": "The cluster was slow: a broker took up leadership late, a server froze, or the "
    "controller took long for an event. Under load new topics and elections take longer, and "
    "clients ask again until they are over.",
    "led": "In the brokers' logs the partitions had leaders all the time. Either the leader has no "
    "listener of the name that these clients use, or the brokers they ask have old metadata.",
    "unknown": "No broker's log here names this topic: whether it was ever created, and who led it,"
    " is not known.",
}
_ADVICE = {
    "leaderless": "Bring back a broker that is in sync; the clients then go on by themselves.",
    "refused": "Create the topic by hand, with no more replicas than there are brokers.",
    "slow": "Look at load, disks and pauses of the servers in the evidence; clients go on by "
    "themselves, if they may wait that long (delivery.timeout.ms, max.block.ms).",
    "led": "Compare advertised.listeners of all brokers with the bootstrap servers of the clients.",
    "unknown": "If it is to be made by clients, look at auto.create.topics.enable and at the number"
    " of brokers against default.replication.factor.",
}
_DOUBTS = (
    "An error of one topic may hide those of others: a client names only the first.",
    "Clients that ask seldom make a short time look long, or two times like one.",
)
