"""What else may be behind stale-metadata errors behind which no leader moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.stale_metadata_episodes import Episode
from forensics.lib.time_units import SECOND

TOPIC_GONE = ("topic_deleted", "topic_recreated", "topic_unknown")
_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
_MISSING = ("LEADER_NOT_AVAILABLE", _UNKNOWN)
_TOPIC_KINDS = ("topic_created", "topic_auto_created", "topic_deleted", "topic_deleting")
_DELETED = ("topic_deleted", "topic_deleting")
_CLIENT_SUSPECTS = (
    ("unreachable_broker", ("client_connect_failed", "client_listener_missing")),
    ("stale_broker", ("client_metadata_stale",)),
)
_CLIENT_KINDS = tuple(kind for _, kinds in _CLIENT_SUSPECTS for kind in kinds)
# How many lines about one topic or client are kept.
_MAX_LINES = 50
_COLUMNS = ("kind", "topic", "ts", "node", "file", "line", "text", "rule", "telling")


@dataclass(frozen=True)
class Suspect:
    """What it may be, and the lines that support it."""

    name: str
    evidence: Sequence[Row] = ()


@dataclass
class _RelatedLines:
    """Lines about the topics and the clients in question."""

    topics: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    begins: dict[str, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    has_broker_logs: bool = False


def find_suspects(
    context: DetectionContext, episodes: Sequence[Episode], near: int
) -> Mapping[int, Suspect]:
    """Return what may be behind episodes behind which nothing moved, by the episode's `id`."""
    if not episodes:
        return {}
    lines = _read_related_lines(context, episodes)
    return {id(episode): _find_suspect(episode, lines, near * SECOND) for episode in episodes}


def _find_suspect(episode: Episode, related: _RelatedLines, near: int) -> Suspect:
    if episode.elections or episode.absence is not None:
        return Suspect("unexplained_move")
    lines = sorted((row for name in episode.topics for row in related.topics[name]), key=by_time)
    created = [row for row in lines if row["kind"] not in _DELETED]
    until = episode.begin + near
    deleted = [row for row in lines if row["kind"] in _DELETED and row["at"] <= until]
    last = max((row["at"] for row in deleted), default=None)
    is_unknown = any(name in _MISSING for name in episode.error_counts)
    if is_unknown and last is not None:
        again = [row for row in created if row["at"] > last]
        if not again and episode.created_at is not None and episode.created_at > last:
            # Only its first leader shows that it was created again.
            again = episode.first[-1:]
        name = "topic_recreated" if again else "topic_deleted"
        return Suspect(name, [*deleted[-2:], *again[:1]])
    new = [row for row in created if abs(row["at"] - episode.begin) <= near]
    if episode.created_at is not None or (is_unknown and new):
        return Suspect("topic_just_created", new[:1])
    for name, kinds in _CLIENT_SUSPECTS:
        seen = [
            row
            for row in related.nodes[episode.node]
            if row["kind"] in kinds and episode.begin - near <= row["at"] <= episode.end + near
        ]
        if seen:
            return Suspect(name, seen[:3])
    return Suspect(_suspect_without_lines(episode, related, near))


def _suspect_without_lines(episode: Episode, related: _RelatedLines, near: int) -> str:
    """Return the suspect for which only the absence of lines speaks."""
    if not related.has_broker_logs:
        return "no_broker_logs"
    if _UNKNOWN in episode.error_counts and episode.topics and not episode.topics & related.named:
        return "topic_unknown"
    starts = related.begins.get(episode.node)
    if starts is not None and episode.begin - starts <= near:
        return "client_starting"
    return "stale_client"


def _read_related_lines(context: DetectionContext, episodes: Sequence[Episode]) -> _RelatedLines:
    topics = sorted({topic for episode in episodes for topic in episode.topics})
    nodes = sorted({episode.node for episode in episodes})
    kind, node = pc.field("kind"), pc.field("node")
    where = kind.isin(_TOPIC_KINDS) & in_topics(topics)
    where |= kind.isin(_CLIENT_KINDS) & node.isin(pa.array(nodes, pa.string()))
    related = _RelatedLines(has_broker_logs=context.visibility.missing_logs(BROKERS) is None)
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        if row["kind"] in _CLIENT_KINDS:
            _keep_first(related.nodes[row["node"] or ""], row)
        elif context.is_live(row):
            _keep_first(related.topics[row["topic"]], row)
    files = pc.field("first_ts").is_valid() & node.isin(nodes)
    for row in context.rows("files", files, ["node", "first_ts"]):
        at = context.history.clocks.correct(row["node"], row["first_ts"])
        related.begins[row["node"]] = min(at, related.begins.get(row["node"], at))
    related.named.update(related.topics)
    for batch in context.batches("leadership", in_topics(topics), ["topic"]):
        related.named.update(batch["topic"].unique().to_pylist())
    return related


def _keep_first(rows: list[Row], row: Row) -> None:
    rows.append(row)
    if len(rows) > 4 * _MAX_LINES:
        rows[:] = sorted(rows, key=by_time)[:_MAX_LINES]
