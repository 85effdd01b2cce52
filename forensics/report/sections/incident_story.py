"""What happened, in 8 to 15 rows, beside what could be seen of it at the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.lib.formatting import count, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import find_alert
from forensics.report.evidence_html import QuoteContext, render_quote
from forensics.report.html import Child, Markup, anchor, join, tag
from forensics.report.incident_story import GROUPS, StoryRow, build_story
from forensics.run_output.reader import RunOutput

# Links to the page go to this anchor.
ANCHOR = "happened"
ORDER = 35
TITLE = "What happened"
SAYS = (
    "“Cause” stands where Kafka must react so, the order of times is certain and nothing else "
    "could have done it; “Led to by” where it fits, but something of that is open."
)
CAPTION = "What happened, by part of the incident and time"
HEAD = ("What", "Broker, partition or client", "Visible as", "Evidence")


def render(run: RunOutput) -> Markup:
    """Show the rows, grouped from the trigger to the recovery."""
    rows, more = build_story(run)
    if not rows:
        return tag(
            "p", "Nothing of level medium or higher was found, so there is no story to tell."
        )
    places = QuoteContext(run, [proof for row in rows for proof in row.proofs])
    heads = (tag("th", name, scope="col") for name in (f"Time, {current_zone().label}", *HEAD))
    bodies = (_group(run, group, rows, places) for group in GROUPS)
    inside = (tag("caption", CAPTION), tag("thead", tag("tr", *heads)), *bodies)
    shown = tag("table", *inside, class_="story", data_copy="What happened")
    # A box that scrolls must be reachable by keyboard, hence the tabindex and the name.
    box = tag("div", shown, class_="scroll", tabindex=0, role="region", aria_label=CAPTION)
    left = tag(
        "p",
        f"And {count(more, 'row')} of less weight: among the findings below, and under chains in "
        "findings.json.",
    )
    return join([tag("p", _date(rows), SAYS), box, _rivals(run), left if more else None])


def _date(rows: Sequence[StoryRow]) -> str:
    days = sorted({time_text(row.at)[:10] for row in rows})
    return f"{' to '.join(dict.fromkeys([days[0], days[-1]]))}. "


def _group(
    run: RunOutput, group: str, rows: Sequence[StoryRow], places: QuoteContext
) -> Markup | None:
    mine = [row for row in rows if row.group == group]
    if not mine:
        return None
    head = tag("tr", tag("th", GROUPS[group], scope="rowgroup", colspan=5, class_="part"))
    return tag("tbody", head, *_lines(run, mine, places))


def _lines(run: RunOutput, rows: Sequence[StoryRow], places: QuoteContext) -> Iterator[Markup]:
    told: set[tuple[str, str]] = set()
    long = len({time_text(row.at)[:10] for row in rows}) > 1
    for at, row in enumerate(rows):
        below = at + 1 < len(rows) and bool(rows[at + 1].order_doubt)
        kind = " ".join(
            name
            for name, is_so in (("unsure-end", row.order_doubt), ("unsure-start", below))
            if is_so
        )
        when = time_text(row.at, exact=True)
        moment = join([when if long else when[11:], _doubt(row)])
        cells = (
            _what(row, again=(row.text, row.subject) in told),
            row.subject or "-",
            _seen(run, row),
        )
        chips = join(render_quote(proof, places) for proof in row.proofs) or "none kept"
        told.add((row.text, row.subject))
        yield tag(
            "tr",
            tag("th", moment, scope="row", class_="when-cell"),
            *(tag("td", cell) for cell in (*cells, chips)),
            class_=kind or None,
        )


def _doubt(row: StoryRow) -> Markup | None:
    return tag("small", row.order_doubt, class_="doubt") if row.order_doubt else None


def _what(row: StoryRow, *, again: bool) -> Markup:
    says = f"Again: {row.text}" if again else row.text
    title = tag("a", says, href=f"#{anchor(row.finding)}") if row.finding else says
    return join([title, *(tag("small", why, class_="why") for why in row.causes)])


def _seen(run: RunOutput, row: StoryRow) -> Child:
    """Say what clients logged meanwhile, and which metric would have shown it; or nothing."""
    told = []
    if row.client_errors:
        names = [f"{sign.client} ({sign.what})" for sign in row.client_errors]
        told.append(tag("span", f"client error, first of {join_names(names, 4)}"))
    finding = next((one for one in run.findings if one.id == row.finding), None)
    if not row.client_errors and finding and finding.clients and row.group != "recovery":
        told.append(tag("span", f"client error of {join_names(list(finding.clients))}"))
    metric = find_alert(row.detector) if row.group != "recovery" else ""
    if metric:
        told.append(tag("small", f"metric: {metric}"))
    return join(told, " ") if told else "nothing"


def _rivals(run: RunOutput) -> Markup | None:
    """List what else may have led to a row, where more than one thing may have."""
    every = [link for chain in run.document.get("chains") or () for link in chain["competing"]]
    if not every:
        return None
    lines = (
        tag("li", f"{link['title']}: also {(link.get('source') or {}).get('title')}. "
            f"{link.get('mechanism') or ''}")
        for link in every[:10]
    )  # fmt: skip
    summary = tag("summary", f"What else may have led there: {count(len(every), 'tie')}")
    return tag("details", summary, tag("ul", *lines))
