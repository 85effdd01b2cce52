"""A summary for a ticket: verdict, findings, data loss, and what could not be seen.

Names and sentences are escaped, lines of logs stand in fences: no text of a log can make a link, a
mention or a heading, or close a fence, in the Markdown of GitHub, GitLab and their like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forensics.lib.text_format import count, detector_label, join_names, span_text
from forensics.lib.text_safety import visible
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import loss_rows, sum_losses
from forensics.report.headline import verdict_sentence
from forensics.run_output.reader import RunOutput, SavedFinding

MARKS = re.compile(r"([\\`*_\[\]<>|~&$^])")
# Web addresses, www, and emoji names between colons.
LINKS = re.compile(r":(?=//|[\w+-]*[A-Za-z][\w+-]*:)|(?<=www)\.", re.IGNORECASE)
# What would make a list, a heading or a rule at the begin of a paragraph.
FIRST = re.compile(r"^(\d+)?(?=[-+=#.)])")
# An invisible character that keeps `@team` and `#17` from becoming a mention or a reference.
JOINER = "\u2060"
MAX_QUOTES, MAX_ROWS, MAX_NAMES = 3, 50, 8


def escape(text: str) -> str:
    r"""Escape a text for use in a sentence.

    >>> escape("*a* <b> https://x.example")
    '\\*a\\* \\<b\\> https\\://x.example'
    """
    line = " ".join(visible(text).split())
    line = LINKS.sub(lambda mark: f"\\{mark[0]}", MARKS.sub(r"\\\1", line))
    line = re.sub(r"([@#])(?=\w)", rf"\1{JOINER}", line)
    return FIRST.sub(lambda mark: f"{mark[0]}\\", line, count=1)


def code_span(text: str) -> str:
    """Render a name as code, between more backticks than it holds.

    >>> code_span("a`b")
    '`` a`b ``'
    """
    line = " ".join(visible(text).split()) or " "
    pad, ticks = " " if "`" in line else "", "`" * (_most_backticks([line]) + 1)
    return f"{ticks}{pad}{line}{pad}{ticks}".replace("|", "\\|")


def fenced_block(lines: Sequence[str]) -> str:
    """Render lines as a block that none of them can close."""
    shown = [visible(line).replace("\n", "⟨U+000A⟩") for line in lines]
    fence = "`" * max(3, _most_backticks(shown) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def _most_backticks(lines: Sequence[str]) -> int:
    return max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)


def write(run: RunOutput, _events: bool) -> Iterator[str]:
    """Write the summary."""
    yield "# Kafka incident postmortem\n\n"
    yield f"**{escape(verdict_sentence(run))}**\n\n"
    quiet = [finding for finding in run.findings if not finding.is_incident]
    for number, finding in enumerate(run.incidents, 1):
        yield from _finding(number, finding)
    yield from _data_loss(run)
    if quiet:
        yield f"## {count(len(quiet), 'finding')} of level low or info\n\n"
        for finding in quiet[:MAX_ROWS]:
            yield f"- {code_span(finding.id)} {escape(finding.severity)}: {escape(finding.title)}\n"
        yield _more(len(quiet) - MAX_ROWS, "finding")
    yield from _blind_spots(run)
    schema = run.document.get("schema", "not known")
    yield f"All times are {current_zone().label}. Written from findings.json, schema {schema}.\n"


def _finding(number: int, finding: SavedFinding) -> Iterator[str]:
    yield f"## {number}. {escape(finding.title or detector_label(finding.detector))}\n\n"
    when = span_text(finding.start_ms, finding.end_ms)
    yield f"{code_span(finding.id)}, {escape(finding.severity)}, "
    yield f"{escape(detector_label(finding.detector))}, "
    yield f"confidence {escape(finding.confidence)}, {when}\n\n"
    scopes = (
        ("Brokers", list(map(str, finding.brokers))),
        ("Partitions", list(finding.partitions)),
        ("Clients", list(finding.clients)),
    )
    for scope, members in scopes:
        if members:
            yield f"- {scope}: {join_names([code_span(name) for name in members], MAX_NAMES)}\n"
    yield "\n"
    for paragraph in re.split(r"\n\s*\n", finding.explanation.strip()):
        yield f"{escape(paragraph)}\n\n" if paragraph else ""
    if finding.evidence:
        yield f"Evidence, {count(len(finding.evidence), 'line')}:\n\n"
        for line in finding.evidence[:MAX_QUOTES]:
            yield fenced_block([f"{line.file}:{line.line}", line.text]) + "\n\n"
        yield _more(len(finding.evidence) - MAX_QUOTES, "line")
    if finding.actions:
        lines = [line for action in finding.actions for line in action.strip().splitlines()]
        yield f"What to do:\n\n{fenced_block(lines)}\n\n"


def _data_loss(run: RunOutput) -> Iterator[str]:
    rows, total = loss_rows(run.findings), sum_losses(run.findings)
    if not rows or not total:
        return
    yield f"## Data loss: {escape(str(total))}\n\n"
    yield "| Partition | Epoch | Leader | Before | Records, at least | At most |\n"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    for _, row in rows[:MAX_ROWS]:
        ids = (row.leader_epoch, row.leader, row.previous_leader)
        bounds = (row.lost_records_min, row.lost_records_max)
        cells = [code_span(row.partition)]
        cells += [_cell(value, "not known") for value in ids]
        cells += [_cell(value, "not bounded") for value in bounds]
        yield f"| {' | '.join(cells)} |\n"
    yield "\n" + _more(len(rows) - MAX_ROWS, "partition")


def _cell(value: object, missing: str) -> str:
    return missing if value is None else escape(str(value))


def _blind_spots(run: RunOutput) -> Iterator[str]:
    """Name the detectors that could not be evaluated, and the files that could not be read."""
    lines = [
        f"{escape(str(outcome.get('detector')))}: {escape('; '.join(map(str, reasons)))}"
        for outcome in run.document.get("detectors") or ()
        if outcome.get("status") in ("not_evaluable", "failed")
        for reasons in (outcome.get("reasons") or (),)
    ]
    lines += [
        f"{code_span(str(row['file']))}: {escape(str(row['damaged']))}"
        for row in run.files
        if row["damaged"]
    ]
    if not lines:
        return
    yield "## What could not be seen\n\n"
    yield from (f"- {line}\n" for line in lines[:MAX_ROWS])
    yield "\n" + _more(len(lines) - MAX_ROWS, "thing")


def _more(left: int, noun: str) -> str:
    return f"And {count(left, noun)} more in findings.json.\n\n" if left > 0 else "\n"
