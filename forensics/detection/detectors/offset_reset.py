"""Consumers whose position is gone: they skip records, read them again, or stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
)
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.arrow_io import is_any_of
from forensics.lib.text_format import count
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding

NAME = "offset-reset"
NEEDS = CLIENTS
_OUT = "OFFSET_OUT_OF_RANGE"
_RANGE = "position_out_of_range"
_CUT = ("consumer_saw_truncation", "client_truncation_seen")
_MISSING, _RESET = "position_missing", "position_reset"
_DEAD, _EMPTY = "group_dead", "group_empty"
_BY = ["node", "client", "group", "topic"]
_VALUES = ["kind", "error", "partition", "position", "count"]
_MAX_LINES = 100
# An exception reaches the application at once.
_SOON = 10 * SECOND
_SERVER = ("log_start_moved", "topic_deleted")
_DELETED = "delete records"


@dataclass
class _Reset:
    """One client's positions of one topic that were lost, and what it did then."""

    session: EventSession
    cause: str = "unknown"
    fails: bool = False
    # how many records were skipped, and read again
    skipped: int = 0
    again: int = 0
    # how many were skipped at most, where the position that was lost is not told
    skipped_max: int | None = None
    # how many records somebody deleted on purpose, by their offsets
    deleted: int | None = None
    # when the group was last there
    left_at: int | None = None
    partitions: list[str] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client, group and topic."""
    for reset in _find_resets(context):
        yield _finding(context, reset)


def _find_resets(context: DetectionContext) -> list[_Reset]:
    """Find lost positions; a new group, which has no position yet, has lost none."""
    kind = pc.field("kind")
    where = kind.isin([_RANGE, *_CUT]) | (pc.field("error") == _OUT)
    sessions = find_sessions(context, where, _BY, context.limits[NAME]["gap"], _VALUES)
    resets = [
        _Reset(
            session,
            "truncation" if any(session.value_counts["kind"][kind] for kind in _CUT) else "unknown",
            fails=not session.value_counts["kind"][_RESET],
            partitions=_partition_names(session),
        )
        for session in _drop_repeated(sessions)
    ]
    _follow(context, resets)
    expired = _find_expired_groups(context)
    _bound_skipped(context, expired)
    resets += expired
    _find_causes(context, resets)
    return sorted(resets, key=lambda reset: (reset.session.begin, repr(reset.session.subject)))


def _drop_repeated(sessions: Sequence[EventSession]) -> list[EventSession]:
    """Drop what an application logs, without a topic, of what its consumer logs in full."""
    full = [session for session in sessions if session.subject[3]]
    return [
        session
        for session in sessions
        if session.subject[3]
        or not any(
            other.subject[0] == session.subject[0]
            and other.begin - _SOON <= session.end
            and session.begin <= other.end + _SOON
            for other in full
        )
    ]


def _partition_names(session: EventSession) -> list[str]:
    topic = session.subject[3]
    return [f"{topic}-{number}" for number in session.values("partition")] if topic else []


def _follow(context: DetectionContext, resets: Sequence[_Reset]) -> None:
    """Find where each client went on after it lost its position."""
    by_subject: dict[tuple[str | None, ...], list[_Reset]] = defaultdict(list)
    for reset in resets:
        by_subject[reset.session.subject].append(reset)
        _measure(reset, [row for row in reset.session.first if row["kind"] == _RESET])
    if not by_subject or not context.visibility.has_kinds(_RESET):
        return
    near = round(context.limits[NAME]["near"] * SECOND)
    nodes = sorted({str(subject[0]) for subject in by_subject})
    where = (pc.field("kind") == _RESET) & is_any_of("node", nodes) & pc.field("ts").is_valid()
    later: dict[int, list[Row]] = defaultdict(list)
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, *_BY, *_VALUES]):
        for reset in by_subject.get(tuple(row[name] for name in _BY), ()):
            if reset.session.begin <= row["at"] <= reset.session.end + near:
                reset.fails = False
                later[id(reset)] = sorted([*later[id(reset)], row], key=by_time)[:_MAX_LINES]
    for reset in resets:
        if not reset.session.value_counts["error"][_OUT]:
            _measure(reset, later[id(reset)])
            reset.lines += later[id(reset)][:5]


def _measure(reset: _Reset, later: Sequence[Row]) -> None:
    """Count the records between each lost position and where the consumer went on."""
    rows = sorted([*reset.session.first, *later], key=by_time)
    lost: dict[int | None, int] = {}
    reset.skipped = reset.again = 0
    for row in {(row["file"], row["line"], row["partition"]): row for row in rows}.values():
        if row["kind"] == _RESET and row["count"] is not None:
            reset.skipped += row["count"]
        elif row["position"] is None:
            continue
        elif row["kind"] != _RESET:
            lost[row["partition"]] = row["position"]
        elif row["partition"] in lost:
            step = row["position"] - lost.pop(row["partition"])
            reset.skipped, reset.again = reset.skipped + max(step, 0), reset.again + max(-step, 0)


def _find_expired_groups(context: DetectionContext) -> list[_Reset]:
    """Find groups that come back after their offsets were dropped."""
    if not context.visibility.has_kinds(_DEAD) or not context.visibility.has_kinds(_MISSING):
        return []
    dead: dict[str, Row] = {}
    where = (pc.field("kind") == _DEAD) & pc.field("group").is_valid() & pc.field("ts").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, "group"]):
        dead[row["group"]] = min(dead.get(row["group"], row), row, key=by_time)
    empty: dict[str, Row] = {}
    where = (pc.field("kind") == _EMPTY) & is_any_of("group", dead) & pc.field("ts").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, "group"]):
        if row["at"] <= dead[row["group"]]["at"]:
            empty[row["group"]] = max(empty.get(row["group"], row), row, key=by_time)

    def keep(row: Row) -> bool:
        """Return True if the group had been dropped before."""
        return row["group"] in dead and bool(dead[row["group"]]["at"] <= row["at"])

    gap, where = context.limits[NAME]["gap"], pc.field("kind") == _MISSING
    found = []
    for session in find_sessions(context, where, _BY, gap, _VALUES, keep=keep):
        group = session.subject[2]
        left = [empty[group]] if group in empty else []
        reset = _Reset(session, "offsets_expired", partitions=_partition_names(session))
        reset.lines, reset.left_at = [*left, dead[group]], left[0]["at"] if left else None
        found.append(reset)
    return found


def _bound_skipped(context: DetectionContext, resets: Sequence[_Reset]) -> None:
    """Bound what groups skipped whose offsets are gone, by where they had begun before."""
    groups = {reset.session.subject[2]: reset for reset in resets}
    if not groups or not context.visibility.has_kinds(_RESET):
        return
    begun: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    where = (pc.field("kind") == _RESET) & is_any_of("group", groups) & pc.field("ts").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, *_BY, *_VALUES]):
        if row["position"] is not None and row["partition"] is not None:
            begun[row["group"], row["topic"], row["partition"]].append(row)
    near = round(context.limits[NAME]["near"] * SECOND)
    for reset in resets:
        session, steps = reset.session, list[int | None]()
        _, _, group, topic = session.subject
        for partition in session.values("partition"):
            rows = sorted(begun[group, topic, partition], key=by_time)
            before = [row for row in rows if row["at"] < session.begin]
            after = [row for row in rows if session.begin <= row["at"] <= session.end + near]
            reset.lines += [*before[-1:], *after[:1]]
            both = bool(before and after)
            steps.append(after[0]["position"] - before[-1]["position"] if both else None)
        known = [max(step, 0) for step in steps if step is not None]
        if known and len(known) == len(steps):
            reset.skipped_max = sum(known)


def _find_causes(context: DetectionContext, resets: Sequence[_Reset]) -> None:
    """Look up why each position was not there any more, and how much was deleted on purpose."""
    # A consumer calls a topic that was made anew a log that was cut: only cuts tell them apart.
    seen = [reset for reset in resets if reset.cause == "truncation"]
    for reset in seen:
        reset.cause = "truncation" if _was_cut(context, reset) else "unknown"
    _find_deletions(context, resets)
    for reset in seen:
        if reset.cause != "topic_recreated":
            reset.cause = "truncation"
    for reset in resets:
        if reset.cause == "delete_records":
            _count_deleted(context, reset)
        elif reset.cause == "unknown" and _was_cut(context, reset):
            reset.cause = "truncation"


def _find_deletions(context: DetectionContext, resets: Sequence[_Reset]) -> None:
    """Find the deletion that went beyond each position."""
    by_topic: dict[str, list[_Reset]] = defaultdict(list)
    for reset in resets:
        if reset.cause == "unknown" and reset.session.subject[3]:
            by_topic[reset.session.subject[3]].append(reset)
    if not by_topic:
        return
    first: dict[int, Row] = {}
    near = round(context.limits[NAME]["near"] * SECOND)
    for row in _read_deletions(context, sorted(by_topic)):
        for reset in by_topic[row["topic"]]:
            if _concerns(row, reset, near):
                first[id(reset)] = min(first.get(id(reset), row), row, key=_likelier_first)
    for reset in resets:
        if id(reset) in first:
            row = first[id(reset)]
            reset.cause, reset.lines = _cause(row), [row, *reset.lines]


def _read_deletions(context: DetectionContext, topics: Sequence[str]) -> Iterator[Row]:
    if not context.visibility.has_kinds(*_SERVER):
        return
    where = pc.field("kind").isin(list(_SERVER)) & is_any_of("topic", topics)
    columns = [*EVIDENCE_COLUMNS, "kind", "topic", "partition", "position", "detail", "telling"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        if context.is_live(row):
            yield row


def _count_deleted(context: DetectionContext, reset: _Reset) -> None:
    """Count what was deleted on purpose: from where each log began to where it begins since."""
    topic = str(reset.session.subject[3])
    moved: dict[int, list[Row]] = defaultdict(list)
    for row in _read_deletions(context, [topic]):
        if row["kind"] != "topic_deleted" and row["position"] is not None:
            moved[row["partition"]].append(row)
    where = in_topics([topic]) & (pc.field("election") == "initial")
    new = {row["partition"] for row in context.each("leadership", where, ["topic", "partition"])}
    deleted = []
    for partition, rows in sorted(moved.items()):
        # The log of a topic that was created here began at 0; all replicas say the same.
        begin = 0 if partition in new else None
        for row in sorted(rows, key=lambda row: (row["position"], *by_time(row))):
            if _cause(row) == "delete_records" and row["position"] != begin:
                deleted.append(None if begin is None else row["position"] - begin)
                reset.lines.append(row)
            begin = row["position"]
    if deleted and None not in deleted:
        reset.deleted = sum(number for number in deleted if number is not None)


def _concerns(row: Row, reset: _Reset, near: int) -> bool:
    """Return True if what stood at a lost position had been deleted by this line."""
    if row["at"] > reset.session.begin + near:
        return False
    if row["kind"] == "topic_deleted":
        return True
    lost = [
        line["position"]
        for line in reset.session.first
        if line["kind"] != _RESET
        and line["partition"] == row["partition"]
        and line["position"] is not None
    ]
    return bool(lost) and row["position"] is not None and row["position"] > min(lost)


def _likelier_first(row: Row) -> tuple[Any, ...]:
    """Sort what passed the position before a deletion of the topic, then by time."""
    return (row["kind"] == "topic_deleted", *by_time(row))


def _cause(row: Row) -> str:
    if row["kind"] == "topic_deleted":
        return "topic_recreated"
    return "delete_records" if _DELETED in (row["detail"] or "").lower() else "retention"


def _was_cut(context: DetectionContext, reset: _Reset) -> bool:
    """Return True if a log of the topic was cut back before."""
    topic = reset.session.subject[3]
    rows = context.each("cuts", pc.field("topic") == topic, ["partition", "started_at"])
    numbers = reset.session.value_counts["partition"]
    return any(
        row["partition"] in numbers
        and row["started_at"] is not None
        and row["started_at"] <= reset.session.end
        for row in rows
    )


def _finding(context: DetectionContext, reset: _Reset) -> Finding:
    session = reset.session
    node, client, group, topic = session.subject
    name = client or node or "unknown"
    evidence = [*session.first, *reset.lines]
    deleted = count(reset.deleted, "record") if reset.deleted else "records"
    return context.finding(
        NAME,
        context.limits[NAME][_limit(reset)],
        f"{name} lost its position in {topic or 'a topic'} and {_what(reset)}"
        f"{_CAUSES[reset.cause][0].format(deleted=deleted)}",
        session.begin,
        session.end,
        evidence,
        stated=reset.cause != "offsets_expired",
        partitions=reset.partitions,
        clients=[name],
        measures={
            "group": group,
            "topic": topic,
            "cause": reset.cause,
            "ends": "consumer fails" if reset.fails else "position reset",
            "times": session.count,
            "skipped": reset.skipped,
            "read_again": reset.again,
            "skipped_max": reset.skipped_max,
            "deleted": reset.deleted,
        },
        explanation=f"{_CAUSES[reset.cause][1]} {_END['fails' if reset.fails else 'resets']}",
        actions=_actions(context, reset),
        why=_why(reset),
        doubts=_doubts(reset),
    )


def _limit(reset: _Reset) -> str:
    if reset.fails:
        return "fails"
    return "again" if reset.again and not reset.skipped else "skips"


def _what(reset: _Reset) -> str:
    if reset.fails:
        return "stops"
    if reset.skipped:
        return f"skipped {count(reset.skipped, 'record')}"
    if reset.skipped_max:
        return f"skipped up to {count(reset.skipped_max, 'record')}"
    if reset.again and reset.cause == "topic_recreated":
        return "starts over"
    if reset.again:
        return f"reads {count(reset.again, 'record')} again"
    return "went on elsewhere (records skipped or read again: not known how many)"


def _actions(context: DetectionContext, reset: _Reset) -> list[str]:
    _, client, group, topic = reset.session.subject
    commands = [context.commands.group(group)] if group else []
    if topic:
        commands.append(context.commands.begin_offsets(topic))
    whom = quote(client or "the consumer")
    if reset.cause == "offsets_expired":
        whom = f"group {quote(group or 'of the consumer')}"
    named = f"topic {quote(topic)}" if topic else "the topic"
    about = _CAUSES[reset.cause][2].format(whom, topic=named)
    if not (group and topic):
        return [*commands, about][:3]
    if reset.fails:
        command = context.commands.reset_offsets(group, topic)
        # Before that it would lose its position at once again.
        back = f"{_again(about)}; then, {_STOPPED} the first record left, and start it again"
        return [f"{command}   # {back}; {_EXECUTE}", *commands, about]
    if reset.left_at is not None and reset.skipped_max:
        since = to_iso(reset.left_at).removesuffix("Z")
        command = context.commands.reset_offsets(group, topic, f"--to-datetime {since}")
        back = f"{_STOPPED} where it stopped, to read what is left of what it skipped; {_EXECUTE}"
        return [f"{command}   # {back}; {_again(about)}", about, *commands]
    left = []
    if reset.skipped and reset.cause in ("delete_records", "retention"):
        # It was sent to the end: what lies before that and was not deleted can still be read.
        command = context.commands.reset_offsets(group, topic)
        back = f"{_STOPPED} the first record left of what it skipped, to read all since then again"
        left = [f"{command}   # {back}; {_EXECUTE}"]
    return [*commands, about, *left]


def _again(about: str) -> str:
    """Say what has to be done, too, or else it happens again."""
    return f"{about[:1].lower()}{about[1:].rstrip('.')}"


_STOPPED = "while the group is stopped: back to"
_EXECUTE = "this only shows the offsets, --execute in place of --dry-run sets them"


def _why(reset: _Reset) -> str:
    text = f"{reset.session.count} lines of this client say so"
    if reset.skipped or reset.again:
        text += (
            f": from the lost position to the new one it is {reset.skipped or reset.again} records"
        )
    return text


def _doubts(reset: _Reset) -> list[str]:
    doubts = []
    if reset.cause == "unknown":
        doubts.append("No line of a broker in the archive says why the position was gone.")
    if reset.cause == "offsets_expired":
        doubts.append("A group that was deleted on purpose looks the same.")
    if reset.cause == "truncation":
        doubts.append("What the consumer had read of the truncated part cannot be read again.")
    return doubts


_END = {
    "fails": "Its auto.offset.reset is none, or the application does not handle it: the consumer "
    "stops with an exception, and does so again each time it is started.",
    "resets": "The consumer went where auto.offset.reset sends it: with latest it skips all that "
    "was written since, with earliest it reads all that is there.",
}
_CAUSES = {
    "retention": (
        ": retention had deleted it",
        (
            "What the consumer was to read next had already been deleted by retention: it was away "
            "for longer, or is slower, than the topic keeps records."
        ),
        "Raise retention.ms or retention.bytes of {topic} above the longest time {} may be away.",
    ),
    "delete_records": (
        ": somebody deleted {deleted}",
        "Somebody deleted the records up to an offset beyond the consumer's position.",
        "Ask who ran kafka-delete-records on {topic} while {} was reading.",
    ),
    "offsets_expired": (
        ": the offsets of its group had expired",
        (
            "The group was empty for longer than offsets.retention.minutes, so its committed "
            "offsets were dropped, and it begins like a new one."
        ),
        "Raise offsets.retention.minutes of the brokers above the longest time {} may be away.",
    ),
    "truncation": (
        ": the log was cut back",
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
        ": the topic was deleted",
        "The topic was deleted, and the offsets of one of the same name begin anew.",
        "Reset the offsets of the group of {} when a topic is created again.",
    ),
    "unknown": (
        "",
        "The position that the consumer asked for is not in the leader's log.",
        "Compare the committed offsets of {} with where the log begins and ends.",
    ),
}
