"""Whether the clocks can tell which of two things came first."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.report.saved import Proof, Saved
from forensics.report.words import lasting

__all__ = ["Doubts"]


class Doubts:
    """How sure the times are of what each file's node logged."""

    def __init__(self, saved: Saved) -> None:
        """Read how sure each clock is."""
        self._nodes = {row["file"]: row["node"] for row in saved.files}
        self._unsure = {
            row["node"]: row["uncertainty_ms"]
            for row in saved.rows("clocks", ("node", "uncertainty_ms"))
        }

    def between(self, one: int, told: Sequence[Proof], other: int, retold: Sequence[Proof]) -> str:
        """Say why the order of two moments is not certain; empty where it is."""
        first, second = self._node(told), self._node(retold)
        if first is None or second is None or first == second:
            return ""
        blur = [self._unsure.get(node) for node in (first, second)]
        if None in blur:
            return ""
        most = sum(one for one in blur if one is not None)
        if abs(other - one) > most:
            return ""
        return f"order uncertain: the clocks of {first} and {second} agree to {lasting(most)}"

    def _node(self, told: Sequence[Proof]) -> str | None:
        found = {self._nodes.get(proof.file) for proof in told}
        return next(iter(found)) if len(found) == 1 else None
