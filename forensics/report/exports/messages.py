"""A run as a message: for Slack as Block Kit, and for any other webhook as plain JSON.

Names and lines of logs stay text: they can neither mention anybody nor make a link.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from forensics.lib.text_format import cut_text
from forensics.lib.text_safety import visible
from forensics.report.headline import describe_incident, headline, verdict_sentence
from forensics.report.incident_span import describe_span, incident_span
from forensics.report.summary import SummaryLine, explain_why, list_impact
from forensics.report.summary_actions import list_actions, list_unknown
from forensics.run_output.reader import RunOutput

WEBHOOK_SCHEMA = 1
# Slack refuses longer ones.
_MAX_HEADER, _MAX_SECTION, _MAX_TEXT = 150, 3000, 3900
_MAX_FINDINGS = 8
# What Slack formats: an invisible character keeps a name with it from being set in bold.
_MARKS = re.compile(r"([*~]|(?<!\w)_|_(?!\w))")
_JOINER = "\u2060"
_ICONS = {"incident": ":red_circle:", "clear": ":large_green_circle:"}
_UNKNOWN_ICON = ":white_circle:"


def write_slack(run: RunOutput, _flag: bool) -> Iterator[str]:
    """Write the body that an incoming webhook of Slack, or chat.postMessage, takes."""
    verdict = str(run.document.get("verdict"))
    icon = _ICONS.get(verdict, _UNKNOWN_ICON)
    title = headline(run)
    blocks: list[dict[str, Any]] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": cut_text(visible(title), _MAX_HEADER)},
        },
        _section(f"{icon} {escape(describe_incident(run) or verdict_sentence(run))}"),
    ]
    for name, lines in _answers(run):
        listed = "\n".join(f"\u2022 {escape(line.text)}" for line in lines)
        blocks.append(_section(f"*{name}*\n{listed}"))
    if run.incidents:
        named = [f"`{one.id}` {one.severity}: {escape(one.title)}" for one in run.incidents]
        more = [f"and {len(named) - _MAX_FINDINGS} more"] if len(named) > _MAX_FINDINGS else []
        text = "\n".join([*named[:_MAX_FINDINGS], *more])
        blocks.append(_section(f"*Findings*\n{text}"))
    footer = f"kafka-forensics, findings.json {run.short_digest}"
    blocks.append({"type": "context", "elements": [_text(footer)]})
    fallback = cut_text(escape(verdict_sentence(run)), _MAX_TEXT)
    yield json.dumps({"text": fallback, "blocks": blocks}, indent=1) + "\n"


def write_webhook(run: RunOutput, _flag: bool) -> Iterator[str]:
    """Write the same answers under plain names, for programs of one's own."""
    span = incident_span(run)
    window = run.document.get("window") or {}
    worst = run.incidents[0] if run.incidents else None
    named = {one.id: one for one in run.findings}
    originals = {str(row.get("id")): row for row in run.document.get("findings") or ()}
    body = {
        "schema": WEBHOOK_SCHEMA,
        "source": "kafka-forensics",
        "verdict": run.document.get("verdict"),
        "severity": worst.severity if worst else None,
        "confidence": worst.confidence if worst else None,
        "title": headline(run),
        "text": verdict_sentence(run),
        "when": describe_span(run, span) if span else None,
        "over": span.is_over if span else None,
        "window": {"from": window.get("from"), "to": window.get("to")},
        "impact": run.document.get("impact") or {},
        **{key: [line.text for line in lines] for key, lines in _keyed(run)},
        "findings": [
            {
                "id": one.id, "detector": one.detector, "severity": one.severity,
                "title": one.title, "from": originals[one.id].get("from"),
                "to": originals[one.id].get("to"),
            }
            for one in named.values()
        ],
        "digest": run.short_digest,
    }  # fmt: skip
    yield json.dumps(body, indent=1) + "\n"


def escape(text: str) -> str:
    """Keep a text from being more than text in Slack; code between backticks stays code.

    >>> escape("<!channel> & *bold* in orders_v2")
    '&lt;!channel&gt; &amp; \u2060*bold\u2060* in orders_v2'
    """
    line = " ".join(visible(text).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    parts = line.split("`")
    # Marks inside of code are none.
    shown = [part if at % 2 and at < len(parts) - 1 else _MARKS.sub(rf"{_JOINER}\1", part)
             for at, part in enumerate(parts)]  # fmt: skip
    return "`".join(shown)


def _keyed(run: RunOutput) -> list[tuple[str, Sequence[SummaryLine]]]:
    return [
        ("why", explain_why(run)), ("impacts", list_impact(run)), ("do_now", list_actions(run)),
        ("not_known", list_unknown(run)),
    ]  # fmt: skip


def _answers(run: RunOutput) -> Iterator[tuple[str, Sequence[SummaryLine]]]:
    names = {"why": "Why", "impacts": "Impact", "do_now": "Do now", "not_known": "Not known"}
    is_incident = bool(run.incidents)
    for key, lines in _keyed(run):
        if lines and (is_incident or key == "not_known"):
            yield names[key], lines


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> dict[str, Any]:
    # Verbatim: addresses and names of channels in it do not become links.
    return {"type": "mrkdwn", "text": cut_text(text, _MAX_SECTION), "verbatim": True}
