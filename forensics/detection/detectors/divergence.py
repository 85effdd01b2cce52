"""Replicas whose logs differ, and no election tells why: epochs that tear, marks that fall.

What a change of leader cuts as usual, and what an unclean leader costs, has its own detectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import MAX_QUOTED_PARTITIONS, DetectionContext, partition_name
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.node_ids import broker_ids, broker_node
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "divergence"
# Only the brokers that hold the logs report it.
NEEDS = LogRequirements(("broker",), ("server",))
_CLASSES = {
    "truncated_below_high_watermark": "committed",
    "truncation_forbidden": "committed",
    "epoch_conflict": "torn",
    "epoch_below_all": "torn",
    "high_watermark_fell": "torn",
    "follower_epoch_ahead": "behind",
}
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each group of lines, by what is wrong."""
    gap = context.limits[NAME]["stroke"]
    where = pc.field("kind").isin(list(_CLASSES)) & pc.field("topic").is_valid()
    where &= pc.field("partition").is_valid()
    by, columns = ["topic", "partition", "kind"], ["node", "high_watermark", "cut_to"]
    found = _unexplained(context, find_sessions(context, where, by, gap, columns))
    ordered = sorted(found, key=lambda session: (session.begin, session.subject))
    for name in ("committed", "torn", "behind"):
        own = [session for session in ordered if _CLASSES[session.subject[2]] == name]
        for group in sessions(own, lambda one: one.begin, gap * SECOND, lambda one: one.end):
            yield _finding(context, name, group)


def _unexplained(context: DetectionContext, found: Sequence[EventSession]) -> list[EventSession]:
    """Leave out what changes of leader explain."""
    limits = context.limits[NAME]
    names = {_partition(session) for session in found}
    unclean: dict[str, int] = {}
    changes: dict[str, list[int]] = defaultdict(list)
    for row in context.leader_epochs(names, ["clean"]) if names else ():
        name, begin = partition_name(row), row["started_at"]
        if row["clean"] is False:
            # An unclean election without a time may have come before all of it.
            unclean[name] = min(begin or 0, unclean.get(name, begin or 0))
        elif begin is not None:
            changes[name].append(begin)
    deeply_cut = _deeply_cut_partitions(context)

    def is_explained(session: EventSession) -> bool:
        name, kind = _partition(session), session.subject[2]
        return bool(
            unclean.get(name, session.end + 1) <= session.end
            or (kind == "high_watermark_fell" and _is_usual(context, session, changes[name]))
            or (kind == "truncated_below_high_watermark" and name in deeply_cut)
            or (kind == "follower_epoch_ahead" and session.seconds <= limits["lasting"])
        )

    return [session for session in found if not is_explained(session)]


def _is_usual(context: DetectionContext, session: EventSession, changes: Sequence[int]) -> bool:
    """Return True if the broker began to follow another leader just then, or came back."""
    clocks, nodes = context.history.clocks, session.values("node")
    # Where a clock may have been set anew, nobody knows what was near.
    doubts = (clocks.uncertainty(node, session.begin) or 0 for node in nodes)
    near = context.limits[NAME]["near"] * SECOND + max(doubts, default=0)
    back = [
        absence.end
        for absence in context.absences
        if absence.end is not None and broker_node(absence.broker) in session.value_counts["node"]
    ]
    begin, end = session.begin - near, session.end + near
    return any(begin <= moment <= end for moment in (*changes, *back))


def _deeply_cut_partitions(context: DetectionContext) -> set[str]:
    """Name the partitions whose deep cuts are reported as truncations or unclean elections."""
    rows = context.first_rows("cuts", context.limits["truncation"]["most"])
    deep = [row for row in rows if row["unclean"] or (row["high_watermark"] or 0) > row["cut_to"]]
    return {partition_name(row) for row in deep}


def _partition(session: EventSession) -> str:
    return f"{session.subject[0]}-{session.subject[1]}"


def _finding(context: DetectionContext, name: str, group: Sequence[EventSession]) -> Finding:
    limits = context.limits[NAME]
    begin, end = min(session.begin for session in group), max(session.end for session in group)
    names = sorted({_partition(session) for session in group})
    evidence = [row for session in group[:MAX_QUOTED_PARTITIONS] for row in session.first[:_SHOWN]]
    kinds = sorted({session.subject[2] for session in group})
    nodes = sorted({node for session in group for node in session.values("node")})
    topic, _, number = names[0].rpartition("-")
    return context.finding(
        NAME,
        limits[name],
        _TITLES[name].format(where=quantity(len(names), "partition")),
        begin,
        end,
        evidence,
        brokers=sorted(broker_ids(nodes)),
        partitions=names,
        measures={
            "partitions": len(names),
            "lines": sum(session.count for session in group),
            "kinds": kinds,
            "deepest": _deepest(group),
        },
        explanation=_EXPLANATIONS[name],
        actions=[
            context.commands.leader_epochs(topic, int(number)),
            f"{context.commands.verify_replicas(topic)}   {_ALL}",
            _DO_NOT,
        ],
        why=_why(limits, name, group),
        doubts=_DOUBTS,
    )


def _deepest(group: Sequence[EventSession]) -> int | None:
    """Return how far the mark fell, or the log was cut, at most; by the first lines of each."""
    depths = [
        row["high_watermark"] - row["cut_to"]
        for session in group
        for row in session.first
        if row["high_watermark"] is not None and row["cut_to"] is not None
    ]
    return max(depths, default=None)


def _why(limits: Mapping[str, Any], name: str, group: Sequence[EventSession]) -> str:
    lines = sum(session.count for session in group)
    if name == "behind":
        longest = max(session.seconds for session in group)
        return f"for {longest} s; a change of leader takes no longer than {limits['lasting']} s"
    return f"{lines} lines, and no change of leader within {limits['near']} s that explains them"


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
_ALL = "# reads the whole topic, and reports each 30 s; all its brokers must be up"
_DO_NOT = (
    "Do not delete a replica's log to repair it before you know which one has the records that "
    "consumers saw."
)
_DOUBTS = (
    "A topic that was deleted and made again under the same name looks like a torn log.",
    "A change of leader that these logs do not tell explains it too.",
)
