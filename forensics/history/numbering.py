"""Numbers states that lines tell without a partition epoch, where the counters leave one place.

KRaft brokers before 3.2 say how a leader begins (its epoch, its ISR), but not in which version.
Every leader epoch begins with a version of its own. So where as many versions are missing between
two known ones as leaders began there, each of these has its number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from forensics.history.statements import Statement

__all__ = ["Known", "numbered"]

# Partition epoch, leader epoch, and ISR of a version that is known; and what was said of it.
Known = tuple[int, int | None, tuple[int, ...] | None, Sequence[Statement]]


def numbered(known: Sequence[Known], said: Sequence[Statement]) -> Iterator[tuple[int, Statement]]:
    """Yield each number that was found with the leader's word for it; `known` is in order."""
    begins, later = _told_by_leaders(said)
    if not begins:
        return
    epochs = sorted(begins)
    for before, after in zip(known, known[1:], strict=False):
        low, high = before[1], after[1]
        missing = range(before[0] + 1, after[0])
        if low is None or high is None or not missing or high - low < len(missing):
            continue
        told_of = epochs[bisect_right(epochs, low) : bisect_right(epochs, high)]
        between = [begins[one] for one in told_of]
        if between and between[-1].leader_epoch == high:
            told = [*after[3], *later.get(high, ())]
            if not _precedes(between[-1], after[2], told):
                between.pop()
        if len(between) == len(missing):
            yield from zip(missing, between, strict=True)


def _told_by_leaders(
    said: Sequence[Statement],
) -> tuple[dict[int, Statement], dict[int, list[Statement]]]:
    """Give for each leader epoch how its leader begins, and what it tells as it goes on.

    Where leaders do not agree with each other how one begins, nobody knows.
    """
    begins: dict[int, Statement] = {}
    later: dict[int, list[Statement]] = {}
    torn: set[int] = set()
    for one in said:
        epoch = one.leader_epoch
        if one.partition_epoch is not None or epoch is None or one.isr is None or not one.leads:
            continue
        if one.previous_epoch is not None and one.previous_epoch < epoch:
            if begins.setdefault(epoch, one).isr != one.isr:
                torn.add(epoch)
        else:
            later.setdefault(epoch, []).append(one)
    return {epoch: one for epoch, one in begins.items() if epoch not in torn}, later


def _precedes(one: Statement, isr: tuple[int, ...] | None, told: Iterable[Statement]) -> bool:
    """Whether a leader began with an earlier version than one of its epoch that has another ISR.

    What a node knows only grows: it told of that one later. Its line may lack the number, too; then
    the ISR must have grown, for which nobody but a leader that has begun can ask.
    """
    if isr is None or isr == one.isr:
        return False
    grown = set(one.isr or ()) < set(isr)
    return any(
        each.node == one.node and one.place < each.place
        for each in told
        if each.partition_epoch is not None or (grown and each.isr == isr)
    )
