"""Brokers that lead partitions only in their own eyes: their changes of the ISR are always refused.

Under ZooKeeper it begins with a lost session: the controller gave the partitions to others, and the
broker was never told. It goes on taking records of producers that know no better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import (
    MAX_QUOTED_PARTITIONS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
    partition_name,
)
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession
from forensics.detection.shared.isr_changes import find_rejection_loops
from forensics.lib.formatting import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "metadata-version-loop"
# The leader's own log tells, and in KRaft the controller's too.
NEEDS = LogRequirements(("broker", "controller"), ("server", "controller"))
_LOST = (
    "session_expired", "zookeeper_disconnected", "zookeeper_expiring", "registration_failed",
    "broker_reregistered",
)  # fmt: skip
_PLACE = ("ts", "node", "file", "line", "text", "rule", "kind", "error")
# Of what a broker says of its session so many lines are evidence.
_SHOWN = 10
# From two minutes on, seconds are hard to grasp.
_LONG = 120


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that is refused again and again."""
    for broker, mine in sorted(find_rejection_loops(context).items()):
        yield _finding(context, broker, mine)


def _finding(context: DetectionContext, broker: int, mine: Sequence[EventSession]) -> Finding:
    limits = context.limits[NAME]
    begin, end = min(one.begin for one in mine), max(one.end for one in mine)
    lost = _session(context, mine, begin, end)
    names = sorted(f"{one.subject[0]}-{one.subject[1]}" for one in mine)
    others = _led_by_others(context, broker, names[:MAX_QUOTED_PARTITIONS], begin, end)
    first = [row for one in mine[:_SHOWN] for row in one.first[:_SHOWN]]
    evidence = [*lost, *first]
    confidence, reason = context.confidence(begin, end, evidence, stated=True)
    count = sum(one.count for one in mine)
    return Finding(
        detector=NAME,
        severity=str(limits["severity"]),
        confidence=confidence,
        title=_title(broker, names, end - begin),
        begin=min([begin, *(row["at"] for row in lost)]),
        end=end,
        evidence=evidence,
        brokers=sorted({broker, *others.values()}),
        partitions=names,
        measures={
            "refusals": count,
            "partitions": len(names),
            "duration_s": round((end - begin) / SECOND, 1),
            "led_by_others": len(others),
            "session_lost": any(row["kind"] != "registration_failed" for row in lost),
            "registration_refused": any(row["kind"] == "registration_failed" for row in lost),
        },
        explanation=_explanation(broker, others, lost),
        actions=_actions(context, broker, names[0]),
        why=f"refused {count} times on {len(names)} partitions, for {_minutes(end - begin)};"
        f" {limits['repeats']} refusals of one version over more than {limits['lasting']} s are a"
        " loop",
        reason=reason,
        doubts=_DOUBTS,
    )


def _session(
    context: DetectionContext, mine: Sequence[EventSession], begin: int, end: int
) -> list[Row]:
    """Read what the broker says of its session, from shortly before the loop."""
    since = begin - context.limits[NAME]["before"] * SECOND
    nodes = sorted({str(row["node"]) for one in mine for row in one.first if row["node"]})
    where = pc.field("kind").isin(list(_LOST)) & pc.field("ts").is_valid()
    rows = [
        row
        for row in context.each("events", where & pc.field("node").isin(nodes), _PLACE)
        if since <= row["at"] <= end
    ]
    return sorted(rows, key=by_time)[:_SHOWN]


def _led_by_others(
    context: DetectionContext, broker: int, names: Sequence[str], begin: int, end: int
) -> Mapping[str, int]:
    """Find who led the partitions meanwhile, in the eyes of the cluster."""
    where = in_topics(name.rpartition("-")[0] for name in names)
    where &= (pc.field("leader") >= 0) & (pc.field("leader") != broker)
    columns = ["topic", "partition", "leader", "started_at", "ended_at"]
    return {
        partition_name(row): row["leader"]
        for row in context.each("leadership", where, columns)
        if partition_name(row) in names
        and (row["started_at"] is None or row["started_at"] <= end)
        and (row["ended_at"] is None or row["ended_at"] >= begin)
    }


def _minutes(micros: int) -> str:
    seconds = micros / SECOND
    return f"{seconds:.0f} s" if seconds < _LONG else f"{seconds / 60:.0f} minutes"


def _title(broker: int, names: Sequence[str], micros: int) -> str:
    where = quantity(len(names), "partition")
    return (
        f"Broker {broker} kept taking itself for the leader of {where} for {_minutes(micros)},"
        " and was refused"
    )


def _explanation(broker: int, others: Mapping[str, int], lost: Sequence[Row]) -> str:
    told = [_MECHANISM.format(broker=broker)]
    if others:
        leaders = ", ".join(str(one) for one in sorted(set(others.values())))
        told.append(
            f"For the cluster {len(others)} of these partitions were led by broker {leaders}"
            " meanwhile."
        )
    if any(row["kind"] == "registration_failed" for row in lost):
        told.append(_REFUSED)
    elif lost:
        told.append("Before, it lost its session with ZooKeeper.")
    else:
        told.append("What made it lose touch is not in these logs.")
    return " ".join(told)


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
