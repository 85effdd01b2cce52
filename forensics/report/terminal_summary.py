"""The end of a run in six lines for a terminal: what was read, whose logs, found, and where to go.

The headline, its times and its loss are those of the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forensics.lib.storage import display, is_remote
from forensics.lib.text_format import count, format_bytes, join_names, percent, rough_duration
from forensics.report.coverage_advice import list_hidden_nodes
from forensics.report.headline import (
    describe_incident,
    describe_reading,
    headline,
    list_doubts,
    verdict_sentence,
)
from forensics.run_output.reader import RunOutput

COLLECT = 'see "Collect the logs", docs/collect-logs.md'
ROLES = ("broker", "controller", "client")
VERDICT_WORDS = {"incident": "INCIDENT", "clear": "CLEAR", "cannot_tell": "CANNOT TELL"}
Row = tuple[str, str]


def summary_rows(
    run: RunOutput, result: Mapping[str, Any], archives: Sequence[str]
) -> Iterator[Row]:
    """Yield the end of a run, a label and a text for each line."""
    yield "read", describe_input(result)
    yield "logs of", describe_nodes(run)
    yield "found", describe_findings(result)
    is_closed = bool((run.document.get("quality") or {}).get("closed"))
    verdict = "cannot_tell" if is_closed else str(run.document.get("verdict"))
    yield VERDICT_WORDS.get(verdict, verdict), _answer(run)
    yield "next", _next_step(run, archives)
    yield "page", page_address(run)


def page_address(run: RunOutput) -> str:
    """Return the address of the page, as a terminal makes a link of it and a browser takes it."""
    if is_remote(run.place):
        return f"{run.place}/report.html"
    return (run.folder / "report.html").absolute().as_uri()


def describe_input(result: Mapping[str, Any]) -> str:
    """Say how much was read, how much of it was understood, and how long that took."""
    archive, lines = result.get("archive") or {}, result.get("lines") or {}
    read = f"{count(archive.get('files'), 'file')}, {format_bytes(archive.get('bytes') or 0)}"
    total = archive.get("lines") or 0
    text = f"{read}, {count(total, 'line')}"
    if total:
        text += f" ({percent(total - lines.get('unparsed_lines', 0), total)} understood)"
    if result.get("damaged"):
        text += f"; {count(result['damaged'], 'file')} damaged, listed on the page"
    if seconds := result.get("seconds"):
        text += f", in {rough_duration(sum(seconds.values()))}"
    return text


def describe_nodes(run: RunOutput) -> str:
    """Say whose logs there are, and whose are missing."""
    parts = []
    for role in ROLES:
        nodes = {row["node"] for row in run.files if row["role"] == role and row["node"]}
        if nodes:
            parts.append(count(len(nodes), role))
    here = ", ".join(parts) or "no node that the lines name"
    hidden = list_hidden_nodes(run)
    if hidden:
        holes = [f"{words.upper()}: {join_names(nodes, 4)}" for words, nodes in hidden.items()]
        return f"{here}; {'; '.join(holes)}. To get them {COLLECT}"
    if not any(part.endswith(("broker", "brokers")) for part in parts):
        return f"{here}; NO BROKER'S LOG. To get them {COLLECT}"
    return here


def describe_findings(result: Mapping[str, Any]) -> str:
    """Count the findings by their severity."""
    levels = [f"{number} {level}" for level, number in (result.get("findings") or {}).items()
              if number]  # fmt: skip
    suppressed = result.get("suppressed")
    return (", ".join(levels) or "nothing") + (f"; {suppressed} suppressed" if suppressed else "")


def _answer(run: RunOutput) -> str:
    title = headline(run)
    if (run.document.get("quality") or {}).get("closed"):
        return verdict_sentence(run)
    if told := describe_incident(run):
        return f"{title}\n{told}"
    # The label before it says so.
    told = title.removeprefix("Cannot tell: ")
    title = f"{told[:1].upper()}{told[1:]}"
    doubts = list_doubts(run)
    why = f"\n{'; '.join(doubts)}" if doubts else ""
    return f"{title}; {describe_reading(run)}{why}"


def _next_step(run: RunOutput, archives: Sequence[str]) -> str:
    out = shlex.quote(run.place)
    if run.incidents and archives:
        named = " ".join(f"--archive {shlex.quote(display(one))}" for one in archives)
        return f"kafka-forensics show {run.incidents[0].id} --out {out} {named}"
    if run.incidents:
        return f"kafka-forensics export {out} --format markdown -o ticket.md"
    if run.document.get("verdict") == "clear":
        return f"kafka-forensics timeline {out} --broker ID (or --topic, --partition)"
    return f"what is missing stands on the page; {COLLECT}"


def week_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the end of an audit, a label and a text for each line."""
    week = result.get("week")
    if week is None:
        yield "CANNOT TELL", str(result.get("reason"))
        return
    yield "read", _describe_new_input(result)
    yield "found", f"{describe_findings(result)} in {week}"
    verdict = str(result.get("verdict"))
    reason = str(result.get("reason"))
    if reason == result.get("summary"):
        reason = ""
    text = f"{week}: {result.get('summary')}"
    yield VERDICT_WORDS.get(verdict, verdict), f"{text}\n{reason}".strip()
    yield "page", _address(result.get("page"))
    yield "all weeks", _address(result.get("index"))


def _describe_new_input(result: Mapping[str, Any]) -> str:
    """Say how much an audit has read that was not in the store."""
    new = count(result.get("events"), "new event") if "events" in result else "nothing new"
    drawn = count(len(result.get("drawn") or ()), "page")
    return f"{new}; {drawn} drawn"


def _address(place: object) -> str:
    """Return where a page is: an address stays one, a path becomes one."""
    text = str(place or "none")
    return text if "://" in text or text == "none" else Path(text).absolute().as_uri()
