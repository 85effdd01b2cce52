"""Two windows beside each other, as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.report import page, theme
from forensics.report.html import Child, Markup, TableRow, anchor, code, figure, join, table, tag
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure
from forensics.weekly.comparison import (
    TABLE_HEAD,
    Comparison,
    CountPair,
    count_pairs,
    describe_windows,
    format_rate,
    table_cells,
)
from forensics.weekly.metrics import BROKER_SIGNALS
from forensics.weekly.pages.week_sections import COLOURS

ROWS, DRAWN, LISTED = 500, 12, 100
A, B = "#8a949f", "#0072B2"


def draw_comparison(found: Comparison, target: Path) -> Path:
    """Draw a comparison, and give the page's path."""
    title = "Two windows compared"
    return page.write_page(
        target,
        title,
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        tag("header", tag("h1", title)),
        tag(
            "main",
            _part("verdict", "Verdict", _verdict(found)),
            _part("counts", "Counts", _counts(found)),
            _part("findings", "Findings", _findings(found)),
        ),
        tag("footer", tag("p", "All times are UTC. A count for an hour is for an hour of which the "
                          "logs tell.")),
    )  # fmt: skip


def _part(id_: str, title: str, inside: Markup) -> Markup:
    heading = tag("h2", title, id=f"{id_}-title")
    return tag("section", heading, inside, id=id_, aria_labelledby=f"{id_}-title", tabindex=-1)


def _verdict(found: Comparison) -> Markup:
    judged = found.judgement
    badge = tag("span", judged.word, class_="badge")
    says = tag("p", badge, f" B beside A: {judged.why}.", class_="answer")
    windows = (tag("p", tag("b", name), f": {words}") for name, words in describe_windows(found))
    return tag("div", says, *windows, class_=f"verdict level-{COLOURS[judged.word]}")


def _brokers(found: Comparison) -> list[int]:
    return sorted({*found.a["brokers"], *found.b["brokers"]})


def _counts(found: Comparison) -> Markup:
    head = ("Count", *TABLE_HEAD[1:])
    cells = [table_cells(pair) for pair in count_pairs(found)]
    whole = table(head, cells, caption="Of the whole cluster", numbers=head[1:])
    brokers = _brokers(found)
    rows: list[list[Child]] = [
        [f"broker {broker}", *table_cells(pair)]
        for broker in brokers[:LISTED] for pair in count_pairs(found, broker) if any(pair.counts)
    ]  # fmt: skip
    if not rows:
        return whole
    each = table(("Broker", *head), rows, caption="By broker", numbers=head[1:])
    folded = tag("details", tag("summary", "Brokers as a table"), each)
    says = (
        "By broker, for each hour of which its logs tell: A grey, B blue; none where too few are."
    )
    return join([whole, figure("figure-pair", _drawing(found, brokers[:DRAWN]), says, folded)])


def _drawing(found: Comparison, brokers: Sequence[int]) -> Figure:
    """Draw a column for each signal, and two bars for each broker."""
    names = [f"broker {broker}" for broker in brokers]
    rows = [count_pairs(found, broker) for broker in brokers]
    layout: Figure = {
        "height": 80 + 44 * len(brokers), "showlegend": False, "barmode": "group", "bargap": 0.3,
        "margin": {"l": 8, "r": 8, "t": 44, "b": 30}, "hovermode": "closest", "dragmode": False,
        "font": {"family": FONT, "size": 11}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
        "annotations": [], "uirevision": "fixed",
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": B},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
    }  # fmt: skip
    traces: list[Figure] = []
    for at, signal in enumerate(BROKER_SIGNALS):
        number = "" if not at else str(at + 1)
        wide = 1 / len(BROKER_SIGNALS)
        layout[f"xaxis{number}"] = {
            "domain": [round(at * wide + 0.012, 4), round((at + 1) * wide - 0.012, 4)],
            "rangemode": "tozero", "fixedrange": True, "nticks": 3, "anchor": f"y{number}",
            "zeroline": False,
        }  # fmt: skip
        layout[f"yaxis{number}"] = {
            "type": "category", "autorange": "reversed", "fixedrange": True, "anchor": f"x{number}",
            "showticklabels": not at, "automargin": not at, "ticks": "",
        }  # fmt: skip
        first, _, rest = signal.title.partition(" ")
        layout["annotations"].append({
            "text": f"<b>{first}<br>{rest}</b>", "x": 0, "y": 1, "xref": f"x{number} domain",
            "yref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False,
            "align": "left", "yshift": 4,
        })  # fmt: skip
        mine = [row[at] for row in rows]
        traces += [_bars(names, mine, side, number) for side in (0, 1)]
    return {"data": traces, "layout": layout, "config": CONFIG | {"modeBarButtons": [["toImage"]]}}


def _bars(names: Sequence[str], mine: Sequence[CountPair], side: int, number: str) -> Figure:
    return {
        "type": "bar", "orientation": "h", "y": list(names),
        "x": [pair.rates[side] for pair in mine], "marker": {"color": (A, B)[side]},
        "customdata": [f"{'AB'[side]}, {name}: {pair.signal.title} "
                       f"{format_rate(pair.rates[side])} an hour"
                       for name, pair in zip(names, mine, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>", "xaxis": f"x{number}",
        "yaxis": f"y{number}",
    }  # fmt: skip


def _findings(found: Comparison) -> Markup:
    if not found.troubles:
        return tag("p", "No finding in either window.")
    rows = []
    for one in found.troubles[:ROWS]:
        badge = tag("span", one.group["severity"], class_="badge")
        what = tag("div", one.group["title"], tag("br"), tag("small", code(one.signature)))
        taken = "; accepted" if one.accepted else ""
        cells_: list[Child] = [badge, what, one.group["count"], one.state,
                               tag("span", f"{one.why}{taken}")]  # fmt: skip
        rows.append(TableRow(cells_, {"class_": f"level-{anchor(str(one.group['severity']))}"}))
    head = ("Level", "What", "Findings", "State", "Compared")
    listing = table(head, rows, caption="Findings of B beside those of A", numbers=head[2:3],
                    class_="troubles")  # fmt: skip
    left = len(found.troubles) - ROWS
    return join([listing, tag("p", f"And {left:,} more.") if left > 0 else None])
