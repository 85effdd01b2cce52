"""The timeline as JSON lines: one thing that happened a line, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator

from forensics.report.exports.event_stream import iso_time, stream_events
from forensics.run_output.reader import RunOutput

TIMES = ("time", "ended_at", "logged_at", "written_from", "written_to")


def write(run: RunOutput, events: bool) -> Iterator[str]:
    """Write findings and changes of state, and single events where they are asked for."""
    for one in stream_events(run, events=events):
        row = one | {name: iso_time(one[name]) for name in TIMES if name in one}
        # Kept to ASCII, so that nothing in it can move a terminal or turn a line around.
        yield json.dumps(row) + "\n"
