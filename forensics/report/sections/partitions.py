"""Every partition that changed, worst first; a row opens its history."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.lib.formatting import count, lasting, listed
from forensics.lib.time_zone import current
from forensics.report.html import Child, Line, Markup, data, join, spot, table, tag
from forensics.report.partition_ranking import Harm, Told, harms, histories_of
from forensics.run_output.partition_histories import UNKNOWN
from forensics.run_output.reader import Saved, short

ORDER = 74
TITLE = "Partitions"
HEAD = ("Partition", "Records lost", "Unclean elections", "Without leader", "One in sync",
        "Leader epochs", "ISR versions", "Last leader")  # fmt: skip
# Rows that stand in the page as such, that its search looks through, and that open without script.
ROWS, SOUGHT, OPEN = 50, 20_000, 8
UNCLEAN, INFERRED = 1, 2
CHANGES = 60


def render(saved: Saved) -> Markup:
    """List the worst, hold the others for the search, and count those without any change."""
    found, every = harms(saved)
    if not every:
        return tag("p", "No leader epoch and no ISR of any partition was read.")
    chosen = found[:SOUGHT]
    told = histories_of(saved, chosen)
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
                 _still(saved, chosen[:OPEN], told), _block(saved, chosen, told)])  # fmt: skip


def _says(found: list[Harm], every: int, told: Told) -> str:
    quiet = every - len(found)
    parts = [
        f"{count(every, 'partition')}: {len(found):,} changed, {quiet:,} did not.",
        "The filter at the top searches all that changed; a row opens its history.",
    ]
    if len(found) > SOUGHT:
        parts.append(f"{count(len(found) - SOUGHT, 'partition')} with less harm are not searched.")
    untold = min(len(found), SOUGHT) - len(told.places)
    if untold:
        parts.append(
            f"The histories of {count(untold, 'partition')} are in tables/leadership and "
            f"tables/isr: kafka-forensics timeline OUT --partition TOPIC-N shows them."
        )
    return " ".join(parts)


def _row(harm: Harm) -> Line:
    name = spot("p", *harm.name)
    cells: list[Child] = [
        tag("a", f"{harm.name[0]}-{harm.name[1]}", href=f"#{name}"),
        "not bounded" if harm.lost is None else f"{harm.lost:,}",
        f"{harm.unclean:,}",
        lasting(harm.dark) if harm.dark else "-",
        lasting(harm.thin) if harm.thin else "-",
        f"{harm.epochs:,}",
        f"{harm.versions:,}",
        _leader(UNKNOWN if harm.leader is None else harm.leader),
    ]
    return Line(cells, {"id": name})


def _leader(leader: int) -> str:
    if leader == UNKNOWN:
        return "not known"
    return "none" if leader == -1 else str(leader)


def _still(saved: Saved, worst: list[Harm], told: Told) -> Markup | None:
    """Tell the worst histories to who reads without scripts."""
    parts = [_history(saved, harm, told) for harm in worst if harm.name in told.places]
    return tag("noscript", *parts) if parts else None


def _history(saved: Saved, harm: Harm, told: Told) -> Markup:
    name = f"{harm.name[0]}-{harm.name[1]}"
    rows = list(_changes(saved, told, told.places[harm.name]))
    caption = f"History of {name}"
    if len(rows) > CHANGES:
        caption += f", the first {CHANGES} of {len(rows):,} changes"
    head = (f"From, {current().label}", "Leader", "Leader epoch", "In sync")
    shown = table(head, rows[:CHANGES], caption=caption)
    return tag("details", tag("summary", caption), shown)


def _changes(saved: Saved, told: Told, place: int) -> Iterator[list[Child]]:
    """Put leaders and ISRs of one history together, by time."""
    led, synced = told.histories[place]
    start = saved.window[0] if saved.window else 0
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
        isr = "not known" if code < 0 else listed([str(one) for one in told.isrs[code]], 20)
        turns.setdefault(at, [None, None, None])[2] = isr or "none"
    last = ["not known", "-", "not known"]
    for moment, turn in sorted(turns.items()):
        last = [new if new is not None else old for new, old in zip(turn, last, strict=True)]
        yield [short(saved, moment, exact=True), *last]


def _block(saved: Saved, chosen: list[Harm], told: Told) -> Markup:
    """Hold all that changed for the search and for the histories that it opens."""
    topics: dict[str, int] = {}
    rows = [
        [
            topics.setdefault(harm.name[0], len(topics)),
            harm.name[1],
            harm.lost,
            harm.unclean,
            harm.dark,
            harm.thin,
            harm.epochs,
            harm.versions,
            harm.leader,
            told.places.get(harm.name, -1),
        ]
        for harm in chosen
    ]
    whole = saved.window or (0, 0)
    value = {
        "from": whole[0],
        "to": whole[1],
        "zone": current().offset,
        "label": current().label,
        "shown": ROWS,
        "topics": list(topics),
        "isrs": told.isrs,
        "histories": told.histories,
        "rows": rows,
    }
    return data(value, id="partitions-data")
