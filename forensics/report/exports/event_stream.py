"""Findings, changes of state and events of a run as one stream in the order of time.

It is written as JSON lines, and for Timesketch: that tool's three fields in every line, and the
facts beside them.
"""

from __future__ import annotations

import heapq
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from typing import IO, Any

from forensics.lib.text_safety import visible
from forensics.lib.time_units import MILLISECOND, to_iso
from forensics.run_output.reader import Row, RunOutput, SavedFinding
from forensics.schemas import BREACHES, CUTS, EVENTS, ISR, LANES, LEADERSHIP

StreamEvent = dict[str, Any]
# Rows that are sorted in memory; more go to temporary files.
MAX_ROWS_IN_MEMORY = 200_000
# Later than any time.
NO_TIME = 1 << 62
TIMES = ("time", "ended_at", "logged_at", "written_from", "written_to")
# What the time of a row means.
TIME_MEANINGS = {
    "finding": "Finding began",
    "leadership": "Leader epoch began",
    "isr": "In-sync replicas changed",
    "lanes": "State of node began",
    "cuts": "Log was cut",
    "breaches": "Contradiction",
    "events": "Line was logged",
}
# Fields that have another name, or another meaning, in Timesketch.
RENAMED_FIELDS = {"time", "says", "what", "evidence"}


@dataclass(frozen=True)
class Source:
    """A table whose rows go into the stream, each with a sentence."""

    table: str
    columns: Sequence[str]
    describe: Callable[[Row], str]
    time_column: str = "started_at"


def _partition(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _describe_leader(row: Row) -> str:
    leader, epoch = row["leader"], row["leader_epoch"]
    who = "the leader is not known" if leader is None else f"broker {leader} leads"
    who = "there is no leader" if leader == -1 else who
    unclean = " by an unclean election" if row["clean"] is False else ""
    since = "" if epoch is None else f" from leader epoch {epoch} on"
    return f"{_partition(row)}: {who}{since}{unclean}"


def _describe_isr(row: Row) -> str:
    isr = "not known" if row["isr"] is None else row["isr"]
    return f"{_partition(row)}: in sync are {isr}"


def _describe_lane(row: Row) -> str:
    return f"{row['role']} {row['node']}: {row['state']}"


def _describe_cut(row: Row) -> str:
    end = "an end not known" if row["log_end"] is None else row["log_end"]
    return f"{_partition(row)}: broker {row['broker']} cut its log from {end} to {row['cut_to']}"


def _describe_breach(row: Row) -> str:
    return f"{_partition(row)}: contradiction, {row['invariant']}: {row['detail']}"


def _describe_event(row: Row) -> str:
    return f"{row['node']}: {row['text'] or row['kind']}"


STATE_TABLES = (
    Source("leadership", LEADERSHIP.names, _describe_leader),
    Source("isr", ISR.names, _describe_isr),
    Source("lanes", LANES.names, _describe_lane),
    Source("cuts", CUTS.names, _describe_cut),
    Source("breaches", BREACHES.names, _describe_breach),
)
EVENT_TABLE = Source("events", EVENTS.names, _describe_event, "ts")


def stream_events(run: RunOutput, *, events: bool = False) -> Iterator[StreamEvent]:
    """Yield every finding and every change of state by corrected time; rows without a time last.

    Times are milliseconds of UTC. `events` adds every line that was read as an event.
    """
    rows = _read_all(run, (*STATE_TABLES, EVENT_TABLE) if events else STATE_TABLES)
    return _sort_by_time(rows)


def iso_time(ms: int | None) -> str | None:
    """Format a time as in findings.json."""
    return None if ms is None else to_iso(ms * MILLISECOND)


def _read_all(run: RunOutput, sources: Iterable[Source]) -> Iterator[StreamEvent]:
    yield from map(_from_finding, run.findings)
    for source in sources:
        have = set(source.columns).intersection(run.tables.column_names(source.table))
        for chunk in run.chunks(source.table, source.columns) if have else ():
            for row in chunk.to_pylist():
                yield _from_row(run, source, row)


def _from_finding(finding: SavedFinding) -> StreamEvent:
    evidence = [{"file": line.file, "line": line.line} for line in finding.evidence]
    facts: StreamEvent = {
        "id": finding.id, "detector": finding.detector, "severity": finding.severity,
        "confidence": finding.confidence, "ended_at": finding.end_ms,
        "brokers": list(finding.brokers), "partitions": list(finding.partitions),
        "clients": list(finding.clients),
    }  # fmt: skip
    return _stream_event(finding.start_ms, "finding", finding.title, facts, evidence)


def _from_row(run: RunOutput, source: Source, row: Row) -> StreamEvent:
    time = row.pop(source.time_column)
    evidence = row.pop("evidence", None) or []
    if source is EVENT_TABLE:
        evidence = [{"file": row.pop("file"), "line": row.pop("line")}]
        if time is not None:
            # Events carry the node's own time.
            row["logged_at"] = time
            time = run.correct_time(row["node"], time)
    sentence = source.describe(row)
    facts = {name: value for name, value in row.items() if value is not None}
    return _stream_event(time, source.table, sentence, facts, evidence)


def _stream_event(
    time: int | None, what: str, says: str, facts: Mapping[str, Any], evidence: list[Any]
) -> StreamEvent:
    given = {name: value for name, value in facts.items() if value not in ([], "")}
    return {"time": time, "what": what, "says": says, **given, "evidence": evidence}


def _sort_by_time(rows: Iterator[StreamEvent]) -> Iterator[StreamEvent]:
    """Sort any number of rows: in chunks, all but the last of which wait in files."""
    with ExitStack() as stack:
        chunks: list[Iterator[tuple[int, str]]] = []
        held: list[tuple[int, str]] = []
        for row in rows:
            held.append((NO_TIME if row["time"] is None else row["time"], json.dumps(row)))
            if len(held) == MAX_ROWS_IN_MEMORY:
                file = stack.enter_context(tempfile.TemporaryFile("w+", encoding="ascii"))
                chunks.append(_spill(file, held))
                held = []
        for _, text in heapq.merge(*chunks, sorted(held, key=itemgetter(0)), key=itemgetter(0)):
            yield json.loads(text)


def _spill(file: IO[str], held: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    file.writelines(f"{time}\t{text}\n" for time, text in sorted(held, key=itemgetter(0)))
    file.seek(0)
    pairs = (line.rstrip("\n").partition("\t") for line in file)
    return ((int(time), text) for time, _, text in pairs)


def write_jsonl(run: RunOutput, events: bool) -> Iterator[str]:
    """Write findings and changes of state, and single events if asked for."""
    for event in stream_events(run, events=events):
        row = event | {name: iso_time(event[name]) for name in TIMES if name in event}
        # ASCII only, so that no text can control a terminal.
        yield json.dumps(row) + "\n"


def write_timesketch(run: RunOutput, events: bool) -> Iterator[str]:
    """Write each row that has a time; a finding that ended has a second line for that."""
    for event in stream_events(run, events=events):
        if event["time"] is not None:
            yield _line(event, event["time"], TIME_MEANINGS[event["what"]])
        if event["what"] == "finding" and event.get("ended_at") is not None:
            yield _line(event, event["ended_at"], "Finding ended")


def _line(event: StreamEvent, time: int, meaning: str) -> str:
    facts = {name: value for name, value in event.items() if name not in RENAMED_FIELDS}
    row = {
        "message": visible(str(event["says"])),
        "datetime": str(iso_time(time)).replace("Z", "000+00:00"),
        "timestamp_desc": meaning,
        "data_type": f"kafka:{event['what']}",
        **{name: iso_time(facts[name]) if name in TIMES else facts[name] for name in facts},
        "evidence": [f"{line['file']}:{line['line']}" for line in event["evidence"]],
        "tag": [tag for tag in (event.get("severity"), event.get("detector")) if tag],
    }
    return json.dumps(row) + "\n"
