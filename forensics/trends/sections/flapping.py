"""Brokers that left and came back, this week and in the weeks before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forensics.report.markup import Child, Markup, join, table, tag
from forensics.report.words import count, lasting
from forensics.trends.ratios import Summary, coverage, hours, node_of
from forensics.trends.view import View

__all__ = ["draw_flapping"]

MAX_FLAPPING_ROWS = 100
MINUTE = 60_000
FLAPPING_HEAD = ("Broker", "Left unplanned", "Last week", "Weeks with it", "Away in all", "Longest",
        "Median", "Planned", "Logs cover")  # fmt: skip


def draw_flapping(view: View) -> Markup:
    """Draw a row for each broker that was away, the most unplanned absences first."""
    away: Mapping[str, Mapping[str, Any]] = view.week["away"]
    found = {int(name): told for name, told in away.items() if told["unplanned"] or told["planned"]
             or told["minutes"]}  # fmt: skip
    order = sorted(found, key=lambda one: (-found[one]["unplanned"], -found[one]["minutes"], one))
    if not order:
        return tag("p", _nobody(view))
    rows = [_flapping_row(view, broker, found[broker]) for broker in order[:MAX_FLAPPING_ROWS]]
    loose = [broker for broker in order if found[broker]["unplanned"]]
    says = f"{count(len(loose), 'broker')} left unplanned" if loose else "No broker left unplanned"
    left = len(order) - MAX_FLAPPING_ROWS
    more = tag("p", f"And {count(left, 'broker')} more.") if left > 0 else None
    listing = table(FLAPPING_HEAD, rows, caption="Brokers that were away", numbers=FLAPPING_HEAD[1:8])
    return join([tag("p", f"{says}."), listing, more])


def _nobody(view: View) -> str:
    covered = coverage(view.week)
    return f"No log tells of a broker that was away; the logs cover {hours(covered)}."


def _flapping_row(view: View, broker: int, told: Mapping[str, Any]) -> list[Child]:
    known = [one for one in view.weeks if one is not None]
    with_it = sum(bool(one["away"].get(str(broker), {}).get("unplanned")) for one in known)
    lengths = [_length(told[name]) for name in ("minutes", "longest", "median")]
    return [
        f"broker {broker}", told["unplanned"], _then(view.before, broker),
        f"{with_it} of {len(known)}", *lengths, told["planned"],
        hours(coverage(view.week, [node_of(view.week, broker)])),
    ]  # fmt: skip


def _then(before: Summary | None, broker: int) -> str:
    if before is None:
        return "-"
    told = before["away"].get(str(broker))
    return "?" if told is None else f"{told['unplanned']:,}"


def _length(minutes: float | None) -> str:
    return "-" if not minutes else lasting(round(minutes * MINUTE))
