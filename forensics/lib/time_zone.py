"""The time zone of a page: UTC, or another one that was asked for.

A page has one offset from UTC throughout, so that no hour comes twice, and text and figures agree.
If the zone changes its clocks during the logs, the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from forensics.errors import ForensicsError
from forensics.lib.time_units import EPOCH

HOUR = 3_600_000
# A zone changes its clocks a few times a year: so many probes find the changes in the logs.
_MAX_PROBES = 24 * 366


@dataclass(frozen=True)
class Zone:
    """The name of a page's zone, and its offset from UTC in milliseconds."""

    label: str = "UTC"
    offset: int = 0
    # a note for the reader, such as a change to summer time
    note: str = ""

    @property
    def is_utc(self) -> bool:
        """Whether times need no shift and no note."""
        return self == Zone()


_CURRENT: ContextVar[Zone] = ContextVar("zone", default=Zone())  # noqa: B039 - it is frozen


def current_zone() -> Zone:
    """Return the zone of the page that is being drawn."""
    return _CURRENT.get()


@contextmanager
def use_zone(chosen: Zone) -> Iterator[None]:
    """Use a zone for all times that are formatted within the context."""
    token = _CURRENT.set(chosen)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def find_zone(name: str, window: tuple[int, int] | None) -> Zone:
    """Find a zone by its IANA name, with its offset at the begin of the logs.

    >>> find_zone("Asia/Kolkata", (0, 1)).note
    'Asia/Kolkata is UTC+05:30.'
    """
    try:
        found = ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise _unknown(name) from error
    first, last = window or (0, 0)
    offset = _offset(found, first)
    if not offset and _offset(found, last) == 0 and name in ("UTC", "Etc/UTC"):
        return Zone()
    plain = f"UTC{_hours(offset)}"
    changes = _changes(found, first, last)
    if not changes:
        return Zone(name, offset, f"{name} is {plain}.")
    when, after = changes[0]
    moment = datetime.fromtimestamp((when + offset) / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    note = (
        f"{name} went from {plain} to UTC{_hours(after)} around {moment}, within these logs; "
        f"this page stays at {plain} throughout."
    )
    return Zone(plain, offset, note)


def _unknown(name: str) -> ForensicsError:
    return ForensicsError(
        f"--report-tz {name}: there is no such time zone; write one as Europe/Berlin, "
        "Asia/Kolkata or UTC."
    )


def _offset(found: ZoneInfo, ms: int) -> int:
    moment = datetime.fromtimestamp(ms / 1000, UTC).astimezone(found)
    return (moment.utcoffset() or timedelta()) // timedelta(milliseconds=1)


def _hours(offset: int) -> str:
    return str(timezone(timedelta(milliseconds=offset)))[3:] or "+00:00"


def _changes(found: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    step = max(HOUR, (last - first) // _MAX_PROBES)
    moments = [*range(first, last, step), last]
    offsets = [_offset(found, moment) for moment in moments]
    return [
        (moments[at], offsets[at])
        for at in range(1, len(moments))
        if offsets[at] != offsets[at - 1]
    ]


def shift_figure(drawing: dict[str, Any]) -> dict[str, Any]:
    """Write a figure's times in the page's zone, as text.

    Plotly shows a number in the zone of the reader's computer, but a text as it is.
    """
    by = current_zone().offset
    layout = dict(drawing["layout"])
    others = {
        name.replace("axis", "")
        for name, axis in layout.items()
        if name.startswith("xaxis") and axis.get("type", "date") != "date"
    }
    for name, axis in layout.items():
        if (
            name.startswith("xaxis")
            and name.replace("axis", "") not in others
            and axis.get("range")
        ):
            layout[name] = axis | {"range": _written(axis["range"], by)}
            if strip := axis.get("rangeslider"):
                strip = strip | {"range": _written(strip["range"], by)}
                layout[name] |= {"rangeslider": strip}
    if layout.get("shapes"):
        layout["shapes"] = [_mark(mark, by) for mark in layout["shapes"]]
    traces = [
        trace if trace.get("xaxis", "x") in others else _trace(trace, by)
        for trace in drawing["data"]
    ]
    return drawing | {"data": traces, "layout": layout}


def _trace(trace: Mapping[str, Any], by: int) -> dict[str, Any]:
    # The length of a horizontal bar is no time, only its begin is.
    name = "base" if trace.get("type") == "bar" and trace.get("orientation") == "h" else "x"
    return dict(trace) | ({name: _written(trace[name], by)} if trace.get(name) is not None else {})


def _mark(mark: Mapping[str, Any], by: int) -> dict[str, Any]:
    ends = [end for end in ("x0", "x1") if end in mark and mark.get("xref", "x") != "paper"]
    return dict(mark) | dict(zip(ends, _written([mark[end] for end in ends], by), strict=True))


def _written(moments: Sequence[float | str | None], by: int) -> list[str | None]:
    return [one if one is None or isinstance(one, str) else _text(one + by) for one in moments]


def _text(ms: float) -> str:
    moment = EPOCH + timedelta(milliseconds=ms)
    text = moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000")
