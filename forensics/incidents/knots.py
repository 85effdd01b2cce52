"""The knots of cause chains: findings, and planned moves of leaders, as stretches of time.

A finding about several absences or changes is as many stretches: each may have its own trigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forensics.history.lanes import Absence
from forensics.incidents.case import Case, Row
from forensics.incidents.finding import SEVERITIES, Finding
from forensics.incidents.mechanisms import MOVE
from forensics.incidents.shifts import LeaderAndEpoch, Shift, Shifts

__all__ = ["Knot", "Stretch", "knots"]

# So many of the worst findings are tied together, and so many stretches of each.
_MOST, _STRETCHES = 250, 50
_AWAY = ("broker-restart", "flapping-broker")
_OFFICE = "controller-churn"
# Between the things that these are about there may be hours.
_REPEATED = ("long-pause", "session-expiry")
# The death of a process lies after its last line: it is the cluster's word that dates it.
_VAGUE = ("crash", "gone")


@dataclass(frozen=True)
class Stretch:
    """One time that a knot is about, with the lines by which it begins and ends."""

    begin: int
    end: int
    brokers: frozenset[int]
    place: Row | None = None
    back: Row | None = None
    # the moves of leaders that it brought about, and those that came last before it
    moved: frozenset[LeaderAndEpoch] = frozenset()
    behind: frozenset[LeaderAndEpoch] = frozenset()
    # whether it began at this moment or later
    vague: bool = False
    # how a broker was away, if that is what it is about
    kind: str | None = None


@dataclass(frozen=True)
class Knot:
    """Something that may have led to something else, or have come of it."""

    id: str
    detector: str
    title: str
    severity: int
    stretches: tuple[Stretch, ...]
    partitions: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    # brokers that were elected, and that cut their logs
    elected: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()
    # what its detector took for its cause, if it looked for one
    cause: str | None = None
    # whether somebody ordered it: nothing else led to it then
    ordered: bool = False

    @property
    def begin(self) -> int:
        """The moment from which on it is told of."""
        return self.stretches[0].begin

    @property
    def topics(self) -> frozenset[str]:
        """The topics of its partitions."""
        return frozenset(name.rpartition("-")[0] for name in self.partitions)


def knots(case: Case, findings: Sequence[Finding], shifts: Shifts) -> list[Knot]:
    """Give the knots of a run in the order of time; `shifts` are the moves behind them."""
    worst = sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), one.begin, one.id))
    found = [_knot(case, finding, shifts) for finding in worst[:_MOST]]
    behind = {move for knot in found for one in knot.stretches for move in one.behind}
    planned = [shift for shift in shifts.planned if shift.moves & behind]
    found += [_planned(shift) for shift in planned[:_MOST]]
    return sorted(found, key=lambda one: (one.begin, one.id))


def _knot(case: Case, finding: Finding, shifts: Shifts) -> Knot:
    entries = _entries(finding.measures)
    named = {str(one["partition"]) for one in entries if "partition" in one}
    node = finding.measures.get("node")
    names = {f"broker-{one}" for one in finding.brokers} | ({str(node)} if node else set())
    brokers = set(finding.brokers) | _ids(names)
    leaders = {one["leader"] for one in entries if isinstance(one.get("leader"), int)}
    cut = {broker for one in entries for broker in one.get("cut_on") or ()}
    stretches = _stretches(case, finding, frozenset(brokers), shifts)
    return Knot(
        finding.id,
        finding.detector,
        finding.title,
        SEVERITIES.index(finding.severity),
        tuple(stretches[:_STRETCHES]),
        frozenset(finding.partitions) | named,
        frozenset(names | set(finding.clients)),
        frozenset(finding.clients),
        frozenset(leaders),
        frozenset(cut),
        finding.measures.get("cause"),
        finding.detector == "broker-restart" and finding.measures.get("kind") == "controlled",
    )


def _entries(measures: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = measures.get("partitions")
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []


def _ids(names: Iterable[str]) -> set[int]:
    ends = (name.removeprefix("broker-") for name in names if name.startswith("broker-"))
    return {int(end) for end in ends if end.isdecimal()}


def _stretches(
    case: Case, finding: Finding, brokers: frozenset[int], shifts: Shifts
) -> list[Stretch]:
    whole = Stretch(
        finding.begin,
        finding.end,
        brokers,
        _nearest(finding.evidence, finding.begin),
        _at(finding.evidence, finding.end) if finding.end > finding.begin else None,
        behind=shifts.behind(finding.partitions, finding.begin),
    )
    if finding.detector in _AWAY:
        absences = [one for one in case.away if _is_of(finding, one)]
        return [_absence(case, one, shifts) for one in absences] or [whole]
    if finding.detector == _OFFICE:
        return _changes(case, finding) or [whole]
    if finding.detector in _REPEATED:
        return _moments(finding, brokers) or [whole]
    if finding.detector == "offline-partitions":
        return [replace(whole, back=shifts.regained(finding.partitions, finding.end))]
    return [whole]


def _is_of(finding: Finding, absence: Absence) -> bool:
    if absence.broker not in finding.brokers:
        return False
    if finding.detector == "broker-restart":
        return absence.begin == finding.begin
    unplanned = absence.kind != "controlled"
    return unplanned and finding.begin <= absence.begin <= finding.end


def _absence(case: Case, one: Absence, shifts: Shifts) -> Stretch:
    end = one.end if one.end is not None else max(case.end, one.begin)
    spans = case.past.lanes.brokers.get(one.broker, ())
    # The line by which it is up again belongs to the stretch that follows.
    returns = (span.evidence for span in spans if span.begin == one.end and span.state == "up")
    back = next((dict(told[0]) for told in returns if told), None)
    return Stretch(
        one.begin,
        end,
        frozenset({one.broker}),
        _nearest(one.evidence, one.begin),
        back,
        shifts.moved(one.broker, one.begin, end),
        vague=one.kind in _VAGUE,
        kind=one.kind,
    )


def _changes(case: Case, finding: Finding) -> list[Stretch]:
    """Give each change of controller, about the one who lost the office."""
    reigns = case.past.lanes.controllers
    return [
        Stretch(
            span.begin,
            span.begin,
            frozenset({before} if before is not None else ()),
            _nearest(span.evidence, span.begin),
        )
        for (_, before, _), (_, after, span) in zip(reigns, reigns[1:], strict=False)
        if before != after and finding.begin <= span.begin <= finding.end
    ]


def _moments(finding: Finding, brokers: frozenset[int]) -> list[Stretch]:
    """Give the moments of a finding that many are in, each of them told of as it was over."""
    longest = finding.measures.get("longest_ms") or 0
    found: list[Stretch] = []
    timed = [dict(one) for one in finding.evidence if one.get("at") is not None]
    for place in sorted(timed, key=lambda one: (one["at"], one["file"], one["line"])):
        begin = max(finding.begin, round(place["at"] - longest * 1000))
        if found and begin <= found[-1].end:
            found[-1] = replace(found[-1], end=place["at"])
        else:
            found.append(Stretch(begin, place["at"], brokers, place))
    return found


def _planned(shift: Shift) -> Knot:
    place = shift.place
    stretch = Stretch(shift.begin, shift.end, frozenset(), place, None, shift.moves)
    return Knot(shift.id, MOVE, shift.title, 0, (stretch,), shift.partitions)


def _nearest(evidence: Iterable[Mapping[str, Any]], moment: int) -> Row | None:
    timed = [dict(one) for one in evidence if one.get("at") is not None]
    return min(
        timed, key=lambda one: (abs(one["at"] - moment), one["file"], one["line"]), default=None
    )


def _at(evidence: Iterable[Mapping[str, Any]], moment: int) -> Row | None:
    """Find the line that stands at a moment, if the evidence holds it."""
    found = _nearest(evidence, moment)
    return found if found is not None and found["at"] == moment else None
