"""Whether the logs reach far enough for their silence to mean something."""

from __future__ import annotations

import pyarrow.dataset as ds

from forensics.report.saved import Saved
from forensics.report.words import count, listed, share

__all__ = ["lacks", "tells_of_loss"]

# Below this share of understood lines, silence proves nothing.
ENOUGH = 0.95
# States of the table of coverage that hide what may have happened; who is silent hides nothing.
LACKING = {"missing": "missing", "rotated": "rotated away", "hidden": "without INFO"}
# Which detectors would have told of a loss.
LOSS = "unclean-election"


def tells_of_loss(saved: Saved) -> bool:
    """Whether a loss would have been seen: else that none was seen is no comfort."""
    if any(row["damaged"] for row in saved.files) or _unread(saved) > 1 - ENOUGH:
        return False
    asked = saved.document.get("detectors") or ()
    deaf = any(
        one.get("detector") == LOSS and one.get("status") in ("not_evaluable", "failed")
        for one in asked
    )
    return not deaf and not _holes(saved)


def lacks(saved: Saved) -> str:
    """Say what is missing, where too much is."""
    hurt = sum(1 for row in saved.files if row["damaged"])
    unread = _unread(saved)
    parts = [f"{count(hurt, 'file')} damaged" if hurt else ""]
    parts += [f"logs of {listed(nodes, 3)} {words}" for words, nodes in _holes(saved).items()]
    if unread > 1 - ENOUGH:
        whole = sum(row["lines"] for row in saved.files)
        lines = sum(row["unparsed_lines"] for row in saved.files)
        parts.append(f"{share(lines, whole)} of the lines in no known layout")
    if not saved.count("leadership", ds.field("how") == "observed"):
        parts.append("no line says who led any partition")
    return ", ".join(part for part in parts if part)


def _unread(saved: Saved) -> float:
    lines = sum(row["lines"] for row in saved.files)
    unread = sum(row["unparsed_lines"] for row in saved.files)
    return 1.0 if not lines else unread / lines


def _holes(saved: Saved) -> dict[str, list[str]]:
    """Name the brokers and controllers whose logs are missing, by what is wrong with them."""
    if not saved.has("coverage"):
        return {}
    here = ds.field("state").isin(list(LACKING)) & (ds.field("role") != "client")
    found: dict[str, set[str]] = {}
    for row in saved.rows("coverage", ("node", "state"), here):
        found.setdefault(LACKING[row["state"]], set()).add(str(row["node"]))
    return {words: sorted(nodes) for words, nodes in sorted(found.items())}
