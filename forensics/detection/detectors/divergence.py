"""Replicas whose logs differ, and no election tells why: epochs that tear, marks that fall.

What a change of leader cuts in the usual way, and what an unclean leader costs, is told elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import MAX_QUOTED_PARTITIONS, DetectionContext
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.formatting import quantity
from forensics.lib.node_ids import broker_node
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "divergence"
# Only the brokers that hold the logs tell of that.
NEEDS = LogRequirements(("broker",), ("server",))
_CLASS_OF = {
    "truncated_below_high_watermark": "committed",
    "truncation_forbidden": "committed",
    "epoch_conflict": "torn",
    "epoch_below_all": "torn",
    "high_watermark_fell": "torn",
    "follower_epoch_ahead": "behind",
}
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each stroke, by what is wrong."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(_CLASS_OF)) & pc.field("topic").is_valid()
    where &= pc.field("partition").is_valid()
    subject = ["topic", "partition", "kind"]
    found = find_sessions(
        context, where, subject, limits["stroke"], ["node", "high_watermark", "cut_to"]
    )
    own = _unexplained(context, found)
    for what in ("committed", "torn", "behind"):
        mine = [one for one in own if _CLASS_OF[one.subject[2]] == what]
        for group in _strokes(mine, limits["stroke"] * SECOND):
            yield _finding(context, what, group)


def _unexplained(context: DetectionContext, found: Sequence[EventSession]) -> list[EventSession]:
    """Leave out what changes of leader explain."""
    limits = context.limits[NAME]
    names = {_name(one) for one in found}
    unclean: dict[str, int] = {}
    changes: dict[str, list[int]] = {}
    for row in context.leader_epochs(names, ["clean"]) if names else ():
        name, begin = f"{row['topic']}-{row['partition']}", row["started_at"]
        if row["clean"] is False:
            # One whose moment nobody tells may lie before all of it.
            unclean[name] = min(begin or 0, unclean.get(name, begin or 0))
        elif begin is not None:
            changes.setdefault(name, []).append(begin)
    told = _told_of_cuts(context)
    own = []
    for one in found:
        name, kind = _name(one), one.subject[2]
        if unclean.get(name, one.end + 1) <= one.end:
            continue
        if kind == "high_watermark_fell" and _is_usual(context, one, changes.get(name, ())):
            continue
        if kind == "truncated_below_high_watermark" and name in told:
            continue
        if kind == "follower_epoch_ahead" and one.seconds <= limits["lasting"]:
            continue
        own.append(one)
    return own


def _is_usual(context: DetectionContext, one: EventSession, changes: Sequence[int]) -> bool:
    """Whether the broker began to follow another leader just then, or came back to do so."""
    near = context.limits[NAME]["near"] * SECOND
    back = [
        absence.end
        for absence in context.absences
        if absence.end is not None and broker_node(absence.broker) in one.value_counts["node"]
    ]
    return any(one.begin - near <= moment <= one.end + near for moment in (*changes, *back))


def _told_of_cuts(context: DetectionContext) -> set[str]:
    """Name the partitions of which it is told that their logs were cut as deep as that."""
    rows = context.first_rows("cuts", context.limits["truncation"]["most"])
    deep = [row for row in rows if row["unclean"] or (row["high_watermark"] or 0) > row["cut_to"]]
    return {f"{row['topic']}-{row['partition']}" for row in deep}


def _name(one: EventSession) -> str:
    return f"{one.subject[0]}-{one.subject[1]}"


def _strokes(found: Sequence[EventSession], gap: int) -> Iterator[list[EventSession]]:
    group: list[EventSession] = []
    for one in sorted(found, key=lambda burst: (burst.begin, burst.subject)):
        if group and one.begin - max(before.end for before in group[-_SHOWN:]) > gap:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _finding(context: DetectionContext, what: str, group: Sequence[EventSession]) -> Finding:
    limits = context.limits[NAME]
    begin, end = min(one.begin for one in group), max(one.end for one in group)
    names = sorted({_name(one) for one in group})
    evidence = [row for one in group[:MAX_QUOTED_PARTITIONS] for row in one.first[:_SHOWN]]
    confidence, reason = context.confidence(begin, end, evidence, stated=True)
    kinds = sorted({one.subject[2] for one in group})
    nodes = sorted({node for one in group for node in one.values("node")})
    topic, _, number = names[0].rpartition("-")
    return Finding(
        detector=NAME,
        severity=str(limits[what]),
        confidence=confidence,
        title=_TITLES[what].format(where=_many(len(names))),
        begin=begin,
        end=end,
        evidence=evidence,
        brokers=sorted(int(node[7:]) for node in nodes if node[7:].isdigit()),
        partitions=names,
        measures={
            "partitions": len(names),
            "lines": sum(one.count for one in group),
            "kinds": kinds,
            "deepest": _deepest(group),
        },
        explanation=_EXPLANATIONS[what],
        actions=[
            context.commands.leader_epochs(topic, int(number)),
            f"{context.commands.verify_replicas(topic)}   # reads the whole topic",
            _DO_NOT,
        ],
        why=_why(limits, what, group),
        reason=reason,
        doubts=_DOUBTS,
    )


def _deepest(group: Sequence[EventSession]) -> int | None:
    """Give how far the mark fell, or the log was cut, at most; of the first lines of each."""
    falls = [
        row["high_watermark"] - row["cut_to"]
        for one in group
        for row in one.first
        if row["high_watermark"] is not None and row["cut_to"] is not None
    ]
    return max(falls, default=None)


def _why(limits: Mapping[str, Any], what: str, group: Sequence[EventSession]) -> str:
    lines = sum(one.count for one in group)
    if what == "behind":
        longest = max(one.seconds for one in group)
        return f"for {longest} s; a change of leader takes no longer than {limits['lasting']} s"
    return f"{lines} lines, and no change of leader within {limits['near']} s that explains them"


def _many(count: int) -> str:
    return quantity(count, "partition")


_TITLES = {
    "committed": "Committed records were about to be cut off {where}, and no election explains it",
    "torn": "Logs of {where} differ between replicas, and no change of leader explains it",
    "behind": "Followers know of a newer leader epoch than their leaders: {where}",
}
_EXPLANATIONS = {
    "committed": "A follower holds records below its high watermark that its leader does not have. "
    "They had been acknowledged to producers with acks=all. A leader lost them (a disk that lied, "
    "a log restored from a copy), or was elected uncleanly where these logs do not tell.",
    "torn": "Leader epochs of a log and of its leader do not fit together, or a high watermark went"
    " back, while the leader stayed. Consumers may have read records that are gone, or others under"
    " the same offsets.",
    "behind": "The leader refuses followers, for it was told of an older epoch: it has not taken"
    " over what the controller decided. Until it does, nobody copies from it.",
}
_DO_NOT = (
    "Do not delete a replica's log to repair it before you know which one has the records that "
    "consumers saw."
)
_DOUBTS = (
    "A topic that was deleted and made again under the same name looks like a torn log.",
    "A change of leader that these logs do not tell explains it too.",
)
