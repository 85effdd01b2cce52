"""Brokers that refuse connections since there are too many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.node_ids import broker_id
from forensics.run_output.findings import Finding

NAME = "connection-storm"
NEEDS = BROKERS
_REJECTED, _LISTENER = "connection_rejected", "broker_listener_failed"
_FILES = "too many open files"
_SHOWN = 20


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each node and each of the two limits."""
    if not context.visibility.has_kinds(_REJECTED, _LISTENER):
        return
    where = pc.field("kind").isin([_REJECTED, _LISTENER])
    columns = ["value", "count", "broker", "detail"]
    gap, by = context.limits[NAME]["gap"], ["node", "kind"]
    for session in find_sessions(context, where, by, gap, columns, keep=_is_about_number):
        yield _finding(context, session)


def _is_about_number(row: Row) -> bool:
    """Return True for a refusal, or a listener that failed since it had no file handle left."""
    return row["kind"] == _REJECTED or _FILES in (row["detail"] or "").lower()


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    node, kind = session.subject
    limits = context.limits[NAME]
    lacks_files = kind == _LISTENER
    addresses = {
        str(value).lstrip("/"): count
        for value, count in session.value_counts["value"].most_common(_SHOWN) if value
    }  # fmt: skip
    allowed = max(session.values("count"), default=None)
    many = "many" if session.count >= limits["least"] else "few"
    return context.finding(
        NAME,
        limits["files" if lacks_files else many],
        _title(session, list(addresses), lacks_files=lacks_files),
        session.begin,
        session.end,
        session.first,
        brokers=session.values("broker"),
        clients=[] if lacks_files else sorted(addresses),
        measures={
            "rejected": session.count,
            "limit": "open files" if lacks_files else "max.connections.per.ip",
            "allowed": allowed,
            "addresses": {} if lacks_files else addresses,
        },
        explanation=_MEANINGS[lacks_files],
        actions=_actions(context, str(node), list(addresses), lacks_files=lacks_files),
        why=f"{session.count} refused, no two more than {limits['gap']} s apart (fewer than "
        f"{limits['least']} are few)",
        doubts=[]
        if lacks_files
        else ["Many clients behind one address, as of a proxy, look the same."],
    )


def _title(session: EventSession, addresses: list[str], *, lacks_files: bool) -> str:
    node = session.subject[0]
    if lacks_files:
        times = f"({session.count} times)"
        return f"{node} had no file handles left and could not take connections {times}"
    sources = (
        f" from {addresses[0]}" if len(addresses) == 1 else f" from {len(addresses)} addresses"
    )
    return f"{node} refused {session.count} connections{sources}: too many at once"


def _actions(
    context: DetectionContext, node: str, addresses: list[str], *, lacks_files: bool
) -> list[str]:
    if lacks_files:
        return [
            (
                f"On the host of {quote(node)}: ls /proc/$(pgrep -f kafka.Kafka)/fd | wc -l; "
                f"compare with ulimit -n of the process, which should be 100000 or more."
            ),
            "Look whether connections or segments have grown; do not only restart the broker.",
        ]
    first = quote(addresses[0]) if addresses else "ADDRESS"
    port = context.commands.places.broker(broker_id(node)).rpartition(":")[2]
    return [
        f"On the host of {quote(node)}: ss -tn src :{port} | grep -c {first}",
        "Look for applications that make a client for each request, or do not close theirs.",
        "Raise max.connections.per.ip (or its overrides) only if so many are meant to be there.",
    ]


_MEANINGS = {
    True: "Each connection and each segment of a log takes a file handle. With none left a broker "
    "takes no connections, and may next fail to open its own logs, which takes their directory "
    "out of use.",
    False: "An address has as many connections as max.connections.per.ip allows. Mostly an "
    "application there makes new clients again and again, and does not close them.",
}
