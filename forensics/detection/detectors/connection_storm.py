"""Brokers that refuse connections since there are too many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
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
    gather = ["value", "count", "broker", "detail"]
    for one in find_sessions(
        context, where, ["node", "kind"], context.limits[NAME]["gap"], gather, keep=_full
    ):
        yield _finding(context, one)


def _full(row: Row) -> bool:
    """Of what goes wrong with a listener, only the lack of files is about their number."""
    return row["kind"] == _REJECTED or _FILES in (row["detail"] or "").lower()


def _finding(context: DetectionContext, one: EventSession) -> Finding:
    node, kind = one.subject
    limits = context.limits[NAME]
    files = kind == _LISTENER
    addresses = {
        str(value).lstrip("/"): count
        for value, count in one.value_counts["value"].most_common(_SHOWN) if value
    }  # fmt: skip
    allowed = max((count for count in one.values("count")), default=None)
    severity = limits["files"] if files else _severity(context, one)
    return context.finding(
        NAME,
        severity,
        _title(one, list(addresses), files=files),
        one.begin,
        one.end,
        one.first,
        brokers=one.values("broker"),
        clients=[] if files else sorted(addresses),
        measures={
            "rejected": one.count,
            "limit": "open files" if files else "max.connections.per.ip",
            "allowed": allowed,
            "addresses": {} if files else addresses,
        },
        explanation=_MEANINGS[files],
        actions=_actions(str(node), list(addresses), files=files),
        why=f"{one.count} refused, no two more than {limits['gap']} s apart (fewer than "
        f"{limits['least']} are few)",
        doubts=[] if files else ["Many clients behind one address, as of a proxy, look the same."],
    )


def _severity(context: DetectionContext, one: EventSession) -> str:
    limits = context.limits[NAME]
    return str(limits["many"] if one.count >= limits["least"] else limits["few"])


def _title(one: EventSession, addresses: list[str], *, files: bool) -> str:
    node = one.subject[0]
    if files:
        return f"{node} had no file handles left and could not take connections ({one.count} times)"
    whose = f" from {addresses[0]}" if len(addresses) == 1 else f" from {len(addresses)} addresses"
    return f"{node} refused {one.count} connections{whose}: too many at once"


def _actions(node: str, addresses: list[str], *, files: bool) -> list[str]:
    if files:
        return [
            (
                f"On the host of {quote(node)}: ls /proc/$(pgrep -f kafka.Kafka)/fd | wc -l; "
                f"compare with ulimit -n of the process, which should be 100000 or more."
            ),
            "Look whether connections or segments have grown; do not only restart the broker.",
        ]
    first = quote(addresses[0]) if addresses else "ADDRESS"
    return [
        f"On the host of {quote(node)}: ss -tn src :9092 | grep -c {first}",
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
