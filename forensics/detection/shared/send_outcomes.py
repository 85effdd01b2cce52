"""What became of records that producers sent while leaders moved: refused, unsure, given up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.shared.event_sessions import add_first
from forensics.lib.arrow_io import is_any_of

# After these nobody knows whether the broker wrote the batch.
_UNSURE = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
# A producer gave records up, in its own words or in those of its application.
_GIVEN_UP = ("send_failed", "produce_failed", "producer_force_closed", "client_closed_unsent")
_BY_APPLICATION = ("application_error",)
_EXPIRED = r"Expiring \d+ record|[Mm]essage timed out"
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "error", "topic")
# A moment is looked up in so many windows that begin before it.
_MAX_OPEN = 50


@dataclass
class SendWindow:
    """What the producers of a node said of some topics within a time."""

    node: str
    topics: Collection[str]
    begin: int
    end: int
    # until when batches that were made in that time may be given up
    expires: int
    unsure: int = 0
    given_up: int = 0
    lines: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Count a line, if it belongs here."""
        is_unsure = row["error"] in _UNSURE and row["kind"] == "client_error"
        if not self.begin <= row["at"] <= (self.end if is_unsure else self.expires):
            return
        if row["topic"] is not None and row["topic"] not in self.topics:
            return
        self.unsure += is_unsure
        self.given_up += not is_unsure
        add_first(self.lines, row, lambda line: (line["kind"] == "client_error", by_time(line)))


def count_send_outcomes(context: DetectionContext, windows: Sequence[SendWindow]) -> None:
    """Read what producers said, in one pass, and count it in the windows."""
    if not windows:
        return
    by_node: dict[str, list[SendWindow]] = {}
    for window in sorted(windows, key=lambda one: one.begin):
        by_node.setdefault(window.node, []).append(window)
    begins = {node: [one.begin for one in own] for node, own in by_node.items()}
    kind, error = pc.field("kind"), pc.field("error")
    where = (kind == "client_error") & error.isin(_UNSURE)
    where |= kind.isin(_GIVEN_UP)
    expired = pc.match_substring_regex(pc.field("detail"), _EXPIRED)
    where |= kind.isin(_BY_APPLICATION) & expired
    where &= is_any_of("node", by_node) & pc.field("ts").is_valid()
    for row in context.each("events", where, [*_COLUMNS, "detail"]):
        last = bisect_right(begins[row["node"]], row["at"])
        for window in by_node[row["node"]][max(0, last - _MAX_OPEN) : last]:
            window.add(row)
