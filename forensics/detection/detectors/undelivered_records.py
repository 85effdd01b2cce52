"""Records that a producer gave up: batches that expired, or were still unsent as it was closed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, in_topics
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.stale_metadata_words import TAKE_OUT, clock_time
from forensics.lib.node_ids import CLIENT_INSTANCE
from forensics.lib.text_format import join_names, pluralize, quantity
from forensics.run_output.findings import Finding

NAME = "undelivered-records"
NEEDS = LogRequirements(("client",))
_GIVEN_UP = ("send_failed", "produce_failed")
_CLOSED = ("producer_force_closed", "client_closed_unsent")
# In the words of the client, quoted by an application or as the reason of an aborted transaction.
_QUOTED = ("application_error", "producer_must_abort")
# What other detectors are about.
_OTHER = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "SERIALIZATION", "_MSG_SIZE_TOO_LARGE")
# What librdkafka says of a record that it gave up; consumers are told some of these, too.
_REPORTED = frozenset({"_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})
_REPORTED_TO_PRODUCERS = frozenset({
    "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_DESTROY", "UNKNOWN_TOPIC_OR_PARTITION",
})  # fmt: skip
_LIBRDKAFKA = "application.error@0.11"
_EXPIRED = re.compile(r"Expiring (\d{1,18}) record\(s\) for (\S+-\d+) ?:")
_REFUSED = re.compile(r"Topic (\S+) not present in metadata after \d+ ms")
_SHOWN = 3


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time in which a client gave records up."""
    kinds = (*_GIVEN_UP, *_CLOSED, *_QUOTED)
    if context.visibility.has_kinds(*kinds):
        where, by = pc.field("kind").isin(list(kinds)), ["node", "client"]
        columns, gap = (
            ["kind", "error", "detail", "topic", "partition", "rule"],
            context.limits[NAME]["gap"],
        )
        producers = _find_producers(context)

        def is_given_up(row: Row) -> bool:
            if row["kind"] not in _QUOTED:
                return row["kind"] in _CLOSED or row["error"] not in _OTHER
            if row["rule"] == _LIBRDKAFKA and row["node"] in producers:
                return row["error"] in _REPORTED | _REPORTED_TO_PRODUCERS
            said = row["detail"] or ""
            is_refused = row["kind"] == "application_error" and _REFUSED.search(said)
            return row["error"] in _REPORTED or bool(is_refused or _EXPIRED.search(said))

        for session in find_sessions(context, where, by, gap, columns, keep=is_given_up):
            yield _finding(context, session)


def _find_producers(context: DetectionContext) -> set[str]:
    """Return the nodes all of whose librdkafka clients are producers."""
    roles: dict[str, set[str]] = {}
    where = pc.match_substring(pc.field("client"), "#")
    for batch in context.batches("events", where, ["node", "client"]):
        pairs = set(zip(batch["node"].to_pylist(), batch["client"].to_pylist(), strict=True))
        for node, client in pairs:
            if node is not None and (found := CLIENT_INSTANCE.search(client)):
                roles.setdefault(node, set()).add(found[0].strip("#").partition("-")[0])
    return {node for node, own in roles.items() if own == {"producer"}}


def _topics_gone(context: DetectionContext, session: EventSession) -> dict[str, int | None]:
    """Return the topics of which a client was told that they are gone, and when they were deleted.

    Its own words for a record that it gave up name no topic.
    """
    where = pc.field("node") == session.subject[0]
    told = {
        row["topic"]
        for row in context.events("client_partitions_changed", where=where)
        if row["count"] == 0 and row["topic"] and row["at"] <= session.end
    }
    deleted = {
        row["topic"]: row["at"]
        for row in context.events("topic_deleted", "topic_deleting", where=in_topics(told))
        if row["at"] <= session.end
    }
    return {topic: deleted.get(topic) for topic in sorted(told)}


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    limits, kinds = context.limits[NAME], session.value_counts["kind"]
    name = session.subject[1] or session.subject[0] or "unknown"
    # The callback of each record may log its batch: what is written alike is one batch.
    batches = [match for detail in session.values("detail") if (match := _EXPIRED.search(detail))]
    closed = sum(kinds[kind] for kind in _CLOSED)
    details = session.value_counts["detail"]
    expired = sum(number for text, number in details.items() if _EXPIRED.search(text or ""))
    records = max(sum(int(match[1]) for match in batches), expired)
    records += session.count - closed - expired
    partitions = {match[2] for match in batches} | {
        f"{row['topic']}-{row['partition']}"
        for row in session.first
        if row["partition"] is not None
    }
    topics = {one.rpartition("-")[0] for one in partitions} | set(session.values("topic"))
    topics |= {match[1] for text in details if (match := _REFUSED.search(text or ""))}
    missing = set(session.values("error")) & _REPORTED_TO_PRODUCERS
    gone = _topics_gone(context, session) if missing else {}
    topics |= gone.keys()
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
            "topics": sorted(topics),
            # as that of stale-metadata
            "suspect": "topic_deleted" if gone else None,
        },
        explanation=(_gone_text(gone) if gone else "") + _MECHANISM,
        actions=[
            *([TAKE_OUT.format(f"topic {quote(one)}", quote(name)) for one in gone]),
            _KEEP.format(name=quote(name)),
            _WAIT,
        ],
        why=f"{quantity(session.count, 'line')} of {name} within {session.seconds} s",
        doubts=_DOUBTS,
    )


def _gone_text(gone: Mapping[str, int | None]) -> str:
    """Say that topics were deleted, as stale-metadata says it of other clients."""
    moments = [at for at in gone.values() if at is not None]
    at = f" at {clock_time(max(moments))}" if len(moments) == len(gone) else ""
    names = f"{pluralize('topic', len(gone))} {join_names(list(gone))}"
    who = "Somebody deleted" if moments else "The client was told that there is no"
    return f"{who} {names}{at}, to which it still wrote. "


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
