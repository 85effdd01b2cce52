"""A ticket: what, why, impact, what to do, what happened when, data loss and evidence.

Names and sentences are escaped, lines of logs stand in fences: no text of a log can make a link, a
mention or a heading, or close a fence, in the Markdown of GitHub, GitLab and their like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forensics.lib.node_ids import client_name
from forensics.lib.text_format import count, detector_label, join_names, span_text, time_text
from forensics.lib.text_safety import visible
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import loss_rows, sum_losses
from forensics.report.headline import describe_incident, headline, verdict_sentence
from forensics.report.incident_story import build_story
from forensics.report.routine import merge_routine
from forensics.report.summary import SummaryLine, explain_why, list_impact
from forensics.report.summary_actions import describe_logs, list_actions, list_unknown
from forensics.run_output.reader import RunOutput, SavedFinding

MARKS = re.compile(r"([\\`*_\[\]<>|~&$^])")
# Web addresses, www, and emoji names between colons.
LINKS = re.compile(r":(?=//|[\w+-]*[A-Za-z][\w+-]*:)|(?<=www)\.", re.IGNORECASE)
# What would make a list, a heading or a rule at the begin of a paragraph.
FIRST = re.compile(r"^(\d+)?(?=[-+=#.)])")
# An invisible character that keeps `@team` and `#17` from becoming a mention or a reference.
JOINER = "\u2060"
MAX_QUOTES, MAX_ROWS, MAX_NAMES = 3, 50, 8
# Of a ticket that is not full.
MAX_FINDINGS, MAX_LINES, MAX_LINE, MAX_ROUTINE, MAX_BLIND = 4, 1, 400, 4, 4


def escape(text: str) -> str:
    r"""Escape a text for use in a sentence.

    >>> escape("*a* <b> https://x.example")
    '\\*a\\* \\<b\\> https\\://x.example'
    """
    line = " ".join(visible(text).split())
    line = LINKS.sub(lambda mark: f"\\{mark[0]}", MARKS.sub(r"\\\1", line))
    line = re.sub(r"([@#])(?=\w)", rf"\1{JOINER}", line)
    return FIRST.sub(lambda mark: f"{mark[0]}\\", line, count=1)


def code_span(text: str, *, is_cell: bool = False) -> str:
    """Render a name as code, between more backticks than it holds; in a table bars are escaped.

    >>> code_span("a`b")
    '`` a`b ``'
    """
    line = " ".join(visible(text).split()) or " "
    pad, ticks = " " if "`" in line else "", "`" * (_most_backticks([line]) + 1)
    span = f"{ticks}{pad}{line}{pad}{ticks}"
    return span.replace("|", "\\|") if is_cell else span


def fenced_block(lines: Sequence[str]) -> str:
    """Render lines as a block that none of them can close."""
    shown = [visible(line).replace("\n", "⟨U+000A⟩") for line in lines]
    fence = "`" * max(3, _most_backticks(shown) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def _most_backticks(lines: Sequence[str]) -> int:
    return max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)


def write(run: RunOutput, full: bool) -> Iterator[str]:
    """Write the ticket: the answers and what supports them; if `full`, every finding at length."""
    yield f"# {escape(headline(run))}\n\n"
    yield f"**{escape(describe_incident(run) or verdict_sentence(run))}**\n\n"
    if run.incidents:
        yield from _section("Why", explain_why(run))
        yield from _section("Impact", list_impact(run))
        yield from _section("To do", list_actions(run), "- [ ] ")
    yield from _section("Not known", list_unknown(run))
    yield from _section("Logs", describe_logs(run))
    yield from _story(run)
    yield from _data_loss(run)
    quiet = [finding for finding in run.findings if not finding.is_incident]
    if full:
        for number, finding in enumerate(run.incidents, 1):
            yield from _finding(number, finding)
        yield from _list_quiet(quiet)
    else:
        yield from _evidence(run.incidents)
        yield from _routine(run, quiet)
    yield from _blind_spots(run, MAX_ROWS if full else MAX_BLIND)
    schema = run.document.get("schema", "not known")
    yield f"All times are {current_zone().label}. Written from findings.json, schema {schema}.\n"


def _section(title: str, lines: Sequence[SummaryLine], mark: str = "- ") -> Iterator[str]:
    if lines:
        yield f"## {title}\n"
        yield from (f"{mark}{_inline(line.text)}\n" for line in lines)
        yield "\n"


def _inline(text: str) -> str:
    """Render a sentence in which commands and names stand between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0 or "``" in text:
        # A name with backticks in it: nobody can say which are ours.
        return escape(text)
    shown = []
    for at, part in enumerate(parts):
        begin, end = " " * part[:1].isspace(), " " * part[-1:].isspace()
        shown.append(code_span(part) if at % 2 else f"{begin}{escape(part)}{end}")
    return "".join(shown).strip()


def _story(run: RunOutput) -> Iterator[str]:
    """Write what happened in the order of time."""
    rows, left = build_story(run) if run.incidents else ([], 0)
    if not rows:
        return
    yield "## What happened\n"
    told = set()
    for row in sorted(rows, key=lambda row: row.at):
        is_end = row.group == "recovery" and row.subject.lower() not in row.text.lower()
        text = f"{row.text.rstrip('.')} ({row.subject})" if is_end else row.text
        if text not in told:
            told.add(text)
            yield f"- {time_text(row.at, exact=True)[11:]} {escape(text)}\n"
    yield "\n" + _more(left, "thing")


def _evidence(findings: Sequence[SavedFinding]) -> Iterator[str]:
    """Quote the first lines that each finding rests on."""
    if not findings:
        return
    yield "## Evidence\n"
    for finding in findings[:MAX_FINDINGS]:
        yield f"- {code_span(finding.id)} {escape(finding.severity)}: "
        yield f"{escape(finding.title or detector_label(finding.detector))}\n"
        for line in finding.evidence[:MAX_LINES]:
            yield f"  {code_span(f'{line.file}:{line.line}  {line.text}'[:MAX_LINE])}\n"
    yield "\n"
    yield _more(len(findings) - MAX_FINDINGS, "finding")


def _routine(run: RunOutput, quiet: Sequence[SavedFinding]) -> Iterator[str]:
    """Count findings of level low and info; name their kinds where there is nothing else."""
    if not quiet:
        return
    if run.incidents:
        ids = join_names([code_span(one.id) for one in quiet], MAX_NAMES)
        yield f"{count(len(quiet), 'finding')} of level low or info: {ids}\n\n"
        return
    yield f"## {count(len(quiet), 'finding')} of level low or info\n"
    lines = merge_routine(run, quiet)
    for line in lines[:MAX_ROUTINE]:
        ids = join_names([code_span(one.id) for one in line.findings], 3)
        yield f"- {escape(line.text)} ({ids})\n"
    yield "\n" + _more(len(lines) - MAX_ROUTINE, "kind")


def _list_quiet(quiet: Sequence[SavedFinding]) -> Iterator[str]:
    if not quiet:
        return
    yield f"## {count(len(quiet), 'finding')} of level low or info\n"
    for finding in quiet[:MAX_ROWS]:
        yield f"- {code_span(finding.id)} {escape(finding.severity)}: {escape(finding.title)}\n"
    yield _more(len(quiet) - MAX_ROWS, "finding")


def _finding(number: int, finding: SavedFinding) -> Iterator[str]:
    yield f"## {number}. {escape(finding.title or detector_label(finding.detector))}\n\n"
    when = span_text(finding.start_ms, finding.end_ms)
    yield f"{code_span(finding.id)}, {escape(finding.severity)}, "
    yield f"{escape(detector_label(finding.detector))}, "
    yield f"confidence {escape(finding.confidence)}, {when}\n\n"
    scopes = (
        ("Brokers", list(map(str, finding.brokers))),
        ("Partitions", list(finding.partitions)),
        ("Clients", [client_name(one) for one in finding.clients]),
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
    yield f"## Data loss: {escape(str(total))}\n"
    yield "| Partition | Epoch | Leader | Before | Records, at least | At most |\n"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    for _, row in rows[:MAX_ROWS]:
        ids = (row.leader_epoch, row.leader, row.previous_leader)
        bounds = (row.lost_records_min, row.lost_records_max)
        cells = [code_span(row.partition, is_cell=True)]
        cells += [_cell(value, "not known") for value in ids]
        cells += [_cell(value, "not bounded") for value in bounds]
        yield f"| {' | '.join(cells)} |\n"
    yield "\n" + _more(len(rows) - MAX_ROWS, "partition")


def _cell(value: object, missing: str) -> str:
    return missing if value is None else escape(str(value))


def _blind_spots(run: RunOutput, most: int) -> Iterator[str]:
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
    yield "## What could not be seen\n"
    yield from (f"- {line}\n" for line in lines[:most])
    yield "\n" + _more(len(lines) - most, "thing")


def _more(left: int, noun: str) -> str:
    return f"And {count(left, noun)} more in findings.json.\n\n" if left > 0 else ""
