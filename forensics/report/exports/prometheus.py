"""The figures of a run, and of a week of a store, for node_exporter's textfile collector.

Text format 0.0.4 of Prometheus: gauges without times, each family once, with HELP and TYPE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from forensics.lib.text_safety import visible
from forensics.report.coverage_advice import ENDING_EARLY, HIDING_STATES, list_hidden_nodes
from forensics.run_output.findings import WORST_FIRST
from forensics.run_output.integrity import RESULT_FILE
from forensics.run_output.reader import RunOutput

PREFIX = "kafka_forensics_"
_VERDICTS = ("incident", "clear", "cannot_tell")
_WEEK_FILE = "week.json"
_HOUR_MS = 3_600_000


class Sample(NamedTuple):
    """One value of a family, with its labels."""

    value: float | None
    labels: Mapping[str, str] = {}


Family = tuple[str, str, list[Sample]]


def write(run: RunOutput, _flag: bool) -> Iterator[str]:
    """Write every family that has a value."""
    for name, text, samples in [*_findings(run), *_input(run), *_result(run), *_week(run)]:
        known = [sample for sample in samples if sample.value is not None]
        if not known:
            continue
        full = f"{PREFIX}{name}"
        yield f"# HELP {full} {escape_help(text)}\n# TYPE {full} gauge\n"
        for value, labels in known:
            yield f"{full}{_labels(labels)} {_number(value)}\n"


def escape_label(text: str) -> str:
    r"""Escape the value of a label; what no line may hold is shown by its code.

    >>> escape_label('a"b' + chr(92))
    'a\\"b\\\\'
    """
    shown = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return shown.replace("\n", "\\n")


def escape_help(text: str) -> str:
    """Escape the text of a HELP line."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{escape_label(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _number(value: float | None) -> str:
    assert value is not None
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def _findings(run: RunOutput) -> Iterator[Family]:
    verdict = run.document.get("verdict")
    yield (
        "verdict",
        "1 for the verdict of the last run, 0 for the others.",
        [Sample(int(verdict == one), {"verdict": one}) for one in _VERDICTS],
    )
    levels = [finding.severity for finding in run.findings]
    yield (
        "findings",
        "Findings by severity.",
        [Sample(levels.count(level), {"severity": level}) for level in WORST_FIRST],
    )
    kinds = sorted({finding.detector for finding in run.incidents})
    yield (
        "incident_findings",
        "Findings of severity medium or above by detector.",
        [
            Sample(sum(one.detector == kind for one in run.incidents), {"detector": kind})
            for kind in kinds
        ],
    )
    impact = run.document.get("impact") or {}
    for name, text in (
        ("partitions", "Partitions that the logs name."),
        ("partitions_unavailable", "Partitions that nobody could serve for a time, unplanned."),
        (
            "clients_affected",
            "Clients in trouble during outages, or by findings about them.",
        ),
        ("records_lost_min", "Records lost at least."),
        ("records_lost_max", "Records lost at most; absent where there is no bound."),
    ):
        yield name, text, [Sample(impact.get(name))]
    yield (
        "unavailable_partition_seconds",
        "Seconds of unplanned outage, over all partitions.",
        [Sample(impact.get("partition_seconds"))],
    )
    yield (
        "longest_outage_seconds",
        "The longest outage of one partition.",
        [Sample(impact.get("longest_s"))],
    )


def _input(run: RunOutput) -> Iterator[Family]:
    archive = run.document.get("archive") or {}
    for name, text in (
        ("files", "Files that were read."), ("bytes", "Bytes that were read."),
        ("lines", "Lines that were read."), ("events", "Events that the lines state."),
    ):  # fmt: skip
        yield f"input_{name}", text, [Sample(archive.get(name))]
    unparsed = sum(row["unparsed_lines"] for row in run.files)
    yield "input_unparsed_lines", "Lines in no known layout.", [Sample(unparsed)]
    hidden = list_hidden_nodes(run)
    yield (
        "nodes_without_logs",
        "Brokers and controllers whose logs hide what happened.",
        [
            Sample(len(hidden.get(words, ())), {"state": state})
            for state, words in (HIDING_STATES | {"ends_early": ENDING_EARLY}).items()
        ],
    )
    start, end = run.window or (None, None)
    edges = [(start, "start"), (end, "end")]
    yield (
        "logs_timestamp_seconds",
        "The times of the first and the last line.",
        [Sample(None if at is None else at / 1000, {"edge": edge}) for at, edge in edges],
    )
    quality = run.document.get("quality") or {}
    is_open = quality.get("gate")
    yield (
        "quality_gate_open",
        "1 where the checks of quality let the verdict stand.",
        [Sample(None if is_open is None else int(is_open != "closed"))],
    )
    asked = run.document.get("detectors") or ()
    states = sorted({str(row.get("status")) for row in asked})
    yield (
        "checks",
        "Checks by how they ended.",
        [
            Sample(sum(row.get("status") == state for row in asked), {"status": state})
            for state in states
        ],
    )


def _result(run: RunOutput) -> Iterator[Family]:
    """Give what only `_RESULT.json` says; a week of a store and a redacted copy have none."""
    result = _read(run, RESULT_FILE)
    yield (
        "exit_code",
        "How the last run ended; see docs/output.md.",
        [Sample(result.get("exit_code"))],
    )
    ended = None
    with suppress(ValueError, KeyError):
        ended = datetime.fromisoformat(str(result["ended"])).timestamp()
    yield "run_timestamp_seconds", "When the last run ended.", [Sample(ended)]
    seconds = result.get("seconds") or {}
    yield (
        "run_stage_seconds",
        "Seconds that each stage of the last run took.",
        [Sample(value, {"stage": stage}) for stage, value in sorted(seconds.items())],
    )
    peak = result.get("peak_memory_mb")
    yield (
        "run_peak_memory_bytes",
        "The most memory that the last run held.",
        [Sample(None if peak is None else peak * (1 << 20))],
    )


def _week(run: RunOutput) -> Iterator[Family]:
    """Give the signals of a week, where the folder is one of a store."""
    document = _read(run, _WEEK_FILE)
    week = document.get("week")
    if not isinstance(week, str):
        return
    yield "week_info", "The week that these figures are of.", [Sample(1, {"week": week})]
    signals = document.get("signals") or {}
    yield (
        "week_signal",
        "Signals of the week, for the whole cluster; absent where not known.",
        [
            Sample(value, {"signal": name})
            for name, value in sorted((signals.get("cluster") or {}).items())
        ],
    )
    yield (
        "week_broker_signal",
        "Signals of the week by broker.",
        [
            Sample(value, {"broker": broker, "signal": name})
            for broker, values in sorted((signals.get("brokers") or {}).items())
            for name, value in sorted(values.items())
        ],
    )
    yield (
        "week_covered_hours",
        "Hours of the week that the logs of a node cover.",
        [
            Sample(node["covered_ms"] / _HOUR_MS, {"node": name, "role": str(node["role"])})
            for name, node in sorted((document.get("nodes") or {}).items())
        ],
    )
    yield (
        "week_files_read_by_older_rules",
        "Files of the week read by older rules.",
        [Sample(len(document.get("older_rules") or ()))],
    )


def _read(run: RunOutput, name: str) -> dict[str, Any]:
    """Read a JSON object beside findings.json; empty if there is none."""
    path = run.folder / name
    if not path.is_file():
        return {}
    with suppress(ValueError, OSError):
        found = json.loads(path.read_text("utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
