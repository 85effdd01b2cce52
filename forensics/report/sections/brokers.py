"""One block a broker: its life as a strip, how it left and came back, what that cost it."""

from __future__ import annotations

from collections import Counter

import pyarrow.dataset as ds

from forensics.lib.text_format import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report import theme
from forensics.report.figures import broker_absences
from forensics.report.html import (
    Child,
    Markup,
    entity_id,
    finding_link,
    join,
    limit_caption,
    note_left_out,
    strip_style,
    table,
    tag,
)
from forensics.run_output.broker_lifecycles import BrokerAbsence, BrokerLifecycle, read_lifecycles
from forensics.run_output.reader import RunOutput, short_time

TITLE = "Brokers"
HEAD = ("Left, {}", "Back, {}", "Away", "How", "Leaders lost", "Leaders regained", "Left ISRs",
        "Rejoined ISRs", "First line of it")  # fmt: skip
NUMBERS = HEAD[4:8]
MAX_BLOCKS, MAX_ROWS, MAX_STATES, MAX_FINDINGS = 60, 40, 400, 8


def render(run: RunOutput) -> Markup:
    """Show every broker, those first that were away unplanned."""
    brokers = read_lifecycles(run)
    if not brokers:
        return tag("p", "The logs say nothing of the states of brokers.")
    levels = _count_levels(run)
    left = brokers[MAX_BLOCKS:]
    names = join_names([broker.name for broker in left], 20)
    rest = note_left_out(len(left), "broker", f"And {{}} with less to tell: {names}.")
    blocks = [_block(run, broker, levels) for broker in brokers[:MAX_BLOCKS]]
    drawing = broker_absences.render(run, brokers)
    if drawing:
        drawing = tag(
            "details", tag("summary", "How often and how long brokers were away"), drawing
        )
    return join([tag("p", _summary(brokers)), *blocks, rest, drawing], "\n")


def _summary(brokers: list[BrokerLifecycle]) -> str:
    bad = [broker.name for broker in brokers if broker.unplanned]
    planned = sum(len(broker.absences) - len(broker.unplanned) for broker in brokers)
    worst = f"{join_names(bad, 6)} left unplanned" if bad else "none left unplanned"
    return f"{count(len(brokers), 'broker')}: {worst}; {count(planned, 'clean shutdown')}."


def _count_levels(run: RunOutput) -> dict[str, Counter[str]]:
    """Count by node and level the lines that were read as facts."""
    levels: dict[str, Counter[str]] = {}
    for chunk in run.chunks("events", ("node", "level"), ds.field("level").is_valid()):
        counts = chunk.group_by(["node", "level"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            if row["node"]:
                levels.setdefault(row["node"], Counter())[row["level"]] += row["count_all"]
    return levels


def _block(run: RunOutput, broker: BrokerLifecycle, levels: dict[str, Counter[str]]) -> Markup:
    written: Counter[str] = Counter()
    for node in {str(row["node"]) for row in broker.states if row["node"]}:
        written += levels.get(node, Counter())
    counts = [f"{number:,} {level}" for level, number in sorted(written.items())]
    facts = f"Log events from its own logs: {', '.join(counts)}." if counts else ""
    # Where several nodes are of one name only the first can have the address.
    name = entity_id("b", broker.name if broker.broker is None else broker.broker)
    return tag(
        "article",
        tag("h3", tag("a", broker.name.capitalize(), href=f"#{name}")),
        _strip(run, broker),
        tag("p", _sentence(broker), " ", _findings(run, broker)),
        _fold_absences(run, broker, facts),
        id=name,
        class_="broker",
        data_kind="broker",
        data_broker=broker.broker,
    )


def _fold_absences(run: RunOutput, broker: BrokerLifecycle, facts: str) -> Markup | None:
    inside = [one for one in (_absences(run, broker), tag("p", facts) if facts else None) if one]
    if not inside:
        return None
    return tag("details", tag("summary", "Each absence, and its log levels"), *inside)


def _sentence(broker: BrokerLifecycle) -> str:
    if not broker.absences:
        return "It was not seen to leave."
    kinds = Counter(absence.kind for absence in broker.absences)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    lengths = [absence.length for absence in broker.absences if absence.length is not None]
    longest = f"; longest {duration(max(lengths))}" if lengths else ""
    is_away = broker.absences[-1].back_at is None
    end = "; not back at the end of the logs" if is_away else ""
    return f"{count(len(broker.absences), 'absence')}: {counts}{longest}{end}."


def _findings(run: RunOutput, broker: BrokerLifecycle) -> Markup | None:
    ids = [finding.id for finding in run.findings if broker.broker in finding.brokers]
    if not ids:
        return None
    links = map(finding_link, ids[:MAX_FINDINGS])
    left = max(0, len(ids) - MAX_FINDINGS)
    return join(["Findings: ", join(links, ", "), f" and {left} more." if left else "."])


def _strip(run: RunOutput, broker: BrokerLifecycle) -> Markup | None:
    if not run.window:
        return None
    solid = "var(--solid)" if broker.broker is None else theme.broker_colour(broker.broker)
    pieces = []
    for row in broker.states[:MAX_STATES]:
        if row["state"] != "unknown":
            colour = theme.STATE.get(row["state"] or "", (solid, ""))[0]
            place = strip_style((row["started_at"], row["ended_at"]), run.window)
            words = theme.state_words(row["state"] or "")
            pieces.append(tag("span", style=f"{place};background:{colour}", title=words))
    return tag("div", *pieces, class_="strip life", aria_hidden="true")


def _absences(run: RunOutput, broker: BrokerLifecycle) -> Markup | None:
    if not broker.absences:
        return None
    caption = limit_caption(f"Absences of {broker.name}", len(broker.absences), MAX_ROWS)
    head = [name.format(current_zone().label) for name in HEAD]
    rows = (_row(run, absence) for absence in broker.absences[:MAX_ROWS])
    return table(head, rows, caption=caption, numbers=NUMBERS)


def _row(run: RunOutput, absence: BrokerAbsence) -> list[Child]:
    return [
        short_time(run, absence.left_at, exact=True),
        "not seen" if absence.back_at is None else short_time(run, absence.back_at, exact=True),
        duration(absence.length),
        absence.kind,
        *(f"{number:,}" for number in (*absence.leaders, *absence.isrs)),
        tag("code", absence.first_line) if absence.first_line else "-",
    ]
