"""Batches of idempotent producers that are refused since the one before them is not there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.leader_moves import LeaderMove, LeaderMoveIndex
from forensics.events.error_codes import SEQUENCE_ERRORS
from forensics.lib.arrow_io import is_any_of
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "out-of-order-sequence"
NEEDS = LogRequirements(("broker", "client"))
_FATAL = ("producer_failed", "client_failed", "client_transaction_failed")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each topic and burst."""
    gap = context.limits[NAME]["gap"]
    columns = ["kind", "error", "partition", "client", "broker"]
    where = pc.field("error").isin(list(SEQUENCE_ERRORS))
    found = find_sessions(context, where, ["topic"], gap, columns)
    named = [session for session in found if session.subject[0]]
    nameless = [session for session in found if not session.subject[0]]
    moves, cuts = _find_leader_moves(context, named), _find_truncations(context, named)
    for session in named:
        near = [other for other in nameless if _touches(session, other, gap)]
        yield _finding(context, session, near, moves.get(id(session)), cuts.get(id(session), ()))
    for session in nameless:
        if not any(_touches(other, session, gap) for other in named):
            yield _finding(context, session, [], None, ())


def _touches(one: EventSession, other: EventSession, gap: float) -> bool:
    near = round(gap * SECOND)
    return one.begin - near <= other.end and other.begin <= one.end + near


def _find_leader_moves(
    context: DetectionContext, found: Sequence[EventSession]
) -> Mapping[int, LeaderMove]:
    """Return the last change of a leader before each session, by the session's `id`."""
    if not found:
        return {}
    late, ahead = (round(context.limits[NAME][name] * SECOND) for name in ("late", "ahead"))
    parts = {id(session): session.values("partition") or [None] for session in found}
    keys = {(session.subject[0], part) for session in found for part in (*parts[id(session)], None)}
    begins = [session.begin for session in found]
    index = LeaderMoveIndex(context, keys, (min(begins) - late, max(begins) + ahead), ahead)
    last: dict[int, LeaderMove] = {}
    for session in found:
        topic, begin = session.subject[0], session.begin
        moves = [
            index.last_before((topic, part), begin, late, ahead) for part in parts[id(session)]
        ]
        known = [move for move in moves if move is not None and not move.is_first]
        if known:
            last[id(session)] = max(known, key=lambda move: move.start)
    return last


def _find_truncations(
    context: DetectionContext, found: Sequence[EventSession]
) -> Mapping[int, Sequence[Row]]:
    """Return the logs that were cut back shortly before each session, by the session's `id`."""
    late = round(context.limits[NAME]["late"] * SECOND)
    cuts: dict[int, list[Row]] = defaultdict(list)
    if not found:
        return cuts
    where = is_any_of("topic", {session.subject[0] for session in found})
    where &= pc.field("started_at").is_valid()
    for row in context.each("cuts", where, ["topic", "partition", "started_at", "evidence"]):
        for session in found:
            parts = session.values("partition")
            is_named = row["topic"] == session.subject[0] and (
                not parts or row["partition"] in parts
            )
            if is_named and session.begin - late <= row["started_at"] <= session.end:
                cuts[id(session)].append(row)
    return cuts


def _finding(
    context: DetectionContext,
    session: EventSession,
    nearby: Sequence[EventSession],
    move: LeaderMove | None,
    cuts: Sequence[Row],
) -> Finding:
    limits, topic = context.limits[NAME], session.subject[0]
    nearby_rows = [row for other in nearby for row in other.first[:5]]
    lines = [line for cut in cuts[:3] for line in cut["evidence"][:1]]
    evidence = [*session.first, *nearby_rows, *context.read_lines(lines)]
    sessions = [session, *nearby]
    clients = sorted({client for each in sessions for client in each.values("client")})
    is_fatal = any(each.value_counts["kind"][kind] for each in sessions for kind in _FATAL)
    cause = "truncation" if cuts else "leader_move" if move is not None else "none_seen"
    apart = None if move is None else abs(session.begin - move.start)
    producers = f"producers of {topic}" if topic else ", ".join(clients) or "a producer"
    ending = " and stopped for good" if is_fatal else ""
    return context.finding(
        NAME,
        limits["fatal" if is_fatal else "many" if session.count >= limits["least"] else "few"],
        f"{session.count} batches of {producers} were out of sequence{ending}{_TITLES[cause]}",
        session.begin,
        max(each.end for each in sessions),
        evidence,
        confidence=context.confidence(
            session.begin, session.end, evidence, stated=True, apart=apart
        ),
        brokers=session.values("broker"),
        partitions=[f"{topic}-{part}" for part in session.values("partition")] if topic else [],
        clients=clients,
        measures={
            "errors": session.count,
            "cause": cause,
            "election": None if move is None else move.election,
            "fatal": is_fatal,
        },
        explanation=f"{_MEANINGS[cause]} {_FATALITY if is_fatal else _RETRIED}",
        actions=_actions(context, topic, clients),
        why=f"{session.count} refused, no two more than {limits['gap']} s apart; fewer than "
        f"{limits['least']}, if the producer lives on, are hidden by retries",
        doubts=[_NO_LINES] if cause == "none_seen" else [],
    )


def _actions(context: DetectionContext, topic: str | None, clients: Sequence[str]) -> list[str]:
    look = [context.commands.topic(topic)] if topic else []
    names = ", ".join(map(quote, clients[:5])) or "the producers"
    return [
        *look,
        (
            f"Look whether {names} still send; a producer that stopped for good has to be made "
            f"anew by its application."
        ),
    ]


_NO_LINES = "The brokers' lines about a change of leader may not be in the archive."
_TITLES = {
    "truncation": ", after the log was cut back",
    "leader_move": ", after a change of leader",
    "none_seen": "",
}
_MEANINGS = {
    "truncation": "A broker takes a batch of an idempotent producer only if it knows the one "
    "before it. The log was cut back just before: batches that the producer had sent are gone.",
    "leader_move": "A broker takes a batch of an idempotent producer only if it knows the one "
    "before it. The leader had just changed, and the new one does not have all that the old one "
    "had, or batches under way were sent again in another order.",
    "none_seen": "A broker takes a batch of an idempotent producer only if it knows the one before "
    "it. No leader changed before: the broker may have forgotten the producer (it was idle for "
    "longer than transactional.id.expiration.ms or producer.id.expiration.ms, or its records were "
    "deleted), a batch before it had failed, or the client has a fault.",
}
_FATALITY = "The producer gave up: till its application makes a new one, nothing is written."
_RETRIED = "The producer may number its batches anew and go on; records may be there twice."
