"""What else happened around an incident: brokers that came and went, leaders that moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.chips import proofs
from forensics.report.saved import Proof, Row, Saved
from forensics.report.words import count, listed

__all__ = ["Filler", "fillers"]

# Changes of leaders closer than this are one move.
TOGETHER = 2000
MOVES = ("failover", "unclean", "preferred", "reassignment", "controlled_shutdown")
BACK = ("preferred",)
LIFE = {
    "crashed": ("propagation", "is gone without a shutdown"),
    "fenced": ("propagation", "is fenced: it leads nothing"),
    "paused": ("propagation", "stands still"),
    "recovering": ("recovery", "starts and loads its logs"),
    "stopping": ("propagation", "shuts down in order"),
    "up": ("recovery", "serves again"),
}
LIVES = ("node", "broker", "state", "started_at", "evidence")
LED = ("topic", "partition", "leader", "previous_leader", "election", "started_at", "evidence")


@dataclass(frozen=True)
class Filler:
    """One thing that happened, and on which line that rests."""

    at: int
    group: str
    says: str
    who: str
    proofs: tuple[Proof, ...]


def fillers(saved: Saved, since: int, till: int) -> list[Filler]:
    """Give what happened within a stretch of time besides the findings."""
    found = [*_moves(saved, since, till), *_lives(saved, since, till)]
    return sorted(found, key=lambda one: (one.at, one.says))


def _lives(saved: Saved, since: int, till: int) -> Iterator[Filler]:
    brokers = ds.field("role") == "broker"
    rows = [row for row in saved.rows("lanes", LIVES, brokers) if row["started_at"] is not None]
    for row in rows:
        if row["state"] in LIFE and since <= row["started_at"] <= till:
            group, says = LIFE[row["state"]]
            who = row["node"] if row["broker"] is None else f"broker {row['broker']}"
            told = proofs(row["evidence"])[:1]
            yield Filler(row["started_at"], group, f"{who} {says}".capitalize(), who, told)


def _moves(saved: Saved, since: int, till: int) -> Iterator[Filler]:
    """Take changes of leaders of one kind, close to each other, as one move."""
    rows: list[Row] = []
    for part in saved.parts("leadership", LED, ds.field("election").isin(list(MOVES))):
        moment = part["started_at"]
        inside = pc.and_kleene(pc.greater_equal(moment, since), pc.less_equal(moment, till))
        rows += part.filter(pc.fill_null(inside, fill_value=False)).to_pylist()
    held: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"])):
        if row["leader"] in (None, -1):
            continue
        mine = held.get(row["election"], [])
        if mine and row["started_at"] - mine[-1]["started_at"] > TOGETHER:
            yield _move(mine)
            mine = []
        held[row["election"]] = [*mine, row] if len(mine) < 1 else _added(mine, row)
    for mine in held.values():
        yield _move(mine)


def _added(mine: list[Row], row: Row) -> list[Row]:
    mine.append(row)
    return mine


def _move(rows: Sequence[Row]) -> Filler:
    kind = str(rows[0]["election"])
    many = count(len(rows), "partition")
    gets = "gets" if len(rows) == 1 else "get"
    lost = Counter(
        row["previous_leader"] for row in rows if row["previous_leader"] not in (None, -1)
    )
    after = f" after broker {lost.most_common(1)[0][0]}" if len(lost) == 1 else ""
    names = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    says = f"{many} {gets} another leader{after} ({kind.replace('_', ' ')})"
    group = "recovery" if kind in BACK else "propagation"
    told = proofs(rows[0]["evidence"])[:1]
    return Filler(rows[0]["started_at"], group, says, listed(names), told)
