"""Formats times, durations, counts, sizes and names for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from forensics.lib.time_units import EPOCH
from forensics.lib.time_zone import current_zone
from forensics.lib.whole_numbers import whole_number

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def parse_millis(text: object) -> int | None:
    """Parse an ISO time as milliseconds since 1970; None if it is none.

    >>> parse_millis("1970-01-01T00:00:01.500Z")
    1500
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def _moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms + current_zone().offset)


def time_text(ms: int | None, *, exact: bool = False) -> str:
    """Format a time in the page's zone, to the second or to the millisecond.

    >>> time_text(1500, exact=True)
    '1970-01-01 00:00:01.500'
    """
    if ms is None:
        return "not known"
    text = _moment(ms).isoformat(sep=" ", timespec="milliseconds" if exact else "seconds")
    return text.removesuffix("+00:00")


def span_text(start: int | None, end: int | None) -> str:
    """Format a period: from when to when and for how long; a common date is written once.

    >>> span_text(0, 90_000)
    '1970-01-01 00:00:00-00:01:30 UTC (1 min 30 s)'
    >>> span_text(0, 0)
    '1970-01-01 00:00:00 UTC'
    """
    if start is None:
        return "at a time not known"
    if end is None:
        return f"{time_text(start)} {current_zone().label}, still going on at the end of the logs"
    last = time_text(end)
    if last == time_text(start):
        long = f" ({duration(end - start)})" if end > start else ""
        return f"{last} {current_zone().label}{long}"
    same_day = time_text(start)[:10] == last[:10]
    till = f"{last[11:] if same_day else last} {current_zone().label}"
    return f"{time_text(start)}-{till} ({duration(end - start)})"


def duration(ms: float | None) -> str:
    """Format a duration in two units at most.

    >>> duration(26_400), duration(90_000), duration(7_260_000)
    ('26.4 s', '1 min 30 s', '2 h 1 min')
    """
    if ms is None:
        return "not known"
    if ms < SECOND:
        return f"{ms:.0f} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f}".removesuffix(".0") + " s"
    whole = round(ms / SECOND)
    if ms < HOUR:
        return f"{whole // 60} min {whole % 60} s".removesuffix(" 0 s")
    return f"{whole // 3600} h {whole % 3600 // 60} min".removesuffix(" 0 min")


# What began at a moment that may be off by as much is told in whole seconds, as "about".
ROUGH_MS = 200
# Lengths that are no further apart are told as one.
_ABOUT_SAME = 1.05


def durations_text(low: int, high: int) -> str:
    """Say how long things lasted that differ.

    >>> durations_text(9000, 9000), durations_text(12_300, 12_800), durations_text(9000, 12_800)
    ('9 s', 'up to 12.8 s', '9 s to 12.8 s')
    """
    shortest, longest = duration(low), duration(high)
    if shortest == longest:
        return longest
    return f"{shortest} to {longest}" if high > low * _ABOUT_SAME else f"up to {longest}"


def seconds_text(seconds: float, digits: int = 1) -> str:
    """Format seconds, and longer times in larger units.

    >>> seconds_text(26.44), seconds_text(119, 0), seconds_text(7161)
    ('26.4 s', '119 s', '1 h 59 min')
    """
    return f"{seconds:.{digits}f} s" if seconds < 120 else duration(round(seconds) * SECOND)


def count(number: float | None, noun: str = "", plural: str = "") -> str:
    """Format a number with its noun in the right form.

    >>> count(1, "file"), count(1200, "file"), count(2, "entry", "entries")
    ('1 file', '1,200 files', '2 entries')
    """
    figure = "not known" if number is None else f"{number:,}"
    return f"{figure} {pluralize(noun, number, plural)}".strip()


def quantity(number: int, noun: str) -> str:
    """Write a number without separators, with its noun, as titles do.

    >>> quantity(1, "partition"), quantity(1200, "partition")
    ('1 partition', '1200 partitions')
    """
    return f"{number} {pluralize(noun, number)}"


def times_text(number: object) -> str:
    """Say how often.

    >>> times_text(1), times_text(2), times_text(5), times_text(None)
    ('once', 'twice', '5 times', 'again and again')
    """
    if not isinstance(number, int):
        return "again and again"
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def pluralize(noun: str, number: float | None, plural: str = "") -> str:
    """Return a noun in the form that follows a number.

    >>> pluralize("file", 1), pluralize("file", 0), pluralize("entry", 2, "entries")
    ('file', 'files', 'entries')
    """
    return noun if number == 1 or not noun else plural or f"{noun}s"


def percent(part: int, whole: int) -> str:
    """Format a share in percent, rounded down.

    >>> percent(999_999, 1_000_000), percent(1, 1), percent(0, 0)
    ('99.9 %', '100 %', 'no lines')
    >>> percent(1, 5000), percent(0, 5000)
    ('under 0.1 %', '0 %')
    """
    if not whole:
        return "no lines"
    # 100 % must mean every single line.
    tenths = part * 1000 // whole
    if part and not tenths:
        return "under 0.1 %"
    return f"{tenths / 10:.1f}".removesuffix(".0") + " %"


def format_bytes(size: float) -> str:
    """Write a number of bytes in the decimal units of disk makers.

    >>> format_bytes(999), format_bytes(1_540_000)
    ('999 B', '1.5 MB')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size:.0f} B"


def rough_duration(seconds: float) -> str:
    """Write how long a run takes: the longer, the less exact; `duration` is for what logs tell.

    >>> rough_duration(7.9), rough_duration(95), rough_duration(754), rough_duration(9000)
    ('7 s', '1 min 35 s', '12 min', '2 h 30 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def join_names(names: Sequence[str], limit: int = 3) -> str:
    """Join a few names and count the others.

    >>> join_names(["a", "b", "c", "d"], limit=2)
    'a, b and 2 more'
    """
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {count(len(names) - limit)} more"


def brokers_text(brokers: Sequence[int]) -> str:
    """Name brokers in their order.

    >>> brokers_text([2]), brokers_text([2, 1, 3])
    ('broker 2', 'brokers 2, 1 and 3')
    """
    names = [str(broker) for broker in brokers]
    if len(names) == 1:
        return f"broker {names[0]}"
    if len(names) > 6:
        return f"brokers {', '.join(names[:6])} and {len(names) - 6} more"
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"


def cut_text(text: str, most: int) -> str:
    """Cut a text at its last whole line or word that fits.

    >>> cut_text("min.insync.replicas to 3", 40), cut_text("min.insync.replicas to 3", 22)
    ('min.insync.replicas to 3', 'min.insync.replicas…')
    """
    if len(text) <= most:
        return text
    short = text[: most - 1]
    end = max(short.rfind("\n"), short.rfind(" "))
    return f"{short[:end] if end > most // 2 else short}\u2026"


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that orders names by the numbers in them, as people do.

    >>> sorted(["broker-10", "broker-2", "app"], key=natural_key)
    ['app', 'broker-2', 'broker-10']
    """
    parts = re.split(r"(\d+)", name)
    numbers = map(whole_number, parts)
    return tuple(
        (-1, part) if number is None else (number, "")
        for part, number in zip(parts, numbers, strict=True)
    )


def detector_label(detector: str) -> str:
    """Return the title of a detector for people.

    >>> detector_label("unclean-election")
    'Unclean election'
    """
    known = {
        "flapping-broker": "Flapping",
        "isr-flapping": "Flapping of the ISR",
        "isr-storm": "ISR storm",
        "offline-partitions": "Outage",
        "under-min-isr": "Too few in-sync replicas",
    }
    return known.get(detector, detector.replace("-", " ").capitalize())
