"""What single lines tell of one partition: cuts, unclean marks, offsets, replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.saved import Row, Saved
from forensics.report.timelines.steps import MOST, Place, Shown, Step

__all__ = ["Told", "happenings", "read"]

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
    rules: Mapping[Place, str] = field(default_factory=dict)
    texts: Mapping[Place, str] = field(default_factory=dict)


def read(saved: Saved, topic: str, partition: int, shown: Shown) -> Told:
    """Read the lines that tell of one partition."""
    mine = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    # A line about a topic is about each of its partitions.
    whole = (ds.field("topic") == topic) & ds.field("partition").is_null()
    kinds = ds.field("kind").isin([*KINDS, *OFFSETS, *ISR_LINES])
    of_topic = ds.field("kind").isin(["topic_created", "topic_deleted"])
    table = saved.table("events", COLUMNS, (mine & kinds) | (whole & of_topic))
    if "ts" not in saved.columns("events"):
        return Told(())
    table = table.filter(pc.is_valid(table["ts"]))
    rows = [
        row | {"at": saved.corrected(row["node"], row["ts"])} for row in table[:MOST].to_pylist()
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


def _place(row: Row) -> Place:
    return Place(str(row["file"]), row["line"])


def _evidence(run: Sequence[Row]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(map(_place, run)))
