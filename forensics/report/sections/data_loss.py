"""What was lost: one row a partition, who led before and after, and bounds where there are any."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from forensics.detection.context import in_topics
from forensics.detection.kafka_cli import read_cluster_addresses
from forensics.lib.text_format import count, join_names, parse_millis
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
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Row, RunOutput, SavedFinding, short_time

TITLE = "Data loss"
LOG_DIR = '"$LOG_DIR"'
SET = "Set LOG_DIR to the broker's log.dirs."
HINT = (
    "Choose the segment that holds the first lost offset where there is more than one. The line "
    "of an epoch holds the offset that it began at."
)
FIRST_SEGMENT = "00000000000000000000.log"
MAX_ROWS, MAX_COMMANDS = 1000, 5
HEAD = ("Partition", "Last safe leader", "Unclean leader", "HW, LEO before", "Cut",
        "Removed offsets", "Records lost", "Acknowledged", "Written, {}", "Finding")  # fmt: skip
CUT_HEAD = ("Partition", "New leader", "Truncated on", "Removed offsets", "Records", "Below the HW",
            "Written, {}", "Finding")  # fmt: skip
NUMBERS = ("Removed offsets", "Records lost", "Records", "Acknowledged", "Below the HW")
CLEAN = (
    "A returning replica truncates what the new leader never had. Those records may "
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
    past = _Past(run, {row.partition for _, row in rows})
    lines = [_loss_row(run, past, finding, row) for finding, row in rows[:MAX_ROWS]]
    caption = "Partitions that lost a part of their history"
    return join(
        [
            tag("p", tag("strong", _total(len(rows), totals))),
            _table(HEAD, lines, caption, class_="wide"),
            note_left_out(len(rows) - MAX_ROWS, "row", "{} more in findings.json."),
            _check(run, [row for _, row in rows]),
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
        topics = in_topics({partition.rpartition("-")[0] for partition in names})
        for chunk in run.chunks(name, columns, topics):
            for row in chunk.to_pylist():
                key = f"{row['topic']}-{row['partition']}"
                if key in names:
                    rows.setdefault(key, []).append(row)
        return rows

    def safe_leader(self, row: PartitionLoss) -> str:
        """Name the last leader before the unclean one, with its epoch."""
        epoch = row.leader_epoch
        before = [
            one
            for one in self._leaders.get(row.partition, ())
            if one["leader"] not in (None, -1)
            and one["leader_epoch"] is not None
            and epoch is not None
            and one["leader_epoch"] < epoch
        ]
        last = max(before, key=lambda one: int(one["leader_epoch"]), default=None)
        if last is None:
            leader = row.previous_leader
            return "not known" if leader is None else f"broker {leader}, epoch not known"
        return f"broker {last['leader']}, epoch {last['leader_epoch']}"

    def cuts(self, row: PartitionLoss) -> list[Row]:
        """Return the truncations by which replicas followed the unclean leader."""
        cuts = self._cuts.get(row.partition, ())
        return sorted(
            (cut for cut in cuts if cut["unclean"] and cut["leader_epoch"] == row.leader_epoch),
            key=lambda cut: cut["started_at"] or 0,
        )


def _loss_row(
    run: RunOutput, past: _Past, finding: SavedFinding, row: PartitionLoss
) -> list[Child]:
    cuts = past.cuts(row)
    manner = f" ({row.manner})" if row.manner else ""
    ends = [f"{_offset(cut['high_watermark'])}, {_offset(cut['log_end'])}" for cut in cuts]
    notes = [*(_cut(run, cut) for cut in cuts), row.note, *map(_other_cut, row.also_cut)]
    return [
        row.partition,
        past.safe_leader(row),
        f"{_leader(row)}{manner}",
        "; ".join(ends) or "not logged",
        "; ".join(note for note in notes if note) or "no line tells",
        _range(row),
        _bounds(row.lost_records_min, row.lost_records_max),
        _bounds(row.acknowledged_min, row.acknowledged_max),
        _written(run, row),
        finding_link(finding.id),
    ]


def _leader(row: PartitionLoss) -> str:
    return f"broker {_id(row.leader)}, epoch {_id(row.leader_epoch)}"


def _cut(run: RunOutput, cut: Row) -> str:
    when = short_time(run, cut["started_at"])
    return f"to {_offset(cut['cut_to'])} by broker {cut['broker']} at {when}"


def _offset(value: int | None) -> str:
    return "not logged" if value is None else f"{value:,}"


def _range(row: PartitionLoss) -> str:
    first, last = row.lost_from, row.lost_to
    if first is not None and last is not None:
        return f"{first:,} to {last - 1:,}" if last > first else "none"
    return "not bounded" if first is None else f"from {first:,}, not bounded"


def _bounds(low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return "not known"
    first = "not known" if low is None else f"{low:,}"
    last = "not bounded" if high is None else f"{high:,}"
    return first if first == last else f"{first} to {last}"


def _written(run: RunOutput, row: PartitionLoss) -> str:
    first, last = parse_millis(row.written_from), parse_millis(row.written_to)
    if first is None and last is None:
        return "not known"
    return f"{short_time(run, first)} to {short_time(run, last)}"


def _id(value: int | None) -> str:
    return "not known" if value is None else str(value)


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
    text += f" {SAFE}" if all(row.below_high_watermark == 0 for _, row in rows) else ""
    return join(
        [
            tag("h3", "Truncated after a clean failover"),
            tag("p", text),
            _table(
                CUT_HEAD,
                lines,
                "Partitions that were truncated after a clean failover",
                class_="wide",
            ),
            note_left_out(len(rows) - MAX_ROWS, "row", "{} more in findings.json."),
        ]
    )


def _truncation_row(run: RunOutput, finding: SavedFinding, row: PartitionLoss) -> list[Child]:
    brokers = None if row.cut_on is None else [f"broker {broker}" for broker in row.cut_on]
    return [
        row.partition,
        _leader(row),
        "not known" if brokers is None else join_names(brokers) or row.note,
        _range(row),
        _bounds(row.lost_records_min, row.lost_records_max),
        _offset(row.below_high_watermark),
        _written(run, row),
        finding_link(finding.id),
    ]


def _check(run: RunOutput, rows: Sequence[PartitionLoss]) -> Markup:
    """Show the commands that tell, on a broker, where the new leader's history begins."""
    lines = []
    places = read_cluster_addresses(run.tables)
    for row in rows[:MAX_COMMANDS]:
        log_dir = places.log_dir(row.leader)
        is_named = log_dir != "LOG_DIR"
        folder = f"{log_dir if is_named else LOG_DIR}/{shlex.quote(visible(row.partition))}"
        leader, epoch = _id(row.leader), _id(row.leader_epoch)
        grep = f"grep 'partitionLeaderEpoch: {epoch} '"
        lines += [
            f"# on broker {leader}: the line of epoch {epoch} holds the offset it began at",
            f"cat {folder}/leader-epoch-checkpoint",
            f"kafka-dump-log.sh --files {folder}/{FIRST_SEGMENT} | {grep} | head -n 1",
        ]
    rest = note_left_out(len(rows) - MAX_COMMANDS, "partition", "The other {} likewise.")
    hint = f"{SET} {HINT}" if any(LOG_DIR in line for line in lines) else HINT
    summary = tag("summary", "How to check on the brokers")
    return tag("details", summary, tag("p", hint), command_block(lines), rest)
