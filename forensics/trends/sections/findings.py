"""What is new, what comes again and how often, what is over, and what nobody can say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from forensics.report.markup import Child, Line, Markup, anchor, code, command, join, table, tag
from forensics.report.words import count
from forensics.trends.notes import Note
from forensics.trends.recurrence import Trouble, last_day
from forensics.trends.sections.verdict import subject
from forensics.trends.view import View

__all__ = ["draw_findings"]

MAX_FINDING_ROWS, QUIET = 200, 300
FINDINGS_HEAD = ("Level", "What", "Findings", "Weeks", "Compared", "Notes")
PARTS = (
    ("new", ("new",), "New", "not seen in the weeks before"),
    ("seen", ("seen",), "Of this week", "no earlier week to compare with"),
    ("worse", ("worse",), "Worse", "seen last week too, and larger now"),
    ("recurring", ("recurring",), "Recurring", "seen before, and about as large"),
    ("better", ("better",), "Better", "seen last week too, and smaller now"),
    ("resolved", ("resolved",), "Resolved", "seen before, and not now, where it would have been"),
    ("unknown", ("not evaluable",), "Not evaluable", "seen before; nobody can say if it is over"),
)  # fmt: skip


def draw_findings(view: View) -> Markup:
    """Draw a table for each state, and what is of level low or info folded away."""
    parts = [_part(view, *part) for part in PARTS]
    shown = [*(part for part in parts if part), _accepted(view), _quiet(view)]
    if not any(part for part in parts):
        nothing = "Nothing of level medium or above, in this week or still open before it."
        shown = [tag("p", nothing), *shown]
    left = int(view.week["findings_left_out"])
    more = tag("p", f"And {count(left, 'more kind')} of findings, in the postmortem alone.")
    return join([*shown, more if left else None, _how(view)], "\n")


def _how(view: View) -> Markup | None:
    """Show what to write into notes.yaml, for the worst finding that nobody has spoken of."""
    loose = [one for one in view.troubles if one.is_open and one.note is None]
    if not loose:
        return None
    later = last_day(view.week) + timedelta(days=28)
    # What JSON writes between quotes YAML reads as it was.
    lines = (
        f"{json.dumps(loose[0].signature)}:",
        "  owner: NAME",
        "  ticket: https://TICKETS/NUMBER",
        f"  accepted_until: {later.isoformat()}",
        "  comment: WHY",
    )
    says = (
        "Write this into notes.yaml in the store, with a signature or an id from above; only what "
        "has accepted_until is left out of the verdict, and comes back when that day is over."
    )
    summary = tag("summary", "Say who looks after a finding, or accept it for a while")
    return tag("details", summary, tag("p", says), command(lines))


def _part(view: View, id_: str, states: Sequence[str], title: str, says: str) -> Markup | None:
    found = view.some(*states)
    if not found:
        return None
    heading = tag("h3", f"{title} ({len(found):,})", id=f"findings-{id_}")
    return join([heading, _table(view, found[:MAX_FINDING_ROWS], f"{title}: {says}"), _more(len(found), MAX_FINDING_ROWS)])


def _more(found: int, most: int) -> Markup | None:
    return tag("p", f"And {found - most:,} more.") if found > most else None


def _accepted(view: View) -> Markup | None:
    found = [one for one in view.troubles if one.accepted and one.is_open]
    if not found:
        return None
    heading = tag("h3", f"Accepted ({len(found):,})", id="findings-accepted")
    says = "Accepted by notes.yaml at the end of this week, and left out of the verdict"
    return join([heading, _table(view, found[:MAX_FINDING_ROWS], says), _more(len(found), MAX_FINDING_ROWS)])


def _quiet(view: View) -> Markup | None:
    found = [one for one in view.troubles if not one.is_incident and not one.accepted]
    if not found:
        return None
    summary = tag("summary", f"{count(len(found), 'kind')} of findings of level low or info")
    listed = _table(view, found[:QUIET], "Of level low or info")
    return tag("details", summary, listed, _more(len(found), QUIET), class_="below")


def _table(view: View, found: Sequence[Trouble], caption: str) -> Markup:
    rows = [_finding_row(view, one) for one in found]
    return table(FINDINGS_HEAD, rows, caption=caption, numbers=("Findings",), class_="troubles")


def _finding_row(view: View, one: Trouble) -> Line:
    badge = tag("span", one.group["severity"], class_="badge")
    again = f"{one.weeks} of {_known(view)}, first in {one.first}" if one.weeks > 1 else one.first
    why = f"{one.state}: {one.why}" if one.state != "seen" else one.why
    cells: list[Child] = [badge, _what(view, one), one.group["count"], tag("span", again),
                          tag("span", why), _note(one)]  # fmt: skip
    level = f"level-{anchor(str(one.group['severity']))}"
    return Line(cells, {"class_": level, "data_state": one.state})


def _known(view: View) -> int:
    return sum(one is not None for one in view.weeks)


def _what(view: View, one: Trouble) -> Markup:
    """Link the worst finding, and say the signature, which notes.yaml is keyed by."""
    page = "report.html" if one.week == view.name else f"../{one.week}/report.html"
    reachable = one.week == view.name or view.holds(one.week)
    title = one.group["title"]
    link: Child = tag("a", title, href=f"{page}#{subject(one)}") if reachable else title
    where = "" if one.week == view.name else f" ({one.week})"
    key = tag("small", code(one.signature), " ", code(str(one.group["findings"][0][0])))
    return tag("div", link, where, tag("br"), key)


def _note(one: Trouble) -> Markup | None:
    note = one.note
    if note is None:
        return tag("span", "-")
    return tag("div", *_words(note, accepted=one.accepted))


def _words(note: Note, *, accepted: bool) -> list[Child]:
    parts: list[Child] = []
    if note.owner:
        parts.append(note.owner)
    if note.ticket:
        # A ticket is a person's own word, and yet only what is a plain address becomes a link.
        is_link = note.ticket.startswith("https://")
        parts.append(tag("a", note.ticket, href=note.ticket) if is_link else note.ticket)
    if note.accepted_until:
        verb = "accepted until" if accepted else "was accepted until"
        parts.append(f"{verb} {note.accepted_until.isoformat()}")
    if note.comment:
        parts.append(note.comment)
    between = [piece for part in parts for piece in ("; ", part)]
    return between[1:]
