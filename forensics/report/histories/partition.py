"""What single lines tell of one partition: cuts, unclean marks, offsets, replicas.

The versions of one partition's ISR: what each changed, and by whose doing.

What a partition lost, and where its lines contradict what Kafka promises.

The history of one partition: leader epochs, versions of the ISR, and what happened between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.formatting import count
from forensics.report.histories.model import (
    MAX_ROWS,
    ROW_ENDS,
    Location,
    OrderedStep,
    ShownTime,
    Step,
    Timeline,
    row_locations,
    sort_steps,
    steps_within,
)
from forensics.report.histories.phrases import (
    describe_election,
    describe_leader,
    format_ids,
    format_ranges,
    format_time,
    summarise_partition,
)
from forensics.run_output.findings import PartitionLoss
from forensics.run_output.reader import Row, RunOutput

# Rules of lines that only the leader writes, of an ISR that it asked for and got.
BY_LEADER = ("isr.updated", "controller.isr-updated", "quorum.isr-accepted")
NAMES = ("partition_epoch", "leader_epoch", "leader", "isr", "replicas", "how")


def versions(
    rows: Sequence[Row], begun: Mapping[int, int], rules: Mapping[Location, str], first: int
) -> Iterator[OrderedStep]:
    """Tell every version of the ISR, and which versions no line states.

    `begun` says where each leader epoch stands, `rules` which rule read which line.
    """
    reached, before, last = first, None, None
    for row, after in zip(rows, [*rows[1:], None], strict=False):
        numbered = row["partition_epoch"] is not None
        order = max(reached if numbered else first, begun.get(row["leader_epoch"], first))
        order = order if row["started_at"] is None else max(order, row["started_at"])
        if numbered:
            reached = order
            yield from _skipped(before, row, order)
        elected = begun.get(row["leader_epoch"]) == row["started_at"]
        whose = _by_whom(row, last, rules, elected=elected)
        yield OrderedStep(order, 3, _version(row, before, after, whose))
        before = row
        last = row["leader_epoch"] if row["leader_epoch"] is not None else last


def _skipped(before: Row | None, row: Row, order: int) -> Iterator[OrderedStep]:
    """Name the versions between two that are known."""
    if before is None or before["partition_epoch"] is None:
        return
    # A number that is wrong may leave out billions.
    missing = list(range(before["partition_epoch"] + 1, row["partition_epoch"])[:100_000])
    if missing:
        which = f"version{'s' if len(missing) > 1 else ''} {format_ranges(missing)}"
        between = f"between {before['partition_epoch']} and {row['partition_epoch']}"
        says = f"unknown: no line states {which} of the ISR, {between}"
        facts = {"partition_epochs": [missing[0], missing[-1]]}
        yield OrderedStep(order, 2, Step("unknown", None, says, row["started_at"], facts=facts))


def _version(row: Row, before: Row | None, after: Row | None, whose: str) -> Step:
    number = row["partition_epoch"]
    version = "no version logged" if number is None else f"version {number}"
    told = [f"ISR {format_ids(row['isr'])} ({version})"]
    change = _change(row, before)
    if change:
        told.append(f"{change}, {whose}")
    if row["how"] == "inferred":
        told.append("inferred")
    return Step(
        "isr",
        row["started_at"],
        "; ".join(told),
        row["ended_at"],
        _version_ends(row, after),
        row_locations(row),
        {name: row[name] for name in NAMES},
    )


def _version_ends(row: Row, after: Row | None) -> str:
    if row["ended"] in ROW_ENDS and row["ended_at"] is not None:
        return ROW_ENDS[row["ended"]]
    if row["partition_epoch"] is None:
        # Without its number nothing says whether the version that is known next was the next.
        return "unknown" if row["ended_at"] is None else "known"
    follows = after is not None and after["partition_epoch"] == row["partition_epoch"] + 1
    if row["ended_at"] is None:
        last = after is None or after["partition_epoch"] is None
        return "open" if last else "unknown"
    # The next version that is known, or known in time, may not be the next one that was.
    timed = after is None or (follows and after["started_at"] is not None)
    return "known" if timed else "unknown"


def _change(row: Row, before: Row | None) -> str:
    if before is None or row["isr"] is None or before["isr"] is None:
        return ""
    now, then = set(row["isr"]), set(before["isr"])
    parts = [
        f"{format_ids(sorted(brokers))} {word}"
        for brokers, word in ((then - now, "left"), (now - then, "joined"))
        if brokers
    ]
    return " and ".join(parts)


def _by_whom(row: Row, last: int | None, rules: Mapping[Location, str], *, elected: bool) -> str:
    """Say who changed the ISR: the leader asks, or the controller does it with an election.

    `last` is the last leader epoch known before, `elected` whether this version begins its own.
    """
    read_by = {rules.get(place, "").partition("@")[0] for place in row_locations(row)}
    if read_by & set(BY_LEADER):
        leader = row["leader"]
        return "asked by the leader" + ("" if leader in (None, -1) else f", broker {leader}")
    epoch = row["leader_epoch"]
    if elected and epoch is not None and epoch != last:
        return f"by the controller, with leader epoch {epoch}"
    return "no line says by whom"


# What happened, by the kind of event: a word for it, and a sentence with the names of facts.
KINDS: Mapping[str, tuple[str, str]] = {
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
OFFSETS = ("partition_state", "log_loaded")
# Lines that say who asked for another ISR.
ISR_LINES = ("partition_state", "isr_proposed", "isr_accepted")
COLUMNS = (
    "kind", "ts", "node", "file", "line", "leader", "leader_epoch", "partition_epoch", "cut_to",
    "high_watermark", "log_end", "rule", "text",
)  # fmt: skip
# Replicas tell their offsets one after the other: that is one piece of news.
TOGETHER = 5_000


@dataclass(frozen=True)
class Told:
    """The lines of one partition, oldest first, by the clock of the reference."""

    rows: Sequence[Row]
    left_out: int = 0
    rules: Mapping[Location, str] = field(default_factory=dict)
    texts: Mapping[Location, str] = field(default_factory=dict)


def read(run: RunOutput, topic: str, partition: int, shown: ShownTime) -> Told:
    """Read the lines that tell of one partition."""
    mine = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    # A line about a topic is about each of its partitions.
    whole = (ds.field("topic") == topic) & ds.field("partition").is_null()
    kinds = ds.field("kind").isin([*KINDS, *OFFSETS, *ISR_LINES])
    of_topic = ds.field("kind").isin(["topic_created", "topic_deleted"])
    table = run.table("events", COLUMNS, (mine & kinds) | (whole & of_topic))
    if "ts" not in run.column_names("events"):
        return Told(())
    table = table.filter(pc.is_valid(table["ts"]))
    rows = [
        row | {"at": run.correct_time(row["node"], row["ts"])}
        for row in table[:MAX_ROWS].to_pylist()
    ]
    rows.sort(key=lambda row: (row["at"], row["node"] or "", row["file"] or "", row["line"] or 0))
    left_out = table.num_rows - len(rows)
    kept = [row for row in rows if shown.start <= row["at"] <= shown.end]
    return Told(
        kept,
        left_out,
        {_place(row): str(row["rule"] or "") for row in rows},
        {_place(row): str(row["text"] or "") for row in rows},
    )


def happenings(told: Told) -> Iterator[Step]:
    """Tell what the lines say, those that say the same once."""
    seen: dict[tuple[str, str], list[Row]] = {}
    for row in told.rows:
        known = KINDS.get(row["kind"])
        if known:
            says = known[1].format_map({name: _word(name, row[name]) for name in COLUMNS})
            seen.setdefault((known[0], says), []).append(row)
    for (what, says), rows in seen.items():
        yield from _repeated(what, says, rows)
    yield from _offsets(row for row in told.rows if row["kind"] in OFFSETS)


def _repeated(what: str, says: str, rows: Sequence[Row]) -> Iterator[Step]:
    """Give one step a run of equal lines that follow each other closely."""
    runs: list[list[Row]] = []
    for row in rows:
        if runs and row["at"] - runs[-1][-1]["at"] <= TOGETHER:
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        more = f" (told by {len(run)} lines)" if len(run) > 1 else ""
        yield Step(what, run[0]["at"], says + more, evidence=_evidence(run), facts=_facts(run[0]))


def _offsets(rows: Iterable[Row]) -> Iterator[Step]:
    run: list[Row] = []
    for row in rows:
        if row["log_end"] is None and row["high_watermark"] is None:
            continue
        if run and not _belongs(run, row):
            yield _offset_step(run)
            run = []
        run.append(row)
    if run:
        yield _offset_step(run)


def _belongs(run: Sequence[Row], row: Row) -> bool:
    near = row["at"] - run[0]["at"] <= TOGETHER
    return near and all(row[name] == run[0][name] for name in ("leader_epoch", "kind"))


def _offset_step(run: Sequence[Row]) -> Step:
    said = list(dict.fromkeys(map(_offset_words, run)))
    # A log that is loaded has not yet got the high watermark that was written down.
    loaded = run[0]["kind"] == "log_loaded"
    lead = "as loaded at a start, before its checkpoint is read: " if loaded else ""
    facts = [_facts(row) for row in run]
    return Step(
        "offsets", run[0]["at"], lead + "; ".join(said), evidence=_evidence(run),
        facts={"replicas_say": facts},
    )  # fmt: skip


def _offset_words(row: Row) -> str:
    parts = [
        f"{word} {row[name]:,}"
        for name, word in (("log_end", "log end"), ("high_watermark", "high watermark"))
        if row[name] is not None
    ]
    return f"{_word('node', row['node'])}: {', '.join(parts)}"


def _facts(row: Row) -> dict[str, Any]:
    names = ("node", "leader_epoch", "cut_to", "log_end", "high_watermark")
    return {name: row[name] for name in names if row[name] is not None}


def _word(name: str, value: object) -> str:
    if value is None:
        return "a node that is not known" if name == "node" else "that is not said"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _place(row: Row) -> Location:
    return Location(str(row["file"]), row["line"])


def _evidence(run: Sequence[Row]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(map(_place, run)))


CUTS = (
    "leader_epoch", "leader", "kept", "broker", "started_at", "cut_to", "log_end",
    "high_watermark", "unclean", "written_from", "written_to", "evidence",
)  # fmt: skip
BREACHES = ("invariant", "detail", "leader_epoch", "partition_epoch", "started_at", "count",
            "alone", "evidence")  # fmt: skip
PROOFS = 6


def cuts(run: RunOutput, mine: ds.Expression) -> Iterator[Step]:
    """Tell of each log that was cut so as to follow a new leader."""
    for row in run.table("cuts", CUTS, mine)[:MAX_ROWS].to_pylist():
        cutter = "a replica" if row["broker"] is None else f"broker {row['broker']}"
        parts = [f"{cutter} cut its log to offset {_number(row['cut_to'])}"]
        parts.append(f"to follow {_losing_leader(row)}")
        if row["log_end"] is not None and row["cut_to"] is not None:
            gone = count(max(0, row["log_end"] - row["cut_to"]), "record")
            parts.append(f"{gone} gone from it, its log had ended at {row['log_end']:,}")
        written = [row["written_from"], row["written_to"]]
        if any(written):
            first, last = (format_time(one) for one in written)
            parts.append(f"written between {first} and {last}")
        facts = {name: row[name] for name in CUTS if name != "evidence" and row[name] is not None}
        facts = {name: value for name, value in facts.items() if value not in written}
        node = {} if row["broker"] is None else {"node": f"broker-{row['broker']}"}
        yield Step(
            "cut",
            row["started_at"],
            "; ".join(parts),
            evidence=row_locations(row),
            facts=facts | node,
        )


def _losing_leader(row: Row) -> str:
    if row["leader"] in (None, -1):
        return "a new leader"
    epoch = "" if row["leader_epoch"] is None else f" in epoch {row['leader_epoch']}"
    return f"{describe_leader(row['leader'])}{epoch}"


def _number(value: int | None) -> str:
    return "that is not said" if value is None else f"{value:,}"


def breaches(run: RunOutput, mine: ds.Expression) -> Iterator[Step]:
    """Tell where lines contradict what Kafka promises of every partition."""
    for row in run.table("breaches", BREACHES, mine)[:MAX_ROWS].to_pylist():
        name = str(row["invariant"] or "invariant").replace("_", " ")
        more = f" ({count(row['count'], 'time')})" if (row["count"] or 0) > 1 else ""
        facts = {key: row[key] for key in ("invariant", "leader_epoch", "partition_epoch")}
        says = f"contradiction, {name}: {row['detail'] or 'see the lines'}{more}"
        yield Step("breach", row["started_at"], says, evidence=row_locations(row), facts=facts)


def losses(
    run: RunOutput, name: str, begun: Mapping[int, int], first: int
) -> Iterator[OrderedStep]:
    """Tell what the findings say was lost, at the leader epoch by which it was lost."""
    for finding in run.findings:
        for loss in finding.losses:
            if loss.partition != name:
                continue
            epoch = loss.leader_epoch
            at = finding.start_ms if epoch is None else begun.get(epoch, finding.start_ms)
            word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.])")
            proofs = [one for one in finding.evidence if word.search(one.text)]
            facts = dict(sorted(loss.to_json().items()))
            del facts["partition"]
            step = Step(
                "loss", at, f"{_lost(loss)} (finding {finding.id}, {finding.confidence})",
                evidence=tuple(Location(one.file, one.line) for one in proofs[:PROOFS]),
                facts=facts | {"finding": finding.id, "confidence": finding.confidence},
            )  # fmt: skip
            yield OrderedStep(first if at is None else at, 6, step)


def _lost(loss: PartitionLoss) -> str:
    """Say how much was lost, as far as it is bounded."""
    start, end = loss.lost_from, loss.lost_to
    least, most = loss.lost_records_min, loss.lost_records_max
    if most == 0:
        return "loss: none, no record stood beyond the new leader's log"
    if most is None and not least:
        return "loss: possible, no line bounds it"
    where = f" from offset {start:,}" if start is not None else ""
    where += f" to {end - 1:,}" if end is not None else ""
    if most is None:
        return f"loss: at least {count(least, 'record')}{where}, no upper bound"
    if least == most:
        return f"loss: {count(most, 'record')}{where}"
    return f"loss: {least:,} to {count(most, 'record')}{where}"


LEADERSHIP = (
    "leader_epoch", "leader", "started_at", "ended_at", "ended", "how", "election", "manner",
    "clean", "previous_leader", "isr", "replicas", "log_end", "high_watermark", "evidence",
)  # fmt: skip
ISR = (
    "partition_epoch", "leader_epoch", "leader", "isr", "replicas", "started_at", "ended_at",
    "ended", "how", "evidence",
)  # fmt: skip


def build_timeline(run: RunOutput, topic: str, partition: int, shown: ShownTime) -> Timeline:
    """Tell the history of one partition."""
    name = f"{topic}-{partition}"
    mine = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    reigns, more = _rows(run, "leadership", LEADERSHIP, mine, "leader_epoch")
    states, other = _rows(run, "isr", ISR, mine, "partition_epoch")
    told = read(run, topic, partition, shown)
    window = run.window or shown.span
    leaders = [*_leaders(reigns, window)]
    begun = {
        one.step.facts["leader_epoch"]: one.position for one in leaders if one.step.kind == "leader"
    }
    cut_steps = list(cuts(run, mine))
    # A line that stands behind a cut need not be told twice.
    known = {place for step in cut_steps for place in step.evidence}
    single = [
        step
        for step in happenings(told)
        if step.kind != "cut" or not known.intersection(step.evidence)
    ]
    between = [*single, *cut_steps, *breaches(run, mine)]
    placed = [
        *leaders,
        *versions(states, begun, told.rules, window[0]),
        *losses(run, name, begun, window[0]),
        *(
            OrderedStep(window[0] if step.start is None else step.start, 5, step)
            for step in between
        ),
    ]
    steps = tuple(steps_within(sort_steps(placed), shown))
    left_out = more + other + told.left_out
    return Timeline(
        "partition",
        name,
        summarise_partition(name, steps, shown),
        steps,
        shown,
        left_out,
        told.texts,
    )


def _rows(
    run: RunOutput, table: str, columns: Sequence[str], mine: ds.Expression, by: str
) -> tuple[list[Row], int]:
    found = run.table(table, columns, mine)
    # The tables are sorted by this counter, so that the first rows are the oldest.
    rows = found[:MAX_ROWS].to_pylist()
    rows.sort(key=lambda row: (row[by] is None, row[by] or 0, row["started_at"] or 0))
    return rows, found.num_rows - len(rows)


def _leaders(rows: Sequence[Row], window: tuple[int, int]) -> Iterator[OrderedStep]:
    reached = window[0]
    if not rows:
        says = "no line tells of a leader"
        yield OrderedStep(reached, 0, _unknown(window[0], window[1], says))
        return
    yield from _before(rows[0], window)
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        reached = max(reached, row["started_at"] or reached)
        step = _leader(row, after)
        yield OrderedStep(reached, 1, step)
        yield from _after(step, after, window, reached)


def _before(first: Row, window: tuple[int, int]) -> Iterator[OrderedStep]:
    """Say what is not known before the first leader epoch; before epoch 0 there was nothing."""
    epoch, start = first["leader_epoch"], first["started_at"]
    if epoch:
        which = (
            f"leader epoch{'s' if epoch > 1 else ''} {format_ranges(list(range(min(epoch, 3))))}"
        )
        which = which if epoch <= 3 else f"leader epochs 0 to {epoch - 1}"
        says = f"{which} came before; no line tells of {'them' if epoch > 1 else 'it'}"
        yield OrderedStep(window[0], 0, _unknown(None if start is None else window[0], start, says))


def _after(
    step: Step, after: Row | None, window: tuple[int, int], reached: int
) -> Iterator[OrderedStep]:
    """Say what is not known between one leader epoch and the next, or the end of the logs."""
    if step.end is None or step.end_kind not in ("known", "sure"):
        return
    following = window[1] if after is None else after["started_at"]
    if following is not None and step.end < following:
        says = "who led is not known"
        yield OrderedStep(max(reached, step.end), 0, _unknown(step.end, following, says))


def _unknown(start: int | None, end: int | None, says: str) -> Step:
    ends = "unknown" if end is None else "known"
    return Step("unknown", start, f"unknown: {says}", end, ends, is_main=True)


def _leader(row: Row, after: Row | None) -> Step:
    leader, epoch = row["leader"], row["leader_epoch"]
    if leader is None:
        led = "unknown: the epoch was, but no line says who led"
    else:
        led = "no leader" if leader == -1 else f"{describe_leader(leader)} leads"
    how = describe_election(row["election"], leader, row["manner"], clean=row["clean"])
    offsets = [
        f"{word} {row[name]:,}"
        for name, word in (("log_end", "log end"), ("high_watermark", "high watermark"))
        if row[name] is not None
    ]
    begun = f"; begun at {', '.join(offsets)}" if offsets else ""
    names = ("leader_epoch", "leader", "previous_leader", "election", "manner", "clean", "how",
             "isr", "replicas", "log_end", "high_watermark")  # fmt: skip
    return Step(
        "leader",
        row["started_at"],
        f"epoch {epoch}: {led}; {how}; {row['how'] or 'observed'}{begun}",
        row["ended_at"],
        _ends(row, after),
        row_locations(row),
        {name: row[name] for name in names},
        is_main=True,
    )


def _ends(row: Row, after: Row | None) -> str:
    if row["ended"] in ROW_ENDS and row["ended_at"] is not None:
        return ROW_ENDS[row["ended"]]
    # The row reaches to the next time that is known; where a change lies between, that is too far.
    if after is not None and after["started_at"] is None:
        return "unknown"
    return "known" if row["ended_at"] is not None else "open" if after is None else "unknown"
