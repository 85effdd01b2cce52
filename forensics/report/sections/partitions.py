"""Every partition that changed, worst first; a row opens its history."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.lib.formatting import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report.html import Child, Markup, TableRow, entity_id, join, json_script, table, tag
from forensics.report.partition_ranking import (
    PackedHistories,
    PartitionImpact,
    pack_histories,
    rank_partitions,
)
from forensics.run_output.partition_histories import UNKNOWN_LEADER
from forensics.run_output.reader import RunOutput, short_time

ORDER = 74
TITLE = "Partitions"
HEAD = ("Partition", "Records lost", "Unclean elections", "Without leader", "One in sync",
        "Leader epochs", "ISR versions", "Last leader")  # fmt: skip
# Rows that stand in the page as such, that its search looks through, and that open without script.
ROWS, SOUGHT, OPEN = 50, 20_000, 8
UNCLEAN, INFERRED = 1, 2
CHANGES = 60


def render(run: RunOutput) -> Markup:
    """List the worst, hold the others for the search, and count those without any change."""
    found, every = rank_partitions(run)
    if not every:
        return tag("p", "No leader epoch and no ISR of any partition was read.")
    chosen = found[:SOUGHT]
    told = pack_histories(run, chosen)
    shown = f", the worst {ROWS} of {len(found):,}" if len(found) > ROWS else ""
    rows = table(
        HEAD,
        (_row(harm) for harm in chosen[:ROWS]),
        caption=f"Partitions that changed{shown}",
        numbers=HEAD[1:],
        id="partitions-table",
        data_copy="Partitions",
    )
    return join([tag("p", _says(found, every, told)), rows if found else None,
                 _still(run, chosen[:OPEN], told), _block(run, chosen, told)])  # fmt: skip


def _says(found: list[PartitionImpact], every: int, told: PackedHistories) -> str:
    quiet = every - len(found)
    parts = [
        f"{count(every, 'partition')}: {len(found):,} changed, {quiet:,} did not.",
        "The filter at the top searches all that changed; a row opens its history.",
    ]
    if len(found) > SOUGHT:
        parts.append(f"{count(len(found) - SOUGHT, 'partition')} with less harm are not searched.")
    untold = min(len(found), SOUGHT) - len(told.positions)
    if untold:
        parts.append(
            f"The histories of {count(untold, 'partition')} are in tables/leadership and "
            f"tables/isr: kafka-forensics timeline OUT --partition TOPIC-N shows them."
        )
    return " ".join(parts)


def _row(harm: PartitionImpact) -> TableRow:
    name = entity_id("p", *harm.name)
    cells: list[Child] = [
        tag("a", f"{harm.name[0]}-{harm.name[1]}", href=f"#{name}"),
        "not bounded" if harm.max_lost is None else f"{harm.max_lost:,}",
        f"{harm.unclean_count:,}",
        duration(harm.leaderless_ms) if harm.leaderless_ms else "-",
        duration(harm.single_isr_ms) if harm.single_isr_ms else "-",
        f"{harm.epoch_count:,}",
        f"{harm.isr_count:,}",
        _leader(UNKNOWN_LEADER if harm.leader is None else harm.leader),
    ]
    return TableRow(cells, {"id": name})


def _leader(leader: int) -> str:
    if leader == UNKNOWN_LEADER:
        return "not known"
    return "none" if leader == -1 else str(leader)


def _still(run: RunOutput, worst: list[PartitionImpact], told: PackedHistories) -> Markup | None:
    """Tell the worst histories to who reads without scripts."""
    parts = [_history(run, harm, told) for harm in worst if harm.name in told.positions]
    return tag("noscript", *parts) if parts else None


def _history(run: RunOutput, harm: PartitionImpact, told: PackedHistories) -> Markup:
    name = f"{harm.name[0]}-{harm.name[1]}"
    rows = list(_changes(run, told, told.positions[harm.name]))
    caption = f"History of {name}"
    if len(rows) > CHANGES:
        caption += f", the first {CHANGES} of {len(rows):,} changes"
    head = (f"From, {current_zone().label}", "Leader", "Leader epoch", "In sync")
    shown = table(head, rows[:CHANGES], caption=caption)
    return tag("details", tag("summary", caption), shown)


def _changes(run: RunOutput, told: PackedHistories, place: int) -> Iterator[list[Child]]:
    """Put leaders and ISRs of one history together, by time."""
    led, synced = told.histories[place]
    start = run.window[0] if run.window else 0
    turns: dict[int, list[str | None]] = {}
    at = start
    for leader, epoch, after, mark in zip(*[iter(led)] * 4, strict=True):
        at += after
        word = _leader(leader) + (" (unclean)" if mark & UNCLEAN else "")
        word += " (inferred)" if mark & INFERRED else ""
        turns.setdefault(at, [None, None, None])[:2] = [word, str(epoch) if epoch >= 0 else "-"]
    at = start
    for code, after in zip(*[iter(synced)] * 2, strict=True):
        at += after
        isr = "not known" if code < 0 else join_names([str(one) for one in told.isrs[code]], 20)
        turns.setdefault(at, [None, None, None])[2] = isr or "none"
    last = ["not known", "-", "not known"]
    for moment, turn in sorted(turns.items()):
        last = [new if new is not None else old for new, old in zip(turn, last, strict=True)]
        yield [short_time(run, moment, exact=True), *last]


def _block(run: RunOutput, chosen: list[PartitionImpact], told: PackedHistories) -> Markup:
    """Hold all that changed for the search and for the histories that it opens."""
    topics: dict[str, int] = {}
    rows = [
        [
            topics.setdefault(harm.name[0], len(topics)),
            harm.name[1],
            harm.max_lost,
            harm.unclean_count,
            harm.leaderless_ms,
            harm.single_isr_ms,
            harm.epoch_count,
            harm.isr_count,
            harm.leader,
            told.positions.get(harm.name, -1),
        ]
        for harm in chosen
    ]
    whole = run.window or (0, 0)
    value = {
        "from": whole[0],
        "to": whole[1],
        "zone": current_zone().offset,
        "label": current_zone().label,
        "shown": ROWS,
        "topics": list(topics),
        "isrs": told.isrs,
        "histories": told.histories,
        "rows": rows,
    }
    return json_script(value, id="partitions-data")
