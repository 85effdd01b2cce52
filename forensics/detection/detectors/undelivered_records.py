"""Records that a producer gave up: batches that expired, or were still unsent as it was closed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "undelivered-records"
NEEDS = LogRequirements(("client",))
_GIVEN_UP = ("send_failed", "produce_failed")
_CLOSED = ("producer_force_closed", "client_closed_unsent")
# In the words of the client, quoted by an application or as the reason of an aborted transaction.
_QUOTED = ("application_error", "producer_must_abort")
# What other detectors are about.
_OTHER = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "SERIALIZATION", "_MSG_SIZE_TOO_LARGE")
_TIMED_OUT = "_MSG_TIMED_OUT"
_EXPIRED = re.compile(r"Expiring (\d{1,18}) record\(s\) for (\S+-\d+) ?:")
_SHOWN = 3


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time in which a client gave records up."""
    kinds = (*_GIVEN_UP, *_CLOSED, *_QUOTED)
    if context.visibility.has_kinds(*kinds):
        where, by = pc.field("kind").isin(list(kinds)), ["node", "client"]
        columns, gap = (
            ["kind", "error", "detail", "topic", "partition"],
            context.limits[NAME]["gap"],
        )
        for session in find_sessions(context, where, by, gap, columns, keep=_is_given_up):
            yield _finding(context, session)


def _is_given_up(row: Row) -> bool:
    if row["kind"] in _QUOTED:
        return row["error"] == _TIMED_OUT or bool(_EXPIRED.search(row["detail"] or ""))
    return row["kind"] in _CLOSED or row["error"] not in _OTHER


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    limits, kinds = context.limits[NAME], session.value_counts["kind"]
    name = session.subject[1] or session.subject[0] or "unknown"
    # The callback of each record may log its batch: what is written alike is one batch.
    batches = [match for detail in session.values("detail") if (match := _EXPIRED.search(detail))]
    closed = sum(kinds[kind] for kind in _CLOSED)
    records = max(sum(int(match[1]) for match in batches), session.count - closed)
    partitions = {match[2] for match in batches} | {
        f"{row['topic']}-{row['partition']}"
        for row in session.first
        if row["partition"] is not None
    }
    topics = {one.rpartition("-")[0] for one in partitions} | set(session.values("topic"))
    of = f" of {', '.join(sorted(topics)[:_SHOWN])}" if topics else ""
    title = (
        f"{name} gave up at least {quantity(records, 'record')}{of}"
        if records
        else f"{name} was closed before all records were sent"
    )
    return context.finding(
        NAME,
        limits["given_up" if records else "closed"],
        title,
        session.begin,
        session.end,
        session.first,
        partitions=sorted(partitions),
        clients=[name],
        measures={
            "records_min": records,
            "closes": closed,
            "errors": [error for error in session.values("error") if error],
        },
        explanation=_MECHANISM,
        actions=[_KEEP.format(name=quote(name)), _WAIT],
        why=f"{quantity(session.count, 'line')} of {name} within {session.seconds} s",
        doubts=_DOUBTS,
    )


_MECHANISM = (
    "A producer tries again until delivery.timeout.ms (120 s; retries before 2.1) is over, then "
    "hands the records back to the application as failed. What is still unsent when it is closed "
    "is lost with the process."
)
_KEEP = (
    "Find out what becomes of the records that {name} gave up: unless the application keeps them "
    "(an outbox, a dead letter queue) and sends them again, they are gone."
)
_WAIT = (
    "Set delivery.timeout.ms above the longest outage that it has to live through, and close "
    "producers with a time-out that lets them finish."
)
_DOUBTS = (
    "The last attempt may have been written all the same, where only its answer was lost.",
    "The application may have sent them again by itself.",
)
