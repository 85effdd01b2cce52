"""Stale-metadata errors in clients: harmless when they end with the move behind them.

What else may be behind stale-metadata errors, where no leader moved: each has its own lines.

The words for an episode of stale metadata: title, explanation, what to do, what to doubt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics
from forensics.detection.detectors.flapping_broker import flapping
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import BROKERS, CLIENTS
from forensics.detection.shared.stale_metadata_episodes import Episode, EpisodeLimits, find_episodes
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

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


def suspects(context: DetectionContext, every: Sequence[Episode], near: float) -> list[Suspect]:
    """Give for each episode behind which nothing moved what may be behind it."""
    if not every:
        return []
    told = _related_lines(context, every)
    return [_suspect(one, told, round(near * SECOND)) for one in every]


def _suspect(episode: Episode, told: _RelatedLines, near: int) -> Suspect:
    if episode.elections or episode.absence is not None:
        return Suspect("unexplained_move")
    lines = _about(episode, told)
    made = [row for row in lines if row["kind"] not in _DELETED]
    gone = [row for row in lines if row["kind"] in _DELETED and row["at"] <= episode.begin + near]
    last = max((row["at"] for row in gone), default=None)
    unknown = any(name in _MISSING for name in episode.error_counts)
    if unknown and last is not None:
        again = [row for row in made if row["at"] > last] or _created_after(episode, last)
        return Suspect("topic_recreated" if again else "topic_deleted", [*gone[-2:], *again[:1]])
    new = [row for row in made if abs(row["at"] - episode.begin) <= near]
    if episode.created_at is not None or (unknown and new):
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
    if _UNKNOWN in episode.error_counts and episode.topics and not episode.topics & told.named:
        return "topic_unknown"
    starts = told.begins.get(episode.node)
    if starts is not None and episode.begin - starts <= near:
        return "client_starting"
    return "stale_client"


def _created_after(episode: Episode, last: int) -> list[Row]:
    """Say that it was created again where only its first leader tells so."""
    return (
        episode.first[-1:] if episode.created_at is not None and episode.created_at > last else []
    )


def _about(episode: Episode, told: _RelatedLines) -> list[Row]:
    return sorted((row for one in episode.topics for row in told.topics.get(one, ())), key=by_time)


def _touches(episode: Episode, row: Row, near: int) -> bool:
    return bool(episode.begin - near <= row["at"] <= episode.end + near)


def _related_lines(context: DetectionContext, every: Sequence[Episode]) -> _RelatedLines:
    topics = sorted({topic for one in every for topic in one.topics})
    nodes = sorted({one.node for one in every})
    kind, topic = pc.field("kind"), pc.field("topic")
    where = kind.isin(_TOPIC_KINDS) & topic.isin(topics)
    where |= kind.isin(_NODE_KINDS) & pc.field("node").isin(nodes)
    told = _RelatedLines(brokers=context.visibility.missing_logs(BROKERS) is None)
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        if row["kind"] in _TOPIC_KINDS and context.is_live(row):
            _keep(told.topics[row["topic"]], row)
        elif row["kind"] in _NODE_KINDS:
            _keep(told.nodes[row["node"] or ""], row)
    told.begins.update(_begins(context, nodes))
    told.named.update(_named(context, topics), told.topics)
    return told


def _keep(rows: list[Row], row: Row) -> None:
    rows.append(row)
    if len(rows) > 4 * _KEPT:
        rows[:] = sorted(rows, key=by_time)[:_KEPT]


def _begins(context: DetectionContext, nodes: Sequence[str]) -> Mapping[str, int]:
    chosen = pc.field("first_ts").is_valid() & pc.field("node").isin(nodes)
    found: dict[str, int] = {}
    for row in context.rows("files", chosen, ["node", "first_ts"]):
        at = context.history.clocks.correct(row["node"], row["first_ts"])
        found[row["node"]] = min(at, found.get(row["node"], at))
    return found


def _named(context: DetectionContext, topics: Sequence[str]) -> Iterator[str]:
    """Name those of the topics that the history knows."""
    if not topics:
        return
    where = in_topics(topics)
    for batch in context.batches("leadership", where, ["topic"]):
        yield from batch["topic"].unique().to_pylist()


# What stands further up explains an episode better than what stands further down.
CAUSES = {
    "unclean_election": "after an unclean election",
    "flapping": "behind a flapping broker",
    "broker_crash": "after a broker was lost",
    "controlled_restart": "around a planned restart",
    "reassignment": "around a reassignment",
    "preferred_election": "around a preferred election",
    "controller_change": "around a change of controller",
    "none_seen": "no move seen behind it",
}
_VERDICTS = {
    "transient": "The client asked a broker that did not lead any more, was told so, and found the "
    "new leader. The errors end within seconds of the new leader: expected, nothing to do.",
    "sustained": "The errors went on well after a new leader was there: the client kept asking the "
    "wrong broker for longer than a refresh of its metadata takes.",
    "stuck": "The errors go on to the end of the client's log: it does not find the leader.",
}
_UNMOVED = {
    "transient": "The errors ended within seconds by themselves. No leader moved behind them",
    "sustained": "The errors went on for a while, and no leader moved behind them",
    "stuck": "The errors go on to the end of the client's log, and no leader moved behind them",
}
_MEANINGS = {
    "topic_recreated": "until it was there again, nothing could answer for it.",
    "topic_deleted": "who still writes to it or reads it is told that nobody knows it, for ever.",
    "topic_just_created": "till all brokers know a new topic, some say that it does not exist or "
    "has no leader. That ends by itself.",
    "unreachable_broker": "see which address the metadata gives: what the client may reach "
    "under its bootstrap address is another one.",
    "stale_broker": "a broker that lost the controller goes on telling what it last knew, and the "
    "client goes back and forth.",
    "topic_unknown": "a name that is not spelt as it should be, or a topic that somebody forgot to "
    "create.",
    "client_starting": "its first answer came from a broker that did not know better yet.",
    "no_broker_logs": "so nobody can tell whether the client or the cluster is at fault.",
    "stale_client": "either the client never asked for new metadata, or a line of the brokers is "
    "missing here.",
}


def title(episode: Episode, verdict: str, cause: str, suspect: str | None, bursts: int) -> str:
    """Say it in one line."""
    behind = SUSPECTS[suspect] if suspect is not None else CAUSES[cause]
    if bursts > 1:
        what = f"{bursts} bursts, {episode.errors} stale-metadata errors, all {verdict}"
    else:
        many = "errors" if episode.errors > 1 else "error"
        what = f"{episode.errors} stale-metadata {many} in {episode.seconds:g} s, {verdict}"
    return f"{episode.client}: {what} ({behind})"


def explanation(episode: Episode, verdict: str, suspect: str | None) -> str:
    """Say what it means."""
    if suspect in (None, "unexplained_move"):
        text = _VERDICTS[verdict]
    else:
        words = SUSPECTS[suspect]
        text = f"{_UNMOVED[verdict]}; {words}: {_MEANINGS[suspect]}"
    if episode.leaderless:
        text += (
            f" {episode.leaderless} of the errors came while the partition had no leader at all: "
            "for those the client is right, and the brokers are to be looked at."
        )
    return text


def actions(
    context: DetectionContext, episode: Episode, verdict: str, suspect: str | None
) -> Sequence[str]:
    """Say what to do, and what not."""
    topic = min(episode.topics, default=None)
    if verdict == "transient":
        return ["Nothing to do."]
    if suspect in ("topic_deleted", "topic_unknown"):
        look = [] if topic is None else [context.commands.topic(topic)]
        name = "the topic" if topic is None else f"topic {quote(topic)}"
        return [*look, f"Take {name} out of the settings of {quote(episode.client)}, or create it."]
    if suspect == "topic_recreated":
        return [f"Restart {quote(episode.client)} if it does not recover by itself."]
    if suspect == "unreachable_broker":
        text = "Compare advertised.listeners of each broker with what {} can resolve and reach."
        return [text.format(quote(episode.client))]
    look = [context.commands.topic(topic)] if topic is not None else []
    refresh = (
        f"Look at metadata.max.age.ms and the number of retries of {quote(episode.client)}, and "
        "whether it reaches every broker."
    )
    restart = f"Restart {quote(episode.client)}: a new start asks for all metadata anew."
    return [*look, restart if verdict == "stuck" else refresh]


def doubts(episode: Episode, suspect: str | None) -> list[str]:
    """Say what would make the finding wrong."""
    found = []
    if suspect in ("topic_unknown", "stale_client"):
        found.append("The brokers' lines about these partitions may just not be in the archive.")
    if not episode.topics:
        found.append("The errors do not say which topic they are about.")
    if suspect is None and not episode.partitions:
        found.append("The errors name topics only: any of their partitions may be meant.")
    return found


NAME = "stale-metadata"
NEEDS = CLIENTS
STALE = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_ELECTIONS = {
    "unclean": "unclean_election",
    "controlled_shutdown": "controlled_restart",
    "preferred": "preferred_election",
    "reassignment": "reassignment",
}
_GONE = ("topic_deleted", "topic_recreated", "topic_unknown")
_Told = Mapping[int, Sequence[Row]]


@dataclass(frozen=True)
class _Judged:
    """An episode, or many alike, and what is held of it."""

    episode: Episode
    verdict: str
    cause: str
    suspect: Suspect | None = None
    bursts: int = 1
    seconds: float = 0

    @property
    def limit(self) -> str:
        """Name the limit that holds its severity."""
        one = self.episode
        if self.verdict == "transient":
            return "transient"
        if one.leaderless * 2 > one.errors:
            return "leaderless"
        if self.suspect is not None and self.suspect.name in _GONE:
            return "topic_gone" if self.verdict == "stuck" else "topic_changed"
        return self.verdict


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client's episode of errors."""
    limits = context.limits[NAME]
    names = ("gap", "late", "ahead", "stroke", "near", "settled")
    reach = EpisodeLimits(*(limits[name] for name in names))
    judged = list(
        _merged(list(_judged(context, find_episodes(context, STALE, reach))), limits["bursts"])
    )
    told = _told(context, judged)
    yield from (_finding(context, one, told) for one in judged)


def _judged(context: DetectionContext, every: Sequence[Episode]) -> Iterator[_Judged]:
    flaps = set(flapping(context))
    causes = {id(one): _cause(context, one, flaps) for one in every}
    loose = [one for one in every if causes[id(one)] == "none_seen"]
    found = suspects(context, loose, context.limits[NAME]["near"])
    behind = {id(one): suspect for one, suspect in zip(loose, found, strict=True)}
    hosts: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for one in every:
        if id(one) not in behind:
            hosts[one.node, one.client].append(one)
    kept = []
    for one in every:
        host = _host(one, behind.get(id(one)), hosts[one.node, one.client])
        if host is None:
            kept.append(one)
        else:
            host.merge(one)
            host.trim()
    for one in kept:
        yield _Judged(
            one, _verdict(context, one), causes[id(one)], behind.get(id(one)), 1, one.seconds
        )


def _host(one: Episode, suspect: Suspect | None, hosts: Sequence[Episode]) -> Episode | None:
    """Find what the same client saw at the same time, for errors without anything of their own."""
    if suspect is None or suspect.name != "stale_client":
        return None
    return next((host for host in hosts if host.begin <= one.end and one.begin <= host.end), None)


def _cause(context: DetectionContext, episode: Episode, flaps: set[int]) -> str:
    found = {_cause_of(context, episode, *one, flaps) for one in episode.elections}
    if episode.absence is not None:
        found.add(_loss(episode.absence.kind, episode.absence.broker, flaps))
    near = context.limits[NAME]["near"] * SECOND
    reigns = [term.span for term in context.history.lanes.controllers[1:]]
    if episode.created_at is None and any(abs(one.begin - episode.begin) <= near for one in reigns):
        found.add("controller_change")
    return next((cause for cause in CAUSES if cause in found), "none_seen")


def _cause_of(
    context: DetectionContext,
    episode: Episode,
    election: str,
    previous: int | None,
    flaps: set[int],
) -> str:
    if election == "failover":
        return _loss("crash", previous, flaps)
    if election == "unknown":
        # How the new leader came about is not told, but perhaps how the old one left.
        near = context.limits[NAME]["near"] * SECOND
        kinds = [
            away.kind
            for away in context.absences
            if away.broker == previous and abs(away.begin - episode.begin) <= near
        ]
        return _loss(kinds[-1], previous, flaps) if kinds else "none_seen"
    return _ELECTIONS.get(election, "none_seen")


def _loss(kind: str, broker: int | None, flaps: set[int]) -> str:
    if kind == "controlled":
        return "controlled_restart"
    return "flapping" if broker in flaps else "broker_crash"


def _verdict(context: DetectionContext, episode: Episode) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = context.limits[NAME]
    begin, end = episode.begin, episode.end
    settled = begin if episode.settled_at is None else max(begin, episode.settled_at)
    if end - settled <= limits["settled"] * SECOND:
        return "transient"
    last = context.last_logged.get(episode.node, end)
    unfinished = (
        context.history.clocks.correct(episode.node, last) - end <= limits["settled"] * SECOND
    )
    long = end - begin >= limits["long"] * SECOND
    return "stuck" if long and unfinished else "sustained"


def _merged(judged: Sequence[_Judged], most: int) -> Iterator[_Judged]:
    """Make one of the many harmless bursts that a client had by the same cause."""
    alike = [(one.episode.node, one.episode.client, one.cause) for one in judged]
    many = Counter(
        whose for whose, one in zip(alike, judged, strict=True) if one.verdict == "transient"
    )
    bundles: dict[tuple[str, str, str], list[_Judged]] = defaultdict(list)
    for whose, one in zip(alike, judged, strict=True):
        if one.verdict == "transient" and many[whose] > most:
            bundles[whose].append(one)
        else:
            yield one
    for bundle in bundles.values():
        first = bundle[0].episode
        for one in bundle[1:]:
            first.merge(one.episode)
        first.trim()
        seconds = round(sum(one.seconds for one in bundle), 1)
        head = bundle[0]
        yield _Judged(first, "transient", head.cause, head.suspect, len(bundle), seconds)


def _told(context: DetectionContext, judged: Sequence[_Judged]) -> _Told:
    """Look up the lines that tell of the first moves."""
    wanted = {move for one in judged for move in one.episode.moves}
    if not wanted:
        return {}
    starts = sorted({start for _, start in wanted})
    where = in_topics(topic for (topic, _), _ in wanted)
    where &= pc.field("started_at").isin(pa.array(starts, pa.timestamp("us", tz="UTC")))
    lines: dict[tuple[str, int | None, int], list[Row]] = defaultdict(list)
    for row in context.each("leadership", where, ["topic", "partition", "started_at", "evidence"]):
        for number in (row["partition"], None):
            lines[row["topic"], number, row["started_at"]] += row["evidence"][:1]
    mine = {
        id(one.episode): [
            line for (topic, number), start in one.episode.moves
            for line in lines[topic, number, start][:1]
        ]
        for one in judged
    }  # fmt: skip
    texts: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for place in context.read_lines(line for found in mine.values() for line in found):
        texts[place["file"], place["line"]].append(place)
    return {
        name: [text for line in found for text in texts[line["file"], line["line"]]]
        for name, found in mine.items()
    }


def _finding(context: DetectionContext, one: _Judged, told: _Told) -> Finding:
    episode, verdict = one.episode, one.verdict
    suspect = one.suspect.name if one.suspect is not None else None
    lines = [*told.get(id(episode), ()), *(one.suspect.evidence if one.suspect else ())]
    evidence = [*episode.first, *lines]
    confidence, reason = context.confidence(episode.begin, episode.end, evidence, stated=False)
    return Finding(
        detector=NAME,
        severity=str(context.limits[NAME][one.limit]),
        confidence=confidence,
        title=title(episode, verdict, one.cause, suspect, one.bursts),
        begin=episode.begin,
        end=episode.end,
        evidence=evidence,
        partitions=sorted(episode.partitions),
        clients=[episode.client],
        measures={
            "errors": episode.errors,
            "duration_s": one.seconds,
            "verdict": verdict,
            "cause": one.cause,
            "suspect": suspect,
            "bursts": one.bursts,
            "leaderless": episode.leaderless,
            "topics": sorted(episode.topics),
        },
        explanation=explanation(episode, verdict, suspect),
        actions=list(actions(context, episode, verdict, suspect)),
        why=_why(context, episode, verdict),
        reason=reason,
        doubts=doubts(episode, suspect),
    )


def _why(context: DetectionContext, episode: Episode, verdict: str) -> str:
    limits = context.limits[NAME]
    if episode.settled_at is None:
        past, since = episode.seconds, "the first of them"
    else:
        settled = max(episode.begin, episode.settled_at)
        past, since = round((episode.end - settled) / SECOND, 1), "the last new leader"
    text = f"the last error came {max(0.0, past):g} s after {since}; "
    text += f"{limits['settled']:g} s are let pass"
    if verdict == "stuck":
        text += f", and errors of {episode.seconds:g} s to the end of the log (limit "
        text += f"{limits['long']:g} s) do not end"
    return text
