"""What the figures draw, computed from the tables without any drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.saved import Finding, Saved

__all__ = ["Lane", "client_errors", "debt", "gaps", "lanes", "stagger", "steps", "view"]

BINS = 180
POINTS = 1500
SECOND = 1000


@dataclass(frozen=True)
class Lane:
    """One stretch of one node's life."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int


def view(saved: Saved) -> tuple[int, int] | None:
    """Choose what the time axis shows first: the incident and a little around it, or all."""
    whole = saved.window
    if not whole:
        return None
    starts = [finding.start for finding in saved.incidents if finding.start is not None]
    if not starts:
        return whole
    ends = [finding.end or whole[1] for finding in saved.incidents if finding.start is not None]
    around = max((max(ends) - min(starts)) // 4, 15 * SECOND)
    return max(whole[0], min(starts) - around), min(whole[1], max(ends) + around)


def gaps(spans: Iterable[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    """Give the stretches of `whole` that no span covers.

    >>> gaps([(2, 4), (3, 6)], (0, 9))
    [(0, 2), (6, 9)]
    """
    holes, reached = [], whole[0]
    for start, end in sorted(spans):
        if start > reached:
            holes.append((reached, min(start, whole[1])))
        reached = max(reached, end)
    if reached < whole[1]:
        holes.append((reached, whole[1]))
    return [(start, end) for start, end in holes if start < end]


def lanes(saved: Saved, role: str) -> list[Lane]:
    """Read the lanes of brokers or controllers; what no line covers is there as unknown."""
    whole = saved.window
    if not whole:
        return []
    columns = ["node", "broker", "state", "started_at", "ended_at"]
    rows = saved.rows("lanes", columns, ds.field("role") == role)
    if role == "controller":
        # One lane for them all: only one node may lead at a time.
        rows = [row | {"name": "controller"} for row in rows if row["state"] == "active"]
    known: dict[str, list[Lane]] = {}
    for row in rows:
        name = row.get("name") or _name(row["broker"], row["node"])
        start, end = row["started_at"], row["ended_at"]
        lane = Lane(
            name,
            row["broker"],
            row["state"] or "unknown",
            whole[0] if start is None else start,
            whole[1] if end is None else end,
        )
        known.setdefault(name, []).append(lane)
    return [lane for name in sorted(known, key=_by_number) for lane in _filled(known[name], whole)]


def _name(broker: int | None, node: str | None) -> str:
    return f"broker {broker}" if broker is not None else (node or "node not known")


def _by_number(name: str) -> tuple[int, str]:
    number = name.rpartition(" ")[2]
    return (int(number) if number.isdigit() else 1 << 31, name)


def _filled(known: list[Lane], whole: tuple[int, int]) -> list[Lane]:
    holes = gaps(((lane.start, lane.end) for lane in known), whole)
    unknown = [Lane(known[0].name, None, "unknown", *hole) for hole in holes]
    return sorted([*known, *unknown], key=lambda lane: (lane.start, lane.end, lane.state))


def steps(spans: Iterable[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    """Count how many spans are open at each moment it changes.

    >>> steps([(1, 3), (1, 5)], (0, 9))
    [(0, 0), (1, 2), (3, 1), (5, 0), (9, 0)]
    """
    changes: Counter[int] = Counter({whole[0]: 0, whole[1]: 0})
    for start, end in spans:
        changes[max(start, whole[0])] += 1
        changes[min(end, whole[1])] -= 1
    level, out = 0, []
    for moment in sorted(changes):
        level += changes[moment]
        out.append((moment, level))
    return _thinned(out, whole)


def _thinned(points: list[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    if len(points) <= POINTS:
        return points
    # Of each slice the highest point stays, so a short peak never disappears.
    width = max(1, (whole[1] - whole[0]) // POINTS)
    best: dict[int, tuple[int, int]] = {}
    for moment, level in points:
        slot = moment // width
        if slot not in best or level > best[slot][1]:
            best[slot] = (moment, level)
    return [best[slot] for slot in sorted(best)]


def debt(saved: Saved) -> dict[str, list[tuple[int, int]]]:
    """Count partitions without a leader, and with fewer replicas in sync than they should have."""
    whole = saved.window
    if not whole:
        return {}
    times = ["started_at", "ended_at"]
    offline = saved.rows("leadership", times, ds.field("leader") == -1)
    if not {"isr", "replicas"} <= set(saved.columns("isr")):
        return {"no leader": steps(_spans(offline, whole), whole)}
    states = saved.table("isr", [*times, "isr", "replicas"])
    short = pc.less(pc.list_value_length(states["isr"]), pc.list_value_length(states["replicas"]))
    thin = states.filter(pc.fill_null(short, fill_value=False)).select(times).to_pylist()
    return {
        "no leader": steps(_spans(offline, whole), whole),
        "under-replicated": steps(_spans(thin, whole), whole),
    }


def _spans(rows: Iterable[dict[str, int | None]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    found = []
    for row in rows:
        start, end = row["started_at"], row["ended_at"]
        begun = whole[0] if start is None else start
        found.append((begun, max(begun, whole[1] if end is None else end)))
    return found


def client_errors(saved: Saved) -> tuple[int, dict[str, dict[int, int]]]:
    """Count client errors per bin and verdict; gives the bin width in milliseconds too."""
    shown = view(saved)
    if not shown:
        return SECOND, {}
    width = max(SECOND, -(-(shown[1] - shown[0]) // BINS // SECOND) * SECOND)
    table = saved.table("events", ["ts", "node", "client"], ds.field("kind") == "client_error")
    counted: dict[str, dict[int, int]] = {}
    for client, moment, number in _binned(table, saved.offsets, width):
        verdict = _verdict(saved.findings, client, moment, moment + width)
        bins = counted.setdefault(verdict, {})
        bins[moment] = bins.get(moment, 0) + number
    return width, counted


def _binned(
    table: pa.Table, offsets: dict[str, int], width: int
) -> list[tuple[str | None, int, int]]:
    out: Counter[tuple[str | None, int]] = Counter()
    if not table.num_rows:
        return []
    counts = table.group_by(["node", "client", "ts"]).aggregate([([], "count_all")])
    for row in counts.to_pylist():
        if row["ts"] is not None:
            # Events carry the node's own time; the figure is in the reference's.
            moment = (row["ts"] - offsets.get(row["node"] or "", 0)) // width * width
            out[row["client"] or row["node"], moment] += row["count_all"]
    return [(client, moment, number) for (client, moment), number in out.items()]


def _verdict(findings: Sequence[Finding], client: str | None, start: int, end: int) -> str:
    for finding in findings:
        if finding.detector != "stale-metadata" or client not in finding.clients:
            continue
        if (finding.start or 0) < end and (finding.end or end) >= start:
            return str(finding.measures.get("verdict") or "other")
    return "other"


def stagger(spans: Sequence[tuple[int, int]], apart: int) -> list[int]:
    """Give each span a row so that none of a row stand closer than `apart`.

    >>> stagger([(0, 4), (1, 2), (9, 9)], 2)
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for start, end in spans:
        row = next((at for at, last in enumerate(ends) if last + apart <= start), len(ends))
        ends[row : row + 1] = [max(end, start)]
        rows.append(row)
    return rows
