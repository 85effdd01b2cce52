"""Batches of idempotent producers that are refused since the one before them is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.leader_moves import LeaderMove, LeaderMoveIndex
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "out-of-order-sequence"
NEEDS = LogRequirements(("broker", "client"))
ERRORS = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID")
_FATAL = ("producer_failed", "client_failed", "client_transaction_failed")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each topic and burst."""
    limits = context.limits[NAME]
    gather = ["kind", "error", "partition", "client", "broker"]
    where = pc.field("error").isin(list(ERRORS))
    found = find_sessions(context, where, ["topic"], limits["gap"], gather)
    if not found:
        return
    named = [one for one in found if one.subject[0]]
    nameless = [one for one in found if not one.subject[0]]
    moved = _moved(context, named)
    cuts = _cuts(context, named)
    for one in named:
        near = [other for other in nameless if _touches(one, other, limits["gap"])]
        yield _finding(context, one, near, moved.get(id(one)), cuts.get(id(one), ()))
    for one in nameless:
        if not any(_touches(other, one, limits["gap"]) for other in named):
            yield _finding(context, one, [], None, ())


def _touches(one: EventSession, other: EventSession, gap: float) -> bool:
    near = round(gap * SECOND)
    return one.begin - near <= other.end and other.begin <= one.end + near


def _moved(context: DetectionContext, found: Sequence[EventSession]) -> Mapping[int, LeaderMove]:
    """Find the last change of a leader before each burst."""
    if not found:
        return {}
    late, ahead = (round(context.limits[NAME][name] * SECOND) for name in ("late", "ahead"))
    keys = {(one.subject[0], part) for one in found for part in (*one.values("partition"), None)}
    begins = [one.begin for one in found]
    moves = LeaderMoveIndex(context, keys, (min(begins) - late, max(begins) + ahead), ahead)
    behind: dict[int, LeaderMove] = {}
    for one in found:
        parts = one.values("partition") or [None]
        every = [
            moves.last_before((one.subject[0], part), one.begin, late, ahead) for part in parts
        ]
        known = [move for move in every if move is not None and not move.is_first]
        if known:
            behind[id(one)] = max(known, key=lambda move: move.start)
    return behind


def _cuts(context: DetectionContext, found: Sequence[EventSession]) -> Mapping[int, list[Row]]:
    """Find the logs that were cut back shortly before each burst."""
    if not found:
        return {}
    late = round(context.limits[NAME]["late"] * SECOND)
    where = pc.field("topic").isin(sorted({one.subject[0] for one in found}))
    columns = ["topic", "partition", "started_at", "evidence"]
    known: dict[int, list[Row]] = {}
    for row in context.each("cuts", where, columns):
        for one in found:
            parts = one.values("partition")
            mine = row["topic"] == one.subject[0] and (not parts or row["partition"] in parts)
            if mine and row["started_at"] and one.begin - late <= row["started_at"] <= one.end:
                known.setdefault(id(one), []).append(row)
    return known


def _finding(
    context: DetectionContext,
    one: EventSession,
    beside: Sequence[EventSession],
    move: LeaderMove | None,
    cuts: Sequence[Row],
) -> Finding:
    topic = one.subject[0]
    told = [row for other in beside for row in other.first[:5]]
    lines = [line for cut in cuts[:3] for line in cut["evidence"][:1]]
    evidence = [*one.first, *told, *context.read_lines(lines)]
    every = [one, *beside]
    clients = sorted({client for burst in every for client in burst.values("client")})
    fatal = any(burst.value_counts["kind"][kind] for burst in every for kind in _FATAL)
    cause = "truncation" if cuts else "leader_move" if move is not None else "none_seen"
    apart = None if move is None else abs(one.begin - move.start)
    confidence, reason = context.confidence(one.begin, one.end, evidence, stated=True, apart=apart)
    whose = f"producers of {topic}" if topic else ", ".join(clients) or "a producer"
    end = " and stopped for good" if fatal else ""
    return Finding(
        detector=NAME,
        severity=_severity(context, one, fatal=fatal),
        confidence=confidence,
        title=f"{one.count} batches of {whose} were out of sequence{end}{_TITLES[cause]}",
        begin=one.begin,
        end=max(burst.end for burst in every),
        evidence=evidence,
        brokers=one.values("broker"),
        partitions=[f"{topic}-{part}" for part in one.values("partition")] if topic else [],
        clients=clients,
        measures={
            "errors": one.count,
            "cause": cause,
            "election": None if move is None else move.election,
            "fatal": fatal,
        },
        explanation=f"{_MEANINGS[cause]} {_FATALITY if fatal else _RETRIED}",
        actions=_actions(context, topic, clients),
        why=f"{one.count} refused, no two more than {context.limits[NAME]['gap']} s apart; fewer "
        f"than {context.limits[NAME]['least']}, if the producer lives on, are hidden by retries",
        reason=reason,
        doubts=_doubts(cause),
    )


def _severity(context: DetectionContext, one: EventSession, *, fatal: bool) -> str:
    limits = context.limits[NAME]
    if fatal:
        return str(limits["fatal"])
    return str(limits["many"] if one.count >= limits["least"] else limits["few"])


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


def _doubts(cause: str) -> list[str]:
    if cause == "none_seen":
        return ["The brokers' lines about a change of leader may not be in the archive."]
    return []


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
