"""The life of every broker, from what it says itself and what the others say of it.

Processes that hung: given up by the others, silent themselves, and back without a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forensics.lib.time_units import SECOND

LIFECYCLE_KINDS = (
    "process_starting",
    "process_recovering",
    "process_started",
    "process_stopping",
    "process_stopped",
    "process_failed",
    "stopped_unclean",
    "broker_fenced",
    "broker_unfenced",
    "broker_registered",
    "broker_shutdown_granted",
    "brokers_changed",
    "brokers_found",
    "controlled_shutdown_granted",
)
# In these a broker does not serve; "unknown" is none of them: behind a hole all may be well.
SHUTDOWN_STATES = frozenset({"stopping", "stopped"})
AWAY_STATES = SHUTDOWN_STATES | {"starting", "recovering", "fenced", "paused", "crashed"}
# For the cluster a broker that hangs is away once it is fenced: detectors compare that moment with
# the session timeout.
CLUSTER_AWAY_STATES = AWAY_STATES - {"paused"}

Evidence = Mapping[str, Any]
T = TypeVar("T")


@dataclass
class Span:
    """One stretch of a lane; times in microseconds on the reference clock."""

    state: str
    begin: int
    end: int | None
    evidence: list[Evidence] = field(default_factory=list)
    epoch: int | None = None


@dataclass(frozen=True)
class Absence:
    """A time in which a broker did not serve, and how it came about."""

    broker: int
    kind: str
    begin: int
    end: int | None
    evidence: tuple[Evidence, ...]

    @property
    def fencing(self) -> Evidence | None:
        """Where the cluster noticed that the broker was gone, if some line says so."""
        return next((place for place in self.evidence if place["what"] == "fenced"), None)


def build_broker_lanes(
    events: Iterable[Mapping[str, Any]], last_lines: Mapping[tuple[str, int], Mapping[str, Any]]
) -> dict[int, list[Span]]:
    """Follow every broker through its own lines and the controllers'.

    `events` have corrected times in `at`; `last_words` holds, for a node and the time of its start,
    the last line it wrote before: a process that was killed says nothing of it.
    """
    lanes: dict[int, _Lane] = {}
    for event in sorted(events, key=event_order):
        for broker, what in (*_about(event), *_missed(event, lanes)):
            lane = lanes.setdefault(broker, _Lane())
            lane.take(what, event, last_lines.get((event["node"], event["ts"])))
    return {broker: lane.spans for broker, lane in sorted(lanes.items())}


def split_absences(
    spans: Iterable[T], state_of: Callable[[T], str], away: AbstractSet[str] = AWAY_STATES
) -> Iterator[tuple[list[T], T | None]]:
    """Yield each run of away states after a time of serving, and the span that ended it, if any.

    The first start is no absence. An unknown state neither begins nor ends one.
    """
    has_served, run = False, list[T]()
    for span in spans:
        if state_of(span) in away:
            run.append(span)
        elif state_of(span) != "unknown":
            if has_served and run:
                yield run, span
            has_served, run = True, []
    if has_served and run:
        yield run, None


def find_absences(broker: int, spans: Sequence[Span], *, has_own_log: bool = True) -> list[Absence]:
    """Find the absences of a broker as the cluster saw them.

    Without the broker's own log (`has_own_log`) being fenced may mean anything.
    """
    runs = split_absences(spans, lambda span: span.state, CLUSTER_AWAY_STATES)
    return [
        _absence(broker, run, back.begin if back else None, speaks=has_own_log)
        for run, back in runs
    ]


class _Lane:
    """One broker's state, changed by one piece of news after another."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._start_rules: set[str] = set()

    def serves_since(self) -> int | None:
        """Say since when the broker has been up, if it is."""
        return self.spans[-1].begin if self.spans and self.spans[-1].state == "up" else None

    def take(self, what: str, event: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        """Take one piece of news."""
        now = self.spans[-1].state if self.spans else "unknown"
        if what == "starting":
            self._start(now, event, before)
        elif what == "recovering" and now == "starting":
            self._enter("recovering", event)
        elif (what == "up" and now != "up") or (what == "found" and now in ("unknown", "fenced")):
            self._enter("up", event)
        elif what == "fenced" and now not in (*_DOWN, "fenced"):
            self._enter("fenced", event, what)
        elif what in ("fenced", "unclean") and self.spans:
            self.spans[-1].evidence.append(evidence_of(event, what))
        elif what == "registered" and now == "fenced":
            # A process registers once: whoever was fenced and registers anew was started anew.
            self._enter("starting", event)
        elif what == "stopping" and now not in ("stopping", "stopped"):
            self._enter("stopping", event)
        elif what in ("stopped", "failed") and now != "stopped":
            self._enter("stopped" if what == "stopped" or now == "stopping" else "crashed", event)

    def _start(self, now: str, event: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        """Begin a start; a process that did not say that it stops was killed before."""
        if now in _BEGINNING and event["rule"] not in self._start_rules:
            # One start says so in several ways; the same words again are another start.
            self._start_rules.add(event["rule"])
            return
        self._start_rules = {event["rule"]}
        if now in ("up", *_BEGINNING) and before:
            death = {**before, "at": max(before["at"], self.spans[-1].begin)}
            self._enter("crashed", death)
        elif now == "fenced" and before and before["at"] <= event["at"]:
            # It was fenced because it was dead: the death came before the fence, or in it.
            fence = self.spans[-1]
            fence.state = "crashed"
            fence.evidence.append(evidence_of(before))
            if len(self.spans) > 1 and self.spans[-2].begin <= before["at"] < fence.begin:
                fence.begin = self.spans[-2].end = before["at"]
        self._enter("starting", event)

    def _enter(self, state: str, event: Mapping[str, Any], what: str | None = None) -> None:
        moment = event["at"]
        if self.spans:
            moment = max(moment, self.spans[-1].begin)
            self.spans[-1].end = moment
        self.spans.append(Span(state, moment, None, [evidence_of(event, what)]))


# A broker that has just started may come after the list that is told of a little later.
_SETTLED = 10_000_000
_BEGINNING = ("starting", "recovering")
_DOWN = ("stopping", "stopped", "crashed", *_BEGINNING)
_OWN = {
    "process_recovering": "recovering",
    "process_starting": "starting",
    "process_started": "up",
    "process_stopping": "stopping",
    "process_stopped": "stopped",
    "process_failed": "failed",
    "stopped_unclean": "unclean",
}
_TOLD = {
    "broker_fenced": "fenced",
    "broker_unfenced": "up",
    "broker_shutdown_granted": "stopping",
    "controlled_shutdown_granted": "stopping",
}


def _about(event: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    """Say which brokers an event speaks of, and what it says."""
    kind, own = event["kind"], event["node_broker"]
    if kind in _OWN and own is not None:
        yield own, _OWN[kind]
    elif kind in _TOLD and event["broker"] is not None:
        yield event["broker"], _TOLD[kind]
    elif kind == "broker_registered" and event["controller"] is not None:
        # On ZooKeeper only brokers tell of it, and do so anew with each session.
        yield event["broker"], "registered"
    elif kind == "brokers_changed":
        for name, what in (("removed", "fenced"), ("added", "up"), ("bounced", "fenced")):
            for broker in event[name] or ():
                yield broker, what
        for broker in event["bounced"] or ():
            yield broker, "up"
    elif kind == "brokers_found":
        for broker in event["alive"] or ():
            yield broker, "found"


def _missed(event: Mapping[str, Any], lanes: Mapping[int, _Lane]) -> Iterable[tuple[int, str]]:
    """Name the brokers that were up and are not among those that a new controller finds.

    Nobody tells of a session that ends with the controller's own: the next controller begins with
    those that are left.
    """
    if event["kind"] == "brokers_found":
        for broker, lane in lanes.items():
            since = lane.serves_since()
            gone = broker not in (event["alive"] or ())
            if gone and since is not None and event["at"] - since > _SETTLED:
                yield broker, "fenced"


def _absence(broker: int, run: Sequence[Span], end: int | None, *, speaks: bool) -> Absence:
    states = {span.state for span in run}
    if "crashed" in states:
        kind = "crash"
    elif SHUTDOWN_STATES & states:
        kind = "controlled"
    elif "starting" in states or not speaks:
        kind = "unknown"
    else:
        kind = "pause" if end is not None else "gone"
    evidence = [place for span in run for place in span.evidence]
    return Absence(broker, kind, run[0].begin, end, tuple(evidence))


def evidence_of(event: Mapping[str, Any], what: str | None = None) -> Evidence:
    """Keep of an event what evidence needs, and what it says."""
    return {name: event[name] for name in ("file", "line", "text", "rule", "at")} | {"what": what}


def event_order(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """How events are ordered: by corrected time first."""
    return event["at"], event["node"] or "", event["line"], event["kind"], event["file"]


# What a process says as it wakes, with the time since its last sign of life.
WAKE_UP_KINDS = (
    "zookeeper_disconnected",
    "peer_request_lost",
    "peer_timed_out",
    "heartbeat_failed",
)
# All that piled up is told in one go.
_WAKING = 2 * SECOND

SilenceCheck = Callable[[int, int], bool]


def insert_pauses(
    spans: Sequence[Span], wakes: Iterable[Mapping[str, Any]], silent: SilenceCheck
) -> list[Span]:
    """Put in the time between a process's last sign of life and its fencing.

    `wakes` are the broker's own events of WAKE_KINDS with a duration, corrected; `silent` says
    whether the broker's own log has no line between two moments. That it was fenced says nothing
    yet: a broker that is only cut off goes on to write.
    """
    told = sorted(
        (wake for wake in wakes if wake["duration_ms"]), key=lambda one: (one["at"], one["line"])
    )
    found: list[Span] = []
    for span, after in zip(spans, [*spans[1:], None], strict=True):
        back = after is None or after.state == "up"
        if span.state == "fenced" and back and found and found[-1].state == "up":
            pause = _pause(span, told, silent)
            if pause is not None and pause.begin > found[-1].begin:
                found[-1] = Span("up", found[-1].begin, pause.begin, found[-1].evidence)
                found.append(pause)
        found.append(span)
    return found


def _pause(fence: Span, wakes: Sequence[Mapping[str, Any]], silent: SilenceCheck) -> Span | None:
    until = fence.end if fence.end is not None else fence.begin + 3600 * SECOND
    here = [wake for wake in wakes if fence.begin <= wake["at"] <= until]
    first = [wake for wake in here if wake["at"] <= here[0]["at"] + _WAKING]
    # Of several waits the shortest one began last: until then the process was alive.
    signs = [(wake["at"] - wake["duration_ms"] * 1000, wake) for wake in first]
    alive = [sign for sign in signs if sign[0] < fence.begin]
    if not alive:
        return None
    begin, wake = max(alive, key=lambda sign: (sign[0], sign[1]["line"]))
    if not silent(begin, here[0]["at"]):
        return None
    return Span("paused", begin, fence.begin, [evidence_of(wake), *fence.evidence[:1]])
