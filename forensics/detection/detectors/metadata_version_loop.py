"""Brokers that lead partitions only in their own eyes: their changes of the ISR are always refused.

Under ZooKeeper it begins with a lost session: the controller gives the partitions to others, and
the broker never learns of it. It goes on accepting records of producers with old metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    MAX_QUOTED_PARTITIONS,
    DetectionContext,
    Row,
    by_time,
    partition_name,
)
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession
from forensics.detection.shared.isr_changes import find_rejection_loops
from forensics.lib.arrow_io import is_any_of
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "metadata-version-loop"
# Refusals are in the leader's own log, and in KRaft in the controller's too.
NEEDS = LogRequirements(("broker", "controller"), ("server", "controller"))
_SESSION_KINDS = (
    "session_expired", "zookeeper_disconnected", "zookeeper_expiring", "registration_failed",
    "broker_reregistered",
)  # fmt: skip
# At most so many lines about a broker's session, and about each loop, are evidence.
_SHOWN = 10
# From so many seconds on, a length is given in minutes.
_MINUTES_FROM = 120


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that is refused again and again."""
    for broker, loops in sorted(find_rejection_loops(context).items()):
        yield _finding(context, broker, loops)


def _finding(context: DetectionContext, broker: int, loops: Sequence[EventSession]) -> Finding:
    limits = context.limits[NAME]
    begin, end = min(loop.begin for loop in loops), max(loop.end for loop in loops)
    session_rows = _read_session_rows(context, loops, begin, end)
    names = sorted(f"{loop.subject[0]}-{loop.subject[1]}" for loop in loops)
    other_leaders = _find_other_leaders(context, broker, names[:MAX_QUOTED_PARTITIONS], begin, end)
    loop_rows = [row for loop in loops[:_SHOWN] for row in loop.first[:_SHOWN]]
    evidence = [*session_rows, *loop_rows]
    count, length = sum(loop.count for loop in loops), _describe_length(end - begin)
    return context.finding(
        NAME,
        limits["severity"],
        _title(broker, names, length),
        min([begin, *(row["at"] for row in session_rows)]),
        end,
        evidence,
        confidence=context.confidence(begin, end, evidence, stated=True),
        brokers=sorted({broker, *other_leaders.values()}),
        partitions=names,
        measures={
            "refusals": count,
            "partitions": len(names),
            "duration_s": round((end - begin) / SECOND, 1),
            "led_by_others": len(other_leaders),
            "session_lost": any(row["kind"] != "registration_failed" for row in session_rows),
            "registration_refused": any(
                row["kind"] == "registration_failed" for row in session_rows
            ),
        },
        explanation=_explanation(broker, other_leaders, session_rows),
        actions=_actions(context, broker, names[0]),
        why=f"refused {count} times on {len(names)} partitions, for {length};"
        f" {limits['repeats']} refusals of one version over more than {limits['lasting']} s are a"
        " loop",
        doubts=_DOUBTS,
    )


def _read_session_rows(
    context: DetectionContext, loops: Sequence[EventSession], begin: int, end: int
) -> list[Row]:
    """Read what the broker logs about its session, from shortly before the loop."""
    since = begin - context.limits[NAME]["before"] * SECOND
    nodes = sorted({str(row["node"]) for loop in loops for row in loop.first if row["node"]})
    where = pc.field("kind").isin(list(_SESSION_KINDS)) & pc.field("ts").is_valid()
    rows = [
        row
        for row in context.each(
            "events", where & is_any_of("node", nodes), [*EVIDENCE_COLUMNS, "kind"]
        )
        if since <= row["at"] <= end
    ]
    return sorted(rows, key=by_time)[:_SHOWN]


def _find_other_leaders(
    context: DetectionContext, broker: int, names: Sequence[str], begin: int, end: int
) -> Mapping[str, int]:
    """Find who led the partitions meanwhile, as the cluster knows it."""
    return {
        partition_name(row): row["leader"]
        for row in context.leader_epochs(names)
        if row["leader"] not in (None, -1, broker)
        and (row["started_at"] is None or row["started_at"] <= end)
        and (row["ended_at"] is None or row["ended_at"] >= begin)
    }


def _describe_length(micros: int) -> str:
    seconds = micros / SECOND
    return f"{seconds:.0f} s" if seconds < _MINUTES_FROM else f"{seconds / 60:.0f} minutes"


def _title(broker: int, names: Sequence[str], length: str) -> str:
    where = quantity(len(names), "partition")
    return (
        f"Broker {broker} kept taking itself for the leader of {where} for {length},"
        " and was refused"
    )


def _explanation(broker: int, other_leaders: Mapping[str, int], session_rows: Sequence[Row]) -> str:
    parts = [_MECHANISM.format(broker=broker)]
    if other_leaders:
        leaders = ", ".join(str(leader) for leader in sorted(set(other_leaders.values())))
        parts.append(
            f"For the cluster {len(other_leaders)} of these partitions were led by broker {leaders}"
            " at that time."
        )
    if any(row["kind"] == "registration_failed" for row in session_rows):
        parts.append(_REFUSED)
    elif session_rows:
        parts.append("Before, it lost its session with ZooKeeper.")
    else:
        parts.append("What made it lose touch is not in these logs.")
    return " ".join(parts)


def _actions(context: DetectionContext, broker: int, name: str) -> list[str]:
    topic = name.rpartition("-")[0]
    look = f"{context.commands.topic(topic)}   # does another broker lead {name} for the cluster?"
    return [look, _RESTART.format(broker=broker), _DO_NOT]


_RESTART = (
    "Restart broker {broker} if another one leads, or if the lines go on: nothing else makes it "
    "take over what the cluster knows."
)
_DO_NOT = "Do not restart it while it is the last in sync of any partition."


_MECHANISM = (
    "Broker {broker} asks to change the ISR of partitions, and is refused since the version that "
    "it holds is not the one that was written last. It does not learn the new one, and asks again. "
    "What it says of leaders and ISRs from then on is void; records that producers with acks=1 "
    "send to it are cut off when it follows the real leader."
)
_REFUSED = (
    "It could not register again after it had lost its session: its old entry was still there."
)
_DOUBTS = (
    "If the broker still leads, in the cluster's eyes, only its ISR is stuck, and nothing is lost.",
    "A controller that was away itself refuses healthy leaders too, until it is back.",
)
