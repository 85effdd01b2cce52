"""Everything on one time axis: findings, controller, brokers, debt, client errors."""

from __future__ import annotations

from forensics.lib.formatting import count, duration, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report import lane_intervals, partition_groups, plotly_sheet, time_bins
from forensics.report.figures import timeline
from forensics.report.html import Markup, figure, join, render_legend, table, tag
from forensics.run_output.reader import RunOutput

ORDER = 30
TITLE = "Timeline"
AWAY = frozenset({
    "crashed", "fenced", "paused", "stopped", "stopping", "starting", "recovering",
})  # fmt: skip
TROUBLED = frozenset({"stale", "disconnected"})
DEBT = {"offline": "without a leader"}
# Lanes of brokers and of clients, bars of the brokers', rows of the table.
LANES, CLIENTS, BARS, ROWS = 30, 12, 500, 100


def render(run: RunOutput) -> Markup:
    """Draw the master timeline and list its broker states as a table."""
    drawn = _tracks(run)
    if drawn is None:
        return tag("p", "No log line with a time was read, so there is no timeline.")
    drawing = timeline.draw_timeline(drawn)
    states = _states(lane_intervals.read_lanes(run, "broker"))
    if not drawing["data"]:
        return join([tag("p", _says(drawn)), states])
    colours = render_legend(timeline.timeline_legend(drawn))
    still = timeline.draw_static_timeline(drawn)
    return figure("figure-timeline", drawing, _says(drawn), colours, states, still=still)


def _tracks(run: RunOutput) -> plotly_sheet.TimelineData | None:
    """Read everything that the figure shows."""
    view, whole = lane_intervals.choose_view(run), run.window
    if not view or not whole:
        return None
    fold = partition_groups.group_partitions(run)
    cells = fold.grid.edges if fold else partition_groups.heatmap_edges(run, whole)
    counted = time_bins.count_events(run, cells)
    brokers = _worst(lane_intervals.read_lanes(run, "broker"), AWAY, LANES)
    clients = _worst(lane_intervals.read_lanes(run, "client"), TROUBLED, CLIENTS)
    return plotly_sheet.TimelineData(
        view=view,
        findings=run.findings[:200],
        controller=lane_intervals.merge_short_intervals(
            lane_intervals.read_lanes(run, "controller"), 100, whole
        ),
        brokers=lane_intervals.merge_short_intervals(brokers, BARS, whole),
        debt=time_bins.count_debt(run),
        clients=lane_intervals.merge_short_intervals(clients, BARS // 3, whole),
        holes=time_bins.find_holes(run),
        silences=time_bins.find_silences(run),
        volume=counted if counted.facts.any() else None,
        grid=fold.grid if fold else None,
    )


def _worst(
    lanes: list[lane_intervals.LaneInterval], bad: frozenset[str], most: int
) -> list[lane_intervals.LaneInterval]:
    """Keep as many lanes as one can read, those that were longest in a bad state first."""
    away: dict[str, int] = {lane.name: 0 for lane in lanes}
    for lane in lanes:
        away[lane.name] += (lane.end - lane.start) * (lane.state in bad)
    ranked = sorted(away, key=lambda name: -away[name])[:most]
    return [lane for lane in lanes if lane.name in set(ranked)]


def _says(drawn: plotly_sheet.TimelineData) -> str:
    # The lanes come in the order of their numbers; a set would not keep it.
    away = list(dict.fromkeys(lane.name for lane in drawn.brokers if lane.state in AWAY))
    peaks = [
        f"{count(level, 'partition')} {DEBT.get(name, name)}"
        for name, points in drawn.debt.items()
        if (level := time_bins.max_level(points, drawn.view))
    ]
    counted = drawn.volume.errors.values() if drawn.volume else ()
    errors = sum(int(bins.sum()) for bins in counted)
    parts = [
        f"{count(len(drawn.findings), 'finding')}",
        f"{join_names(away, 6)} away or restarting at some time" if away else "no broker seen away",
        f"at worst {' and '.join(peaks)} at once" if peaks else "",
        f"{count(errors, 'client error')}",
    ]
    shown = (
        f"Shown: {time_text(drawn.view[0])} to {time_text(drawn.view[1])} {current_zone().label}"
    )
    return f"{'; '.join(part for part in parts if part)}. {shown}. Hatched: not known."


def _states(brokers: list[lane_intervals.LaneInterval]) -> Markup | None:
    if not brokers:
        return tag("p", "No broker's life could be read from the logs.")
    rows = [
        [
            lane.name,
            lane.state,
            time_text(lane.start),
            time_text(lane.end),
            duration(lane.end - lane.start),
        ]
        for lane in brokers
        if lane.state != "up"
    ]
    caption = "Broker states other than up"
    if len(rows) > ROWS:
        caption += f", the first {ROWS} of {len(rows):,}"
    label = current_zone().label
    head = ["Broker", "State", f"From, {label}", f"To, {label}", "For"]
    shown = table(head, rows[:ROWS], caption=caption)
    return tag("details", tag("summary", "Broker states as a table"), shown) if rows else None
