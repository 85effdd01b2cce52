"""The table of coverage: what each node's logs cover, and what is missing and matters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.coverage import TELLING, Coverage, Log, kind_of_log
from forensics.history.lanes import Absence
from forensics.tables import COVERAGE, scanned

__all__ = ["HOLES", "coverage_table", "named_nodes"]

Row = dict[str, Any]

# What `state` says: lines from then to then; and why there are none.
COVERED, DOWN, SILENT, MISSING, ROTATED, HIDDEN = (
    "covered", "down", "silent", "missing", "rotated", "hidden"
)  # fmt: skip
HOLES = (SILENT, MISSING, ROTATED, HIDDEN)

_WHY = {
    COVERED: None,
    DOWN: "the process was away",
    SILENT: "no line for far longer than is usual for this node",
    HIDDEN: "no line below WARN: a level hides INFO",
}
_LACKS = {
    "state-change": "no state-change.log: what this broker was told of leaders is not here",
    "server": "no server.log: what this process did, its starts and stops, is not here",
}
_NOBODY = "no log of this node, though others name it"
_NUMBER = re.compile(r"^(?P<base>.*\.log)\.(?P<number>\d{1,3})(?:\.(?:gz|zst|bz2|xz))?$")
_HOUR = re.compile(r"^(?P<base>.*\.log)\.(?P<day>\d{4}-\d\d-\d\d)-(?P<hour>\d\d)(?:\.gz)?$")
_NEAR = 2_000_000


def coverage_table(
    coverage: Coverage, away: Iterable[Absence], named: Mapping[str, str]
) -> pa.Table:
    """Give one row for each stretch of coverage and each hole; `named` are the nodes to expect."""
    gone: dict[str, list[Absence]] = {}
    for absence in away:
        gone.setdefault(f"broker-{absence.broker}", []).append(absence)
    rows: list[Row] = []
    for node in sorted({*coverage.nodes, *named}):
        logs = coverage.of(node)
        if not logs:
            rows.append(
                _row(node, named[node], None, MISSING, coverage.begin, coverage.end, _NOBODY)
            )
            continue
        for log in logs:
            rows += _of_log(log, coverage)
        rows += _holes_of(node, coverage, gone.get(node, ()))
    return pa.Table.from_pylist(rows, schema=COVERAGE)


def named_nodes(events: Path) -> dict[str, str]:
    """Read which brokers are named as leaders, in one streaming read of one column."""
    found: set[int] = set()
    for batch in scanned(events, ["leader"]):
        found.update(one for one in pc.unique(batch["leader"]).to_pylist() if one is not None)
    return {f"broker-{one}": "broker" for one in sorted(found) if one >= 0}


def _of_log(log: Log, coverage: Coverage) -> Iterator[Row]:
    """Cut the time of one log where it is silent for too long."""
    far = coverage.far(log.node)
    begin, evidence = log.first, [_place(*log.ends[0])]
    for one in sorted(log.silences, key=lambda silence: silence.begin):
        shared = any(low < one.end and one.begin < high for low, high in coverage.holes(log.node))
        if one.end - one.begin <= far or not shared:
            continue
        yield _row(log.node, log.role, log.kind, COVERED, begin, one.begin, None, log, evidence)
        begin, evidence = one.end, [_place(one.file, one.line)]
    evidence = [*evidence, _place(*log.ends[1])]
    yield _row(log.node, log.role, log.kind, COVERED, begin, log.last, None, log, evidence)
    if log.hides:
        why = _WHY[HIDDEN]
        yield _row(log.node, log.role, log.kind, HIDDEN, log.first, log.last, why, log, evidence)
    if log.kind in TELLING:
        # The JVM's log, for one, is written over in a ring.
        yield from _rotations(log)


def _holes_of(node: str, coverage: Coverage, gone: Sequence[Absence]) -> Iterator[Row]:
    logs = coverage.of(node)
    role, kinds = logs[0].role, {log.kind for log in logs}
    first, last = min(log.first for log in logs), max(log.last for log in logs)
    if "all" not in kinds:
        # A broker of its own writes every kind; a KRaft controller writes no state-change.log.
        wanted = ("state-change", "server") if role == "broker" else ("server",)
        for kind in wanted:
            if kind not in kinds:
                yield _row(node, role, kind, MISSING, first, last, _LACKS[kind])
    for begin, end in coverage.holes(node):
        places = [
            _place(one.file, one.line)
            for log in logs
            for one in log.silences
            if one.begin < end and begin < one.end
        ]
        down = any(
            absence.kind in ("crash", "controlled")
            and absence.begin <= begin + _NEAR
            and (absence.end is None or end <= absence.end + _NEAR)
            for absence in gone
        )
        state = DOWN if down else SILENT
        yield _row(node, role, None, state, begin, end, _WHY[state], None, places[:4])
    if not coverage.reaches_the_end(node) and not any(one.end is None for one in gone):
        why = "its logs end long before the others'"
        yield _row(node, role, None, MISSING, last, coverage.end, why)


def _rotations(log: Log) -> Iterator[Row]:
    """Find numbers and hours that are missing among the names of rotated files."""
    numbers: dict[tuple[str, str], dict[int, str]] = {}
    hours: dict[tuple[str, str], dict[int, str]] = {}
    for file in log.files:
        folder, _, name = file.rpartition("/")
        if found := _NUMBER.match(name):
            numbers.setdefault((folder, found["base"]), {})[int(found["number"])] = file
        elif found := _HOUR.match(name):
            hour = int(pa.scalar(found["day"]).cast(pa.date32()).value) * 24 + int(found["hour"])
            hours.setdefault((folder, found["base"]), {})[hour] = file
    for word, groups in (("number", numbers), ("hour", hours)):
        for (_, base), files in sorted(groups.items()):
            # An hour without a line has no file; only in the busiest log does that mean much.
            if word == "hour" and kind_of_log(base) not in ("server", "all"):
                continue
            known = sorted(files)
            for low, high in zip(known, known[1:], strict=False):
                if high - low > 1:
                    yield _missing_files(log, word, high - low - 1, files[low], files[high])


def _missing_files(log: Log, word: str, count: int, low: str, high: str) -> Row:
    older, newer = (high, low) if word == "number" else (low, high)
    many = f"{count} rotated {'file' if count == 1 else 'files'}"
    spans = log.spans
    begin, end = spans.get(older, (None, None))[1], spans.get(newer, (None, None))[0]
    why = f"{many} missing between {_name(older)} and {_name(newer)}, by their {word}s"
    return _row(log.node, log.role, log.kind, ROTATED, begin, end, why, None,
                [_place(older, 1), _place(newer, 1)])  # fmt: skip


def _name(file: str) -> str:
    return re.split(r"[/!]", file)[-1]


def _place(file: str, line: int) -> Row:
    return {"file": file, "line": line}


def _row(  # noqa: PLR0913, PLR0917
    node: str,
    role: str,
    kind: str | None,
    state: str,
    begin: int | None,
    end: int | None,
    why: str | None,
    log: Log | None = None,
    evidence: Sequence[Row] = (),
) -> Row:
    return {
        "node": node,
        "role": role,
        "log": kind,
        "state": state,
        "started_at": begin,
        "ended_at": end,
        "why": why,
        "files": len(log.files) if log else None,
        "records": log.records if log else None,
        "evidence": list(evidence),
    }
