"""How many records an unclean election cost: bounds from log ends, high watermarks and cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LOSS_KINDS", "loss"]

LOSS_KINDS = (
    "partition_state",
    "log_loaded",
    "high_watermark_loaded",
    "isr_proposed",
    "truncated",
    "fetch_reset",
)

Row = Mapping[str, Any]


def loss(
    election: Row, previous: int | None, events: Sequence[Row], brokers: Mapping[str, int]
) -> tuple[dict[str, Any], list[Row]]:
    """Bound what one partition lost; gives the measures and the lines they come from.

    `election` is the row of the unclean leader, `previous` the leader before, `events` those of the
    partition in order of time, `brokers` the broker of each node.
    """
    start, kept = election["started_at"], election["log_end"]
    old = [row for row in events if brokers.get(row["node"]) == previous]
    cut = _cut(old, start)
    own_end, seen_end, places = _old_end(old, start, cut)
    if previous == election["leader"]:
        # It comes back to lead what it led: its log is the one that is kept.
        own_end, cut = kept, None
    if cut is not None:
        places.append(cut)
        kept = cut["cut_to"] if kept is None else min(kept, cut["cut_to"])
    entry = _bounds(election, previous, kept, own_end, seen_end)
    tail = _tail(election, events, brokers)
    if tail and entry["lost_records_max"] is not None:
        # Records of the unclean leader's own term went at the next change of leader. Whether they
        # belong to this loss is open, so they widen the upper bound only.
        entry["also_cut"] = [row["entry"] for row in tail]
        entry["lost_records_max"] += sum(row["entry"]["records"] for row in tail)
        places += [row["place"] for row in tail]
    return entry, places


def _bounds(
    election: Row, previous: int | None, kept: int | None, own_end: int | None, seen_end: int | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "partition": f"{election['topic']}-{election['partition']}",
        "leader_epoch": election["leader_epoch"],
        "leader": election["leader"],
        "previous_leader": previous,
        "lost_from": kept,
        "lost_to": None,
        "lost_records_min": 0,
        "lost_records_max": None,
    }
    if kept is None:
        entry["note"] = "no line says where the new leader's log ended"
    elif own_end is not None:
        lost = max(0, own_end - kept)
        entry |= {"lost_to": max(own_end, kept), "lost_records_min": lost, "lost_records_max": lost}
    else:
        entry["lost_records_min"] = max(0, seen_end - kept) if seen_end is not None else 0
        entry["note"] = "no line says where the log of the leader before ended"
    return entry


def _old_end(
    old: Sequence[Row], start: int, cut: Row | None
) -> tuple[int | None, int | None, list[Row]]:
    """Find where the old leader's log ended: as it says on its return, or as last seen before.

    What it says after it cut its log, or after it leads again, is about another history.
    """
    leads = (row["at"] for row in old if row["at"] > start and _is_lead(row))
    until = min([*leads, *([cut["at"]] if cut else [])], default=None)
    here = [row for row in old if until is None or row["at"] <= until]
    back = [
        row
        for row in here
        if row["at"] >= start
        and row["log_end"] is not None
        and row["kind"] in ("log_loaded", "partition_state")
        and not _is_lead(row)
    ]
    seen = [row for row in here if _reach(row) is not None]
    best = max(seen, key=lambda row: (row["at"], _reach(row) or 0), default=None)
    first = back[0] if back else None
    places = [row for row in (best, first) if row is not None]
    return (
        first["log_end"] if first is not None else None,
        _reach(best) if best is not None else None,
        places,
    )


def _is_lead(row: Row) -> bool:
    leads = row["broker"] is not None and row["broker"] == row["leader"]
    return bool(leads and row["kind"] == "partition_state")


def _reach(row: Row) -> int | None:
    """The offset up to which a line proves that there were records."""
    if row["kind"] == "high_watermark_loaded":
        return _number(row["high_watermark"])
    return _number(row["log_end"]) if row["kind"] in ("partition_state", "isr_proposed") else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _cut(old: Sequence[Row], start: int) -> Row | None:
    """Find the line by which the old leader cut its log to follow the new one."""
    cuts = [
        row for row in old if row["at"] >= start and row["kind"] in ("truncated", "fetch_reset")
    ]
    return min(cuts, key=lambda row: row["at"], default=None)


def _tail(election: Row, events: Sequence[Row], brokers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Find what the unclean leader itself cut when the next leader took over."""
    epoch = election["leader_epoch"]
    mine = [row for row in events if brokers.get(row["node"]) == election["leader"]]
    follows = next(
        (
            row
            for row in mine
            if row["kind"] == "partition_state"
            and row["telling"] is None
            and row["log_end"] is not None
            and row["leader"] != election["leader"]
            and (row["leader_epoch"] or 0) == epoch + 1
        ),
        None,
    )
    if follows is None:
        return []
    for row in mine:
        later = row["kind"] == "truncated" and row["at"] >= follows["at"]
        if later and row["cut_to"] is not None and row["cut_to"] < follows["log_end"]:
            entry = {
                "from": row["cut_to"],
                "to": follows["log_end"],
                "records": follows["log_end"] - row["cut_to"],
                "leader_epoch": epoch + 1,
            }
            return [{"entry": entry, "place": row}]
    return []
