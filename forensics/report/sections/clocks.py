"""How far the nodes' clocks are apart, and what that leaves undecided."""

from __future__ import annotations

from forensics.lib.text_format import count, duration, natural_key
from forensics.report.figures import clock_offsets
from forensics.report.html import Child, Markup, figure, join, table, tag
from forensics.run_output.reader import Row, RunOutput

TITLE = "Clocks"
COLUMNS = (
    "node", "offset_ms", "uncertainty_ms", "anchors", "zone_shift_minutes", "reference", "kind",
    "drift_ppm", "steps", "stretches",
)  # fmt: skip
HEAD = ("Node", "Offset", "Uncertainty", "Anchors", "Zone shift", "Course")


def render(run: RunOutput) -> Markup:
    """List every node's offset against the reference."""
    rows = sorted(run.rows("clocks", COLUMNS), key=lambda row: natural_key(row["node"] or ""))
    if not rows:
        return tag("p", "No two nodes' clocks could be compared; times are as logged.")
    listing = table(HEAD, map(_row, rows), caption="Clock offsets", numbers=HEAD[1:4])
    drawing = clock_offsets.draw_offsets(rows)
    if drawing is None:
        return join([tag("p", _caption(rows)), listing])
    return join([figure("figure-clocks", drawing, _caption(rows), listing), _courses(run, rows)])


def _courses(run: RunOutput, rows: list[Row]) -> Markup | None:
    """Draw the clocks that did not stay as they were, if there are any."""
    drawing = clock_offsets.draw_courses(rows, run.window)
    if drawing is None:
        return None
    moved = clock_offsets.find_moved_clocks(rows)
    texts = [f"{row['node']}: {_course(row)}" for row in moved[: clock_offsets.MAX_COURSES]]
    left = len(moved) - len(texts)
    more = f"; and {count(left, 'node')} more" if left else ""
    caption = "Clocks that drifted or were set, over the time of the logs. "
    return figure("figure-courses", drawing, f"{caption}{'; '.join(texts)}{more}.")


def _caption(rows: list[Row]) -> str:
    known = [row for row in rows if row["anchors"] or row["reference"]]
    offset = max((abs(row["offset_ms"] or 0) for row in known), default=0)
    uncertainty = max((row["uncertainty_ms"] or 0 for row in known), default=0)
    missing = len(rows) - len(known)
    tail = f" {count(missing, 'node')} could not be compared." if missing else ""
    return (
        f"Clocks are up to {duration(offset)} off the reference; times in the findings are "
        f"corrected. What lies closer together than {duration(2 * uncertainty)} on two nodes may "
        "have happened in the other order. Where a clock was set or drifts, the offset given is "
        f"the largest.{tail}"
    )


def _row(row: Row) -> list[Child]:
    zone, offset, uncertainty = (
        row[name] for name in ("zone_shift_minutes", "offset_ms", "uncertainty_ms")
    )
    return [
        row["node"] or "node not known",
        "not known" if offset is None else f"{offset:+,} ms",
        "not known" if uncertainty is None else f"{uncertainty:,} ms",
        count(row["anchors"] or 0),
        f"{zone:+} min" if zone else "none",
        _course(row),
    ]


def _course(row: Row) -> str:
    """Say in a few words what the clock did."""
    if row["reference"]:
        return "reference"
    if row["steps"]:
        return "; ".join(
            f"set {'forward' if step['ms'] > 0 else 'back'} by {duration(abs(step['ms']))}"
            for step in row["steps"]
        )
    if rate := row["drift_ppm"]:
        return f"drifts, {abs(rate) * 3.6:.0f} ms an hour too {'fast' if rate > 0 else 'slow'}"
    return "steady" if row["offset_ms"] is not None else ""
