"""The lifecycle states of every broker, from its own log and from the controllers' logs.

Absences are what lies between two times of being up. `departures.py` tells from the lines of others
when and how a broker went that nobody stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from operator import itemgetter
from typing import Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from forensics.lib.arrow_io import SIGHTING
from forensics.lib.intervals import Interval, IntervalIndex
from forensics.lib.time_units import SECOND

FOREVER = 1 << 62

# In these a broker does not serve; "unknown" is none of them: behind a hole all may be well.
SHUTDOWN_STATES = frozenset({"stopping", "stopped"})
AWAY_STATES = SHUTDOWN_STATES | {
    "starting", "recovering", "fenced", "paused", "isolated", "crashed",
}  # fmt: skip
_BEGINNING = ("starting", "recovering")
_DOWN = ("stopping", "stopped", "crashed", *_BEGINNING)
# What a broker's own lines say of it, and what the controllers' do.
_OWN = {
    "process_recovering": "recovering",
    "process_starting": "starting",
    "process_started": "up",
    "process_stopping": "stopping",
    "process_stopped": "stopped",
    "process_failed": "failed",
    "stopped_unclean": "unclean",
}
OWN_KINDS = frozenset(_OWN)
_BY_CONTROLLER = {
    "broker_fenced": "fenced",
    "broker_unfenced": "up",
    "broker_shutdown_granted": "stopping",
    "controlled_shutdown_granted": "stopping",
}
# What a list of changed brokers says of each of them, in that order.
_CHANGES = (("removed", "fenced"), ("added", "up"), ("bounced", "fenced"), ("bounced", "up"))
_LISTED = ("broker_registered", "brokers_changed", "brokers_found")
LIFECYCLE_KINDS = (*_OWN, *_BY_CONTROLLER, *_LISTED)
LIFECYCLE_COLUMNS = (
    *SIGHTING, "text", "rule", "telling", "broker", "controller", "added", "removed", "bounced",
    "alive", "detail",
)  # fmt: skip
# A broker that has just started may be missing in a list that is logged a little later.
_SETTLED = 10 * SECOND
# A start that fails is written down as one that is done, and at once as one that failed.
_FAILING = SECOND // 2
# A broker that writes so long after it was fenced lived when it was.
_LIVED_ON = 2 * SECOND
_ALIVE = ("fenced", "paused", "isolated")
# A Kafka that runs has locked its directories, and what cannot lock them is a second one.
_LOCKED = "Failed to acquire lock on file .lock"
# So long it takes at most to come to that, and to end.
_COMES_TO_LOCK, _ENDS = 120 * SECOND, 5 * SECOND

Event = Mapping[str, Any]
T = TypeVar("T")
Row = TypeVar("Row", bound=Event)


class EvidenceRow(TypedDict, total=False):
    """A line that shows a state, at a corrected moment; `what` it says there, if that matters."""

    file: str
    line: int
    text: str | None
    rule: str | None
    at: int
    what: str | None


@dataclass
class Span:
    """One state of a lane; times in microseconds on the reference clock."""

    state: str
    begin: int
    end: int | None
    evidence: list[EvidenceRow] = field(default_factory=list)
    epoch: int | None = None
    # between which moments it began, where its beginning is an estimate
    begin_bracket: tuple[int, int] | None = None


@dataclass(frozen=True)
class Absence:
    """A time in which a broker did not serve, and how it came about.

    The kind is crash, controlled, pause, isolated (others could not reach it), fenced (its process
    lived on), gone (it never came back), or unknown.
    """

    broker: int
    kind: str
    begin: int
    end: int | None
    evidence: tuple[EvidenceRow, ...]
    # between which moments it began, where its beginning is an estimate
    begin_bracket: tuple[int, int] | None = None
    # whether it was started meanwhile and died before it was up
    start_failed: bool = False

    @cached_property
    def fencing(self) -> EvidenceRow | None:
        """The line by which the cluster noticed that the broker was away, if there is one."""
        return next((line for line in self.evidence if line["what"] == "fenced"), None)

    @property
    def noticed(self) -> int:
        """When the cluster noticed a process that lived on, or when the process went."""
        fencing = self.fencing
        return self.begin if self.kind == "crash" or fencing is None else fencing["at"]

    @property
    def span(self) -> Interval:
        """From its first sign to its last; one that never ended has no end."""
        noticed = self.fencing["at"] if self.fencing else self.begin
        return min(self.begin, noticed), max(noticed, FOREVER if self.end is None else self.end)


class Absences:
    """Absences of all brokers, in which those of some of them around a time are looked up.

    There may be thousands, and every leader epoch of every partition asks.
    """

    def __init__(self, absences: Iterable[Absence] = ()) -> None:
        """Index them by broker and time."""
        self.all = tuple(absences)
        by_broker: dict[int, list[tuple[int, Absence]]] = defaultdict(list)
        for place, absence in enumerate(self.all):
            by_broker[absence.broker].append((place, absence))
        self._own = {broker: [one for _, one in own] for broker, own in by_broker.items()}
        self._of = {
            broker: IntervalIndex(own, lambda one: one[1].span) for broker, own in by_broker.items()
        }

    def around(self, brokers: Iterable[int | None], begin: int, end: int) -> list[Absence]:
        """Return the absences of some brokers that meet a time, in the order of all."""
        found = [
            one
            for broker in {*brokers}
            if broker is not None and broker in self._of
            for one in self._of[broker].around(begin, end)
        ]
        return [absence for _, absence in sorted(found, key=itemgetter(0))]

    def meet(
        self, broker: int, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Tell of many times, which may be as many as rows, whether the broker was away in them."""
        own = sorted((one.begin, _until(one)) for one in self._own.get(broker, ()))
        if not own:
            return np.zeros(len(begins), np.bool_)
        starts, untils = np.array(own, np.int64).T
        # Of those that began before the end, some lasted until after the begin.
        last = np.searchsorted(starts, ends) - 1
        found: npt.NDArray[np.bool_] = (last >= 0) & (np.maximum.accumulate(untils)[last] > begins)
        return found

    def summary(self, broker: int | None) -> AbsenceSummary:
        """Return what all absences of a broker come to."""
        if broker not in self._summaries:
            own = self._own.get(broker, []) if broker is not None else []
            stops = [one for one in own if one.kind == "controlled"]
            self._summaries[broker] = AbsenceSummary(
                next((one.kind for one in own if one.end is None), None),
                max(map(_until, stops), default=0),
                max((_until(one) for one in stops if one.start_failed), default=0),
            )
        return self._summaries[broker]

    @cached_property
    def _summaries(self) -> dict[int | None, AbsenceSummary]:
        return {}


@dataclass(frozen=True)
class AbsenceSummary:
    """The kind of the absence that did not end, and until when the orderly stops lasted."""

    open_kind: str | None
    stopped_until: int
    # those of them after which a start failed
    failed_until: int


def _until(absence: Absence) -> int:
    return FOREVER if absence.end is None else absence.end


def build_broker_lanes(
    events: Iterable[Event], last_lines: Mapping[tuple[str, int], Event]
) -> dict[int, list[Span]]:
    """Follow every broker through its own lines and the controllers'.

    `events` have corrected times in `at`; `last_lines` holds, for a node and the time of its start,
    the last line it wrote before: a process that was killed logs nothing about it.
    """
    lanes: dict[int, _BrokerLane] = {}
    for event in sorted(events, key=event_order):
        for broker, what in (*_changes_in(event), *_missing_from(event, lanes)):
            lane = lanes.setdefault(broker, _BrokerLane())
            lane.apply(what, event, last_lines.get((event["node"], event["ts"])))
    return {broker: lane.spans for broker, lane in sorted(lanes.items())}


def leave_out_second_processes(rows: Sequence[Row]) -> list[Row]:
    """Leave out what a second process logged that was started while the broker ran, and refused.

    It writes to the same log as the first one, which goes on.
    """
    by_node: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in OWN_KINDS and row["node"] and row["ts"] is not None:
            by_node[row["node"]].append(row)
    left_out: set[int] = set()
    for own in by_node.values():
        own.sort(key=lambda row: (row["ts"], row["file"], row["line"], row["kind"]))
        for index, row in enumerate(own):
            if row["kind"] == "process_failed" and _LOCKED in (row["detail"] or ""):
                left_out |= {id(one) for one in _second_process(own, index)}
    return [row for row in rows if id(row) not in left_out]


def _second_process(own: Sequence[Event], refused: int) -> Sequence[Event]:
    """Return the events of the process that was refused there; none if the first had stopped."""
    at = own[refused]["ts"]
    first, end = refused, refused + 1
    while first and own[first - 1]["ts"] >= at - _COMES_TO_LOCK:
        state = _OWN[own[first - 1]["kind"]]
        is_new = state == "up" and own[first - 1]["ts"] >= at - _FAILING
        if state not in _BEGINNING and not is_new:
            break
        first -= 1
    while end < len(own) and own[end]["ts"] <= at + _ENDS:
        end += 1
    ran = not first or _OWN[own[first - 1]["kind"]] == "up"
    return own[first:end] if ran else ()


def split_absences(
    spans: Iterable[T], state_of: Callable[[T], str]
) -> Iterator[tuple[list[T], T | None]]:
    """Yield each run of away states after a time of serving, and the span that ended it, if any.

    The first start is no absence. An unknown state neither begins nor ends one.
    """
    has_served, run = False, list[T]()
    for span in spans:
        if state_of(span) in AWAY_STATES:
            run.append(span)
        elif state_of(span) != "unknown":
            if has_served and run:
                yield run, span
            has_served, run = True, []
    if has_served and run:
        yield run, None


def find_cluster_absences(
    broker: int, spans: Sequence[Span], *, has_own_log: bool = True
) -> list[Absence]:
    """Find the absences of a broker as the cluster saw them.

    Without the broker's own log, being fenced may be of any kind.
    """
    absences = []
    for run, back in split_absences(spans, lambda span: span.state):
        end = back.begin if back else None
        died = next((at for at, span in enumerate(run) if span.state == "crashed"), 0)
        if died and all(span.state in _ALIVE for span in run[:died]):
            # It had been given up for another reason, and died before it was let in again.
            before = _absence(broker, run[:died], run[died].begin, has_own_log=has_own_log)
            absences.append(before)
            run = run[died:]  # noqa: PLW2901
        absences.append(_absence(broker, run, end, has_own_log=has_own_log))
    return absences


def _absence(broker: int, run: Sequence[Span], end: int | None, *, has_own_log: bool) -> Absence:
    lines = {(line["file"], line["line"]): line for span in run for line in span.evidence}
    states = [span.state for span in run]
    kind = _absence_kind(states, end, has_own_log=has_own_log)
    died = any(a in _BEGINNING and b == "crashed" for a, b in pairwise(states))
    bracket = run[0].begin_bracket
    return Absence(broker, kind, run[0].begin, end, tuple(lines.values()), bracket, died)


class _BrokerLane:
    """One broker's states, changed by one event after another."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._start_rules: set[str] = set()

    @property
    def state(self) -> str:
        return self.spans[-1].state if self.spans else "unknown"

    def apply(self, what: str, event: Event, last_line: Event | None) -> None:
        """Apply what an event says."""
        now = self.state
        if what == "starting":
            self._start(now, event, last_line)
        elif what == "recovering" and now == "starting":
            self._enter("recovering", event)
        elif (what == "up" and now != "up") or (what == "found" and now in ("unknown", "fenced")):
            self._enter("up", event)
        elif what == "fenced" and now not in (*_DOWN, "fenced"):
            self._enter("fenced", event, what)
        elif what in ("fenced", "unclean") and self.spans:
            self.spans[-1].evidence.append(evidence_of(event, what))
        elif what == "registered" and now == "fenced":
            # A process registers once: a fenced broker that registers anew was started anew.
            self._enter("starting", event)
        elif what == "stopping" and now not in ("stopping", "stopped"):
            self._enter("stopping", event)
        elif what in ("stopped", "failed") and now != "stopped":
            if what == "failed" and self._is_starting_still(event):
                # Kafka writes that a broker has started before it ends a start that failed.
                self.spans.pop()
                self.spans[-1].end, now = None, self.spans[-1].state
            died = what == "failed" and now != "stopping"
            self._enter("crashed" if died else "stopped", event, what if died else None)

    def _is_starting_still(self, event: Event) -> bool:
        """Return True if a broker was up for no longer than it takes to write that it is not."""
        states = [span.state for span in self.spans[-2:]]
        # A start that could not register says so first, and then that it failed.
        failing = (*_BEGINNING, "crashed")
        is_new = len(states) > 1 and states[0] in failing and states[1] == "up"
        return is_new and event["at"] - self.spans[-1].begin <= _FAILING

    def _start(self, now: str, event: Event, last_line: Event | None) -> None:
        """Begin a start; a process that did not log that it stops was killed before."""
        if now in _BEGINNING and event["rule"] not in self._start_rules:
            # One start is logged in several ways; the same rule again is another start.
            self._start_rules.add(event["rule"])
            return
        self._start_rules = {event["rule"]}
        if now in ("up", *_BEGINNING) and last_line:
            death = {**last_line, "at": max(last_line["at"], self.spans[-1].begin)}
            self._enter("crashed", death)
        elif now == "fenced" and last_line and last_line["at"] <= event["at"]:
            fence = self.spans[-1]
            if last_line["at"] > fence.begin + _LIVED_ON:
                self._enter("crashed", last_line)
                self._enter("starting", event)
                return
            # It was fenced because it was dead: the death came before the fence, or in it.
            fence.state = "crashed"
            fence.evidence.append(evidence_of(last_line))
            if len(self.spans) > 1 and self.spans[-2].begin <= last_line["at"] < fence.begin:
                fence.begin = self.spans[-2].end = last_line["at"]
        self._enter("starting", event)

    def _enter(self, state: str, event: Event, what: str | None = None) -> None:
        moment = event["at"]
        if self.spans:
            moment = max(moment, self.spans[-1].begin)
            self.spans[-1].end = moment
        self.spans.append(Span(state, moment, None, [evidence_of(event, what)]))


def _changes_in(event: Event) -> Iterable[tuple[int, str]]:
    """Yield the brokers that an event is about, and what it says of each."""
    kind, own = event["kind"], event["node_broker"]
    if kind in _OWN and own is not None:
        yield own, _OWN[kind]
    elif kind in _BY_CONTROLLER and event["broker"] is not None:
        yield event["broker"], _BY_CONTROLLER[kind]
    elif kind == "broker_registered" and event["controller"] is not None:
        # On ZooKeeper only brokers log it, and do so anew with each session.
        yield event["broker"], "registered"
    elif kind == "brokers_changed":
        yield from ((broker, what) for name, what in _CHANGES for broker in event[name] or ())
    elif kind == "brokers_found":
        yield from ((broker, "found") for broker in event["alive"] or ())


def _missing_from(event: Event, lanes: Mapping[int, _BrokerLane]) -> Iterable[tuple[int, str]]:
    """Yield the brokers that were up and are not among those that a new controller finds.

    Nobody logs a session that ends with the controller's own: the next controller begins with
    those that are left.
    """
    if event["kind"] == "brokers_found":
        for broker, lane in lanes.items():
            missing = broker not in (event["alive"] or ()) and lane.state == "up"
            if missing and event["at"] - lane.spans[-1].begin > _SETTLED:
                yield broker, "fenced"


def _absence_kind(states: Sequence[str], end: int | None, *, has_own_log: bool) -> str:
    before_start = list(takewhile(lambda state: state not in _BEGINNING, states))
    # How it went is what counts, not how its next starts failed.
    if before_start and before_start[-1] == "stopped" and before_start[0] in SHUTDOWN_STATES:
        return "controlled"
    if "crashed" in states:
        return "crash"
    if not SHUTDOWN_STATES.isdisjoint(states):
        return "controlled"
    if "isolated" in states:
        return "isolated"
    if "starting" in states or not (has_own_log or "paused" in states):
        return "unknown"
    return "gone" if end is None else "pause" if "paused" in states else "fenced"


def evidence_of(event: Event, what: str | None = None) -> EvidenceRow:
    """Return what evidence needs of an event, and what the event says."""
    return {
        "file": event["file"],
        "line": event["line"],
        "text": event["text"],
        "rule": event["rule"],
        "at": event["at"],
        "what": what,
    }


def event_order(event: Event) -> tuple[Any, ...]:
    """Return the key that orders events: by corrected time first."""
    return event["at"], event["node"] or "", event["line"], event["kind"], event["file"]
