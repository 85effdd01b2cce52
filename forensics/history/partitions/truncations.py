"""Records that a replica truncated to follow a new leader: only its log had them, they are lost."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.observations import Observation, Observations
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import SECOND

TRUNCATION_KINDS = ("truncated", "truncated_below_high_watermark", "log_loaded")
# A log warns about its high watermark just when it is truncated.
_WARNING_NEAR = 5 * SECOND

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _LogLine:
    """One line about one replica's log; `at` is corrected."""

    at: int
    node: str
    line: int
    kind: str
    file: str
    cut_to: int | None
    log_end: int | None
    high_watermark: int | None


def find_truncations(
    rows: Iterable[Row],
    observations: Observations,
    epochs: Sequence[Row],
    clocks: Clocks,
    absences: Sequence[Absence] = (),
) -> Iterator[dict[str, Any]]:
    """Yield one row of CUTS for each log of a partition that was truncated to follow another.

    `rows` are its events of TRUNCATION_KINDS, `observations` are in the order of time, `epochs` its
    rows of LEADERSHIP, `absences` those of its brokers. A line is of no replica where several
    brokers wrote to a file and nothing tells which of them wrote it.
    """
    lines = sorted(
        (
            _LogLine(
                clocks.event_time(row), row["node"] or "", row["line"], row["kind"], row["file"],
                row["cut_to"], row["log_end"], row["high_watermark"],
            )
            for row in rows
            if row["kind"] in TRUNCATION_KINDS and row["ts"] is not None and row["node"] is not None
        ),
        key=lambda line: (line.at, line.node, line.line, line.kind),
    )  # fmt: skip
    truncated = [line for line in lines if line.kind == "truncated" and line.cut_to is not None]
    if not truncated:
        return
    known = _Known(observations, lines, {row["leader_epoch"]: row for row in epochs}, absences)
    unique: dict[tuple[str, int, int | None], _LogLine] = {}
    for line in truncated:
        # The same line stands in several copies of a log.
        unique.setdefault((line.node, line.at, line.cut_to), line)
    yield from (_truncation_row(line, known) for line in unique.values())


class _Known:
    """What is known of a partition, indexed so that a truncation finds its neighbours at once."""

    def __init__(
        self,
        observations: Observations,
        lines: Sequence[_LogLine],
        epochs: Mapping[int, Row],
        absences: Sequence[Absence],
    ) -> None:
        self.epochs, self.absences = epochs, absences
        self.leader_ends = [
            one for one in observations if one.by_leader and one.is_new and one.log_end is not None
        ]
        self._observations: dict[str, list[Observation]] = defaultdict(list)
        self._lines: dict[tuple[str, str], list[_LogLine]] = defaultdict(list)
        for observation in observations:
            if observation.leader_epoch is not None:
                self._observations[observation.node].append(observation)
        for line in lines:
            self._lines[line.node, line.kind].append(line)

    def before(self, node: str, at: int) -> Iterator[Observation]:
        """Yield what a node logged of epochs up to a moment, the last first."""
        return _backwards(self._observations.get(node, ()), at)

    def load_before(self, line: _LogLine) -> _LogLine | None:
        """Return the last line, before a truncation, on how long the log was at its start."""
        load = next(_backwards(self._lines.get((line.node, "log_loaded"), ()), line.at), None)
        return load if load is not None and load.log_end is not None else None

    def held_by(self, node: str, at: int, epoch: int) -> Observation | None:
        """Return the line on the last epoch that a node knew before another one."""
        earlier = (one for one in self.before(node, at) if (one.leader_epoch or 0) < epoch)
        return next(earlier, None)

    def last_crash(self, brokers: Collection[int | None], begin: int, end: int) -> int | None:
        """Return until when one of some brokers may have lived that crashed between two moments."""
        deaths = (
            (one.begin_bracket or (one.begin, one.begin))[1]
            for one in self.absences
            if one.kind == "crash" and one.broker in brokers and one.begin >= begin
        )
        return max((at for at in deaths if at <= end), default=None)

    def warning_of(self, line: _LogLine) -> _LogLine | None:
        """Return the line that warned that a truncation goes below the high watermark."""
        warnings = self._lines.get((line.node, "truncated_below_high_watermark"), ())
        for warning in _backwards(warnings, line.at + _WARNING_NEAR):
            if warning.at < line.at - _WARNING_NEAR:
                break
            if warning.cut_to == line.cut_to:
                return warning
        return None


Dated = TypeVar("Dated", Observation, _LogLine)


def _backwards(lines: Sequence[Dated], at: int) -> Iterator[Dated]:
    """Yield the lines up to a moment, the last first."""
    for index in range(bisect_right(lines, at, key=lambda line: line.at) - 1, -1, -1):
        yield lines[index]


def _truncation_row(line: _LogLine, known: _Known) -> dict[str, Any]:
    last = next((one for one in known.before(line.node, line.at) if one.log_end is not None), None)
    start = None if last is None or last.by_leader else last
    epoch = start.leader_epoch if start is not None else None
    leadership = known.epochs.get(epoch) if epoch is not None else None
    end, written_to = _find_end(line, known.load_before(line), start)
    held = None if epoch is None else known.held_by(line.node, line.at, epoch)
    # They belong to an epoch before the one that it follows now: nobody wrote them after the leader
    # of that epoch, or this replica, had died.
    led = known.epochs.get(held.leader_epoch or 0) if held is not None else None
    brokers = {broker_id(line.node), led["leader"] if led else None}
    died = known.last_crash(brokers, held.at if held is not None else 0, written_to)
    written_to = written_to if died is None else died
    # The last moment at which the log of a leader of then held none of the truncated records.
    ends = (
        one
        for one in _backwards(known.leader_ends, written_to)
        if epoch is None or (one.leader_epoch or 0) < epoch
    )
    written_from = next((one.at for one in ends if (one.log_end or 0) <= (line.cut_to or 0)), None)
    warning = known.warning_of(line)
    watermarked = warning if warning is not None else start
    evidence = [one for one in (line, end, warning) if one is not None]
    return {
        "table": "cuts",
        "leader_epoch": epoch,
        "leader": leadership["leader"] if leadership else None,
        "broker": broker_id(line.node),
        "started_at": line.at,
        "cut_to": line.cut_to,
        "log_end": end.log_end if end is not None else None,
        "high_watermark": watermarked.high_watermark if watermarked is not None else None,
        "kept": leadership["log_end"] if leadership else None,
        "unclean": _is_unclean(line, epoch, known),
        "written_from": written_from,
        "written_to": written_to,
        "evidence": [{"file": one.file, "line": one.line} for one in evidence],
    }


def _find_end(
    line: _LogLine, load: _LogLine | None, start: Observation | None
) -> tuple[Observation | _LogLine | None, int]:
    """Return the line on where the log ended before a truncation, and since when it was so long."""
    end = load if start is None or (load is not None and start.at < load.at) else start
    if end is None or end.log_end is None or line.cut_to is None or end.log_end <= line.cut_to:
        return None, line.at
    # A log that was loaded at this length was written before the process began.
    return end, load.at if load is not None and load.log_end == end.log_end else end.at


def _is_unclean(line: _LogLine, epoch: int | None, known: _Known) -> bool | None:
    """Return True if an unclean leader lies between what the replica held and what it follows."""
    if epoch is None:
        return None
    # What it held belonged to the last epoch that it knew before this one.
    before = known.held_by(line.node, line.at, epoch)
    held = before.leader_epoch if before and before.leader_epoch is not None else epoch - 1
    rows = _rows_between(known.epochs, range(held + 1, epoch + 1))
    # An unclean leader's own records are part of its story too, once it has to truncate them.
    own = known.epochs.get(held)
    if own is not None and own["clean"] is False and own["leader"] == broker_id(line.node):
        return True
    if any(row is not None and row["clean"] is False for row in rows):
        return True
    # An epoch without a leader loses nothing, and is neither clean nor unclean.
    unknown = any(row is None or (row["clean"] is None and row["leader"] != -1) for row in rows)
    return None if unknown else False


def _rows_between(rows: Mapping[int, Row], epochs: range) -> list[Row | None]:
    """Return the rows of some leader epochs, and None, at least once, for unknown ones."""
    if len(epochs) <= len(rows):
        return [rows.get(epoch) for epoch in epochs]
    # Of so many epochs most are not known, and a number that is wrong may name billions.
    return [row for epoch, row in rows.items() if epoch in epochs] + [None]
