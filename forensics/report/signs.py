"""What clients could see of an incident: the warnings and errors of their own logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.corrections import moments_of
from forensics.report.saved import Saved

__all__ = ["Sign", "signs"]

COLUMNS = ("kind", "ts", "node", "client", "error", "level", "file", "line", "text", "rule")
LOUD = ("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL")
# A refused request is a sign at any level; what a client warns of at its start is none.
ERRORS = ("client_error",)
AT_START = ("client_setting_seen", "kafka_version")


@dataclass(frozen=True)
class Sign:
    """One line of one client that somebody could have noticed; time on the reference clock."""

    at: int
    client: str
    # the error's name, or the kind of event
    what: str
    row: dict[str, Any]


def signs(saved: Saved, since: int, till: int) -> list[Sign]:
    """Give each client's first sign within a stretch of time, in the order of time."""
    first: dict[str, Sign] = {}
    for part in saved.parts("events", COLUMNS, _loud(saved)):
        for sign in _within(saved, part, since, till):
            known = first.get(sign.client)
            if known is None or (sign.at, sign.row["line"]) < (known.at, known.row["line"]):
                first[sign.client] = sign
    return sorted(first.values(), key=lambda sign: (sign.at, sign.client))


def _loud(saved: Saved) -> ds.Expression:
    nodes = sorted({row["node"] for row in saved.files if row["role"] == "client" and row["node"]})
    kind = ds.field("kind")
    # A client's error is its own wherever it is logged; a warning only in a log of a client's.
    warned = ds.field("node").isin(pa.array(nodes, pa.string())) & ds.field("level").isin(
        list(LOUD)
    )
    return (kind.isin(list(ERRORS)) | warned) & ~kind.isin(list(AT_START))


def _within(saved: Saved, part: pa.Table, since: int, till: int) -> Iterator[Sign]:
    part = part.filter(pc.is_valid(part["ts"]))
    if not part.num_rows:
        return
    moments = moments_of(part, saved.corrections)
    inside = (moments >= since) & (moments <= till)
    rows = part.filter(pa.array(inside)).to_pylist()
    for at, row in zip(moments[inside].tolist(), rows, strict=True):
        name = row["client"] or row["node"] or "a client"
        yield Sign(at, name, row["error"] or str(row["kind"]).replace("_", " "), row)
