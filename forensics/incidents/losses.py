"""How many records an unclean election cost: bounds from log ends, high watermarks and cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forensics.incidents.case import Row
from forensics.incidents.checks import check_command
from forensics.incidents.finding import iso

__all__ = ["LOSS_COLUMNS", "LOSS_KINDS", "loss"]

LOSS_KINDS = (
    "partition_state",
    "log_loaded",
    "high_watermark_loaded",
    "isr_proposed",
    "truncated",
    "truncated_below_high_watermark",
    "fetch_reset",
)
LOSS_COLUMNS = (
    "topic", "partition", "kind", "ts", "node", "file", "line", "text", "rule", "telling", "broker",
    "leader", "leader_epoch", "log_end", "high_watermark", "cut_to",
)  # fmt: skip



def loss(
    election: Row, previous: int | None, events: Sequence[Row], brokers: Mapping[str, int]
) -> tuple[dict[str, Any], list[Row]]:
    """Bound what one partition lost; gives the measures and the lines they come from.

    `election` is the row of the unclean leader, `previous` the leader before, `events` those of the
    partition in order of time, `brokers` the broker of each node.
    """
    start, kept = election["started_at"], election["log_end"]
    old = [row for row in events if previous is not None and brokers.get(row["node"]) == previous]
    cut = _cut(old, start)
    own_end, seen_end, places = _old_end(old, start, cut)
    if previous == election["leader"]:
        # It comes back to lead what it led: its log is the one that is kept.
        own_end, cut = kept, None
    if cut is not None:
        places.append(cut)
        kept = cut["cut_to"] if kept is None else min(kept, cut["cut_to"])
    entry = _bounds(election, previous, kept, own_end, seen_end)
    entry |= _acknowledged(entry, old, None if cut is None else cut["at"])
    entry |= _window(entry, old, start)
    entry["manner"] = election.get("manner")
    entry["check"] = check_command(
        election["topic"], election["partition"], election["leader_epoch"]
    )
    tail = _tail(election, events, brokers)
    if tail and entry["lost_records_max"] is not None:
        # Records of the unclean leader's own term went at the next change of leader. Whether they
        # belong to this loss is open, so they widen the upper bound only.
        entry["also_cut"] = [row["entry"] for row in tail]
        entry["lost_records_max"] += sum(row["entry"]["records"] for row in tail)
        entry["acknowledged_max"] = entry["lost_records_max"]
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


def _acknowledged(entry: Row, old: Sequence[Row], cut_at: int | None) -> dict[str, Any]:
    """Bound how many of the lost records had been acknowledged.

    What lay below the old leader's high watermark was, to producers with acks=all too; with acks=1
    all of them may have been. Null: no line tells of a high watermark.
    """
    most, lost_from = entry["lost_records_max"], entry["lost_from"]
    marks = [
        row["high_watermark"]
        for row in old
        if row["high_watermark"] is not None
        and row["kind"] != "log_loaded"
        # After the cut it is about another history; the line that warns of it comes just before.
        and (cut_at is None or row["at"] <= cut_at)
    ]
    if lost_from is None or not marks:
        return {"acknowledged_min": None, "acknowledged_max": most}
    until = max(marks) if entry["lost_to"] is None else min(max(marks), entry["lost_to"])
    return {"acknowledged_min": max(0, until - lost_from), "acknowledged_max": most}


def _window(entry: Row, old: Sequence[Row], start: int) -> dict[str, Any]:
    """Say between which moments the old leader wrote what was lost, where its lines tell."""
    lost_from = entry["lost_from"]
    if lost_from is None or entry["lost_records_max"] == 0:
        return {"written_from": None, "written_to": None}
    short = [
        row["at"]
        for row in old
        if row["at"] <= start
        and _is_lead(row)
        and row["log_end"] is not None
        and row["log_end"] <= lost_from
    ]
    # The new leader leads from then on, and nobody writes to the old one.
    return {"written_from": iso(max(short)) if short else None, "written_to": iso(start)}


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
