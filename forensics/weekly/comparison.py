"""Compares any two windows: weeks of a store, stretches of its time, or saved postmortems.

A comparison of two windows as lines of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from forensics.errors import ForensicsError
from forensics.lib.formatting import LEVELS, parse_millis, span_text
from forensics.lib.text_safety import visible
from forensics.report.page import open_output
from forensics.weekly.coverage_normalisation import (
    Coverage,
    Span,
    WeekSummary,
    coverage,
    format_coverage,
    node_of,
    per_hour,
    span_of,
)
from forensics.weekly.iso_week import Week, week_of
from forensics.weekly.metrics import BROKER_SIGNALS, CLUSTER_SIGNALS, Signal
from forensics.weekly.notes import Notes
from forensics.weekly.recurrence import (
    STATES,
    RecurringFinding,
    compare_sizes,
    groups_by_signature,
    last_day,
    why_not_visible,
)
from forensics.weekly.week_summary import summarise_window
from forensics.weekly.week_verdict import WeekVerdict, cluster_total, compare_weeks

RANGE_SEPARATOR, WINDOW_SEPARATOR = "..", "@"


@dataclass(frozen=True)
class Comparison:
    """Two windows, A and B, and what B is like beside A."""

    a: WeekSummary
    b: WeekSummary
    judgement: WeekVerdict
    troubles: Sequence[RecurringFinding]


@dataclass(frozen=True)
class CountPair:
    """One count in both windows, and for each covered hour; None: nobody can tell."""

    signal: Signal
    # None: the whole cluster
    broker: int | None
    counts: tuple[float | None, float | None]
    rates: tuple[float | None, float | None]


def load_window(text: str, store: Path | None = None) -> dict[str, Any]:
    """Sum up what a person has named: 2026-W46, FROM..TO, OUT or OUT@FROM..TO."""
    folder, at, stretch = text.rpartition(WINDOW_SEPARATOR)
    if at and RANGE_SEPARATOR in stretch:
        return _of_output(Path(folder), _stretch(stretch), text)
    if (Path(text) / "findings.json").is_file():
        return _of_output(Path(text), None, text)
    if store is None:
        raise ForensicsError(
            f"{text} is no output folder of a postmortem. Name two such folders, or "
            f"OUT{WINDOW_SEPARATOR}FROM{RANGE_SEPARATOR}TO; with --store STORE name weeks, "
            f"as 2026-W46, or FROM{RANGE_SEPARATOR}TO."
        )
    if RANGE_SEPARATOR in text:
        return _of_store(store, _stretch(text), text)
    week = Week.parse(text)
    return _of_store(store, (week.begin // 1000, week.end // 1000), text)


def _of_output(out: Path, span: Span | None, name: str) -> dict[str, Any]:
    run = open_output(out)
    if span is None and run.window is None:
        raise ForensicsError(f"{out}: no line in it has a time, so there is nothing to compare.")
    whole = run.window or (0, 0)
    # The last moment of the logs belongs to them.
    return summarise_window(run, span or (whole[0], whole[1] + 1), name)


def _of_store(store: Path, span: Span, name: str) -> dict[str, Any]:
    """Sum up a stretch of a store's time, week by week: each week has tables of its own."""
    first, last = (week_of(moment * 1000).number for moment in (span[0], span[1] - 1))
    parts = []
    for number in range(first, last + 1):
        week = Week(number)
        folder = store / "weeks" / str(week)
        if not (folder / "findings.json").is_file():
            there = sorted(path.parent.name for path in store.glob("weeks/*/findings.json"))
            known = f"it has {there[0]} to {there[-1]}" if there else "it has no week"
            raise ForensicsError(f"{store} has no week {week}; {known}.")
        piece = max(span[0], week.begin // 1000), min(span[1], week.end // 1000)
        parts.append(summarise_window(open_output(folder), piece, name))
    return reduce(join_windows, parts)


def _stretch(text: str) -> Span:
    start, end = (parse_millis(part) for part in text.split(RANGE_SEPARATOR, 1))
    if start is None or end is None:
        example = f"2026-11-10T00:00{RANGE_SEPARATOR}2026-11-12T00:00"
        raise ForensicsError(f"{text}: write a stretch of time as {example}, in UTC.")
    if start >= end:
        raise ForensicsError(f"{text}: it begins no earlier than it ends; exchange the two.")
    return start, end


def join_windows(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Put two windows together that follow each other."""
    every = groups_by_signature(
        dict(one) | {"findings": [*one["findings"], *other["findings"]]}, Notes()
    )
    names = sorted({*one["nodes"], *other["nodes"]})
    brokers = [side["signals"]["brokers"] for side in (one, other)]
    return dict(one) | {
        "window": [one["window"][0], other["window"][1]],
        "findings": list(every.values()),
        "levels": dict(Counter(one["levels"]) + Counter(other["levels"])),
        "nodes": {name: _node(one["nodes"].get(name), other["nodes"].get(name)) for name in names},
        "brokers": sorted({*one["brokers"], *other["brokers"]}),
        "signals": {
            "brokers": {name: dict(_sum(*(side.get(name, {}) for side in brokers)))
                        for name in sorted({*brokers[0], *brokers[1]})},
            "cluster": _sum(one["signals"]["cluster"], other["signals"]["cluster"]),
        },
        "detectors": dict(other["detectors"]) | {
            name: told for name, told in one["detectors"].items()
            if told["status"] in ("not_evaluable", "failed")
        },
        # Two packs of rules are a third one.
        "rules": one["rules"] if one["rules"] == other["rules"] else [one["rules"], other["rules"]],
    }  # fmt: skip


def _node(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> dict[str, Any]:
    known = [side for side in (one, other) if side is not None]
    return dict(known[0]) | {"covered_ms": sum(side["covered_ms"] for side in known)}


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for key in {**one, **other}:
        pair = one.get(key, 0), other.get(key, 0)
        # What one half does not know, both do not know.
        found[key] = None if None in pair else round(pair[0] + pair[1], 3)
    return found


def compare(a: WeekSummary, b: WeekSummary, notes: Notes | None = None) -> Comparison:
    """Say what B is like beside A."""
    bound = (notes or Notes()).resolve_ids((a, b))
    old, new = groups_by_signature(a, bound), groups_by_signature(b, bound)
    found = []
    for key in {**new, **old}:
        group = new.get(key) or old[key]
        if key in new and key in old:
            state, why = compare_sizes((new[key], b), (old[key], a), "A")
        elif key in new:
            lacks = why_not_visible(group, a)
            state, why = ("not evaluable" if lacks else "new"), f"in A: {lacks or 'not there'}"
        else:
            lacks = why_not_visible(group, b)
            state, why = ("not evaluable" if lacks else "resolved"), f"in B: {lacks or 'not there'}"
        accepted = key in new and bound.accepts(key[0], last_day(b))
        side = str((b if key in new else a)["week"])
        found.append(RecurringFinding(key[0], state, group, side, 1 + (key in new and key in old),
                                      side, why, bound.find(key[0]), accepted))  # fmt: skip
    ranked = sorted(found, key=_rank)
    return Comparison(a, b, compare_weeks(b, a, bound, other="A"), ranked)


def _rank(one: RecurringFinding) -> tuple[int, int, str]:
    return LEVELS.index(one.group["severity"]), STATES.index(one.state), one.signature


def count_pairs(found: Comparison, broker: int | None = None) -> list[CountPair]:
    """Give each count of both windows, of one broker or of the whole cluster."""
    signals = BROKER_SIGNALS if broker is not None else (*BROKER_SIGNALS, *CLUSTER_SIGNALS)
    return [_pair(found, signal, broker) for signal in signals]


def _pair(found: Comparison, signal: Signal, broker: int | None) -> CountPair:
    sides = [(one, *_counted(one, signal.key, broker)) for one in (found.a, found.b)]
    rates = [
        None if many is None else per_hour(many, covered, span_of(one))
        for one, many, covered in sides
    ]
    return CountPair(signal, broker, (sides[0][1], sides[1][1]), (rates[0], rates[1]))


def _counted(one: WeekSummary, key: str, broker: int | None) -> tuple[float | None, Coverage]:
    if broker is None:
        return cluster_total(one, key), coverage(one)
    covered = coverage(one, [node_of(one, broker)])
    told = one["signals"]["brokers"].get(str(broker), {})
    # Of whom no log is there, that nothing was seen means nothing.
    return (float(told.get(key, 0)) or None) if not covered[0] else float(told.get(key, 0)), covered


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Give it all for machines."""
    brokers = sorted({*found.a["brokers"], *found.b["brokers"]})
    return {
        "schema": 1,
        "verdict": found.judgement.word,
        "why": found.judgement.why,
        "a": _side(found.a),
        "b": _side(found.b),
        "cluster": [_values(pair) for pair in count_pairs(found)],
        "brokers": {
            str(broker): [_values(pair) for pair in count_pairs(found, broker)]
            for broker in brokers
        },
        "findings": [
            {
                "signature": one.signature,
                "state": one.state,
                "why": one.why,
                "severity": one.group["severity"],
                "title": one.group["title"],
                "count": one.group["count"],
                "ids": [row[0] for row in one.group["findings"]],
                "accepted": one.accepted,
            }
            for one in found.troubles
        ],
    }


def _side(one: WeekSummary) -> dict[str, Any]:
    told, whole = coverage(one)
    return {
        "name": one["week"], "from_ms": one["window"][0], "to_ms": one["window"][1],
        "covered_ms": told, "expected_ms": whole, "levels": one["levels"], "rules": one["rules"],
    }  # fmt: skip


def _values(pair: CountPair) -> dict[str, Any]:
    rates = [None if one is None else round(one, 6) for one in pair.rates]
    return {
        "signal": pair.signal.key, "a": pair.counts[0], "b": pair.counts[1],
        "a_per_covered_hour": rates[0], "b_per_covered_hour": rates[1],
    }  # fmt: skip


# A terminal is no page.
MAX_TERMINAL_ROWS = 40
TABLE_HEAD = ("", "A", "B", "A an hour", "B an hour")


def comparison_text(found: Comparison) -> Iterator[str]:
    """Say it line by line."""
    for name, words in describe_windows(found):
        yield f"{name}  {visible(words)}"
    yield ""
    yield f"B is {found.judgement.word.upper()}: {found.judgement.why}"
    yield ""
    yield from _columns([TABLE_HEAD, *(table_cells(pair) for pair in count_pairs(found))])
    for broker in sorted({*found.a["brokers"], *found.b["brokers"]}):
        told = [table_cells(pair) for pair in count_pairs(found, broker) if any(pair.counts)]
        if told:
            yield ""
            yield f"broker {broker}"
            yield from _columns(told)
    if found.troubles:
        yield ""
        rows = [
            (one.state, str(one.group["severity"]), visible(one.signature),
             f"{visible(one.why)}{'; accepted' if one.accepted else ''}")
            for one in found.troubles
        ]  # fmt: skip
        yield from _columns(rows[:MAX_TERMINAL_ROWS], right=False)
        if len(rows) > MAX_TERMINAL_ROWS:
            yield f"and {len(rows) - MAX_TERMINAL_ROWS:,} more: --json has them"


def describe_windows(found: Comparison) -> list[tuple[str, str]]:
    """Say which windows are compared, and how much of each is covered."""
    return [(name, _side_text(one)) for name, one in (("A", found.a), ("B", found.b))]


def _side_text(one: WeekSummary) -> str:
    start, end = one["window"]
    return f"{one['week']}: {span_text(start, end)}, logs cover {format_coverage(coverage(one))}"


def table_cells(pair: CountPair) -> tuple[str, ...]:
    """Write one count of both windows, and for each covered hour."""
    return (pair.signal.title, *map(_count, pair.counts), *map(format_rate, pair.rates))


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f}".removesuffix(".0")


def format_rate(value: float | None) -> str:
    """Write a count for an hour.

    >>> rate(0.01234), rate(12.0), rate(None)
    ('0.0123', '12', '?')
    """
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _columns(rows: Sequence[Sequence[str]], *, right: bool = True) -> Iterator[str]:
    wide = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        told = (
            text.rjust(size) if at and right else text.ljust(size)
            for at, (text, size) in enumerate(zip(row, wide, strict=True))
        )
        yield "  ".join(told).rstrip()
