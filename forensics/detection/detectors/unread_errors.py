"""Errors of brokers and controllers that no rule knows: nobody may say "clear" over them unasked.

Kafka's servers log at ERROR what went wrong and may need somebody, and at FATAL what they end of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "unread-errors"
_SERVERS = ("broker-", "controller-")
KIND = "error_unread"
_FATAL = "FATAL"
# Of one node so many kinds of messages are told apart, and so many are named.
_MOST_KINDS, _MOST_NAMED = 1000, 10


@dataclass
class _Message:
    """A kind of message: how often it was logged, and its first line."""

    count: int
    first: Row


@dataclass
class _Errors:
    """What one node logged."""

    messages: dict[tuple[str, str], _Message]
    begin: int
    end: int
    count: int = 0
    fatal: int = 0

    def add(self, row: Row) -> None:
        """Take a line."""
        self.count += 1
        self.fatal += row["level"] == _FATAL
        self.begin, self.end = min(self.begin, row["at"]), max(self.end, row["at"])
        # Another exception is another error.
        key = f"{row['logger']}: {row['detail']}", row["error"] or ""
        known = self.messages.get(key)
        if known is not None:
            known.count += 1
            known.first = min(known.first, row, key=by_time)
        elif len(self.messages) < _MOST_KINDS:
            self.messages[key] = _Message(1, row)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker and controller."""
    if not context.visibility.has_kinds(KIND):
        return
    found: dict[str, _Errors] = {}
    columns = list(dict.fromkeys([*EVIDENCE_COLUMNS, "level", "logger", "detail", "error"]))
    where = (pc.field("kind") == KIND) & pc.field("ts").is_valid()
    for row in context.each("events", where, columns):
        if (row["node"] or "").startswith(_SERVERS):
            found.setdefault(row["node"], _Errors({}, row["at"], row["at"])).add(row)
    for node, errors in sorted(found.items()):
        yield _finding(context, node, errors)


def _finding(context: DetectionContext, node: str, errors: _Errors) -> Finding:
    own = broker_id(node)
    who = node if own is None else f"broker {own}"
    messages = sorted(errors.messages.values(), key=lambda one: by_time(one.first))
    kinds = len(messages)
    if kinds == _MOST_KINDS:
        apart = f" of {kinds:,} kinds or more"
    else:
        apart = f" of {kinds:,} kinds" if 1 < kinds < errors.count else ""
    word = quantity(errors.count, "error message")
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"{who[:1].upper()}{who[1:]} logged {word}{apart} that no rule reads",
        errors.begin,
        errors.end,
        [one.first for one in messages[:_MOST_NAMED]],
        brokers=[] if own is None else [own],
        measures={
            "node": node, "errors": errors.count, "fatal": errors.fatal, "kinds": kinds,
            "messages": [
                {
                    "file": one.first["file"], "line": one.first["line"], "count": one.count,
                    "level": one.first["level"], "logger": one.first["logger"],
                    "message": one.first["detail"], "error": one.first["error"],
                }
                for one in messages[:_MOST_NAMED]
            ],
        },
        explanation=_MEANING,
        actions=[_READ, _SEARCH],
        why="each stands at ERROR or FATAL in a line of Kafka's own, and no rule knows it",
        doubts=[_DOUBT],
    )  # fmt: skip


_MEANING = (
    "Kafka logs at ERROR what a server could not do, and at FATAL what it ends of. What these lines"
    " mean is not known here, so nothing that is said of this cluster takes them into account."
)
_READ = "Read the first line of each kind, and the exception below it."
_SEARCH = "Look for its text in Kafka's issues; a rule of your own makes it known (`rules new`)."
_DOUBT = "Some errors are a server's last words at an orderly stop, and mean nothing."
