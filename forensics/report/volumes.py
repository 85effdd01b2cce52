"""How much is told at each time, what clients complain of, and who says nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.bins import Ints, coarser
from forensics.report.corrections import moments_of
from forensics.report.saved import Finding, Saved

__all__ = ["SILENT", "Volume", "holes", "silences", "volume"]

# Bars of counts are fewer than the cells of a heatmap: each costs what a whole row of cells does.
BARS = 150
SILENT = ("silent", "missing", "rotated", "hidden")
VERDICTS = ("stuck", "sustained", "transient", "other")


@dataclass(frozen=True)
class Volume:
    """Per stretch of time: how many facts were read, and how many errors of clients."""

    edges: Ints
    facts: Ints
    errors: Mapping[str, Ints]


def volume(saved: Saved, cells: Ints) -> Volume:
    """Count facts, and client errors by the verdict of their episode."""
    bars = coarser(cells, BARS)
    facts = np.zeros(len(bars) - 1, np.int64)
    errors = {name: np.zeros(len(bars) - 1, np.int64) for name in VERDICTS}
    stories: dict[str, list[Finding]] = {}
    for finding in saved.findings:
        for name in finding.clients if finding.detector == "stale-metadata" else ():
            stories.setdefault(name, []).append(finding)
    is_timed = ds.field("ts").is_valid()
    for part in saved.parts("events", ["ts", "node"], is_timed):
        facts += _counted(moments_of(part, saved.corrections), bars)
    complaints = is_timed & (ds.field("kind") == "client_error")
    for part in saved.parts("events", ["ts", "node", "client"], complaints):
        _take(part, moments_of(part, saved.corrections), stories, bars, errors)
    return Volume(bars, facts, {name: found for name, found in errors.items() if found.any()})


def _counted(times: Ints, bars: Ints) -> Ints:
    inside = times[(times >= bars[0]) & (times <= bars[-1])]
    places = np.minimum(np.searchsorted(bars, inside, "right") - 1, len(bars) - 2)
    return np.bincount(places, minlength=len(bars) - 1)


def _take(
    part: pa.Table, times: Ints, stories: Mapping[str, Sequence[Finding]], bars: Ints,
    errors: Mapping[str, Ints],
) -> None:  # fmt: skip
    """Put the errors of each client into their stretches, under the verdict of their episode."""
    names = pc.fill_null(pc.coalesce(part["client"].cast(pa.string()), part["node"]), "")
    clients = names.combine_chunks().dictionary_encode()
    places = clients.indices.to_numpy()
    for at, name in enumerate(clients.dictionary.to_pylist()):
        left = places == at
        for finding in stories.get(name, ()):
            start, end = finding.start or 0, finding.end if finding.end is not None else 1 << 62
            # Findings are cut to whole milliseconds, and errors too.
            hit = left & (times >= start - 1) & (times <= end + 1)
            verdict = str(finding.measures.get("verdict"))
            counts = errors[verdict if verdict in errors else "other"]
            counts += _counted(times[hit], bars)
            left &= ~hit
        counts = errors["other"]
        counts += _counted(times[left], bars)


def silences(saved: Saved) -> list[tuple[str, int, int, str]]:
    """Give who says nothing from when to when, and why, where the logs should go on."""
    whole = saved.window
    if not whole:
        return []
    columns = ["node", "log", "state", "started_at", "ended_at", "why"]
    rows = saved.rows("coverage", columns, ds.field("state").isin(list(SILENT)))
    found = [
        (str(row["node"] or "node not known"),
         whole[0] if row["started_at"] is None else max(whole[0], row["started_at"]),
         whole[1] if row["ended_at"] is None else min(whole[1], row["ended_at"]),
         str(row["why"] or row["state"]))
        for row in rows if row["log"] is None
    ]  # fmt: skip
    return sorted(one for one in found if one[1] < one[2])


def holes(saved: Saved, most: int = 20) -> list[tuple[int, int, float]]:
    """Give the longest stretches in which servers are silent, and which share of them is."""
    silent = silences(saved)
    servers = {row["node"] for row in saved.files if row["role"] in ("broker", "controller")}
    silent = [one for one in silent if one[0] in servers]
    if not silent:
        return []
    moments = sorted({side for _, start, end, _ in silent for side in (start, end)})
    found: list[tuple[int, int, float]] = []
    for start, end in zip(moments, moments[1:], strict=False):
        share = len({node for node, a, b, _ in silent if a <= start and end <= b}) / len(servers)
        if share and found and found[-1][1] == start and found[-1][2] == share:
            found[-1] = (found[-1][0], end, share)
        elif share:
            found.append((start, end, share))
    kept = sorted(found, key=lambda hole: hole[0] - hole[1])[:most]
    return sorted(kept)
