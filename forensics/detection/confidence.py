"""Rules by which a finding is confirmed, likely or possible.

A line that states the fact makes it confirmed; what only follows from several lines is likely where
two nodes bear it out, and possible where one does. A hole in the logs of those nodes takes one step
away, and so does an order in time that the clocks cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forensics.detection.requirements import Visibility
from forensics.history.clocks.model import Clocks
from forensics.run_output.findings import CONFIDENCES


def rate_confidence(  # noqa: PLR0913
    clocks: Clocks,
    visibility: Visibility,
    begin: int,
    end: int,
    evidence: Iterable[Mapping[str, Any]],
    *,
    stated: bool,
    apart: int | None = None,
) -> tuple[str, str]:
    """Return the confidence of a finding and the reason for it.

    `stated`: a line of the evidence says it in so many words. `apart`: the finding rests on one
    thing having come before another, by so many microseconds.
    """
    nodes = sorted({node for row in evidence if (node := visibility.node_of(row["file"]))})
    step = CONFIDENCES.index("confirmed" if stated else "likely" if len(nodes) > 1 else "possible")
    basis = "Stated in" if stated else "Inferred from"
    reasons = [f"{basis} {_count_logs(len(nodes))}"]
    if apart is not None:
        uncertainty = _clock_uncertainty(clocks, nodes, begin)
        if uncertainty is None or uncertainty >= apart:
            step -= 1
            off = (
                "are not known"
                if uncertainty is None
                else f"may be off by {uncertainty // 1000} ms"
            )
            reasons.append(f"the order rests on {apart // 1000} ms, and the clocks {off}")
    hole = next(visibility.gaps(begin, end, nodes), None)
    if hole is not None:
        step -= 1
        reasons.append(f"the logs of {hole['node']} have a hole then ({hole['why']})")
    return CONFIDENCES[max(0, step)], "; ".join(reasons)


def _clock_uncertainty(clocks: Clocks, nodes: Sequence[str], moment: int) -> int | None:
    """Return how far two of these nodes' clocks may be apart; None if one of them is unknown."""
    if len(nodes) < 2:
        return 0 if nodes else None
    # Uncertainty is looked up by the time as logged.
    each = [clocks.uncertainty(node, 2 * moment - clocks.correct(node, moment)) for node in nodes]
    known = sorted(one for one in each if one is not None)
    return sum(known[-2:]) if len(known) == len(each) else None


def _count_logs(nodes: int) -> str:
    if not nodes:
        return "a log whose node is not known"
    return "the log of one node" if nodes == 1 else f"the logs of {nodes} nodes"
