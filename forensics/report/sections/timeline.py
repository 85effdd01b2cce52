"""Everything on one time axis: findings, controller, brokers, debt, client errors."""

from __future__ import annotations

from forensics.report import figures, marks, tracks
from forensics.report.markup import Markup, figure, join, table, tag
from forensics.report.saved import Saved
from forensics.report.words import clock, count, lasting, listed
from forensics.report.zones import current

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 30
TITLE = "Timeline"
AWAY = frozenset({
    "crashed", "fenced", "paused", "stopped", "stopping", "starting", "recovering",
})  # fmt: skip
TROUBLED = frozenset({"stale", "disconnected"})
DEBT = {"no leader": "without a leader"}
LANES, CLIENTS, ROWS = 40, 12, 100


def render(saved: Saved) -> Markup:
    """Draw the master timeline and list its broker states as a table."""
    view = tracks.view(saved)
    if not view:
        return tag("p", "No log line with a time was read, so there is no timeline.")
    bin_ms, errors = tracks.client_errors(saved)
    brokers = tracks.lanes(saved, "broker")
    drawn = marks.Tracks(
        view=view,
        findings=saved.findings[:200],
        controller=tracks.lanes(saved, "controller"),
        brokers=_worst(brokers, AWAY, LANES),
        debt=tracks.debt(saved),
        errors=errors,
        bin_ms=bin_ms,
        clients=_worst(tracks.lanes(saved, "client"), TROUBLED, CLIENTS),
    )
    drawing = figures.timeline(drawn)
    if not drawing["data"]:
        return join([tag("p", _says(drawn)), _states(brokers)])
    return figure("figure-timeline", drawing, _says(drawn), _states(brokers))


def _worst(lanes: list[tracks.Lane], bad: frozenset[str], most: int) -> list[tracks.Lane]:
    """Keep as many lanes as one can read, those that were longest in a bad state first."""
    away: dict[str, int] = {lane.name: 0 for lane in lanes}
    for lane in lanes:
        away[lane.name] += (lane.end - lane.start) * (lane.state in bad)
    ranked = sorted(away, key=lambda name: -away[name])[:most]
    return [lane for lane in lanes if lane.name in set(ranked)]


def _says(drawn: marks.Tracks) -> str:
    # The lanes come in the order of their numbers; a set would not keep it.
    away = list(dict.fromkeys(lane.name for lane in drawn.brokers if lane.state in AWAY))
    peaks = [
        f"{count(max(level for _, level in points), 'partition')} {DEBT.get(name, name)}"
        for name, points in sorted(drawn.debt.items())
        if points
    ]
    errors = sum(sum(bins.values()) for bins in drawn.errors.values())
    parts = [
        f"{count(len(drawn.findings), 'finding')}",
        f"{listed(away, 6)} away or restarting at some time" if away else "no broker seen away",
        f"at worst {' and '.join(peaks)} at once" if peaks else "",
        f"{count(errors, 'client error')}",
    ]
    shown = f"Shown: {clock(drawn.view[0])} to {clock(drawn.view[1])} {current().label}"
    return f"{'; '.join(part for part in parts if part)}. {shown}. Hatched: not known."


def _states(brokers: list[tracks.Lane]) -> Markup | None:
    if not brokers:
        return tag("p", "No broker's life could be read from the logs.")
    rows = [
        [lane.name, lane.state, clock(lane.start), clock(lane.end), lasting(lane.end - lane.start)]
        for lane in brokers
        if lane.state != "up"
    ]
    caption = "Broker states other than up"
    if len(rows) > ROWS:
        caption += f", the first {ROWS} of {len(rows):,}"
    label = current().label
    head = ["Broker", "State", f"From, {label}", f"To, {label}", "For"]
    shown = table(head, rows[:ROWS], caption=caption)
    return tag("details", tag("summary", "Broker states as a table"), shown) if rows else None
