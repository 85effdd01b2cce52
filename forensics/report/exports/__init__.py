"""A run in the formats of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from forensics.report.exports import (
    event_stream,
    grafana,
    junit,
    markdown,
    messages,
    prometheus,
)
from forensics.report.exports.tables import write_csv, write_parquet, write_views
from forensics.run_output.reader import RunOutput

# Formats that are one text, written piece by piece; the flag asks for more: of the timelines for
# single events, of the ticket for every finding in full.
TEXT_FORMATS: dict[str, Callable[[RunOutput, bool], Iterator[str]]] = {
    "markdown": markdown.write,
    "jsonl": event_stream.write_jsonl,
    "timesketch": event_stream.write_timesketch,
    "junit": junit.write,
    "slack": messages.write_slack,
    "webhook": messages.write_webhook,
    "grafana": grafana.write,
    "prometheus": prometheus.write,
    "sql": write_views,
}
# Formats that are a folder with a file a table.
FOLDER_FORMATS = {"csv": write_csv, "parquet": write_parquet}
