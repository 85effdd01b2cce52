"""One week beside those before it: all that its page and its row of the index are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.run_output.findings import WORST_FIRST
from forensics.weekly.iso_week import Week
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.recurrence import TrackedFinding, track_findings
from forensics.weekly.week_summary import WeekSummary
from forensics.weekly.week_verdict import Change, WeekVerdict, compare_weeks, find_changes

# A quarter of a year, this week included.
MAX_WEEKS = 12
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
