"""Records and requests that are refused for their size, and the setting that refuses them."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.incidents.case import Case
from forensics.incidents.commands import word
from forensics.incidents.confidence import sureness
from forensics.incidents.finding import Finding
from forensics.incidents.needs import Needs
from forensics.incidents.oversize import NAME, Oversize, refused_records, refused_requests

__all__ = ["find"]

NEEDS = Needs(("client", "broker"))


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each client and topic, and for each broker that closes connections."""
    yield from (_finding(case, one) for one in (*refused_records(case), *refused_requests(case)))


def _finding(case: Case, one: Oversize) -> Finding:
    burst = one.burst
    evidence = [*burst.first, *one.lines]
    request = one.limit == "socket.request.max.bytes"
    stated = not request or not one.clients
    confidence, reason = sureness(case, burst.begin, burst.end, evidence, stated=stated)
    return Finding(
        detector=NAME,
        severity=_severity(case, one),
        confidence=confidence,
        title=_title(one, request=request),
        begin=burst.begin,
        end=burst.end,
        evidence=evidence,
        brokers=burst.values("broker") if request else [],
        partitions=[f"{one.topic}-{part}" for part in burst.values("partition")],
        clients=one.clients,
        measures={
            "limit": one.limit,
            "records": burst.count,
            "topic": one.topic,
            "largest": one.size,
            "allowed": one.most,
            "lost": not one.split,
        },
        explanation=_explanation(one),
        actions=_actions(case, one),
        why=f"{burst.count} refused; fewer than {case.limits[NAME]['least']} are a slip",
        reason=reason,
        doubts=_doubts(one),
    )


def _severity(case: Case, one: Oversize) -> str:
    limits = case.limits[NAME]
    if one.split:
        return str(limits["split"])
    return str(limits["refused"] if one.burst.count >= limits["least"] else limits["few"])


def _title(one: Oversize, *, request: bool) -> str:
    count = one.burst.count
    if one.split:
        return f"{one.client}: {count} batches for {one.topic} were too large, split and sent again"
    if request:
        whose = f" of {', '.join(one.clients)}" if one.clients else ""
        return f"{one.burst.subject[0]} closed {count} connections{whose} for requests too large"
    many = "records were" if count > 1 else "record was"
    topic = f" for {one.topic}" if one.topic else ""
    return f"{one.client}: {count} {many} too large{topic} ({one.limit})"


def _explanation(one: Oversize) -> str:
    if one.split:
        return (
            "The producer put together more than the broker takes at once, and cut it up when it "
            "was told so. Nothing is lost; each split costs a round trip."
        )
    size = f" The largest was {one.size} bytes" if one.size else ""
    size += f", allowed are {one.most}." if one.size and one.most else "." if size else ""
    return f"{_MEANINGS[one.limit]}{size}"


def _actions(case: Case, one: Oversize) -> list[str]:
    if one.split:
        return ["Nothing to do, or lower batch.size of the producer below the topic's limit."]
    look = [case.commands.topic_config(one.topic)] if one.topic else []
    smaller = (
        "Make the records smaller (compression, a reference instead of the content) before any "
        "limit is raised: replica.fetch.max.bytes and the consumers' limits have to follow."
    )
    return [*look, _LOOK[one.limit].format(_whom(one)), smaller]


def _whom(one: Oversize) -> str:
    return ", ".join(map(word, one.clients)) or "the clients"


def _doubts(one: Oversize) -> list[str]:
    if one.limit != "socket.request.max.bytes":
        return []
    found = ["Something that is no Kafka client may have sent bytes that look like a size."]
    if one.clients:
        found.append("The clients are named since their requests broke at the same moments.")
    return found


_MEANINGS = {
    "max.request.size": "The producer refused the record itself: it was never sent, and only the "
    "exception told the application.",
    "buffer.memory": "The record does not fit into the producer's memory: it was never sent.",
    "message.max.bytes": "The broker refused the record: it is not stored, and will not be however "
    "often it is sent.",
    "max.message.bytes": "The topic's own limit refused the record: it is not stored, and will not "
    "be however often it is sent.",
    "segment.bytes": "The batch is larger than a whole segment of the topic's log: it is not "
    "stored.",
    "socket.request.max.bytes": "The broker reads the size of a request first, and closes the "
    "connection of a larger one without an answer. The client only sees that it is disconnected, "
    "tries again with the same request, and so holds up all that is behind it.",
}
_LOOK = {
    "max.request.size": "Look at max.request.size of {}.",
    "buffer.memory": "Look at buffer.memory of {}.",
    "message.max.bytes": "Look at message.max.bytes of the brokers, and at max.request.size of {}.",
    "max.message.bytes": "Look at max.message.bytes of the topic, and at max.request.size of {}.",
    "segment.bytes": "Look at segment.bytes of the topic, and at batch.size of {}.",
    "socket.request.max.bytes": "Look at socket.request.max.bytes of the brokers; set "
    "max.request.size of {} below it.",
}
