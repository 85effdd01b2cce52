"""The figures of `_RESULT.json` as a few lines for the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forensics.lib.arrow_io import read_batches
from forensics.lib.formatting import format_bytes, quantity, rough_duration

_LINE_WORDS = {
    "records": "records",
    "continuation_lines": "continued",
    "blank_lines": "blank",
    "unparsed_lines": "unparsed",
    "duplicate_lines": "duplicate",
}
_HOLE_WORDS = {
    "missing": "nodes or logs missing",
    "rotated": "rotated away",
    "silent": "silences",
    "hidden": "where a level hides INFO",
}


def format_summary(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of a run that came to its end, a line for each."""
    for name, text in _rows(result):
        if text:
            yield f"{name:10} {text}"


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    archive, counts = result.get("archive", {}), result.get("lines", {})
    damaged = f", {result['damaged']:,} of them damaged" if result.get("damaged") else ""
    if archive:
        yield "read", f"{archive['files']:,} files, {format_bytes(archive['bytes'])}{damaged}"
        buckets = ", ".join(f"{counts.get(key, 0):,} {word}" for key, word in _LINE_WORDS.items())
        yield "lines", f"{archive['lines']:,}: {buckets}"
        yield "events", f"{archive['events']:,}"
    suppressed = f", {result['suppressed']} suppressed" if result.get("suppressed") else ""
    findings = [f"{count} {level}" for level, count in result.get("findings", {}).items() if count]
    yield "findings", (", ".join(findings) or "none") + suppressed
    yield "detectors", ", ".join(f"{n} {name}" for name, n in result.get("detectors", {}).items())
    if quality := result.get("quality"):
        failed = ", ".join(f"{count} {word}" for word, count in quality["failed"].items())
        text = f"gate {quality['gate']}; {quality['checks']} checks, {failed or 'all hold'}"
        yield "quality", text
    if coverage := result.get("coverage"):
        holes = ", ".join(f"{n:,} {_HOLE_WORDS[state]}" for state, n in coverage["holes"].items())
        nodes = quantity(coverage["nodes"], "node")
        yield "coverage", f"logs of {nodes}; holes: {holes or 'none'}"
    slow = [f"{name} {seconds:.1f} s" for name, seconds in result.get("slowest", {}).items()]
    yield "slowest", ", ".join(slow[:3])
    yield "memory", f"{result.get('peak_memory_mb', 0):,} MB at most"
    stages = result.get("seconds", {})
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.items())
    yield "time", f"{rough_duration(sum(stages.values()))}: {times}"


def summarise_coverage(tables: Path) -> dict[str, Any]:
    """Count the nodes that have logs, and the holes in these logs by their kind."""
    nodes, states = set(), Counter[str]()
    for batch in read_batches(tables / "coverage", ["node", "state"]):
        for row in batch.to_pylist():
            states[row["state"]] += 1
            if row["state"] not in ("missing", "down"):
                nodes.add(row["node"])
    holes = {state: states[state] for state in sorted(_HOLE_WORDS) if states[state]}
    return {"nodes": len(nodes), "holes": holes}
