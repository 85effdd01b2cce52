"""Records with times in the future: their segments are not deleted by age, and disks fill."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.node_ids import broker_ids
from forensics.lib.time_units import DAY, SECOND
from forensics.run_output.findings import Finding

NAME = "future-timestamps"
# Older brokers keep such segments without a word.
NEEDS = LogRequirements(("broker",), ("server",), since=(4, 1))
# Clocks of hosts that are synchronised differ by less.
_FAST_MS = 60_000
_LARGEST = re.compile(r"largestRecordTimestamp=(\d{1,18})\b")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each topic that has such segments."""
    if not context.visibility.has_kinds("future_timestamps"):
        return
    where = pc.field("kind") == "future_timestamps"
    limits = context.limits[NAME]
    columns = ["partition", "node", "position"]
    for session in find_sessions(context, where, ["topic"], limits["gap"], columns):
        yield _finding(context, session)


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    limits, topic = context.limits[NAME], str(session.subject[0])
    ahead = _seconds_ahead(session)
    is_far = ahead is not None and ahead >= limits["far"]
    partitions = [f"{topic}-{number}" for number in session.values("partition")]
    nodes = session.values("node")
    return context.finding(
        NAME,
        limits["never" if is_far else "later"],
        f"Segments of {topic} are kept beyond their age: records with times {_describe(ahead)}",
        session.begin,
        session.end,
        session.first,
        brokers=sorted(broker_ids(nodes)),
        partitions=partitions,
        measures={
            "topic": topic,
            "partitions": len(partitions),
            "lines": session.count,
            "ahead_s": ahead,
        },
        explanation="A segment is deleted when its youngest record is older than retention.ms. "
        "Records with a time in the future keep it until that time has come and the retention is "
        "over, while the disk fills. Producers set that time unless message.timestamp.type is "
        "LogAppendTime." + _describe_clocks(context),
        actions=[
            f"{context.commands.topic_config(topic)}   # message.timestamp.type, retention.bytes",
            (
                "Look for the producer that gives times in another unit than milliseconds, or "
                "whose clock is ahead: chronyc tracking"
            ),
            context.commands.set_topic_config(topic, "message.timestamp.after.max.ms", "3600000")
            + "   # refuses such records; only when that producer is mended, or it fails",
        ],
        why=f"{session.count} lines; {_describe(ahead)}; from {limits['far']} s on nobody waits for"
        " it",
        doubts=["If the clock of the broker is behind, the records are right and it is wrong."],
    )


def _describe_clocks(context: DetectionContext) -> str:
    """Name the nodes whose clocks were ahead: they may have set these times."""
    ahead = context.rows("clocks", pc.field("offset_ms") > _FAST_MS, ["node", "offset_ms"])
    named = [f"{row['node']} by {row['offset_ms'] // 1000} s"
             for row in sorted(ahead, key=lambda row: str(row["node"]))]  # fmt: skip
    return f" Clocks that were ahead in these logs: {', '.join(named)}." if named else ""


def _seconds_ahead(session: EventSession) -> int | None:
    """Return how many seconds the latest record named is ahead of the line that names it."""
    leads = [
        int(match[1]) // 1000 - row["at"] // SECOND
        for row in session.first
        if (match := _LARGEST.search(row["text"] or ""))
    ]
    return max(leads, default=None)


def _describe(ahead: int | None) -> str:
    if ahead is None:
        return "in the future"
    if ahead * SECOND >= DAY:
        return f"{ahead * SECOND // DAY:,} days ahead"
    return f"{ahead / 3600:.1f} hours ahead" if ahead >= 3600 else f"{ahead} s ahead"
