"""What is new, what comes again and how often, what is over, and what nobody can say.

The slow burn: partitions that went through many nights with one replica in sync.

Brokers that left and came back, this week and in the weeks before.

Better, same or worse, the numbers behind it, and how much the logs cover.

The week hour by hour, what else changed, what the logs cover, and its days.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from forensics.lib.formatting import LEVELS, count, duration, join_names, time_text
from forensics.report.html import (
    Child,
    Markup,
    TableRow,
    anchor,
    code,
    command_block,
    figure,
    join,
    render_legend,
    table,
    tag,
)
from forensics.weekly.coverage_normalisation import (
    WeekSummary,
    coverage,
    format_coverage,
    node_of,
    span_of,
)
from forensics.weekly.metrics import MAX_LOW_ISR_NIGHTS, NIGHT
from forensics.weekly.notes import Note
from forensics.weekly.pages import hourly_heatmap
from forensics.weekly.pages.week_view import WeekView
from forensics.weekly.recurrence import RecurringFinding, last_day

MAX_NIGHT_ROWS = 100
NIGHTS_HEAD = ("Partition", "Nights of this week", "Thin by night", "Nights of all weeks", "Weeks")


def draw_nights(view: WeekView) -> Markup:
    """Draw the partitions of too many nights, those of the most first."""
    told = view.week["nights"]
    often = [row for row in told["partitions"] if row[1] > MAX_LOW_ISR_NIGHTS]
    rule = (
        "Listed is who was down to one replica in sync for a minute or more in more than "
        f"{MAX_LOW_ISR_NIGHTS} of {told['nights']} nights ({NIGHT[0]}:00 to "
        f"{NIGHT[1] - 24:02d}:00 UTC)."
    )
    if not often:
        some = len(told["partitions"]) + told["left_out"]
        few = f" {count(some, 'partition')} in fewer nights." if some else ""
        says = f"No partition.{few} The logs cover {format_coverage(coverage(view.week))}."
        return join([tag("p", rule), tag("p", says)])
    known = [{row[0]: row[1] for row in one["nights"]["partitions"]} for one in view.weeks if one]
    rows: list[list[Child]] = [
        [name, nights, duration(round(minutes * 60_000)),
         sum(one.get(name, 0) for one in known),
         f"{sum(one.get(name, 0) > MAX_LOW_ISR_NIGHTS for one in known)} of {len(known)}"]
        for name, nights, minutes in often[:MAX_NIGHT_ROWS]
    ]  # fmt: skip
    left = told["often"] - len(rows)
    more = tag("p", f"And {count(left, 'partition')} more.") if left > 0 else None
    caption = "Partitions with one replica in sync, night after night"
    return join(
        [tag("p", rule), table(NIGHTS_HEAD, rows, caption=caption, numbers=NIGHTS_HEAD[1:]), more]
    )


MAX_FLAPPING_ROWS = 100
MINUTE = 60_000
FLAPPING_HEAD = ("Broker", "Left unplanned", "Last week", "Weeks with it", "Away in all", "Longest",
        "Median", "Planned", "Logs cover")  # fmt: skip


def draw_flapping(view: WeekView) -> Markup:
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
    listing = table(
        FLAPPING_HEAD, rows, caption="Brokers that were away", numbers=FLAPPING_HEAD[1:8]
    )
    return join([tag("p", f"{says}."), listing, more])


def _nobody(view: WeekView) -> str:
    covered = coverage(view.week)
    return f"No log tells of a broker that was away; the logs cover {format_coverage(covered)}."


def _flapping_row(view: WeekView, broker: int, told: Mapping[str, Any]) -> list[Child]:
    known = [one for one in view.weeks if one is not None]
    with_it = sum(bool(one["away"].get(str(broker), {}).get("unplanned")) for one in known)
    lengths = [_length(told[name]) for name in ("minutes", "longest", "median")]
    return [
        f"broker {broker}", told["unplanned"], _then(view.before, broker),
        f"{with_it} of {len(known)}", *lengths, told["planned"],
        format_coverage(coverage(view.week, [node_of(view.week, broker)])),
    ]  # fmt: skip


def _then(before: WeekSummary | None, broker: int) -> str:
    if before is None:
        return "-"
    told = before["away"].get(str(broker))
    return "?" if told is None else f"{told['unplanned']:,}"


def _length(minutes: float | None) -> str:
    return "-" if not minutes else duration(round(minutes * MINUTE))


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


def draw_findings(view: WeekView) -> Markup:
    """Draw a table for each state, and what is of level low or info folded away."""
    parts = [_part(view, *part) for part in PARTS]
    shown = [*(part for part in parts if part), _accepted(view), _quiet(view)]
    if not any(part for part in parts):
        nothing = "Nothing of level medium or above, in this week or still open before it."
        shown = [tag("p", nothing), *shown]
    left = int(view.week["findings_left_out"])
    more = tag("p", f"And {count(left, 'more kind')} of findings, in the postmortem alone.")
    return join([*shown, more if left else None, _how(view)], "\n")


def _how(view: WeekView) -> Markup | None:
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
    return tag("details", summary, tag("p", says), command_block(lines))


def _part(view: WeekView, id_: str, states: Sequence[str], title: str, says: str) -> Markup | None:
    found = view.some(*states)
    if not found:
        return None
    heading = tag("h3", f"{title} ({len(found):,})", id=f"findings-{id_}")
    return join(
        [
            heading,
            _table(view, found[:MAX_FINDING_ROWS], f"{title}: {says}"),
            _more(len(found), MAX_FINDING_ROWS),
        ]
    )


def _more(found: int, most: int) -> Markup | None:
    return tag("p", f"And {found - most:,} more.") if found > most else None


def _accepted(view: WeekView) -> Markup | None:
    found = [one for one in view.troubles if one.accepted and one.is_open]
    if not found:
        return None
    heading = tag("h3", f"Accepted ({len(found):,})", id="findings-accepted")
    says = "Accepted by notes.yaml at the end of this week, and left out of the verdict"
    return join(
        [heading, _table(view, found[:MAX_FINDING_ROWS], says), _more(len(found), MAX_FINDING_ROWS)]
    )


def _quiet(view: WeekView) -> Markup | None:
    found = [one for one in view.troubles if not one.is_incident and not one.accepted]
    if not found:
        return None
    summary = tag("summary", f"{count(len(found), 'kind')} of findings of level low or info")
    listed = _table(view, found[:QUIET], "Of level low or info")
    return tag("details", summary, listed, _more(len(found), QUIET), class_="below")


def _table(view: WeekView, found: Sequence[RecurringFinding], caption: str) -> Markup:
    rows = [_finding_row(view, one) for one in found]
    return table(FINDINGS_HEAD, rows, caption=caption, numbers=("Findings",), class_="troubles")


def _finding_row(view: WeekView, one: RecurringFinding) -> TableRow:
    badge = tag("span", one.group["severity"], class_="badge")
    again = f"{one.weeks} of {_known(view)}, first in {one.first}" if one.weeks > 1 else one.first
    why = f"{one.state}: {one.why}" if one.state != "seen" else one.why
    cells: list[Child] = [badge, _what(view, one), one.group["count"], tag("span", again),
                          tag("span", why), _note(one)]  # fmt: skip
    level = f"level-{anchor(str(one.group['severity']))}"
    return TableRow(cells, {"class_": level, "data_state": one.state})


def _known(view: WeekView) -> int:
    return sum(one is not None for one in view.weeks)


def _what(view: WeekView, one: RecurringFinding) -> Markup:
    """Link the worst finding, and say the signature, which notes.yaml is keyed by."""
    page = "report.html" if one.week == view.name else f"../{one.week}/report.html"
    reachable = one.week == view.name or view.holds(one.week)
    title = one.group["title"]
    link: Child = tag("a", title, href=f"{page}#{subject(one)}") if reachable else title
    where = "" if one.week == view.name else f" ({one.week})"
    key = tag("small", code(one.signature), " ", code(str(one.group["findings"][0][0])))
    return tag("div", link, where, tag("br"), key)


def _note(one: RecurringFinding) -> Markup | None:
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


def draw_verdict(view: WeekView) -> Markup:
    """Say it in one sentence, with cells below it."""
    judged = view.judgement
    badge = tag("span", judged.word, class_="badge")
    says = tag("p", badge, " ", sentence(view), class_="answer")
    own = tag("p", OWN.get(str(view.week["verdict"]), ""), " ", _worst(view))
    cells = tag("dl", *_cells(view), class_="cells")
    inside = (says, own, _mixed(view), cells)
    return tag("div", *inside, class_=f"verdict level-{COLOURS[judged.word]}")


def _mixed(view: WeekView) -> Markup | None:
    """Warn of counts that come from two sets of rules."""
    older = len(view.week["older_rules"])
    if not older:
        return None
    link = tag("a", "what else changed", href="#changes")
    verb = "was" if older == 1 else "were"
    says = f"{count(older, 'file')} of this week {verb} read by older rules than the rest ("
    return tag("p", says, link, ").", class_="warning")


def sentence(view: WeekView) -> str:
    """Say the verdict: better, same or worse, the coverage, and the reason in numbers."""
    judged = view.judgement
    return f"{SAYS[judged.word]}, coverage {format_coverage(judged.now)}: {judged.why}."


def _worst(view: WeekView) -> Child:
    found = [one for one in view.troubles if one.is_incident and one.is_open and not one.accepted]
    if not found:
        return None
    link = subject(found[0])
    return join(["The worst: ", tag("a", found[0].group["title"], href=f"report.html#{link}"), "."])


def subject(one: RecurringFinding) -> str:
    """Give the place in the postmortem that tells of a trouble's worst finding."""
    return anchor(str(one.group["findings"][0][0]))


def _cells(view: WeekView) -> list[Markup]:
    start, end = view.week["window"]
    levels = view.week["levels"]
    incidents = [f"{levels[level]} {level}" for level in LEVELS[:3] if levels.get(level)]
    accepted = len([one for one in view.troubles if one.accepted and one.is_incident])
    gone = view.some("resolved")
    unknown = view.some("not evaluable")
    known = sum(one is not None for one in view.weeks) - 1
    covered, then = view.judgement.now, view.judgement.then
    before = f"last week {format_coverage(then)}" if then else "last week is not in the store"
    return [
        _cell("Week", time_text(start)[:10], f"to {time_text(end - 1)[:10]}, UTC"),
        _cell("Coverage of brokers and controllers", format_coverage(covered), before),
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


DAY = 86_400_000
NODES, CHANGES = 300, 100


def hourly(view: WeekView) -> Markup:
    """Draw when leaders were lost, hour by hour."""
    cells: Sequence[int | None] = view.week["hours"]
    busy = sorted(((many or 0, -at) for at, many in enumerate(cells)), reverse=True)
    dark = sum(many is None for many in cells)
    told = [
        f"{hourly_heatmap.DAYS[-at // 24]} {-at % 24:02d}:00 ({many:,})"
        for many, at in busy[:3]
        if many
    ]
    total = sum(many or 0 for many in cells)
    most = f", most of them {join_names(told)}" if told else ""
    says = f"{count(total, 'leadership')} lost{most}; no log tells of {count(dark, 'hour')}."
    by_day = [cells[at : at + 24] for at in range(0, len(cells), 24)]
    rows = [[hourly_heatmap.DAYS[at], *("?" if many is None else f"{many:,}" for many in row)]
            for at, row in enumerate(by_day)]  # fmt: skip
    head = ("Day", *(f"{hour:02d}" for hour in range(24)))
    listing = table(head, rows, caption="Leaderships lost by hour, UTC", numbers=head[1:])
    folded = tag("details", tag("summary", "Hours as a table"), listing)
    return figure(
        "figure-hours",
        hourly_heatmap.drawing(cells),
        says,
        render_legend(hourly_heatmap.key(cells)),
        folded,
    )


def changed(view: WeekView) -> Markup:
    """List what is different from the week before."""
    if view.before is None and not view.changes:
        return tag("p", "The week before is not in the store, so nothing can be compared with it.")
    if not view.changes:
        return tag("p", "The same rules, versions, brokers and topics as in the week before.")
    rows = [[one.what, one.says] for one in view.changes[:CHANGES]]
    return table(("What", "Change"), rows, caption="Changes since the week before")


def covered(view: WeekView) -> Markup:
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


def _node(view: WeekView, name: str, told: Mapping[str, Any]) -> list[Child]:
    versions = view.week["versions"].get(name, [])
    whole = span_of(view.week)
    says = format_coverage((told["covered_ms"], whole))
    return [name, says, _strip(told["days"], says), join_names(versions) or "-"]


def _strip(by_day: Sequence[int], says: str) -> Markup:
    """Draw a bar for each day, as wide as the share of it that is covered."""
    wide = 100 / max(1, len(by_day))
    pieces = (
        tag("span", style=f"left:{at * wide:.2f}%;width:{max(wide * ms / DAY, 0.6):.2f}%")
        for at, ms in enumerate(by_day) if ms
    )  # fmt: skip
    return tag("span", *pieces, class_="strip", role="img", aria_label=says)


def days(view: WeekView) -> Markup:
    """Link each day of the postmortem, with what began on it."""
    start = int(view.week["window"][0])
    rows = []
    for at, name in enumerate(hourly_heatmap.DAYS):
        begin = start + at * DAY
        found = [row[1] for group in view.week["findings"] for row in group["findings"]
                 if begin <= row[2] < begin + DAY]  # fmt: skip
        loud = [f"{found.count(level)} {level}" for level in LEVELS[:3] if level in found]
        date = time_text(begin)[:10]
        address = f"report.html#t/{date}T00:00:00Z..{time_text(begin + DAY)[:10]}T00:00:00Z"
        cells = view.week["hours"][24 * at : 24 * at + 24]
        lost = (
            "?" if all(many is None for many in cells) else f"{sum(many or 0 for many in cells):,}"
        )
        rows.append(TableRow(
            [tag("a", f"{name} {date}", href=address), ", ".join(loud) or "none", len(found), lost,
             format_coverage(_day(view, at))],
            {"class_": f"level-{anchor(found[0])}" if loud else None},
        ))  # fmt: skip
    head = ("Day of the postmortem", "Incidents begun", "All findings", "Leaderships lost",
            "Logs cover")  # fmt: skip
    return table(head, rows, caption="The days of the week", numbers=head[2:4])


def _day(view: WeekView, at: int) -> tuple[int, int]:
    servers = [told for told in view.week["nodes"].values() if told["role"] != "client"]
    whole = coverage(view.week)[1] // 7
    return sum(told["days"][at] for told in servers if at < len(told["days"])), whole
