"""Records and requests that are refused for their size, and the setting that refuses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.min_isr import named_setting
from forensics.detection.shared.oversize_requests import (
    REQUEST_LIMIT,
    Oversize,
    find_oversize_requests,
    parse_sizes,
)
from forensics.lib.text_format import count, join_names
from forensics.lib.whole_numbers import whole_number
from forensics.run_output.findings import Finding

NAME = "record-too-large"
NEEDS = LogRequirements(("client", "broker"))
_ERRORS = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "_MSG_SIZE_TOO_LARGE")
_SPLIT = "producer_batch_split"
_SETTINGS = ("max.request.size", "buffer.memory", "message.max.bytes", "segment.bytes")
_TOPIC_LIMIT, _BROKER_LIMIT = "max.message.bytes", "message.max.bytes"
# librdkafka says who refused a record, and bindings to it print its errors as objects.
_RDKAFKA = re.compile(r"KafkaError\{|\bBroker: Message size too large")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client and topic, and for each broker that closes connections."""
    for oversize in (*_find_oversize_records(context), *find_oversize_requests(context)):
        yield _finding(context, oversize)


def _find_oversize_records(context: DetectionContext) -> list[Oversize]:
    """Find records that a client or a broker did not take."""
    where = pc.field("error").isin(list(_ERRORS))
    by, columns = ["node", "client", "topic"], ["kind", "error", "detail", "partition"]
    sessions = find_sessions(context, where, by, context.limits[NAME]["gap"], columns)
    topic_limits = _read_topic_limits(context, [session.subject[2] for session in sessions])
    allowed = _read_broker_limit(context) if sessions else None
    return [_oversize_records(session, topic_limits, allowed) for session in sessions]


def _oversize_records(
    session: EventSession, topic_limits: Mapping[str, Row], broker_limit: Row | None
) -> Oversize:
    node, client, topic = session.subject
    details = [text for text in session.values("detail") if text]
    size, allowed = parse_sizes(details)
    limit = next((name for name in _SETTINGS for text in details if name in text), None)
    lines = []
    if limit is None and "RECORD_LIST_TOO_LARGE" in session.value_counts["error"]:
        limit = "segment.bytes"
    elif limit is None:
        limit, line = _BROKER_LIMIT, broker_limit
        if topic in topic_limits:
            limit, line = _TOPIC_LIMIT, topic_limits[topic]
        if line is not None:
            lines = [line]
            set_to = line["value"] if line["kind"] == "setting_seen" else None
            known = whole_number(set_to or named_setting(line, limit))
            allowed = known if allowed is None else allowed
    name = client or node or "unknown"
    is_split = set(session.value_counts["kind"]) == {_SPLIT}
    return Oversize(session, limit, is_split, topic, name, [name], size, allowed, lines)


def _read_topic_limits(context: DetectionContext, topics: Sequence[str | None]) -> dict[str, Row]:
    """Return the line that set a limit of its own for each of the topics that has one."""
    names = sorted({topic for topic in topics if topic})
    if not names or not context.visibility.has_kinds("config_set"):
        return {}
    where = pc.field("topic").isin(names) & pc.match_substring(pc.field("detail"), _TOPIC_LIMIT)
    return {row["topic"]: row for row in context.events("config_set", where=where)[:1000]}


def _read_broker_limit(context: DetectionContext) -> Row | None:
    """Return the line of a broker with the largest record that it takes; None if they differ."""
    if not context.visibility.has_kinds("setting_seen"):
        return None
    where = (pc.field("kind") == "setting_seen") & (pc.field("setting") == _BROKER_LIMIT)
    columns = [*EVIDENCE_COLUMNS, "kind", "value"]
    rows = list(context.each("events", where & pc.field("ts").is_valid(), columns))
    values = {row["value"] for row in rows}
    return min(rows, key=by_time) if len(values) == 1 else None


def _finding(context: DetectionContext, oversize: Oversize) -> Finding:
    session = oversize.session
    evidence = [*session.first, *oversize.lines]
    is_request = oversize.limit == REQUEST_LIMIT
    limits, stated = context.limits[NAME], not is_request or not oversize.clients
    level = "refused" if session.count >= limits["least"] else "few"
    return context.finding(
        NAME,
        limits["split" if oversize.is_split else level],
        _title(oversize, is_request=is_request),
        session.begin,
        session.end,
        evidence,
        stated=stated,
        brokers=session.values("broker") if is_request else [],
        partitions=[f"{oversize.topic}-{part}" for part in session.values("partition")],
        clients=oversize.clients,
        measures={
            "limit": oversize.limit,
            "records": session.count,
            "topic": oversize.topic,
            "largest": oversize.size,
            "allowed": oversize.allowed,
            "lost": not oversize.is_split,
        },
        explanation=_explanation(oversize),
        actions=_actions(context, oversize),
        why=f"{session.count} refused; fewer than {limits['least']} are a slip",
        doubts=_doubts(oversize),
    )


def _title(oversize: Oversize, *, is_request: bool) -> str:
    number = oversize.session.count
    if oversize.is_split:
        batches = f"{number} batches for {oversize.topic}"
        return f"{oversize.client}: {batches} were too large, split and sent again"
    if is_request:
        clients = f" of {', '.join(oversize.clients)}" if oversize.clients else ""
        node = oversize.session.subject[0]
        return (
            f"{node} closed {number} connections{clients} for requests too large{_sizes(oversize)}"
        )
    many = "records were" if number > 1 else "record was"
    topic = f" for {oversize.topic}" if oversize.topic else ""
    return f"{oversize.client}: {number} {many} too large{topic}{_sizes(oversize)}"


def _sizes(oversize: Oversize) -> str:
    """Say how large the largest was, and what is allowed by which setting."""
    size = f"{count(oversize.size, 'byte')}; " if oversize.size else ""
    allowed = f" is {oversize.allowed:,}" if oversize.allowed else ""
    return f" ({size}{oversize.limit}{allowed})"


def _explanation(oversize: Oversize) -> str:
    if oversize.is_split:
        return (
            "The producer put together more than the broker takes at once, and cut it up when it "
            "was told so. Nothing is lost; each split costs a round trip."
        )
    size = f" The largest was {count(oversize.size, 'byte')}" if oversize.size else ""
    size += (
        f", allowed are {oversize.allowed:,}." if size and oversize.allowed else "." * bool(size)
    )
    return f"{_MEANINGS[oversize.limit]}{size}"


def _actions(context: DetectionContext, oversize: Oversize) -> list[str]:
    if oversize.is_split:
        return ["Nothing to do, or lower batch.size of the producer below the topic's limit."]
    look = [context.commands.topic_config(oversize.topic)] if oversize.topic else []
    clients = join_names(list(map(quote, oversize.clients))) or "the clients"
    own = _RAISE[oversize.limit].format(
        clients=clients,
        setting=_client_setting(oversize),
        topic=f"topic {quote(oversize.topic)}" if oversize.topic else "the topic",
        now=f" ({oversize.allowed:,} bytes now)" if oversize.allowed else "",
        size=count(oversize.size, "byte") if oversize.size else "the largest that they send",
    )
    follow = (
        "Before a limit is raised: replica.fetch.max.bytes of the brokers and the consumers' "
        "limits have to follow, and larger records cost memory everywhere."
    )
    return [*look, own, follow]


def _client_setting(oversize: Oversize) -> str:
    """Name what bounds the requests of a producer: each library has its own word for it."""
    texts = [f"{row.get('text') or ''} {row.get('detail') or ''}" for row in oversize.session.first]
    is_rdkafka = any(_RDKAFKA.search(text) for text in texts)
    return "message.max.bytes" if is_rdkafka else "max.request.size"


def _doubts(oversize: Oversize) -> list[str]:
    if oversize.limit != REQUEST_LIMIT:
        return []
    doubts = ["Something that is no Kafka client may have sent bytes that look like a size."]
    if oversize.clients:
        doubts.append("The clients are named since their requests broke at the same moments.")
    return doubts


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
_SMALLER = "let {clients} make their records smaller (compression, a reference in their place)"
_RAISE = {
    "max.request.size": "Raise max.request.size of {clients}{now} above {size}, and with it "
    "max.message.bytes of {topic}, or " + _SMALLER + ".",
    "buffer.memory": "Raise buffer.memory of {clients}{now} above {size}, or " + _SMALLER + ".",
    "message.max.bytes": "Raise message.max.bytes of the brokers{now} or max.message.bytes of "
    "{topic} above {size}, or " + _SMALLER + ".",
    "max.message.bytes": "Raise max.message.bytes of {topic}{now} above {size}, or "
    + _SMALLER
    + ".",
    "segment.bytes": "Raise segment.bytes of {topic}{now} above {size}, or lower batch.size of "
    "{clients}.",
    "socket.request.max.bytes": "Lower {setting} of {clients} below socket.request.max.bytes of "
    "the brokers{now}, or raise socket.request.max.bytes above {size}: "
    + _SMALLER
    + " in any case.",
}
