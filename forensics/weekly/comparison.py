"""Compares any two windows: weeks of a store, stretches of its time, or saved postmortems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from forensics.errors import ForensicsError
from forensics.lib.intervals import Interval
from forensics.lib.storage import display, is_remote
from forensics.lib.text_format import parse_millis, span_text
from forensics.lib.text_safety import visible
from forensics.run_output.reader import open_run
from forensics.run_output.remote_folder import local_folder
from forensics.weekly.coverage_normalisation import format_count
from forensics.weekly.iso_week import Week, week_of
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.recurrence import TrackedFinding, compare_sizes, merge_groups, why_not_visible
from forensics.weekly.week_metrics import BROKER_SIGNALS, CLUSTER_SIGNALS
from forensics.weekly.week_summary import NodeSummary, WeekSummary, summarise_window
from forensics.weekly.week_verdict import WeekVerdict, compare_weeks

TABLE_HEAD = ("", "A", "B", "A an hour", "B an hour")
# A terminal is no page.
_MAX_FINDING_LINES = 40


class CountPair(NamedTuple):
    """One signal in both windows: counted, and for each covered hour; None if it is not known."""

    signal: str
    title: str
    counts: tuple[float | None, float | None]
    rates: tuple[float | None, float | None]


@dataclass(frozen=True)
class Comparison:
    """Two windows, A and B, and what B is like beside A."""

    a: WeekSummary
    b: WeekSummary
    verdict: WeekVerdict
    findings: Sequence[TrackedFinding]

    @property
    def brokers(self) -> list[int]:
        """The brokers of either window."""
        return sorted({*self.a.brokers, *self.b.brokers})


def load_window(text: str, store: Path | None = None) -> WeekSummary:
    """Sum up what a person has named: 2026-W46, FROM..TO, OUT or OUT@FROM..TO."""
    folder, at, window = text.rpartition("@")
    if at and ".." in window:
        return _summarise_output(local_folder(folder), _parse_window(window), display(text))
    if is_remote(text) or (Path(text) / "findings.json").is_file():
        return _summarise_output(local_folder(text), None, display(text))
    if store is None:
        raise ForensicsError(
            f"{text} is no output folder of a postmortem. Name two such folders, or OUT@FROM..TO; "
            "with --store STORE name weeks, as 2026-W46, or FROM..TO."
        )
    window_ms = _parse_window(text) if ".." in text else Week.parse(text).window_ms
    return _summarise_weeks(store, window_ms, text)


def _summarise_output(out: Path, window: Interval | None, name: str) -> WeekSummary:
    run = open_run(out)
    if window is None:
        if run.window is None:
            raise ForensicsError(
                f"{out}: no line in it has a time, so there is nothing to compare."
            )
        # The last moment of the logs belongs to them.
        window = run.window[0], run.window[1] + 1
    return summarise_window(run, window, name)


def _summarise_weeks(store: Path, window: Interval, name: str) -> WeekSummary:
    """Sum up a stretch of a store's time, week by week: each week has tables of its own."""
    first, last = (week_of(moment * 1000).number for moment in (window[0], window[1] - 1))
    parts = []
    for week in map(Week, range(first, last + 1)):
        folder = store / "weeks" / str(week)
        if not (folder / "findings.json").is_file():
            weeks = sorted(path.parent.name for path in store.glob("weeks/*/findings.json"))
            known = f"it has {weeks[0]} to {weeks[-1]}" if weeks else "it has no week"
            raise ForensicsError(f"{store} has no week {week}; {known}.")
        begin, end = week.window_ms
        part = max(window[0], begin), min(window[1], end)
        parts.append(summarise_window(open_run(folder), part, name))
    return reduce(join_windows, parts)


def _parse_window(text: str) -> Interval:
    start, end = (parse_millis(part) for part in text.split("..", 1))
    if start is None or end is None:
        example = "2026-11-10T00:00..2026-11-12T00:00"
        raise ForensicsError(f"{text}: write a stretch of time as {example}, in UTC.")
    if start >= end:
        raise ForensicsError(f"{text}: it begins no earlier than it ends; exchange the two.")
    return start, end


def join_windows(first: WeekSummary, second: WeekSummary) -> WeekSummary:
    """Join the summaries of two windows of which the second follows the first."""
    brokers = [one.signals["brokers"] for one in (first, second)]
    nodes: dict[str, NodeSummary] = {}
    for name in sorted({*first.nodes, *second.nodes}):
        parts = [one.nodes[name] for one in (first, second) if name in one.nodes]
        nodes[name] = {**parts[0], "covered_ms": sum(part["covered_ms"] for part in parts)}
    blind = {
        name: outcome
        for name, outcome in first.detectors.items()
        if outcome["status"] in ("not_evaluable", "failed")
    }
    return replace(
        first,
        window=[first.window[0], second.window[1]],
        findings=list(merge_groups([*first.findings, *second.findings], NO_NOTES).values()),
        levels=dict(Counter(first.levels) + Counter(second.levels)),
        nodes=nodes,
        brokers=sorted({*first.brokers, *second.brokers}),
        signals={
            "brokers": {
                name: _add_counts(*(each.get(name, {}) for each in brokers))
                for name in sorted({*brokers[0], *brokers[1]})
            },
            "cluster": _add_counts(first.signals["cluster"], second.signals["cluster"]),
        },
        detectors=second.detectors | blind,
        # Two sets of rules are a third one.
        rules=first.rules if first.rules == second.rules else [first.rules, second.rules],
    )


def _add_counts(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Add counts up; what is not known of one half is not known of both."""
    pairs = {key: (first.get(key, 0), second.get(key, 0)) for key in {**first, **second}}
    return {key: None if None in pair else round(sum(pair), 3) for key, pair in pairs.items()}


def compare(a: WeekSummary, b: WeekSummary, notes: Notes = NO_NOTES) -> Comparison:
    """Compare window B with window A."""
    notes = notes.resolve_ids((a, b))
    old, new = merge_groups(a.findings, notes), merge_groups(b.findings, notes)
    findings = []
    for key in {**new, **old}:
        group, side = (new[key], b) if key in new else (old[key], a)
        if key in new and key in old:
            state, why = compare_sizes((new[key], b), (old[key], a), "A")
        else:
            other, letter, word = (a, "A", "new") if key in new else (b, "B", "resolved")
            hidden = why_not_visible(group, other)
            state = "not evaluable" if hidden else word
            why = f"in {letter}: {hidden or 'not there'}"
        findings.append(TrackedFinding(
            key[0], state, group, side.week, (key in new) + (key in old), side.week, why,
            notes.entries.get(key[0]), key in new and notes.accepts(key[0], b.last_day),
        ))  # fmt: skip
    findings.sort(key=lambda each: each.sort_key)
    return Comparison(a, b, compare_weeks(b, a, notes, "A"), findings)


def count_pairs(comparison: Comparison, broker: int | None = None) -> list[CountPair]:
    """Return each signal of both windows, of one broker or of the whole cluster."""
    signals = BROKER_SIGNALS if broker is not None else BROKER_SIGNALS | CLUSTER_SIGNALS
    pairs = []
    for signal, title in signals.items():
        a, a_rate = _count_and_rate(comparison.a, signal, broker)
        b, b_rate = _count_and_rate(comparison.b, signal, broker)
        pairs.append(CountPair(signal, title, (a, b), (a_rate, b_rate)))
    return pairs


def _count_and_rate(
    week: WeekSummary, signal: str, broker: int | None
) -> tuple[float | None, float | None]:
    count = week.count(signal, broker)
    coverage = week.coverage() if broker is None else week.broker_coverage(broker)
    if broker is not None and not coverage.covered_ms:
        # A broker without logs counts as unknown, not as zero.
        count = count or None
    return count, None if count is None else coverage.per_hour(count)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for machines."""
    return {
        "schema": 1,
        "verdict": comparison.verdict.word,
        "why": comparison.verdict.why,
        "a": _window_json(comparison.a),
        "b": _window_json(comparison.b),
        "cluster": [_pair_json(pair) for pair in count_pairs(comparison)],
        "brokers": {
            str(broker): [_pair_json(pair) for pair in count_pairs(comparison, broker)]
            for broker in comparison.brokers
        },
        "findings": [
            {
                "signature": finding.signature,
                "state": finding.state,
                "why": finding.why,
                "severity": finding.group["severity"],
                "title": finding.group["title"],
                "count": finding.group["count"],
                "ids": [row[0] for row in finding.group["findings"]],
                "accepted": finding.accepted,
            }
            for finding in comparison.findings
        ],
    }


def _window_json(week: WeekSummary) -> dict[str, Any]:
    coverage = week.coverage()
    return {
        "name": week.week, "from_ms": week.window[0], "to_ms": week.window[1],
        "covered_ms": coverage.covered_ms, "expected_ms": coverage.expected_ms,
        "levels": week.levels, "rules": week.rules,
    }  # fmt: skip


def _pair_json(pair: CountPair) -> dict[str, Any]:
    rates = [None if rate is None else round(rate, 6) for rate in pair.rates]
    return {
        "signal": pair.signal, "a": pair.counts[0], "b": pair.counts[1],
        "a_per_covered_hour": rates[0], "b_per_covered_hour": rates[1],
    }  # fmt: skip


def comparison_text(comparison: Comparison) -> Iterator[str]:
    """Yield a comparison as lines for a terminal."""
    for name, text in describe_windows(comparison):
        yield f"{name}  {visible(text)}"
    verdict = comparison.verdict
    is_open = verdict.word == "cannot compare"
    said = "cannot be compared with A" if is_open else f"is {verdict.word.upper()}"
    yield from ("", f"B {said}: {verdict.why}", "")
    yield from _align([TABLE_HEAD, *map(table_cells, count_pairs(comparison))])
    for broker in comparison.brokers:
        pairs = [pair for pair in count_pairs(comparison, broker) if any(pair.counts)]
        if pairs:
            yield from ("", f"broker {broker}", *_align(list(map(table_cells, pairs))))
    findings = comparison.findings
    if findings:
        yield ""
        rows = [
            (finding.state, finding.group["severity"], visible(finding.signature),
             f"{visible(finding.why)}{'; accepted' if finding.accepted else ''}")
            for finding in findings
        ]  # fmt: skip
        yield from _align(rows[:_MAX_FINDING_LINES], right=False)
        if len(rows) > _MAX_FINDING_LINES:
            yield f"and {len(rows) - _MAX_FINDING_LINES:,} more: --json has them"


def describe_windows(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the letter of each window, with its name, its times and how much is covered."""
    for letter, week in (("A", comparison.a), ("B", comparison.b)):
        yield letter, f"{week.week}: {span_text(*week.window)}, logs cover {week.coverage()}"


def table_cells(pair: CountPair) -> tuple[str, ...]:
    """Write one signal of both windows, in the columns of `TABLE_HEAD`."""
    counts = ("?" if count is None else format_count(count) for count in pair.counts)
    return (pair.title, *counts, *map(format_rate, pair.rates))


def format_rate(rate: float | None) -> str:
    """Write a count for an hour.

    >>> format_rate(0.01234), format_rate(12.0), format_rate(None)
    ('0.0123', '12', '?')
    """
    if rate is None:
        return "?"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _align(rows: Sequence[Sequence[str]], *, right: bool = True) -> Iterator[str]:
    """Pad the cells of each column to one width, all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if index and right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
