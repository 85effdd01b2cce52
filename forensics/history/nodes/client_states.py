"""The life of clients: healthy, with stale metadata, or cut off, as their own logs tell it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.history.nodes.broker_states import Evidence, Span

CLIENT_COLUMNS = ("kind", "ts", "node", "error", "file", "line")

_STALE = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_CUT_OFF = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "TIMED_OUT", "DISCONNECTED")
_KINDS = {
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
# Clients try again and again; what comes within that is one stretch of trouble.
_GAP = 10_000_000


@dataclass(slots=True)
class _Run:
    """A stretch of trouble of one kind, from its first line to its last."""

    begin: int
    end: int
    first: Evidence
    last: Evidence


class _Runs:
    """Stretches in the order of time; lines may come in any order, and millions of them."""

    def __init__(self, gap: int) -> None:
        self.runs: list[_Run] = []
        self._gap = gap

    def take(self, at: int, place: Evidence) -> None:
        """Let a line begin a stretch, prolong one, or join two."""
        here = bisect_right(self.runs, at, key=lambda run: run.begin)
        before = self.runs[here - 1] if here else None
        after = self.runs[here] if here < len(self.runs) else None
        if before is not None and at <= before.end + self._gap:
            if _sooner(before.end, before.last, at, place):
                before.end, before.last = at, place
            elif at == before.begin and _sooner(at, place, before.begin, before.first):
                before.first = place
            if after is not None and after.begin <= before.end + self._gap:
                before.end, before.last = after.end, after.last
                del self.runs[here]
        elif after is not None and at >= after.begin - self._gap:
            after.begin, after.first = at, place
        else:
            self.runs.insert(here, _Run(at, at, place, place))


def _sooner(at: int, place: Evidence, other_at: int, other: Evidence) -> bool:
    return (at, place["line"], place["file"]) < (other_at, other["line"], other["file"])


class ClientLanes:
    """Takes clients' lines one by one, and gives their lanes; holds stretches, not lines."""

    def __init__(self) -> None:
        """Begin with no client."""
        self._troubles: dict[str, dict[str, _Runs]] = {}
        self._whole: dict[str, _Runs] = {}

    def add_line(self, row: Mapping[str, Any], at: int) -> None:
        """Take one line of a client's log, with its corrected time."""
        place = {"file": row["file"], "line": row["line"]}
        # Silence is no hole in a client's log: one that is well has nothing to say.
        self._whole.setdefault(row["node"], _Runs(1 << 62)).take(at, place)
        state = _state(row)
        if state is not None:
            mine = self._troubles.setdefault(row["node"], {})
            mine.setdefault(state, _Runs(_GAP)).take(at, place)

    def build(self) -> dict[str, list[Span]]:
        """Give each client's lane, from the first line of its log to the last."""
        return {node: list(self._lane(node)) for node in sorted(self._whole)}

    def _lane(self, node: str) -> Iterator[Span]:
        [whole] = self._whole[node].runs
        mine = self._troubles.get(node, {})
        stale = [_span("stale", run) for run in mine["stale"].runs] if "stale" in mine else []
        cut_off = mine["disconnected"].runs if "disconnected" in mine else []
        # A broker that answers that it does not lead says more than one that does not answer.
        apart = [part for run in cut_off for part in _outside(_span("disconnected", run), stale)]
        troubles = sorted([*stale, *apart], key=lambda span: (span.begin, span.end or 0))
        at, place = whole.begin, whole.first
        for trouble in troubles:
            if trouble.begin > at:
                yield Span("healthy", at, trouble.begin, [place, trouble.evidence[0]])
            yield trouble
            at, place = trouble.end or trouble.begin, trouble.evidence[-1]
        if whole.end > at:
            yield Span("healthy", at, whole.end, [place, whole.last])


def _state(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "client_error":
        return _KINDS.get(row["kind"])
    if row["error"] in _STALE:
        return "stale"
    return "disconnected" if row["error"] in _CUT_OFF else None


def _span(state: str, run: _Run) -> Span:
    same = run.first == run.last
    return Span(state, run.begin, run.end, [run.first] if same else [run.first, run.last])


def _outside(span: Span, others: Sequence[Span]) -> Iterable[Span]:
    """Cut out of a stretch what other stretches cover."""
    begin, end = span.begin, span.end if span.end is not None else span.begin
    for other in others:
        until = other.end if other.end is not None else other.begin
        if until < begin or other.begin > end:
            continue
        if other.begin > begin:
            yield Span(span.state, begin, other.begin, [span.evidence[0], other.evidence[0]])
        begin = until
        if begin >= end:
            return
    yield Span(span.state, begin, end, list(span.evidence))
