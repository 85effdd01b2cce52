"""The timeline for Timesketch: its three fields in every line, and the facts beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from forensics.lib.text_safety import visible
from forensics.report.exports.event_stream import iso_time, stream_events
from forensics.report.exports.jsonl import TIMES
from forensics.run_output.reader import RunOutput

# What the time of a row is the time of.
MEANS = {
    "finding": "Finding began",
    "leadership": "Leader epoch began",
    "isr": "In-sync replicas changed",
    "lanes": "State of node began",
    "cuts": "Log was cut",
    "breaches": "Contradiction",
    "events": "Line was logged",
}
# Names that mean something else to Timesketch.
OURS = {"time", "says", "what", "evidence"}


def write(run: RunOutput, events: bool) -> Iterator[str]:
    """Write each thing that has a time; a finding that ended has a second line for that."""
    for one in stream_events(run, events=events):
        if one["time"] is not None:
            yield _line(one, one["time"], MEANS[one["what"]])
        if one["what"] == "finding" and one.get("ended_at") is not None:
            yield _line(one, one["ended_at"], "Finding ended")


def _line(one: Mapping[str, Any], moment: int, means: str) -> str:
    facts = {name: value for name, value in one.items() if name not in OURS}
    row = {
        "message": visible(str(one["says"])),
        "datetime": str(iso_time(moment)).replace("Z", "000+00:00"),
        "timestamp_desc": means,
        "data_type": f"kafka:{one['what']}",
        **{name: iso_time(facts[name]) if name in TIMES else facts[name] for name in facts},
        "evidence": [f"{place['file']}:{place['line']}" for place in one["evidence"]],
        "tag": [tag for tag in (one.get("severity"), one.get("detector")) if tag],
    }
    return json.dumps(row) + "\n"
