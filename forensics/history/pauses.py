"""Processes that hung: given up by the others, silent themselves, and back without a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from forensics.history.lanes import Span, place_of

__all__ = ["WAKE_KINDS", "with_pauses"]

# What a process says as it wakes, with the time since its last sign of life.
WAKE_KINDS = ("zookeeper_disconnected", "peer_request_lost", "peer_timed_out", "heartbeat_failed")
_SECOND = 1_000_000
# All that piled up is told in one go.
_WAKING = 2 * _SECOND

Silent = Callable[[int, int], bool]


def with_pauses(
    spans: Sequence[Span], wakes: Iterable[Mapping[str, Any]], silent: Silent
) -> list[Span]:
    """Put in the time between a process's last sign of life and its fencing.

    `wakes` are the broker's own events of WAKE_KINDS with a duration, corrected; `silent` says
    whether the broker's own log has no line between two moments. That it was fenced says nothing
    yet: a broker that is only cut off goes on to write.
    """
    told = sorted(
        (wake for wake in wakes if wake["duration_ms"]), key=lambda one: (one["at"], one["line"])
    )
    found: list[Span] = []
    for span, after in zip(spans, [*spans[1:], None], strict=True):
        back = after is None or after.state == "up"
        if span.state == "fenced" and back and found and found[-1].state == "up":
            pause = _pause(span, told, silent)
            if pause is not None and pause.begin > found[-1].begin:
                found[-1] = Span("up", found[-1].begin, pause.begin, found[-1].evidence)
                found.append(pause)
        found.append(span)
    return found


def _pause(fence: Span, wakes: Sequence[Mapping[str, Any]], silent: Silent) -> Span | None:
    until = fence.end if fence.end is not None else fence.begin + 3600 * _SECOND
    here = [wake for wake in wakes if fence.begin <= wake["at"] <= until]
    first = [wake for wake in here if wake["at"] <= here[0]["at"] + _WAKING]
    # Of several waits the shortest one began last: until then the process was alive.
    signs = [(wake["at"] - wake["duration_ms"] * 1000, wake) for wake in first]
    alive = [sign for sign in signs if sign[0] < fence.begin]
    if not alive:
        return None
    begin, wake = max(alive, key=lambda sign: (sign[0], sign[1]["line"]))
    if not silent(begin, here[0]["at"]):
        return None
    return Span("paused", begin, fence.begin, [place_of(wake), *fence.evidence[:1]])
