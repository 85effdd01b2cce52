"""What a person reads when a run is over: its figures in a few lines, those of `_RESULT.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forensics.engine.progress import format_bytes, format_duration
from forensics.lib.arrow_io import read_batches

_WORDS = {
    "records": "records",
    "continuation_lines": "continued",
    "blank_lines": "blank",
    "unparsed_lines": "unparsed",
    "duplicate_lines": "duplicate",
}
_HOLES = {
    "missing": "nodes or logs missing",
    "rotated": "rotated away",
    "silent": "silences",
    "hidden": "where a level hides INFO",
}


def format_summary(result: Mapping[str, Any]) -> Iterator[str]:
    """Tell the figures of a run that came to its end, a line for each thing."""
    for name, text in _rows(result):
        if text:
            yield f"{name:10} {text}"


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    archive, counts = result.get("archive", {}), result.get("lines", {})
    damaged = f", {result['damaged']:,} of them damaged" if result.get("damaged") else ""
    if archive:
        yield "read", f"{archive['files']:,} files, {format_bytes(archive['bytes'])}{damaged}"
        buckets = ", ".join(f"{counts.get(key, 0):,} {word}" for key, word in _WORDS.items())
        yield "lines", f"{archive['lines']:,}: {buckets}"
        yield "events", f"{archive['events']:,}"
    found = {level: count for level, count in result.get("findings", {}).items() if count}
    hidden = f", {result['suppressed']} suppressed" if result.get("suppressed") else ""
    levels = ", ".join(f"{count} {level}" for level, count in found.items())
    yield "findings", (levels or "none") + hidden
    yield "detectors", ", ".join(f"{n} {name}" for name, n in result.get("detectors", {}).items())
    yield "quality", _quality(result.get("quality", {}))
    yield "coverage", _coverage(result.get("coverage", {}))
    slow = [f"{name} {taken:.1f} s" for name, taken in result.get("slowest", {}).items()]
    yield "slowest", ", ".join(slow[:3])
    yield "memory", f"{result.get('peak_memory_mb', 0):,} MB at most"
    seconds = result.get("seconds", {})
    stages = ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items())
    yield "time", f"{format_duration(sum(seconds.values()))}: {stages}"


def summarise_coverage(tables: Path) -> dict[str, Any]:
    """Count the nodes that there are logs of, and the holes in these logs by their kind."""
    nodes, states = set(), Counter[str]()
    for batch in read_batches(tables / "coverage", ["node", "state"]):
        for row in batch.to_pylist():
            states[row["state"]] += 1
            if row["state"] not in ("missing", "down"):
                nodes.add(row["node"])
    holes = {state: states[state] for state in sorted(_HOLES) if states[state]}
    return {"nodes": len(nodes), "holes": holes}


def _coverage(told: Mapping[str, Any]) -> str:
    if not told:
        return ""
    holes = ", ".join(f"{count:,} {_HOLES[state]}" for state, count in told["holes"].items())
    many = f"logs of {told['nodes']} node{'' if told['nodes'] == 1 else 's'}"
    return f"{many}; holes: {holes or 'none'}"


def _quality(told: Mapping[str, Any]) -> str:
    if not told:
        return ""
    failed = ", ".join(f"{count} {word}" for word, count in told["failed"].items())
    return f"gate {told['gate']}; {told['checks']} checks, {failed or 'all hold'}"
