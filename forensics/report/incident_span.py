"""From when to when the incident lasted: one interval for the whole page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.lib.text_format import count, duration, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.finding_text import describe_scope, drop_standing, is_open, short_title
from forensics.run_output.reader import RunOutput, SavedFinding

# Findings further apart than this belong to different incidents.
SAME_INCIDENT_MS = 30 * 60_000
WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
DAY_MS = 86_400_000
# What lasts to the end of the logs.
STILL = {
    "broker-restart": "{} is not back", "flapping-broker": "{} is not back",
    "failing-fetcher": "{} is not copied to all its replicas",
}  # fmt: skip


@dataclass(frozen=True)
class IncidentSpan:
    """First impact to last recovery, of the incident that the headline is about."""

    start: int
    end: int
    is_over: bool
    # the findings in it, and how many other incidents these logs hold
    findings: tuple[SavedFinding, ...]
    others: tuple[tuple[int, int], ...] = ()


def incident_span(run: RunOutput) -> IncidentSpan | None:
    """Return the interval of the incident; None where there is none, or nothing has a time."""
    if not run.incidents:
        return None
    groups = _group(run, [one for one in drop_standing(run.incidents) if one.start_ms is not None])
    if not groups:
        return None
    worst = run.incidents[0]
    main = next((group for group in groups if worst in group), groups[0])
    start, end = _ends(run, main)
    others = tuple(_ends(run, group) for group in groups if group is not main)
    is_over = not any(is_open(run, one) for one in main)
    return IncidentSpan(start, end, is_over, tuple(main), others)


def _group(run: RunOutput, findings: Sequence[SavedFinding]) -> list[list[SavedFinding]]:
    groups: list[list[SavedFinding]] = []
    reached = 0
    for one in sorted(findings, key=lambda one: (one.start_ms or 0, one.id)):
        start, end = _ends(run, [one])
        if groups and start <= reached + SAME_INCIDENT_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
        reached = max(reached, end)
    return groups


def _ends(run: RunOutput, findings: Sequence[SavedFinding]) -> tuple[int, int]:
    starts = [one.start_ms for one in findings if one.start_ms is not None]
    ends = [one.end_ms for one in findings if one.end_ms is not None]
    if run.logs_end is not None and any(one.end_ms is None for one in findings):
        ends.append(run.logs_end)
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
    begin = f"{describe_day(span.start)}, {clock_text(span.start, span.start)}"
    end = clock_text(span.end, span.start)
    long = duration(span.end - span.start)
    if not span.is_over:
        still = _still(run, span)
        return f"{begin} {zone}; not over when the logs end at {end} ({long} later){still}"
    state = "over"
    if run.window and run.is_windowed and span.end > run.window[1]:
        state = "goes on after this window"
    if end == clock_text(span.start, span.start):
        return f"{begin} {zone}, {state}"
    return f"{begin} \u2013 {end} {zone} ({long}), {state}"


def _still(run: RunOutput, span: IncidentSpan) -> str:
    """Say what is still so when the logs end."""
    lasting = next((one for one in span.findings if is_open(run, one)), None)
    if lasting is None:
        return ""
    scope = describe_scope(lasting)
    what = STILL.get(lasting.detector, f"{short_title(lasting).lower()} on {{}}").format(scope)
    return f": {what}"


def describe_others(span: IncidentSpan) -> str:
    """Name the other incidents of these logs; empty where there are none."""
    if not span.others:
        return ""
    starts = ", ".join(clock_text(start, span.start) for start, _ in span.others[:3])
    more = " and later" if len(span.others) > 3 else ""
    return f"{count(len(span.others), 'more incident')} in these logs, at {starts}{more}"
