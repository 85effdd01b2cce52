"""Lanes of brokers, controllers and clients as intervals that a figure can draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow.dataset as ds

from forensics.lib import intervals
from forensics.lib.node_ids import client_name, whole_client
from forensics.report import theme
from forensics.report.cluster_facts import uses_zookeeper
from forensics.report.finding_text import CLIENT_DETECTORS, short_title, times_of
from forensics.report.incident_span import incident_span
from forensics.run_output.reader import Row, RunOutput

COLUMNS = ("node", "broker", "state", "started_at", "ended_at")
# A lane and the line of its election may be this far apart where a clock drifts.
MAX_EPOCH_DISTANCE_MS = 5000
MIN_MARGIN_MS = 15_000
# A client that closes says so; the next start of it, or a line as a member of a group, ends that.
CLOSING_KINDS = ("group_leaving", "producer_closing")
STARTING_KINDS = ("kafka_version", "client_setting_seen")
STARTING_STATES = ("starting", "recovering")
LIVING_KINDS = ("group_joining", "group_joined", "partitions_assigned")
# When a controller was elected, which node, and the epoch.
Election = tuple[int, int | None, int]


@dataclass(frozen=True)
class LaneInterval:
    """The time for which one node was in one state."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int
    epoch: int | None = None
    # what the figure says in place of the state's own word, and when somebody points at it
    words: str = ""
    about: str = ""


def choose_view(run: RunOutput) -> tuple[int, int] | None:
    """Choose what the time axis shows first: the incident and a little around it, or all."""
    window = run.window
    if not window:
        return None
    span = incident_span(run)
    if span is None or run.is_windowed:
        return window
    start, end = min(span.start, window[1]), max(span.end, window[0])
    margin = max((end - start) // 8, MIN_MARGIN_MS)
    return max(window[0], start - margin), min(window[1], end + margin)


def read_lanes(run: RunOutput, role: str) -> list[LaneInterval]:
    """Read the lanes of one role; what no line covers is there as unknown."""
    window = run.window
    if not window:
        return []
    where = ds.field("role") == role
    elections: Sequence[Election] = ()
    if role == "controller":
        # One lane for them all: only one node may lead at a time. A deposed one that does not know
        # it stands beside the next one, not on its lane.
        where &= ds.field("state").isin(["active", "vacant"])
        elections = _read_elections(run)
    lanes: dict[str, list[LaneInterval]] = {}
    for row in run.rows("lanes", COLUMNS, where):
        name = "controller" if role == "controller" else _lane_name(row)
        lanes.setdefault(name, []).append(_lane_interval(row, name, window, elections))
    found = [
        interval
        for name in sorted(lanes, key=name_order)
        for interval in _fill_gaps(lanes[name], window)
    ]
    if role == "broker" and any(one.state == "fenced" for one in found) and uses_zookeeper(run):
        found = [
            replace(one, words=theme.SESSION_LOST) if one.state == "fenced" else one
            for one in found
        ]
    if role != "broker":
        return found
    return list(_draw_short_freezes(run, _name_failed_starts(found)))


def _draw_short_freezes(run: RunOutput, lanes: Iterable[LaneInterval]) -> Iterator[LaneInterval]:
    """Cut the freezes that findings tell of, too short for a session to end, out of `up`."""
    frozen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in run.findings:
        froze = one.detector == "long-pause" or one.measures.get("freezes_min")
        if froze and len(one.brokers) == 1:
            frozen[one.brokers[0]] += [
                (at, at + round(seconds * 1000)) for at, seconds in times_of(one) if seconds
            ]
    for lane in lanes:
        whole = (lane.start, lane.end)
        known = frozen.get(lane.broker, []) if lane.broker is not None else []
        spans = intervals.clip(intervals.merge(known), whole) if lane.state == "up" else []
        rest = intervals.gaps(spans, whole) if spans else [whole]
        pieces = [replace(lane, start=start, end=end) for start, end in rest]
        pieces += [replace(lane, state="paused", start=start, end=end) for start, end in spans]
        yield from sorted(pieces, key=lambda piece: piece.start)


def _name_failed_starts(lanes: Sequence[LaneInterval]) -> Iterator[LaneInterval]:
    """Say of a broker that stopped without having been up that its start failed."""
    starting: dict[str, bool] = {}
    for one in lanes:
        if one.state == "up":
            starting[one.name] = False
        elif one.state in STARTING_STATES:
            starting[one.name] = True
        is_failed = one.state == "stopped" and starting.get(one.name)
        yield replace(one, words="start failed") if is_failed else one


def read_client_lanes(run: RunOutput) -> list[LaneInterval]:
    """Read the lanes of clients, with what was found about each and when it was stopped.

    A client that nobody found fault with runs where its log goes on; where it was closed or its log
    has ended, it does not.
    """
    window = run.window
    if not window:
        return []
    lanes: dict[str, list[LaneInterval]] = defaultdict(list)
    for lane in read_lanes(run, "client"):
        lanes[lane.name].append(lane)
    found = _findings_by_client(run, window)
    for name in found:
        if name not in lanes:
            lanes[name] = [LaneInterval(name, None, "unknown", *window)]
    closed = _closed_times(run)
    return [
        piece
        for name in sorted(lanes, key=name_order)
        for piece in _say_more(lanes[name], closed.get(name, ()), found.get(name, ()))
    ]


def _findings_by_client(run: RunOutput, window: tuple[int, int]) -> dict[str, list[LaneInterval]]:
    """Return what was found about each client, as pieces of its lane."""
    found: dict[str, list[LaneInterval]] = defaultdict(list)
    for one in run.incidents:
        if one.detector not in CLIENT_DETECTORS or one.start_ms is None:
            continue
        start, end = one.start_ms, window[1] if one.end_ms is None else one.end_ms
        for client in one.clients:
            name = whole_client(client) if not client.startswith("file:") else client_name(client)
            found[name].append(LaneInterval(
                name, None, "affected", start, max(start + 1, end), words=short_title(one),
                about=one.title,
            ))  # fmt: skip
    return found


def _closed_times(run: RunOutput) -> dict[str, list[tuple[int, int]]]:
    """Return when the one client of a process was closed and not yet started again."""
    kinds = (*CLOSING_KINDS, *STARTING_KINDS, *LIVING_KINDS)
    columns = ("ts", "node", "kind", "client")
    moments: dict[str, list[tuple[int, str]]] = defaultdict(list)
    clients: dict[str, set[str]] = defaultdict(set)
    nodes = {row["node"] for row in run.files if row["role"] == "client" and row["node"]}
    for row in run.rows("events", columns, ds.field("kind").isin(list(kinds))):
        if row["ts"] is not None and row["node"] in nodes:
            at = run.correct_time(row["node"], row["ts"])
            moments[row["node"]].append((at, row["kind"]))
            clients[row["node"]] |= {row["client"]} - {None}
    return {
        node: list(_between_lives(sorted(told)))
        for node, told in moments.items()
        if len(clients[node]) <= 1
    }


def _between_lives(moments: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    closed = None
    for at, kind in moments:
        if kind in CLOSING_KINDS:
            closed = at
        elif closed is not None:
            if kind in STARTING_KINDS:
                yield closed, at
            closed = None


def _say_more(
    lane: Sequence[LaneInterval], closed: Sequence[tuple[int, int]],
    found: Sequence[LaneInterval],
) -> Iterator[LaneInterval]:  # fmt: skip
    """Cut out of a client's lane when it was closed and what was found, and name its silence."""
    known = [one for one in lane if one.state != "unknown"]
    pieces: list[LaneInterval] = []
    for one in lane:
        if one.state == "unknown" and known:
            silence = "no lines yet" if one.start < known[0].start else "log ended"
            pieces.append(replace(one, words=silence))
        elif one.state == "healthy":
            whole = (one.start, one.end)
            shut = intervals.clip(closed, whole)
            pieces += (replace(one, state="stopped", start=a, end=b) for a, b in shut)
            pieces += (replace(one, start=a, end=b) for a, b in intervals.gaps(shut, whole))
        else:
            pieces.append(one)
    # Of a client that cannot reach anybody its lane says as much as what was found.
    spans = intervals.merge([(one.start, one.end) for one in found])
    # Nothing reaches over a silence, but where there is no log at all.
    plain = ("healthy",) if known else ("unknown",)
    for one in pieces:
        if one.state in plain:
            whole = (one.start, one.end)
            rest = intervals.gaps(intervals.clip(spans, whole), whole)
            yield from (replace(one, start=a, end=b) for a, b in rest)
        else:
            yield one
    told = [(one.start, one.end) for one in pieces if one.state not in plain]
    for span in spans:
        about = [one for one in found if span[0] <= one.start <= span[1]]
        words = " and ".join(dict.fromkeys(one.words for one in about))
        hover = "; ".join(dict.fromkeys(one.about for one in about))
        for start, end in intervals.gaps(intervals.clip(told, span), span):
            yield replace(about[0], start=start, end=end, words=words, about=hover)


def read_controller_terms(run: RunOutput) -> list[LaneInterval]:
    """Read the terms of controllers by time, with those who did not notice that theirs was over."""
    window = run.window
    if not window:
        return []
    where = (ds.field("role") == "controller") & ds.field("state").isin(["active", "deposed"])
    elections = _read_elections(run)
    terms = (
        _lane_interval(row, row["node"] or "node not known", window, elections)
        for row in run.rows("lanes", COLUMNS, where)
    )
    return sorted(terms, key=lambda term: (term.start, term.end, term.name))


def _lane_interval(
    row: Row, name: str, window: tuple[int, int], elections: Sequence[Election]
) -> LaneInterval:
    start, end = row["started_at"], row["ended_at"]
    return LaneInterval(
        name,
        row["broker"],
        row["state"] or "unknown",
        window[0] if start is None else start,
        window[1] if end is None else end,
        _find_epoch(row, elections),
    )


def _read_elections(run: RunOutput) -> list[Election]:
    columns = ["ts", "node", "controller", "controller_epoch"]
    rows = run.rows("events", columns, ds.field("kind") == "controller_elected")
    return [
        (run.correct_time(row["node"], row["ts"]), row["controller"], row["controller_epoch"])
        for row in rows if row["ts"] is not None and row["controller_epoch"] is not None
    ]  # fmt: skip


def _find_epoch(row: Row, elections: Sequence[Election]) -> int | None:
    """Find the epoch of a controller's term by when it began."""
    start = row["started_at"]
    if start is None or row["state"] != "active":
        return None
    near = [(abs(at - start), epoch) for at, node, epoch in elections
            if node in (None, row["broker"])]  # fmt: skip
    distance, epoch = min(near, default=(MAX_EPOCH_DISTANCE_MS + 1, 0))
    return epoch if distance <= MAX_EPOCH_DISTANCE_MS else None


def merge_short_intervals(
    lanes: Sequence[LaneInterval], max_count: int, window: tuple[int, int]
) -> list[LaneInterval]:
    """Join what is too short to be seen, until there are at most so many intervals.

    >>> up, down = (LaneInterval("a", 1, state, 0, 5) for state in ("up", "down"))
    >>> joined = merge_short_intervals(
    ...     [up, replace(down, start=5, end=6), replace(up, start=6, end=7),
    ...      replace(down, start=7, end=99)], 3, (0, 99))[1]
    >>> joined.state, joined.start, joined.end
    ('several states', 5, 7)
    """
    length = window[1] - window[0]
    merged, min_length = list(lanes), max(1, length // 1000)
    while len(merged) > max_count and min_length < 2 * length:
        merged, min_length = _merge_shorter(merged, min_length), min_length * 2
    return merged


def _merge_shorter(lanes: Sequence[LaneInterval], min_length: int) -> list[LaneInterval]:
    merged: list[LaneInterval] = []
    short: list[LaneInterval] = []
    for lane in lanes:
        if lane.end - lane.start >= min_length:
            merged.append(lane)
            short = []
        elif short and short[-1].name == lane.name:
            short.append(lane)
            end = max(merged[-1].end, lane.end)
            merged[-1] = replace(short[0], state="several states", end=end, epoch=None)
        else:
            merged.append(lane)
            short = [lane]
    return merged


def _lane_name(row: Row) -> str:
    return row["node"] or "node not known" if row["broker"] is None else f"broker {row['broker']}"


def name_order(name: str) -> tuple[int, str]:
    """Return a key that sorts names that end in a number by it, and all others last."""
    number = name.rpartition(" ")[2]
    return (int(number) if number.isdecimal() and len(number) <= 10 else 1 << 31, name)


def _fill_gaps(lanes: list[LaneInterval], window: tuple[int, int]) -> list[LaneInterval]:
    gaps, reached = list[LaneInterval](), window[0]
    # A state of a moment, too, stands between two gaps.
    for start, end in [*sorted((lane.start, lane.end) for lane in lanes), (window[1], window[1])]:
        if reached < min(start, window[1]):
            gap = (reached, min(start, window[1]))
            gaps.append(LaneInterval(lanes[0].name, None, "unknown", *gap))
        reached = max(reached, end)
    return sorted([*lanes, *gaps], key=lambda lane: (lane.start, lane.end, lane.state))


def assign_rows(spans: Sequence[tuple[int, int]], apart: int) -> list[int]:
    """Give each span a row so that no two in a row stand closer than `apart`.

    >>> assign_rows([(0, 4), (1, 2), (9, 9)], 2)
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for start, end in spans:
        row = next((row for row, last in enumerate(ends) if last + apart <= start), len(ends))
        ends[row : row + 1] = [max(end, start)]
        rows.append(row)
    return rows
