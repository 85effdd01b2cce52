"""The timeline of one partition: leader epochs, versions of the ISR, and what happened between.

Leader epochs and ISR versions come from their tables, in the order of Kafka's counters.
Truncations, breached invariants and single events are put between them by time, losses by the
leader epoch that caused them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.sessionize import sessions, windows
from forensics.lib.text_format import count
from forensics.report.histories import phrases
from forensics.report.histories.timeline import (
    MAX_ROWS,
    ROW_ENDS,
    Location,
    OrderedStep,
    ShownTime,
    Step,
    Timeline,
    arrange_steps,
    row_locations,
)
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Row, RunOutput

LEADER_FACTS = (
    "leader_epoch", "leader", "previous_leader", "election", "manner", "clean", "how", "isr",
    "replicas", "log_end", "high_watermark",
)  # fmt: skip
LEADER_COLUMNS = (*LEADER_FACTS, "started_at", "ended_at", "ended", "evidence", "incarnation")
ISR_FACTS = ("partition_epoch", "leader_epoch", "leader", "isr", "replicas", "how")
ISR_COLUMNS = (*ISR_FACTS, "started_at", "ended_at", "ended", "evidence", "incarnation")
# Rules of lines that only the leader writes, about an ISR that it asked for and got.
LEADER_RULES = frozenset({"isr.updated", "controller.isr-updated", "quorum.isr-accepted"})
# What happened, by the kind of event: the kind of step, and a sentence with the names of facts.
EVENT_STEPS: Mapping[str, tuple[str, str]] = {
    "truncated": ("cut", "{node} cut its log to offset {cut_to}: what stood from there on is gone"),
    "truncated_below_high_watermark": (
        "cut", "{node} cut its log to offset {cut_to}, below its high watermark {high_watermark}"
    ),
    "recovery_cut": ("cut", "{node} cut a damaged end off its log as it recovered it"),
    "truncation_forbidden": ("cut", "{node} stopped rather than cut its log"),
    "high_watermark_fell": ("cut", "{node}: the high watermark fell to {high_watermark}"),
    "consumer_saw_truncation": ("cut", "{node}: records that it had read were cut off"),
    "client_truncation_seen": ("cut", "{node} learned that the log was cut below its position"),
    "unclean_election_chosen": ("unclean", "a leader outside the ISR was chosen, says {node}"),
    "recovering": ("unclean", "{node} leads it as recovering from an unclean election"),
    "unclean_election_refused": ("unclean", "not even an unclean leader was found"),
    "election_failed": ("election", "{node}: an election failed"),
    "isr_not_alive": ("election", "no member of the ISR was alive, says {node}"),
    "isr_rejected": ("refused", "{node}: its wish for another ISR was refused"),
    "reassignment": ("replicas", "it is to have other replicas, says {node}"),
    "reassignment_done": ("replicas", "its reassignment is complete, says {node}"),
    "log_created": ("replicas", "{node} created its replica"),
    "log_deleted": ("replicas", "{node} deleted its replica"),
    "replica_offline": ("replicas", "{node}: its log directory failed, the replica is offline"),
    "topic_created": ("topic", "the topic was created, says {node}"),
    "topic_deleted": ("topic", "the topic was deleted, says {node}"),
}  # fmt: skip
TOPIC_KINDS = ("topic_created", "topic_deleted")
OFFSET_KINDS = ("partition_state", "log_loaded")
# Kinds of lines that show who asked for another ISR.
ISR_KINDS = ("isr_proposed", "isr_accepted")
EVENT_COLUMNS = (
    "kind", "ts", "node", "file", "line", "leader", "leader_epoch", "partition_epoch", "cut_to",
    "high_watermark", "log_end", "rule", "text",
)  # fmt: skip
EVENT_FACTS = ("node", "leader_epoch", "cut_to", "log_end", "high_watermark")
# Equal lines, and the offsets of the replicas, within this many milliseconds become one step.
MAX_GAP_MS = 5_000
CUT_FACTS = (
    "leader_epoch", "leader", "kept", "broker", "started_at", "cut_to", "log_end",
    "high_watermark", "unclean", "written_from", "written_to",
)  # fmt: skip
BREACH_FACTS = ("invariant", "leader_epoch", "partition_epoch")
BREACH_COLUMNS = (*BREACH_FACTS, "detail", "started_at", "count", "evidence")
MAX_LOSS_EVIDENCE = 6


def build_timeline(run: RunOutput, topic: str, partition: int, shown: ShownTime) -> Timeline:
    """Build the timeline of one partition."""
    name = f"{topic}-{partition}"
    where = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    epochs, more_epochs = _read_rows(run, "leadership", LEADER_COLUMNS, where, "leader_epoch")
    versions, more_versions = _read_rows(run, "isr", ISR_COLUMNS, where, "partition_epoch")
    events = _read_events(run, topic, where, shown)
    window = run.window or shown.span
    leaders = list(_leader_steps(epochs, window))
    epoch_starts = {
        leader.step.facts["leader_epoch"]: leader.position
        for leader in leaders
        if leader.step.kind == "leader"
    }
    cuts = list(_cut_steps(run, where))
    # The lines behind a row of `cuts` need no step of their own.
    cited = {line for step in cuts for line in step.evidence}
    between = [
        *(step for step in _event_steps(events.rows)
          if step.kind != "cut" or not cited.intersection(step.evidence)),
        *cuts, *_breach_steps(run, where),
    ]  # fmt: skip
    ordered = [
        *leaders,
        *_isr_steps(versions, epoch_starts, events.rules, window[0]),
        *_loss_steps(run, name, epoch_starts, window[0]),
        *(OrderedStep(window[0] if step.start is None else step.start, 5, step)
          for step in between),
    ]  # fmt: skip
    steps = arrange_steps(ordered, shown)
    omitted = more_epochs + more_versions + events.omitted
    summary = phrases.summarise_partition(name, steps, shown)
    return Timeline("partition", name, summary, steps, shown, omitted, events.texts)


def _read_rows(
    run: RunOutput, table: str, columns: Sequence[str], where: ds.Expression, counter: str
) -> tuple[list[Row], int]:
    """Read the first rows, and count the others; the tables are sorted by this counter."""
    found = run.table(table, columns, where)
    rows = found[:MAX_ROWS].to_pylist()
    rows.sort(
        key=lambda row: (
            row["incarnation"] or 0, row[counter] is None, row[counter] or 0, row["started_at"] or 0
        )
    )  # fmt: skip
    return rows, found.num_rows - len(rows)


# Leader epochs


def _leader_steps(rows: Sequence[Row], window: tuple[int, int]) -> Iterator[OrderedStep]:
    """Yield a step for each leader epoch, and for each time of which no leader is known."""
    if not rows:
        yield OrderedStep(window[0], 0, _unknown_leader(*window, "no line names a leader"))
        return
    yield from _epochs_before(rows[0], window)
    position = window[0]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        position = max(position, row["started_at"] or position)
        step = _leader_step(row, following)
        yield OrderedStep(position, 1, step)
        if step.end is None or step.end_kind not in ("known", "sure"):
            continue
        end = window[1] if following is None else following["started_at"]
        if end is not None and step.end < end:
            gap = _unknown_leader(step.end, end, "who led is not known")
            yield OrderedStep(max(position, step.end), 0, gap)


def _epochs_before(first: Row, window: tuple[int, int]) -> Iterator[OrderedStep]:
    """Yield a step for the epochs before the first known one; before epoch 0 there are none."""
    epoch, start = first["leader_epoch"], first["started_at"]
    if epoch:
        which = (
            f"leader epoch{'s' if epoch > 1 else ''} {phrases.format_ranges(range(min(epoch, 3)))}"
        )
        which = which if epoch <= 3 else f"leader epochs 0 to {epoch - 1}"
        text = f"{which} came before; no line mentions {'them' if epoch > 1 else 'it'}"
        step = _unknown_leader(None if start is None else window[0], start, text)
        yield OrderedStep(window[0], 0, step)


def _unknown_leader(start: int | None, end: int | None, text: str) -> Step:
    end_kind = "unknown" if end is None else "known"
    return Step("unknown", start, f"unknown: {text}", end, end_kind, is_main=True)


def _leader_step(row: Row, following: Row | None) -> Step:
    leader = row["leader"]
    if leader is None:
        led = "unknown: the epoch was, but no line says who led"
    else:
        led = "no leader" if leader == -1 else f"{phrases.describe_leader(leader)} leads"
    election = phrases.describe_election(row["election"], leader, row["manner"], clean=row["clean"])
    offsets = _offsets(row)
    begun = _describe_choice(row) + (f"; begun at {offsets}" if offsets else "")
    return Step(
        "leader",
        row["started_at"],
        f"epoch {row['leader_epoch']}: {led}; {election}; {row['how'] or 'observed'}{begun}",
        row["ended_at"],
        _leader_end_kind(row, following),
        row_locations(row),
        {name: row[name] for name in LEADER_FACTS},
        is_main=True,
    )


def _describe_choice(row: Row) -> str:
    """Say why this replica: controllers take the first of the assignment that is in sync."""
    replicas, in_sync = row["replicas"] or [], row["isr"] or []
    chosen = next((replica for replica in replicas if replica in in_sync), None)
    routine = row["election"] in ("failover", "controlled_shutdown") and row["clean"]
    if not routine or chosen is None or chosen != row["leader"] or chosen == replicas[0]:
        return ""
    return f"; the first in sync of replicas {', '.join(map(str, replicas))}"


def _leader_end_kind(row: Row, following: Row | None) -> str:
    if row["ended"] in ROW_ENDS and row["ended_at"] is not None:
        return ROW_ENDS[row["ended"]]
    # A row ends at the next known time: too late, if a change of unknown time lies between.
    if following is not None and following["started_at"] is None:
        return "unknown"
    return "known" if row["ended_at"] is not None else "open" if following is None else "unknown"


# Versions of the ISR


def _isr_steps(
    rows: Sequence[Row],
    epoch_starts: Mapping[int, int],
    rules: Mapping[Location, str],
    first: int,
) -> Iterator[OrderedStep]:
    """Yield a step for each version of the ISR, and for the versions that no line states.

    `epoch_starts` gives the position of each leader epoch, `rules` the rule that read each line.
    """
    reached, before, last_epoch = first, None, None
    for row, following in zip(rows, [*rows[1:], None], strict=False):
        numbered = row["partition_epoch"] is not None
        epoch, start = row["leader_epoch"], row["started_at"]
        position = max(reached if numbered else first, epoch_starts.get(epoch, first))
        position = position if start is None else max(position, start)
        if numbered:
            reached = position
            yield from _missing_versions(before, row, position)
        elected = epoch is not None and epoch != last_epoch and epoch_starts.get(epoch) == start
        author = _author(row, rules, elected=elected)
        yield OrderedStep(position, 3, _isr_step(row, before, following, author))
        before = row
        last_epoch = last_epoch if epoch is None else epoch


def _missing_versions(before: Row | None, row: Row, position: int) -> Iterator[OrderedStep]:
    """Yield a step that names the versions between two known ones."""
    if before is None or before["partition_epoch"] is None:
        return
    # A wrong number may leave out billions.
    missing = range(before["partition_epoch"] + 1, row["partition_epoch"])[:100_000]
    if missing:
        which = f"version{'s' if len(missing) > 1 else ''} {phrases.format_ranges(missing)}"
        between = f"between {before['partition_epoch']} and {row['partition_epoch']}"
        text = f"unknown: no line states {which} of the ISR, {between}"
        facts = {"partition_epochs": [missing[0], missing[-1]]}
        yield OrderedStep(position, 2, Step("unknown", None, text, row["started_at"], facts=facts))


def _isr_step(row: Row, before: Row | None, following: Row | None, author: str) -> Step:
    number = row["partition_epoch"]
    version = "no version logged" if number is None else f"version {number}"
    parts = [f"ISR {phrases.format_ids(row['isr'])} ({version})"]
    if change := _isr_change(row, before):
        parts.append(f"{change}, {author}")
    if row["how"] == "inferred":
        parts.append("inferred")
    return Step(
        "isr",
        row["started_at"],
        "; ".join(parts),
        row["ended_at"],
        _isr_end_kind(row, following),
        row_locations(row),
        {name: row[name] for name in ISR_FACTS},
    )


def _isr_end_kind(row: Row, following: Row | None) -> str:
    if row["ended"] in ROW_ENDS and row["ended_at"] is not None:
        return ROW_ENDS[row["ended"]]
    if row["partition_epoch"] is None:
        # Without a number, the next known version need not be the next one.
        return "unknown" if row["ended_at"] is None else "known"
    follows = following is not None and following["partition_epoch"] == row["partition_epoch"] + 1
    if row["ended_at"] is None:
        is_last = following is None or following["partition_epoch"] is None
        return "open" if is_last else "unknown"
    # The next version that is known, or whose time is known, need not be the next one.
    timed = following is None or (follows and following["started_at"] is not None)
    return "known" if timed else "unknown"


def _isr_change(row: Row, before: Row | None) -> str:
    if before is None or row["isr"] is None or before["isr"] is None:
        return ""
    now, then = set(row["isr"]), set(before["isr"])
    parts = [
        f"{phrases.format_ids(sorted(brokers))} {verb}"
        for brokers, verb in ((then - now, "left"), (now - then, "joined"))
        if brokers
    ]
    return " and ".join(parts)


def _author(row: Row, rules: Mapping[Location, str], *, elected: bool) -> str:
    """Describe who changed the ISR: the leader asks, or the controller does it with an election."""
    if LEADER_RULES & {rules.get(line, "").partition("@")[0] for line in row_locations(row)}:
        leader = row["leader"]
        return "asked by the leader" + ("" if leader in (None, -1) else f", broker {leader}")
    if elected:
        return f"by the controller, with leader epoch {row['leader_epoch']}"
    return "no line says by whom"


# Single events


@dataclass(frozen=True)
class _Events:
    """The events of a partition in the shown time, oldest first, by corrected time."""

    rows: Sequence[Row]
    omitted: int = 0
    rules: Mapping[Location, str] = field(default_factory=dict)
    texts: Mapping[Location, str] = field(default_factory=dict)


def _read_events(run: RunOutput, topic: str, where: ds.Expression, shown: ShownTime) -> _Events:
    if "ts" not in run.tables.column_names("events"):
        return _Events(())
    kind = ds.field("kind")
    of_partition = where & kind.isin([*EVENT_STEPS, *OFFSET_KINDS, *ISR_KINDS])
    # A line about a topic is about each of its partitions.
    whole_topic = (ds.field("topic") == topic) & ds.field("partition").is_null()
    of_topic = whole_topic & kind.isin(TOPIC_KINDS)
    table = run.table("events", EVENT_COLUMNS, of_partition | of_topic)
    table = table.filter(pc.is_valid(table["ts"]))
    rows = [
        row | {"at": run.correct_time(row["node"], row["ts"])}
        for row in table[:MAX_ROWS].to_pylist()
    ]
    rows.sort(key=lambda row: (row["at"], row["node"] or "", row["file"] or "", row["line"] or 0))
    return _Events(
        [row for row in rows if shown.start <= row["at"] <= shown.end],
        table.num_rows - len(rows),
        {_location(row): str(row["rule"] or "") for row in rows},
        {_location(row): str(row["text"] or "") for row in rows},
    )


def _event_steps(events: Sequence[Row]) -> Iterator[Step]:
    """Yield a step for each event; equal ones that follow each other closely become one."""
    equal: dict[tuple[str, str], list[Row]] = {}
    for row in events:
        if row["kind"] in EVENT_STEPS:
            kind, sentence = EVENT_STEPS[row["kind"]]
            text = sentence.format_map({name: _value(name, row[name]) for name in EVENT_COLUMNS})
            equal.setdefault((kind, text), []).append(row)
    for (kind, text), rows in equal.items():
        for close in sessions(rows, _time, MAX_GAP_MS):
            more = f" (told by {len(close)} lines)" if len(close) > 1 else ""
            facts, evidence = _event_facts(close[0]), _evidence(close)
            yield Step(kind, close[0]["at"], text + more, evidence=evidence, facts=facts)
    yield from _offset_steps(row for row in events if row["kind"] in OFFSET_KINDS)


def _offset_steps(rows: Iterable[Row]) -> Iterator[Step]:
    """Yield a step for the offsets that the replicas log shortly after each other."""
    told = (row for row in rows if _offsets(row))
    for _, same in groupby(told, lambda row: (row["leader_epoch"], row["kind"])):
        for close in windows(same, _time, MAX_GAP_MS):
            each = (f"{_value('node', row['node'])}: {_offsets(row)}" for row in close)
            # A log that is loaded has not read the checkpoint of its high watermark yet.
            loaded = close[0]["kind"] == "log_loaded"
            lead = "as loaded at a start, before its checkpoint is read: " if loaded else ""
            text = lead + "; ".join(dict.fromkeys(each))
            facts = {"replicas_say": [_event_facts(row) for row in close]}
            yield Step("offsets", close[0]["at"], text, evidence=_evidence(close), facts=facts)


def _offsets(row: Row) -> str:
    offsets = (("log end", row["log_end"]), ("high watermark", row["high_watermark"]))
    return ", ".join(f"{name} {offset:,}" for name, offset in offsets if offset is not None)


def _event_facts(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in EVENT_FACTS if row[name] is not None}


def _value(name: str, value: object) -> str:
    if value is None:
        return "a node that is not known" if name == "node" else "that is not said"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _time(row: Row) -> int:
    return int(row["at"])


def _location(row: Row) -> Location:
    return Location(str(row["file"]), row["line"])


def _evidence(rows: Iterable[Row]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(map(_location, rows)))


# Truncations, breached invariants and losses


def _cut_steps(run: RunOutput, where: ds.Expression) -> Iterator[Step]:
    """Yield a step for each log that was cut to follow a new leader."""
    for row in run.table("cuts", (*CUT_FACTS, "evidence"), where)[:MAX_ROWS].to_pylist():
        broker, log_end, cut_to = row["broker"], row["log_end"], row["cut_to"]
        replica = "a replica" if broker is None else f"broker {broker}"
        parts = [f"{replica} cut its log to offset {_value('cut_to', cut_to)}"]
        parts.append(f"to follow {_new_leader(row)}")
        if log_end is not None and cut_to is not None:
            gone = count(max(0, log_end - cut_to), "record")
            parts.append(f"{gone} gone from it, its log had ended at {log_end:,}")
        written = [row["written_from"], row["written_to"]]
        if any(written):
            first, last = map(phrases.format_time, written)
            parts.append(f"written between {first} and {last}")
        facts = {name: row[name] for name in CUT_FACTS if row[name] is not None}
        facts = {name: value for name, value in facts.items() if value not in written}
        facts |= {} if broker is None else {"node": f"broker-{broker}"}
        yield Step("cut", row["started_at"], "; ".join(parts), evidence=row_locations(row),
                   facts=facts)  # fmt: skip


def _new_leader(row: Row) -> str:
    if row["leader"] in (None, -1):
        return "a new leader"
    epoch = "" if row["leader_epoch"] is None else f" in epoch {row['leader_epoch']}"
    return f"{phrases.describe_leader(row['leader'])}{epoch}"


def _breach_steps(run: RunOutput, where: ds.Expression) -> Iterator[Step]:
    """Yield a step for each contradiction to what Kafka promises of every partition."""
    for row in run.table("breaches", BREACH_COLUMNS, where)[:MAX_ROWS].to_pylist():
        name = str(row["invariant"] or "invariant").replace("_", " ")
        more = f" ({count(row['count'], 'time')})" if (row["count"] or 0) > 1 else ""
        text = f"contradiction, {name}: {row['detail'] or 'see the lines'}{more}"
        facts = {key: row[key] for key in BREACH_FACTS}
        yield Step("breach", row["started_at"], text, evidence=row_locations(row), facts=facts)


def _loss_steps(
    run: RunOutput, name: str, epoch_starts: Mapping[int, int], first: int
) -> Iterator[OrderedStep]:
    """Yield a step for each loss that a finding states, at the leader epoch that caused it."""
    whole_name = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.])")
    for finding in run.findings:
        for loss in finding.losses:
            if loss.partition != name:
                continue
            epoch = loss.leader_epoch
            time = finding.start_ms if epoch is None else epoch_starts.get(epoch, finding.start_ms)
            lines = [line for line in finding.evidence if whole_name.search(line.text)]
            facts = dict(sorted(loss.to_json().items()))
            del facts["partition"]
            facts |= {"finding": finding.id, "confidence": finding.confidence}
            evidence = tuple(Location(line.file, line.line) for line in lines[:MAX_LOSS_EVIDENCE])
            text = f"{_loss(loss)} (finding {finding.id}, {finding.confidence})"
            step = Step("loss", time, text, evidence=evidence, facts=facts)
            yield OrderedStep(first if time is None else time, 6, step)


def _loss(loss: PartitionLoss) -> str:
    """Describe how much was lost, as far as it is bounded."""
    start, end = loss.lost_from, loss.lost_to
    low, high = loss.lost_records_min, loss.lost_records_max
    if high == 0:
        return "loss: none, no record stood beyond the new leader's log"
    if high is None and not low:
        return "loss: possible, no line bounds it"
    where = f" from offset {start:,}" if start is not None else ""
    where += f" to {end - 1:,}" if end is not None else ""
    if high is None:
        return f"loss: at least {count(low, 'record')}{where}, no upper bound"
    if low == high:
        return f"loss: {count(high, 'record')}{where}"
    return f"loss: {low:,} to {count(high, 'record')}{where}"
