"""Figure 9: which logs there are at which time, which are silent, and which are not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.formatting import count, duration, natural_key, time_text
from forensics.report import plotly_sheet, theme
from forensics.report.figures.partition_heatmap import encode_array
from forensics.report.html import Markup, figure, render_legend, table, tag
from forensics.report.time_bins import Ints, find_silences
from forensics.run_output.reader import Row, RunOutput

# In pixels: the first figure says what the others may be believed, and must not fill a screen.
TALLEST = 420

MOST, CELLS, LISTED = 200, 400, 200
LINES, SILENT, LACKING, DOWN = 3, 2, 1, 0
LOOKS = {
    LINES: ("#33658a", "lines"), SILENT: ("#e0b34a", "silent"),
    LACKING: ("rgba(128,136,145,0.25)", "no file"), DOWN: (theme.DARK, "the process was away"),
}  # fmt: skip


def render(run: RunOutput) -> Markup | None:
    """Draw each node's kinds of logs by time; None where no table tells of them."""
    whole = run.window
    columns = ["node", "log", "state", "started_at", "ended_at"]
    rows = run.rows("coverage", columns)
    if not whole or not any(row["log"] for row in rows):
        return None
    found = {(row["node"] or "node not known", row["log"]) for row in rows if row["log"]}
    names = sorted(found, key=lambda name: (natural_key(name[0]), name[1]))
    edges = np.linspace(*whole, CELLS + 1).astype(np.int64)
    cells = np.stack([_row(rows, node, log, edges) for node, log in names[:MOST]])
    sheet = plotly_sheet.Sheet([("", max(60, min(18 * len(cells), TALLEST)))], whole)
    labels = [f"{node} {log}" for node, log in names[:MOST]]
    sheet.add_trace(_trace(labels, cells, edges))
    sheet.update_yaxes(**plotly_sheet.name_axis(labels, 30))
    drawing = sheet.build(run.findings)
    shown = [LOOKS[code] for code in sorted(LOOKS, reverse=True) if (cells == code).any()]
    says = _says(run, len(names))
    return figure("figure-coverage", drawing, says, render_legend(shown), _table(run))


def _row(rows: Sequence[Row], node: str, log: str, edges: Ints) -> Ints:
    """Say of each stretch what there is; a stretch with any line is one with lines."""
    mine = [row for row in rows if (row["node"] or "node not known") == node]
    own = [row for row in mine if row["log"] == log]
    found = np.full(len(edges) - 1, LACKING, np.int64)
    spans = [_span(row, edges) for row in own if row["state"] == "covered"]
    if spans:
        # Between its first and its last line a log is there, whatever it says.
        found[min(a for a, _ in spans) : max(b for _, b in spans)] = SILENT
    told = [
        (row, LACKING if row["state"] in LACKING_STATES else SILENT)
        for row in mine
        if row["log"] in (None, log) and row["state"] not in ("covered", "down")
    ]
    for row, code in told:
        first, last = _span(row, edges)
        found[first:last] = code
    for row in mine:
        if row["state"] == "down" and row["log"] is None:
            first, last = _span(row, edges)
            found[first:last] = DOWN
    for first, last in spans:
        found[first:last] = LINES
    return found


def _span(row: Mapping[str, int | None], edges: Ints) -> tuple[int, int]:
    start = edges[0] if row["started_at"] is None else row["started_at"]
    end = edges[-1] if row["ended_at"] is None else row["ended_at"]
    first = int(np.clip(np.searchsorted(edges, start, "right") - 1, 0, len(edges) - 2))
    last = int(np.clip(np.searchsorted(edges, end, "left"), first + 1, len(edges) - 1))
    return first, last


def _trace(names: Sequence[str], cells: Ints, edges: Ints) -> plotly_sheet.Figure:
    scale: list[list[float | str]] = []
    for code in range(4):
        scale += [[code / 4, LOOKS[code][0]], [(code + 1) / 4, LOOKS[code][0]]]
    return {
        "type": "heatmap", "x": edges.tolist(), "y": plotly_sheet.escape_names(names),
        "z": encode_array(cells), "zmin": -0.5, "zmax": 3.5, "colorscale": scale,
        "showscale": False, "ygap": 2 if len(names) <= 40 else 0,
        "hovertemplate": "%{y}<br>%{x}<br>%{z} (3 lines, 2 silent, 1 no file, 0 away)"
                         "<extra></extra>",
    }  # fmt: skip


def _says(run: RunOutput, rows: int) -> str:
    gone = find_silences(run)
    more = f", the first {MOST} drawn" if rows > MOST else ""
    says = f"{count(rows, 'kind')} of logs by node{more}. "
    if not gone:
        return says + "No node is silent for unusually long between its lines."
    nodes = {node for node, *_ in gone}
    longest = max(gone, key=lambda one: one[2] - one[1])
    return says + (
        f"{count(len(nodes), 'node')} without logs at some time, longest {longest[0]} for "
        f"{duration(longest[2] - longest[1])} from {time_text(longest[1])} ({longest[3]})."
    )


def _table(run: RunOutput) -> Markup | None:
    gone = find_silences(run)
    if not gone:
        return None
    rows = [[node, time_text(start), time_text(end), duration(end - start), why]
            for node, start, end, why in gone[:LISTED]]  # fmt: skip
    listing = table(("Node", "From", "To", "For", "Why"), rows, caption="When nodes are silent")
    return tag("details", tag("summary", "Silences as a table"), listing)
