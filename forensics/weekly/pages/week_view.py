"""One week beside those before it: all that its page and its row of the index are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.weekly.coverage_normalisation import WeekSummary
from forensics.weekly.iso_week import Week
from forensics.weekly.notes import Notes
from forensics.weekly.recurrence import RecurringFinding, find_recurrences
from forensics.weekly.week_verdict import Change, WeekVerdict, compare_weeks, find_changes

# A quarter of a year, this week included.
WEEKS = 12


@dataclass(frozen=True)
class WeekView:
    """A week, the weeks before it, and what comparing them says."""

    week: WeekSummary
    # the names of all weeks from the first one known, and their summaries where they are known
    names: Sequence[str]
    weeks: Sequence[WeekSummary | None]
    troubles: Sequence[RecurringFinding]
    judgement: WeekVerdict
    changes: Sequence[Change]
    notes: Notes

    @property
    def name(self) -> str:
        """The week's own name."""
        return str(self.week["week"])

    @property
    def before(self) -> WeekSummary | None:
        """The week right before it, if it is in the store."""
        return self.weeks[-2] if len(self.weeks) > 1 else None

    def holds(self, name: str) -> bool:
        """Whether a week is in the store, and so has pages."""
        return any(one is not None and one["week"] == name for one in self.weeks)

    def some(self, *states: str, accepted: bool = False) -> list[RecurringFinding]:
        """Give the incidents in some state that are accepted, or are not."""
        return [
            one
            for one in self.troubles
            if one.is_incident and one.state in states and one.accepted == accepted
        ]


def build_view(
    week: WeekSummary, earlier: Sequence[WeekSummary], notes: Notes | None = None
) -> WeekView:
    """Put a week beside the weeks before it, as many as a page shows."""
    this = Week.parse(str(week["week"]))
    known = {Week.parse(str(one["week"])).number: one for one in earlier}
    first = min((at for at in known if this.number - WEEKS < at < this.number), default=this.number)
    numbers = range(first, this.number)
    shown = [known[at] for at in numbers if at in known]
    notes = (notes or Notes()).resolve_ids((*shown, week))
    then = known.get(this.number - 1)
    return WeekView(
        week,
        [str(Week(at)) for at in (*numbers, this.number)],
        [*(known.get(at) for at in numbers), week],
        find_recurrences(week, shown, notes),
        compare_weeks(week, then, notes),
        find_changes(week, then),
        notes,
    )
