"""A finding in words: title, scope, period, status against other weeks, and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from forensics.lib.node_ids import CLIENT_INSTANCE, client_name, name_clients
from forensics.lib.text_format import (
    count,
    detector_label,
    join_names,
    parse_millis,
    pluralize,
    span_text,
)
from forensics.report.html import Markup, command_block, join, render_prose, tag
from forensics.run_output.reader import RunOutput, SavedFinding

# Detectors of processes, and of clients; all others speak of partitions where they name any.
NODE_DETECTORS = frozenset({
    "broker-restart", "clock-skew", "disk-failure", "fencing-loop", "flapping-broker",
    "long-pause", "metadata-version-loop", "rolling-restart", "session-expiry", "slow-controller",
    "unclean-shutdown-recovery",
})  # fmt: skip
CLIENT_DETECTORS = frozenset({
    "client-config", "client-disconnects", "client-ended", "offset-reset", "producer-fatal",
    "rebalance-storm", "record-too-large", "stale-metadata", "undelivered-records",
    "unreachable-listener",
})  # fmt: skip
# These find what holds all the while: it neither begins nor ends an incident.
STANDING_DETECTORS = frozenset({"client-config", "clock-skew", "config-risk", "contradiction"})
MAX_PARTITIONS_NAMED = 3
RESTART_TITLES = {"crash": "Crash", "controlled": "Planned restart"}
# Nodes that are brokers; hosts have longer names.
BROKER_NODE = re.compile(r"(?<![\w./-])([Bb])roker-(\d{1,10})(?![\w/-]|[.:]\w)")
_BEGINS = re.compile(r"(?<=\. )broker(?= \d)")
COMMAND_LINE = re.compile(
    r"\s*(\$ |# |(sudo |bin/|\./)?(kafka-[a-z-]+|zookeeper-shell)(\.sh|\.bat)?( |$)|"
    r"(sudo )?(kcat|zcat|cat|sed|grep|df|du|ls|systemctl|chronyc|timedatectl|ntpq|journalctl|"
    r"jstat|iostat|echo|curl|ssh|ss|nc) |(Get|Select|Test)-[A-Z][A-Za-z]+ |w32tm )"
)


def drop_standing(findings: Sequence[SavedFinding]) -> list[SavedFinding]:
    """Leave out findings about a lasting state, unless there are no others."""
    passing = [finding for finding in findings if finding.detector not in STANDING_DETECTORS]
    return passing or list(findings)


def short_title(finding: SavedFinding) -> str:
    """Say what a finding found, in two words."""
    if finding.detector == "broker-restart":
        return RESTART_TITLES.get(str(finding.measures.get("kind")), "Restart")
    return detector_label(finding.detector)


def describe_scope(finding: SavedFinding) -> str:
    """Say what a finding is about: what its detector speaks of first, or else what it names."""
    partitions = _partitions(finding.partitions)
    brokers, clients = _brokers(finding), join_names([client_name(one) for one in finding.clients])
    if finding.detector in NODE_DETECTORS:
        return brokers or partitions or clients or "the cluster"
    if finding.detector in CLIENT_DETECTORS:
        return clients or partitions or brokers or "the cluster"
    return partitions or brokers or clients or "the cluster"


def _partitions(names: tuple[str, ...]) -> str:
    if len(names) <= MAX_PARTITIONS_NAMED:
        return ", ".join(names)
    topics = sorted({name.rpartition("-")[0] for name in names})
    return f"{count(len(names), 'partition')} of {join_names(topics)}"


def _brokers(finding: SavedFinding) -> str:
    node = finding.measures.get("node")
    if not finding.brokers:
        return node if isinstance(node, str) else ""
    word = pluralize("broker", len(finding.brokers))
    return f"{word} {join_names([str(broker) for broker in finding.brokers], 6)}"


def shorten_names(text: str) -> str:
    """Name brokers as people do, and clients that are known by their file alone by its folder.

    >>> shorten_names("disk of broker-2, broker-3.example; file:logs.tgz!app-1/client.log stopped")
    'disk of broker 2, broker-3.example; app-1 stopped'
    >>> shorten_names("It ended. broker-2 froze.")
    'It ended. Broker 2 froze.'
    """
    text = BROKER_NODE.sub(r"\1roker \2", CLIENT_INSTANCE.sub("", name_clients(text)))
    return _BEGINS.sub("Broker", text)


def is_open(run: RunOutput, finding: SavedFinding) -> bool:
    """Return True if the logs end before the finding does."""
    last = run.logs_end
    return finding.end_ms is None or (last is not None and finding.end_ms >= last)


def times_of(finding: SavedFinding) -> list[tuple[int, float | None]]:
    """Return when each freeze or absence of a finding began, and how many seconds it was."""
    rows = finding.measures.get("times") or finding.measures.get("absences")
    if isinstance(rows, list):
        dated = [
            (parse_millis(row.get("from")), row.get("seconds"))
            for row in rows
            if isinstance(row, dict)
        ]
        return [(at, seconds) for at, seconds in dated if at is not None]
    away = finding.measures.get("away_s")
    known = isinstance(away, int | float) and finding.start_ms is not None
    return [(finding.start_ms or 0, float(away or 0))] if known else []


def estimated_starts(finding: SavedFinding) -> set[int]:
    """Return which of `times_of` began at a moment that is known to within some seconds only."""
    rows = finding.measures.get("times") or finding.measures.get("absences")
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    # What only silence tells of began at some time before.
    is_rough = finding.detector == "long-pause" and "about" in finding.title
    starts = (parse_millis(row.get("from")) for row in known if is_rough or row.get("within_s"))
    return {at for at in starts if at is not None}


def whole_seconds(seconds: float) -> int:
    """Return whole seconds in milliseconds, where tenths say nothing.

    >>> whole_seconds(14.04), whole_seconds(1.25)
    (14000, 1250)
    """
    return round(seconds) * 1000 if seconds >= 2 else round(seconds * 1000)


def finding_period(run: RunOutput, finding: SavedFinding) -> str:
    """Say from when to when a finding reaches; one that is open ends with the logs."""
    if not is_open(run, finding) or run.logs_end is None:
        return span_text(finding.start_ms, finding.end_ms)
    return f"{span_text(finding.start_ms, run.logs_end)}, to the end of the logs"


def describe_status(finding: SavedFinding) -> str:
    """Say whether a finding is new, recurring or accepted; empty where no other run was compared.

    >>> from forensics.run_output.reader import SavedFinding
    >>> seen = {"status": "recurring", "weeks_seen": 3, "first_seen": "2026-10-26"}
    >>> describe_status(SavedFinding("F-1", "x", "high", "likely", "", 0, 0, **seen))
    'recurring (3 weeks, since 2026-10-26)'
    """
    parts = [count(finding.weeks_seen, "week")] if finding.weeks_seen else []
    parts += [f"since {finding.first_seen}"] if finding.first_seen else []
    state = f"{finding.status} ({', '.join(parts)})" if finding.status and parts else finding.status
    until = f"accepted until {finding.accepted_until}" if finding.accepted_until else ""
    return "; ".join(part for part in (state, until) if part)


def count_statuses(findings: Sequence[SavedFinding]) -> str:
    """Count the findings by their status, the commonest first."""
    # The status may go on to say since when: "recurring, 3 weeks".
    statuses = Counter(
        re.split(r"[,(]", finding.status)[0].strip() or "not compared" for finding in findings
    )
    ranked = sorted(statuses.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number} {status}" for status, number in ranked)


def render_actions(actions: Sequence[str]) -> Markup | None:
    """List what to do, in order."""
    if not actions:
        return None
    items = (tag("li", _render_action(action)) for action in actions)
    return tag("ol", *items, class_="actions")


def _render_action(action: str) -> Markup:
    """Render commands as blocks to be copied, and all other lines as prose."""
    blocks = groupby(action.strip().splitlines(), lambda line: bool(COMMAND_LINE.match(line)))
    return join(
        command_block(list(lines)) if is_command else render_prose("\n".join(lines))
        for is_command, lines in blocks
    )
