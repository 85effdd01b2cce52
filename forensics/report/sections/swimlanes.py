"""Who led which partition when, worst first, equal histories as one row."""

from __future__ import annotations

from forensics.report import figures, folds, tracks
from forensics.report.markup import Child, Markup, figure, table, tag
from forensics.report.saved import Saved
from forensics.report.words import clock, count, lasting, listed

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 60
TITLE = "Leaders"
MEMBERS = 200


def render(saved: Saved) -> Markup:
    """Draw the leaders of the partitions that changed most, and list what each row holds."""
    view = tracks.view(saved)
    rows, partitions, folded = folds.strands(saved)
    if not view or not rows:
        return tag("p", "No leader epoch of any partition was read.")
    left = folded - len(rows)
    more = f"{count(left, 'row')} with less harm are not drawn." if left else ""
    long = [row for row in rows if row.beyond[2]]
    if long:
        more += f" {count(len(long), 'row')} with too many leader epochs to draw: of "
        more += f"{long[0].harm[2]:,} of {long[0].label} the worst and longest are drawn."
    says = f"{_says(rows, partitions, folded)} {more}".strip()
    drawn = figures.swimlanes(rows, view)
    summary = tag("summary", "Rows of the figure, with all their partitions")
    listing = tag("details", summary, _listing(rows))
    return figure("figure-leaders", drawn, says, listing)


def _says(rows: list[folds.Strand], partitions: int, folded: int) -> str:
    unclean = sum(len(row.members) for row in rows if row.harm[0])
    dark = max((row.harm[1] for row in rows), default=0)
    worst = f"longest without a leader {lasting(dark)}" if dark else "none was without a leader"
    histories = count(folded, "different history", "different histories")
    torn = count(unclean, "partition") if unclean else "no partition"
    return (
        f"{count(partitions, 'partition')} with {histories}; {torn} with an unclean election; "
        f"{worst}. The number in a bar is the leader epoch."
    )


def _listing(rows: list[folds.Strand]) -> Markup:
    head = ("Row", "Leaders in order", "Unclean", "Without leader", "Partitions")
    cells = (_cells(row) for row in rows)
    return table(head, cells, caption="Partitions with equal histories", numbers=("Unclean",))


def _cells(row: folds.Strand) -> list[Child]:
    reigns = [f"{_leader(reign.leader)} from {clock(reign.start)[11:]}" for reign in row.reigns]
    unclean, dark, _ = row.harm
    members = listed(list(row.members), MEMBERS)
    return [row.label, listed(reigns, 12), unclean, lasting(dark) if dark else "-", members]


def _leader(leader: int | None) -> str:
    if leader is None:
        return "not known"
    return "none" if leader == -1 else str(leader)
