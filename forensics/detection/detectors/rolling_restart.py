"""Rolling restarts: whether each broker was in sync again before the next one was stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    in_topics,
    partition_name,
)
from forensics.detection.shared.min_isr import REFUSALS
from forensics.detection.shared.rolling_restarts import RollingStop, find_rolling_restarts
from forensics.lib.intervals import IntervalIndex
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "rolling-restart"
_SHOWN, _MOST = 5, 1000


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each roll."""
    rolls = [
        Roll(stops, frozenset(name for stop in stops for name in stop.late))
        for stops in find_rolling_restarts(context)
    ]
    _find_harm(context, [roll for roll in rolls if roll.late])
    context.look_up(line for roll in rolls for line in roll.cited)
    versions = _read_versions(context) if rolls else {}
    for roll in rolls:
        roll.upgrade = _find_upgrade(roll.stops, versions)
        yield _finding(context, roll)


def _read_versions(context: DetectionContext) -> dict[int, list[Row]]:
    """Read which version of Kafka each broker named at its starts, in order of time."""
    found: dict[int, list[Row]] = {}
    for row in context.events("kafka_version"):
        broker = broker_id(row["node"])
        if broker is not None and row["detail"]:
            found.setdefault(broker, []).append(row)
    return found


def _find_upgrade(
    stops: Sequence[RollingStop], versions: Mapping[int, Sequence[Row]]
) -> tuple[Row, Row] | None:
    """Return a line with the version before and one with that after, if all brokers changed so."""
    pairs = []
    for stop in stops:
        own = versions.get(stop.absence.broker, ())
        before = [row for row in own if row["at"] < stop.absence.begin]
        after = [row for row in own if row["at"] >= stop.absence.begin]
        if not before or not after or before[-1]["detail"] == after[0]["detail"]:
            return None
        pairs.append((before[-1], after[0]))
    is_one = len({(old["detail"], new["detail"]) for old, new in pairs}) == 1
    return pairs[0] if is_one else None


@dataclass
class Roll:
    """The stops of a roll, and what came of those that were too early."""

    stops: Sequence[RollingStop]
    # the partitions that lacked replicas
    late: frozenset[str]
    # how long some of these had no leader, and the writes to them that were refused
    leaderless: Counter[str] = field(default_factory=Counter)
    refused: list[Row] = field(default_factory=list)
    # lines that name the version of Kafka before and after
    upgrade: tuple[Row, Row] | None = None

    @property
    def change(self) -> str:
        """Say from which version of Kafka to which, if it was an upgrade or its way back."""
        if self.upgrade is None:
            return ""
        old, new = (row["detail"] for row in self.upgrade)
        return f", from Kafka {old} to {new}"

    @property
    def cited(self) -> Iterator[Row]:
        """Return what shows the ISRs that a stop met."""
        return (line for stop in self.stops for line in (*stop.evidence, *stop.whole))


def _finding(context: DetectionContext, found: Roll) -> Finding:
    limits = context.limits[NAME]
    roll, late, leaderless = found.stops, found.late, found.leaderless
    refused = sorted(found.refused, key=_by_place)
    hasty = [stop for stop in roll if stop.late]
    untold = [stop for stop in roll[1:] if not stop.known]
    harm = _describe_harm(leaderless, refused)
    brokers = [stop.absence.broker for stop in roll]
    lines = [line for stop in roll for line in _stop_lines(stop)]
    names = ", ".join(map(str, brokers))
    begin = roll[0].absence.begin
    end = max(stop.absence.end or stop.absence.begin for stop in roll)
    moved = _controllers_between(context, begin, end)
    return context.finding(
        NAME,
        limits["harmful" if harm else "hasty" if hasty else "patient"],
        f"Hasty rolling restart of brokers {names}{found.change}:"
        f" {harm or _describe_stop(roll, hasty[0])}"
        if hasty
        else f"Rolling restart: brokers {names}{found.change};"
        f" {_UNTOLD if untold else _PATIENT}{_moves(moved)}",
        begin,
        end,
        [*lines, *(found.upgrade or ()), *refused[:_SHOWN], *context.read_lines(found.cited)],
        brokers=brokers,
        partitions=sorted(late),
        measures={
            "order": brokers,
            "controllers": moved,
            "hasty": [stop.absence.broker for stop in hasty],
            "late_partitions": len(late),
            "leaderless_s": round(max(leaderless.values(), default=0) / SECOND, 1),
            "refused_s": _seconds(refused),
        },
        explanation=_MECHANISM,
        actions=_actions(context, hasty=bool(hasty), untold=bool(untold)),
        why="; ".join(_describe_stop(roll, stop) for stop in hasty)
        or (_UNTOLD if untold else _PATIENT),
        doubts=_DOUBTS,
    )


def _controllers_between(context: DetectionContext, begin: int, end: int) -> list[str]:
    """Return who was the active controller meanwhile, in turn."""
    terms = sorted(context.history.lanes.terms.terms, key=lambda term: term.span.begin)
    nodes = [
        term.node
        for term in terms
        if term.span.state == "active"
        and term.node is not None
        and term.span.begin <= end
        and (term.span.end is None or term.span.end >= begin)
    ]
    return [node for node, _ in groupby(nodes)]


def _moves(controllers: Sequence[str]) -> str:
    if len(controllers) < 2:
        return ""
    return f"; the active controller moved from {' to '.join(controllers[:_SHOWN])}"


def _stop_lines(stop: RollingStop) -> Sequence[Row]:
    lines = [dict(line) for line in stop.absence.evidence]
    return [*lines[:2], *lines[-1:]] if len(lines) > _SHOWN else lines


def _describe_stop(roll: Sequence[RollingStop], stop: RollingStop) -> str:
    """Say how soon a broker was stopped after the one before it, and what was not in sync."""
    before = roll[roll.index(stop) - 1].absence
    apart = (stop.absence.begin - (before.end or before.begin)) / SECOND
    broker, count = stop.absence.broker, quantity(len({*stop.late}), "partition")
    when = (
        f"{apart:.1f} s after broker {before.broker} came back"
        if apart >= 0
        else f"{-apart:.1f} s before broker {before.broker} was back"
    )
    return f"broker {broker} was stopped {when}, before {count} had all replicas in sync again"


def _describe_harm(leaderless: Mapping[str, int], refused: Sequence[Row]) -> str:
    said = []
    if leaderless:
        count, longest = quantity(len(leaderless), "partition"), max(leaderless.values()) / SECOND
        said.append(f"{count} without a leader for up to {longest:.1f} s")
    if refused:
        said.append(f"writes rejected within {_seconds(refused):.1f} s")
    return ", ".join(said)


def _seconds(rows: Sequence[Row]) -> float:
    return round((rows[-1]["at"] - rows[0]["at"]) / SECOND, 1) if rows else 0.0


def _find_harm(context: DetectionContext, rolls: Sequence[Roll]) -> None:
    """Find how long partitions that lacked replicas had no leader, and which writes were refused.

    Writes count from the stop that came too early until its broker is back and has caught up. An
    outage counts if it began while that broker was away and with nobody else's crash or freeze.
    One pass over each table serves all rolls.
    """
    if not rolls:
        return
    near = context.limits[NAME]["near"] * SECOND
    hasty = [(roll, stop) for roll in rolls for stop in roll.stops if stop.late]
    during = IntervalIndex(hasty, lambda pair: _span(pair[1], near))
    topics = in_topics(name.rpartition("-")[0] for roll in rolls for name in roll.late)
    blink = context.limits[NAME]["blink"] * SECOND
    for row in context.each("outages", topics):
        length = (row["ended_at"] or context.logs_end) - row["started_at"]
        name, start = partition_name(row), row["started_at"]
        leader = row["previous_leader"] if row["leader"] is None else row["leader"]
        for roll, stop in during.around(start, start) if length > blink else ():
            is_away = start <= (stop.absence.end or start)
            if name in stop.late and is_away and leader in {None, stop.absence.broker}:
                roll.leaderless[name] += length
    where = topics & pc.field("error").isin(list(REFUSALS)) & pc.field("ts").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, "topic", "partition"]):
        name = partition_name(row)
        met = [roll for roll, stop in during.around(row["at"], row["at"]) if name in stop.late]
        for roll in {id(roll): roll for roll in met}.values():
            roll.refused.append(row)
            if len(roll.refused) > _MOST:
                # The first ones are shown, and until when it went on.
                roll.refused.sort(key=_by_place)
                del roll.refused[_SHOWN:-1]


def _by_place(row: Row) -> tuple[int, str, int]:
    return row["at"], row["file"], row["line"]


def _span(stop: RollingStop, near: int) -> tuple[int, int]:
    return stop.absence.begin, (stop.absence.end or stop.absence.begin) + near


def _actions(context: DetectionContext, *, hasty: bool, untold: bool) -> list[str]:
    if not hasty and not untold:
        return ["Nothing to do: this is how a roll should go."]
    return [
        f"{context.commands.under_replicated()}   # stop the next one when it lists nothing",
        "Wait for that before each stop: a process that is up is not in sync yet.",
    ]


_PATIENT = "each was in every ISR again before the next stop"
_UNTOLD = "the logs do not show whether each was in sync again before the next stop"
_MECHANISM = (
    "A broker that was restarted lacks what was written while it was down, and is in sync again "
    "only after it has read it. If the next one is stopped before that, partitions have two "
    "replicas fewer: acks=all writes are rejected below min.insync.replicas, and where no in-sync "
    "replica is left the partition has no leader."
)
_DOUBTS = ("Restarts of several brokers within half an hour need not be one roll.",)
