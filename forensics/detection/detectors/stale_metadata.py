"""Stale-metadata errors in clients: harmless when they end with the move behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import BROKERS, CLIENTS
from forensics.detection.shared.flapping_brokers import find_flapping_absences
from forensics.detection.shared.stale_metadata_episodes import Episode, EpisodeLimits, find_episodes
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "stale-metadata"
NEEDS = CLIENTS
STALE_ERRORS = (
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
_TOPIC_GONE = ("topic_deleted", "topic_recreated", "topic_unknown")
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

# What stands further up explains an episode better than what stands further down.
_CAUSES = {
    "unclean_election": "after an unclean election",
    "flapping": "behind a flapping broker",
    "broker_crash": "after a broker was lost",
    "controlled_restart": "around a planned restart",
    "reassignment": "around a reassignment",
    "preferred_election": "around a preferred election",
    "controller_change": "around a change of controller",
    "none_seen": "no move seen behind it",
}
# What stands further up explains an episode better.
_SUSPECTS = {
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
class _Assessment:
    """An episode, or many alike, and how it is judged."""

    episode: Episode
    verdict: str
    cause: str
    suspect: _Suspect | None = None
    bursts: int = 1
    seconds: float = 0

    @property
    def limit(self) -> str:
        """Return the name of the limit that holds its severity."""
        episode = self.episode
        if self.verdict == "transient":
            return "transient"
        if episode.leaderless * 2 > episode.errors:
            return "leaderless"
        if self.suspect is not None and self.suspect.name in _TOPIC_GONE:
            return "topic_gone" if self.verdict == "stuck" else "topic_changed"
        return self.verdict


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client's episode of errors."""
    limits = context.limits[NAME]
    names = ("gap", "late", "ahead", "stroke", "near", "settled")
    episode_limits = EpisodeLimits(*(limits[name] for name in names))
    episodes = find_episodes(context, STALE_ERRORS, episode_limits)
    assessments = list(_bundle_bursts(list(_assess(context, episodes)), limits["bursts"]))
    lines = _read_move_lines(context, assessments)
    for assessment in assessments:
        yield _finding(context, assessment, lines)


def _assess(context: DetectionContext, episodes: Sequence[Episode]) -> Iterator[_Assessment]:
    flapping = set(find_flapping_absences(context))
    causes = {id(episode): _cause(context, episode, flapping) for episode in episodes}
    unmoved = [episode for episode in episodes if causes[id(episode)] == "none_seen"]
    suspects = _find_suspects(context, unmoved)
    hosts: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        if id(episode) not in suspects:
            hosts[episode.node, episode.client].append(episode)
    kept = []
    for episode in episodes:
        suspect = suspects.get(id(episode))
        host = _find_host(episode, suspect, hosts[episode.node, episode.client])
        if host is None:
            kept.append((episode, suspect))
        else:
            host.merge(episode)
            host.trim()
    for episode, suspect in kept:
        verdict, cause = _verdict(context, episode), causes[id(episode)]
        yield _Assessment(episode, verdict, cause, suspect, 1, episode.seconds)


def _find_host(
    episode: Episode, suspect: _Suspect | None, hosts: Sequence[Episode]
) -> Episode | None:
    """Find an explained episode of the same client and time, for errors that nothing explains."""
    if suspect is None or suspect.name != "stale_client":
        return None
    overlapping = (
        host for host in hosts if host.begin <= episode.end and episode.begin <= host.end
    )
    return next(overlapping, None)


def _cause(context: DetectionContext, episode: Episode, flapping: Collection[int]) -> str:
    causes = {_cause_of(context, episode, *election, flapping) for election in episode.elections}
    if episode.absence is not None:
        causes.add(_cause_of_loss(episode.absence.kind, episode.absence.broker, flapping))
    near = context.limits[NAME]["near"] * SECOND
    terms = (term.span.begin for term in context.history.lanes.controllers[1:])
    if episode.created_at is None and any(abs(at - episode.begin) <= near for at in terms):
        causes.add("controller_change")
    return next((cause for cause in _CAUSES if cause in causes), "none_seen")


def _cause_of(
    context: DetectionContext,
    episode: Episode,
    election: str,
    previous: int | None,
    flapping: Collection[int],
) -> str:
    if election == "failover":
        return _cause_of_loss("crash", previous, flapping)
    if election == "unknown":
        # How the new leader was elected is not logged, but perhaps how the old one left.
        near = context.limits[NAME]["near"] * SECOND
        kinds = [
            absence.kind
            for absence in context.absences
            if absence.broker == previous and abs(absence.begin - episode.begin) <= near
        ]
        return _cause_of_loss(kinds[-1], previous, flapping) if kinds else "none_seen"
    return _ELECTIONS.get(election, "none_seen")


def _cause_of_loss(kind: str, broker: int | None, flapping: Collection[int]) -> str:
    if kind == "controlled":
        return "controlled_restart"
    return "flapping" if broker in flapping else "broker_crash"


def _verdict(context: DetectionContext, episode: Episode) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = context.limits[NAME]
    begin, end = episode.begin, episode.end
    settled = begin if episode.settled_at is None else max(begin, episode.settled_at)
    if end - settled <= limits["settled"] * SECOND:
        return "transient"
    last = context.last_logged.get(episode.node, end)
    is_unfinished = (
        context.history.clocks.correct(episode.node, last) - end <= limits["settled"] * SECOND
    )
    is_long = end - begin >= limits["long"] * SECOND
    return "stuck" if is_long and is_unfinished else "sustained"


def _bundle_bursts(assessments: Sequence[_Assessment], most: int) -> Iterator[_Assessment]:
    """Make one of the many harmless episodes that a client had by the same cause."""
    harmless: dict[tuple[str, str, str], list[_Assessment]] = defaultdict(list)
    for one in assessments:
        if one.verdict == "transient":
            harmless[one.episode.node, one.episode.client, one.cause].append(one)
    bundles = [bundle for bundle in harmless.values() if len(bundle) > most]
    bundled = {id(one) for bundle in bundles for one in bundle}
    yield from (one for one in assessments if id(one) not in bundled)
    for bundle in bundles:
        first = bundle[0].episode
        for one in bundle[1:]:
            first.merge(one.episode)
        first.trim()
        seconds = round(sum(one.seconds for one in bundle), 1)
        yield replace(bundle[0], bursts=len(bundle), seconds=seconds)


def _read_move_lines(
    context: DetectionContext, assessments: Sequence[_Assessment]
) -> Mapping[int, Sequence[Row]]:
    """Look up the lines that the first moves of each episode cite, by the episode's `id`."""
    moves = {move for one in assessments for move in one.episode.moves}
    if not moves:
        return {}
    where = in_topics(topic for (topic, _), _ in moves)
    where &= pc.field("started_at").isin(
        pa.array(sorted({at for _, at in moves}), pa.timestamp("us", tz="UTC"))
    )
    cited: dict[tuple[str, int | None, int], list[Row]] = defaultdict(list)
    for row in context.each("leadership", where, ["topic", "partition", "started_at", "evidence"]):
        for number in (row["partition"], None):
            cited[row["topic"], number, row["started_at"]] += row["evidence"][:1]
    places = {
        id(one.episode): [
            place
            for (topic, number), start in one.episode.moves
            for place in cited[topic, number, start][:1]
        ]
        for one in assessments
    }
    lines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for line in context.read_lines(place for own in places.values() for place in own):
        lines[line["file"], line["line"]].append(line)
    return {
        key: [line for place in own for line in lines[place["file"], place["line"]]]
        for key, own in places.items()
    }


def _finding(
    context: DetectionContext, assessment: _Assessment, move_lines: Mapping[int, Sequence[Row]]
) -> Finding:
    episode, verdict = assessment.episode, assessment.verdict
    suspect = assessment.suspect.name if assessment.suspect is not None else None
    more_lines = [
        *move_lines.get(id(episode), ()),
        *(assessment.suspect.evidence if assessment.suspect else ()),
    ]
    evidence = [*episode.first, *more_lines]
    return context.finding(
        NAME,
        context.limits[NAME][assessment.limit],
        _title(episode, verdict, assessment.cause, suspect, assessment.bursts),
        episode.begin,
        episode.end,
        evidence,
        stated=False,
        partitions=sorted(episode.partitions),
        clients=[episode.client],
        measures={
            "errors": episode.errors,
            "duration_s": assessment.seconds,
            "verdict": verdict,
            "cause": assessment.cause,
            "suspect": suspect,
            "bursts": assessment.bursts,
            "leaderless": episode.leaderless,
            "topics": sorted(episode.topics),
        },
        explanation=_explanation(episode, verdict, suspect),
        actions=list(_actions(context, episode, verdict, suspect)),
        why=_why(context, episode, verdict),
        doubts=_doubts(episode, suspect),
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


@dataclass(frozen=True)
class _Suspect:
    """One of _SUSPECTS, and the lines that support it."""

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


def _find_suspects(
    context: DetectionContext, episodes: Sequence[Episode]
) -> Mapping[int, _Suspect]:
    """Return what may be behind episodes behind which nothing moved, by the episode's `id`."""
    if not episodes:
        return {}
    lines = _read_related_lines(context, episodes)
    near = round(context.limits[NAME]["near"] * SECOND)
    return {id(episode): _find_suspect(episode, lines, near) for episode in episodes}


def _find_suspect(episode: Episode, related: _RelatedLines, near: int) -> _Suspect:
    if episode.elections or episode.absence is not None:
        return _Suspect("unexplained_move")
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
        return _Suspect(name, [*deleted[-2:], *again[:1]])
    new = [row for row in created if abs(row["at"] - episode.begin) <= near]
    if episode.created_at is not None or (is_unknown and new):
        return _Suspect("topic_just_created", new[:1])
    for name, kinds in _CLIENT_SUSPECTS:
        seen = [
            row
            for row in related.nodes[episode.node]
            if row["kind"] in kinds and episode.begin - near <= row["at"] <= episode.end + near
        ]
        if seen:
            return _Suspect(name, seen[:3])
    return _Suspect(_suspect_without_lines(episode, related, near))


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
    where = kind.isin(_TOPIC_KINDS) & pc.field("topic").isin(topics)
    where |= kind.isin(_CLIENT_KINDS) & node.isin(nodes)
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


def _title(episode: Episode, verdict: str, cause: str, suspect: str | None, bursts: int) -> str:
    """Describe the episode in one line."""
    behind = _SUSPECTS[suspect] if suspect is not None else _CAUSES[cause]
    if bursts > 1:
        what = f"{bursts} bursts, {episode.errors} stale-metadata errors, all {verdict}"
    else:
        many = "errors" if episode.errors > 1 else "error"
        what = f"{episode.errors} stale-metadata {many} in {episode.seconds:g} s, {verdict}"
    return f"{episode.client}: {what} ({behind})"


def _explanation(episode: Episode, verdict: str, suspect: str | None) -> str:
    """Explain what the episode means."""
    if suspect in (None, "unexplained_move"):
        text = _VERDICTS[verdict]
    else:
        words = _SUSPECTS[suspect]
        text = f"{_UNMOVED[verdict]}; {words}: {_MEANINGS[suspect]}"
    if episode.leaderless:
        text += (
            f" {episode.leaderless} of the errors came while the partition had no leader at all: "
            "for those the client is right, and the brokers are to be looked at."
        )
    return text


def _actions(
    context: DetectionContext, episode: Episode, verdict: str, suspect: str | None
) -> Sequence[str]:
    """Return what to do, and what not."""
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


def _doubts(episode: Episode, suspect: str | None) -> list[str]:
    """Return what would make the finding wrong."""
    doubts = []
    if suspect in ("topic_unknown", "stale_client"):
        doubts.append("The brokers' lines about these partitions may just not be in the archive.")
    if not episode.topics:
        doubts.append("The errors do not say which topic they are about.")
    if suspect is None and not episode.partitions:
        doubts.append("The errors name topics only: any of their partitions may be meant.")
    return doubts


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
