"""Which findings are new, recurring, or over, as far as the logs of each week could show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forensics.lib.text_format import quantity
from forensics.run_output.findings import severity_rank
from forensics.weekly.coverage_normalisation import (
    MIN_COVERED_SHARE,
    MIN_DIFFERENCE,
    WindowCoverage,
    expected_count,
    format_count,
)
from forensics.weekly.iso_week import Week
from forensics.weekly.notes import NO_NOTES, Note, Notes
from forensics.weekly.week_summary import FindingGroup, WeekSummary, size_unit

STATES = ("new", "seen", "worse", "recurring", "better", "resolved", "not evaluable")
# The same trouble is never quite the same size: by less than this it is about as large.
_MIN_FACTOR = 1.5
# The signature, and whether it is an incident.
GroupKey = tuple[str, bool]
Groups = Mapping[GroupKey, FindingGroup]


@dataclass(frozen=True)
class TrackedFinding:
    """One group of findings, of this week or of an earlier one, with its past."""

    signature: str
    state: str
    # as it is in this week, or, where it is over, in the week in which it was seen last
    group: FindingGroup
    week: str
    # in how many of the known weeks it was seen, this one included, and in which first
    week_count: int
    first_week: str
    why: str
    note: Note | None = None
    # accepted by its note until the end of the week, or longer
    accepted: bool = False

    @property
    def is_incident(self) -> bool:
        """Return True if the level is medium or above."""
        return self.group["incident"]

    @property
    def is_open(self) -> bool:
        """Return True if it is seen in the week itself."""
        return self.state not in ("resolved", "not evaluable")

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """The worst level first, then by state and signature."""
        return severity_rank(self.group["severity"]), STATES.index(self.state), self.signature


def track_findings(
    week: WeekSummary, earlier: Sequence[WeekSummary], notes: Notes = NO_NOTES
) -> list[TrackedFinding]:
    """Compare the findings of a week with those of the weeks before it; the worst first."""
    notes = notes.resolve_ids((*earlier, week))
    before = sorted((one for one in earlier if one.week < week.week), key=lambda one: one.week)
    past = [(one, merge_groups(one.findings, notes)) for one in before]
    now = merge_groups(week.findings, notes)
    tracked = [_track_present(key, group, week, past, notes) for key, group in now.items()]
    tracked += _track_absent(week, now, past, notes)
    return sorted(tracked, key=lambda each: each.sort_key)


def merge_groups(groups: Iterable[FindingGroup], notes: Notes) -> dict[GroupKey, FindingGroup]:
    """Return groups by their present names; renaming a detector may have made two names one."""
    merged: dict[GroupKey, FindingGroup] = {}
    for group in groups:
        key = notes.current_signature(group["signature"]), group["incident"]
        old = merged.get(key)
        merged[key] = group if old is None else {
            **old,
            "count": old["count"] + group["count"],
            "size": old["size"] + group["size"],
            "findings": [*old["findings"], *group["findings"]],
        }  # fmt: skip
    return merged


def _track_present(
    key: GroupKey, group: FindingGroup, week: WeekSummary,
    past: Sequence[tuple[WeekSummary, Groups]], notes: Notes,
) -> TrackedFinding:  # fmt: skip
    signature, _ = key
    seen = [(one, groups[key]) for one, groups in past if key in groups]
    if not past:
        state, why = "seen", "there is no earlier week to compare with"
    elif not seen:
        state, why = "new", _why_new(group, [one for one, _ in past])
    else:
        last, old = seen[-1]
        if Week.parse(last.week).shift(1) == Week.parse(week.week):
            state, why = compare_sizes((group, week), (old, last), last.week)
        else:
            state, why = "recurring", f"last seen in {last.week}"
    first = seen[0][0].week if seen else week.week
    return TrackedFinding(
        signature, state, group, week.week, len(seen) + 1, first, why,
        notes.entries.get(signature), notes.accepts(signature, week.last_day),
    )  # fmt: skip


def _why_new(group: FindingGroup, earlier: Sequence[WeekSummary]) -> str:
    could = sum(why_not_visible(group, one) is None for one in earlier)
    shown = f"{could} could have shown it" if could else "none of which could have shown it"
    return f"not in the {quantity(len(earlier), 'earlier week')}, {shown}"


def compare_sizes(
    now: tuple[FindingGroup, WeekSummary], then: tuple[FindingGroup, WeekSummary], then_name: str
) -> tuple[str, str]:
    """Return whether the same trouble has become worse or better, and the numbers that say so."""
    (group, week), (old, last) = now, then
    if week.rules != last.rules:
        return "recurring", f"the rules are others than in {then_name}, so sizes do not compare"
    rank, old_rank = (severity_rank(each["severity"]) for each in (group, old))
    if rank != old_rank:
        state = "worse" if rank < old_rank else "better"
        return state, f"{group['severity']}, {old['severity']} in {then_name}"
    size, old_size = group["size"], old["size"]
    usual = expected_count(old_size, _coverage(old, last), _coverage(group, week))
    unit = size_unit(group["detector"])
    text = f"{unit}: {format_count(size)}, in {then_name} {format_count(old_size)}"
    if usual is None:
        return "recurring", f"{text}; too few logs to say more"
    # With fewer logs a week must not look better, nor with more logs worse.
    low, high = usual, usual
    if week.window_ms == last.window_ms:
        low, high = min(usual, old_size), max(usual, old_size)
    if size - usual >= MIN_DIFFERENCE and size > _MIN_FACTOR * high:
        return "worse", text
    if usual - size >= MIN_DIFFERENCE and _MIN_FACTOR * size < low:
        return "better", text
    return "recurring", text


def _coverage(group: FindingGroup, week: WeekSummary) -> WindowCoverage:
    return week.coverage([week.node_of(broker) for broker in group["brokers"]] or None)


def why_not_visible(group: FindingGroup, week: WeekSummary) -> str | None:
    """Return why a window could not have shown such a finding; None if it could."""
    detector = week.detectors.get(group["detector"])
    if detector is None:
        return f"{group['detector']} was not asked"
    if detector["status"] in ("not_evaluable", "failed"):
        return "; ".join(detector["why"]) or f"{group['detector']} could not be asked"
    if not group["brokers"] and any(node["role"] == "client" for node in week.nodes.values()):
        for client in group["clients"]:
            if client not in week.nodes or not week.nodes[client]["covered_ms"]:
                return f"no log of {client}"
    for broker in group["brokers"]:
        coverage = week.broker_coverage(broker)
        if not coverage.reaches(MIN_COVERED_SHARE):
            return f"logs of broker {broker} cover {coverage}"
    whole = week.coverage()
    return None if whole.reaches(MIN_COVERED_SHARE) else f"the logs cover {whole}"


def _track_absent(
    week: WeekSummary, now: Groups, past: Sequence[tuple[WeekSummary, Groups]], notes: Notes
) -> Iterator[TrackedFinding]:
    """Yield the incidents that are gone: resolved if this week would have shown them."""
    absent = {key: None for _, groups in past for key in groups if key[1] and key not in now}
    for key in absent:
        seen = [(at, one, groups[key]) for at, (one, groups) in enumerate(past) if key in groups]
        at, last, group = seen[-1]
        if any(_why_not_over(group, last, one) is None for one, _ in past[at + 1 :]):
            # It was over in an earlier week, whose page says so.
            continue
        why = _why_not_over(group, last, week)
        yield TrackedFinding(
            key[0], "not evaluable" if why else "resolved", group, last.week, len(seen),
            seen[0][1].week, why or f"last seen in {last.week}; it would have been seen",
            notes.entries.get(key[0]),
        )  # fmt: skip


def _why_not_over(group: FindingGroup, last: WeekSummary, week: WeekSummary) -> str | None:
    """Return why a finding that is not there may still not be over; None if it is over."""
    if last.rules != week.rules:
        return f"the rules are others than in {last.week}"
    return why_not_visible(group, week)
