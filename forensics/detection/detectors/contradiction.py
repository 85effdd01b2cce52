"""Lines that contradict each other: a promise of Kafka's that they cannot both keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.history.nodes.controller_terms import EpochConflict
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "contradiction"


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each promise that is broken, and for each epoch with two rulers."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    limit = context.limits[NAME]["most"]
    unread = context.count_beyond("breaches", limit)
    for row in context.first_rows("breaches", limit):
        groups.setdefault((row["invariant"], bool(row["alone"])), []).append(row)
    for invariant, is_alone in sorted(groups):
        yield _finding(context, invariant, groups[invariant, is_alone], unread, is_alone=is_alone)
    for conflict in context.history.lanes.terms.conflicts:
        yield _epoch_conflict_finding(context, conflict)


def _epoch_conflict_finding(context: DetectionContext, conflict: EpochConflict) -> Finding:
    begin = min(line["at"] for line in conflict.evidence)
    end = max(line["at"] for line in conflict.evidence)
    return context.finding(
        NAME,
        context.limits[NAME]["rivalry"],
        conflict.title,
        begin,
        end,
        conflict.evidence,
        stated=False,
        measures={"invariant": conflict.invariant, "epoch": conflict.epoch, "breaches": 1},
        explanation=_EXPLANATIONS[conflict.invariant],
        actions=[_ACTION],
        why="two nodes claim one epoch; there is no limit to that",
        doubts=_DOUBTS,
    )


def _finding(
    context: DetectionContext, invariant: str, rows: Sequence[Row], unread: int, *, is_alone: bool
) -> Finding:
    ordered = sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"]))
    names = sorted({partition_name(row) for row in ordered})
    first = ordered[0]
    others = len(names) - 1
    more = f", and {quantity(others, 'partition')} more" if others else ""
    begin, end = first["started_at"], ordered[-1]["started_at"]
    evidence = context.read_lines(one for row in ordered[:_SHOWN] for one in row["evidence"])
    confidence, reason = context.confidence(begin, end, evidence, stated=False)
    # Each row of a partition repeats how often it broke the promise.
    count = sum({partition_name(row): row["count"] for row in ordered}.values())
    return context.finding(
        NAME,
        context.limits[NAME]["alone" if is_alone else "broken"],
        f"Lines about {partition_name(first)} contradict each other: {first['detail']}{more}",
        begin,
        end,
        evidence,
        confidence=("possible" if is_alone else confidence, reason),
        partitions=names,
        measures={
            "invariant": invariant,
            "breaches": count,
            "rows_not_looked_at": unread,
            "examples": [
                {"partition": partition_name(row), "detail": row["detail"]}
                for row in ordered[:_SHOWN]
            ],
        },
        explanation=_EXPLANATIONS[invariant]
        + (_ALONE if is_alone else "")
        + (_UNREAD.format(unread) if unread else ""),
        actions=[_ACTION],
        why=f"{count} times on {len(names)} partitions; a promise of Kafka's is broken once or not",
        doubts=_DOUBTS,
    )


_SHOWN = 10
_EXPLANATIONS = {
    "epochs never fall": "The leader epoch of a partition only grows, from one state to the next.",
    "one leader per epoch": "In one leader epoch a partition has one leader, in every log.",
    "ISR within replicas": "Only a replica of a partition can be in sync with its leader.",
    "leader in ISR": "A leader is in sync with itself; after an unclean election it is alone.",
    "high watermark within log": "What is committed lies in the log: the high watermark cannot be "
    "beyond its end.",
    "one controller per epoch": "A controller epoch belongs to one node. Two that claim the same "
    "one are two clusters, or a quorum that was torn apart.",
}
_DOUBTS = (
    "Logs of two clusters in one archive, or of a topic before it was deleted and created again.",
    "A clock that is wrong by more than these logs tell brings lines into a wrong order.",
)
_UNREAD = " {:,} further rows of tables/breaches were not looked at, so there may be more."
_ALONE = " Only a node that hung or was away then says so: it may have spoken of the past."
_ACTION = (
    "Look whether the archive mixes two clusters, or holds the logs of a topic from before it was "
    "deleted; if not, ask Kafka's developers, with these lines."
)
