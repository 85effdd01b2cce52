"""What lines say about one partition, and whether they tell its moment or only its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.startup_windows import StartupWindows

STATE_KINDS = ("partition_state", "recovering", "log_created")
# All that is read of an event here: what is not named does not come along.
STATE_COLUMNS = (
    "topic", "partition", "kind", "ts", "node", "file", "line", "telling", "broker", "leader",
    "leader_epoch", "partition_epoch", "isr", "replicas", "elr", "recovery", "previous_leader",
    "previous_epoch", "log_end", "high_watermark",
)  # fmt: skip
LateCheck = Callable[[Mapping[str, Any], int], bool]

# A replica that is created says so just before or after it says what it is.
_CREATED_NEAR = 10_000_000


# Requests number what registrations spell out.
_RECOVERY = {"0": "RECOVERED", "1": "RECOVERING"}


@dataclass(frozen=True, slots=True)
class Observation:
    """One line's word on one partition; `at` is corrected, and `news` says whether it counts."""

    at: int
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
    # whether it came when it happened: news, and its speaker had not been away
    is_timely: bool = False

    @property
    def sort_key(self) -> tuple[int, str, int, str, str]:
        """How evidence is ordered: by time first, so that file names hardly ever matter."""
        return self.at, self.node, self.line, self.kind, self.file


def read_observations(
    rows: Iterable[Mapping[str, Any]],
    clocks: Clocks,
    phases: StartupWindows,
    is_late: LateCheck | None = None,
) -> list[Observation]:
    """Read the events of one partition (FOLD_KINDS) as statements, oldest first.

    `is_late` says of a row and its corrected time whether it may tell what its node missed.
    """
    created: list[tuple[str, int]] = []
    fresh: list[Mapping[str, Any]] = []
    said: list[Observation] = []
    # There may be a million rows: each is let go once it is read, unless more must be known first.
    for row in rows:
        if row["ts"] is None:
            continue
        if row["kind"] == "log_created":
            created.append((row["node"], row["ts"]))
        elif row["telling"] == "fresh":
            fresh.append(row)
        else:
            said.append(_statement(row, clocks, is_late, news=_is_news(row, phases, ())))
    said += [_statement(row, clocks, is_late, news=_is_news(row, phases, created)) for row in fresh]
    return sorted(said, key=lambda one: (one.at, one.node, one.line, one.kind, one.file))


def _is_news(
    row: Mapping[str, Any], phases: StartupWindows, created: Sequence[tuple[str, int]]
) -> bool:
    telling, node, moment = row["telling"], row["node"] or "", row["ts"]
    if telling == "replay":
        return not phases.is_replaying(node, moment)
    if telling == "fresh":
        young = not (row["leader_epoch"] or row["partition_epoch"] or row["log_end"])
        if any(one == node and abs(at - moment) < _CREATED_NEAR for one, at in created):
            return young
        return young and not phases.is_starting(node, moment)
    return telling is None


def _statement(
    row: Mapping[str, Any], clocks: Clocks, is_late: LateCheck | None, *, news: bool
) -> Observation:
    node, at = row["node"] or "", clocks.event_time(row)
    return Observation(
        at=at,
        is_new=news,
        node=node,
        file=row["file"],
        line=row["line"],
        kind=row["kind"],
        leader=row["leader"],
        leader_epoch=row["leader_epoch"],
        partition_epoch=row["partition_epoch"],
        isr=_ids(row["isr"], order=False),
        replicas=_ids(row["replicas"]),
        elr=_ids(row["elr"], order=False),
        recovery=_RECOVERY.get(row["recovery"], row["recovery"]),
        previous_leader=row["previous_leader"],
        previous_epoch=row["previous_epoch"],
        log_end=row["log_end"],
        high_watermark=row["high_watermark"],
        by_leader=row["broker"] is not None and row["broker"] == row["leader"],
        is_timely=news and not (is_late and is_late(row, at)),
    )


def _ids(values: Sequence[int] | None, *, order: bool = True) -> tuple[int, ...] | None:
    if values is None:
        return None
    return tuple(values) if order else tuple(sorted(set(values)))
