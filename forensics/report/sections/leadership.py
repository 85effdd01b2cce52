"""Who led which partition when, worst first, equal histories as one row."""

from __future__ import annotations

from forensics.lib.text_format import count, duration, join_names, time_text
from forensics.report import time_bins
from forensics.report.figures import leadership, partition_heatmap
from forensics.report.html import Child, Markup, figure, join, table, tag
from forensics.report.lane_intervals import choose_view
from forensics.report.partition_groups import (
    GroupedHistories,
    PartitionGroup,
    group_partitions,
    leader_word,
)
from forensics.report.partition_ranking import read_unavailable_times
from forensics.run_output.reader import RunOutput

TITLE = "Leaders"
# Members of a row that are listed by name, and all of them together.
MAX_MEMBERS, MAX_ALL_MEMBERS = 200, 4000
MAX_LEADERS = 12


def render(run: RunOutput) -> Markup:
    """Draw the leaders of the partitions that changed most, and list what each row holds."""
    view, groups = choose_view(run), group_partitions(run)
    if not view or not groups or not groups.rows:
        return tag("p", "No leader epoch of any partition was read.")
    rows = leadership.choose_rows(groups.rows)
    holes = time_bins.find_holes(run)
    drawing = leadership.draw_leaders(rows, view, run.window, run.findings, holes)
    caption = " ".join([_caption(run, groups), *_left_out(groups, rows)])
    summary = tag("summary", "Rows of the figure, with their partitions")
    return join([
        figure("figure-leaders", drawing, caption, tag("details", summary, _listing(rows))),
        partition_heatmap.render(run, groups.grid, groups.min_isr, view, holes),
    ])  # fmt: skip


def _left_out(groups: GroupedHistories, rows: list[PartitionGroup]) -> list[str]:
    """Say what is not drawn, and how much of it there is."""
    texts = []
    if left := groups.history_count - len(rows):
        partitions = groups.partition_count - sum(len(row.members) for row in rows)
        texts.append(
            f"{count(left, 'row')} with less harm are not drawn ({count(partitions, 'partition')})."
        )
    if long := [row for row in rows if row.omitted_epochs > 0]:
        texts.append(
            f"{count(len(long), 'row')} with too many leader epochs to draw: of "
            f"{long[0].impact.epoch_count:,} of {long[0].label} the worst and longest are drawn."
        )
    return texts


def _caption(run: RunOutput, groups: GroupedHistories) -> str:
    unclean = sum(len(row.members) for row in groups.rows if row.impact.unclean_count)
    outages = read_unavailable_times(run)
    leaderless = (row.impact.leaderless_ms for row in groups.rows)
    longest = max(leaderless if outages is None else outages.values(), default=0)
    worst = "none was unavailable"
    if longest:
        # A sum: the longest single time stands in the finding.
        worst += f" for more than {duration(longest)}, all its times together"
    histories = count(groups.history_count, "different history", "different histories")
    with_unclean = count(unclean, "partition") if unclean else "no partition"
    return (
        f"{count(groups.partition_count, 'partition')} with {histories}; {with_unclean} with an "
        f"unclean election; {worst}. The number in a bar is the leader epoch, the thin bar below "
        "is the ISR; hatched: not known."
    )


def _listing(rows: list[PartitionGroup]) -> Markup:
    head = ("Row", "Leaders in order", "Unclean", "Without leader", "Alone in sync", "Partitions")
    left, lines = MAX_ALL_MEMBERS, []
    for row in rows:
        lines.append(_cells(row, max(1, min(MAX_MEMBERS, left))))
        left -= len(row.members)
    return table(head, lines, caption="Partitions with equal histories", numbers=("Unclean",))


def _cells(row: PartitionGroup, max_members: int) -> list[Child]:
    leaders = [f"{leader_word(one.leader)} from {time_text(one.start)[11:]}"
               for one in row.leader_epochs]  # fmt: skip
    times = row.impact.leaderless_ms, row.impact.single_isr_ms
    return [
        row.label,
        join_names(leaders, MAX_LEADERS),
        row.impact.unclean_count,
        *(duration(ms) if ms else "-" for ms in times),
        join_names(list(row.members), max_members),
    ]
