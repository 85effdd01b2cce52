"""What may lead to what, and by which mechanism: read from rules/chains.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from forensics.yamls import read, root

__all__ = ["MOVE", "SCOPES", "Mechanism", "end_of", "mechanisms"]

# A planned change of leaders, which no detector reports: nothing is wrong with it.
MOVE = "move"
SCOPES = (
    "broker", "led", "moved", "elected", "partition", "topic", "node", "client", "coordinator",
    "any",
)  # fmt: skip


@dataclass(frozen=True)
class Mechanism:
    """One way in which one thing leads to another; `rank` is its place in the file."""

    rank: int
    sources: frozenset[str]
    targets: frozenset[str]
    scopes: tuple[str, ...]
    says: str
    within: float = 0
    certain: bool = False
    joint: bool = False


@cache
def mechanisms() -> Sequence[Mechanism]:
    """Give all mechanisms, those first that are preferred."""
    return tuple(
        Mechanism(
            rank,
            frozenset(one["from"]),
            frozenset(one["to"]),
            tuple(one["by"]),
            one["says"],
            one.get("within", 0),
            bool(one.get("certain", False)),
            bool(one.get("joint", False)),
        )
        for rank, one in enumerate(_table()["mechanisms"])
    )


def end_of(detector: str) -> str:
    """Say what it means that a finding of a detector ended."""
    ends = _table()["ends"]
    return str(ends.get(detector, ends["any"]))


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = read(root() / "chains.yaml")
    return found
