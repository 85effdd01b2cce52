"""Draws the sections of a week's page, also its hours as a heatmap; not the figure of weeks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from forensics.lib.text_format import MINUTE, count, duration, join_names, percent, time_text
from forensics.report import theme
from forensics.report.finding_text import shorten_names
from forensics.report.html import (
    Child,
    Markup,
    TableRow,
    anchor,
    code,
    command_block,
    figure,
    join,
    key_figure,
    note_left_out,
    render_inline,
    render_legend,
    table,
    tag,
    verdict_box,
)
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure
from forensics.weekly.coverage_normalisation import (
    MIN_COVERED_SHARE,
    SERVER_ROLES,
    WindowCoverage,
)
from forensics.weekly.notes import Note
from forensics.weekly.pages.week_view import (
    VERDICT_LEVELS,
    WeekView,
    compared_text,
    list_incident_levels,
    percent_text,
    week_headline,
    week_level,
)
from forensics.weekly.recurrence import TrackedFinding
from forensics.weekly.week_metrics import DAY, MAX_LOW_ISR_NIGHTS, NIGHT, AbsenceCounts
from forensics.weekly.week_summary import NodeSummary

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NONE, _FEW, _SOME, _MANY = "rgba(0,158,115,0.18)", "#f2c879", "#dd8452", "#a3123a"
_BLANK = "rgba(128,136,145,0.38)"
_HOURS = 24


def draw_heatmap(hours: Sequence[int | None]) -> Figure:
    """Draw a row for each day, from Monday on, and a cell for each hour."""
    rows = [hours[start : start + _HOURS] for start in range(0, len(hours), _HOURS)]
    names = list(WEEKDAYS[: len(rows)])
    common: dict[str, Any] = {
        "type": "heatmap", "x": list(range(_HOURS)), "y": names, "xgap": 1, "ygap": 1,
        "showscale": False, "zsmooth": False, "hoverongaps": False,
    }  # fmt: skip
    highest = max([1, *(number for number in hours if number is not None)])
    known = common | {
        "z": [list(row) for row in rows], "zmin": 0, "zmax": highest,
        "colorscale": [[0, _NONE], [0.001, _FEW], [0.4, _SOME], [1, _MANY]],
        "text": [[str(number) if number else "" for number in row] for row in rows],
        "texttemplate": "%{text}", "textfont": {"size": 10},
        "hovertemplate": "%{y} %{x}:00-%{x}:59 UTC: %{z} leaderships lost<extra></extra>",
    }  # fmt: skip
    blank = common | {
        "z": [[1 if number is None else None for number in row] for row in rows],
        "zmin": 0, "zmax": 1, "colorscale": [[0, _BLANK], [1, _BLANK]],
        "hovertemplate": "%{y} %{x}:00-%{x}:59 UTC: no log<extra></extra>",
    }  # fmt: skip
    return {"data": [blank, known], "layout": _layout(names), "config": CONFIG}


def _layout(names: Sequence[str]) -> Figure:
    return {
        "height": 44 + 30 * len(names) + 20, "showlegend": False, "hovermode": "closest",
        "margin": {"l": 8, "r": 8, "t": 30, "b": 40}, "dragmode": False, "uirevision": "fixed",
        "font": {"family": FONT, "size": 12}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "xaxis": {"title": {"text": "hour of the day, UTC", "standoff": 4}, "dtick": 2,
                  "fixedrange": True, "showgrid": False, "zeroline": False, "ticks": ""},
        "yaxis": {"autorange": "reversed", "fixedrange": True, "showgrid": False,
                  "type": "category", "automargin": True, "ticks": ""},
    }  # fmt: skip


def legend(hours: Sequence[int | None]) -> list[tuple[str, str]]:
    """Return each colour and its meaning."""
    colours = [(_NONE, "none lost"), (_FEW, "few"), (_MANY, "most of this week")]
    return [*colours, (_BLANK, "no log")] if None in hours else colours


_MAX_FINDINGS, _MAX_MINOR_FINDINGS = 200, 300
_MAX_PARTITIONS, _MAX_BROKERS, _MAX_NODES, _MAX_CHANGES = 100, 100, 300, 100
_MAX_NAMED, _MAX_ACTIONS = 3, 3
_FINDING_HEAD = ("Level", "What", "Findings", "Weeks", "Compared", "Notes")
_ABSENCE_HEAD = ("Broker", "Left unplanned", "Last week", "Weeks with it", "Away in all", "Longest",
                 "Median", "Planned", "Logs cover")  # fmt: skip
_NIGHT_HEAD = (
    "Partition",
    "Nights of this week",
    "So long by night",
    "Nights of all weeks",
    "Weeks",
)
_DAY_HEAD = ("Day of the postmortem", "Incidents begun", "All findings", "Leaderships lost",
             "Logs cover")  # fmt: skip
# Of each state of findings its id on the page, its own name, title, and explanation.
_STATES = (
    ("new", "new", "New", "not seen in the weeks before"),
    ("seen", "seen", "Of this week", "no earlier week to compare with"),
    ("worse", "worse", "Worse", "seen last week too, and larger now"),
    ("recurring", "recurring", "Recurring", "seen before, and about as large"),
    ("better", "better", "Better", "seen last week too, and smaller now"),
    ("resolved", "resolved", "Resolved", "seen before, and not now, though logs would show it"),
    (
        "unknown",
        "not evaluable",
        "Not evaluable",
        "seen before; too few logs to say whether it is over",
    ),
)


def draw_verdict(view: WeekView) -> Markup:
    """Draw the worst of the week, what is still open, and what to do, with the figures below."""
    word, level = week_level(view)
    return verdict_box(
        word,
        level,
        week_headline(view),
        tag("p", *_compared(view), class_="moment"),
        tag("dl", *_answers(view), class_="answers"),
        _older_rules_warning(view),
        tag("dl", *_figures(view), class_="cells"),
    )


def _compared(view: WeekView) -> list[Child]:
    """Say in a chip how the week compares with the one before, and behind it why."""
    word = view.verdict.word
    chip = tag("span", compared_text(word), class_=f"badge level-{VERDICT_LEVELS[word]}")
    return [chip, f" {view.verdict.why[:1].upper()}{view.verdict.why[1:]}."]


def _answers(view: WeekView) -> list[Markup]:
    """Give what is new, what is open from earlier weeks, what to do, and what is not known."""
    new = view.incidents("new", "seen")
    earlier = view.incidents("worse", "recurring", "better", "not evaluable")
    groups: list[tuple[str, list[Child]]] = [
        ("New", [_named(view, one) for one in new[:_MAX_NAMED]]),
        ("Open from earlier weeks", [_named(view, one) for one in earlier[:_MAX_NAMED]]),
        ("Do this week", _actions(view, [*new, *earlier])),
        ("Not known", [text] if (text := _not_covered(view)) else []),
    ]
    left = {"New": len(new) - _MAX_NAMED, "Open from earlier weeks": len(earlier) - _MAX_NAMED}
    return [
        tag("div", tag("dt", name), tag("dd", _listed(lines, left.get(name, 0))))
        for name, lines in groups
        if lines
    ]


def _listed(lines: list[Child], left: int) -> Markup:
    more = [tag("li", f"and {left} more")] if left > 0 else []
    return tag("ul", *(tag("li", line) for line in lines), *more)


def _named(view: WeekView, finding: TrackedFinding) -> Markup:
    """Link a finding, and say how it fares and who looks after it."""
    note = finding.note
    owner = f"owner {note.owner}" if note and note.owner else "no owner"
    state = "" if finding.state in ("new", "seen") else f"{finding.state}, since "
    since = finding.first_week if state else ""
    about = f" ({finding.group['severity']}; {state}{since}{'; ' if state else ''}{owner})"
    return join([_link(view, finding, str(finding.group["title"])), about])


def _actions(view: WeekView, findings: Sequence[TrackedFinding]) -> list[Child]:
    """Give at most three things to do, each once, those about new findings first."""
    chosen: dict[str, TrackedFinding] = {}
    for finding in findings:
        if action := str(finding.group.get("action") or ""):
            chosen.setdefault(action, finding)
    return [
        join([render_inline(action), " ", _link(view, finding, "Finding")])
        for action, finding in list(chosen.items())[:_MAX_ACTIONS]
    ]


def _not_covered(view: WeekView) -> str:
    """Name the brokers and controllers whose logs cover too little of the week."""
    window = view.week.window_ms
    thin = [
        f"{shorten_names(name)} {percent(covered, window)}"
        for name, covered in sorted(view.week.servers.items())
        if covered < MIN_COVERED_SHARE * window
    ]
    gone = [name for name in (view.before.servers if view.before else ())
            if name not in view.week.servers]  # fmt: skip
    thin += [f"{shorten_names(name)} 0 %" for name in gone]
    if not thin:
        return ""
    names = join_names(thin, _MAX_NAMED)
    return f"What happened while there are no logs. Of the week they cover: {names}."


def _older_rules_warning(view: WeekView) -> Markup | None:
    """Warn of counts that come from two sets of rules."""
    older = len(view.week.older_rules)
    if not older:
        return None
    link = tag("a", "what else changed", href="#changes")
    verb = "was" if older == 1 else "were"
    text = f"{count(older, 'file')} of this week {verb} read by older rules than the rest ("
    return tag("p", text, link, ").", class_="warning")


def _anchor(finding: TrackedFinding) -> str:
    """Return the place in the postmortem of the worst finding of a group."""
    return anchor(str(finding.group["findings"][0][0]))


def _figures(view: WeekView) -> list[Markup]:
    start, end = view.week.window
    incidents = list_incident_levels(view.week.levels) or "none"
    accepted = view.accepted_incidents
    unknown = len(view.incidents("not evaluable"))
    earlier = len(view.known_weeks) - 1
    then = view.verdict.then
    return [
        key_figure("Week", time_text(start)[:10], f"to {time_text(end - 1)[:10]}, UTC"),
        key_figure("Logs cover", percent_text(view), f"{view.verdict.now}{_whose_hours(view)}" + (
                f"; last week {then}" if then else "; last week is not in the store")),
        key_figure("Incidents begun", incidents, f"{accepted} accepted" if accepted else ""),
        key_figure("New", f"{len(view.incidents('new', 'seen')):,}",
                f"against {count(earlier, 'earlier week')}" if earlier
                else "there is no earlier week"),
        key_figure("Recurring", f"{len(view.incidents('recurring', 'worse', 'better')):,}",
                f"{len(view.incidents('worse'))} worse, {len(view.incidents('better'))} better"),
        key_figure("Resolved", f"{len(view.incidents('resolved')):,}",
                f"{unknown} not evaluable" if unknown else ""),
    ]  # fmt: skip


def _whose_hours(view: WeekView) -> str:
    """Say why there are more hours than a week has."""
    now = view.verdict.now
    nodes = now.expected_ms // now.window_ms if now.window_ms else 0
    return f", those of {nodes} brokers and controllers together" if nodes > 1 else ""


def draw_findings(view: WeekView) -> Markup:
    """Draw a table for each state, and findings of level low or info folded away."""
    parts: list[Markup | None] = []
    for id_, state, title, text in _STATES:
        parts += _finding_part(view, id_, title, view.incidents(state), f"{title}: {text}")
    if not parts:
        text = "Nothing of level medium or above, in this week or still open before it."
        parts.append(tag("p", text))
    accepted = [finding for finding in view.findings if finding.accepted and finding.is_open]
    text = "Accepted by notes.yaml at the end of this week, and left out of the verdict"
    parts += _finding_part(view, "accepted", "Accepted", accepted, text)
    text = "And {} of findings, in the postmortem alone."
    more = note_left_out(view.week.findings_left_out, "more kind", text)
    return join([*parts, _minor_findings(view), more, _notes_example(view)], "\n")


def _finding_part(
    view: WeekView, id_: str, title: str, findings: Sequence[TrackedFinding], caption: str
) -> list[Markup | None]:
    if not findings:
        return []
    heading = tag("h3", f"{title} ({len(findings):,})", id=f"findings-{id_}")
    listing = _finding_table(view, findings[:_MAX_FINDINGS], caption)
    return [join([heading, listing, note_left_out(len(findings) - _MAX_FINDINGS, "")])]


def _minor_findings(view: WeekView) -> Markup | None:
    findings = [each for each in view.findings if not each.is_incident and not each.accepted]
    if not findings:
        return None
    summary = tag("summary", f"{count(len(findings), 'kind')} of findings of level low or info")
    listing = _finding_table(view, findings[:_MAX_MINOR_FINDINGS], "Of level low or info")
    more = note_left_out(len(findings) - _MAX_MINOR_FINDINGS, "")
    return tag("details", summary, listing, more, class_="below")


def _notes_example(view: WeekView) -> Markup | None:
    """Show what to write into notes.yaml, for the worst finding that has no note."""
    finding = next((each for each in view.findings if each.is_open and each.note is None), None)
    if finding is None:
        return None
    later = view.week.last_day + timedelta(days=28)
    lines = (
        # A JSON string is a YAML string, too.
        f"{json.dumps(finding.signature)}:",
        "  owner: NAME",
        "  ticket: https://TICKETS/NUMBER",
        f"  accepted_until: {later.isoformat()}",
        "  comment: WHY",
    )
    text = (
        "Write this into notes.yaml in the store, with a signature or an id from above; only what "
        "has accepted_until is left out of the verdict, and comes back when that day is over."
    )
    summary = tag("summary", "Say who looks after a finding, or accept it for a while")
    return tag("details", summary, tag("p", text), command_block(lines), class_="off-paper")


def _finding_table(view: WeekView, findings: Sequence[TrackedFinding], caption: str) -> Markup:
    rows = (_finding_row(view, finding) for finding in findings)
    return table(_FINDING_HEAD, rows, caption=caption, numbers=("Findings",), class_="troubles")


def _finding_row(view: WeekView, finding: TrackedFinding) -> TableRow:
    severity, weeks = finding.group["severity"], finding.first_week
    if finding.week_count > 1:
        weeks = f"{finding.week_count} of {len(view.known_weeks)}, first in {weeks}"
    # The caption says that there is no earlier week.
    why = "-" if finding.state == "seen" else f"{finding.state}: {finding.why}"
    note = (
        tag("div", *_note_parts(finding.note, accepted=finding.accepted)) if finding.note else None
    )
    cells: list[Child] = [
        tag("span", severity, class_="badge"), _finding_title(view, finding),
        finding.group["count"], tag("span", weeks), tag("span", why), note or tag("span", "-"),
    ]  # fmt: skip
    return TableRow(cells, {"class_": f"level-{anchor(severity)}", "data_state": finding.state})


def _finding_title(view: WeekView, finding: TrackedFinding) -> Markup:
    """Link the worst finding, and name its signature and id: the keys of notes.yaml."""
    is_of_this_week = finding.week == view.name
    link = _link(view, finding, str(finding.group["title"]))
    where = "" if is_of_this_week else f" ({finding.week})"
    id_ = str(finding.group["findings"][0][0])
    keys = tag("small", code(finding.signature), " ", code(id_))
    return tag("div", link, where, tag("br"), keys)


def _link(view: WeekView, finding: TrackedFinding, text: str) -> Child:
    """Link the worst finding of a group in the postmortem of its week, if that is in the store."""
    is_of_this_week = finding.week == view.name
    if not is_of_this_week and all(week.week != finding.week for week in view.known_weeks):
        return text
    page = "report.html" if is_of_this_week else f"../{finding.week}/report.html"
    return tag("a", text, href=f"{page}#{_anchor(finding)}")


def _note_parts(note: Note, *, accepted: bool) -> list[Child]:
    parts: list[Child] = [note.owner] if note.owner else []
    if note.ticket:
        # People write tickets as they like; only a plain address becomes a link.
        is_link = note.ticket.startswith("https://")
        parts.append(tag("a", note.ticket, href=note.ticket) if is_link else note.ticket)
    if note.accepted_until:
        verb = "accepted until" if accepted else "was accepted until"
        parts.append(f"{verb} {note.accepted_until.isoformat()}")
    if note.comment:
        parts.append(note.comment)
    return [piece for part in parts for piece in ("; ", part)][1:]


def draw_absences(view: WeekView) -> Markup:
    """Draw a row for each broker that was away, those of the most unplanned absences first."""
    away = {
        int(broker): counts
        for broker, counts in view.week.away.items()
        if counts["unplanned"] or counts["planned"] or counts["minutes"]
    }
    if not away:
        covered = view.week.coverage()
        text = f"No log shows a broker that was away; the logs cover {covered}."
        return tag("p", text)
    order = sorted(away, key=lambda each: (-away[each]["unplanned"], -away[each]["minutes"], each))
    unplanned = sum(bool(counts["unplanned"]) for counts in away.values())
    text = (
        f"{count(unplanned, 'broker')} left unplanned" if unplanned else "No broker left unplanned"
    )
    rows = (_absence_row(view, broker, away[broker]) for broker in order[:_MAX_BROKERS])
    listing = table(
        _ABSENCE_HEAD, rows, caption="Brokers that were away", numbers=_ABSENCE_HEAD[1:8]
    )
    return join([tag("p", f"{text}."), listing, note_left_out(len(order) - _MAX_BROKERS, "broker")])


def _absence_row(view: WeekView, broker: int, counts: AbsenceCounts) -> list[Child]:
    by_week = [week.away.get(str(broker)) for week in view.known_weeks]
    with_it = sum(bool(each and each["unplanned"]) for each in by_week)
    last_week = "-"
    if view.before is not None:
        before = view.before.away.get(str(broker))
        last_week = "?" if before is None else f"{before['unplanned']:,}"
    lengths = (counts["minutes"], counts["longest"], counts["median"])
    return [
        f"broker {broker}", counts["unplanned"], last_week, f"{with_it} of {len(by_week)}",
        *(duration(round(minutes * MINUTE)) if minutes else "-" for minutes in lengths),
        counts["planned"], str(view.week.broker_coverage(broker)),
    ]  # fmt: skip


def draw_low_isr_nights(view: WeekView) -> Markup:
    """Draw the partitions of too many nights with one replica in sync, those of the most first."""
    nights = view.week.nights
    often = [row for row in nights["partitions"] if row[1] > MAX_LOW_ISR_NIGHTS]
    rule = tag("p", (
        "Partitions that had only one replica in sync for a minute or more, in more than "
        f"{MAX_LOW_ISR_NIGHTS} of {nights['nights']} nights ({NIGHT[0]}:00 to "
        f"{NIGHT[1] - 24:02d}:00 UTC): one more failure, and they are gone."
    ))  # fmt: skip
    if not often:
        others = len(nights["partitions"]) + nights["left_out"]
        fewer = f" {count(others, 'partition')} in fewer nights." if others else ""
        text = f"None that the logs show.{fewer} They cover {view.week.coverage()}."
        return join([rule, tag("p", text)])
    by_week = [{name: number for name, number, _ in week.nights["partitions"]}
               for week in view.known_weeks]  # fmt: skip
    rows: list[list[Child]] = []
    for name, number, minutes in often[:_MAX_PARTITIONS]:
        numbers = [each.get(name, 0) for each in by_week]
        weeks = sum(each > MAX_LOW_ISR_NIGHTS for each in numbers)
        length = duration(round(minutes * MINUTE))
        rows.append([name, number, length, sum(numbers), f"{weeks} of {len(by_week)}"])
    caption = "Partitions with one replica in sync, night after night"
    listing = table(_NIGHT_HEAD, rows, caption=caption, numbers=_NIGHT_HEAD[1:])
    return join([rule, listing, note_left_out(nights["often"] - len(rows), "partition")])


def draw_hours(view: WeekView) -> Markup:
    """Draw when leaders were lost, hour by hour."""
    hours = view.week.hours
    lost = [number or 0 for number in hours]
    busiest = sorted(range(len(hours)), key=lambda hour: (-lost[hour], hour))[:3]
    names = [f"{WEEKDAYS[hour // 24]} {hour % 24:02d}:00 ({lost[hour]:,})"
             for hour in busiest if lost[hour]]  # fmt: skip
    busiest_text = f", most of them {join_names(names)}" if names else ""
    unknown = count(hours.count(None), "hour")
    text = f"{count(sum(lost), 'leadership')} lost{busiest_text}; no log covers {unknown}."
    rows = [
        [WEEKDAYS[start // 24],
         *("?" if number is None else f"{number:,}" for number in hours[start : start + 24])]
        for start in range(0, len(hours), 24)
    ]  # fmt: skip
    head = ("Day", *(f"{hour:02d}" for hour in range(24)))
    listing = table(head, rows, caption="Leaderships lost by hour, UTC", numbers=head[1:])
    folded = tag("details", tag("summary", "Hours as a table"), listing, class_="off-paper")
    key = render_legend(legend(hours))
    return figure("figure-hours", draw_heatmap(hours), text, key, folded)


def draw_changes(view: WeekView) -> Markup:
    """List what is different from the week before."""
    if not view.changes:
        if view.before is None:
            text = "The week before is not in the store, so nothing can be compared with it."
        else:
            text = "The same rules, versions, brokers and topics as in the week before."
        return tag("p", text)
    rows = view.changes[:_MAX_CHANGES]
    return table(("What", "Change"), rows, caption="Changes since the week before")


def draw_coverage(view: WeekView) -> Markup:
    """Draw for each node how much of the week its logs cover, day by day."""
    nodes = sorted(view.week.nodes.items(), key=_by_role)
    if not nodes:
        return tag("p", "No log reaches into this week.")
    files = view.week.files
    text = (
        f"{count(files['files'], 'file')} with {count(files['lines'], 'line')} "
        f"{'reaches' if files['files'] == 1 else 'reach'} into the week, "
        f"{count(files['unparsed_lines'], 'line')} of them not understood; "
        f"{count(files['damaged'], 'file') if files['damaged'] else 'no file'} damaged. "
        "Clients are not expected to log throughout."
    )
    rows: list[list[Child]] = []
    for name, node in nodes[:_MAX_NODES]:
        covered = str(WindowCoverage(node["covered_ms"], view.week.window_ms, view.week.window_ms))
        versions = join_names(view.week.versions.get(name, [])) or "-"
        rows.append([name, covered, _day_strip(node["days"], covered), versions])
    head = ("Node", "Logs cover", "Monday to Sunday", "Kafka")
    listing = table(head, rows, caption="Coverage by node")
    return join([tag("p", text), listing, note_left_out(len(nodes) - len(rows), "node")])


def _by_role(item: tuple[str, NodeSummary]) -> tuple[int, int, str]:
    name, node = item
    role = SERVER_ROLES.index(node["role"]) if node["role"] in SERVER_ROLES else len(SERVER_ROLES)
    return role, -1 if node["broker"] is None else node["broker"], name


def _day_strip(covered_by_day: Sequence[int], label: str) -> Markup:
    """Draw a bar for each day, as wide as the share of it that is covered."""
    width = 100 / max(1, len(covered_by_day))
    bars = (
        tag("span", style=f"left:{day * width:.2f}%;width:{max(width * ms / DAY, 0.6):.2f}%")
        for day, ms in enumerate(covered_by_day) if ms
    )  # fmt: skip
    return tag("span", *bars, class_="strip", role="img", aria_label=label)


def draw_days(view: WeekView) -> Markup:
    """Link each day of the postmortem, with the findings that began on it."""
    rows = []
    for day, name in enumerate(WEEKDAYS):
        begin = view.week.window[0] + day * DAY
        levels = [
            severity
            for group in view.week.findings
            for _, severity, start in group["findings"]
            if begin <= start < begin + DAY
        ]
        incidents = list_incident_levels({level: levels.count(level) for level in levels})
        date, next_date = time_text(begin)[:10], time_text(begin + DAY)[:10]
        address = f"report.html#t/{date}T00:00:00Z..{next_date}T00:00:00Z"
        hours = view.week.hours[24 * day : 24 * day + 24]
        known = [number for number in hours if number is not None]
        cells: list[Child] = [
            tag("a", f"{name} {date}", href=address),
            # A day without logs is not a day without incidents.
            incidents or ("none" if known else "?"), len(levels) if levels or known else "?",
            f"{sum(known):,}" if known else "?", str(_day_coverage(view, day)),
        ]  # fmt: skip
        rows.append(TableRow(
            cells, {"class_": f"level-{anchor(levels[0])}" if incidents else None}
        ))  # fmt: skip
    return table(
        _DAY_HEAD,
        rows,
        caption="The days of the week; ?: no logs of that day",
        numbers=_DAY_HEAD[2:4],
    )


def _day_coverage(view: WeekView, day: int) -> WindowCoverage:
    servers = [node for node in view.week.nodes.values() if node["role"] != "client"]
    covered = sum(node["days"][day] for node in servers if day < len(node["days"]))
    return WindowCoverage(covered, view.week.coverage().expected_ms // 7, DAY)
