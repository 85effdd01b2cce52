"""The slow burn: partitions that went through many nights with one replica in sync."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, join, table, tag
from forensics.report.words import count, lasting
from forensics.trends.nights import NIGHT, NIGHTS
from forensics.trends.ratios import coverage, hours
from forensics.trends.view import View

__all__ = ["draw_nights"]

MAX_NIGHT_ROWS = 100
NIGHTS_HEAD = ("Partition", "Nights of this week", "Thin by night", "Nights of all weeks", "Weeks")


def draw_nights(view: View) -> Markup:
    """Draw the partitions of too many nights, those of the most first."""
    told = view.week["nights"]
    often = [row for row in told["partitions"] if row[1] > NIGHTS]
    rule = (
        f"Listed is who was down to one replica in sync for a minute or more in more than {NIGHTS} "
        f"of {told['nights']} nights ({NIGHT[0]}:00 to {NIGHT[1] - 24:02d}:00 UTC)."
    )
    if not often:
        some = len(told["partitions"]) + told["left_out"]
        few = f" {count(some, 'partition')} in fewer nights." if some else ""
        says = f"No partition.{few} The logs cover {hours(coverage(view.week))}."
        return join([tag("p", rule), tag("p", says)])
    known = [{row[0]: row[1] for row in one["nights"]["partitions"]} for one in view.weeks if one]
    rows: list[list[Child]] = [
        [name, nights, lasting(round(minutes * 60_000)),
         sum(one.get(name, 0) for one in known),
         f"{sum(one.get(name, 0) > NIGHTS for one in known)} of {len(known)}"]
        for name, nights, minutes in often[:MAX_NIGHT_ROWS]
    ]  # fmt: skip
    left = told["often"] - len(rows)
    more = tag("p", f"And {count(left, 'partition')} more.") if left > 0 else None
    caption = "Partitions with one replica in sync, night after night"
    return join([tag("p", rule), table(NIGHTS_HEAD, rows, caption=caption, numbers=NIGHTS_HEAD[1:]), more])
