"""Everything that happened, as one list in the order of time; as long as the tables are."""

from __future__ import annotations

import heapq
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import IO, Any

from forensics.lib.time_units import EPOCH
from forensics.run_output.reader import Finding, Row, RunOutput
from forensics.schemas import BREACHES, CUTS, EVENTS, ISR, LANES, LEADERSHIP

StreamEvent = dict[str, Any]
# So many are put in order in memory; more go to a file that is gone at the end.
HELD = 200_000


@dataclass(frozen=True)
class Source:
    """One table whose rows are things that happened."""

    table: str
    columns: Sequence[str]
    says: Callable[[Row], str]
    when: str = "started_at"


def _partition(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _leader(row: Row) -> str:
    leader, epoch = row["leader"], row["leader_epoch"]
    who = "the leader is not known" if leader is None else f"broker {leader} leads"
    who = "there is no leader" if leader == -1 else who
    unclean = " by an unclean election" if row["clean"] is False else ""
    since = "" if epoch is None else f" from leader epoch {epoch} on"
    return f"{_partition(row)}: {who}{since}{unclean}"


def _isr(row: Row) -> str:
    known = row["isr"]
    return f"{_partition(row)}: in sync are {'not known' if known is None else known}"


def _lane(row: Row) -> str:
    return f"{row['role']} {row['node']}: {row['state']}"


def _cut(row: Row) -> str:
    ends = "an end not known" if row["log_end"] is None else row["log_end"]
    return f"{_partition(row)}: broker {row['broker']} cut its log from {ends} to {row['cut_to']}"


def _breach(row: Row) -> str:
    return f"{_partition(row)}: contradiction, {row['invariant']}: {row['detail']}"


def _event(row: Row) -> str:
    return f"{row['node']}: {row['text'] or row['kind']}"


STATES = (
    Source("leadership", LEADERSHIP.names, _leader),
    Source("isr", ISR.names, _isr),
    Source("lanes", LANES.names, _lane),
    Source("cuts", CUTS.names, _cut),
    Source("breaches", BREACHES.names, _breach),
)
LINES = Source("events", EVENTS.names, _event, "ts")


def stream_events(run: RunOutput, *, events: bool = False) -> Iterator[StreamEvent]:
    """Give every finding and every change of state by its time; what has no time comes first.

    Times are milliseconds of UTC by the corrected clock. `events` gives every line that was read
    as a fact, too.
    """
    every = _all(run, (*STATES, LINES) if events else STATES)
    return _in_order(every)


def iso_time(ms: int | None) -> str | None:
    """Write a moment as findings.json does."""
    if ms is None:
        return None
    text = (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _all(run: RunOutput, sources: Iterable[Source]) -> Iterator[StreamEvent]:
    for finding in run.findings:
        yield _found(finding)
    for source in sources:
        have = [name for name in source.columns if name in run.column_names(source.table)]
        for part in run.chunks(source.table, source.columns) if have else ():
            for row in part.to_pylist():
                yield _happened(run, source, row)


def _found(finding: Finding) -> StreamEvent:
    places = [{"file": proof.file, "line": proof.line} for proof in finding.evidence]
    facts: StreamEvent = {
        "id": finding.id, "detector": finding.detector, "severity": finding.severity,
        "confidence": finding.confidence, "ended_at": finding.end_ms,
        "brokers": list(finding.brokers), "partitions": list(finding.partitions),
        "clients": list(finding.clients),
    }  # fmt: skip
    return _row(finding.start_ms, "finding", finding.title, facts, places)


def _happened(run: RunOutput, source: Source, row: Row) -> StreamEvent:
    moment = row.pop(source.when)
    if source is LINES and moment is not None:
        # Events carry the node's own time.
        row["logged_at"] = moment
        moment = run.correct_time(row["node"], moment)
    places = row.pop("evidence", None) or []
    if source is LINES:
        places = [{"file": row.pop("file"), "line": row.pop("line")}]
    says = source.says(row)
    facts = {name: value for name, value in row.items() if value is not None}
    return _row(moment, source.table, says, facts, places)


def _row(
    moment: int | None, what: str, says: str, facts: Mapping[str, Any], places: list[Any]
) -> StreamEvent:
    told = {name: value for name, value in facts.items() if value not in ([], "")}
    return {"time": moment, "what": what, "says": says, **told, "evidence": places}


def _in_order(every: Iterator[StreamEvent]) -> Iterator[StreamEvent]:
    """Sort any number of rows: chunks in memory, and all but the last of them in files."""
    with ExitStack() as stack:
        chunks: list[Iterator[tuple[int, str]]] = []
        held: list[tuple[int, str]] = []
        for one in every:
            held.append((-1 if one["time"] is None else one["time"], json.dumps(one)))
            if len(held) == HELD:
                spill = stack.enter_context(tempfile.TemporaryFile("w+", encoding="ascii"))
                chunks.append(_spilled(spill, held))
                held = []
        for _, text in heapq.merge(*chunks, sorted(held, key=itemgetter(0)), key=itemgetter(0)):
            row: StreamEvent = json.loads(text)
            yield row


def _spilled(spill: IO[str], held: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    spill.writelines(f"{moment}\t{text}\n" for moment, text in sorted(held, key=itemgetter(0)))
    spill.seek(0)
    pairs = (line.rstrip("\n").partition("\t") for line in spill)
    return ((int(moment), text) for moment, _, text in pairs)
