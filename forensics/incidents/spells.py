"""Spells of trouble: lines that tell of something missing, up to the moment it was there again.

Bursts end where nothing more is said; a spell also ends where somebody says that it is over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.incidents.bursts import PLACE
from forensics.incidents.case import Case, Row, by_time

__all__ = ["Spell", "spells"]

_MICROS = 1_000_000
_KEPT = 40
_COLUMNS = (*PLACE, "kind", "controller_epoch")

# Sorted moments at which it was over, by node; by the empty name, for all of them.
Ends = Mapping[str, Sequence[int]]


@dataclass
class Spell:
    """One spell, from its first line on; corrected microseconds."""

    begin: int
    last: int
    # when it was over; null: nobody says
    over: int | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)
    epochs: tuple[int, int] | None = None
    first: list[Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        """When it ended, or was last told of."""
        return self.last if self.over is None else self.over

    @property
    def seconds(self) -> float:
        """How long it took, at least."""
        return round((self.end - self.begin) / _MICROS, 3)

    def take(self, row: Row) -> None:
        """Take one line."""
        self.begin, self.last = min(self.begin, row["at"]), max(self.last, row["at"])
        self.kinds[row["kind"]] += 1
        self.nodes.add(row["node"] or "")
        epoch = row["controller_epoch"]
        if epoch is not None:
            low, high = self.epochs or (epoch, epoch)
            self.epochs = min(low, epoch), max(high, epoch)
        self.first.append(row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]

    def join(self, other: Spell) -> None:
        """Take what another part of the same spell holds."""
        self.last = max(self.last, other.last)
        self.kinds += other.kinds
        self.nodes |= other.nodes
        known = [one for one in (self.epochs, other.epochs) if one]
        if known:
            self.epochs = min(low for low, _ in known), max(high for _, high in known)
        self.first = sorted([*self.first, *other.first], key=by_time)[:_KEPT]


def spells(
    case: Case, kinds: Sequence[str], ends: Callable[[], Ends], gap: float, *, apart: bool = False
) -> list[Spell]:
    """Find the spells of some kinds of events: of all nodes together, or each node's apart.

    Lines more than `gap` seconds apart are of two spells, and so are those with an end between
    them; `ends` is only asked for if there are lines at all.
    """
    wide = max(1, round(gap * _MICROS))
    where = pc.field("kind").isin(list(kinds)) & pc.field("ts").is_valid()
    known: Ends | None = None
    parts: dict[tuple[str, int, int], Spell] = {}
    for row in case.each("events", where, list(dict.fromkeys(_COLUMNS))):
        known = ends() if known is None else known
        who = (row["node"] or "") if apart else ""
        key = who, bisect_left(known.get(who, ()), row["at"]), row["at"] // wide
        parts.setdefault(key, Spell(row["at"], row["at"])).take(row)
    found = list(_join_until_recovery(parts, known or {}, wide))
    return sorted(found, key=lambda one: (one.begin, sorted(one.nodes)))


def _join_until_recovery(parts: Mapping[tuple[str, int, int], Spell], ends: Ends, gap: int) -> Iterator[Spell]:
    """Join the parts of one spell, and say when it was over.

    An end that is told much later says nothing of when it came.
    """
    last: tuple[tuple[str, int], Spell] | None = None
    for (who, index, _), part in [*sorted(parts.items(), key=lambda one: one[0]), _NONE]:
        if last is not None and last[0] == (who, index) and part.begin - last[1].last <= gap:
            last[1].join(part)
            continue
        if last is not None:
            (name, at), spell = last
            moments = ends.get(name, ())
            after = moments[at] if at < len(moments) else None
            if after is not None and after - spell.last <= gap:
                spell.over = after
            spell.first = sorted(spell.first, key=by_time)[:_KEPT]
            yield spell
        last = (who, index), part


_NONE = (("", -1, 0), Spell(0, 0))
