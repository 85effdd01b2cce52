"""Partitions with equal histories become one row, and the row lists its members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.report.saved import Row, Saved

__all__ = ["Reign", "Strand", "fold", "strands"]

COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "started_at", "ended_at", "election", "clean",
    "how",
)  # fmt: skip
# Brokers log the same change a little apart; histories this close are the same.
TICK = 1000
ROWS, BARS = 200, 4000


@dataclass(frozen=True)
class Reign:
    """One leader epoch, or the same one of several partitions."""

    leader: int | None
    epochs: tuple[int, int]
    start: int
    end: int
    unclean: bool
    election: str
    inferred: bool


@dataclass(frozen=True)
class Strand:
    """One row of the figure: the partitions that share a history, and that history."""

    members: tuple[str, ...]
    reigns: tuple[Reign, ...]

    @property
    def harm(self) -> tuple[int, int, int]:
        """How bad: unclean elections, time without a leader, changes."""
        dark = sum(reign.end - reign.start for reign in self.reigns if reign.leader == -1)
        return sum(reign.unclean for reign in self.reigns), dark, len(self.reigns)

    @property
    def label(self) -> str:
        """The first member and how many more."""
        more = len(self.members) - 1
        return self.members[0] + (f" +{more}" if more else "")


def strands(saved: Saved) -> tuple[list[Strand], int, int]:
    """Read, fold and rank; gives the rows to draw, and partitions and rows in all."""
    whole = saved.window
    if not whole:
        return [], 0, 0
    histories: dict[str, list[Reign]] = {}
    for row in saved.rows("leadership", COLUMNS):
        name = f"{row['topic']}-{row['partition']}"
        histories.setdefault(name, []).append(_reign(row, whole))
    folded = fold(histories.items())
    return _capped(folded), len(histories), len(folded)


def _reign(row: Row, whole: tuple[int, int]) -> Reign:
    start = whole[0] if row["started_at"] is None else row["started_at"]
    end = whole[1] if row["ended_at"] is None else row["ended_at"]
    epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
    return Reign(
        leader=row["leader"],
        epochs=(epoch, epoch),
        start=start,
        end=max(start, end),
        unclean=row["clean"] is False,
        election=row["election"] or "unknown",
        inferred=row["how"] == "inferred",
    )


def fold(histories: Iterable[tuple[str, Sequence[Reign]]]) -> list[Strand]:
    """Put equal histories together, most harm first."""
    groups: dict[tuple[object, ...], list[tuple[str, list[Reign]]]] = {}
    for name, reigns in sorted(histories, key=lambda item: _natural(item[0])):
        ordered = sorted(reigns, key=lambda reign: (reign.start, reign.epochs))
        groups.setdefault(tuple(map(_key, ordered)), []).append((name, ordered))
    rows = [
        Strand(
            tuple(name for name, _ in group),
            tuple(map(_same, zip(*(reigns for _, reigns in group), strict=True))),
        )
        for group in groups.values()
    ]
    return sorted(rows, key=lambda row: ([-part for part in row.harm], _natural(row.members[0])))


def _key(reign: Reign) -> tuple[object, ...]:
    return reign.leader, reign.start // TICK, reign.end // TICK, reign.unclean, reign.inferred


def _same(reigns: Sequence[Reign]) -> Reign:
    first = reigns[0]
    epochs = [reign.epochs[0] for reign in reigns]
    return Reign(
        leader=first.leader,
        epochs=(min(epochs), max(epochs)),
        start=min(reign.start for reign in reigns),
        end=max(reign.end for reign in reigns),
        unclean=first.unclean,
        election=first.election,
        inferred=first.inferred,
    )


def _natural(name: str) -> tuple[str, int, str]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else -1, name


def _capped(rows: list[Strand]) -> list[Strand]:
    kept, bars = [], 0
    for row in rows[:ROWS]:
        bars += len(row.reigns)
        if bars > BARS:
            break
        kept.append(row)
    return kept
