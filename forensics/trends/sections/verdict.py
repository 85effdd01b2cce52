"""Better, same or worse, the numbers behind it, and how much the logs cover."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, anchor, join, tag
from forensics.report.words import LEVELS, clock, count
from forensics.trends.ratios import hours
from forensics.trends.recurrence import Trouble
from forensics.trends.view import View

__all__ = ["COLOURS", "draw_verdict", "sentence", "subject"]

COLOURS = {"worse": "high", "better": "clear", "same": "low", "cannot compare": "cannot-tell"}
SAYS = {
    "worse": "Worse than last week",
    "better": "Better than last week",
    "same": "The same as last week",
    "cannot compare": "Cannot be compared with last week",
}
OWN = {
    "incident": "The week has incidents.",
    "clear": "Nothing of level medium or above began in it, and its logs were good enough to tell.",
    "cannot_tell": "Nothing of level medium or above was found, but the logs are not enough to say "
    "that nothing happened.",
}


def draw_verdict(view: View) -> Markup:
    """Say it in one sentence, with cells below it."""
    judged = view.judgement
    badge = tag("span", judged.word, class_="badge")
    says = tag("p", badge, " ", sentence(view), class_="answer")
    own = tag("p", OWN.get(str(view.week["verdict"]), ""), " ", _worst(view))
    cells = tag("dl", *_cells(view), class_="cells")
    inside = (says, own, _mixed(view), cells)
    return tag("div", *inside, class_=f"verdict level-{COLOURS[judged.word]}")


def _mixed(view: View) -> Markup | None:
    """Warn of counts that come from two sets of rules."""
    older = len(view.week["older_rules"])
    if not older:
        return None
    link = tag("a", "what else changed", href="#changes")
    verb = "was" if older == 1 else "were"
    says = f"{count(older, 'file')} of this week {verb} read by older rules than the rest ("
    return tag("p", says, link, ").", class_="warning")


def sentence(view: View) -> str:
    """Say the verdict: better, same or worse, the coverage, and the reason in numbers."""
    judged = view.judgement
    return f"{SAYS[judged.word]}, coverage {hours(judged.now)}: {judged.why}."


def _worst(view: View) -> Child:
    found = [one for one in view.troubles if one.is_incident and one.is_open and not one.accepted]
    if not found:
        return None
    link = subject(found[0])
    return join(["The worst: ", tag("a", found[0].group["title"], href=f"report.html#{link}"), "."])


def subject(one: Trouble) -> str:
    """Give the place in the postmortem that tells of a trouble's worst finding."""
    return anchor(str(one.group["findings"][0][0]))


def _cells(view: View) -> list[Markup]:
    start, end = view.week["window"]
    levels = view.week["levels"]
    incidents = [f"{levels[level]} {level}" for level in LEVELS[:3] if levels.get(level)]
    accepted = len([one for one in view.troubles if one.accepted and one.is_incident])
    gone = view.some("resolved")
    unknown = view.some("not evaluable")
    known = sum(one is not None for one in view.weeks) - 1
    covered, then = view.judgement.now, view.judgement.then
    before = f"last week {hours(then)}" if then else "last week is not in the store"
    return [
        _cell("Week", clock(start)[:10], f"to {clock(end - 1)[:10]}, UTC"),
        _cell("Coverage of brokers and controllers", hours(covered), before),
        _cell("Incidents begun", ", ".join(incidents) or "none",
              f"{accepted} accepted" if accepted else ""),
        _cell("New", f"{len(view.some('new', 'seen')):,}",
              f"against {count(known, 'earlier week')}" if known else "there is no earlier week"),
        _cell("Recurring", f"{len(view.some('recurring', 'worse', 'better')):,}",
              f"{len(view.some('worse'))} worse, {len(view.some('better'))} better"),
        _cell("Resolved", f"{len(gone):,}", f"{len(unknown)} not evaluable" if unknown else ""),
    ]  # fmt: skip


def _cell(name: str, value: str, note: str) -> Markup:
    small = tag("small", note) if note else None
    return tag("div", tag("dt", name), tag("dd", tag("b", value), " ", small))
