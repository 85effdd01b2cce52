"""Figure 9: which logs there are at which time, which are silent, and which are not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from plotly import graph_objects as go

from forensics.history.log_coverage import LACKING_STATES
from forensics.lib.text_format import count, duration, natural_key, time_text
from forensics.report import plotly_sheet, theme
from forensics.report.html import Markup, figure, render_legend, table, tag
from forensics.report.time_bins import Ints, find_silences
from forensics.run_output.reader import Row, RunOutput

# In pixels: the first figure says what the others may be believed, and must not fill a screen.
MAX_HEIGHT = 420
MAX_LOGS, CELLS, MAX_ROWS = 200, 400, 200
# Stands where the kind of a log does.
NO_LOGS = "(no logs)"
MISSING, LINES, SILENT, LACKING, DOWN = 4, 3, 2, 1, 0
LOOKS = {
    MISSING: ("var(--critical)", "no log of a broker or controller that others name"),
    LINES: ("var(--solid)", "lines"), SILENT: ("var(--silent)", "silent"),
    LACKING: (theme.LACKING, "no file"), DOWN: (theme.NONE, "the process was away"),
}  # fmt: skip


def render(run: RunOutput) -> Markup | None:
    """Draw each node's kinds of logs by time; None where no table tells of them."""
    window = run.window
    columns = ["node", "role", "log", "state", "started_at", "ended_at"]
    rows = run.rows("coverage", columns)
    if not window or not any(row["log"] for row in rows):
        return None
    logs = {(_node(row), row["log"]) for row in rows if row["log"]}
    # Of whom there is nothing at all stands first.
    missing = {
        (_node(row), NO_LOGS)
        for row in rows
        if row["state"] == "missing" and row["role"] != "client"
    }
    missing = {log for log in missing if log[0] not in {node for node, _ in logs}}
    drawn = sorted(
        missing | logs, key=lambda log: (log not in missing, natural_key(log[0]), log[1])
    )
    drawn = drawn[:MAX_LOGS]
    edges = np.linspace(*window, CELLS + 1).astype(np.int64)
    cells = np.stack([_cells(rows, node, log, edges) for node, log in drawn])
    sheet = plotly_sheet.Sheet([("", max(60, min(18 * len(cells), MAX_HEIGHT)))], window)
    names = [f"{node} {log}" for node, log in drawn]
    sheet.add_trace(_trace(names, cells, edges))
    sheet.update_yaxes(**plotly_sheet.name_axis(names, 30))
    legend = [LOOKS[code] for code in LOOKS if (cells == code).any()]
    silences = find_silences(run)
    return figure(
        "figure-coverage", sheet.build(run.findings), _caption(silences, len(logs)),
        render_legend(legend), _table(silences),
    )  # fmt: skip


def _node(row: Row) -> str:
    return row["node"] or "node not known"


def _cells(rows: Sequence[Row], node: str, log: str, edges: Ints) -> Ints:
    """Return what there is in each cell; a cell with any line is one with lines."""
    of_node = [row for row in rows if _node(row) == node]
    if log == NO_LOGS:
        return np.full(len(edges) - 1, MISSING, np.int64)
    cells = np.full(len(edges) - 1, LACKING, np.int64)
    covered = [_cell_range(row, edges) for row in of_node
               if row["log"] == log and row["state"] == "covered"]  # fmt: skip
    if covered:
        # Between its first and its last line a log is there, whatever it says.
        cells[min(first for first, _ in covered) : max(last for _, last in covered)] = SILENT
    for row in of_node:
        if row["log"] in (None, log) and row["state"] not in ("covered", "down"):
            first, last = _cell_range(row, edges)
            cells[first:last] = LACKING if row["state"] in LACKING_STATES else SILENT
    for row in of_node:
        if row["state"] == "down" and row["log"] is None:
            first, last = _cell_range(row, edges)
            cells[first:last] = DOWN
    for first, last in covered:
        cells[first:last] = LINES
    return cells


def _cell_range(row: Mapping[str, int | None], edges: Ints) -> tuple[int, int]:
    start = edges[0] if row["started_at"] is None else row["started_at"]
    end = edges[-1] if row["ended_at"] is None else row["ended_at"]
    first = int(np.clip(np.searchsorted(edges, start, "right") - 1, 0, len(edges) - 2))
    last = int(np.clip(np.searchsorted(edges, end, "left"), first + 1, len(edges) - 1))
    return first, last


def _trace(names: Sequence[str], cells: Ints, edges: Ints) -> go.Heatmap:
    many = len(LOOKS)
    scale = [[side / many, LOOKS[code][0]] for code in range(many) for side in (code, code + 1)]
    return go.Heatmap(
        x=edges.tolist(), y=plotly_sheet.escape_names(names), z=cells, zmin=-0.5, zmax=many - 0.5,
        colorscale=scale, ygap=2 if len(names) <= 40 else 0,
        meta={"words": {str(code): words for code, (_, words) in LOOKS.items()}},
        hovertemplate="%{y}<br>%{x}<br>%{text}<extra></extra>",
    )  # fmt: skip


def _caption(silences: Sequence[tuple[str, int, int, str]], logs: int) -> str:
    more = f", the first {MAX_LOGS} drawn" if logs > MAX_LOGS else ""
    text = f"{count(logs, 'kind')} of logs by node{more}. "
    if not silences:
        return text + "No node is silent for unusually long between its lines."
    nodes = {node for node, *_ in silences}
    node, start, end, why = max(silences, key=lambda silence: silence[2] - silence[1])
    return text + (
        f"{count(len(nodes), 'node')} without logs at some time, longest {node} for "
        f"{duration(end - start)} from {time_text(start)} ({why})."
    )


def _table(silences: Sequence[tuple[str, int, int, str]]) -> Markup | None:
    if not silences:
        return None
    rows = [[node, time_text(start), time_text(end), duration(end - start), why]
            for node, start, end, why in silences[:MAX_ROWS]]  # fmt: skip
    listing = table(("Node", "From", "To", "For", "Why"), rows, caption="When nodes are silent")
    return tag("details", tag("summary", "Silences as a table"), listing)
