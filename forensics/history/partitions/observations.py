"""What lines log about one partition, and whether they were logged as it happened."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.lib.time_units import SECOND

# What a ZooKeeper controller before 1.1 decides, and then writes down without logging its version.
DECISION_KINDS = ("leader_first", "leader_selected")
# What a controller holds in its cache: the ISR there may be older than the leader's own.
_CACHED = "leaders_listed"
STATE_KINDS = ("partition_state", "recovering", "log_created", *DECISION_KINDS, _CACHED)
# All that is read of an event here: what is not named does not come along.
STATE_COLUMNS = (
    "topic", "partition", "topic_id", "kind", "ts", "node", "file", "line", "telling", "broker",
    "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "elr", "recovery",
    "previous_leader", "previous_epoch", "log_end", "high_watermark", "controller",
)  # fmt: skip
# A replica that is created is logged just before or after its state is.
_CREATED_NEAR = 10 * SECOND
# Requests number what registrations spell out.
_RECOVERY = {"0": "RECOVERED", "1": "RECOVERING"}

Row = Mapping[str, Any]
LateCheck = Callable[[Row, int], bool]


# Not frozen: that makes them, of which there are millions, three times as slow to make.
@dataclass(slots=True)
class Observation:
    """What one line logs about one partition; `at` is corrected."""

    at: int
    # whether it is no repetition of old news
    is_new: bool
    node: str
    file: str
    line: int
    kind: str
    leader: int | None
    leader_epoch: int | None
    partition_epoch: int | None
    isr: tuple[int, ...] | None
    replicas: tuple[int, ...] | None
    elr: tuple[int, ...] | None
    recovery: str | None
    previous_leader: int | None
    previous_epoch: int | None
    log_end: int | None
    high_watermark: int | None
    by_leader: bool
    topic_id: str | None = None
    # whether it was logged when it happened: it is new, and its node had not been away
    is_timely: bool = False

    @property
    def sort_key(self) -> tuple[int, str, int, str, str]:
        """Return the key that orders evidence: by time first, so that file names hardly matter."""
        return self.at, self.node, self.line, self.kind, self.file


Observations = Sequence[Observation]
# What `sort_key` returns, for whole lists.
SORT_KEY = attrgetter("at", "node", "line", "kind", "file")


def read_observations(
    rows: Iterable[Row], clocks: Clocks, startups: StartupWindows, is_late: LateCheck | None = None
) -> list[Observation]:
    """Read the events of one partition (STATE_KINDS) as observations, oldest first.

    `is_late` returns for a row and its corrected time whether it may log what its node missed.
    """
    created: list[tuple[str, int]] = []
    fresh: list[Row] = []
    lines: list[Observation] = []
    # There may be a million rows: each is let go once it is read, unless more must be known first.
    for row in rows:
        kind = row["kind"]
        if row["ts"] is None or (row["leader_epoch"] is None and kind in DECISION_KINDS):
            continue
        if kind == "log_created":
            created.append((row["node"], row["ts"]))
        elif row["telling"] == "fresh":
            fresh.append(row)
        else:
            lines.append(_read(row, clocks, is_late, is_new=_is_new(row, startups, ())))
    lines += [_read(row, clocks, is_late, is_new=_is_new(row, startups, created)) for row in fresh]
    return sorted(lines, key=SORT_KEY)


def _is_new(row: Row, startups: StartupWindows, created: Sequence[tuple[str, int]]) -> bool:
    telling, node, moment = row["telling"], row["node"] or "", row["ts"]
    if telling == "replay":
        return not startups.is_replaying(node, moment)
    if telling == "fresh":
        young = not (row["leader_epoch"] or row["partition_epoch"] or row["log_end"])
        if any(other == node and abs(at - moment) < _CREATED_NEAR for other, at in created):
            return young
        return young and not startups.is_starting(node, moment)
    return telling is None


def _read(row: Row, clocks: Clocks, is_late: LateCheck | None, *, is_new: bool) -> Observation:
    at = clocks.event_time(row)
    isr, replicas, elr = row["isr"], row["replicas"], row["elr"]
    # In the order of the fields: there are millions, and names take as long as all else.
    return Observation(
        at,
        is_new,
        row["node"] or "",
        row["file"],
        row["line"],
        row["kind"],
        row["leader"],
        row["leader_epoch"],
        row["partition_epoch"],
        None if isr is None or row["kind"] == _CACHED else tuple(sorted(set(isr))),
        None if replicas is None else tuple(replicas),
        None if elr is None else tuple(sorted(set(elr))),
        _RECOVERY.get(row["recovery"], row["recovery"]),
        row["previous_leader"],
        row["previous_epoch"],
        row["log_end"],
        row["high_watermark"],
        row["broker"] is not None and row["broker"] == row["leader"],
        row["topic_id"],
        is_new and not (is_late and is_late(row, at)),
    )


def has_moment_between(moments: Sequence[int], begin: int, end: int) -> bool:
    """Return True if one of some ordered moments lies between two, or is one of them."""
    index = bisect_left(moments, begin)
    return index < len(moments) and moments[index] <= end
