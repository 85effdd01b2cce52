"""What to do, as detectors write it: sentences, and commands to be copied."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forensics.report.markup import Markup, command, join, prose, tag

__all__ = ["advice"]

COMMAND = re.compile(
    r"\s*(\$ |# |(sudo |bin/|\./)?(kafka-[a-z-]+|zookeeper-shell)(\.sh)?( |$)|"
    r"(sudo )?(kcat|zcat|cat|sed|grep|df|du|ls|systemctl|chronyc|timedatectl|ntpq|journalctl|"
    r"jstat|iostat|curl|ssh) )"
)


def advice(actions: Sequence[str]) -> Markup | None:
    """List what to do, in order."""
    if not actions:
        return None
    items = (tag("li", _action(action)) for action in actions)
    return join([tag("h4", "What to do"), tag("ol", *items, class_="actions")])


def _action(action: str) -> Markup:
    """Set the lines that are commands as one block, and all else as prose."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in action.strip().splitlines():
        is_command = bool(COMMAND.match(line))
        if not blocks or blocks[-1][0] != is_command:
            blocks.append((is_command, []))
        blocks[-1][1].append(line)
    return join(
        command(lines) if is_command else prose("\n".join(lines)) for is_command, lines in blocks
    )
