"""A summary for a ticket: the verdict, the findings, what was lost, and what could not be seen.

Names and sentences are escaped, lines of logs stand in fences: no text of a log can link, call
somebody, close a fence or draw a heading, in the Markdown of GitHub, GitLab and their like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forensics.lib.formatting import count, detector_label, join_names, span_text
from forensics.lib.text_safety import visible
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import loss_rows, sum_losses
from forensics.report.headline import verdict_sentence
from forensics.run_output.reader import Finding, RunOutput

MARKS = re.compile(r"([\\`*_\[\]<>|~&$^])")
# A web address, www, and the names of pictures between colons.
LINKS = re.compile(r":(?=//|[\w+-]*[A-Za-z][\w+-]*:)|(?<=www)\.", re.IGNORECASE)
# What begins a list, a heading or a line, where it begins a paragraph.
FIRST = re.compile(r"^(\d+)?(?=[-+=#.)])")
# Keeps `@team` and `#17` from being taken for somebody and something: it joins, and is not seen.
JOINER = "\u2060"
QUOTES, ROWS, NAMES = 3, 50, 8


def escape(text: str) -> str:
    r"""Escape a text that stands in a sentence.

    >>> plain("*a* <b> https://x.example")
    '\\*a\\* \\<b\\> https\\://x.example'
    """
    line = " ".join(visible(text).split())
    line = LINKS.sub(lambda mark: f"\\{mark[0]}", MARKS.sub(r"\\\1", line))
    line = re.sub(r"([@#])(?=\w)", rf"\1{JOINER}", line)
    return FIRST.sub(lambda mark: f"{mark[0]}\\", line, count=1)


def code_span(text: str) -> str:
    """Set a name as code, between more backticks than it holds.

    >>> code("a`b")
    '`` a`b ``'
    """
    line = " ".join(visible(text).split()) or " "
    most = max((len(run) for run in re.findall("`+", line)), default=0)
    pad = " " if most else ""
    return f"{'`' * (most + 1)}{pad}{line}{pad}{'`' * (most + 1)}".replace("|", "\\|")


def fenced_block(lines: Sequence[str]) -> str:
    """Set lines as a block that none of them can close."""
    shown = [visible(line).replace("\n", "⟨U+000A⟩") for line in lines]
    most = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, most + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def write(run: RunOutput, _events: bool) -> Iterator[str]:
    """Write the summary."""
    yield "# Kafka incident postmortem\n\n"
    yield f"**{escape(verdict_sentence(run))}**\n\n"
    loud = [one for one in run.findings if one.is_incident]
    quiet = [one for one in run.findings if not one.is_incident]
    for number, finding in enumerate(loud, 1):
        yield from _finding(number, finding)
    yield from _ledger(run)
    if quiet:
        yield f"## {count(len(quiet), 'finding')} of level low or info\n\n"
        for finding in quiet[:ROWS]:
            yield f"- {code_span(finding.id)} {escape(finding.severity)}: {escape(finding.title)}\n"
        yield _more(len(quiet) - ROWS, "finding")
    yield from _unseen(run)
    schema = run.document.get("schema", "not known")
    yield f"All times are {current_zone().label}. Written from findings.json, schema {schema}.\n"


def _finding(number: int, finding: Finding) -> Iterator[str]:
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
    for name, members in scopes:
        if members:
            yield f"- {name}: {join_names([code_span(one) for one in members], NAMES)}\n"
    yield "\n"
    for paragraph in re.split(r"\n\s*\n", finding.explanation.strip()):
        yield f"{escape(paragraph)}\n\n" if paragraph else ""
    if finding.evidence:
        yield f"Evidence, {count(len(finding.evidence), 'line')}:\n\n"
        for proof in finding.evidence[:QUOTES]:
            yield fenced_block([f"{proof.file}:{proof.line}", proof.text]) + "\n\n"
        yield _more(len(finding.evidence) - QUOTES, "line")
    if finding.actions:
        lines = [line for action in finding.actions for line in action.strip().splitlines()]
        yield f"What to do:\n\n{fenced_block(lines)}\n\n"


def _ledger(run: RunOutput) -> Iterator[str]:
    rows, taken = loss_rows(run.findings), sum_losses(run.findings)
    if not rows or not taken:
        return
    yield f"## Data loss: {escape(str(taken))}\n\n"
    yield "| Partition | Epoch | Leader | Before | Records, at least | At most |\n"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    for _, row in rows[:ROWS]:
        ids = (row.get(name) for name in ("leader_epoch", "leader", "previous_leader"))
        bounds = (row.get(name) for name in ("lost_records_min", "lost_records_max"))
        cells = [code_span(str(row.get("partition")))]
        cells += ["not known" if one is None else escape(str(one)) for one in ids]
        cells += ["not bounded" if one is None else escape(str(one)) for one in bounds]
        yield f"| {' | '.join(cells)} |\n"
    yield "\n" + _more(len(rows) - ROWS, "partition")


def _unseen(run: RunOutput) -> Iterator[str]:
    """Say which questions the logs could not answer, and which files could not be read."""
    lines = [
        escape(str(one.get("detector")))
        + f": {escape('; '.join(map(str, one.get('reasons') or ())))}"
        for one in run.document.get("detectors") or ()
        if one.get("status") in ("not_evaluable", "failed")
    ]
    lines += [
        f"{code_span(str(row['file']))}: {escape(str(row['damaged']))}"
        for row in run.files
        if row["damaged"]
    ]
    if not lines:
        return
    yield "## What could not be seen\n\n"
    yield from (f"- {line}\n" for line in lines[:ROWS])
    yield "\n" + _more(len(lines) - ROWS, "thing")


def _more(left: int, noun: str) -> str:
    return f"And {count(left, noun)} more in findings.json.\n\n" if left > 0 else "\n"
