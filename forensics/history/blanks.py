"""Lets a broker's lane be unknown where its log has a hole and no controller watched it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from forensics.history.controllers import Reign
from forensics.history.coverage import Coverage
from forensics.history.lanes import Place, Span

__all__ = ["with_blanks"]

# A process that is away is silent; one that is up, and silent too long, may be anything.
_ALIVE = ("up", "starting", "recovering")

Blank = tuple[int, int | None, Place]


def with_blanks(
    node: str, spans: Sequence[Span], coverage: Coverage, office: Sequence[Reign]
) -> list[Span]:
    """Cut out of a lane the stretches in which nobody could have told of this broker."""
    lane = list(spans)
    for blank in _blanks(node, coverage):
        if not _watched(node, blank, coverage, office):
            lane = [part for span in lane for part in _cut(span, blank)]
    return lane


def _blanks(node: str, coverage: Coverage) -> Iterator[Blank]:
    logs = coverage.of(node)
    if not logs:
        return
    for begin, end in coverage.holes(node):
        places = [
            {"file": one.file, "line": one.line}
            for log in logs
            for one in log.silences
            if one.begin <= begin and one.end >= end
        ]
        if places:
            yield begin, end, places[0]
    if not coverage.reaches_the_end(node):
        last = max(logs, key=lambda log: log.last)
        file, line = last.ends[1]
        yield last.last, None, {"file": file, "line": line}


def _watched(node: str, blank: Blank, coverage: Coverage, office: Iterable[Reign]) -> bool:
    """Whether the log of another node that was the active controller covers the stretch."""
    begin, end, _ = blank
    until = coverage.end if end is None else end
    return any(
        other != node
        and span.state == "active"
        and span.begin <= begin
        and (span.end is None or span.end >= until)
        and coverage.speaks_at(other, begin)
        and (coverage.speaks_at(other, until) or coverage.reaches_the_end(other))
        and not any(a < until and b > begin for a, b in coverage.holes(other))
        for other, _, span in office
    )


def _cut(span: Span, blank: Blank) -> Iterator[Span]:
    begin, end, place = blank
    over = span.end is None or span.end > begin
    if span.state not in _ALIVE or not over or (end is not None and end <= span.begin):
        yield span
        return
    start = max(begin, span.begin)
    if start > span.begin:
        yield Span(span.state, span.begin, start, span.evidence, span.epoch)
    stop = span.end if end is None or (span.end is not None and span.end <= end) else end
    yield Span("unknown", start, stop, [place])
    if stop is not None and (span.end is None or stop < span.end):
        yield Span(span.state, stop, span.end, span.evidence, span.epoch)
