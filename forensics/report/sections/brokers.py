"""One block a broker: its life as a strip, how it left and came back, what that cost it."""

from __future__ import annotations

from collections import Counter

import pyarrow.dataset as ds

from forensics.lib.formatting import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report import theme
from forensics.report.absences import BrokerAbsence, BrokerLifecycle, read_lifecycles
from forensics.report.figures import broker_absences
from forensics.report.html import Child, Markup, anchor, entity_id, join, strip_style, table, tag
from forensics.run_output.reader import RunOutput, short_time

ORDER = 72
TITLE = "Brokers"
HEAD = ("Left, {}", "Back, {}", "Away", "How", "Leaders lost", "Leaders regained", "Left ISRs",
        "Rejoined ISRs", "First line of it")  # fmt: skip
RIGHT = HEAD[4:8]
BLOCKS, ROWS, STRETCHES = 60, 40, 400


def render(run: RunOutput) -> Markup:
    """Show every broker, those first that were away unplanned."""
    known = read_lifecycles(run)
    if not known:
        return tag("p", "No broker's life could be read from the logs.")
    levels = _levels(run)
    calm = known[BLOCKS:]
    names = join_names([life.name for life in calm], 20)
    rest = tag("p", f"And {count(len(calm), 'broker')} with less to tell: {names}.")
    blocks = [_block(run, life, levels) for life in known[:BLOCKS]]
    drawn = broker_absences.render(run)
    return join([tag("p", _says(known)), drawn, *blocks, rest if calm else None], "\n")


def _says(known: list[BrokerLifecycle]) -> str:
    bad = [life.name for life in known if life.sort_key[0]]
    clean = sum(1 for life in known for one in life.absences if one.kind == "clean shutdown")
    worst = f"{join_names(bad, 6)} left unplanned" if bad else "none left unplanned"
    return f"{count(len(known), 'broker')}: {worst}; {count(clean, 'clean shutdown')}."


def _levels(run: RunOutput) -> dict[str, Counter[str]]:
    """Count what each node wrote at which level, of the lines that were read as facts."""
    found: dict[str, Counter[str]] = {}
    for part in run.chunks("events", ("node", "level"), ds.field("level").is_valid()):
        counts = part.group_by(["node", "level"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            if row["node"]:
                found.setdefault(row["node"], Counter())[row["level"]] += row["count_all"]
    return found


def _block(run: RunOutput, life: BrokerLifecycle, levels: dict[str, Counter[str]]) -> Markup:
    number = life.broker
    nodes = sorted({str(row["node"]) for row in life.states if row["node"]})
    written: Counter[str] = Counter()
    for node in nodes:
        written += levels.get(node, Counter())
    counts = [f"{number:,} {level}" for level, number in sorted(written.items())]
    facts = f"Facts read from its own logs: {', '.join(counts)}." if counts else ""
    about = _findings(run, life)
    # Where several nodes are of one name only the first can have the address.
    name = entity_id("b", number) if number is not None else entity_id("b", life.name)
    return tag(
        "article",
        tag("h3", tag("a", life.name.capitalize(), href=f"#{name}")),
        _strip(run, life),
        tag("p", _sentence(life), " ", facts, " ", about),
        _cycles(run, life),
        id=name,
        class_="broker",
        data_kind="broker",
        data_broker=number,
    )


def _sentence(life: BrokerLifecycle) -> str:
    if not life.absences:
        return "It was not seen to leave."
    ways = Counter(one.kind for one in life.absences)
    told = ", ".join(f"{number} {how}" for how, number in ways.most_common())
    gone = [one.back_at - one.left_at for one in life.absences if one.left_at and one.back_at]
    longest = f"; longest {duration(max(gone))}" if gone else ""
    open_end = life.absences[-1].back_at is None
    last = "; not back at the end of the logs" if open_end else ""
    return f"{count(len(life.absences), 'absence')}: {told}{longest}{last}."


def _findings(run: RunOutput, life: BrokerLifecycle) -> Markup | None:
    mine = [one for one in run.findings if life.broker is not None and life.broker in one.brokers]
    if not mine:
        return None
    links = [tag("a", one.id, href=f"#{anchor(one.id)}") for one in mine[:8]]
    left = len(mine) - len(links)
    return join(["Findings: ", join(links, ", "), f" and {left} more." if left else "."])


def _strip(run: RunOutput, life: BrokerLifecycle) -> Markup | None:
    if not run.window:
        return None
    solid = "var(--solid)" if life.broker is None else theme.broker_colour(life.broker)
    pieces = []
    for row in life.states[:STRETCHES]:
        if row["state"] == "unknown":
            continue
        ink = theme.STATE.get(row["state"] or "", (solid, ""))[0]
        place = strip_style((row["started_at"], row["ended_at"]), run.window)
        pieces.append(tag("span", style=f"{place};background:{ink}", title=row["state"]))
    return tag("div", *pieces, class_="strip life", aria_hidden="true")


def _cycles(run: RunOutput, life: BrokerLifecycle) -> Markup | None:
    if not life.absences:
        return None
    heads = [name.format(current_zone().label) for name in HEAD]
    worst = life.absences[:ROWS]
    caption = f"Absences of {life.name}"
    if len(life.absences) > ROWS:
        caption += f", the first {ROWS} of {len(life.absences):,}"
    rows = (_cycle(run, one) for one in worst)
    return table(heads, rows, caption=caption, numbers=RIGHT)


def _cycle(run: RunOutput, one: BrokerAbsence) -> list[Child]:
    known = one.left_at is not None and one.back_at is not None
    away = (one.back_at or 0) - (one.left_at or 0)
    return [
        short_time(run, one.left_at, exact=True),
        "not seen" if one.back_at is None else short_time(run, one.back_at, exact=True),
        duration(away) if known else "not known",
        one.kind,
        *(f"{number:,}" for number in (*one.leaders, *one.isrs)),
        tag("code", one.first_line) if one.first_line else "-",
    ]
