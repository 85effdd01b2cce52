"""The event stream as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from forensics.report.exports.event_stream import iso_time, stream_events
from forensics.run_output.reader import RunOutput

TIMES = ("time", "ended_at", "logged_at", "written_from", "written_to")


def write(run: RunOutput, events: bool) -> Iterator[str]:
    """Write findings and changes of state, and single events if asked for."""
    for event in stream_events(run, events=events):
        row = event | {name: iso_time(event[name]) for name in TIMES if name in event}
        # ASCII only, so that no text can control a terminal.
        yield json.dumps(row) + "\n"
