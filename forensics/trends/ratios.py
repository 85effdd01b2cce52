"""How much of what should be covered is covered, and counts made comparable by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

__all__ = [
    "ENOUGH",
    "LEAST",
    "ROUNDED",
    "Coverage",
    "Summary",
    "coverage",
    "expected",
    "hours",
    "node_of",
    "per_hour",
    "per_window",
    "same_rules",
    "servers",
    "span_of",
]

Summary = Mapping[str, Any]
Coverage = tuple[int, int]

HOUR = 3_600_000
# With less than this nothing is said to be over or better: one day of a working week is missing.
ENOUGH = 0.8
# With less than this nothing is said of a whole window: a count of an hour says little of a week.
LEAST = 0.1
# Nothing happens by halves: less than that apart, two counts are the same.
ROUNDED = 0.5
SERVERS = ("broker", "controller")


def span_of(one: Summary) -> int:
    """Say how long a window is, in milliseconds."""
    start, end = one["window"]
    return int(end - start)


def servers(one: Summary) -> dict[str, int]:
    """Give the brokers and controllers, and how long each is covered."""
    return {
        name: told["covered_ms"] for name, told in one["nodes"].items() if told["role"] in SERVERS
    }


def coverage(one: Summary, names: Collection[str] | None = None) -> Coverage:
    """Give how long the servers are covered together, and how long they should be.

    `names` are those to ask of; who of them has no log is not covered at all.
    """
    known = servers(one)
    asked = known if names is None else names
    return sum(known.get(name, 0) for name in asked), span_of(one) * len(asked)


def node_of(one: Summary, broker: int) -> str:
    """Name the node that is a broker."""
    found = (name for name, told in one["nodes"].items() if told["broker"] == broker)
    return next(found, f"broker-{broker}")


def per_window(count: float, covered: Coverage) -> float | None:
    """Give what a count would be were all covered; None: too little is, to say so.

    >>> per_window(3, (50, 100)), per_window(3, (1, 100))
    (6.0, None)
    """
    told, whole = covered
    return None if not whole or told < LEAST * whole else count * whole / told


def per_hour(count: float, covered: Coverage, span: int) -> float | None:
    """Give a count for each hour of a window of that length, were all covered.

    >>> per_hour(3, (HOUR, 2 * HOUR), 2 * HOUR)
    3.0
    """
    value = per_window(count, covered)
    return None if value is None or not span else value * HOUR / span


def expected(count: float, then: tuple[Coverage, int], now: tuple[Coverage, int]) -> float | None:
    """Give how many there would be now, were all as it was then, by what is covered of both.

    Each is a coverage, and the length of its window. None: too little is covered to say so.

    >>> expected(4, ((100, 100), 100), ((50, 100), 100))
    2.0
    """
    (told, whole), span = now
    rate = per_hour(count, *then)
    if rate is None or not whole or told < LEAST * whole:
        return None
    return rate * told / whole * span / HOUR


def hours(covered: Coverage) -> str:
    """Say a coverage.

    >>> hours((3_600_000, 7_200_000)), hours((1, 7_200_000)), hours((0, 90_000))
    ('1 of 2 h', 'less than 0.1 of 2 h', '0 of 1.5 min')
    """
    told, whole = covered
    unit, name = (HOUR, "h") if whole >= HOUR else (60_000, "min")
    part = "less than 0.1" if 0 < told < unit / 10 else _format_number(told / unit)
    return f"{part} of {_format_number(whole / unit)} {name}"


def _format_number(value: float) -> str:
    # Cut, not rounded: what is not covered must not disappear.
    return f"{int(value * 10) / 10:,.1f}".removesuffix(".0")


def same_rules(some: Iterable[Summary]) -> bool:
    """Whether several windows were read by the same rules."""
    return len({str(one["rules"]) for one in some}) <= 1
