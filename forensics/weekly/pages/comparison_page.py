"""Draws two windows beside each other, as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.report import page, theme
from forensics.report.html import (
    Child,
    Markup,
    TableRow,
    anchor,
    code,
    figure,
    join,
    note_left_out,
    section,
    table,
    tag,
    verdict_box,
)
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
from forensics.weekly.pages.week_view import VERDICT_LEVELS
from forensics.weekly.week_metrics import BROKER_SIGNALS

_MAX_FINDINGS, _MAX_DRAWN_BROKERS, _MAX_LISTED_BROKERS = 500, 12, 100
_A_COLOUR, _B_COLOUR = "#8a949f", "#0072B2"


def draw_comparison(comparison: Comparison, target: Path) -> Path:
    """Draw a comparison, and return the page's path."""
    title = "Two windows compared"
    return page.write_page(
        target,
        title,
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        tag("header", tag("h1", title)),
        tag(
            "main",
            section("verdict", "Verdict", _verdict(comparison)),
            section("counts", "Counts", _counts(comparison)),
            section("findings", "Findings", _findings(comparison)),
        ),
        tag("footer", tag("p", "All times are UTC. A count for an hour is for an hour of which the "
                          "logs tell.")),
    )  # fmt: skip


def _verdict(comparison: Comparison) -> Markup:
    word, why = comparison.verdict.word, comparison.verdict.why
    windows = (tag("p", tag("b", letter), f": {text}")
               for letter, text in describe_windows(comparison))  # fmt: skip
    return verdict_box(word, VERDICT_LEVELS[word], f"B beside A: {why}.", *windows)


def _counts(comparison: Comparison) -> Markup:
    head = ("Count", *TABLE_HEAD[1:])
    rows = map(table_cells, count_pairs(comparison))
    whole = table(head, rows, caption="Of the whole cluster", numbers=head[1:])
    broker_rows = [
        [f"broker {broker}", *table_cells(pair)]
        for broker in comparison.brokers[:_MAX_LISTED_BROKERS]
        for pair in count_pairs(comparison, broker)
        if any(pair.counts)
    ]
    if not broker_rows:
        return whole
    listing = table(("Broker", *head), broker_rows, caption="By broker", numbers=head[1:])
    folded = tag("details", tag("summary", "Brokers as a table"), listing)
    text = (
        "By broker, for each hour of which its logs tell: A grey, B blue; none where too few are."
    )
    return join([whole, figure("figure-pair", _draw_brokers(comparison), text, folded)])


def _draw_brokers(comparison: Comparison) -> Figure:
    """Draw a column for each signal, and two bars for each broker."""
    brokers = comparison.brokers[:_MAX_DRAWN_BROKERS]
    names = [f"broker {broker}" for broker in brokers]
    rows = [count_pairs(comparison, broker) for broker in brokers]
    layout: Figure = {
        "height": 80 + 44 * len(brokers), "showlegend": False, "barmode": "group", "bargap": 0.3,
        "margin": {"l": 8, "r": 8, "t": 44, "b": 30}, "hovermode": "closest", "dragmode": False,
        "font": {"family": FONT, "size": 11}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
        "annotations": [], "uirevision": "fixed",
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": _B_COLOUR},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
    }  # fmt: skip
    traces: list[Figure] = []
    width = 1 / len(BROKER_SIGNALS)
    for index, title in enumerate(BROKER_SIGNALS.values()):
        number = str(index + 1) if index else ""
        layout[f"xaxis{number}"] = {
            "domain": [round(index * width + 0.012, 4), round((index + 1) * width - 0.012, 4)],
            "rangemode": "tozero", "fixedrange": True, "nticks": 3, "anchor": f"y{number}",
            "zeroline": False,
        }  # fmt: skip
        layout[f"yaxis{number}"] = {
            "type": "category", "autorange": "reversed", "fixedrange": True, "anchor": f"x{number}",
            "showticklabels": not index, "automargin": not index, "ticks": "",
        }  # fmt: skip
        first, _, rest = title.partition(" ")
        layout["annotations"].append({
            "text": f"<b>{first}<br>{rest}</b>", "x": 0, "y": 1, "xref": f"x{number} domain",
            "yref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False,
            "align": "left", "yshift": 4,
        })  # fmt: skip
        column = [row[index] for row in rows]
        traces += [_draw_bars(names, column, side, number) for side in (0, 1)]
    return {"data": traces, "layout": layout, "config": CONFIG | {"modeBarButtons": [["toImage"]]}}


def _draw_bars(names: Sequence[str], pairs: Sequence[CountPair], side: int, number: str) -> Figure:
    rates = [pair.rates[side] for pair in pairs]
    return {
        "type": "bar", "orientation": "h", "y": list(names), "x": rates,
        "marker": {"color": (_A_COLOUR, _B_COLOUR)[side]},
        "customdata": [f"{'AB'[side]}, {name}: {pair.title} {format_rate(rate)} an hour"
                       for name, pair, rate in zip(names, pairs, rates, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>", "xaxis": f"x{number}",
        "yaxis": f"y{number}",
    }  # fmt: skip


def _findings(comparison: Comparison) -> Markup:
    findings = comparison.findings
    if not findings:
        return tag("p", "No finding in either window.")
    rows = []
    for finding in findings[:_MAX_FINDINGS]:
        group = finding.group
        accepted = "; accepted" if finding.accepted else ""
        cells: list[Child] = [
            tag("span", group["severity"], class_="badge"),
            tag("div", group["title"], tag("br"), tag("small", code(finding.signature))),
            group["count"],
            finding.state,
            tag("span", f"{finding.why}{accepted}"),
        ]
        rows.append(TableRow(cells, {"class_": f"level-{anchor(group['severity'])}"}))
    head = ("Level", "What", "Findings", "State", "Compared")
    listing = table(head, rows, caption="Findings of B beside those of A", numbers=head[2:3],
                    class_="troubles")  # fmt: skip
    return join([listing, note_left_out(len(findings) - _MAX_FINDINGS, "")])
