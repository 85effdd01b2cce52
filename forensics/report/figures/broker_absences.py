"""Figure 4: when each broker came back, after how long, and how much had moved meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from plotly import graph_objects as go

from forensics.lib.text_format import count, duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import lane_intervals, plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure
from forensics.run_output.broker_lifecycles import BrokerAbsence, BrokerLifecycle
from forensics.run_output.reader import RunOutput

MAX_BROKERS = 30
# In pixels: larger dots would hide those of the next row.
MAX_DOT = 28
MINUTE = 60_000
KIND_TEXTS = {"clean shutdown": "shut down cleanly", "crash": "crashed", "pause": "froze"}
Returns = list[tuple[BrokerLifecycle, list[BrokerAbsence]]]


def render(run: RunOutput, lifecycles: Sequence[BrokerLifecycle]) -> Markup | None:
    """Draw the returns of all brokers; None where no broker came back."""
    view, returns = lane_intervals.choose_view(run), find_returns(lifecycles)
    if not view or not returns:
        return None
    drawn = returns[:MAX_BROKERS]
    sheet = plotly_sheet.Sheet([("", 34 * len(drawn) + 20)], view)
    minutes = [_minutes(absence) for _, absences in returns for absence in absences]
    bounds = min(0.01, *minutes), max(1.0, *minutes)
    for row, (broker, absences) in enumerate(drawn):
        for is_planned in (False, True):
            if some := [absence for absence in absences if absence.is_planned == is_planned]:
                sheet.add_trace(_dots(broker, some, len(drawn) - 1 - row, bounds))
    sheet.update_yaxes(
        range=[-0.55, len(drawn) - 0.45], tickvals=list(range(len(drawn))), fixedrange=True,
        ticktext=[shown(broker.name) for broker, _ in reversed(drawn)], showgrid=True,
    )  # fmt: skip
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=False)
    return figure("figure-returns", drawing, _caption(returns))


def find_returns(lifecycles: Sequence[BrokerLifecycle]) -> Returns:
    """Choose the absences that ended, of each broker that has any, by the brokers' numbers."""
    ordered = sorted(lifecycles, key=lambda broker: lane_intervals.name_order(broker.name))
    returns = (
        (broker, [absence for absence in broker.absences if absence.length is not None])
        for broker in ordered
    )
    return [(broker, absences) for broker, absences in returns if absences]


def _minutes(absence: BrokerAbsence) -> float:
    return max(absence.length or 0, 10) / MINUTE


def _dots(
    broker: BrokerLifecycle, absences: Sequence[BrokerAbsence], row: int,
    bounds: tuple[float, float],
) -> go.Scatter:  # fmt: skip
    """Put dots into a row: higher is longer away, on a scale of powers of ten."""
    low, high = np.log10(bounds[0]), np.log10(bounds[1])
    heights = [(np.log10(_minutes(one)) - low) / (high - low) * 0.7 - 0.35 for one in absences]
    is_ring = absences[0].is_planned
    plain = is_ring or broker.broker is None
    lost = [absence.leaders[0] for absence in absences]
    return go.Scatter(
        mode="markers", cliponaxis=False, x=[absence.back_at for absence in absences],
        y=[round(row + float(height), 3) for height in heights],
        hovertemplate=plotly_sheet.HOVER,
        customdata=[_hover(broker, absence) for absence in absences],
        marker={
            "symbol": "circle-open" if is_ring else "circle", "opacity": 0.85,
            "color": theme.HATCH if plain else theme.broker_colour(broker.broker or 0),
            "size": [round(min(MAX_DOT, 8 + 1.6 * float(np.sqrt(many))), 1) for many in lost],
            "line": {"width": 2.5 if is_ring else 1, "color": theme.HATCH},
        },
    )  # fmt: skip


def _hover(broker: BrokerLifecycle, absence: BrokerAbsence) -> str:
    kind, back_at = KIND_TEXTS.get(absence.kind, absence.kind), time_text(absence.back_at)
    return (
        f"{shown(broker.name)} back at {back_at} after {duration(absence.length)} "
        f"({kind}); {count(absence.leaders[0], 'leadership')} lost in that time"
    )


def _caption(returns: Returns) -> str:
    unplanned = [
        (broker.name, some)
        for broker, absences in returns
        if (some := [absence for absence in absences if not absence.is_planned])
    ]
    unplanned.sort(key=lambda pair: -len(pair[1]))
    parts = [
        f"{name} left and returned {count(len(some), 'time')}"
        + (
            f" in {duration((some[-1].back_at or 0) - (some[0].left_at or 0))}"
            if len(some) > 1
            else ""
        )
        + f", away {duration(max(absence.length or 0 for absence in some))} at most; up to "
        f"{count(max(absence.leaders[0] for absence in some), 'leadership')} lost each time"
        for name, some in unplanned
    ]
    planned = sum(absence.is_planned for _, absences in returns for absence in absences)
    tail = f"{count(planned, 'return')} after a clean shutdown (rings)." if planned else ""
    more = f" and {count(len(parts) - 3, 'other broker')}" if len(parts) > 3 else ""
    text = f"{'; '.join(parts[:3])}{more}." if parts else "No broker left unplanned and came back."
    return (
        f"{text[0].upper()}{text[1:]} {tail} Higher is longer away, larger is more leaderships "
        "lost: a rolling restart looks like a staircase of rings, flapping like a row of dots."
    )
