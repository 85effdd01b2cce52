"""Records that a replica cut off its log to follow a new leader: what only it had, and is gone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from forensics.history.clocks.model import Clocks
from forensics.history.partitions.observations import Observation
from forensics.lib.node_ids import broker_id

TRUNCATION_KINDS = ("truncated", "truncated_below_high_watermark", "log_loaded")
# A log warns of its high watermark in the same breath as it is cut.
_BREATH = 5_000_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Line:
    """One line about one replica's log; `at` is corrected."""

    at: int
    node: str
    kind: str
    cut_to: int | None
    log_end: int | None
    high_watermark: int | None
    place: Mapping[str, Any]


def find_truncations(
    rows: Iterable[Row], said: Sequence[Observation], epochs: Sequence[Row], clocks: Clocks
) -> Iterator[dict[str, Any]]:
    """Yield one row of CUTS for each log of a partition that was cut to follow another.

    `rows` are its events of CUT_KINDS, `said` its statements in the order of time, `epochs` its
    rows of LEADERSHIP.
    """
    lines = sorted(
        (
            _line(row, clocks)
            for row in rows
            if row["kind"] in TRUNCATION_KINDS and row["ts"] is not None
        ),
        key=lambda one: (one.at, one.node, one.place["line"], one.kind),
    )
    if not any(one.kind == "truncated" for one in lines):
        return
    known = _Known(said, lines, {row["leader_epoch"]: row for row in epochs})
    seen: set[tuple[str, int, int | None]] = set()
    for line in lines:
        # The same line stands in several copies of a log.
        key = (line.node, line.at, line.cut_to)
        if line.kind == "truncated" and line.cut_to is not None and key not in seen:
            seen.add(key)
            yield _cut(line, known)


class _Known:
    """What is known of a partition, so laid out that each cut finds its neighbours at once."""

    def __init__(
        self, said: Sequence[Observation], lines: Sequence[_Line], reigns: Mapping[int, Row]
    ) -> None:
        self.reigns = reigns
        self.leads = [
            one for one in said if one.by_leader and one.is_new and one.log_end is not None
        ]
        self._said: dict[str, list[Observation]] = defaultdict(list)
        self._lines: dict[tuple[str, str], list[_Line]] = defaultdict(list)
        for one in said:
            if one.leader_epoch is not None:
                self._said[one.node].append(one)
        for line in lines:
            self._lines[line.node, line.kind].append(line)

    def before(self, node: str, at: int) -> Iterator[Observation]:
        """What a node said of epochs up to a moment, the last first."""
        return _backwards(self._said.get(node, ()), at)

    def loaded(self, line: _Line) -> _Line | None:
        """The last time, before a cut, that the node said how long the log was at its start."""
        found = next(_backwards(self._lines.get((line.node, "log_loaded"), ()), line.at), None)
        return found if found is not None and found.log_end is not None else None

    def warned(self, line: _Line) -> _Line | None:
        """The line that warned, as it was cut, that this goes below the high watermark."""
        warnings = self._lines.get((line.node, "truncated_below_high_watermark"), ())
        for one in _backwards(warnings, line.at + _BREATH):
            if one.at < line.at - _BREATH:
                break
            if one.cut_to == line.cut_to:
                return one
        return None


Dated = TypeVar("Dated", Observation, _Line)


def _backwards(lines: Sequence[Dated], at: int) -> Iterator[Dated]:
    for place in range(bisect_right(lines, at, key=lambda one: one.at) - 1, -1, -1):
        yield lines[place]


def _line(row: Row, clocks: Clocks) -> _Line:
    return _Line(
        clocks.event_time(row),
        row["node"] or "",
        row["kind"],
        row["cut_to"],
        row["log_end"],
        row["high_watermark"],
        {"file": row["file"], "line": row["line"]},
    )


def _cut(line: _Line, known: _Known) -> dict[str, Any]:
    last = next((one for one in known.before(line.node, line.at) if one.log_end is not None), None)
    start = None if last is None or last.by_leader else last
    epoch = start.leader_epoch if start is not None else None
    reign = known.reigns.get(epoch) if epoch is not None else None
    end, end_place, written_to = _end(line, known.loaded(line), start)
    warned = known.warned(line)
    places = [line.place, *([end_place] if end_place else []), *([warned.place] if warned else [])]
    return {
        "table": "cuts",
        "leader_epoch": epoch,
        "leader": reign["leader"] if reign else None,
        "broker": broker_id(line.node),
        "started_at": line.at,
        "cut_to": line.cut_to,
        "log_end": end,
        "high_watermark": _high_watermark(start, warned),
        "kept": reign["log_end"] if reign else None,
        "unclean": _is_unclean(line, epoch, known),
        "written_from": _written_from(line, known, written_to),
        "written_to": written_to,
        "evidence": places,
    }


def _end(
    line: _Line, load: _Line | None, start: Observation | None
) -> tuple[int | None, Mapping[str, Any] | None, int]:
    """Say where the log ended before the cut, which line says so, and when it was that long."""
    place: Mapping[str, Any]
    if start is not None and (load is None or start.at >= load.at):
        end, at, place = start.log_end, start.at, {"file": start.file, "line": start.line}
        # A log that was loaded at this length was written before the process began.
        if load is not None and load.log_end == end:
            at = load.at
    elif load is not None:
        end, at, place = load.log_end, load.at, load.place
    else:
        return None, None, line.at
    if end is None or line.cut_to is None or end <= line.cut_to:
        return None, None, line.at
    return end, place, at


def _written_from(line: _Line, known: _Known, until: int) -> int | None:
    """Find the last moment at which a leader's log held none of the records that were cut."""
    cut_to = line.cut_to if line.cut_to is not None else 0
    return next(
        (one.at for one in _backwards(known.leads, until) if (one.log_end or 0) <= cut_to), None
    )


def _high_watermark(start: Observation | None, warned: _Line | None) -> int | None:
    if warned is not None:
        return warned.high_watermark
    return start.high_watermark if start is not None else None


def _is_unclean(line: _Line, epoch: int | None, known: _Known) -> bool | None:
    """Whether an unclean leader stands between what the replica held and what it follows now."""
    if epoch is None:
        return None
    earlier = (one.leader_epoch for one in known.before(line.node, line.at))
    # What it held belonged to the last epoch that it knew before this one.
    held = next((one for one in earlier if one is not None and one < epoch), epoch - 1)
    reigns = _between(known.reigns, range(held + 1, epoch + 1))
    clean = [None if one is None else one["clean"] for one in reigns]
    # An unclean leader's own records are part of its story too, once it has to cut them.
    own = known.reigns.get(held)
    mine = own is not None and own["clean"] is False and own["leader"] == broker_id(line.node)
    if mine or False in clean:
        return True
    # An epoch without a leader loses nothing, and is neither clean nor unclean.
    open_ones = [one for one in reigns if one is None or (one["clean"] is None)]
    return None if any(one is None or one["leader"] != -1 for one in open_ones) else False


def _between(reigns: Mapping[int, Row], epochs: range) -> list[Row | None]:
    """Give what is known of some leader epochs, and at least once that of one nothing is."""
    if len(epochs) <= len(reigns):
        return [reigns.get(one) for one in epochs]
    # Of so many epochs most are not known, and a number that is wrong may name billions.
    return [one for epoch, one in reigns.items() if epoch in epochs] + [None]
