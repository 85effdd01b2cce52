"""What a finding is about, in a few words.

Whether a finding is new, comes again, or is accepted, as runs of other weeks tell.

What to do, as detectors write it: sentences, and commands to be copied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from forensics.lib.formatting import count, detector_label, join_names
from forensics.report.html import Markup, command_block, join, render_prose, tag
from forensics.run_output.reader import Finding

# Most detectors speak of partitions where they name any; these of a process, or of who talks to it.
NODE_DETECTORS = frozenset({
    "broker-restart", "clock-skew", "disk-failure", "fencing-loop", "flapping-broker",
    "long-pause", "metadata-version-loop", "session-expiry", "slow-controller",
    "unclean-shutdown-recovery",
})  # fmt: skip
CLIENT_DETECTORS = frozenset({
    "client-disconnects", "offset-reset", "producer-fatal", "rebalance-storm", "record-too-large",
    "stale-metadata", "unreachable-listener",
})  # fmt: skip
# What holds all the while and does not happen: it neither begins nor ends an incident.
STANDING_DETECTORS = frozenset({"clock-skew", "config-risk", "contradiction"})
MAX_PARTITIONS_NAMED = 3
RESTART_TITLES = {"crash": "Crash", "controlled": "Planned restart"}


def drop_standing(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what is only a state of things, unless there is nothing else."""
    return [one for one in findings if one.detector not in STANDING_DETECTORS] or list(findings)


def short_title(finding: Finding) -> str:
    """Say what a finding found, in two words."""
    if finding.detector == "broker-restart":
        return RESTART_TITLES.get(str(finding.measures.get("kind")), "Restart")
    return detector_label(finding.detector)


def describe_scope(finding: Finding) -> str:
    """Say what a finding is about: what its detector speaks of first, or else what it names."""
    found = {
        "partitions": _partitions(finding.partitions),
        "brokers": _brokers(finding),
        "clients": join_names(list(finding.clients)),
    }
    order = ["partitions", "brokers", "clients"]
    if finding.detector in NODE_DETECTORS:
        order = ["brokers", "partitions", "clients"]
    if finding.detector in CLIENT_DETECTORS:
        order = ["clients", "partitions", "brokers"]
    return next((found[name] for name in order if found[name]), "the cluster")


def _partitions(names: tuple[str, ...]) -> str:
    if len(names) <= MAX_PARTITIONS_NAMED:
        return ", ".join(names)
    topics = sorted({name.rpartition("-")[0] for name in names})
    return f"{count(len(names), 'partition')} of {join_names(topics)}"


def _brokers(finding: Finding) -> str:
    node = finding.measures.get("node")
    if not finding.brokers:
        return str(node) if isinstance(node, str) else ""
    word = "broker" if len(finding.brokers) == 1 else "brokers"
    return f"{word} {join_names([str(broker) for broker in finding.brokers], 6)}"


def describe_status(finding: Finding) -> str:
    """Say the state of one finding; empty where no other run was compared.

    >>> from forensics.run_output.reader import Finding
    >>> told(Finding("F-1", "x", "high", "likely", "", 0, 0, status="recurring", weeks=3,
    ...              first_seen="2026-10-26"))
    'recurring (3 weeks, since 2026-10-26)'
    """
    parts = [count(finding.weeks_seen, "week")] if finding.weeks_seen else []
    parts += [f"since {finding.first_seen}"] if finding.first_seen else []
    state = f"{finding.status} ({', '.join(parts)})" if finding.status and parts else finding.status
    until = f"accepted until {finding.accepted_until}" if finding.accepted_until else ""
    return "; ".join(part for part in (state, until) if part)


def count_statuses(findings: Sequence[Finding]) -> str:
    """Count the findings by their states, the commonest first."""
    first = [_kind(finding) for finding in findings]
    ranked = sorted(Counter(first).items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number} {name}" for name, number in ranked)


def _kind(finding: Finding) -> str:
    # The state may go on to say since when: "recurring, 3 weeks".
    return finding.status.partition(",")[0].partition("(")[0].strip() or "not compared"


COMMAND_LINE = re.compile(
    r"\s*(\$ |# |(sudo |bin/|\./)?(kafka-[a-z-]+|zookeeper-shell)(\.sh)?( |$)|"
    r"(sudo )?(kcat|zcat|cat|sed|grep|df|du|ls|systemctl|chronyc|timedatectl|ntpq|journalctl|"
    r"jstat|iostat|curl|ssh) )"
)


def render_actions(actions: Sequence[str]) -> Markup | None:
    """List what to do, in order."""
    if not actions:
        return None
    items = (tag("li", _action(action)) for action in actions)
    return join([tag("h4", "What to do"), tag("ol", *items, class_="actions")])


def _action(action: str) -> Markup:
    """Set the lines that are commands as one block, and all else as prose."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in action.strip().splitlines():
        is_command = bool(COMMAND_LINE.match(line))
        if not blocks or blocks[-1][0] != is_command:
            blocks.append((is_command, []))
        blocks[-1][1].append(line)
    return join(
        command_block(lines) if is_command else render_prose("\n".join(lines))
        for is_command, lines in blocks
    )
