"""Reassignments: when partitions were given other replicas, and whether that was ever done.

Each partition whose first replica changes moves its leader, and clients hear of it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.detection.requirements import LogRequirements
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "reassignment"
# Under ZooKeeper the controller is a broker.
NEEDS = LogRequirements(("broker", "controller"), ("server", "controller"))
_DONE = ("reassignment_done", "reassignment_caught_up")
_UNDER_WAY = re.compile(r"(?:adding|removing)Replicas=\[\d")
_LISTS = re.compile(r"\b(replicas|removingReplicas|addingReplicas)=\[([\d, ]*)\]")
_SHOWN = 10


@dataclass
class _Move:
    """One partition that gets other replicas; without a first line only its end is logged."""

    partition: str
    first: Row
    last: Row | None
    # the last line on what was asked for, which may have been changed meanwhile
    asked: Row | None = None

    @property
    def begin(self) -> int:
        return int(self.first["at"])

    @property
    def is_cancelled(self) -> bool | None:
        """Whether it ended with other replicas than were asked for; None: no line tells."""
        wanted, got = _replicas(self.asked), _replicas(self.last)
        if not wanted or not got:
            return None
        kept = set(got["replicas"])
        return not (kept >= set(wanted["addingReplicas"])
                    and kept.isdisjoint(wanted["removingReplicas"]))  # fmt: skip


def _replicas(row: Row | None) -> dict[str, list[str]]:
    """Return the lists of replicas that a line names; empty if it does not name all three."""
    found = dict(_LISTS.findall(row["detail"] or "")) if row is not None else {}
    return (
        {name: re.findall(r"\d+", text) for name, text in found.items()} if len(found) > 2 else {}
    )


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time at which somebody reassigned partitions."""
    kinds = ("reassignment", *_DONE)
    rows = [
        row
        for row in context.events(*kinds)
        if row["topic"] and row["partition"] is not None and context.is_live(row)
    ]
    moves = sorted(_moves(rows), key=lambda move: (move.begin, move.partition))
    gap = context.limits[NAME]["gap"] * SECOND
    for group in sessions(moves, lambda move: move.begin, gap):
        yield _finding(context, group)


def _moves(rows: Sequence[Row]) -> Iterator[_Move]:
    """Pair the begin of each reassignment with its end; controllers repeat each other's lines."""
    open_moves: dict[str, _Move] = {}
    ended: dict[str, int] = {}
    for row in rows:
        name = partition_name(row)
        if row["kind"] not in _DONE and _UNDER_WAY.search(row["detail"] or ""):
            if name in open_moves:
                open_moves[name].asked = row
            elif row["at"] - ended.get(name, -_ECHO) >= _ECHO:
                open_moves[name] = _Move(name, row, None, row)
        elif name in open_moves:
            move = open_moves.pop(name)
            move.last, ended[name] = row, row["at"]
            yield move
        elif row["kind"] == "reassignment_caught_up":
            yield _Move(name, row, row)
    yield from open_moves.values()


def _finding(context: DetectionContext, moves: Sequence[_Move]) -> Finding:
    limits = context.limits[NAME]
    undone = [move for move in moves if move.last is None]
    begin = moves[0].begin
    ends = [move.last["at"] for move in moves if move.last is not None]
    end = context.logs_end if undone else max(ends)
    is_stuck = bool(undone) and end - max(move.begin for move in undone) > limits["late"] * SECOND
    took = round((end - begin) / SECOND, 1)
    names = [move.partition for move in moves]
    cancelled = sum(move.is_cancelled is True for move in moves)
    done = f"done after {took:g} s"
    if cancelled == len(moves):
        done = f"and that was cancelled after {took:g} s"
    elif cancelled:
        done = f"{cancelled} of them cancelled, the rest done after {took:g} s"
    if undone:
        done = f"{len(undone)} of them not done after {took:g} s, as the logs end"
    evidence = [
        row for move in (undone or moves)[:_SHOWN] for row in (move.first, move.last) if row
    ]
    topic = (undone or moves)[0].partition.rpartition("-")[0]
    return context.finding(
        NAME,
        limits["stuck" if is_stuck else "severity"],
        f"{quantity(len(moves), 'partition')} reassigned, {done}",
        begin,
        max(begin, end),
        evidence,
        partitions=sorted(set(names)),
        measures={
            "partitions": len(moves),
            "not_done": len(undone),
            "cancelled": cancelled,
            "duration_s": took,
        },
        explanation=(_STUCK if is_stuck else _MECHANISM) + (_CANCELLED if cancelled else ""),
        actions=[
            f"{context.commands.reassignments()}   # which are under way now?",
            f"{context.commands.topic(topic)}   # are the new replicas in the ISR?",
            _UNSTICK if is_stuck else _QUIET,
        ],
        why=f"not done within {limits['late']} s" if is_stuck else "somebody asked for it",
        doubts=_DOUBTS if any(move.is_cancelled is None for move in moves if move.last) else [],
    )


# A controller that follows applies a record within so long of the active one.
_ECHO = 10 * SECOND
_MECHANISM = (
    "The new replicas copy the partition, join the ISR, and the old ones leave. Where the first "
    "replica changes, the leader moves too: clients get one burst of stale metadata."
)
_CANCELLED = " What was cancelled went back to the replicas that it had before."
_DOUBTS = ["A reassignment that was cancelled looks as if it were done."]
_STUCK = (
    "The new replicas copy the partition and must join the ISR before the old ones leave; here they"
    " did not. A replica's broker may be away, its disk full, or a throttle too low."
)
_QUIET = "Reassign at quiet hours, a few partitions at a time: the copies compete with clients."
_UNSTICK = (
    "See whether the brokers of the new replicas are up and have disk, and whether "
    "leader.replication.throttled.rate is below what producers write. Cancel it only after that."
)
