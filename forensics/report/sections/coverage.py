"""Which logs there are, from when to when, and how well they could be read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forensics.lib import intervals
from forensics.lib.text_format import count, duration, join_names, natural_key, percent, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import count_lines
from forensics.report.figures import log_coverage
from forensics.report.html import Child, Markup, join, note_left_out, strip_style, table, tag
from forensics.report.summary_actions import missing_nodes
from forensics.run_output.reader import Row, RunOutput, short_time

TITLE = "Coverage"
# Rows of the table, so many that it stands open, and nodes named in one sentence.
MAX_ROWS, MAX_OPEN_ROWS, MAX_NODES = 400, 12, 12
HEAD = ("Node", "Log", "From window start to end", "First line", "Last line", "Understood",
        "Damaged", "Clock", "Layout", "Kafka")  # fmt: skip
LAYOUT_COLUMNS = ("file", "first_line", "last_line", "records", "layout", "found")
LAYOUT_HEAD = ("Layout", "Found", "Records", "Where")
HOW_FOUND = {
    "known": "known",
    "inferred": "inferred from the lines",
    "pasted": "given by --log-pattern",
    "configuration": "in the archive's logging configuration",
}
Silence = tuple[int, int, str]
# The role of files that are no logs.
_DOCUMENT = "document"

MAX_CONTAINERS, MAX_OPEN_CONTAINERS = 200, 8
CONTAINER_COLUMNS = (
    "container",
    "format",
    "how",
    "entries",
    "read",
    "left_out",
    "reasons",
    "damaged",
)
CONTAINER_HEAD = ("Archive or folder", "Format", "Entries", "Read", "Left out", "Damaged")


@dataclass(frozen=True)
class NodeLog:
    """The files of one node and one kind of log, taken together."""

    node: str
    kind: str
    files: tuple[Row, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """From when to when each file has lines."""
        times = ((row["first_ts"], row["last_ts"]) for row in self.files)
        return [(start, end) for start, end in times if start is not None and end is not None]

    def values(self, column: str) -> list[str]:
        """Return the different values of one column."""
        return sorted({str(row[column]) for row in self.files if row[column]})

    def total(self, column: str) -> int:
        """Return the sum of one column."""
        return sum(row[column] for row in self.files)


def render(run: RunOutput) -> Markup:
    """Say what is missing, then show one row for each node and kind of log."""
    logs, documents = _group_files(run.files), _group_documents(run.files)
    if not logs and not documents:
        return tag("p", "No table of input files was saved: nothing can be said about coverage.")
    filled = [log for log in logs if log.total("lines")]
    return join(
        [
            *(
                tag("p", tag("strong", one.text), class_="warning level-critical")
                for one in missing_nodes(run)
            ),
            *(tag("p", line, class_="warning") for line in _silences(run, logs)),
            *(tag("p", line, class_="warning") for line in _unplaced(run)),
            tag("p", _summary(run, logs), " ", _empty_logs(logs)),
            log_coverage.render(run),
            _listing(run, [*filled, *documents]) if filled or documents else None,
            _layouts(run),
            _container_table(run),
        ]
    )


def _layouts(run: RunOutput) -> Markup | None:
    """Say which layouts read how much, and how each was found; of files with several where."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in run.rows("layouts", LAYOUT_COLUMNS):
        groups.setdefault((row["layout"], row["found"]), []).append(row)
    if not groups or all(found == "known" for _, found in groups):
        # The table of logs names those.
        return None
    ordered = sorted(groups.items(), key=lambda one: (-sum(r["records"] for r in one[1]), one[0]))
    rows = (
        [layout, HOW_FOUND.get(found, found), f"{sum(r['records'] for r in some):,}", _where(some)]
        for (layout, found), some in ordered[:MAX_ROWS]
    )
    return table(LAYOUT_HEAD, rows, caption="How lines were read", numbers=("Records",))


def _where(stretches: list[Row]) -> str:
    first = min(stretches, key=lambda row: (natural_key(row["file"]), row["first_line"]))
    place = f"{first['file']}, lines {first['first_line']:,} to {first['last_line']:,}"
    return place if len(stretches) == 1 else f"{count(len(stretches), 'file')}, as {place}"


def _listing(run: RunOutput, logs: list[NodeLog]) -> Markup:
    """Say of each log what the figure does not; folded where it would fill a screen."""
    rows = (_row(run, log) for log in logs[:MAX_ROWS])
    listing = table(HEAD, rows, caption="Logs by node and kind", numbers=("Understood",))
    if len(logs) <= MAX_OPEN_ROWS:
        return listing
    rest = note_left_out(len(logs) - MAX_ROWS, "row", "{} more are not shown.")
    text = f"Each of the {len(logs):,} logs: first and last line, share understood, clock, layout"
    return tag("details", tag("summary", text), listing, rest)


def _empty_logs(logs: list[NodeLog]) -> str:
    """Name the logs in which there is nothing; a row of their own would say no more."""
    names = [f"{log.node} {log.kind}" for log in logs if not log.total("lines")]
    empty = count(len(names), "log is", "logs are")
    return f"{empty} empty: {join_names(names, 6)}." if names else ""


def _group_documents(files: list[Row]) -> list[NodeLog]:
    """Take together what is no log: one row for each format."""
    formats: dict[str, list[Row]] = {}
    for row in files:
        if row["role"] == _DOCUMENT:
            formats.setdefault(str(row["layout"]), []).append(row)
    return [
        NodeLog("no log", count(len(formats[name]), "file"), tuple(formats[name]))
        for name in sorted(formats)
    ]


def _group_files(files: list[Row]) -> list[NodeLog]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in (row for row in files if row["role"] != _DOCUMENT):
        key = row["node"] or "node not known", _log_kind(row["file"] or "")
        groups.setdefault(key, []).append(row)
    ordered = sorted(groups, key=lambda key: (natural_key(key[0]), key[1]))
    return [NodeLog(*key, tuple(groups[key])) for key in ordered]


def _log_kind(file: str) -> str:
    """Name the kind of log: the file name up to its first dot.

    >>> _log_kind("all.tgz!broker-1/state-change.log.2026-03-01-14.gz")
    'state-change'
    """
    return re.split(r"[/!\\]", file)[-1].split(".")[0] or file


def _row(run: RunOutput, log: NodeLog) -> list[Child]:
    spans, lines = log.spans, log.total("lines")
    damaged = [str(row["damaged"]) for row in log.files if row["damaged"]]
    return [
        log.node,
        log.kind,
        _bar(run, spans),
        short_time(run, min((start for start, _ in spans), default=None)),
        short_time(run, max((end for _, end in spans), default=None)),
        percent(lines - log.total("unparsed_lines"), lines),
        tag("strong", f"damaged: {join_names(damaged, 2)}") if damaged else "no",
        _clock_offset(run, log.node),
        join_names(log.values("layout"), 2) or "-",
        join_names(log.values("kafka_version"), 2) or "-",
    ]


def _clock_offset(run: RunOutput, node: str) -> str:
    return f"{run.clock_offsets[node]:+,} ms" if node in run.clock_offsets else "not known"


def _bar(run: RunOutput, spans: list[tuple[int, int]]) -> Markup:
    if not run.window or not spans:
        return tag("span", "no lines with a time", class_="strip")
    start, end = run.window
    pieces = (tag("span", style=strip_style(span, run.window)) for span in spans)
    covered = intervals.total_length(intervals.clip(spans, run.window))
    label = f"{percent(covered, end - start)} of the window lies between its lines"
    return tag("span", *pieces, class_="strip", role="img", aria_label=label)


def _summary(run: RunOutput, logs: list[NodeLog]) -> str:
    lines, unparsed = count_lines(run)
    damaged = sum(1 for row in run.files if row["damaged"])
    nodes = len({log.node for log in logs})
    start, end = map(time_text, run.window or (None, None))
    during = f", {start} to {end} {current_zone().label}" if run.window else ""
    return (
        f"{count(len({row['file'] for row in run.files}), 'file')} of {count(nodes, 'node')}, "
        f"{count(lines, 'line')}{during}, {percent(lines - unparsed, lines)} understood; "
        f"{count(damaged, 'file') if damaged else 'no file'} damaged."
    )


def _unplaced(run: RunOutput) -> list[str]:
    """Name the files in which several nodes wrote lines that nobody can tell apart."""
    shared = {row["file"] for row in run.files if row["node"]}
    lost = [row for row in run.files if not row["node"] and row["file"] in shared]
    return [
        f"Several nodes wrote {row['file']}, and nothing tells which of them wrote "
        f"{count(row['lines'], 'line')} of it: they prove nothing of a single one."
        for row in sorted(lost, key=lambda row: str(row["file"]))[:MAX_NODES]
        if row["lines"]
    ]


def _silences(run: RunOutput, logs: list[NodeLog]) -> list[str]:
    """Name the nodes that no log speaks for during a part of the window."""
    if not run.window:
        return []
    start, end = run.window
    min_length = max(60_000, (end - start) // 20)
    spans: dict[str, list[tuple[int, int]]] = {}
    for log in logs:
        # A log of one line is one too.
        known = ((first, max(last, first + 1)) for first, last in log.spans)
        spans.setdefault(log.node, []).extend(known)
    silences = [
        (first, last, node)
        for node, covered in sorted(spans.items())
        for first, last in intervals.gaps(covered, run.window)
        if last - first >= min_length
    ]
    return [_describe_silence(group) for group in _group_silences(silences, min_length // 10)]


def _group_silences(silences: list[Silence], slack: int) -> list[list[Silence]]:
    """Group nodes that are silent at the same time: ten lines alike are read by nobody."""
    groups: list[list[Silence]] = []
    for start, end, node in sorted(silences):
        near = (
            group
            for group in groups
            if start - group[0][0] <= slack and abs(end - group[0][1]) <= slack
        )
        group = next(near, None)
        if group is None:
            groups.append([(start, end, node)])
        else:
            group.append((start, end, node))
    return groups


def _describe_silence(group: list[Silence]) -> str:
    # The time for which none of them has lines.
    start, end = max(start for start, _, _ in group), min(end for _, end, _ in group)
    nodes = join_names(sorted(node for *_, node in group), MAX_NODES)
    first, last = time_text(start), time_text(end)
    last = last[11:] if last[:10] == first[:10] else last
    between = f"between {first} and {last} {current_zone().label}"
    return f"No logs from {nodes} {between} ({duration(end - start)})."


def _container_table(run: RunOutput) -> Markup | None:
    """Show one row for each archive and folder, and for each compressed file that is not whole."""
    rows = run.rows("containers", CONTAINER_COLUMNS)
    shown = [row for row in rows if not _is_whole_file(row)]
    if not shown:
        return None
    shown.sort(
        key=lambda row: (not row["damaged"], not row["left_out"], natural_key(row["container"]))
    )
    found, read, left_out = (sum(row[name] for row in rows) for name in CONTAINER_COLUMNS[3:6])
    sums = (
        f"{count(len(rows), 'container')}, which are folders, archives and compressed files:"
        f" {count(found, 'entry', 'entries')}, {read:,} read, {left_out:,} left out."
    )
    listing = table(
        CONTAINER_HEAD,
        map(_container_cells, shown[:MAX_CONTAINERS]),
        caption="What was found in archives",
        numbers=("Entries", "Read"),
    )
    rest = note_left_out(len(shown) - MAX_CONTAINERS, "row", "{} more are not shown.")
    if len(shown) <= MAX_OPEN_CONTAINERS:
        return join([tag("p", sums), listing])
    return join([tag("p", sums), tag("details", tag("summary", "Each of them"), listing, rest)])


def _is_whole_file(row: Row) -> bool:
    """Return True for a compressed file of which all was read."""
    whole = not row["left_out"] and not row["damaged"]
    return bool(whole and row["entries"] == 1 and row["how"] == "in order" and _is_single(row))


def _is_single(row: Row) -> bool:
    return str(row["format"]).rpartition(", ")[2] not in {"tar", "zip", "ar", "folder"}


def _container_cells(row: Row) -> list[Child]:
    reasons = [f"{one['entries']:,} {one['reason']}" for one in row["reasons"] or ()]
    damaged = tag("strong", f"damaged: {row['damaged']}") if row["damaged"] else "no"
    return [
        row["container"],
        row["format"],
        f"{row['entries']:,}",
        f"{row['read']:,}",
        "; ".join(reasons) or "none",
        damaged,
    ]
