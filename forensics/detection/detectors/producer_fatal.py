"""Producers and transactions that fail for good: fenced, not allowed, aborted again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.events.error_codes import SEQUENCE_ERRORS
from forensics.run_output.findings import Finding

NAME = "producer-fatal"
NEEDS = LogRequirements(("client", "broker"))
_FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED", "FENCED_INSTANCE_ID")
_FATAL = ("producer_failed", "client_failed")
_TRANSACTION = "client_transaction_failed"
_ABORTED = ("producer_must_abort", "transaction_timed_out", _TRANSACTION)
_APPLICATION = "application_error"
_KINDS = (*_FATAL, *_ABORTED, _APPLICATION)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each producer."""
    if not context.visibility.has_kinds(*_KINDS):
        return
    where = pc.field("kind").isin(list(_KINDS))
    by, columns = ["node", "client", "value"], ["kind", "error", "detail"]
    gap = context.limits[NAME]["gap"]
    for session in find_sessions(context, where, by, gap, columns, keep=_is_fatal):
        yield _finding(context, session)


def _is_fatal(row: Row) -> bool:
    """Return False for errors of sequence, which have a detector, and what is not fatal."""
    if row["kind"] == _APPLICATION:
        return row["error"] in _FENCED
    return row["error"] not in SEQUENCE_ERRORS


def _classify(session: EventSession) -> str:
    errors, kinds = set(session.value_counts["error"]), session.value_counts["kind"]
    if errors & set(_FENCED):
        return "fenced"
    # A fatal error of a transaction is also logged as one of the client itself.
    return "fatal" if any(kinds[kind] for kind in _FATAL) else "aborted"


def _times(session: EventSession, outcome: str) -> int:
    """Count what happened: one fencing is logged by the transaction, the client and the program."""
    kinds = session.value_counts["kind"]
    return max(kinds[kind] for kind in (_FATAL if outcome == "fatal" else kinds))


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    node, client, value = session.subject
    is_on_broker = session.value_counts["kind"]["transaction_timed_out"]
    name = client or (value if is_on_broker else None) or node or "unknown"
    outcome = _classify(session)
    errors = [error for error in session.values("error") if error]
    limits = context.limits[NAME]
    number = _times(session, outcome)
    times = f"{number} times" if number > 1 else "once"
    errors_text = f" ({', '.join(errors[:3])})" if errors else ""
    return context.finding(
        NAME,
        _severity(context, session, outcome),
        f"{name}: {_TITLES[outcome]} {times}{errors_text}",
        session.begin,
        session.end,
        session.first,
        clients=[name],
        measures={
            "how": outcome,
            "times": number,
            "errors": errors,
            "transactional_id": value,
        },
        explanation=_MEANINGS[outcome],
        actions=[_ACTIONS[outcome].format(quote(name))],
        why=f"{session.count} lines say so; {limits['fights']} fencings are a fight, and "
        f"{limits['aborts']} aborts more than bad luck",
        doubts=_DOUBTS[outcome],
    )


def _severity(context: DetectionContext, session: EventSession, outcome: str) -> str:
    limits = context.limits[NAME]
    if outcome == "fenced":
        is_fight = _times(session, outcome) >= limits["fights"]
        return str(limits["fight" if is_fight else "fenced"])
    if outcome == "fatal":
        return str(limits["fatal"])
    is_often = _times(session, outcome) >= limits["aborts"]
    return str(limits["failing" if is_often else "aborted"])


_TITLES = {
    "fenced": "put out by a newer instance",
    "fatal": "failed for good",
    "aborted": "a transaction failed",
}
_MEANINGS = {
    "fenced": "Another instance with the same id came up, and the older one may not write any "
    "more. At a restart or a rebalance that is as it should be; again and again it means that two "
    "live instances have one id.",
    "fatal": "The producer met an error from which it cannot recover. Till its application closes "
    "it and makes a new one, nothing is written.",
    "aborted": "A transaction could not be completed and was, or has to be, aborted. Its records "
    "are not seen by readers of committed records; the application has to send them again.",
}
_ACTIONS = {
    "fenced": "Look whether two instances with the transactional.id or group.instance.id of {} run "
    "at the same time.",
    "fatal": "Look whether {} was created again after this; if not, restart its application.",
    "aborted": "Compare how long a transaction of {} takes with transaction.timeout.ms, and look "
    "at the brokers at the time of the evidence.",
}
_DOUBTS = {
    "fenced": ["A deploy that starts the new instance before the old one ends looks the same."],
    "fatal": ["The application may have made a new producer at once."],
    "aborted": [("An application that aborts on purpose does not look like this, but one that is "
                "killed in the middle of a transaction does.")],
}  # fmt: skip
