"""The states of clients by their own logs: healthy, with stale metadata, or disconnected."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.history.nodes.broker_states import EvidenceRow, Span
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


@dataclass(slots=True)
class _Session:
    """Lines of one state that follow each other closely."""

    begin: int
    end: int
    first: EvidenceRow
    last: EvidenceRow


class _Sessions:
    """Sessions in the order of time; lines may come in any order, and millions of them."""

    def __init__(self, gap: int) -> None:
        self.sessions: list[_Session] = []
        self._gap = gap

    def add(self, at: int, line: EvidenceRow) -> None:
        """Let a line begin a session, prolong one, or join two."""
        index = bisect_right(self.sessions, at, key=lambda session: session.begin)
        before = self.sessions[index - 1] if index else None
        after = self.sessions[index] if index < len(self.sessions) else None
        if before is not None and at <= before.end + self._gap:
            if _order(before.end, before.last) < _order(at, line):
                before.end, before.last = at, line
            elif at == before.begin and _order(at, line) < _order(before.begin, before.first):
                before.first = line
            if after is not None and after.begin <= before.end + self._gap:
                before.end, before.last = after.end, after.last
                del self.sessions[index]
        elif after is not None and at >= after.begin - self._gap:
            after.begin, after.first = at, line
        else:
            self.sessions.insert(index, _Session(at, at, line, line))


def _order(at: int, line: EvidenceRow) -> tuple[int, int, str]:
    return at, line["line"], line["file"]


class ClientLanes:
    """Builds the lanes of clients from their lines, one by one; holds sessions, not lines."""

    def __init__(self) -> None:
        """Begin with no client."""
        self._errors: dict[tuple[str, str], _Sessions] = defaultdict(lambda: _Sessions(_GAP))
        self._logs: dict[str, _Sessions] = defaultdict(lambda: _Sessions(_WHOLE_LOG))

    def add_line(self, row: Mapping[str, Any], at: int) -> None:
        """Add one line of a client's log, with its corrected time."""
        line: EvidenceRow = {"file": row["file"], "line": row["line"]}
        # Silence is no gap in a client's log: a healthy client has nothing to log.
        self._logs[row["node"]].add(at, line)
        state = _state_of(row)
        if state is not None:
            self._errors[row["node"], state].add(at, line)

    def build(self) -> dict[str, list[Span]]:
        """Return each client's lane, from the first line of its log to the last."""
        return {node: list(self._lane(node)) for node in sorted(self._logs)}

    def _lane(self, node: str) -> Iterator[Span]:
        [log] = self._logs[node].sessions
        stale, disconnected = (
            [_span(state, session) for session in self._errors[node, state].sessions]
            for state in ("stale", "disconnected")
        )
        # A broker that responds that it does not lead says more than one that does not respond.
        rest = [part for span in disconnected for part in _subtract(span, stale)]
        begin, line = log.begin, log.first
        for span in sorted([*stale, *rest], key=lambda span: (span.begin, span.end or 0)):
            if span.begin > begin:
                yield Span("healthy", begin, span.begin, [line, span.evidence[0]])
            yield span
            begin, line = span.end or span.begin, span.evidence[-1]
        if log.end > begin:
            yield Span("healthy", begin, log.end, [line, log.last])


def _state_of(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "client_error":
        return _STATES_BY_KIND.get(row["kind"])
    if row["error"] in _STALE_ERRORS:
        return "stale"
    return "disconnected" if row["error"] in _CONNECTION_ERRORS else None


def _span(state: str, session: _Session) -> Span:
    same = session.first == session.last
    evidence = [session.first] if same else [session.first, session.last]
    return Span(state, session.begin, session.end, evidence)


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
