"""Who led which partition when, worst first, equal histories as one row."""

from __future__ import annotations

from forensics.lib.formatting import count, duration, join_names, time_text
from forensics.report import lane_intervals, partition_groups, time_bins
from forensics.report.figures import leadership, partition_heatmap
from forensics.report.html import Child, Markup, figure, join, table, tag
from forensics.run_output.reader import RunOutput

# Links to the page go to this anchor.
ANCHOR = "swimlanes"
ORDER = 60
TITLE = "Leaders"
# Members of a row that are listed by name, and all of them together.
MEMBERS, LISTED = 200, 4000


def render(run: RunOutput) -> Markup:
    """Draw the leaders of the partitions that changed most, and list what each row holds."""
    view, fold = lane_intervals.choose_view(run), partition_groups.group_partitions(run)
    if not view or not fold or not fold.rows:
        return tag("p", "No leader epoch of any partition was read.")
    rows = leadership.choose_rows(fold.rows)
    holes = time_bins.find_holes(run)
    drawn = leadership.draw_leaders(rows, view, run.window, run.findings, holes)
    says = f"{_says(fold)} {_left(fold, rows)}".strip()
    summary = tag("summary", "Rows of the figure, with their partitions")
    listing = tag("details", summary, _listing(rows))
    return join([
        figure("figure-leaders", drawn, says, listing),
        partition_heatmap.render(run, fold.grid, fold.min_isr, view, holes),
    ])  # fmt: skip


def _left(
    fold: partition_groups.GroupedHistories, rows: list[partition_groups.PartitionGroup]
) -> str:
    """Say what is not drawn, and how much of it there is."""
    left = fold.history_count - len(rows)
    some = fold.partition_count - sum(len(row.members) for row in rows)
    more = f"{count(left, 'row')} with less harm are not drawn ({count(some, 'partition')})."
    more = more if left else ""
    long = [row for row in rows if row.omitted_epochs > 0]
    if long:
        more += f" {count(len(long), 'row')} with too many leader epochs to draw: of "
        more += (
            f"{long[0].impact.epoch_count:,} of {long[0].label} the worst and longest are drawn."
        )
    return more.strip()


def _says(fold: partition_groups.GroupedHistories) -> str:
    unclean = sum(len(row.members) for row in fold.rows if row.impact.unclean_count)
    dark = max((row.impact.leaderless_ms for row in fold.rows), default=0)
    # A sum: the longest single time stands in the finding.
    some = f"none was without a leader for more than {duration(dark)}, all its times together"
    worst = some if dark else "none was without a leader"
    histories = count(fold.history_count, "different history", "different histories")
    torn = count(unclean, "partition") if unclean else "no partition"
    return (
        f"{count(fold.partition_count, 'partition')} with {histories}; {torn} with an unclean "
        f"election; {worst}. The number in a bar is the leader epoch, the thin bar below is the "
        "ISR; hatched: not known."
    )


def _listing(rows: list[partition_groups.PartitionGroup]) -> Markup:
    head = ("Row", "Leaders in order", "Unclean", "Without leader", "Alone in sync", "Partitions")
    left, cells = LISTED, []
    for row in rows:
        cells.append(_cells(row, max(1, min(MEMBERS, left))))
        left -= len(row.members)
    return table(head, cells, caption="Partitions with equal histories", numbers=("Unclean",))


def _cells(row: partition_groups.PartitionGroup, most: int) -> list[Child]:
    reigns = [
        f"{_leader(reign.leader)} from {time_text(reign.start)[11:]}" for reign in row.leader_epochs
    ]
    members = join_names(list(row.members), most)
    alone, dark = (
        duration(ms) if ms else "-" for ms in (row.impact.single_isr_ms, row.impact.leaderless_ms)
    )
    return [row.label, join_names(reigns, 12), row.impact.unclean_count, dark, alone, members]


def _leader(leader: int | None) -> str:
    if leader is None:
        return "not known"
    return "none" if leader == -1 else str(leader)
