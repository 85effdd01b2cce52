"""Every partition that changed, worst first; a row opens its history."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.lib.text_format import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report.html import (
    Child,
    Markup,
    TableRow,
    entity_id,
    join,
    json_script,
    limit_caption,
    table,
    tag,
)
from forensics.report.partition_groups import leader_word
from forensics.report.partition_ranking import (
    PackedHistories,
    PartitionImpact,
    pack_histories,
    rank_partitions,
)
from forensics.run_output.reader import RunOutput, short_time

TITLE = "Partitions"
HEAD = ("Partition", "Records lost", "Unclean elections", "Unavailable", "One in sync",
        "Leader epochs", "ISR versions", "Last leader")  # fmt: skip
# Rows that stand in the page as such, that its search looks through, and that open without script.
MAX_ROWS, MAX_SEARCHED, MAX_STATIC = 50, 20_000, 8
UNCLEAN, INFERRED = 1, 2
MAX_CHANGES = 60


def render(run: RunOutput) -> Markup:
    """List the worst, hold the others for the search, and count those without any change."""
    changed, total = rank_partitions(run)
    if not total:
        return tag("p", "No leader epoch and no ISR of any partition was read.")
    searched = changed[:MAX_SEARCHED]
    packed = pack_histories(run, searched)
    rows = table(
        HEAD,
        map(_row, searched[:MAX_ROWS]),
        caption=limit_caption("Partitions that changed", len(changed), MAX_ROWS, "worst"),
        numbers=HEAD[1:],
        id="partitions-table",
        data_copy="Partitions",
    )
    return join([tag("p", _summary(changed, total, packed)), rows if changed else None,
                 _static_histories(run, searched[:MAX_STATIC], packed),
                 _search_data(run, searched, packed)])  # fmt: skip


def _summary(changed: list[PartitionImpact], total: int, packed: PackedHistories) -> str:
    parts = [
        f"{count(total, 'partition')}: {len(changed):,} changed, {total - len(changed):,} did not.",
        "The filter at the top searches all that changed; a row opens its history.",
    ]
    left = len(changed) - MAX_SEARCHED
    if left > 0:
        parts.append(f"{count(left, 'partition')} with less harm are not searched.")
    unpacked = min(len(changed), MAX_SEARCHED) - len(packed.positions)
    if unpacked:
        parts.append(
            f"The histories of {count(unpacked, 'partition')} are in tables/leadership and "
            f"tables/isr: kafka-forensics timeline OUT --partition TOPIC-N shows them."
        )
    return " ".join(parts)


def _row(impact: PartitionImpact) -> TableRow:
    name = entity_id("p", *impact.name)
    times = impact.unavailable_ms, impact.single_isr_ms
    cells: list[Child] = [
        tag("a", f"{impact.name[0]}-{impact.name[1]}", href=f"#{name}"),
        "not bounded" if impact.max_lost is None else f"{impact.max_lost:,}",
        f"{impact.unclean_count:,}",
        *(duration(ms) if ms else "-" for ms in times),
        f"{impact.epoch_count:,}",
        f"{impact.isr_count:,}",
        leader_word(impact.leader),
    ]
    return TableRow(cells, {"id": name})


def _static_histories(
    run: RunOutput, worst: list[PartitionImpact], packed: PackedHistories
) -> Markup | None:
    """Show the worst histories to those who read without scripts."""
    parts = [_history(run, one, packed) for one in worst if one.name in packed.positions]
    return tag("noscript", *parts) if parts else None


def _history(run: RunOutput, impact: PartitionImpact, packed: PackedHistories) -> Markup:
    rows = list(_changes(run, packed, packed.positions[impact.name]))
    caption = f"History of {impact.name[0]}-{impact.name[1]}"
    if len(rows) > MAX_CHANGES:
        caption += f", the first {MAX_CHANGES} of {len(rows):,} changes"
    head = (f"From, {current_zone().label}", "Leader", "Leader epoch", "In sync")
    listing = table(head, rows[:MAX_CHANGES], caption=caption)
    return tag("details", tag("summary", caption), listing)


def _changes(run: RunOutput, packed: PackedHistories, position: int) -> Iterator[list[Child]]:
    """Put leaders and ISRs of one history together, by time."""
    leaders, isrs = packed.histories[position]
    start = run.window[0] if run.window else 0
    changes: dict[int, list[str | None]] = {}
    at = start
    for leader, epoch, after, mark in zip(*[iter(leaders)] * 4, strict=True):
        at += after
        word = leader_word(leader) + (" (unclean)" if mark & UNCLEAN else "")
        word += " (inferred)" if mark & INFERRED else ""
        changes.setdefault(at, [None, None, None])[:2] = [word, str(epoch) if epoch >= 0 else "-"]
    at = start
    for code, after in zip(*[iter(isrs)] * 2, strict=True):
        at += after
        isr = "not known" if code < 0 else join_names(list(map(str, packed.isrs[code])), 20)
        changes.setdefault(at, [None, None, None])[2] = isr or "none"
    last = ["not known", "-", "not known"]
    for moment, change in sorted(changes.items()):
        last = [new if new is not None else old for new, old in zip(change, last, strict=True)]
        yield [short_time(run, moment, exact=True), *last]


def _search_data(
    run: RunOutput, searched: list[PartitionImpact], packed: PackedHistories
) -> Markup:
    """Hold all that changed for the search and for the histories that it opens."""
    topics: dict[str, int] = {}
    rows = [
        [
            topics.setdefault(impact.name[0], len(topics)),
            impact.name[1],
            impact.max_lost,
            impact.unclean_count,
            impact.unavailable_ms,
            impact.single_isr_ms,
            impact.epoch_count,
            impact.isr_count,
            impact.leader,
            packed.positions.get(impact.name, -1),
        ]
        for impact in searched
    ]
    start, end = run.window or (0, 0)
    value = {
        "from": start,
        "to": end,
        "zone": current_zone().offset,
        "label": current_zone().label,
        "shown": MAX_ROWS,
        "topics": list(topics),
        "isrs": packed.isrs,
        "histories": packed.histories,
        "rows": rows,
    }
    return json_script(value, id="partitions-data")
