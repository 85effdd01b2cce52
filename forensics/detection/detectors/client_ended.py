"""Consumers that closed with an error of the cluster and were not started again.

A producer that is closed on purpose may end with an error, too: for what it could not send in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.lib.arrow_io import is_any_of
from forensics.lib.text_format import join_names
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "client-ended"
NEEDS = LogRequirements(("client",))
_ERROR = "application_error"
_CLOSING = ("group_leaving", "partitions_revoked")
_GOING_ON = ("group_joining", "group_joined", "partitions_assigned", "process_starting")
_FAILED = ("commit_failed",)
# No exception says so, but a commit is refused because the group went on without the member.
_OF_THE_GROUP = "COMMIT_FAILED"
# What an application logs as its client closes, it logs within that.
_TOGETHER = 10 * SECOND
_LAST_WORDS = SECOND


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client."""
    if not context.visibility.has_kinds(_ERROR):
        return
    ends = {
        row["node"]: row
        for row in context.events(_ERROR, where=_is_passing())
        if row["node"] is not None
        # Nobody logs that a process is gone: this was its last line.
        and context.last_logged.get(row["node"], 0) - _own_time(context, row) <= _LAST_WORDS
    }
    quiet = context.limits[NAME]["quiet"] * SECOND
    ends = {node: row for node, row in ends.items() if context.logs_end - row["at"] >= quiet}
    lines: dict[str, list[Row]] = {node: [] for node in ends}
    where = pc.field("node").isin(list(ends))
    for row in context.events(*_CLOSING, *_GOING_ON, *_FAILED, where=where) if ends else ():
        if abs(row["at"] - ends[row["node"]]["at"]) <= _TOGETHER:
            lines[row["node"]].append(row)
    replaced = _find_replaced(context, ends, lines) if ends else set()
    for node, error in sorted(ends.items()):
        if node in replaced:
            continue
        acts = [row for row in lines[node] if row["kind"] not in _FAILED]
        if acts and acts[-1]["kind"] in _CLOSING:
            yield _finding(context, node, error, lines[node])


def _find_replaced(
    context: DetectionContext, ends: Mapping[str, Row], lines: Mapping[str, Sequence[Row]]
) -> set[str]:
    """Return the clients whose group a new member joined later, as where a pod takes their place.

    Those that were there before had work of their own.
    """
    groups = {node: {row["group"] for row in lines[node]} - {None} for node in ends}
    joined: dict[str, int] = {}
    member_of: dict[str, set[str]] = {}
    where = is_any_of("group", {one for own in groups.values() for one in own})
    for row in context.events("group_joining", "group_joined", "partitions_assigned", where=where):
        if row["node"] is not None:
            joined.setdefault(row["node"], row["at"])
            member_of.setdefault(row["node"], set()).add(row["group"])
    return {
        node
        for node, error in ends.items()
        if any(
            at > error["at"] and other != node and member_of[other] & groups[node]
            for other, at in joined.items()
        )
    }


def _is_passing() -> pc.Expression:
    """Choose errors that pass: a client that goes on, or is started again, gets over them."""
    return pc.field("retriable") | (pc.field("error") == _OF_THE_GROUP)


def _own_time(context: DetectionContext, row: Row) -> int:
    return context.history.clocks.in_zone(row["node"], row["ts"], row["file"])


def _finding(
    context: DetectionContext, node: str, error: Row, lines: Sequence[Mapping[str, object]]
) -> Finding:
    names = dict.fromkeys(str(row["client"]) for row in lines if row["client"] is not None)
    clients = list(names) or [node]
    who = join_names(clients, 2)
    seen = {(row["file"], row["line"]): row for row in [error, *lines]}
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"{who} closed with an error ({error['error']}) and was not started again",
        error["at"],
        context.logs_end,
        list(seen.values()),
        clients=clients,
        measures={"error": error["error"], "detail": error["detail"]},
        explanation=_MEANING,
        actions=[f"Start {quote(clients[0])} again, unless already running.", _CATCH],
        why=f"this is the last that {node} logged, and other logs go on for "
        f"{(context.logs_end - error['at']) / SECOND:.0f} s",
        doubts=[_DOUBT],
    )


_MEANING = (
    "Its application got an error that passes, such as a timeout while a broker was away, closed "
    "its client, and logged nothing after that. Nothing is read or written by it until it is "
    "started again."
)
_CATCH = (
    "Let the application try again after such errors, or let whatever runs it start it again when "
    "it ends."
)
_DOUBT = "Its log may have been collected earlier than the others, or go on in another file."
