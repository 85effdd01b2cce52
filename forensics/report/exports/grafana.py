"""Findings as annotations of Grafana: one body for `POST /api/annotations` a line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from forensics.lib.text_safety import visible
from forensics.report.headline import headline
from forensics.report.incident_span import incident_span
from forensics.run_output.reader import RunOutput, SavedFinding

TAG = "kafka-forensics"
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def write(run: RunOutput, _flag: bool) -> Iterator[str]:
    """Write the incident as a region, and each finding that has a time.

    Grafana draws what has `timeEnd` as a region, all else as a line; times are milliseconds of UTC,
    corrected by the clocks. Its text is HTML, so names are escaped.
    """
    span = incident_span(run)
    if span is not None:
        yield _line(span.start, span.end, headline(run), "incident", "summary")
    for one in sorted(run.findings, key=lambda one: (one.start_ms or 0, one.id)):
        if one.start_ms is not None:
            end = one.end_ms if one.end_ms is not None else run.logs_end
            yield _line(one.start_ms, end, _text(one), one.severity, one.detector, one.id)


def _line(start: int, end: int | None, text: str, *tags: str) -> str:
    shown = " ".join(visible(text).split()).translate(_MARKUP)
    body: dict[str, object] = {"time": start}
    if end is not None and end > start:
        body["timeEnd"] = end
    return json.dumps(body | {"tags": [TAG, *tags], "text": shown}) + "\n"


def _text(finding: SavedFinding) -> str:
    return f"{finding.title} ({finding.severity}, {finding.confidence}, {finding.id})"
