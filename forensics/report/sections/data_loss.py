"""What was lost: one row a partition, who led before and after, and bounds where there are any."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from forensics.lib.formatting import count, join_names, parse_millis
from forensics.lib.text_safety import visible
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import (
    LossTotals,
    clean_truncation_rows,
    loss_rows,
    sum_clean_truncations,
    sum_losses,
)
from forensics.report.html import (
    Child,
    Markup,
    command_block,
    finding_link,
    join,
    note_left_out,
    table,
    tag,
)
from forensics.run_output.reader import Finding, Row, RunOutput, short_time

TITLE = "Data-loss ledger"
HINT = (
    "Set LOG_DIR to the broker's log.dirs; choose the segment that holds the first lost offset "
    "where there is more than one. The line of an epoch holds the offset that it began at."
)
FIRST_SEGMENT = "00000000000000000000.log"
MAX_ROWS, MAX_COMMANDS = 1000, 5
HEAD = ("Partition", "Last safe leader", "Unclean leader", "HW, LEO before", "Cut",
        "Removed offsets", "Records lost", "Acknowledged", "Written, {}", "Finding")  # fmt: skip
CUT_HEAD = ("Partition", "New leader", "Cut on", "Removed offsets", "Records", "Below the HW",
            "Written, {}", "Finding")  # fmt: skip
NUMBERS = ("Removed offsets", "Records lost", "Records", "Acknowledged", "Below the HW")
CLEAN = (
    "A replica that comes back drops what the leader of meanwhile never had. Those records may "
    "have been acknowledged to producers with acks=1 or 0."
)
SAFE = "None lay below the high watermark, so none was acknowledged to a producer with acks=all."


def render(run: RunOutput) -> Markup:
    """List what was lost, the totals, and how to check it on the brokers."""
    return join([_unclean(run), _clean(run)])


def _unclean(run: RunOutput) -> Markup:
    rows = loss_rows(run.findings)
    totals = sum_losses(run.findings)
    if not rows or not totals:
        elections = any(finding.detector == "unclean-election" for finding in run.findings)
        unknown = "An unclean election was found, but its partitions were not recorded."
        return tag("p", unknown if elections else "No unclean election was seen.")
    past = _Past(run, {str(row.get("partition")) for _, row in rows})
    lines = [_loss_row(run, past, finding, row) for finding, row in rows[:MAX_ROWS]]
    caption = "Partitions that lost a part of their history"
    return join(
        [
            tag("p", tag("strong", _total(len(rows), totals))),
            _table(HEAD, lines, caption, class_="wide"),
            note_left_out(len(rows) - MAX_ROWS, "row", "{} more in findings.json."),
            _check([row for _, row in rows]),
        ]
    )


def _table(head: Sequence[str], lines: list[list[Child]], caption: str, **more: str) -> Markup:
    names = [name.format(current_zone().label) for name in head]
    return table(names, lines, caption=caption, numbers=NUMBERS, data_copy=caption, **more)


def _total(rows: int, totals: LossTotals) -> str:
    """Add up what has a bound, and count what has none."""
    if totals.unbounded:
        return (
            f"Total: at least {count(totals.at_least, 'record')} lost; at most {totals.at_most:,} "
            f"on the {count(rows - totals.unbounded, 'partition')} that could be bounded; "
            f"{count(totals.unbounded, 'partition')} could not be bounded."
        )
    low, high = f"{totals.at_least:,}", count(totals.at_most, "record")
    lost = high if totals.at_least == totals.at_most else f"{low} to {high}"
    text = f"Total: {lost} lost on {count(totals.partitions, 'partition')}"
    spared = rows - totals.partitions
    return f"{text}; {count(spared, 'partition')} lost nothing." if spared else f"{text}."


class _Past:
    """Who led the partitions with losses before, and which logs were truncated."""

    def __init__(self, run: RunOutput, names: set[str]) -> None:
        leader_columns = ("topic", "partition", "leader_epoch", "leader")
        cut_columns = ("topic", "partition", "leader_epoch", "broker", "cut_to", "log_end",
                       "high_watermark", "started_at", "unclean")  # fmt: skip
        self._leaders = self._by_partition(run, "leadership", leader_columns, names)
        self._cuts = self._by_partition(run, "cuts", cut_columns, names)

    @staticmethod
    def _by_partition(
        run: RunOutput, name: str, columns: Sequence[str], names: set[str]
    ) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {}
        for chunk in run.chunks(name, columns):
            for row in chunk.to_pylist():
                key = f"{row['topic']}-{row['partition']}"
                if key in names:
                    rows.setdefault(key, []).append(row)
        return rows

    def safe_leader(self, row: Row) -> str:
        """Name the last leader before the unclean one, with its epoch."""
        epoch = row.get("leader_epoch")
        before = [
            one
            for one in self._leaders.get(str(row.get("partition")), ())
            if one["leader"] not in (None, -1)
            and one["leader_epoch"] is not None
            and isinstance(epoch, int)
            and one["leader_epoch"] < epoch
        ]
        last = max(before, key=lambda one: int(one["leader_epoch"]), default=None)
        if last is None:
            leader = row.get("previous_leader")
            return f"broker {leader}, epoch not known" if isinstance(leader, int) else "not known"
        return f"broker {last['leader']}, epoch {last['leader_epoch']}"

    def cuts(self, row: Row) -> list[Row]:
        """Return the truncations by which replicas followed the unclean leader."""
        epoch = row.get("leader_epoch")
        cuts = self._cuts.get(str(row.get("partition")), ())
        return sorted(
            (cut for cut in cuts if cut["unclean"] and cut["leader_epoch"] == epoch),
            key=lambda cut: cut["started_at"] or 0,
        )


def _loss_row(run: RunOutput, past: _Past, finding: Finding, row: dict[str, Any]) -> list[Child]:
    cuts = past.cuts(row)
    manner = f" ({row['manner']})" if row.get("manner") else ""
    ends = [f"{_offset(cut['high_watermark'])}, {_offset(cut['log_end'])}" for cut in cuts]
    notes = [*(_cut(run, cut) for cut in cuts), str(row.get("note") or ""), _other_cuts(row)]
    return [
        str(row.get("partition")),
        past.safe_leader(row),
        f"{_leader(row)}{manner}",
        "; ".join(ends) or "not logged",
        "; ".join(note for note in notes if note) or "no line tells",
        _range(row),
        _bounds(row.get("lost_records_min"), row.get("lost_records_max")),
        _bounds(row.get("acknowledged_min"), row.get("acknowledged_max")),
        _written(run, row),
        finding_link(finding.id),
    ]


def _leader(row: Row) -> str:
    return f"broker {_id(row.get('leader'))}, epoch {_id(row.get('leader_epoch'))}"


def _cut(run: RunOutput, cut: Row) -> str:
    when = short_time(run, cut["started_at"])
    return f"to {_offset(cut['cut_to'])} by broker {cut['broker']} at {when}"


def _offset(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "not logged"


def _range(row: Row) -> str:
    first, last = row.get("lost_from"), row.get("lost_to")
    if isinstance(first, int) and isinstance(last, int):
        return f"{first:,} to {last - 1:,}" if last > first else "none"
    return f"from {first:,}, not bounded" if isinstance(first, int) else "not bounded"


def _bounds(low: object, high: object) -> str:
    if not isinstance(low, int) and not isinstance(high, int):
        return "not known"
    first = f"{low:,}" if isinstance(low, int) else "not known"
    last = f"{high:,}" if isinstance(high, int) else "not bounded"
    return first if first == last else f"{first} to {last}"


def _written(run: RunOutput, row: Row) -> str:
    first, last = (parse_millis(row.get(name)) for name in ("written_from", "written_to"))
    if first is None and last is None:
        return "not known"
    return f"{short_time(run, first)} to {short_time(run, last)}"


def _id(value: object) -> str:
    # Only a number may stand in a command, and an id has no thousands.
    return str(value) if isinstance(value, int) else "not known"


def _other_cuts(row: Row) -> str:
    cuts = row.get("also_cut")
    return "; ".join(map(_other_cut, cuts)) if isinstance(cuts, list) else ""


def _other_cut(cut: object) -> str:
    if not isinstance(cut, dict):
        return str(cut)
    return ", ".join(f"{name.replace('_', ' ')} {cut[name]}" for name in sorted(cut))


def _clean(run: RunOutput) -> Markup | None:
    """List what was cut after clean changes of leader: not lost to those who waited for all."""
    rows, totals = clean_truncation_rows(run.findings), sum_clean_truncations(run.findings)
    if not rows:
        return None
    lines = [_truncation_row(run, finding, row) for finding, row in rows[:MAX_ROWS]]
    text = f"{totals}. {CLEAN}" if totals else CLEAN
    text += f" {SAFE}" if all(row.get("below_high_watermark") == 0 for _, row in rows) else ""
    return join(
        [
            tag("h3", "Cut after a clean change of leader"),
            tag("p", text),
            _table(CUT_HEAD, lines, "Partitions that were cut after a clean change of leader"),
            note_left_out(len(rows) - MAX_ROWS, "row", "{} more in findings.json."),
        ]
    )


def _truncation_row(run: RunOutput, finding: Finding, row: Row) -> list[Child]:
    cut_on = row.get("cut_on")
    brokers = [f"broker {broker}" for broker in cut_on] if isinstance(cut_on, list) else None
    return [
        str(row.get("partition")),
        _leader(row),
        "not known" if brokers is None else join_names(brokers),
        _range(row),
        _bounds(row.get("lost_records_min"), row.get("lost_records_max")),
        _offset(row.get("below_high_watermark")),
        _written(run, row),
        finding_link(finding.id),
    ]


def _check(rows: Sequence[Row]) -> Markup:
    """Show the commands that tell, on a broker, where the new leader's history begins."""
    lines = []
    for row in rows[:MAX_COMMANDS]:
        folder = f'"$LOG_DIR"/{shlex.quote(visible(str(row.get("partition"))))}'
        leader, epoch = _id(row.get("leader")), _id(row.get("leader_epoch"))
        grep = f"grep 'partitionLeaderEpoch: {epoch} '"
        lines += [
            f"# on broker {leader}: the line of epoch {epoch} holds the offset it began at",
            f"cat {folder}/leader-epoch-checkpoint",
            f"kafka-dump-log.sh --files {folder}/{FIRST_SEGMENT} | {grep} | head -n 1",
        ]
    rest = note_left_out(len(rows) - MAX_COMMANDS, "partition", "The other {} likewise.")
    return join([tag("h3", "How to check"), tag("p", HINT), command_block(lines), rest])
