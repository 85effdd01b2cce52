"""How much of a window the logs of each node cover, and counts made comparable by that.

A silence proves something only where a log covers it: so a count is scaled up to what it would be
if the logs covered all of a window, and is unknown where they cover too little of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forensics.history.log_coverage import PARTITION_LOGS, classify_log_file
from forensics.lib import intervals
from forensics.lib.intervals import Interval
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import HOUR, MINUTE
from forensics.run_output.reader import Row, RunOutput

SERVER_ROLES = ("broker", "controller")
# Covered by less, nothing is called over or better: a working week lacks a day.
MIN_COVERED_SHARE = 0.8
# Covered by less, a count is not scaled up: more of it would be guessed than was counted.
MIN_SCALABLE_SHARE = 0.5
# Counts are whole numbers: two that differ by less are the same.
MIN_DIFFERENCE = 0.5
# States in which a log lacks lines. A process that was down lacks none: that it was down is known.
_HOLES = ("silent", "rotated")


class WindowCoverage(NamedTuple):
    """How much of a window the logs of some nodes cover, in milliseconds.

    >>> half = WindowCoverage(HOUR // 2, HOUR, HOUR)
    >>> str(half), half.per_window(3), half.per_hour(3)
    ('0.5 of 1 h', 6.0, 6.0)
    """

    covered_ms: int
    # the length of the window, once for each node
    expected_ms: int
    window_ms: int

    @property
    def share(self) -> float:
        """The share that is covered."""
        return self.covered_ms / self.expected_ms if self.expected_ms else 0.0

    def reaches(self, share: float) -> bool:
        """Return True if at least this share is covered."""
        return bool(self.expected_ms) and self.covered_ms >= share * self.expected_ms

    def per_window(self, count: float) -> float | None:
        """Scale a count up to a window that is covered throughout; None if too little is."""
        if not self.reaches(MIN_SCALABLE_SHARE):
            return None
        return count * self.expected_ms / self.covered_ms

    def per_hour(self, count: float) -> float | None:
        """Return a count for each hour, scaled up; None if too little is covered."""
        scaled = self.per_window(count)
        return None if scaled is None or not self.window_ms else scaled * HOUR / self.window_ms

    def __str__(self) -> str:
        unit, name = (HOUR, "h") if self.expected_ms >= HOUR else (MINUTE, "min")
        is_trace = 0 < self.covered_ms < unit / 10
        # Cut, not rounded: what is not covered must not disappear.
        covered, expected = (int(ms / unit * 10) / 10 for ms in self[:2])
        part = "less than 0.1" if is_trace else format_count(covered)
        return f"{part} of {format_count(expected)} {name}"


def format_count(count: float) -> str:
    """Write a count, with one decimal if it has any.

    >>> format_count(1234.0), format_count(0.55)
    ('1,234', '0.6')
    """
    return f"{count:,.1f}".removesuffix(".0")


def expected_count(count: float, then: WindowCoverage, now: WindowCoverage) -> float | None:
    """Return the count of `now` if the rate of `then` had not changed; None if too little is known.

    >>> whole, half = WindowCoverage(100, 100, 100), WindowCoverage(50, 100, 100)
    >>> expected_count(4, whole, half)
    2.0
    """
    rate = then.per_hour(count)
    if rate is None or not now.reaches(MIN_SCALABLE_SHARE):
        return None
    return rate * now.covered_ms / now.expected_ms * now.window_ms / HOUR


@dataclass(frozen=True)
class NodeCoverage:
    """When the logs of one node cover a window; times in milliseconds."""

    node: str
    role: str
    broker: int | None
    intervals: tuple[Interval, ...]

    @property
    def is_server(self) -> bool:
        """Return True for brokers and controllers: they are expected to log throughout."""
        return self.role in SERVER_ROLES


def measure_window_coverage(run: RunOutput, window: Interval) -> list[NodeCoverage]:
    """Return the nodes that have logs of a window, and those that others name, without any."""
    columns = ["node", "role", "log", "state", "started_at", "ended_at"]
    rows = [row for row in run.rows("coverage", columns) if row["node"]]
    logged = _logged_intervals(run)
    roles = {row["node"]: row["role"] for row in (*run.files, *rows) if row["node"]}
    nodes = []
    for node in sorted(roles):
        states = [row for row in rows if row["node"] == node]
        covered = intervals.clip(_covered(states, logged.get(node, {}), window), window)
        # A node that neither logs nor is missed in this window is not expected in it.
        if covered or intervals.clip((_bounds(row, window) for row in states), window):
            role = str(roles[node] or "")
            broker = broker_id(node) if role == "broker" else None
            nodes.append(NodeCoverage(node, role, broker, tuple(covered)))
    return nodes


def _logged_intervals(run: RunOutput) -> dict[str, dict[str, list[Interval]]]:
    """Return from when to when the files reach, by node and kind of log.

    Of servers only logs that record events count: that of the JVM proves no more than that it ran.
    """
    files = run.rows("files", ["file", "duplicate_of"])
    copies = {row["file"] for row in files if row["duplicate_of"]}
    logged: dict[str, dict[str, list[Interval]]] = {}
    for row in run.files:
        kind = classify_log_file(row["file"] or "")
        has_events = kind in PARTITION_LOGS or row["role"] not in SERVER_ROLES
        has_times = row["node"] and row["first_ts"] is not None and row["last_ts"] is not None
        if has_times and has_events and row["file"] not in copies:
            reached = logged.setdefault(row["node"], {}).setdefault(kind, [])
            reached.append((row["first_ts"], row["last_ts"]))
    return logged


def _covered(
    states: Sequence[Row], logged: dict[str, list[Interval]], window: Interval
) -> list[Interval]:
    """Join what the logs of a node reach over, without their holes, and when it was down."""
    hidden = {row["log"] for row in states if row["state"] == "hidden"}
    covered = [_bounds(row, window) for row in states if row["state"] == "down"]
    for kind, reached in logged.items():
        if kind not in hidden:
            holes = [row for row in states
                     if row["state"] in _HOLES and row["log"] in (None, kind)]  # fmt: skip
            covered += intervals.subtract(reached, (_bounds(row, window) for row in holes))
    return covered


def _bounds(row: Row, window: Interval) -> Interval:
    start, end = row["started_at"], row["ended_at"]
    return (window[0] if start is None else start), (window[1] if end is None else end)


def server_logs_end(run: RunOutput, window: Interval) -> int:
    """Return where the logs of servers end: no open state is known to last longer."""
    ends = (row["last_ts"] for row in run.files if row["role"] in SERVER_ROLES)
    last = max((end for end in ends if end is not None), default=None)
    if last is None:
        last = run.window[1] if run.window else window[1]
    return min(window[1], last)
