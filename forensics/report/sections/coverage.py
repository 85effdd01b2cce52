"""Which logs there are, from when to when, and how well they could be read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forensics.lib.formatting import count, duration, join_names, natural_key, percent, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.figures import log_coverage
from forensics.report.html import Child, Markup, join, table, tag
from forensics.report.lane_intervals import find_gaps
from forensics.run_output.reader import Row, RunOutput

ORDER = 20
TITLE = "Coverage"
# Rows of the table, and so many that it stands open.
MOST, FEW = 400, 12
# Nodes named in one sentence.
NODES = 12
HEAD = ("Node", "Log", "From window start to end", "First line", "Last line", "Understood",
        "Damaged", "Clock", "Layout", "Kafka")  # fmt: skip


@dataclass(frozen=True)
class Strip:
    """The files of one node and one kind of log, taken together."""

    node: str
    kind: str
    files: tuple[Row, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """From when to when each file has lines."""
        times = ((row["first_ts"], row["last_ts"]) for row in self.files)
        return [(start, end) for start, end in times if start is not None and end is not None]

    def words(self, column: str) -> str:
        """The different values of one column, or a dash."""
        return join_names(sorted({str(row[column]) for row in self.files if row[column]}), 2) or "-"

    def total(self, column: str) -> int:
        """The sum of one column."""
        return sum(row[column] for row in self.files)


def render(run: RunOutput) -> Markup:
    """Show one row for each node and kind of log."""
    strips = _strips(run.files)
    if not strips:
        return tag("p", "No table of input files was saved: nothing can be said about coverage.")
    told = [strip for strip in strips if strip.total("lines")]
    return join(
        [
            tag("p", _says(run, strips), " ", _empty(strips)),
            *(tag("p", line, class_="warning") for line in _silences(run, strips)),
            log_coverage.render(run),
            _listing(run, told) if told else None,
        ]
    )


def _listing(run: RunOutput, strips: list[Strip]) -> Markup:
    """Say of each log what the figure does not; folded where it would fill a screen."""
    rows = (_row(run, strip) for strip in strips[:MOST])
    caption = "Logs by node and kind"
    shown = table(HEAD, rows, caption=caption, numbers=("Understood",))
    more = len(strips) - MOST
    rest = tag("p", f"{count(more, 'row')} more are not shown.") if more > 0 else None
    if len(strips) <= FEW:
        return shown
    says = f"Each of the {len(strips):,} logs: first and last line, share understood, clock, layout"
    return tag("details", tag("summary", says), shown, rest)


def _empty(strips: list[Strip]) -> str:
    """Name the logs in which there is nothing; a row of their own would say no more."""
    names = [f"{strip.node} {strip.kind}" for strip in strips if not strip.total("lines")]
    return (
        f"{count(len(names), 'log is', 'logs are')} empty: {join_names(names, 6)}." if names else ""
    )


def _strips(files: list[Row]) -> list[Strip]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in files:
        node = row["node"] or "node not known"
        groups.setdefault((node, _kind(row["file"] or "")), []).append(row)
    ordered = sorted(groups, key=lambda name: (natural_key(name[0]), name[1]))
    return [Strip(node, kind, tuple(groups[node, kind])) for node, kind in ordered]


def _kind(file: str) -> str:
    """Name the kind of log: the file name up to its first dot.

    >>> _kind("all.tgz!broker-1/state-change.log.2026-03-01-14.gz")
    'state-change'
    """
    return re.split(r"[/!\\]", file)[-1].split(".")[0] or file


def _row(run: RunOutput, strip: Strip) -> list[Child]:
    spans = strip.spans
    lines = strip.total("lines")
    damaged = [str(row["damaged"]) for row in strip.files if row["damaged"]]
    return [
        strip.node,
        strip.kind,
        _bar(run, spans),
        _time(run, min((start for start, _ in spans), default=None)),
        _time(run, max((end for _, end in spans), default=None)),
        percent(lines - strip.total("unparsed_lines"), lines),
        tag("strong", f"damaged: {join_names(damaged, 2)}") if damaged else "no",
        _offset(run, strip.node),
        strip.words("layout"),
        strip.words("kafka_version"),
    ]


def _time(run: RunOutput, moment: int | None) -> str:
    """Leave out the date where the whole window is of one day; the sentence above has it."""
    text = time_text(moment)
    days = {time_text(edge)[:10] for edge in run.window or ()}
    return text[11:] if moment is not None and days == {text[:10]} else text


def _offset(run: RunOutput, node: str) -> str:
    return f"{run.clock_offsets[node]:+,} ms" if node in run.clock_offsets else "not known"


def _bar(run: RunOutput, spans: list[tuple[int, int]]) -> Markup:
    if not run.window or not spans:
        return tag("span", "no lines with a time", class_="strip")
    start, end = run.window
    pieces = []
    for first, last in spans:
        left = min(max((first - start) / (end - start), 0.0), 1.0) * 100
        right = min(max((last - start) / (end - start), 0.0), 1.0) * 100
        style = f"left:{left:.2f}%;width:{max(right - left, 0.6):.2f}%"
        pieces.append(tag("span", style=style))
    return tag("span", *pieces, class_="strip", role="img", aria_label=_covered(spans, start, end))


def _covered(spans: list[tuple[int, int]], start: int, end: int) -> str:
    hidden = sum(last - first for first, last in find_gaps(spans, (start, end)))
    return f"{percent(end - start - hidden, end - start)} of the window lies between its lines"


def _says(run: RunOutput, strips: list[Strip]) -> str:
    files = run.files
    lines = sum(row["lines"] for row in files)
    unread = sum(row["unparsed_lines"] for row in files)
    hurt = sum(1 for row in files if row["damaged"])
    nodes = len({strip.node for strip in strips})
    window = run.window
    during = (
        f", {time_text(window[0])} to {time_text(window[1])} {current_zone().label}"
        if window
        else ""
    )
    return (
        f"{count(len(files), 'file')} of {count(nodes, 'node')}, {count(lines, 'line')}{during}, "
        f"{percent(lines - unread, lines)} understood; "
        f"{count(hurt, 'file') if hurt else 'no file'} damaged."
    )


def _silences(run: RunOutput, strips: list[Strip]) -> list[str]:
    """Name the nodes that no log speaks for during a part of the window."""
    if not run.window:
        return []
    whole = run.window
    floor = max(60_000, (whole[1] - whole[0]) // 20)
    spans: dict[str, list[tuple[int, int]]] = {}
    for strip in strips:
        spans.setdefault(strip.node, []).extend(strip.spans)
    silent = [
        (start, end, node)
        for node, known in sorted(spans.items())
        for start, end in find_gaps(known, whole)
        if end - start >= floor
    ]
    return [_unspoken(group) for group in _alike(silent, floor // 10)]


def _alike(silent: list[tuple[int, int, str]], apart: int) -> list[list[tuple[int, int, str]]]:
    """Put nodes together that are silent at the same time: ten lines alike are read by nobody."""
    groups: list[list[tuple[int, int, str]]] = []
    for start, end, node in sorted(silent):
        near = (
            group
            for group in groups
            if start - group[0][0] <= apart and abs(end - group[0][1]) <= apart
        )
        group = next(near, None)
        if group is None:
            groups.append([(start, end, node)])
        else:
            group.append((start, end, node))
    return groups


def _unspoken(group: list[tuple[int, int, str]]) -> str:
    # Of all of them, what none has lines for.
    start, end = max(one[0] for one in group), min(one[1] for one in group)
    nodes = join_names(sorted(node for *_, node in group), NODES)
    last = time_text(end)[11:] if time_text(end)[:10] == time_text(start)[:10] else time_text(end)
    label = current_zone().label
    return (
        f"We cannot speak for {nodes} between {time_text(start)} and {last} {label} "
        f"({duration(end - start)})."
    )
