"""What the unclean elections took: one row a partition, bounded where it can be."""

from __future__ import annotations

import shlex
from typing import Any

from forensics.report.answer import ledger, loss
from forensics.report.escape import visible
from forensics.report.markup import Child, Markup, anchor, code, join, table, tag
from forensics.report.saved import Finding, Saved
from forensics.report.words import count

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 50
TITLE = "Data-loss ledger"
HINT = (
    "Set LOG_DIR to the broker's log.dirs; choose the segment that holds the first lost offset "
    "where there is more than one."
)
FIRST = "00000000000000000000.log"
MOST, COMMANDS = 1000, 5
HEAD = ("Partition", "Epoch", "Unclean leader", "Leader before", "Lost from", "Lost to (exclusive)",
        "Records, at least", "Records, at most", "Also cut", "Note", "Finding")  # fmt: skip
RIGHT = HEAD[1:8]


def render(saved: Saved) -> Markup:
    """List what was lost, the totals, and how to check it on the brokers."""
    rows = ledger(saved.findings)
    taken = loss(saved.findings)
    if not rows or not taken:
        elections = any(found.detector == "unclean-election" for found in saved.findings)
        unknown = "An unclean election was found, but its partitions were not recorded."
        return tag("p", unknown if elections else "No unclean election was seen.")
    bounded = len(rows) - taken.unbounded
    total = (
        f"Total: at least {count(taken.at_least, 'record')} lost; at most "
        f"{taken.at_most:,} on the {count(bounded, 'partition')} that could be bounded; "
        f"{count(taken.unbounded, 'partition')} could not be bounded."
    )
    caption = "Partitions that lost a part of their history"
    lines = (_row(finding, row) for finding, row in rows[:MOST])
    more = len(rows) - MOST
    return join(
        [
            tag("p", tag("strong", total)),
            table(HEAD, lines, caption=caption, numbers=RIGHT),
            tag("p", f"{count(more, 'row')} more in findings.json.") if more > 0 else None,
            _check(rows),
        ]
    )


def _row(finding: Finding, row: dict[str, Any]) -> list[Child]:
    link = tag("a", finding.id, href=f"#{anchor(finding.id)}")
    bounds = ("lost_from", "lost_to", "lost_records_min", "lost_records_max")
    return [
        str(row.get("partition")),
        *(_id(row.get(name)) for name in ("leader_epoch", "leader", "previous_leader")),
        *(_number(row.get(name)) for name in bounds),
        _also(row.get("also_cut")),
        str(row.get("note") or ""),
        link,
    ]


def _id(value: object) -> str:
    # Only a number may stand in a command, and an id has no thousands.
    return str(value) if isinstance(value, int) else "not known"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "not bounded"


def _also(cuts: object) -> str:
    if not isinstance(cuts, list):
        return ""
    return "; ".join(_cut(cut) for cut in cuts)


def _cut(cut: object) -> str:
    if not isinstance(cut, dict):
        return str(cut)
    return ", ".join(f"{name.replace('_', ' ')} {cut[name]}" for name in sorted(cut))


def _check(rows: list[tuple[Finding, dict[str, Any]]]) -> Markup:
    """Give the commands that show, on a broker, where the new leader's history begins."""
    lines = []
    for _, row in rows[:COMMANDS]:
        folder = shlex.quote(visible(str(row.get("partition"))))
        base = f'"$LOG_DIR"/{folder}'
        leader, epoch = _id(row.get("leader")), _id(row.get("leader_epoch"))
        grep = f"grep 'partitionLeaderEpoch: {epoch} '"
        lines += [
            f"# on broker {leader}: the line of epoch {epoch} holds the offset it began at",
            f"cat {base}/leader-epoch-checkpoint",
            f"kafka-dump-log.sh --files {base}/{FIRST} | {grep} | head -n 1",
        ]
    return join(
        [
            tag("h3", "How to check"),
            tag("p", HINT),
            tag("pre", code("\n".join(lines)), class_="command", tabindex=0),
        ]
    )  # fmt: skip
