"""Records and requests that are refused for their size, and the setting that refuses them.

Records and requests that were too large: which setting refused them, and whose they were.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "record-too-large"
ERRORS = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "_MSG_SIZE_TOO_LARGE")
_SPLIT = "producer_batch_split"
_RECEIVE = "InvalidReceiveException"
_SIZES = (
    re.compile(r"is (?P<size>\d+) bytes when serialized which is larger than (?P<most>\d+)"),
    re.compile(r"is (?P<size>\d+) bytes which exceeds the maximum configured .*?(?P<most>\d+)"),
    re.compile(r"size = (?P<size>\d+) larger than (?P<most>\d+)"),
    re.compile(r"is (?P<size>\d+) bytes when serialized"),
)
_SETTINGS = ("max.request.size", "buffer.memory", "message.max.bytes", "segment.bytes")
_TOPIC, _BROKER, _SOCKET = "max.message.bytes", "message.max.bytes", "socket.request.max.bytes"
# The first bytes of a TLS handshake and of plain text, taken for a size: nobody's request.
_TLS = 0x16
# A client notices at once that its connection was closed.
_AT_ONCE = 2 * SECOND


@dataclass
class Oversize:
    """What one client sent that was refused for its size."""

    burst: EventSession
    limit: str
    split: bool = False
    topic: str | None = None
    client: str | None = None
    clients: list[str] = field(default_factory=list)
    size: int | None = None
    most: int | None = None
    lines: list[Row] = field(default_factory=list)


def refused_records(context: DetectionContext) -> list[Oversize]:
    """Find records that a client or a broker did not take."""
    where = pc.field("error").isin(list(ERRORS))
    by, gather = ["node", "client", "topic"], ["kind", "error", "detail", "partition"]
    found = find_sessions(context, where, by, context.limits[NAME]["gap"], gather)
    own = _own_limits(context, [one.subject[2] for one in found])
    return [_of_records(one, own) for one in found]


def _of_records(burst: EventSession, own: dict[str, Row]) -> Oversize:
    node, client, topic = burst.subject
    details = [text for text in burst.values("detail") if text]
    size, most = _sizes(details)
    limit = next((name for name in _SETTINGS for text in details if name in text), None)
    lines = []
    if limit is None and "RECORD_LIST_TOO_LARGE" in burst.value_counts["error"]:
        limit = "segment.bytes"
    elif limit is None:
        limit = _TOPIC if topic in own else _BROKER
        lines = [own[topic]] if topic in own else []
    name = client or node or "unknown"
    kinds = set(burst.value_counts["kind"])
    split = kinds == {_SPLIT}
    return Oversize(burst, limit, split, topic, name, [name], size, most, lines)


def _own_limits(context: DetectionContext, topics: Sequence[str | None]) -> dict[str, Row]:
    """Find the topics that were given a limit of their own, with the line that says so."""
    names = sorted({topic for topic in topics if topic})
    if not names or not context.visibility.has_kinds("config_set"):
        return {}
    where = pc.field("topic").isin(names) & pc.match_substring(pc.field("detail"), _TOPIC)
    return {row["topic"]: row for row in context.events("config_set", where=where)[:1000]}


def _sizes(details: Sequence[str]) -> tuple[int | None, int | None]:
    """Give the largest size told, and the largest that is allowed."""
    sizes, limits = [], []
    for text in details:
        found = next((hit for one in _SIZES if (hit := one.search(text))), None)
        if found is not None:
            sizes.append(int(found["size"]))
            limits += [int(found["most"])] if "most" in found.re.groupindex else []
    return max(sizes, default=None), max(limits, default=None)


def refused_requests(context: DetectionContext) -> list[Oversize]:
    """Find requests so large that a broker closed the connection without an answer."""
    if not context.visibility.has_kinds("connection_failed"):
        return []
    where = pc.field("kind") == "connection_failed"
    where &= pc.match_substring(pc.field("error"), _RECEIVE)
    gather, limits = ["detail", "broker"], context.limits[NAME]
    found = []
    for burst in find_sessions(context, where, ["node"], limits["gap"], gather, keep=_is_oversize):
        size, most = _sizes([text for text in burst.values("detail") if text])
        found.append(Oversize(burst, _SOCKET, size=size, most=most))
    for one in found:
        one.clients, one.lines = _whose(context, one.burst)
    return found


def _is_oversize(row: Row) -> bool:
    size, _ = _sizes([row["detail"] or ""])
    return size is not None and is_request(size)


def is_request(size: int) -> bool:
    """Whether a size may be one: the first bytes of TLS or of plain text are taken for one too.

    >>> is_request(4_000_130), is_request(1195725856), is_request(369295616)
    (True, False, False)
    """
    begin = size.to_bytes(8, "big")[-4:]
    return begin[0] != _TLS and not all(0x20 <= byte < 0x7F for byte in begin)


def _whose(context: DetectionContext, burst: EventSession) -> tuple[list[str], list[Row]]:
    """Name the clients whose requests broke each time when the broker closed a connection."""
    closed = sorted(row["at"] for row in burst.first)
    hits: Counter[str] = Counter()
    lines: dict[str, Row] = {}
    for row in _broken(context, closed):
        name = row["client"] or row["node"] or "unknown"
        hits[name] += 1
        lines[name] = min(lines.get(name, row), row, key=by_time)
    found = sorted(name for name, count in hits.items() if 2 * count >= len(closed))
    return found, [lines[name] for name in found]


def _broken(context: DetectionContext, closed: Sequence[int]) -> Iterator[Row]:
    """Give requests that broke just after one of some moments, one of a client for each moment."""
    where = (pc.field("kind") == "client_request_cancelled") & (pc.field("detail") == "PRODUCE")
    seen: set[tuple[str | None, str | None, int]] = set()
    columns = [*EVIDENCE_COLUMNS, "client"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        at = bisect_right(closed, row["at"]) - 1
        mark = row["node"], row["client"], at
        if at >= 0 and row["at"] - closed[at] <= _AT_ONCE and mark not in seen:
            seen.add(mark)
            yield row


NEEDS = LogRequirements(("client", "broker"))


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client and topic, and for each broker that closes connections."""
    yield from (
        _finding(context, one) for one in (*refused_records(context), *refused_requests(context))
    )


def _finding(context: DetectionContext, one: Oversize) -> Finding:
    burst = one.burst
    evidence = [*burst.first, *one.lines]
    request = one.limit == "socket.request.max.bytes"
    stated = not request or not one.clients
    confidence, reason = context.confidence(burst.begin, burst.end, evidence, stated=stated)
    return Finding(
        detector=NAME,
        severity=_severity(context, one),
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
        actions=_actions(context, one),
        why=f"{burst.count} refused; fewer than {context.limits[NAME]['least']} are a slip",
        reason=reason,
        doubts=_doubts(one),
    )


def _severity(context: DetectionContext, one: Oversize) -> str:
    limits = context.limits[NAME]
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


def _actions(context: DetectionContext, one: Oversize) -> list[str]:
    if one.split:
        return ["Nothing to do, or lower batch.size of the producer below the topic's limit."]
    look = [context.commands.topic_config(one.topic)] if one.topic else []
    smaller = (
        "Make the records smaller (compression, a reference instead of the content) before any "
        "limit is raised: replica.fetch.max.bytes and the consumers' limits have to follow."
    )
    return [*look, _LOOK[one.limit].format(_whom(one)), smaller]


def _whom(one: Oversize) -> str:
    return ", ".join(map(quote, one.clients)) or "the clients"


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
