"""Which findings are new, which come again, and which are over, as far as the logs can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from forensics.lib.formatting import quantity
from forensics.run_output.findings import severity_rank
from forensics.weekly.coverage_normalisation import (
    MIN_COVERED_SHARE,
    MIN_DIFFERENCE,
    Coverage,
    WeekSummary,
    coverage,
    format_coverage,
    node_of,
    same_rules,
    scale_count,
    span_of,
)
from forensics.weekly.iso_week import Week
from forensics.weekly.notes import Note, Notes

STATES = ("new", "seen", "worse", "recurring", "better", "resolved", "not evaluable")
# By less than this nobody would notice: the same trouble is never quite the same size.
FACTOR = 1.5
Key = tuple[str, bool]
Group = Mapping[str, Any]


@dataclass(frozen=True)
class RecurringFinding:
    """One thing that is wrong, or was, with what the weeks before say of it."""

    signature: str
    state: str
    # what was found of it in the week, or, where it is gone, when it was last seen
    group: Group
    week: str
    # in how many of the weeks that are known, this one included, and the first of them
    weeks: int
    first: str
    why: str
    note: Note | None = None
    # somebody knows of it, and that still holds at the end of the week
    accepted: bool = False

    @property
    def is_incident(self) -> bool:
        """Whether it is of level medium or above."""
        return bool(self.group["incident"])

    @property
    def is_open(self) -> bool:
        """Whether the week itself has it."""
        return self.state not in ("resolved", "not evaluable")


def find_recurrences(
    week: WeekSummary, earlier: Sequence[WeekSummary], notes: Notes | None = None
) -> list[RecurringFinding]:
    """Compare a week with those before it; the worst first."""
    notes = (notes or Notes()).resolve_ids((*earlier, week))
    before = sorted((one for one in earlier if one["week"] < week["week"]),
                    key=lambda one: str(one["week"]))  # fmt: skip
    known = [(one, groups_by_signature(one, notes)) for one in before]
    now = groups_by_signature(week, notes)
    found = [_present(key, group, week, known, notes) for key, group in now.items()]
    found += _gone(week, now, known, notes)
    return sorted(found, key=_rank)


def _rank(one: RecurringFinding) -> tuple[int, int, str]:
    return severity_rank(one.group["severity"]), STATES.index(one.state), one.signature


def groups_by_signature(one: WeekSummary, notes: Notes) -> dict[Key, Group]:
    """Give what was found, by its name of today; two names may have become one."""
    found: dict[Key, Group] = {}
    for group in one["findings"]:
        key = notes.current_signature(group["signature"]), bool(group["incident"])
        old = found.get(key)
        found[key] = group if old is None else _joined(old, group)
    return found


def _joined(one: Group, other: Group) -> Group:
    return dict(one) | {
        "count": one["count"] + other["count"],
        "size": one["size"] + other["size"],
        "findings": [*one["findings"], *other["findings"]],
    }


def last_day(one: WeekSummary) -> date:
    """Give the last day of a window: by then what was accepted until a day is judged."""
    start, end = one["window"]
    del start
    return date(1970, 1, 1) + timedelta(milliseconds=int(end) - 1)


def _present(
    key: Key,
    group: Group,
    week: WeekSummary,
    known: Sequence[tuple[WeekSummary, Mapping[Key, Group]]],
    notes: Notes,
) -> RecurringFinding:
    seen = [(one, groups[key]) for one, groups in known if key in groups]
    state, why = _state(group, week, seen, [one for one, _ in known])
    first = str(seen[0][0]["week"]) if seen else str(week["week"])
    return RecurringFinding(key[0], state, group, str(week["week"]), len(seen) + 1, first, why,
                   notes.find(key[0]), notes.accepts(key[0], last_day(week)))  # fmt: skip


def _state(
    group: Group,
    week: WeekSummary,
    seen: Sequence[tuple[WeekSummary, Group]],
    known: Sequence[WeekSummary],
) -> tuple[str, str]:
    if not known:
        return "seen", "there is no earlier week to compare with"
    if not seen:
        could = sum(why_not_visible(group, one) is None for one in known)
        many = quantity(len(known), "earlier week")
        none = "none of which could have shown it" if not could else f"{could} could have shown it"
        return "new", f"not in the {many}, {none}"
    last, old = seen[-1]
    if Week.parse(str(last["week"])).shift(1) != Week.parse(str(week["week"])):
        return "recurring", f"last seen in {last['week']}"
    return compare_sizes((group, week), (old, last))


def compare_sizes(
    now: tuple[Group, WeekSummary], then: tuple[Group, WeekSummary], other: str = ""
) -> tuple[str, str]:
    """Say whether the same trouble has become worse or better, and by which numbers."""
    (group, week), (old, last) = now, then
    where = other or str(last["week"])
    if not same_rules((week, last)):
        return "recurring", f"the rules are others than in {where}, so sizes do not compare"
    rank, rank_then = (severity_rank(one["severity"]) for one in (group, old))
    if rank != rank_then:
        word = "worse" if rank < rank_then else "better"
        return word, f"{group['severity']}, {old['severity']} in {where}"
    size, size_then = float(group["size"]), float(old["size"])
    usual = scale_count(size_then, (_covered(old, last), span_of(last)),
                     (_covered(group, week), span_of(week)))  # fmt: skip
    says = f"{_figure(size)} against {_figure(size_then)} in {where}"
    if usual is None:
        return "recurring", f"{says}; too little is covered to compare"
    # A week that is covered worse must not look better, nor one covered better look worse.
    alike = span_of(week) == span_of(last)
    if size - usual >= MIN_DIFFERENCE and size > FACTOR * max(usual, size_then if alike else 0):
        return "worse", says
    if usual - size >= MIN_DIFFERENCE and FACTOR * size < (
        min(usual, size_then) if alike else usual
    ):
        return "better", says
    return "recurring", says


def _figure(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _covered(group: Group, one: WeekSummary) -> Coverage:
    names = [node_of(one, broker) for broker in group["brokers"]]
    return coverage(one, names or None)


def why_not_visible(group: Group, one: WeekSummary) -> str | None:
    """Say why a window could not have shown such a trouble; None: it could."""
    told = one["detectors"].get(group["detector"])
    if told is None:
        return f"{group['detector']} was not asked"
    if told["status"] in ("not_evaluable", "failed"):
        return "; ".join(told["why"]) or f"{group['detector']} could not be asked"
    clients = [name for name in group["clients"] if not group["brokers"]]
    hidden = [name for name in clients if not one["nodes"].get(name, {}).get("covered_ms")]
    by_logs = {name for name, node in one["nodes"].items() if node["role"] == "client"}
    if hidden and by_logs:
        return f"no log of {hidden[0]}"
    for broker in group["brokers"]:
        name = node_of(one, broker)
        covered = one["nodes"].get(name, {}).get("covered_ms", 0)
        if covered < MIN_COVERED_SHARE * span_of(one):
            return f"logs of broker {broker} cover {format_coverage((covered, span_of(one)))}"
    whole = coverage(one)
    if not whole[1] or whole[0] < MIN_COVERED_SHARE * whole[1]:
        return f"the logs cover {format_coverage(whole)}"
    return None


def _gone(
    week: WeekSummary,
    now: Mapping[Key, Group],
    known: Sequence[tuple[WeekSummary, Mapping[Key, Group]]],
    notes: Notes,
) -> Iterator[RecurringFinding]:
    """Give what was there and is not: over, where somebody would have seen it, or nobody knows."""
    every = dict.fromkeys(key for _, groups in known for key in groups if key[1] and key not in now)
    for key in every:
        seen = [(at, one, groups[key]) for at, (one, groups) in enumerate(known) if key in groups]
        at, last, group = seen[-1]
        if any(_over(group, last, one) is None for one, _ in known[at + 1 :]):
            # It was over before, and was told of then.
            continue
        why = _over(group, last, week)
        state = "not evaluable" if why else "resolved"
        says = why or f"last seen in {last['week']}; it would have been seen"
        yield RecurringFinding(key[0], state, group, str(last["week"]), len(seen),
                      str(seen[0][1]["week"]), says, notes.find(key[0]))  # fmt: skip


def _over(group: Group, last: WeekSummary, one: WeekSummary) -> str | None:
    """Say why a trouble that is not there may still not be over; None: it is."""
    if not same_rules((last, one)):
        return f"the rules are others than in {last['week']}"
    return why_not_visible(group, one)
