"""A run in the formats of other tools: one format a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from forensics.report.exports import jsonl, junit, markdown, timesketch
from forensics.report.exports.tables import write_csv, write_parquet
from forensics.run_output.reader import RunOutput

# Formats that are one text, written piece by piece; the flag asks for single events.
TEXT_FORMATS: dict[str, Callable[[RunOutput, bool], Iterator[str]]] = {
    "markdown": markdown.write,
    "jsonl": jsonl.write,
    "timesketch": timesketch.write,
    "junit": junit.write,
}
# Formats that are a folder with a file a table.
FOLDER_FORMATS = {"csv": write_csv, "parquet": write_parquet}
