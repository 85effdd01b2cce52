"""What may lead to what, and by which mechanism: read from rules/chains.yaml."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from forensics.yamls import read, root

__all__ = ["MOVE", "SCOPES", "Mechanism", "end_of", "mechanisms", "sources_of"]

# A planned change of leaders, which no detector reports: nothing is wrong with it.
MOVE = "move"
SCOPES = (
    "broker", "led", "moved", "elected", "cut", "partition", "topic", "node", "client",
    "coordinator", "any",
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
    returning: bool = False
    kinds: frozenset[str] = frozenset()


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
            bool(one.get("returning", False)),
            frozenset(one.get("kinds", ())),
        )
        for rank, one in enumerate(_table()["mechanisms"])
    )


def end_of(detector: str) -> str | None:
    """Say what it means that a finding of a detector ended; null: that it is over is not told."""
    says: str | None = _table()["ends"].get(detector)
    return says


def sources_of(cause: object) -> Collection[str] | None:
    """Name what may lie behind a cause that a detector named; null: it named none."""
    names: Collection[str] | None = _table()["causes"].get(cause)
    return names


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = read(root() / "chains.yaml")
    return found
