"""The history of one partition: leader epochs, versions of the ISR, and what happened between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.dataset as ds

from forensics.report.saved import Row, Saved
from forensics.report.timelines import gone, happenings
from forensics.report.timelines.saying import election, runs, who
from forensics.report.timelines.steps import (
    ENDED,
    MOST,
    Placed,
    Shown,
    Step,
    Story,
    in_order,
    places,
    within,
)
from forensics.report.timelines.summing import of_partition
from forensics.report.timelines.versions import versions

__all__ = ["tell"]

LEADERSHIP = (
    "leader_epoch", "leader", "started_at", "ended_at", "ended", "how", "election", "manner",
    "clean", "previous_leader", "isr", "replicas", "log_end", "high_watermark", "evidence",
)  # fmt: skip
ISR = (
    "partition_epoch", "leader_epoch", "leader", "isr", "replicas", "started_at", "ended_at",
    "ended", "how", "evidence",
)  # fmt: skip


def tell(saved: Saved, topic: str, partition: int, shown: Shown) -> Story:
    """Tell the history of one partition."""
    name = f"{topic}-{partition}"
    mine = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    reigns, more = _rows(saved, "leadership", LEADERSHIP, mine, "leader_epoch")
    states, other = _rows(saved, "isr", ISR, mine, "partition_epoch")
    told = happenings.read(saved, topic, partition, shown)
    window = saved.window or shown.span
    leaders = [*_leaders(reigns, window)]
    begun = {
        one.step.facts["leader_epoch"]: one.order for one in leaders if one.step.what == "leader"
    }
    cuts = list(gone.cuts(saved, mine))
    # A line that stands behind a cut need not be told twice.
    known = {place for step in cuts for place in step.evidence}
    single = [
        step
        for step in happenings.happenings(told)
        if step.what != "cut" or not known.intersection(step.evidence)
    ]
    between = [*single, *cuts, *gone.breaches(saved, mine)]
    placed = [
        *leaders,
        *versions(states, begun, told.rules, window[0]),
        *gone.losses(saved, name, begun, window[0]),
        *(Placed(window[0] if step.at is None else step.at, 5, step) for step in between),
    ]
    steps = tuple(within(in_order(placed), shown))
    left_out = more + other + told.left_out
    return Story(
        "partition", name, of_partition(name, steps, shown), steps, shown, left_out, told.texts
    )


def _rows(
    saved: Saved, table: str, columns: Sequence[str], mine: ds.Expression, by: str
) -> tuple[list[Row], int]:
    found = saved.table(table, columns, mine)
    # The tables are sorted by this counter, so that the first rows are the oldest.
    rows = found[:MOST].to_pylist()
    rows.sort(key=lambda row: (row[by] is None, row[by] or 0, row["started_at"] or 0))
    return rows, found.num_rows - len(rows)


def _leaders(rows: Sequence[Row], window: tuple[int, int]) -> Iterator[Placed]:
    reached = window[0]
    if not rows:
        says = "no line tells of a leader"
        yield Placed(reached, 0, _unknown(window[0], window[1], says))
        return
    yield from _before(rows[0], window)
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        reached = max(reached, row["started_at"] or reached)
        step = _leader(row, after)
        yield Placed(reached, 1, step)
        yield from _after(step, after, window, reached)


def _before(first: Row, window: tuple[int, int]) -> Iterator[Placed]:
    """Say what is not known before the first leader epoch; before epoch 0 there was nothing."""
    epoch, start = first["leader_epoch"], first["started_at"]
    if epoch:
        which = f"leader epoch{'s' if epoch > 1 else ''} {runs(list(range(min(epoch, 3))))}"
        which = which if epoch <= 3 else f"leader epochs 0 to {epoch - 1}"
        says = f"{which} came before; no line tells of {'them' if epoch > 1 else 'it'}"
        yield Placed(window[0], 0, _unknown(None if start is None else window[0], start, says))


def _after(
    step: Step, after: Row | None, window: tuple[int, int], reached: int
) -> Iterator[Placed]:
    """Say what is not known between one leader epoch and the next, or the end of the logs."""
    if step.until is None or step.ends not in ("known", "sure"):
        return
    following = window[1] if after is None else after["started_at"]
    if following is not None and step.until < following:
        says = "who led is not known"
        yield Placed(max(reached, step.until), 0, _unknown(step.until, following, says))


def _unknown(start: int | None, end: int | None, says: str) -> Step:
    ends = "unknown" if end is None else "known"
    return Step("unknown", start, f"unknown: {says}", end, ends, main=True)


def _leader(row: Row, after: Row | None) -> Step:
    leader, epoch = row["leader"], row["leader_epoch"]
    if leader is None:
        led = "unknown: the epoch was, but no line says who led"
    else:
        led = "no leader" if leader == -1 else f"{who(leader)} leads"
    how = election(row["election"], leader, row["manner"], clean=row["clean"])
    offsets = [
        f"{word} {row[name]:,}"
        for name, word in (("log_end", "log end"), ("high_watermark", "high watermark"))
        if row[name] is not None
    ]
    begun = f"; begun at {', '.join(offsets)}" if offsets else ""
    names = ("leader_epoch", "leader", "previous_leader", "election", "manner", "clean", "how",
             "isr", "replicas", "log_end", "high_watermark")  # fmt: skip
    return Step(
        "leader",
        row["started_at"],
        f"epoch {epoch}: {led}; {how}; {row['how'] or 'observed'}{begun}",
        row["ended_at"],
        _ends(row, after),
        places(row),
        {name: row[name] for name in names},
        main=True,
    )


def _ends(row: Row, after: Row | None) -> str:
    if row["ended"] in ENDED and row["ended_at"] is not None:
        return ENDED[row["ended"]]
    # The row reaches to the next time that is known; where a change lies between, that is too far.
    if after is not None and after["started_at"] is None:
        return "unknown"
    return "known" if row["ended_at"] is not None else "open" if after is None else "unknown"
