"""Everything on one time axis: findings, controller, brokers, debt, client errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import pyarrow.dataset as ds

from forensics.history.nodes.broker_states import AWAY_STATES, SHUTDOWN_STATES
from forensics.lib import intervals
from forensics.lib.text_format import duration, join_names, natural_key, time_text
from forensics.lib.time_zone import current_zone
from forensics.report import partition_groups, plotly_sheet, theme, time_bins
from forensics.report.figures import timeline
from forensics.report.html import Markup, figure, join, limit_caption, render_legend, table, tag
from forensics.report.lane_intervals import (
    LaneInterval,
    choose_view,
    merge_short_intervals,
    read_client_lanes,
    read_lanes,
)
from forensics.report.partition_groups import GroupedHistories, PartitionGroup
from forensics.run_output.reader import RunOutput

TITLE = "Timeline"
TROUBLED_STATES = frozenset({"affected", "stale", "disconnected"})
MAX_FINDINGS, MAX_BROKERS, MAX_CLIENTS, MAX_ROWS = 200, 30, 6, 100
MAX_BROKER_BARS, MAX_CLIENT_BARS, MAX_CONTROLLER_BARS = 500, 166, 100

# So many rows fit on the first screen below the brokers.
MAX_LANES, MAX_BARS = 4, 200
# The leader changed once more, or nobody says whether it did: that is no outage.
NOT_TOLD = "leader not in the logs"
LEADING = ("leader", "unclean leader")
Span = tuple[int, int]


def render(run: RunOutput) -> Markup:
    """Draw the master timeline and list its broker states as a table."""
    brokers = read_lanes(run, "broker")
    data = _timeline_data(run, brokers)
    if data is None:
        return tag("p", "No log line with a time was read, so there is no timeline.")
    caption = _caption(run, data)
    drawing = timeline.draw_timeline(data)
    states = _states(brokers)
    if not drawing["data"]:
        return join([tag("p", caption), states])
    legend = render_legend((), timeline.state_legend(data))
    colours = render_legend(timeline.timeline_legend(data))
    still = timeline.draw_static_timeline(data)
    return figure("figure-timeline", drawing, caption, colours, states, still=still, legend=legend)


def _timeline_data(run: RunOutput, brokers: list[LaneInterval]) -> plotly_sheet.TimelineData | None:
    """Read everything that the figure shows."""
    view, window = choose_view(run), run.window
    if not view or not window:
        return None
    groups = partition_groups.group_partitions(run)
    edges = groups.grid.edges if groups else partition_groups.heatmap_edges(run, window)
    volume = time_bins.count_events(run, edges)
    worst_brokers = _worst(brokers, AWAY_STATES, MAX_BROKERS)
    every_client = read_client_lanes(run)
    worst_clients = _worst(every_client, TROUBLED_STATES, MAX_CLIENTS)
    controllers = read_lanes(run, "controller")
    return plotly_sheet.TimelineData(
        view=view,
        findings=run.findings[:MAX_FINDINGS],
        controller=merge_short_intervals(controllers, MAX_CONTROLLER_BARS, window)
        if len({lane.broker for lane in controllers} - {None}) > 1
        else (),
        brokers=[
            *merge_short_intervals(worst_brokers, MAX_BROKER_BARS, window),
            *_brackets(run, {lane.name for lane in worst_brokers}),
            *_lost_disks(run, worst_brokers),
        ],
        debt=time_bins.count_degraded_partitions(run),
        clients=merge_short_intervals(worst_clients, MAX_CLIENT_BARS, window),
        clients_title=_rows_title("Clients", every_client, worst_clients),
        partitions=_read_partition_lanes(run, groups, view),
        silences=time_bins.find_silences(run),
        volume=volume if volume.facts.any() else None,
        grid=groups.grid if groups else None,
    )


def _rows_title(title: str, every: Sequence[LaneInterval], drawn: Sequence[LaneInterval]) -> str:
    """Say how many rows there are of how many.

    >>> one, two = (LaneInterval(name, None, "up", 0, 1) for name in "ab")
    >>> _rows_title("Clients", [one, two], [two]), _rows_title("Clients", [one], [one])
    ('Clients: 1 of 2, those in most trouble', 'Clients')
    """
    all_names, names = ({lane.name for lane in lanes} for lanes in (every, drawn))
    if len(names) == len(all_names):
        return title
    return f"{title}: {len(names)} of {len(all_names)}, those in most trouble"


def _brackets(run: RunOutput, names: AbstractSet[str]) -> list[LaneInterval]:
    """Return between which moments brokers crashed: no line of their own says when."""
    columns = ("node", "broker", "state", "started_after", "started_before")
    if not {"started_after", "started_before"} <= set(run.tables.column_names("lanes")):
        return []
    is_crash = (ds.field("role") == "broker") & (ds.field("state") == "crashed")
    found = []
    for row in run.rows("lanes", columns, is_crash):
        start, end = row["started_after"], row["started_before"]
        name = f"broker {row['broker']}"
        if row["broker"] is not None and name in names and start is not None and end is not None:
            found.append(LaneInterval(name, row["broker"], "vanished", start, end))
    return found[:MAX_CONTROLLER_BARS]


def _lost_disks(run: RunOutput, lanes: Sequence[LaneInterval]) -> list[LaneInterval]:
    """Return from when to when brokers ran on without one of their log directories.

    A broker takes a directory into use again only when it is started.
    """
    found = []
    for one in run.incidents:
        for number in one.brokers if one.detector == "disk-failure" else ():
            lane = next((lane for lane in lanes if lane.broker == number and lane.state == "up"
                         and one.start_ms is not None and lane.start <= one.start_ms < lane.end),
                        None)  # fmt: skip
            if lane is not None and one.start_ms is not None:
                found.append(replace(lane, state="disk lost", start=one.start_ms))
    return found


def _worst(
    lanes: list[LaneInterval], bad_states: AbstractSet[str], limit: int
) -> list[LaneInterval]:
    """Keep as many lanes as one can read, those that were longest in a bad state first."""
    bad = Counter({lane.name: 0 for lane in lanes})
    for lane in lanes:
        bad[lane.name] += (lane.end - lane.start) * (lane.state in bad_states)
    kept = {name for name, _ in bad.most_common(limit)}
    return [lane for lane in lanes if lane.name in kept]


def _caption(run: RunOutput, data: plotly_sheet.TimelineData) -> str:
    away = sorted({lane.name for lane in _absences(data.brokers)}, key=natural_key)
    stopped = any(lane.state in SHUTDOWN_STATES for lane in data.brokers)
    until = "until they were shut down at the end" if stopped else "all the time"
    served = f"All brokers in these logs were in service {until}"
    if away:
        served = f"Not in service at some time: {join_names(away, 6)}"
    broken = sorted({one.name for one in data.brokers if one.state == "disk lost"}, key=natural_key)
    if broken:
        served += f"; without a log directory: {join_names(broken, 6)}"
    silent = _silent_brokers(data.brokers, data.view)
    if silent and not away:
        served += f", as far as their lines show: no lines for a while from {join_names(silent, 6)}"
    # The summary says how many partitions of an incident were unavailable, and how many at once.
    told = {"unavailable"} if run.incidents else set()
    peaks = [
        f"{level:,} {name}"
        for name, points in data.debt.items()
        if name not in told and (level := time_bins.max_level(points, data.view))
    ]
    worst = [f"partitions at the same moment, at most: {', '.join(peaks)}"] if peaks else []
    start, end = map(time_text, data.view)
    if start[:10] == end[:10]:
        # The axis has the day.
        start, end = start[11:], end[11:]
    text = "; ".join([served, *worst])
    return f"{text}. Shown: {start} to {end} {current_zone().label}; the strip below has all."


def _silent_brokers(lanes: Sequence[LaneInterval], view: Span) -> list[str]:
    """Name brokers without lines in the middle of what is shown, where they are drawn hatched."""
    found = []
    for name in dict.fromkeys(lane.name for lane in lanes):
        own = [lane for lane in lanes if lane.name == name]
        known = [lane for lane in own if lane.state != "unknown"]
        ends = [lane.end for lane in known]
        if any(lane.state == "unknown" and lane.start < view[1] and lane.end > view[0]
               and lane.start < max(ends, default=0) for lane in own):  # fmt: skip
            found.append(name)
    return found


def _absences(lanes: Sequence[LaneInterval]) -> Iterator[LaneInterval]:
    """Yield when brokers were away: not before their first start, nor after their last stop."""
    by_name: dict[str, list[LaneInterval]] = {}
    for lane in sorted(lanes, key=lambda one: (one.start, one.end)):
        if lane.state not in theme.OVERLAYS:
            by_name.setdefault(lane.name, []).append(lane)
    for own in by_name.values():
        up = [at for at, lane in enumerate(own) if lane.state == "up"]
        if not up:
            continue
        tail = own[up[-1] + 1 :]
        ended = all(lane.state in (*SHUTDOWN_STATES, "unknown") for lane in tail)
        last = up[-1] if ended else len(own)
        yield from (lane for lane in own[up[0] : last] if lane.state in AWAY_STATES)


def _states(brokers: list[LaneInterval]) -> Markup | None:
    if not brokers:
        return tag("p", "The logs say nothing of the states of brokers.")
    rows = [
        [lane.name, lane.words or theme.state_words(lane.state), time_text(lane.start),
         time_text(lane.end), duration(lane.end - lane.start)]
        for lane in brokers if lane.state != "up"
    ]  # fmt: skip
    if not rows:
        return None
    caption = limit_caption("Broker states other than up", len(rows), MAX_ROWS)
    label = current_zone().label
    head = ["Broker", "State", f"From, {label}", f"To, {label}", "For"]
    listing = table(head, rows[:MAX_ROWS], caption=caption)
    return tag("details", tag("summary", "Broker states as a table"), listing)


def _read_partition_lanes(
    run: RunOutput, groups: GroupedHistories | None, view: Span
) -> list[LaneInterval]:
    """Return the lanes of the worst groups with an unplanned outage in the view."""
    if groups is None:
        return []
    outages = _read_outages(run, view)
    hit = [row for row in groups.rows if any(name in outages for name in row.members)]
    lanes: list[LaneInterval] = []
    for row in hit[:MAX_LANES]:
        dark = {span for name in row.members for span in outages.get(name, ())}
        lanes += _cut_at(_led_later(run, row, _leaders(row, view)), dark)
        # Where there was no leader at all, that says enough.
        leaderless = [(one.start, one.end) for one in row.leader_epochs if one.leader == -1]
        lanes += [
            LaneInterval(row.label, None, "not served", *piece)
            for span in sorted(dark)[:MAX_BARS]
            for piece in intervals.gaps(intervals.clip(leaderless, span), span)
        ]
    return lanes


def _led_later(
    run: RunOutput, row: PartitionGroup, lanes: Sequence[LaneInterval]
) -> Iterator[LaneInterval]:
    """Let leaders begin where lines show them at last, though none says since when they lead."""
    topic, _, number = row.members[0].rpartition("-")
    where = (ds.field("topic") == topic) & (ds.field("partition") == int(number))
    where &= ds.field("started_at").is_null() & (ds.field("leader") >= 0)
    columns = ("leader", "started_before", "ended_at")
    if "started_before" not in run.tables.column_names("leadership"):
        yield from lanes
        return
    shown = [
        (one["started_before"], one["ended_at"] or run.logs_end, one["leader"])
        for one in run.rows("leadership", columns, where)
        if one["started_before"]
    ]
    for lane in lanes:
        own = [] if lane.state != "unknown" else [
            LaneInterval(lane.name, leader, "leader", max(start, lane.start), min(end, lane.end))
            for start, end, leader in shown
            if end is not None and max(start, lane.start) < min(end, lane.end)
        ]  # fmt: skip
        known = [(one.start, one.end) for one in own]
        yield from own
        yield from (replace(lane, start=start, end=end)
                    for start, end in intervals.gaps(known, (lane.start, lane.end)))  # fmt: skip


def _cut_at(lanes: Iterable[LaneInterval], spans: AbstractSet[Span]) -> Iterator[LaneInterval]:
    """Cut leaders where they did not serve, so that no word stands below the hatching."""
    for lane in lanes:
        whole = (lane.start, lane.end)
        dark = intervals.clip(spans, whole) if lane.state in LEADING else []
        for start, end in intervals.gaps(dark, whole):
            yield replace(lane, start=start, end=end)
        for start, end in dark:
            yield replace(lane, start=start, end=end, words=" ")


def _read_outages(run: RunOutput, view: Span) -> dict[str, list[Span]]:
    columns = ("topic", "partition", "started_at", "ended_at")
    found: dict[str, list[Span]] = {}
    for row in run.rows("outages", columns, ~ds.field("planned")):
        start, end = row["started_at"], row["ended_at"]
        end = run.logs_end if end is None else end
        # One that began at an unknown time is painted nowhere.
        if start is not None and end is not None and start < view[1] and end > view[0]:
            found.setdefault(f"{row['topic']}-{row['partition']}", []).append((start, end))
    return found


def _leaders(row: PartitionGroup, view: Span) -> Sequence[LaneInterval]:
    lanes: list[LaneInterval] = []
    for epoch in row.leader_epochs[:MAX_BARS]:
        state = "unclean leader" if epoch.unclean else "leader"
        if epoch.leader is None:
            state = "unknown"
        elif epoch.leader == -1:
            state = "no leader"
        leader = epoch.leader if epoch.leader is not None and epoch.leader >= 0 else None
        if not (epoch.start < view[1] and epoch.end > view[0]):
            continue
        last = lanes[-1] if lanes else None
        is_same = last and (last.broker, last.state) == (leader, state)
        if last and is_same and epoch.start <= last.end + partition_groups.SAME_CHANGE_MS:
            # The same leader under another epoch: nothing changed for clients.
            lanes[-1] = replace(last, end=epoch.end)
        else:
            lanes.append(LaneInterval(row.label, leader, state, epoch.start, epoch.end))
    if lanes:
        known = [(lane.start, lane.end) for lane in lanes]
        unknown = (
            intervals.gaps(known, (lanes[0].start, view[1])) if lanes[0].start < view[1] else []
        )
        lanes += [LaneInterval(row.label, None, "unknown", *gap) for gap in unknown]
    return [replace(one, words=NOT_TOLD) if one.state == "unknown" else one for one in lanes]
