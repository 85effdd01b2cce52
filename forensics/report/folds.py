"""Partitions with equal histories become one row, and the row lists its members."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from forensics.report.histories import History, Name, Reign, histories
from forensics.report.saved import Saved

__all__ = ["Reign", "Strand", "strands"]

# Rows of the figure, bars in all of them, and bars in one.
ROWS, BARS, LONGEST = 200, 4000, 400


@dataclass(frozen=True)
class Strand:
    """One row of the figure: the partitions that share a history, and that history."""

    members: tuple[str, ...]
    reigns: tuple[Reign, ...]
    # the unclean elections, the time without a leader and the changes that are too many to draw
    beyond: tuple[int, int, int] = (0, 0, 0)

    @property
    def harm(self) -> tuple[int, int, int]:
        """How bad: unclean elections, time without a leader, changes."""
        dark = sum(reign.end - reign.start for reign in self.reigns if reign.leader == -1)
        unclean = sum(reign.unclean for reign in self.reigns)
        more = self.beyond
        return unclean + more[0], dark + more[1], len(self.reigns) + more[2]

    @property
    def label(self) -> str:
        """The first member and how many more."""
        more = len(self.members) - 1
        return self.members[0] + (f" +{more}" if more else "")


@dataclass
class _Group:
    """The partitions that share a history, and how bad it is."""

    harm: tuple[int, int, int]
    members: list[Name] = field(default_factory=list)


def strands(saved: Saved) -> tuple[list[Strand], int, int]:
    """Read, fold and rank; gives the rows to draw, and partitions and rows in all.

    The table is read twice, a part at a time: first to see which partitions are alike and how bad
    each history is, then for the few that are drawn.
    """
    whole = saved.window
    if not whole:
        return [], 0, 0
    groups: dict[bytes, _Group] = {}
    for one in histories(saved, whole):
        groups.setdefault(one.key, _Group(one.harm)).members.append(one.name)
    chosen: dict[bytes, History] = {}
    wanted = _chosen(groups)
    for one in histories(saved, whole) if wanted else ():
        if one.key in wanted:
            before = chosen.get(one.key)
            chosen[one.key] = one if before is None else before.joined(one)
    rows = [_strand(groups[key].members, one) for key, one in chosen.items()]
    partitions = sum(len(group.members) for group in groups.values())
    return sorted(rows, key=_rank), partitions, len(groups)


def _chosen(groups: dict[bytes, _Group]) -> set[bytes]:
    """Choose the worst histories, as many as can be drawn."""
    ranked = sorted(
        groups, key=lambda key: ([-part for part in groups[key].harm], min(groups[key].members))
    )
    found: set[bytes] = set()
    bars = 0
    for key in ranked[:ROWS]:
        bars += min(groups[key].harm[2], LONGEST)
        if bars > BARS:
            break
        found.add(key)
    return found


def _rank(row: Strand) -> tuple[list[int], tuple[str, int, str]]:
    return [-part for part in row.harm], _natural(row.members[0])


def _strand(members: list[Name], one: History) -> Strand:
    names = tuple(f"{topic}-{number}" for topic, number in sorted(members))
    whole = Strand(names, tuple(one.reigns()))
    if len(whole.reigns) <= LONGEST:
        return whole
    # Of very many epochs those are drawn that matter most, and the rest is left blank.
    worst = sorted(whole.reigns, key=lambda r: (not r.unclean, r.leader != -1, r.start - r.end))
    kept = sorted(worst[:LONGEST], key=lambda reign: (reign.start, reign.epochs))
    drawn = Strand(names, tuple(kept))
    unclean, dark, changes = (a - b for a, b in zip(whole.harm, drawn.harm, strict=True))
    return replace(drawn, beyond=(unclean, dark, changes))


def _natural(name: str) -> tuple[str, int, str]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else -1, name
