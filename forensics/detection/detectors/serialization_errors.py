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
# After these the application went on without the record; after the others it stopped.
_CONTINUED = ("record_given_up", "produce_failed", "send_failed")
_WRITTEN = ("produce_failed", "send_failed")
_ERROR = re.compile(r"(?i)serialization")
_DETAIL = re.compile(
    r"(?i)serializationException|serialization error|error (?:de)?serializing"
    r"|DataException: Converting byte"
)
# An error of the brokers' security, not of a record.
_PRINCIPAL = "PRINCIPAL_DESERIALIZATION_FAILURE"
_PLACE = re.compile(
    r"partition (?P<name>[\w.-]+)-(?P<part>\d{1,10}) at offset (?P<offset>\d{1,18})\b"
)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each application that cannot read or write records."""
    if not context.visibility.has_kinds(*_KINDS):
        return
    where = pc.field("kind").isin(list(_KINDS))
    by, columns = ["node", "client", "member"], ["kind", "error", "detail", "topic", "group"]
    gap = context.limits[NAME]["gap"]
    for session in find_sessions(context, where, by, gap, columns, keep=_is_serialization_error):
        yield _finding(context, session)


def _is_serialization_error(row: Row) -> bool:
    error, detail = row["error"] or "", row["detail"] or ""
    return bool(_ERROR.search(error) or _DETAIL.search(detail)) and error != _PRINCIPAL


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    node, client, member = session.subject
    name = client or member or node or "unknown"
    kinds = session.value_counts["kind"]
    is_stopped = any(kind not in _CONTINUED for kind in kinds)
    records = sorted({(hit["name"], int(hit["part"]), int(hit["offset"]))
                      for text in session.values("detail")
                      if text and (hit := _PLACE.search(text))})  # fmt: skip
    topics = sorted({*session.values("topic"), *(topic for topic, _, _ in records)})
    is_write = all(kind in _WRITTEN for kind in kinds)
    is_same_record = len(records) == 1 and session.count > 1
    limits = context.limits[NAME]
    many = "many" if session.count >= limits["least"] else "few"
    return context.finding(
        NAME,
        limits["stands" if is_stopped else many],
        f"{name}: {session.count} {'time' if session.count == 1 else 'times'} a record could not "
        f"be {'written' if is_write else 'read'} in the form expected"
        f"{_record_text(records[0]) if is_same_record else ''}",
        session.begin,
        session.end,
        session.first,
        partitions=sorted({f"{topic}-{part}" for topic, part, _ in records}),
        clients=[name],
        measures={
            "errors": session.count,
            "stands_still": is_stopped,
            "writes": is_write,
            "records": [f"{topic}-{part}@{offset}" for topic, part, offset in records[:20]],
        },
        explanation=_explanation(
            is_stopped=is_stopped, is_write=is_write, is_same_record=is_same_record
        ),
        actions=_actions(context, name, records, topics),
        why=f"{session.count} lines say so; fewer than {limits['least']} from an "
        "application that goes on are few",
        doubts=[] if records or is_write else ["The lines do not say which record it was."],
    )


def _record_text(record: tuple[str, int, int]) -> str:
    topic, part, offset = record
    return f": again and again {topic}-{part} at offset {offset}"


def _explanation(*, is_stopped: bool, is_write: bool, is_same_record: bool) -> str:
    if is_write:
        return (
            "The application could not turn its own data into the bytes of a record: nothing was "
            "sent. Schemas or serializers and the data do not fit."
        )
    text = (
        "The bytes of a record are not what the application's deserializer expects: somebody wrote "
        "another format, or a schema changed."
    )
    if is_same_record:
        return f"{text} It comes back to the same record each time, and so reads nothing behind it."
    if is_stopped:
        return f"{text} The thread, task or listener stopped: what is behind the record waits."
    return f"{text} The application went on without the records."


def _actions(
    context: DetectionContext, name: str, records: list[tuple[str, int, int]], topics: list[str]
) -> list[str]:
    if records:
        topic, part, offset = records[0]
        return [
            context.commands.read_record(topic, part, offset),
            f"Give {quote(name)} an error handler that sets such records aside.",
        ]
    look = [context.commands.topic(topics[0])] if topics else []
    return [
        *look,
        f"Compare the serializers and schemas of {quote(name)} with those of the others.",
    ]
