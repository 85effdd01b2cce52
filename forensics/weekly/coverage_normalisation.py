"""How much of a window the logs of each node cover: silence proves something only there.

How much of what should be covered is covered, and counts made comparable by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.history.log_coverage import PARTITION_LOGS, classify_log_file
from forensics.lib.node_ids import broker_id, broker_node
from forensics.report.lane_intervals import find_gaps
from forensics.run_output.reader import Row, RunOutput

Span = tuple[int, int]

# A hole in what a log tells; that the process was away is no hole: that is known.
_HOLES = ("silent", "rotated")
_SERVERS = ("broker", "controller")


@dataclass(frozen=True)
class NodeCoverage:
    """When the logs of one node tell what happened, within a window; times in milliseconds."""

    node: str
    role: str
    broker: int | None
    spans: tuple[Span, ...]

    @property
    def is_server(self) -> bool:
        """Whether it is a broker or a controller: those are expected to be covered throughout."""
        return self.role in _SERVERS


def measure_coverage(run: RunOutput, window: Span) -> list[NodeCoverage]:
    """Give the nodes that have logs of a window, or that others name and that have none."""
    columns = ["node", "role", "log", "state", "started_at", "ended_at"]
    rows = [row for row in run.rows("coverage", columns) if row["node"]]
    reaches = _reaches(run)
    roles = {row["node"]: row["role"] for row in (*run.files, *rows) if row["node"]}
    found = []
    for node in sorted(roles):
        mine = [row for row in rows if row["node"] == node]
        spans = clipped(_covered(mine, reaches.get(node, {}), window), window)
        # Whom the window does not concern is not expected in it.
        if spans or any(clipped([_span(row, window)], window) for row in mine):
            role = str(roles[node] or "")
            found.append(NodeCoverage(node, role, _number(node, role), tuple(spans)))
    return found


def _reaches(run: RunOutput) -> dict[str, dict[str, list[Span]]]:
    """Give from when to when the files of each node and kind of log reach.

    Only logs that tell of what happens: that of the JVM says no more than that it ran.
    """
    copies = {row["file"] for row in run.rows("files", ["file", "duplicate_of"])
              if row["duplicate_of"]}  # fmt: skip
    found: dict[str, dict[str, list[Span]]] = {}
    for row in run.files:
        kind = classify_log_file(row["file"] or "")
        tells = kind in PARTITION_LOGS or row["role"] not in _SERVERS
        timed = row["node"] and row["first_ts"] is not None and row["last_ts"] is not None
        if timed and tells and row["file"] not in copies:
            spans = found.setdefault(row["node"], {}).setdefault(kind, [])
            spans.append((row["first_ts"], row["last_ts"]))
    return found


def _covered(rows: Sequence[Row], kinds: dict[str, list[Span]], window: Span) -> list[Span]:
    """Join what the logs of a node reach over, without their holes, and when it was away."""
    hidden = {row["log"] for row in rows if row["state"] == "hidden"}
    spans = [_span(row, window) for row in rows if row["state"] == "down"]
    for kind, reached in kinds.items():
        if kind in hidden:
            continue
        holes = [_span(row, window) for row in rows
                 if row["state"] in _HOLES and row["log"] in (None, kind)]  # fmt: skip
        spans += _without(reached, holes)
    return merged(spans)


def _without(spans: Iterable[Span], holes: Sequence[Span]) -> list[Span]:
    return [piece for span in spans for piece in find_gaps(clipped(holes, span), span)]


def _span(row: Row, window: Span) -> Span:
    start, end = row["started_at"], row["ended_at"]
    return (window[0] if start is None else start), (window[1] if end is None else end)


def _number(node: str, role: str) -> int | None:
    return broker_id(node) if role == "broker" else None


def server_logs_end(run: RunOutput, window: Span) -> int:
    """Give where the logs of brokers and controllers end: no state is known to go on after that."""
    ends = (row["last_ts"] for row in run.files if row["role"] in _SERVERS)
    last = max((end for end in ends if end is not None), default=None)
    if last is None:
        last = run.window[1] if run.window else window[1]
    return min(window[1], last)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch.

    >>> merged([(5, 6), (1, 3), (2, 4)])
    [(1, 4), (5, 6)]
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found


def clipped(spans: Iterable[Span], window: Span) -> list[Span]:
    """Give what of some spans lies within a window.

    >>> clipped([(0, 5), (8, 9)], (3, 8))
    [(3, 5)]
    """
    cut = ((max(start, window[0]), min(end, window[1])) for start, end in spans)
    return [(start, end) for start, end in cut if start < end]


def length(spans: Iterable[Span]) -> int:
    """Add spans up that do not overlap."""
    return sum(end - start for start, end in spans)


WeekSummary = Mapping[str, Any]
Coverage = tuple[int, int]

HOUR = 3_600_000
# With less than this nothing is said to be over or better: one day of a working week is missing.
MIN_COVERED_SHARE = 0.8
# With less than this nothing is said of a whole window: a count of an hour says little of a week.
MIN_SCALABLE_SHARE = 0.1
# Nothing happens by halves: less than that apart, two counts are the same.
MIN_DIFFERENCE = 0.5
SERVERS = ("broker", "controller")


def span_of(one: WeekSummary) -> int:
    """Say how long a window is, in milliseconds."""
    start, end = one["window"]
    return int(end - start)


def servers(one: WeekSummary) -> dict[str, int]:
    """Give the brokers and controllers, and how long each is covered."""
    return {
        name: told["covered_ms"] for name, told in one["nodes"].items() if told["role"] in SERVERS
    }


def coverage(one: WeekSummary, names: Collection[str] | None = None) -> Coverage:
    """Give how long the servers are covered together, and how long they should be.

    `names` are those to ask of; who of them has no log is not covered at all.
    """
    known = servers(one)
    asked = known if names is None else names
    return sum(known.get(name, 0) for name in asked), span_of(one) * len(asked)


def node_of(one: WeekSummary, broker: int) -> str:
    """Name the node that is a broker."""
    found = (name for name, told in one["nodes"].items() if told["broker"] == broker)
    return next(found, broker_node(broker))


def per_window(count: float, covered: Coverage) -> float | None:
    """Give what a count would be were all covered; None: too little is, to say so.

    >>> per_window(3, (50, 100)), per_window(3, (1, 100))
    (6.0, None)
    """
    told, whole = covered
    return None if not whole or told < MIN_SCALABLE_SHARE * whole else count * whole / told


def per_hour(count: float, covered: Coverage, span: int) -> float | None:
    """Give a count for each hour of a window of that length, were all covered.

    >>> per_hour(3, (HOUR, 2 * HOUR), 2 * HOUR)
    3.0
    """
    value = per_window(count, covered)
    return None if value is None or not span else value * HOUR / span


def scale_count(
    count: float, then: tuple[Coverage, int], now: tuple[Coverage, int]
) -> float | None:
    """Give how many there would be now, were all as it was then, by what is covered of both.

    Each is a coverage, and the length of its window. None: too little is covered to say so.

    >>> scale_count(4, ((100, 100), 100), ((50, 100), 100))
    2.0
    """
    (told, whole), span = now
    rate = per_hour(count, *then)
    if rate is None or not whole or told < MIN_SCALABLE_SHARE * whole:
        return None
    return rate * told / whole * span / HOUR


def format_coverage(covered: Coverage) -> str:
    """Say a coverage.

    >>> [format_coverage(one) for one in ((3_600_000, 7_200_000), (1, 7_200_000), (0, 90_000))]
    ['1 of 2 h', 'less than 0.1 of 2 h', '0 of 1.5 min']
    """
    told, whole = covered
    unit, name = (HOUR, "h") if whole >= HOUR else (60_000, "min")
    part = "less than 0.1" if 0 < told < unit / 10 else _format_number(told / unit)
    return f"{part} of {_format_number(whole / unit)} {name}"


def _format_number(value: float) -> str:
    # Cut, not rounded: what is not covered must not disappear.
    return f"{int(value * 10) / 10:,.1f}".removesuffix(".0")


def same_rules(some: Iterable[WeekSummary]) -> bool:
    """Whether several windows were read by the same rules."""
    return len({str(one["rules"]) for one in some}) <= 1
