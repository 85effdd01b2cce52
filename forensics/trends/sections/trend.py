"""Twelve weeks of every signal and broker, as small multiples and as a table."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, figure, table, tag
from forensics.report.words import count, listed
from forensics.trends.ratios import LEAST
from forensics.trends.sections import multiples
from forensics.trends.sections.multiples import ALL, Point, points
from forensics.trends.signals import BROKER, CLUSTER, Signal
from forensics.trends.verdicts import lowered, total
from forensics.trends.view import View

__all__ = ["draw"]

ROWS = 60


def draw(view: View) -> Markup:
    """Draw the grid, with what it says in words and its numbers below it."""
    drawing = multiples.drawing(view.names, view.weeks)
    folded = tag("details", tag("summary", "Signals as a table"), _table(view))
    return figure("figure-trend", drawing, _says(view), folded, _cluster(view))


def _says(view: View) -> str:
    known = sum(one is not None for one in view.weeks)
    brokers = multiples.chosen(view.weeks)
    every = {broker for one in view.weeks if one for broker in one["brokers"]}
    left = len(every) - len(brokers)
    more = f"; {count(left, 'broker')} with less to tell in the table" if left else ""
    told = ((lowered(signal.title), _rise(view, signal)) for signal in BROKER)
    worst = [f"{title} {words}" for title, words in told if words]
    rises = f" Far above the weeks before: {listed(worst, len(BROKER))}." if worst else ""
    over = f"{view.names[0]} to {view.names[-1]}"
    return (
        f"{count(known, 'week')} of {over}, {count(len(brokers), 'broker')}{more}.{rises} "
        "A point is the count for a whole week, scaled up where logs are missing; the grey bar "
        "beneath it is the share of that week that the broker's logs cover. With less than "
        f"{LEAST:.0%} there is no point; a triangle marks that something was seen nevertheless. "
        "At a dotted line the rules changed: the counts beside it are not of the same kind."
    )


def _rise(view: View, signal: Signal) -> str | None:
    """Say how far the week is above the middle of the weeks before it."""
    row = points(view.names, view.weeks, signal.key, None)
    before = sorted(one.value for one in row[:-1] if one.value is not None)
    now = row[-1].value
    if now is None or len(before) < 2:
        return None
    middle = before[len(before) // 2]
    if now < 1 or now < 2 * middle:
        return None
    return f"{multiples.format_count(now)} against {multiples.format_count(middle)}"


def _table(view: View) -> Markup:
    every = multiples.chosen(view.weeks, ROWS)
    rows: list[list[Child]] = []
    for broker in (None, *every):
        name = ALL if broker is None else f"broker {broker}"
        rows.extend(
            [name, signal.title, *(_cell(one) for one in points(view.names, view.weeks, signal.key,
                                                                broker))]
            for signal in BROKER
        )  # fmt: skip
    head = ("Broker", "Signal", *view.names)
    caption = "Counted, not scaled up; in brackets the share of the week that logs cover"
    return table(head, rows, caption=caption, numbers=view.names)


def _cell(one: Point) -> str:
    if one.covered is None:
        return "-"
    # What is not covered and shows nothing is not nothing.
    told = "?" if one.value is None and not one.count else multiples.format_count(one.count)
    part, whole = one.covered
    return f"{told} ({100 * part // whole if whole else 0} %)"


def _cluster(view: View) -> Markup:
    rows: list[list[Child]] = [
        [signal.title, *(_total(one, signal) for one in view.weeks)] for signal in CLUSTER
    ]
    head = ("Signal", *view.names)
    return table(head, rows, caption="Of the whole cluster, counted", numbers=view.names)


def _total(one: object, signal: Signal) -> str:
    return "-" if one is None else multiples.format_count(total(one, signal.key))  # type: ignore[arg-type]
