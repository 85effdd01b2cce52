"""The week hour by hour, what else changed, what the logs cover, and its days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forensics.report.markup import Child, Line, Markup, anchor, figure, join, key, table, tag
from forensics.report.words import LEVELS, clock, count, listed
from forensics.trends.ratios import coverage, hours, span_of
from forensics.trends.sections import heat
from forensics.trends.view import View

__all__ = ["changed", "covered", "days", "hourly"]

DAY = 86_400_000
NODES, CHANGES = 300, 100


def hourly(view: View) -> Markup:
    """Draw when leaders were lost, hour by hour."""
    cells: Sequence[int | None] = view.week["hours"]
    busy = sorted(((many or 0, -at) for at, many in enumerate(cells)), reverse=True)
    dark = sum(many is None for many in cells)
    told = [f"{heat.DAYS[-at // 24]} {-at % 24:02d}:00 ({many:,})" for many, at in busy[:3] if many]
    total = sum(many or 0 for many in cells)
    most = f", most of them {listed(told)}" if told else ""
    says = f"{count(total, 'leadership')} lost{most}; no log tells of {count(dark, 'hour')}."
    by_day = [cells[at : at + 24] for at in range(0, len(cells), 24)]
    rows = [[heat.DAYS[at], *("?" if many is None else f"{many:,}" for many in row)]
            for at, row in enumerate(by_day)]  # fmt: skip
    head = ("Day", *(f"{hour:02d}" for hour in range(24)))
    listing = table(head, rows, caption="Leaderships lost by hour, UTC", numbers=head[1:])
    folded = tag("details", tag("summary", "Hours as a table"), listing)
    return figure("figure-hours", heat.drawing(cells), says, key(heat.key(cells)), folded)


def changed(view: View) -> Markup:
    """List what is different from the week before."""
    if view.before is None and not view.changes:
        return tag("p", "The week before is not in the store, so nothing can be compared with it.")
    if not view.changes:
        return tag("p", "The same rules, versions, brokers and topics as in the week before.")
    rows = [[one.what, one.says] for one in view.changes[:CHANGES]]
    return table(("What", "Change"), rows, caption="Changes since the week before")


def covered(view: View) -> Markup:
    """Show for each node how much of the week its logs cover, day by day."""
    nodes: Mapping[str, Mapping[str, Any]] = view.week["nodes"]
    rows = [_node(view, name, nodes[name]) for name in sorted(nodes, key=_by_role(nodes))[:NODES]]
    if not rows:
        return tag("p", "No log reaches into this week.")
    files = view.week["files"]
    unread = files["unparsed_lines"]
    says = (
        f"{count(files['files'], 'file')} with {count(files['lines'], 'line')} "
        f"{'reaches' if files['files'] == 1 else 'reach'} into the week, "
        f"{count(unread, 'line')} of them not understood; "
        f"{count(files['damaged'], 'file') if files['damaged'] else 'no file'} damaged. "
        "Clients are not expected to log throughout."
    )
    left = len(nodes) - len(rows)
    more = tag("p", f"And {count(left, 'node')} more.") if left > 0 else None
    head = ("Node", "Logs cover", "Monday to Sunday", "Kafka")
    return join([tag("p", says), table(head, rows, caption="Coverage by node"), more])


def _by_role(nodes: Mapping[str, Mapping[str, Any]]) -> Any:
    def order(name: str) -> tuple[int, int, str]:
        role, number = nodes[name]["role"], nodes[name]["broker"]
        place = ("broker", "controller").index(role) if role in ("broker", "controller") else 2
        return place, -1 if number is None else number, name

    return order


def _node(view: View, name: str, told: Mapping[str, Any]) -> list[Child]:
    versions = view.week["versions"].get(name, [])
    whole = span_of(view.week)
    says = hours((told["covered_ms"], whole))
    return [name, says, _strip(told["days"], says), listed(versions) or "-"]


def _strip(by_day: Sequence[int], says: str) -> Markup:
    """Draw a bar for each day, as wide as the share of it that is covered."""
    wide = 100 / max(1, len(by_day))
    pieces = (
        tag("span", style=f"left:{at * wide:.2f}%;width:{max(wide * ms / DAY, 0.6):.2f}%")
        for at, ms in enumerate(by_day) if ms
    )  # fmt: skip
    return tag("span", *pieces, class_="strip", role="img", aria_label=says)


def days(view: View) -> Markup:
    """Link each day of the postmortem, with what began on it."""
    start = int(view.week["window"][0])
    rows = []
    for at, name in enumerate(heat.DAYS):
        begin = start + at * DAY
        found = [row[1] for group in view.week["findings"] for row in group["findings"]
                 if begin <= row[2] < begin + DAY]  # fmt: skip
        loud = [f"{found.count(level)} {level}" for level in LEVELS[:3] if level in found]
        date = clock(begin)[:10]
        address = f"report.html#t/{date}T00:00:00Z..{clock(begin + DAY)[:10]}T00:00:00Z"
        cells = view.week["hours"][24 * at : 24 * at + 24]
        lost = (
            "?" if all(many is None for many in cells) else f"{sum(many or 0 for many in cells):,}"
        )
        rows.append(Line(
            [tag("a", f"{name} {date}", href=address), ", ".join(loud) or "none", len(found), lost,
             hours(_day(view, at))],
            {"class_": f"level-{anchor(found[0])}" if loud else None},
        ))  # fmt: skip
    head = ("Day of the postmortem", "Incidents begun", "All findings", "Leaderships lost",
            "Logs cover")  # fmt: skip
    return table(head, rows, caption="The days of the week", numbers=head[2:4])


def _day(view: View, at: int) -> tuple[int, int]:
    servers = [told for told in view.week["nodes"].values() if told["role"] != "client"]
    whole = coverage(view.week)[1] // 7
    return sum(told["days"][at] for told in servers if at < len(told["days"])), whole
