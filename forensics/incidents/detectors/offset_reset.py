"""Consumers whose position is gone: they skip records, read them again, or stop."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.incidents.case import Case
from forensics.incidents.commands import word
from forensics.incidents.confidence import sureness
from forensics.incidents.finding import Finding
from forensics.incidents.needs import CLIENTS
from forensics.incidents.positions import NAME, Reset, resets

__all__ = ["find"]

NEEDS = CLIENTS


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each client, group and topic."""
    yield from (_finding(case, one) for one in resets(case))


def _finding(case: Case, one: Reset) -> Finding:
    burst = one.burst
    node, client, group, topic = burst.subject
    name = client or node or "unknown"
    evidence = [*burst.first, *one.lines]
    confidence, reason = sureness(
        case, burst.begin, burst.end, evidence, stated=one.cause != "offsets_expired"
    )
    return Finding(
        detector=NAME,
        severity=str(case.limits[NAME][_limit(one)]),
        confidence=confidence,
        title=f"{name}: {_what(one)} in {topic or 'a topic'}{_CAUSES[one.cause][0]}",
        begin=burst.begin,
        end=burst.end,
        evidence=evidence,
        partitions=one.partitions,
        clients=[name],
        measures={
            "group": group,
            "topic": topic,
            "cause": one.cause,
            "ends": "consumer fails" if one.fails else "position reset",
            "times": burst.count,
            "skipped": one.skipped,
            "read_again": one.again,
        },
        explanation=f"{_CAUSES[one.cause][1]} {_END['fails' if one.fails else 'resets']}",
        actions=_actions(case, one),
        why=_why(one),
        reason=reason,
        doubts=_doubts(one),
    )


def _limit(one: Reset) -> str:
    if one.fails:
        return "fails"
    return "again" if one.again and not one.skipped else "skips"


def _what(one: Reset) -> str:
    if one.fails:
        return "its position is gone and it stops"
    if one.skipped:
        return f"its position is gone, and it skipped {one.skipped} records"
    if one.again:
        return f"its position is gone, and it reads {one.again} records again"
    return "its position is gone, and it went elsewhere"


def _actions(case: Case, one: Reset) -> list[str]:
    _, client, group, topic = one.burst.subject
    found = [case.commands.group(group)] if group else []
    if topic:
        found.append(case.commands.begin_offsets(topic))
    if one.fails and group and topic:
        reset = case.commands.reset_offsets(group, topic)
        return [f"{reset}   # only once it is clear that what is missing is not wanted", *found]
    return [*found, _CAUSES[one.cause][2].format(word(client or "the consumer"))][:3]


def _why(one: Reset) -> str:
    text = f"{one.burst.count} lines of this client tell of it"
    if one.skipped or one.again:
        text += f": from the lost position to the new one it is {one.skipped or one.again} records"
    return text


def _doubts(one: Reset) -> list[str]:
    found = []
    if one.cause == "unknown":
        found.append("No line of a broker in the archive tells why the position was gone.")
    if one.cause == "offsets_expired":
        found.append("A group that somebody deleted on purpose looks the same.")
    if one.cause == "truncation":
        found.append("What the consumer had read of the cut part, nobody can read again.")
    return found


_END = {
    "fails": "auto.offset.reset is none, or the application does not handle it: the consumer stops "
    "with an exception, and does so again each time it is started.",
    "resets": "The consumer went where auto.offset.reset sends it: with latest it skips all that "
    "came meanwhile, with earliest it reads again all that is there.",
}
_CAUSES = {
    "retention": (
        " since retention had deleted it",
        (
            "What the consumer was to read next had already been deleted by retention: it was away "
            "for longer, or is slower, than the topic keeps records."
        ),
        "Raise retention.ms or retention.bytes of the topic above the longest time {} may be away.",
    ),
    "delete_records": (
        " since somebody deleted records",
        "Somebody deleted the records up to an offset beyond the consumer's position.",
        "Ask who ran kafka-delete-records while {} was reading.",
    ),
    "offsets_expired": (
        " since the group's offsets had expired",
        (
            "The group was empty for longer than offsets.retention.minutes, so its committed "
            "offsets were dropped, and it begins like a new one."
        ),
        "Raise offsets.retention.minutes of the brokers above the longest time {} may be away.",
    ),
    "truncation": (
        " since the log was cut back",
        (
            "The new leader's log ends before the consumer's position: records that it had read "
            "were cut off."
        ),
        (
            "Look at the finding about the unclean election or truncation; {} may have seen "
            "records that are gone."
        ),
    ),
    "topic_recreated": (
        " since the topic was deleted",
        "The topic was deleted, and the offsets of one of the same name begin anew.",
        "Reset the offsets of the group of {} when a topic is made anew.",
    ),
    "unknown": (
        "",
        "The position that the consumer asked for is not in the leader's log.",
        "Compare the committed offsets of {} with where the log begins and ends.",
    ),
}
