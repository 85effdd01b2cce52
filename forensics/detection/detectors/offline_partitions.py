"""Partitions that nobody could serve: no leader, or one that was dead, hung or cut off."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    group_by_gap,
    in_topics,
    partition_name,
)
from forensics.detection.shared.absence_causes import (
    absences_by_zookeeper,
    brokers_with_failed_disks,
)
from forensics.detection.shared.flapping_brokers import find_flapping_absences
from forensics.detection.shared.leader_handovers import find_leader_gaps
from forensics.history.partitions.outages import LeaderGap
from forensics.lib.intervals import merge
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import ROUGH_MS, count, seconds_text, times_text
from forensics.lib.time_units import MILLISECOND, SECOND
from forensics.run_output.findings import Finding

NAME = "offline-partitions"
_COLUMNS = (
    "topic", "partition", "started_at", "started_before", "ended_at", "ended_after", "why",
    "previous_leader", "planned",
)  # fmt: skip
_OutageKey = tuple[str, int, int]
# A finding quotes the lines of so many partitions: those that were unavailable longest.
_MAX_QUOTED = 10
# What follows so soon upon the end of another is one stretch of time to whoever waits.
_TOGETHER = 2 * SECOND


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each incident in which partitions were unavailable."""
    limits = context.limits[NAME]
    groups: list[tuple[list[Row], bool]] = []
    outages = list(context.each("outages", None, _COLUMNS))
    for is_planned in (False, True):
        rows = (row for row in outages if row["planned"] is is_planned)
        groups += (
            (group, is_planned)
            for group in group_by_gap(rows, limits["stroke"], lambda row: _end(context, row))
            if not is_planned or max(_seconds(context, group)) >= limits["blink"]
        )
    quoted = [_worst(context, group) for group, _ in groups]
    lines = _read_lines(context, {_key(row) for rows in quoted for row in rows})
    for (group, is_planned), worst in zip(groups, quoted, strict=True):
        evidence = [line for row in worst for line in lines.get(_key(row), ())]
        if evidence:
            yield _finding(context, group, evidence, is_planned=is_planned)

    yield from _find_failed_elections(context, outages)


def _find_failed_elections(context: DetectionContext, outages: Sequence[Row]) -> Iterator[Finding]:
    """Find partitions without a leader of which no other line tells that they had none."""
    if not context.visibility.has_kinds("status_change_failed"):
        return
    states = (pc.field("to_state") == "OnlinePartition") & (
        pc.field("from_state") != "OnlinePartition"
    )
    where = (pc.field("kind") == "status_change_failed") & states & pc.field("ts").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    told = {_place(row) for row in outages}
    rows = context.each("events", where, (*EVIDENCE_COLUMNS, "topic", "partition", "detail"))
    unknown = (row for row in rows if _place(row) not in told)
    first = heapq.nsmallest(
        _MAX_ELECTIONS, unknown, lambda row: (row["at"], row["file"], row["line"])
    )
    stroke = context.limits[NAME]["stroke"] * SECOND
    starts: dict[str | None, list[int]] = defaultdict(list)
    for start in context.events("process_starting", "process_started") if first else ():
        starts[start["node"]].append(start["at"])
    for times in starts.values():
        times.sort()

    def is_cold(row: Row) -> bool:
        """A controller that comes up before the other brokers finds nobody to lead."""
        times = starts.get(row["node"], [])
        before = bisect_right(times, row["at"])
        return before > 0 and row["at"] - times[before - 1] <= _COLD

    late = [row for row in first if not is_cold(row)]
    for group in sessions(late, lambda row: int(row["at"]), stroke):
        yield _failed_elections_finding(context, group)


def _failed_elections_finding(context: DetectionContext, group: Sequence[Row]) -> Finding:
    begin, end = group[0]["at"], group[-1]["at"]
    by_name = {partition_name(row): row for row in reversed(group)}
    names = sorted(by_name)
    stops = [one for one in context.absences if one.kind == "controlled"]
    is_planned = any(
        one.begin - _TOGETHER <= end and begin <= (one.end or context.logs_end) for one in stops
    )
    limits = context.limits[NAME]
    subject = count(len(names), "partition")
    # A state also fails to change for other reasons, such as a ZooKeeper that does not answer.
    nobody = all(_NOBODY_ALIVE.search(row["detail"] or "") for row in group)
    return context.finding(
        NAME,
        limits["planned" if is_planned else "brief"],
        f"{subject} got no leader" + (": no in-sync replica was alive" if nobody else ""),
        begin,
        end,
        [by_name[name] for name in names[:_MAX_QUOTED]],
        partitions=names,
        measures={
            "partitions": len(names),
            # for how long nothing tells
            "partition_seconds": None,
            "longest_s": None,
            "losses": 1,
            "planned": is_planned,
            "ways": {"no_leader": len(names)},
        },
        explanation=(
            "The controller looked for a new leader and found no member of the ISR alive."
            if nobody
            else "The controller could not elect a leader; why stands in the lines, if anywhere."
        )
        + " Since when these partitions had none, and when they got one, is not in these logs.",
        actions=[
            f"{context.commands.unavailable()}   # which have no leader now?",
            ("Start the brokers that were last in sync. " + _WAIT)
            if nobody
            else "Read the error below each line of the evidence: it says why the election failed.",
        ],
        why=f"the controller logged {len(group):,} elections that failed",
        doubts=_DOUBTS[:1],
    )


_NOBODY_ALIVE = re.compile(r"Failed to elect leader for partition|^No .{0,300}\bis alive\b")
# More lines than that show nothing more.
_MAX_ELECTIONS = 100_000
# All brokers of a cluster that is started are up within that.
_COLD = 120 * SECOND


def _read_lines(
    context: DetectionContext, keys: Collection[_OutageKey]
) -> Mapping[_OutageKey, Sequence[Row]]:
    """Look up the lines that some of the outages cite."""
    topics = {topic for topic, _, _ in keys}
    columns = ["topic", "partition", "started_at", "evidence"]
    cited = {
        _key(row): [(place["file"], place["line"]) for place in row["evidence"]]
        for row in context.each("outages", in_topics(topics), columns)
        if _key(row) in keys
    }
    places = [{"file": file, "line": line} for rows in cited.values() for file, line in rows]
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for line in context.read_lines(places):
        found[line["file"], line["line"]].append(line)
    return {key: [line for at in rows for line in found[at]] for key, rows in cited.items()}


def _key(row: Row) -> _OutageKey:
    return row["topic"], row["partition"], row["started_at"]


def _end(context: DetectionContext, row: Row) -> int:
    end = row["ended_at"] if row["ended_at"] is not None else context.logs_end
    return max(int(end), int(row["started_at"]))


def _seconds(context: DetectionContext, group: Sequence[Row]) -> list[float]:
    return [(_end(context, row) - row["started_at"]) / SECOND for row in group]


def _at_most(context: DetectionContext, group: Sequence[Row]) -> float:
    """Return how long the longest of some outages lasted, where its end was not seen at most."""
    ends = (row["ended_after"] or _end(context, row) for row in group)
    return float(
        max(end - row["started_at"] for end, row in zip(ends, group, strict=True)) / SECOND
    )


def _longest_text(context: DetectionContext, group: Sequence[Row]) -> str:
    """Say how long the longest lasted: in whole seconds where it began at a rough moment."""
    longest = _at_most(context, group)
    off_by = max((row["started_before"] or row["started_at"]) - row["started_at"] for row in group)
    if off_by < ROUGH_MS * MILLISECOND:
        return seconds_text(longest)
    return f"about {seconds_text(longest + off_by / SECOND, 0)}"


def _worst(context: DetectionContext, group: Sequence[Row]) -> list[Row]:
    return heapq.nsmallest(
        _MAX_QUOTED,
        group,
        lambda row: (row["started_at"] - _end(context, row), _key(row)),
    )


def _place(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _finding(
    context: DetectionContext, group: list[Row], evidence: Sequence[Row], *, is_planned: bool
) -> Finding:
    longest, total = _at_most(context, group), sum(_seconds(context, group))
    names = sorted({partition_name(row) for row in group})
    begin, end = min(row["started_at"] for row in group), max(_end(context, row) for row in group)
    still = [row for row in group if row["ended_at"] is None]
    stretches = _count_stretches(context, group)
    leaders = sorted(
        {row["previous_leader"] for row in group if row["previous_leader"] is not None}
    )
    times = f", {times_text(stretches)}" if stretches > 1 else ""
    long = f"for up to {_longest_text(context, group)}{' at a time' * (stretches > 1)}"
    open_end = f", {len(still)} of them still when the logs end" if still else ""
    subject = count(len(names), "partition")
    gaps = () if is_planned else _gaps_beside(context, names, begin, end)
    if gaps:
        subject = f"At least {subject}"
    return context.finding(
        NAME,
        _severity(context, group, stretches, is_planned=is_planned),
        f"{subject} unavailable while brokers were shut down"
        if is_planned
        else f"{subject} unavailable{times}, {long}{open_end}",
        begin,
        end,
        evidence,
        stated=all(row["why"] == "no_leader" for row in group),
        brokers=leaders,
        partitions=names,
        measures={
            "partitions": len(names),
            # further ones that may have been
            "possibly": len(gaps),
            "partition_seconds": round(total, 1),
            "longest_s": round(longest, 1),
            "still": len(still),
            "losses": stretches,
            "planned": is_planned,
            "ways": dict(sorted(Counter(row["why"] for row in group).items())),
        },
        explanation=_explain(context, group, is_planned=is_planned),
        actions=_actions(context, still, is_planned=is_planned),
        why=f"{total:.1f} partition-seconds in all; limits: {context.limits[NAME]['short']} s"
        f" without a leader, {context.limits[NAME]['failover']} s until a dead one is replaced",
        doubts=_DOUBTS_PLANNED if is_planned else [*_doubt_of(gaps), *_DOUBTS],
    )


def _gaps_beside(
    context: DetectionContext, names: Collection[str], begin: int, end: int
) -> list[LeaderGap]:
    """Return, one for each further partition, where no line tells who led it meanwhile."""
    stroke = context.limits[NAME]["stroke"] * SECOND
    found = {
        (one.topic, one.partition): one
        for one in find_leader_gaps(context)
        if one.begin <= end + stroke and begin - stroke <= (one.end or context.logs_end)
    }
    return [one for (topic, number), one in found.items() if f"{topic}-{number}" not in names]


def _doubt_of(gaps: Sequence[LeaderGap]) -> Iterator[str]:
    if gaps:
        brokers = ", ".join(str(broker) for broker in sorted({one.leader for one in gaps}))
        yield (
            f"{count(len(gaps), 'more partition')} led by broker {brokers} before it went away may "
            "have been unavailable too: no line tells who led after it."
        )


def _count_stretches(context: DetectionContext, group: Sequence[Row]) -> int:
    """Count the stretches of time in which one of some partitions or several were unavailable."""
    spans = ((row["started_at"], _end(context, row) + _TOGETHER) for row in group)
    return len(merge(spans))


def _severity(
    context: DetectionContext, group: Sequence[Row], stretches: int, *, is_planned: bool
) -> str:
    limits, longest = context.limits[NAME], max(_seconds(context, group))
    if is_planned:
        return str(limits["planned"])
    # What the logs show for a moment only may be over just after their end.
    still = [row for row in group if row["ended_at"] is None]
    if max(_seconds(context, still), default=0.0) >= limits["blink"]:
        return str(limits["open"])
    if longest < limits["blink"]:
        return str(limits["blinked"])
    leaderless = [row for row in group if row["why"] == "no_leader"]
    alone = max(_seconds(context, leaderless), default=0.0)
    # A broker that flaps has a finding of its own: this is what came of it.
    brokers = {row["previous_leader"] for row in group} - set(find_flapping_absences(context))
    again = stretches >= limits["losses"] and bool(brokers)
    is_long = longest > limits["failover"] or alone > limits["short"] or again
    return str(limits["long"] if is_long else limits["brief"])


def _explain(context: DetectionContext, group: Sequence[Row], *, is_planned: bool) -> str:
    if is_planned:
        return _PLANNED
    by_way: dict[str, set[str]] = {}
    by_zookeeper = absences_by_zookeeper(context)
    unregistered = [one for one in context.absences if (one.broker, one.begin) in by_zookeeper]
    for row in group:
        way = row["why"]
        if way == "leader_hung" and any(
            one.broker == row["previous_leader"]
            and one.begin <= _end(context, row)
            and row["started_at"] <= (one.end or context.logs_end)
            for one in unregistered
        ):
            way = "no_session"
        names = by_way.setdefault(way, set())
        if row["previous_leader"] is not None:
            names.add(str(row["previous_leader"]))
    parts = []
    for way, leaders in sorted(by_way.items()):
        several = len(leaders) > 1
        some = ", ".join(sorted(leaders, key=int))
        who = (
            f"Their leaders (brokers {some}) were"
            if several
            else f"Their leader (broker {some}) was"
        )
        parts.append(_WAYS[way].format(who=who, they="they" if several else "it"))
    cut_off = set(by_way) == {"leader_isolated"}
    return " ".join([*parts, _REACHED if cut_off else _WAITED])


def _actions(context: DetectionContext, still: Sequence[Row], *, is_planned: bool) -> list[str]:
    if is_planned:
        return ["Nothing to do if all brokers were meant to stop."]
    first = f"{context.commands.unavailable()}   # which have no leader now?"
    if not still:
        return [first]
    last = _last_in_sync(context, {_place(row) for row in still})
    lost = brokers_with_failed_disks(context)
    away = {absence.broker for absence in context.absences if absence.end is None} - lost
    wanted = sorted({broker for isr in last.values() for broker in isr} & away)
    names = ", ".join(str(broker) for broker in wanted[:5])
    start = f"Start the brokers that were last in sync: {names}. " if names else ""
    return [first, start + _WAIT]


def _last_in_sync(
    context: DetectionContext, wanted: set[tuple[str, int]]
) -> Mapping[tuple[str, int], Sequence[int]]:
    """Return the last ISR of some partitions that is known and not empty."""
    last: dict[tuple[str, int], Sequence[int]] = {}
    where = in_topics({topic for topic, _ in wanted}) & pc.field("isr").is_valid()
    for row in context.each("isr", where, ["topic", "partition", "isr"]):
        if _place(row) in wanted and row["isr"]:
            last[_place(row)] = row["isr"]
    return last


_PLANNED = "Their leaders were shut down cleanly, and no other replica could take over."
_WAYS = {
    "leader_dead": "{who} down until other leaders were elected or {they} came back.",
    "leader_hung": "{who} frozen, or fenced, until other leaders were elected.",
    "leader_isolated": "{who} cut off from the controller until other leaders were elected.",
    "leader_stopped": "{who} stopped before another replica was in sync.",
    "no_session": "{who} without a session with ZooKeeper until {they} registered anew.",
    "no_leader": "The controller had no in-sync replica to elect, and left them without a leader.",
}
_WAITED = "Until then their producers and consumers waited or got errors."
_REACHED = "Until then producers and consumers that could not reach it waited or got errors."
_DOUBTS = [
    "A leader elected by a controller whose log is missing here would end this earlier.",
    "Where nobody saw a process die, its death is dated by what others logged: within its session.",
]
_DOUBTS_PLANNED = ["One broker too many may have been stopped by mistake."]
_WAIT = (
    "Do not run an unclean election while one of them can still be brought back: records that only "
    "it has would be lost."
)
