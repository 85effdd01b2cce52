"""One week beside those before it: all that its page and its row of the index are drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.lib.text_format import count, percent
from forensics.run_output.findings import WORST_FIRST
from forensics.weekly.coverage_normalisation import MIN_COVERED_SHARE
from forensics.weekly.iso_week import Week
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.recurrence import TrackedFinding, track_findings
from forensics.weekly.week_summary import WeekSummary
from forensics.weekly.week_verdict import Change, WeekVerdict, compare_weeks, find_changes

# A quarter of a year, this week included.
MAX_WEEKS = 12
# States of findings that are there in the week itself.
PRESENT_STATES = ("new", "seen", "worse", "recurring", "better")
# The level in whose colour a verdict is shown.
VERDICT_LEVELS = {
    "worse": "high",
    "better": "clear",
    "same": "low",
    "cannot compare": "cannot-tell",
}


@dataclass(frozen=True)
class WeekView:
    """A week, the weeks before it, and what comparing them says."""

    week: WeekSummary
    # the names of all weeks from the first known one on, and their summaries where known
    names: Sequence[str]
    weeks: Sequence[WeekSummary | None]
    findings: Sequence[TrackedFinding]
    verdict: WeekVerdict
    changes: Sequence[Change]

    @property
    def name(self) -> str:
        """The name of the week."""
        return self.week.week

    @property
    def before(self) -> WeekSummary | None:
        """The week right before it, if it is in the store."""
        return self.weeks[-2] if len(self.weeks) > 1 else None

    @property
    def known_weeks(self) -> list[WeekSummary]:
        """The weeks that are in the store, this one included."""
        return [week for week in self.weeks if week is not None]

    @property
    def accepted_incidents(self) -> int:
        """How many incidents are accepted."""
        return sum(finding.accepted and finding.is_incident for finding in self.findings)

    def incidents(self, *states: str) -> list[TrackedFinding]:
        """Return the incidents in some state that are not accepted."""
        open_incidents = (each for each in self.findings if each.is_incident and not each.accepted)
        return [finding for finding in open_incidents if finding.state in states]


def week_level(view: WeekView) -> tuple[str, str]:
    """Return the word for what a week was by itself, and the level in whose colour it is shown."""
    open_ones = view.incidents(*PRESENT_STATES)
    if open_ones:
        worst = str(open_ones[0].group["severity"])
        return worst, worst
    if view.week.verdict == "cannot_tell":
        return "cannot tell", "cannot-tell"
    return "clear", "clear"


def week_headline(view: WeekView) -> str:
    """Say the worst of a week: what is new goes first."""
    new = view.incidents("new")
    if new:
        return f"New: {new[0].group['title']}{_and_more(len(new) - 1, 'new finding')}"
    present = view.incidents(*PRESENT_STATES)
    if present:
        begin = "" if present[0].state == "seen" else "Nothing new. Still there: "
        return f"{begin}{present[0].group['title']}{_and_more(len(present) - 1, 'finding')}"
    coverage = f"the logs cover {percent_text(view)}"
    if view.week.verdict == "cannot_tell":
        return f"Cannot tell: no incident found, but {coverage} of the week"
    accepted = view.accepted_incidents
    but = f" but {count(accepted, 'accepted one')}" if accepted else ""
    return f"No incident{but}; {coverage} of the week"


def _and_more(number: int, noun: str) -> str:
    return f"; {count(number, f'more {noun}')}" if number > 0 else ""


def percent_text(view: WeekView) -> str:
    """Say which share of a week the logs of brokers and controllers cover."""
    return percent(view.verdict.now.covered_ms, view.verdict.now.expected_ms or 1)


def compared_text(word: str) -> str:
    """Say how a week compares with the one before.

    >>> compared_text("worse"), compared_text("same"), compared_text("cannot compare")
    ('worse than last week', 'same as last week', 'cannot be compared with last week')
    """
    if word == "cannot compare":
        return "cannot be compared with last week"
    return f"{word} {'as' if word == 'same' else 'than'} last week"


def short_why(view: WeekView) -> str:
    """Say in some six words why a week is better, the same or worse than the one before."""
    verdict = view.verdict
    if verdict.then is None:
        return "no logs of last week"
    if verdict.word == "same":
        return "as many findings as last week"
    if verdict.word != "cannot compare":
        parts = [part for part in re.split(r"; |, ", verdict.why) if " against " in part]
        now, _, then = parts[0].partition(" against ") if parts else (verdict.why, "", "")
        return f"{now}, last week {then.partition(' in ')[0]}" if then else now
    if view.before is not None and view.week.rules != view.before.rules:
        return "last week was read by other rules"
    if not verdict.now.reaches(MIN_COVERED_SHARE):
        return f"logs cover too little: {percent_text(view)}"
    then = percent(verdict.then.covered_ms, verdict.then.expected_ms)
    return f"last week's logs cover too little: {then}"


def list_incident_levels(levels: dict[str, int]) -> str:
    """Write how many findings there are of each incident level.

    >>> list_incident_levels({"high": 2, "info": 7, "critical": 1})
    '1 critical, 2 high'
    """
    return ", ".join(f"{levels[level]} {level}" for level in WORST_FIRST[:3] if levels.get(level))


def build_view(
    week: WeekSummary, earlier: Iterable[WeekSummary], notes: Notes = NO_NOTES
) -> WeekView:
    """Compare a week with the weeks before it, as many as a page shows."""
    this = Week.parse(week.week).number
    known = {Week.parse(one.week).number: one for one in earlier}
    first = min((number for number in known if this - MAX_WEEKS < number < this), default=this)
    numbers = range(first, this)
    past = [known[number] for number in numbers if number in known]
    notes = notes.resolve_ids((*past, week))
    before = known.get(this - 1)
    return WeekView(
        week,
        [str(Week(number)) for number in (*numbers, this)],
        [*map(known.get, numbers), week],
        track_findings(week, past, notes),
        compare_weeks(week, before, notes),
        find_changes(week, before),
    )
