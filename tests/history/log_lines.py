"""Reads the golden pairs' compact events, and writes rows as compactly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence, EvidenceRow
from forensics.history.nodes.startup_windows import STARTUP_KINDS, StartupWindows
from forensics.history.partitions.fold import FoldContext, fold_rows
from forensics.schemas import EVENTS

__all__ = ["NO_CLOCKS", "SECOND", "event", "fold", "given", "read", "told"]

SECOND = 1_000_000
NO_CLOCKS = Clocks({}, {}, ())
Row = dict[str, Any]

_SHORT = {
    "epoch": "leader_epoch",
    "version": "partition_epoch",
    "was": "previous_leader",
    "wasepoch": "previous_epoch",
    "end": "log_end",
    "term": "controller_epoch",
    "hw": "high_watermark",
    "cut": "cut_to",
}
_LISTS = {"alive", "isr", "replicas", "elr", "added", "removed", "bounced"}
_WORDS = {"telling", "recovery", "rule"}
_ABSENCE = re.compile(r"(\d+)\.\.(\d*) broker (\d+) (\w+)(?: fenced at (\d+))?")


def event(second: float, node: str, kind: str = "partition_state", **facts: Any) -> Row:
    """Make one event as the table of events holds it, time in microseconds."""
    row: Row = dict.fromkeys(EVENTS.names)
    file = f"{node}/state-change.log"
    line = int(second * 10)
    row |= {"kind": kind, "ts": int(second * SECOND), "node": node, "file": file, "line": line}
    row |= {"text": f"{node} at {second:g}: {kind}", "topic": "t", "partition": 0}
    digits = node.rpartition("-")[2]
    row["broker"] = int(digits) if node.startswith("broker-") else None
    return row | facts


def fold(rows: Iterable[Row], context: FoldContext) -> list[Row]:
    """Fold the events of one partition."""
    return list(fold_rows(rows, context))


def given(lines: Sequence[str]) -> tuple[list[Row], FoldContext]:
    """Read a golden pair's first half: the cluster, absences, events."""
    words, rows, away = ["zookeeper"], [], []
    for line in lines:
        if line.startswith("in "):
            words = line.split()[1:]
        elif found := _ABSENCE.fullmatch(line):
            away.append(_absence(found))
        else:
            rows.append(read(line))
    phases = StartupWindows.from_events(row for row in rows if row["kind"] in STARTUP_KINDS)
    elr = {"elr": True, "no-elr": False}.get(words[-1])
    kraft = words[0] == "kraft"
    known = FoldContext(NO_CLOCKS, phases, tuple(away), elr if kraft else False, kraft)
    return [row for row in rows if row["kind"] not in STARTUP_KINDS], known


def read(line: str) -> Row:
    """Read one compact event: second, node, perhaps a kind, facts."""
    second, node, *facts = line.split()
    kind = facts.pop(0) if facts and "=" not in facts[0] else "partition_state"
    pairs = dict(fact.split("=") for fact in facts)
    return event(
        float(second), node, kind, **{_SHORT.get(k, k): _value(k, v) for k, v in pairs.items()}
    )


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        return [int(one) for one in text.split(",") if one]
    return text if name in _WORDS else int(text)


def _absence(found: re.Match[str]) -> Absence:
    begin, end, broker, kind, fenced = found.groups()
    places: list[EvidenceRow] = []
    if fenced:
        at = int(fenced)
        places = [{"file": "c/controller.log", "line": at, "at": at * SECOND, "what": "fenced"}]
    ends = int(end) * SECOND if end else None
    return Absence(int(broker), kind, int(begin) * SECOND, ends, tuple(places))


def told(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Write rows of a fold as the second half of a golden pair does."""
    words = {"leadership": _epoch, "isr": _version, "breaches": _breach, "cuts": _cut}
    return tuple(words[row["table"]](row) for row in rows)


def _epoch(row: Mapping[str, Any]) -> str:
    clean = {True: "clean", False: "unclean", None: "clean?"}[row["clean"]]
    manner = f" ({row['manner']})" if row["manner"] else ""
    return (
        f"epoch {row['leader_epoch']}: leader {_or(row['leader'])}, {_span(row)}, "
        f"{row['election']}{manner}, {clean}, {row['how']}"
    )


def _version(row: Mapping[str, Any]) -> str:
    isr = "?" if row["isr"] is None else "{" + ",".join(str(one) for one in row["isr"]) + "}"
    return (
        f"version {_or(row['partition_epoch'])}: epoch {_or(row['leader_epoch'])}, "
        f"leader {_or(row['leader'])}, isr {isr}, {_span(row)}, {row['how']}"
    )


def _breach(row: Mapping[str, Any]) -> str:
    return f"breach: {row['detail']}" + (", told by one that hung" if row["alone"] else "")


def _cut(row: Mapping[str, Any]) -> str:
    unclean = {True: "unclean", False: "clean", None: "clean?"}[row["unclean"]]
    return (
        f"cut on {_or(row['broker'])}: from {row['cut_to']} to {_or(row['log_end'])}, "
        f"epoch {_or(row['leader_epoch'])} kept {_or(row['kept'])}, {unclean}"
    )


def _span(row: Mapping[str, Any]) -> str:
    return f"{_second(row['started_at'], '?')}..{_second(row['ended_at'], '')}"


def _second(micros: int | None, none: str) -> str:
    return none if micros is None else f"{micros / SECOND:g}"


def _or(value: int | None) -> str:
    return "?" if value is None else str(value)
