"""A comparison of two windows as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.report.escape import visible
from forensics.report.words import span
from forensics.trends.comparing import Comparison, Pair, pairs
from forensics.trends.ratios import Summary, coverage, hours

__all__ = ["HEAD", "cells", "lines", "rate", "sides"]

# A terminal is no page.
MOST = 40
HEAD = ("", "A", "B", "A an hour", "B an hour")


def lines(found: Comparison) -> Iterator[str]:
    """Say it line by line."""
    for name, words in sides(found):
        yield f"{name}  {visible(words)}"
    yield ""
    yield f"B is {found.judgement.word.upper()}: {found.judgement.why}"
    yield ""
    yield from _columns([HEAD, *(cells(pair) for pair in pairs(found))])
    for broker in sorted({*found.a["brokers"], *found.b["brokers"]}):
        told = [cells(pair) for pair in pairs(found, broker) if any(pair.counts)]
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
        yield from _columns(rows[:MOST], right=False)
        if len(rows) > MOST:
            yield f"and {len(rows) - MOST:,} more: --json has them"


def sides(found: Comparison) -> list[tuple[str, str]]:
    """Say which windows are compared, and how much of each is covered."""
    return [(name, _side_text(one)) for name, one in (("A", found.a), ("B", found.b))]


def _side_text(one: Summary) -> str:
    start, end = one["window"]
    return f"{one['week']}: {span(start, end)}, logs cover {hours(coverage(one))}"


def cells(pair: Pair) -> tuple[str, ...]:
    """Write one count of both windows, and for each covered hour."""
    return (pair.signal.title, *map(_count, pair.counts), *map(rate, pair.rates))


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f}".removesuffix(".0")


def rate(value: float | None) -> str:
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
