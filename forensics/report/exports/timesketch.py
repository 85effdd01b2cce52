"""The event stream for Timesketch: its three fields in every line, and the facts beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from forensics.lib.text_safety import visible
from forensics.report.exports.event_stream import StreamEvent, iso_time, stream_events
from forensics.report.exports.jsonl import TIMES
from forensics.run_output.reader import RunOutput

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


def write(run: RunOutput, events: bool) -> Iterator[str]:
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
