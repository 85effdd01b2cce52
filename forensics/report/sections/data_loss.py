"""What was lost: one row a partition, who led before and after, and bounds where there are any."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from forensics.lib.formatting import count, join_names, parse_millis
from forensics.lib.text_safety import visible
from forensics.lib.time_zone import current_zone
from forensics.report.data_loss import clean_truncation_rows, sum_clean_truncations
from forensics.report.headline import LossTotals, loss_rows, sum_losses
from forensics.report.html import Child, Markup, anchor, command_block, join, table, tag
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Finding, Row, RunOutput, short_time

# Links to the page go to this anchor.
ANCHOR = "ledger"
ORDER = 50
TITLE = "Data-loss ledger"
HINT = (
    "Set LOG_DIR to the broker's log.dirs; choose the segment that holds the first lost offset "
    "where there is more than one. The line of an epoch holds the offset that it began at."
)
FIRST = "00000000000000000000.log"
MOST, COMMANDS = 1000, 5
HEAD = ("Partition", "Last safe leader", "Unclean leader", "HW, LEO before", "Cut",
        "Removed offsets", "Records lost", "Acknowledged", "Written, {}", "Finding")  # fmt: skip
CUT_HEAD = ("Partition", "New leader", "Cut on", "Removed offsets", "Records", "Below the HW",
            "Written, {}", "Finding")  # fmt: skip
RIGHT = ("Removed offsets", "Records lost", "Records", "Acknowledged", "Below the HW")
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
    taken = sum_losses(run.findings)
    if not rows or not taken:
        elections = any(found.detector == "unclean-election" for found in run.findings)
        unknown = "An unclean election was found, but its partitions were not recorded."
        return tag("p", unknown if elections else "No unclean election was seen.")
    past = _Past(run, {row.partition for _, row in rows})
    lines = (_row(run, past, finding, row) for finding, row in rows[:MOST])
    caption = "Partitions that lost a part of their history"
    more = len(rows) - MOST
    return join(
        [
            tag("p", tag("strong", _total(rows, taken))),
            table(
                _head(HEAD), lines, caption=caption, numbers=RIGHT, data_copy=caption, class_="wide"
            ),
            tag("p", f"{count(more, 'row')} more in findings.json.") if more > 0 else None,
            _check([row for _, row in rows]),
        ]
    )


def _total(rows: Sequence[tuple[Finding, PartitionLoss]], taken: LossTotals) -> str:
    """Add up what has a bound, and count what has none."""
    if taken.unbounded:
        return (
            f"Total: at least {count(taken.at_least, 'record')} lost; at most {taken.at_most:,} on "
            f"the {count(len(rows) - taken.unbounded, 'partition')} that could be bounded; "
            f"{count(taken.unbounded, 'partition')} could not be bounded."
        )
    few, most = f"{taken.at_least:,}", count(taken.at_most, "record")
    lost = most if taken.at_least == taken.at_most else f"{few} to {most}"
    says = f"Total: {lost} lost on {count(taken.partitions, 'partition')}"
    spared = len(rows) - taken.partitions
    return f"{says}; {count(spared, 'partition')} lost nothing." if spared else f"{says}."


class _Past:
    """Who led the partitions of the ledger before, and which logs were cut."""

    def __init__(self, run: RunOutput, names: set[str]) -> None:
        led = ("topic", "partition", "leader_epoch", "leader")
        cuts = ("topic", "partition", "leader_epoch", "broker", "cut_to", "log_end",
                "high_watermark", "started_at", "unclean")  # fmt: skip
        self._led = self._by_name(run, "leadership", led, names)
        self._cuts = self._by_name(run, "cuts", cuts, names)

    @staticmethod
    def _by_name(
        run: RunOutput, name: str, columns: Sequence[str], names: set[str]
    ) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for part in run.chunks(name, columns):
            for row in part.to_pylist():
                key = f"{row['topic']}-{row['partition']}"
                if key in names:
                    found.setdefault(key, []).append(row)
        return found

    def safe(self, row: PartitionLoss) -> str:
        """Name the last leader before the unclean one, with its epoch."""
        epoch = row.leader_epoch
        before = [
            one
            for one in self._led.get(row.partition, ())
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
        """Give the cuts by which replicas followed the unclean leader."""
        mine = self._cuts.get(row.partition, ())
        found = [one for one in mine if one["unclean"] and one["leader_epoch"] == row.leader_epoch]
        return sorted(found, key=lambda one: one["started_at"] or 0)


def _head(names: Sequence[str]) -> list[str]:
    return [name.format(current_zone().label) for name in names]


def _row(run: RunOutput, past: _Past, finding: Finding, row: PartitionLoss) -> list[Child]:
    link = tag("a", finding.id, href=f"#{anchor(finding.id)}")
    cuts = past.cuts(row)
    manner = f" ({row.manner})" if row.manner else ""
    known = [f"{_offset(one['high_watermark'])}, {_offset(one['log_end'])}" for one in cuts]
    notes = [*(_cut(run, one) for one in cuts), row.note, *map(_other, row.also_cut)]
    return [
        row.partition,
        past.safe(row),
        f"broker {_id(row.leader)}, epoch {_id(row.leader_epoch)}{manner}",
        "; ".join(known) or "not logged",
        "; ".join(note for note in notes if note) or "no line tells",
        _range(row),
        _bounds(row.lost_records_min, row.lost_records_max),
        _bounds(row.acknowledged_min, row.acknowledged_max),
        _written(run, row),
        link,
    ]


def _cut(run: RunOutput, one: Row) -> str:
    when = short_time(run, one["started_at"])
    return f"to {_offset(one['cut_to'])} by broker {one['broker']} at {when}"


def _offset(value: int | None) -> str:
    return "not logged" if value is None else f"{value:,}"


def _range(row: PartitionLoss) -> str:
    first, last = row.lost_from, row.lost_to
    if first is not None and last is not None:
        return f"{first:,} to {last - 1:,}" if last > first else "none"
    return "not bounded" if first is None else f"from {first:,}, not bounded"


def _bounds(least: int | None, most: int | None) -> str:
    if least is None and most is None:
        return "not known"
    low = "not known" if least is None else f"{least:,}"
    high = "not bounded" if most is None else f"{most:,}"
    return low if low == high else f"{low} to {high}"


def _written(run: RunOutput, row: PartitionLoss) -> str:
    first, last = parse_millis(row.written_from), parse_millis(row.written_to)
    if first is None and last is None:
        return "not known"
    return f"{short_time(run, first)} to {short_time(run, last)}"


def _id(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _other(cut: object) -> str:
    if not isinstance(cut, dict):
        return str(cut)
    return ", ".join(f"{name.replace('_', ' ')} {cut[name]}" for name in sorted(cut))


def _clean(run: RunOutput) -> Markup | None:
    """List what was cut after clean changes of leader: not lost to those who waited for all."""
    rows, taken = clean_truncation_rows(run.findings), sum_clean_truncations(run.findings)
    if not rows:
        return None
    lines = (_trimmed(run, finding, row) for finding, row in rows[:MOST])
    caption = "Partitions that were cut after a clean change of leader"
    heads = _head(CUT_HEAD)
    shown = table(heads, lines, caption=caption, numbers=RIGHT, data_copy=caption)
    head = tag("h3", "Cut after a clean change of leader")
    says = f"{taken}. {CLEAN}" if taken else CLEAN
    says += f" {SAFE}" if all(row.below_high_watermark == 0 for _, row in rows) else ""
    more = len(rows) - MOST
    rest = tag("p", f"{count(more, 'row')} more in findings.json.") if more > 0 else None
    return join([head, tag("p", says), shown, rest])


def _trimmed(run: RunOutput, finding: Finding, row: PartitionLoss) -> list[Child]:
    brokers = row.cut_on
    return [
        row.partition,
        f"broker {_id(row.leader)}, epoch {_id(row.leader_epoch)}",
        "not known" if brokers is None else join_names([f"broker {one}" for one in brokers]),
        _range(row),
        _bounds(row.lost_records_min, row.lost_records_max),
        _offset(row.below_high_watermark),
        _written(run, row),
        tag("a", finding.id, href=f"#{anchor(finding.id)}"),
    ]


def _check(rows: Sequence[PartitionLoss]) -> Markup:
    """Give the commands that show, on a broker, where the new leader's history begins."""
    lines = []
    for row in rows[:COMMANDS]:
        folder = shlex.quote(visible(row.partition))
        base = f'"$LOG_DIR"/{folder}'
        leader, epoch = _id(row.leader), _id(row.leader_epoch)
        grep = f"grep 'partitionLeaderEpoch: {epoch} '"
        lines += [
            f"# on broker {leader}: the line of epoch {epoch} holds the offset it began at",
            f"cat {base}/leader-epoch-checkpoint",
            f"kafka-dump-log.sh --files {base}/{FIRST} | {grep} | head -n 1",
        ]
    more = len(rows) - COMMANDS
    rest = tag("p", f"The other {count(more, 'partition')} likewise.") if more > 0 else None
    return join([tag("h3", "How to check"), tag("p", HINT), command_block(lines), rest])
