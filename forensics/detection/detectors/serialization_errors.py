"""Records that cannot be written or read in the form that an application expects."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.run_output.findings import Finding

NAME = "serialization-errors"
NEEDS = CLIENTS
_KINDS = (
    "application_error",
    "listener_failed",
    "streams_thread_failed",
    "connector_task_failed",
    "connector_failed",
    "record_given_up",
    "client_failed",
    "consumer_stopped",
    "produce_failed",
    "send_failed",
)
# What goes on after such an error has left the record behind; the others stand still.
_PASSED = ("record_given_up", "produce_failed", "send_failed")
_WRITTEN = ("produce_failed", "send_failed")
_ERROR = re.compile(r"(?i)serialization")
_DETAIL = re.compile(
    r"(?i)serializationException|serialization error|error (?:de)?serializing"
    r"|DataException: Converting byte"
)
# A fault of the brokers' security, not of anybody's records.
_PRINCIPAL = "PRINCIPAL_DESERIALIZATION_FAILURE"
_PLACE = re.compile(r"partition (?P<name>[\w.-]+)-(?P<part>\d+) at offset (?P<offset>\d+)")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each application that cannot read or write records."""
    if not context.visibility.has_kinds(*_KINDS):
        return
    where = pc.field("kind").isin(list(_KINDS))
    by, gather = ["node", "client", "member"], ["kind", "error", "detail", "topic", "group"]
    for one in find_sessions(
        context, where, by, context.limits[NAME]["gap"], gather, keep=_is_mine
    ):
        yield _finding(context, one)


def _is_mine(row: Row) -> bool:
    error, detail = row["error"] or "", row["detail"] or ""
    told = bool(_ERROR.search(error) or _DETAIL.search(detail))
    return told and error != _PRINCIPAL


def _finding(context: DetectionContext, one: EventSession) -> Finding:
    node, client, member = one.subject
    name = client or member or node or "unknown"
    kinds = one.value_counts["kind"]
    stands = any(kind not in _PASSED for kind in kinds)
    records = sorted({(hit["name"], int(hit["part"]), int(hit["offset"]))
                      for text in one.values("detail")
                      if text and (hit := _PLACE.search(text))})  # fmt: skip
    topics = sorted({*one.values("topic"), *(topic for topic, _, _ in records)})
    writes = all(kind in _WRITTEN for kind in kinds)
    same = len(records) == 1 and one.count > 1
    return context.finding(
        NAME,
        _severity(context, one, stands=stands),
        f"{name}: {one.count} {'time' if one.count == 1 else 'times'} a record could not be "
        f"{'written' if writes else 'read'} in the form expected"
        f"{_at(records[0]) if same else ''}",
        one.begin,
        one.end,
        one.first,
        partitions=sorted({f"{topic}-{part}" for topic, part, _ in records}),
        clients=[name],
        measures={
            "errors": one.count,
            "stands_still": stands,
            "writes": writes,
            "records": [f"{topic}-{part}@{offset}" for topic, part, offset in records[:20]],
        },
        explanation=_explanation(stands=stands, writes=writes, same=same),
        actions=_actions(context, name, records, topics),
        why=f"{one.count} lines say so; fewer than {context.limits[NAME]['least']} from an "
        "application that goes on are few",
        doubts=[] if records or writes else ["The lines do not say which record it was."],
    )


def _severity(context: DetectionContext, one: EventSession, *, stands: bool) -> str:
    limits = context.limits[NAME]
    if stands:
        return str(limits["stands"])
    return str(limits["many"] if one.count >= limits["least"] else limits["few"])


def _at(record: tuple[str, int, int]) -> str:
    topic, part, offset = record
    return f": again and again {topic}-{part} at offset {offset}"


def _explanation(*, stands: bool, writes: bool, same: bool) -> str:
    if writes:
        return (
            "The application could not turn its own data into the bytes of a record: nothing was "
            "sent. Schemas or serializers and the data do not fit."
        )
    text = (
        "The bytes of a record are not what the application's deserializer expects: somebody wrote "
        "another format, or a schema changed."
    )
    if same:
        return f"{text} It comes back to the same record each time, and so reads nothing behind it."
    if stands:
        return f"{text} The thread, task or listener stopped: what is behind the record waits."
    return f"{text} The application went on without the records."


def _actions(
    context: DetectionContext, name: str, records: list[tuple[str, int, int]], topics: list[str]
) -> list[str]:
    if records:
        topic, part, offset = records[0]
        read = (
            f"kafka-console-consumer.sh --bootstrap-server BROKER:9092 --topic {quote(topic)} "
            f"--partition {part} --offset {offset} --max-messages 1 --property print.timestamp=true"
        )
        return [read, f"Give {quote(name)} an error handler that sets such records aside."]
    look = [context.commands.topic(topics[0])] if topics else []
    return [
        *look,
        f"Compare the serializers and schemas of {quote(name)} with those of the others.",
    ]
