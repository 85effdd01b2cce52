"""What else may be behind stale-metadata errors, where no leader moved: each has its own lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, by_time
from forensics.incidents.episodes import Episode
from forensics.incidents.needs import BROKERS

__all__ = ["SUSPECTS", "Suspect", "suspects"]

_MICROS = 1_000_000
_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
_MISSING = ("LEADER_NOT_AVAILABLE", _UNKNOWN)
_TOPIC_KINDS = ("topic_created", "topic_auto_created", "topic_deleted", "topic_deleting")
_DELETED = ("topic_deleted", "topic_deleting")
_NODE_KINDS = ("client_connect_failed", "client_listener_missing", "client_metadata_stale")
# Of the lines about one topic or client so many are kept.
_KEPT = 50
_COLUMNS = ("kind", "topic", "ts", "node", "file", "line", "text", "rule", "telling")

# What stands further up explains an episode better.
SUSPECTS = {
    "unexplained_move": "leaders moved, and no line tells why",
    "topic_recreated": "the topic was deleted and created again",
    "topic_deleted": "the topic was deleted",
    "topic_just_created": "the topic had only just been created",
    "unreachable_broker": "the client cannot reach a broker that the metadata names",
    "stale_broker": "a broker gives out metadata older than what the client knew",
    "topic_unknown": "no line of a broker or controller names the topic",
    "client_starting": "the client had only just started",
    "no_broker_logs": "there is no broker's log to compare with",
    "stale_client": "no leader of these partitions moved for a long time",
}


@dataclass(frozen=True)
class Suspect:
    """One of SUSPECTS, and the lines that speak for it."""

    name: str
    evidence: Sequence[Row] = ()


@dataclass
class _RelatedLines:
    """Lines about the topics and the clients in question."""

    topics: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    begins: dict[str, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    brokers: bool = False


def suspects(case: Case, every: Sequence[Episode], near: float) -> list[Suspect]:
    """Give for each episode behind which nothing moved what may be behind it."""
    if not every:
        return []
    told = _related_lines(case, every)
    return [_suspect(one, told, round(near * _MICROS)) for one in every]


def _suspect(episode: Episode, told: _RelatedLines, near: int) -> Suspect:
    if episode.elections or episode.away is not None:
        return Suspect("unexplained_move")
    lines = _about(episode, told)
    made = [row for row in lines if row["kind"] not in _DELETED]
    gone = [row for row in lines if row["kind"] in _DELETED and row["at"] <= episode.begin + near]
    last = max((row["at"] for row in gone), default=None)
    unknown = any(name in _MISSING for name in episode.names)
    if unknown and last is not None:
        again = [row for row in made if row["at"] > last] or _created_after(episode, last)
        return Suspect("topic_recreated" if again else "topic_deleted", [*gone[-2:], *again[:1]])
    new = [row for row in made if abs(row["at"] - episode.begin) <= near]
    if episode.created is not None or (unknown and new):
        return Suspect("topic_just_created", new[:1])
    mine = [row for row in told.nodes.get(episode.node, ()) if _touches(episode, row, near)]
    for name, kinds in (
        ("unreachable_broker", ("client_connect_failed", "client_listener_missing")),
        ("stale_broker", ("client_metadata_stale",)),
    ):
        found = [row for row in mine if row["kind"] in kinds]
        if found:
            return Suspect(name, found[:3])
    return Suspect(_rest(episode, told, near))


def _rest(episode: Episode, told: _RelatedLines, near: int) -> str:
    """Name what only the absence of lines speaks for."""
    if not told.brokers:
        return "no_broker_logs"
    if _UNKNOWN in episode.names and episode.topics and not episode.topics & told.named:
        return "topic_unknown"
    starts = told.begins.get(episode.node)
    if starts is not None and episode.begin - starts <= near:
        return "client_starting"
    return "stale_client"


def _created_after(episode: Episode, last: int) -> list[Row]:
    """Say that it was created again where only its first leader tells so."""
    return episode.first[-1:] if episode.created is not None and episode.created > last else []


def _about(episode: Episode, told: _RelatedLines) -> list[Row]:
    return sorted((row for one in episode.topics for row in told.topics.get(one, ())), key=by_time)


def _touches(episode: Episode, row: Row, near: int) -> bool:
    return bool(episode.begin - near <= row["at"] <= episode.end + near)


def _related_lines(case: Case, every: Sequence[Episode]) -> _RelatedLines:
    topics = sorted({topic for one in every for topic in one.topics})
    nodes = sorted({one.node for one in every})
    kind, topic = pc.field("kind"), pc.field("topic")
    where = kind.isin(_TOPIC_KINDS) & topic.isin(topics)
    where |= kind.isin(_NODE_KINDS) & pc.field("node").isin(nodes)
    told = _RelatedLines(brokers=case.sight.lacks(BROKERS) is None)
    for row in case.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        if row["kind"] in _TOPIC_KINDS and case.is_news(row):
            _keep(told.topics[row["topic"]], row)
        elif row["kind"] in _NODE_KINDS:
            _keep(told.nodes[row["node"] or ""], row)
    told.begins.update(_begins(case, nodes))
    told.named.update(_named(case, topics), told.topics)
    return told


def _keep(rows: list[Row], row: Row) -> None:
    rows.append(row)
    if len(rows) > 4 * _KEPT:
        rows[:] = sorted(rows, key=by_time)[:_KEPT]


def _begins(case: Case, nodes: Sequence[str]) -> Mapping[str, int]:
    chosen = pc.field("first_ts").is_valid() & pc.field("node").isin(nodes)
    found: dict[str, int] = {}
    for row in case.rows("files", chosen, ["node", "first_ts"]):
        at = case.past.clocks.correct(row["node"], row["first_ts"])
        found[row["node"]] = min(at, found.get(row["node"], at))
    return found


def _named(case: Case, topics: Sequence[str]) -> Iterator[str]:
    """Name those of the topics that the history knows."""
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    for batch in case.batches("leadership", where, ["topic"]):
        yield from batch["topic"].unique().to_pylist()
