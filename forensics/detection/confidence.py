"""How sure a finding is, by written rules: who says so, what was not seen, whose clock is off.

A line that states the fact makes it confirmed; what only follows from several lines is likely where
two nodes bear it out, and possible where one does. A hole in the logs of those concerned takes one
step away, and so does an order in time that the clocks cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forensics.detection.context import Case
from forensics.run_output.findings import CONFIDENCES

_MS = 1000


def sureness(  # noqa: PLR0913
    case: Case,
    begin: int,
    end: int,
    evidence: Iterable[Mapping[str, Any]],
    *,
    stated: bool,
    apart: int | None = None,
) -> tuple[str, str]:
    """Give the word and the reason.

    `stated`: a line of the evidence says it in so many words. `apart`: the finding rests on one
    thing having come before another, by so many microseconds.
    """
    nodes = sorted({node for one in evidence if (node := case.node_of(one["file"]))})
    step = CONFIDENCES.index("confirmed" if stated else "likely" if len(nodes) > 1 else "possible")
    told = "a line states it" if stated else "it follows from what the lines tell together"
    reasons = [f"{told}, and {_many(len(nodes))}"]
    if apart is not None:
        doubt = _doubt(case, nodes, begin)
        if doubt is None or doubt >= apart:
            step -= 1
            blur = "are not known" if doubt is None else f"may be off by {doubt // _MS} ms"
            reasons.append(f"{apart // _MS} ms lie between, and the clocks {blur}")
    hole = next(case.sight.holes(begin, end, nodes), None)
    if hole is not None:
        step -= 1
        reasons.append(f"logs of {hole['node']} have a hole there ({hole['why']})")
    return CONFIDENCES[max(0, step)], "; ".join(reasons)


def _doubt(case: Case, nodes: Iterable[str], at: int) -> int | None:
    """Give how far two of these nodes' clocks may be apart; null where one of them is not known."""
    nodes = list(nodes)
    if len(nodes) < 2:
        return 0 if nodes else None
    clocks = case.past.clocks
    # Doubt is asked for by the time as logged.
    doubts = [clocks.uncertainty(node, 2 * at - clocks.correct(node, at)) for node in nodes]
    known = sorted(doubt for doubt in doubts if doubt is not None)
    return sum(known[-2:]) if len(known) == len(doubts) else None


def _many(nodes: int) -> str:
    if not nodes:
        return "nobody knows which node wrote it"
    return "one node tells of it" if nodes == 1 else f"{nodes} nodes tell of it"
