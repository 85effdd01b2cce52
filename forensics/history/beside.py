"""What is said of a partition beside its states: elections, cuts of its log, deletions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from forensics.history import statements
from forensics.history.clocks import Clocks
from forensics.history.cuts import CUT_KINDS, cuts
from forensics.history.elections import ELECTION_KINDS, Hint, hints
from forensics.history.invariants import LIFE_KINDS, breaches
from forensics.history.lanes import Absence
from forensics.history.moves import Moves
from forensics.history.statements import Statement

__all__ = ["FOLD_COLUMNS", "FOLD_KINDS", "Beside"]

FOLD_KINDS = (*statements.FOLD_KINDS, *ELECTION_KINDS, *CUT_KINDS, *LIFE_KINDS)
FOLD_COLUMNS = (*statements.FOLD_COLUMNS, "cut_to")

Row = Mapping[str, Any]


class Beside:
    """Keeps the few lines that state no state, while the many that do pass by."""

    def __init__(self, clocks: Clocks, moves: Moves) -> None:
        """Begin with one partition."""
        self.hints: list[Hint] = []
        self._clocks = clocks
        self._moves = moves
        self._kept: list[Row] = []
        self._epochs: list[Row] = []

    def apart(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass on what states a state, and keep the rest."""
        for row in rows:
            if row["kind"] in statements.FOLD_KINDS:
                yield row
            else:
                self._kept.append(row)
        self.hints = hints(self._kept, self._clocks)

    def heard(self, epochs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Pass on rows of LEADERSHIP; they are needed again where a log was cut."""
        needed = any(row["kind"] == "truncated" for row in self._kept)
        for row in epochs:
            if needed:
                self._epochs.append(row)
            yield row

    def rows(
        self, topic: str, said: list[Statement], away: Iterable[Absence]
    ) -> Iterator[dict[str, Any]]:
        """Give rows of CUTS and BREACHES, once everything else was given."""
        gone = [row for row in self._kept if row["kind"] in LIFE_KINDS and row["ts"] is not None]
        ends = [self._clocks.of(row) for row in gone]
        ends += self._moves.deletions.get(topic, ())
        yield from chain(
            cuts(self._kept, said, self._epochs, self._clocks), breaches(said, ends, list(away))
        )
