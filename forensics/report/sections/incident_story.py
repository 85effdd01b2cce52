"""What happened, in 8 to 15 rows, beside what could be seen of it at the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.lib.node_ids import client_name
from forensics.lib.text_format import count, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import find_alert
from forensics.report.evidence_html import QuoteContext, render_quote
from forensics.report.html import Child, Markup, anchor, join, scroll_box, tag
from forensics.report.incident_story import GROUPS, StoryRow, build_story
from forensics.run_output.reader import RunOutput

TITLE = "Causes"
HINT = (
    "“Cause” is certain: Kafka always reacts so, it came first, and nothing else could have done "
    "it. “Led to by” is likely: one of these three is open."
)
CAPTION = "What happened, by part of the incident and time"
HEAD = ("What", "Visible as")
MAX_RIVALS = 10


def render(run: RunOutput) -> Markup:
    """Show the rows, grouped from the trigger to the recovery."""
    rows, more = build_story(run)
    if not rows:
        return tag("p", "No incident in this window.")
    context = QuoteContext(run, [proof for row in rows for proof in row.proofs])
    heads = (tag("th", name, scope="col") for name in (f"Time, {current_zone().label}", *HEAD))
    bodies = (_group(run, group, rows, context) for group in GROUPS)
    inside = (tag("caption", CAPTION), tag("thead", tag("tr", *heads)), *bodies)
    story = tag("table", *inside, class_="story", data_copy="What happened")
    left = tag(
        "p",
        f"And {count(more, 'row')} of less weight: among the findings below, and under chains in "
        "findings.json.",
    )
    intro = tag("p", _dates(rows), HINT)
    return join([intro, scroll_box(story, CAPTION), _rivals(run), left if more else None])


def _dates(rows: Sequence[StoryRow]) -> str:
    days = sorted({time_text(row.at)[:10] for row in rows})
    return f"{' to '.join(dict.fromkeys([days[0], days[-1]]))}. "


def _group(
    run: RunOutput, group: str, rows: Sequence[StoryRow], context: QuoteContext
) -> Markup | None:
    members = [row for row in rows if row.group == group]
    if not members:
        return None
    head = tag("tr", tag("th", GROUPS[group], scope="rowgroup", colspan=3, class_="part"))
    return tag("tbody", head, *_rows(run, members, context))


def _rows(run: RunOutput, rows: Sequence[StoryRow], context: QuoteContext) -> Iterator[Markup]:
    seen: set[tuple[str, str]] = set()
    has_days = len({time_text(row.at)[:10] for row in rows}) > 1
    for index, row in enumerate(rows):
        classes = ["unsure-end"] if row.order_doubt else []
        below = rows[index + 1] if index + 1 < len(rows) else None
        classes += ["unsure-start"] if below and below.order_doubt else []
        when = time_text(row.at, exact=True)
        moment = when if has_days else when[11:]
        what = _what(row, is_again=(row.text, row.subject) in seen)
        seen.add((row.text, row.subject))
        yield tag(
            "tr",
            tag("th", moment, scope="row", class_="when-cell"),
            tag("td", what),
            tag("td", _visible(run, row)),
            class_=" ".join(classes) or None,
        )
        if row.proofs:
            # A row of its own: a line that is opened has the whole width.
            quotes = join(render_quote(proof, context) for proof in row.proofs)
            yield tag("tr", tag("td"), tag("td", quotes, colspan=2), class_="proof")


def _what(row: StoryRow, *, is_again: bool) -> Markup:
    text = f"Again: {row.text}" if is_again else row.text
    title = tag("a", text, href=f"#{anchor(row.finding)}") if row.finding else text
    causes = list(row.causes)
    if row.subject and row.subject.lower() not in text.lower():
        causes.insert(0, f"On {row.subject}.")
    doubt = tag("small", row.order_doubt, class_="doubt") if row.order_doubt else None
    return join([title, *(tag("small", cause, class_="why") for cause in causes), doubt])


def _visible(run: RunOutput, row: StoryRow) -> Child:
    """Say what clients logged meanwhile, and which metric would have shown it; or nothing."""
    parts = []
    finding = next((one for one in run.findings if one.id == row.finding), None)
    if row.client_errors:
        names = [f"{error.client} ({error.what})" for error in row.client_errors]
        parts.append(tag("span", f"client error, first of {join_names(names, 4)}"))
    elif finding and finding.clients and row.group != "recovery":
        names = [client_name(one) for one in finding.clients]
        parts.append(tag("span", f"client error of {join_names(names)}"))
    if row.group != "recovery" and (metric := find_alert(row.detector)):
        parts.append(tag("small", f"metric: {metric}"))
    return join(parts, " ")


def _rivals(run: RunOutput) -> Markup | None:
    """List what else may have led to a row, where more than one thing may have."""
    links = [link for chain in run.document.get("chains") or () for link in chain["competing"]]
    if not links:
        return None
    lines = (
        tag("li", f"{link['title']}: also {(link.get('source') or {}).get('title')}. "
            f"{link.get('mechanism') or ''}")
        for link in links[:MAX_RIVALS]
    )  # fmt: skip
    summary = tag("summary", f"What else may have led there: {count(len(links), 'tie')}")
    return tag("details", summary, tag("ul", *lines))
