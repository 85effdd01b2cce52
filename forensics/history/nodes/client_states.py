"""The states of clients by their own logs: healthy, with stale metadata, or disconnected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND

CLIENT_COLUMNS = ("kind", "ts", "node", "error", "file", "line")

_STALE_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_CONNECTION_ERRORS = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "TIMED_OUT", "DISCONNECTED")
_STATES_BY_KIND = {
    "client_refresh": "stale",
    "client_metadata_stale": "stale",
    "metadata_leaderless": "stale",
    "client_disconnected": "disconnected",
    "client_timeout": "disconnected",
    "client_connect_failed": "disconnected",
    "client_connect_timeout": "disconnected",
    "client_request_cancelled": "disconnected",
    "all_brokers_down": "disconnected",
}
# Clients try again and again; errors within that are one state.
_GAP = 10 * SECOND
_WHOLE_LOG = 1 << 62


# A moment, a line number and a file: lines are ordered so.
Line = tuple[int, int, str]


class _Sessions:
    """Lines that follow each other closely; they may come in any order, and millions of them.

    Of each stretch of `gap` only the first and the last line are kept.
    """

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._ends: dict[int, tuple[Line, Line]] = {}

    def add(self, line: Line) -> None:
        """Add a line to its session."""
        first, last = self._ends.get(line[0] // self._gap, (line, line))
        self._ends[line[0] // self._gap] = min(first, line), max(last, line)

    def join(self) -> list[tuple[Line, Line]]:
        """Return the first and the last line of each session, in the order of time."""
        ends = (self._ends[stretch] for stretch in sorted(self._ends))
        groups = sessions(ends, lambda two: two[0][0], self._gap, lambda two: two[1][0])
        return [(group[0][0], group[-1][1]) for group in groups]


class ClientLanes:
    """Builds the lanes of clients from their lines, one by one; holds sessions, not lines."""

    def __init__(self) -> None:
        """Begin with no client."""
        self._errors: dict[tuple[str, str], _Sessions] = defaultdict(lambda: _Sessions(_GAP))
        # Silence is no gap in a client's log: a healthy client has nothing to log.
        self._logs: dict[str, _Sessions] = defaultdict(lambda: _Sessions(_WHOLE_LOG))

    def add_line(self, row: Mapping[str, Any], at: int) -> None:
        """Add one line of a client's log, with its corrected time."""
        line = (at, row["line"], row["file"])
        self._logs[row["node"]].add(line)
        state = _state_of(row)
        if state is not None:
            self._errors[row["node"], state].add(line)

    def build(self) -> dict[str, list[Span]]:
        """Return each client's lane, from the first line of its log to the last."""
        return {node: list(self._lane(node)) for node in sorted(self._logs)}

    def _lane(self, node: str) -> Iterator[Span]:
        [(first, last)] = self._logs[node].join()
        stale, disconnected = (
            [_span(state, *ends) for ends in self._errors[node, state].join()]
            for state in ("stale", "disconnected")
        )
        # A broker that responds that it does not lead says more than one that does not respond.
        rest = [part for span in disconnected for part in _subtract(span, stale)]
        begin, line = first[0], _evidence(first)
        for span in sorted([*stale, *rest], key=lambda span: (span.begin, span.end or 0)):
            if span.begin > begin:
                yield Span("healthy", begin, span.begin, [line, span.evidence[0]])
            yield span
            begin, line = span.end or span.begin, span.evidence[-1]
        if last[0] > begin:
            yield Span("healthy", begin, last[0], [line, _evidence(last)])


def _state_of(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "client_error":
        return _STATES_BY_KIND.get(row["kind"])
    if row["error"] in _STALE_ERRORS:
        return "stale"
    return "disconnected" if row["error"] in _CONNECTION_ERRORS else None


def _evidence(line: Line) -> EvidenceRow:
    return {"file": line[2], "line": line[1]}


def _span(state: str, first: Line, last: Line) -> Span:
    lines = dict.fromkeys((first, last))
    return Span(state, first[0], last[0], [_evidence(line) for line in lines])


def _subtract(span: Span, others: Sequence[Span]) -> Iterable[Span]:
    """Yield the parts of a span that no other one covers; a moment is a span, too."""
    begin, end = span.begin, span.end or span.begin
    for other in others:
        until = other.end or other.begin
        if until < begin or other.begin > end:
            continue
        if other.begin > begin:
            yield Span(span.state, begin, other.begin, [span.evidence[0], other.evidence[0]])
        begin = until
        if begin >= end:
            return
    yield Span(span.state, begin, end, list(span.evidence))
