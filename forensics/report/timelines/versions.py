"""The versions of one partition's ISR: what each changed, and by whose doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from forensics.report.saved import Row
from forensics.report.timelines.saying import ids, runs
from forensics.report.timelines.steps import ENDED, Place, Placed, Step, places

__all__ = ["versions"]

# Rules of lines that only the leader writes, of an ISR that it asked for and got.
BY_LEADER = ("isr.updated", "controller.isr-updated", "quorum.isr-accepted")
NAMES = ("partition_epoch", "leader_epoch", "leader", "isr", "replicas", "how")


def versions(
    rows: Sequence[Row], begun: Mapping[int, int], rules: Mapping[Place, str], first: int
) -> Iterator[Placed]:
    """Tell every version of the ISR, and which versions no line states.

    `begun` says where each leader epoch stands, `rules` which rule read which line.
    """
    reached, before, last = first, None, None
    for row, after in zip(rows, [*rows[1:], None], strict=False):
        numbered = row["partition_epoch"] is not None
        order = max(reached if numbered else first, begun.get(row["leader_epoch"], first))
        order = order if row["started_at"] is None else max(order, row["started_at"])
        if numbered:
            reached = order
            yield from _skipped(before, row, order)
        elected = begun.get(row["leader_epoch"]) == row["started_at"]
        whose = _by_whom(row, last, rules, elected=elected)
        yield Placed(order, 3, _version(row, before, after, whose))
        before = row
        last = row["leader_epoch"] if row["leader_epoch"] is not None else last


def _skipped(before: Row | None, row: Row, order: int) -> Iterator[Placed]:
    """Name the versions between two that are known."""
    if before is None or before["partition_epoch"] is None:
        return
    # A number that is wrong may leave out billions.
    missing = list(range(before["partition_epoch"] + 1, row["partition_epoch"])[:100_000])
    if missing:
        which = f"version{'s' if len(missing) > 1 else ''} {runs(missing)}"
        between = f"between {before['partition_epoch']} and {row['partition_epoch']}"
        says = f"unknown: no line states {which} of the ISR, {between}"
        facts = {"partition_epochs": [missing[0], missing[-1]]}
        yield Placed(order, 2, Step("unknown", None, says, row["started_at"], facts=facts))


def _version(row: Row, before: Row | None, after: Row | None, whose: str) -> Step:
    number = row["partition_epoch"]
    version = "no version logged" if number is None else f"version {number}"
    told = [f"ISR {ids(row['isr'])} ({version})"]
    change = _change(row, before)
    if change:
        told.append(f"{change}, {whose}")
    if row["how"] == "inferred":
        told.append("inferred")
    return Step(
        "isr",
        row["started_at"],
        "; ".join(told),
        row["ended_at"],
        _version_ends(row, after),
        places(row),
        {name: row[name] for name in NAMES},
    )


def _version_ends(row: Row, after: Row | None) -> str:
    if row["ended"] in ENDED and row["ended_at"] is not None:
        return ENDED[row["ended"]]
    if row["partition_epoch"] is None:
        # Without its number nothing says whether the version that is known next was the next.
        return "unknown" if row["ended_at"] is None else "known"
    follows = after is not None and after["partition_epoch"] == row["partition_epoch"] + 1
    if row["ended_at"] is None:
        last = after is None or after["partition_epoch"] is None
        return "open" if last else "unknown"
    # The next version that is known, or known in time, may not be the next one that was.
    timed = after is None or (follows and after["started_at"] is not None)
    return "known" if timed else "unknown"


def _change(row: Row, before: Row | None) -> str:
    if before is None or row["isr"] is None or before["isr"] is None:
        return ""
    now, then = set(row["isr"]), set(before["isr"])
    parts = [
        f"{ids(sorted(brokers))} {word}"
        for brokers, word in ((then - now, "left"), (now - then, "joined"))
        if brokers
    ]
    return " and ".join(parts)


def _by_whom(row: Row, last: int | None, rules: Mapping[Place, str], *, elected: bool) -> str:
    """Say who changed the ISR: the leader asks, or the controller does it with an election.

    `last` is the last leader epoch known before, `elected` whether this version begins its own.
    """
    read_by = {rules.get(place, "").partition("@")[0] for place in places(row)}
    if read_by & set(BY_LEADER):
        leader = row["leader"]
        return "asked by the leader" + ("" if leader in (None, -1) else f", broker {leader}")
    epoch = row["leader_epoch"]
    if elected and epoch is not None and epoch != last:
        return f"by the controller, with leader epoch {epoch}"
    return "no line says by whom"
