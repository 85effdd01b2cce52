"""From when to when the incident lasted, one interval for the whole page, and its outages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow.dataset as ds

from forensics.lib.intervals import merge
from forensics.lib.node_ids import client_name, whole_client
from forensics.lib.text_format import (
    ROUGH_MS,
    brokers_text,
    count,
    duration,
    durations_text,
    join_names,
    time_text,
)
from forensics.lib.time_zone import current_zone
from forensics.report.finding_text import (
    describe_scope,
    drop_standing,
    estimated_starts,
    is_open,
    short_title,
)
from forensics.run_output.reader import Row, RunOutput, SavedFinding

# Findings further apart than this belong to different incidents.
SAME_INCIDENT_MS = 30 * 60_000
CLIENT_COLUMNS = ("node", "state", "started_at", "ended_at")
HIT_STATES = ("stale", "disconnected")
# Clients hear of an outage a little after it.
HEARD_MS = 3000
# Two troubles of a client with less between them are one.
SAME_TROUBLE_MS = 1000
OUTAGE_COLUMNS = (
    "topic", "partition", "started_at", "started_before", "ended_at", "ended_after", "why",
    "leader", "planned",
)  # fmt: skip
WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
DAY_MS = 86_400_000
# What lasts to the end of the logs.
STILL = {
    "client-ended": "{} is not running again", "offset-reset": "{} is not running again",
    "broker-restart": "{} is not back", "flapping-broker": "{} is not back",
    "disk-failure": "a log directory of {} is offline",
    "failing-fetcher": "{} is not copied to all its replicas",
}  # fmt: skip
# These end with the last error, which no line of a recovery follows: only logs that go on without
# one tell that it is over.
END_WITH_LAST_ERROR = frozenset({
    "authentication-failures", "producer-fatal", "rebalance-storm", "record-too-large",
    "serialization-errors", "undelivered-records", "unreachable-listener",
})  # fmt: skip
# As long as a client waits for an answer (request.timeout.ms), or twice as long as it is from one
# error to the next, where a finding counts them under one of these names.
QUIET_MS = 30_000
COUNTED = ("records", "records_min", "errors", "failures", "times", "rebalances")


@dataclass(frozen=True)
class IncidentSpan:
    """First impact to last recovery, of the incident that the headline is about."""

    start: int
    end: int
    # None where nobody can tell, as logs end too soon after the last error
    is_over: bool | None
    # the findings in it, and how many other incidents these logs hold
    findings: tuple[SavedFinding, ...]
    others: tuple[tuple[int, int], ...] = ()
    # whose logs those are, and until when they reach
    cut_short: tuple[str, ...] = ()
    cut_at: int | None = None


def incident_span(run: RunOutput) -> IncidentSpan | None:
    """Return the interval of the incident; None where there is none, or nothing has a time."""
    if not run.incidents:
        return None
    groups = group_incidents(run.incidents, run.logs_end)
    if not groups:
        return None
    worst = run.incidents[0]
    main = next((group for group in groups if worst in group), groups[0])
    start, end = reach_of(main, run.logs_end)
    others = tuple(reach_of(group, run.logs_end) for group in groups if group is not main)
    if any(is_lasting(run, one) for one in main):
        end = max(end, run.logs_end or end)
        return IncidentSpan(start, end, False, tuple(main), others)
    last = _last_lines(run)
    short = {name: at for one in main for name, at in _cut_short(run, one, last).items()}
    named = {name: at for name, at in short.items() if name}
    cut_at = max((named or short).values(), default=None)
    is_over = None if short else True
    return IncidentSpan(start, end, is_over, tuple(main), others, tuple(named), cut_at)


def is_lasting(run: RunOutput, one: SavedFinding) -> bool:
    """Return True if what was found goes on when the logs end, or a client has ended for good."""
    if is_open(run, one) or one.measures.get("ends") != "consumer fails":
        return is_open(run, one)
    last = _last_lines(run)
    ends = [last[node] for name in one.clients if (node := whole_client(name)) in last]
    # An application that logs on may have made itself another consumer.
    has_ended = bool(ends) and max(ends) <= (one.end_ms or 0) + QUIET_MS
    return has_ended and max(ends) + QUIET_MS <= (run.logs_end or 0)


def _last_lines(run: RunOutput) -> dict[str, int]:
    """Return for each node the time of its last line."""
    last: dict[str, int] = {}
    for row in run.files:
        if row["node"] and row["last_ts"] is not None:
            last[row["node"]] = max(row["last_ts"], last.get(row["node"], row["last_ts"]))
    return last


def _cut_short(run: RunOutput, one: SavedFinding, last: Mapping[str, int]) -> dict[str, int]:
    """Return whose logs end too soon after the last error to show that it was over, and when.

    The name is empty for all logs, where the finding names no client that has one.
    """
    is_stuck = one.measures.get("verdict") == "stuck"
    is_failed = one.measures.get("ends") == "consumer fails"
    if one.end_ms is None or not (is_stuck or is_failed or one.detector in END_WITH_LAST_ERROR):
        return {}
    nodes = (name if name in last else whole_client(name) for name in one.clients)
    ends = {client_name(node): last[node] for node in nodes if node in last}
    if not ends:
        # Whoever told of it: clocks of others may be far off.
        told = {line.file for line in one.evidence}
        nodes = (row["node"] for row in run.files if row["file"] in told)
        ends = {client_name(node): last[node] for node in nodes if node in last}
    if not ends and run.logs_end is not None:
        ends = {"": run.logs_end}
    quiet = _quiet_time(one)
    short = {name: at for name, at in ends.items() if is_stuck or at < one.end_ms + quiet}
    if one.detector == "rebalance-storm" and len(short) < len(ends):
        # Members come and go; one that stays tells of the whole group.
        return {}
    return short


def _quiet_time(one: SavedFinding) -> int:
    """Return how long no error may come for it to be over: errors may come at long intervals."""
    counts = [number for name in COUNTED if isinstance(number := one.measures.get(name), int)]
    if one.start_ms is None or one.end_ms is None or not counts or max(counts) < 2:
        return QUIET_MS
    return max(QUIET_MS, 2 * (one.end_ms - one.start_ms) // (max(counts) - 1))


def group_incidents(
    findings: Sequence[SavedFinding], logs_end: int | None
) -> list[list[SavedFinding]]:
    """Put the findings that belong to one incident together; the text and the figures ask here."""
    passing = drop_standing([one for one in findings if one.is_incident])
    groups: list[list[SavedFinding]] = []
    reached = 0
    dated = [one for one in passing if one.start_ms is not None]
    for one in sorted(dated, key=lambda one: (one.start_ms or 0, one.id)):
        start, end = reach_of([one], logs_end)
        if groups and start <= reached + SAME_INCIDENT_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
        reached = max(reached, end)
    return groups


def reach_of(findings: Sequence[SavedFinding], logs_end: int | None) -> tuple[int, int]:
    """Return from when to when findings reach; an open one, to the end of the logs."""
    starts = [one.start_ms for one in findings if one.start_ms is not None]
    ends = [one.end_ms for one in findings if one.end_ms is not None]
    if logs_end is not None and any(one.end_ms is None for one in findings):
        ends.append(logs_end)
    return min(starts), max([*starts, *ends])


def describe_day(moment: int) -> str:
    """Name the day of a moment in the page's zone.

    >>> describe_day(0)
    'Thu 1970-01-01'
    """
    weekday = WEEKDAYS[(moment + current_zone().offset) // DAY_MS % 7]
    return f"{weekday} {time_text(moment)[:10]}"


def clock_text(moment: int, day_of: int | None = None) -> str:
    """Write a time of day, with its date where that is not the day of another moment.

    >>> clock_text(1500, 0), clock_text(1500)
    ('00:00:01', '1970-01-01 00:00:01')
    """
    text = time_text(moment)
    return text[11:] if day_of is not None and time_text(day_of)[:10] == text[:10] else text


def describe_span(run: RunOutput, span: IncidentSpan) -> str:
    """Say when the incident was, for how long, and whether it is over."""
    zone = current_zone().label
    first = (one for one in span.findings if one.start_ms == span.start)
    about = "about " * any(span.start in estimated_starts(one) for one in first)
    begin = f"{describe_day(span.start)}, {about}{clock_text(span.start, span.start)}"
    end = clock_text(span.end, span.start)
    long = duration(span.end - span.start)
    if span.is_over is False:
        still = _still(run, span)
        return f"{begin} {zone}; not over when the logs end at {end} ({long} later){still}"
    state = ", over"
    if run.window and run.is_windowed and span.end > run.window[1]:
        state = ", goes on after this window"
    elif span.cut_at is not None:
        whose = f" of {join_names(span.cut_short, 4)}" if span.cut_short else ""
        end_at = "end by" if len(span.cut_short) > 1 else "end at"
        state = (
            f"; whether it is over cannot be told: the logs{whose} {end_at}"
            f" {clock_text(span.cut_at, span.start)}, too soon after the last error"
        )
    if end == clock_text(span.start, span.start):
        return f"{begin} {zone}{state}"
    return f"{begin} \u2013 {end} {zone} ({long}){state}"


def _still(run: RunOutput, span: IncidentSpan) -> str:
    """Say what is still so when the logs end."""
    lasting = [one for one in span.findings if is_lasting(run, one)]
    if not lasting:
        return ""
    first = lasting[0]
    same = [one for one in lasting if one.detector == first.detector]
    what = STILL.get(first.detector, f"{short_title(first).lower()} on {{}}")
    if len(same) > 1:
        what = what.replace("{} is", "{} are")
    names = list(dict.fromkeys(describe_scope(one) for one in same))
    numbers = [name.removeprefix("broker ") for name in names]
    if len(names) > 1 and all(map(str.isdecimal, numbers)):
        return f": {what.format(brokers_text([int(number) for number in numbers]))}"
    return f": {what.format(join_names(names, 4))}"


def describe_others(span: IncidentSpan) -> str:
    """Name the other incidents of these logs; empty where there are none."""
    if not span.others:
        return ""
    starts = ", ".join(clock_text(start, span.start) for start, _ in span.others[:3])
    more = " and later" if len(span.others) > 3 else ""
    return f"{count(len(span.others), 'more incident')} in these logs, at {starts}{more}"


def incident_outages(run: RunOutput, span: IncidentSpan) -> list[tuple[str, int, int, Row]]:
    """Return the unplanned outages of the incident: partition, start, end, row."""
    found = []
    for row in run.rows("outages", OUTAGE_COLUMNS, ~ds.field("planned")):
        start, end = row["started_at"], row["ended_at"]
        end = row["ended_after"] or (end if end is not None else run.logs_end)
        if start is not None and end is not None and start <= span.end and end >= span.start:
            found.append((f"{row['topic']}-{row['partition']}", start, end, row))
    return found


@dataclass(frozen=True)
class OutageLength:
    """How long a partition was unavailable at a time, and by how much that may be wrong."""

    partition: str
    ms: int
    # more or less, as no line tells the moment at which its leader froze
    off_by: int = 0

    @property
    def is_rough(self) -> bool:
        """Return True if tenths of a second say nothing."""
        return self.off_by >= ROUGH_MS


def longest_outages(run: RunOutput, span: IncidentSpan) -> list[OutageLength]:
    """Return each partition's longest outage of the incident, the longest first."""
    found: dict[str, OutageLength] = {}
    for name, start, end, row in incident_outages(run, span):
        off_by = max((row["started_before"] or start) - start, 0)
        if name not in found or end - start > found[name].ms:
            found[name] = OutageLength(name, end - start, off_by)
    return sorted(found.values(), key=lambda one: (-one.ms, one.partition))


def lengths_text(lengths: Sequence[OutageLength], *, is_bound: bool = False) -> str:
    """Say how long outages were, or were at most; in whole seconds where starts are known roughly.

    >>> lengths_text([OutageLength("a-0", 12_345)]), lengths_text([OutageLength("a-0", 9460, 1500)])
    ('12.3 s', 'about 9 s')
    >>> lengths_text([OutageLength("a-0", 9460, 1500), OutageLength("a-1", 8900)])
    'about 8 s to 11 s'
    """
    if not any(one.is_rough for one in lengths):
        return durations_text(min(one.ms for one in lengths), max(one.ms for one in lengths))
    if is_bound:
        return f"about {duration(round(max(one.ms + one.off_by for one in lengths), -3))}"
    if len({one.ms for one in lengths}) == 1:
        return f"about {duration(round(lengths[0].ms, -3))}"
    low = min(one.ms - one.off_by for one in lengths)
    high = max(one.ms + one.off_by for one in lengths)
    return f"about {durations_text(round(low, -3), round(high, -3))}"


def most_at_once(run: RunOutput, span: IncidentSpan) -> int:
    """Count the partitions of the incident that were unavailable at the same moment, at most."""
    changes = sorted(
        change
        for _, start, end, _ in incident_outages(run, span)
        for change in ((start, 1), (end, -1))
    )
    return max(accumulate(change for _, change in changes), default=0)


@dataclass(frozen=True)
class OpenEnds:
    """Partitions that lost their leader, and of which no line tells the moment it was back."""

    # of which no line tells by when it was back either
    partitions: int
    # of which lines tell that, but not since when; and how much time lies between at most
    bounded: int = 0
    within: int = 0


def outages_without_end(run: RunOutput) -> OpenEnds:
    """Count partitions without a leader whose end no line tells, and bound it where lines do."""
    span = incident_span(run)
    columns = ("topic", "partition", "started_at", "ended_at")
    where = (ds.field("leader") == -1) & (ds.field("ended") == "unknown")
    lost = {
        (row["topic"], row["partition"]): row["ended_at"] or row["started_at"]
        for row in (run.rows("leadership", columns, where) if span else ())
        if span and row["started_at"] is not None and span.start <= row["started_at"] <= span.end
    }
    told: dict[tuple[str, int], int] = {}
    for row in run.rows("outages", (*columns, "ended_after"), ~ds.field("planned")) if lost else ():
        key, start, end = (row["topic"], row["partition"]), row["started_at"], row["ended_at"]
        if key in lost and None not in (start, end) and start <= lost[key] <= end:
            if row["ended_after"] is not None:
                told[key] = row["ended_after"] - end
            elif end > lost[key]:
                # It ended where the next leader could serve at last.
                told[key] = 0
    loose = [long for long in told.values() if long]
    return OpenEnds(len(lost) - len(told), len(loose), max(loose, default=0))


def client_troubles(run: RunOutput, span: IncidentSpan) -> dict[str, int]:
    """Say for how long at a time each client was in trouble during the outages."""
    dark = [(start, end + HEARD_MS) for _, start, end, _ in incident_outages(run, span)]
    dark = list(dict.fromkeys(dark))
    near: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for node, start, end in client_times(run):
        if start <= span.end + HEARD_MS and end >= span.start:
            near[node] = max(near.get(node, 0), end - start)
        if any(start <= till and end >= since for since, till in dark):
            lengths[node] = max(lengths.get(node, 0), end - start)
    # A client of a leader that froze hears of it when that one wakes.
    return lengths or near


def client_times(
    run: RunOutput, span: IncidentSpan | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yield each time in which a client was in trouble by its own log, all or those of a span."""
    where = (ds.field("role") == "client") & ds.field("state").isin(list(HIT_STATES))
    times: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in run.rows("lanes", CLIENT_COLUMNS, where):
        start, end = row["started_at"], row["ended_at"] or run.logs_end
        if row["node"] is not None and start is not None and end is not None:
            times.setdefault((row["node"], row["state"]), []).append((start, end + SAME_TROUBLE_MS))
    for (node, _), troubles in times.items():
        # One that asks for leaders for a moment meanwhile is disconnected all the same.
        for start, reach in merge(troubles):
            end = reach - SAME_TROUBLE_MS
            if span is None or (start <= span.end + HEARD_MS and end >= span.start):
                yield node, start, end


def clients_with_logs(run: RunOutput) -> set[str]:
    """Return the clients whose logs are here.

    A file of which nobody knows who wrote it is a client's where a finding takes it for one.
    """
    named = {row["node"] or row["file"] for row in run.files if row["role"] == "client"}
    return named | {
        name for one in run.findings for name in one.clients if name.startswith("file:")
    }
