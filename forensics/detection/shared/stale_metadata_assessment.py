"""Judges episodes of stale metadata: how they ended, what moved the leaders, how often."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics, once_per_run
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.flapping_brokers import find_flapping_absences
from forensics.detection.shared.stale_metadata_account import (
    Account,
    absence_behind,
    build_accounts,
)
from forensics.detection.shared.stale_metadata_episodes import Episode
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import busiest_window, sessions
from forensics.lib.time_units import SECOND

_LIMITS = "stale-metadata"
INFORMATIONAL = "REPLICA_NOT_AVAILABLE"
_ELECTIONS = {
    "unclean": "unclean_election",
    "controlled_shutdown": "controlled_restart",
    "preferred": "preferred_election",
    "reassignment": "reassignment",
}
# What stands further up explains an episode better than what stands further down.
CAUSES = (
    "unclean_election", "flapping", "broker_crash", "controlled_restart", "reassignment",
    "preferred_election", "controller_change", "none_seen",
)  # fmt: skip
PLANNED = ("controlled_restart", "reassignment", "preferred_election")

# The absences of each broker that flaps.
Flapping = Mapping[int, Sequence[Absence]]

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
# Topics whose names are compared, and how much of two must be alike for one to be meant.
_MAX_COMPARED, _ALIKE = 1000, 0.75
# How many lines about one topic or client are kept.
_MAX_LINES = 50
_COLUMNS = ("kind", "topic", "ts", "node", "file", "line", "text", "rule", "telling")


@dataclass(frozen=True)
class Assessment:
    """An episode, or many alike, and how it is judged."""

    episode: Episode
    account: Account
    verdict: str
    cause: str
    suspect: _Suspect | None = None
    bursts: int = 1
    seconds: float = 0
    # bursts that no plan explains come too often
    frequent: bool = False
    # a broker that flaps, which lost leaders or to which they went back
    flapping: int | None = None
    # the topic that may be meant by one that nobody knows
    meant: str | None = None

    @property
    def is_topic_gone(self) -> bool:
        """Whether the topics that it is about are not there."""
        return self.suspected in _TOPIC_GONE and bool(self.episode.topics)

    @property
    def suspected(self) -> str | None:
        """The name of the suspect."""
        return None if self.suspect is None else self.suspect.name

    @property
    def unstable_broker(self) -> int | None:
        """The broker that leaves again and again, if one does."""
        if self.flapping is not None or not self.frequent:
            return self.flapping
        left = Counter(
            broker for _, broker in self.episode.elections if broker is not None and broker >= 0
        )
        return max(sorted(left), key=left.__getitem__, default=None)

    @property
    def limit(self) -> str:
        """Return the name of the limit that holds its severity."""
        episode = self.episode
        if self.suspected == "replica_away":
            return "transient"
        if self.frequent:
            return "frequent"
        if self.verdict == "transient":
            return "transient"
        if episode.leaderless * 2 > episode.errors:
            return "leaderless"
        if self.suspected in _TOPIC_GONE:
            return "topic_gone" if self.verdict == "stuck" else "topic_changed"
        return self.verdict


def assess_episodes(context: DetectionContext, episodes: Sequence[Episode]) -> Iterator[Assessment]:
    """Judge each episode; those that are alike, and many, are one."""
    yield from _bundle_bursts(context, list(_assess(context, episodes)))


def _assess(context: DetectionContext, episodes: Sequence[Episode]) -> Iterator[Assessment]:
    flapping = find_flapping_absences(context)
    causes = {id(episode): _cause(context, episode, flapping) for episode in episodes}
    unmoved = [episode for episode in episodes if causes[id(episode)] == "none_seen"]
    suspects = _find_suspects(context, unmoved, context.limits[_LIMITS]["near"])
    hosts: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if id(episode) not in suspects:
            hosts[episode.node].append(episode)
    kept = []
    for episode in episodes:
        suspect = suspects.get(id(episode))
        if set(episode.error_counts) == {INFORMATIONAL}:
            suspect = _Suspect("replica_away", suspect.evidence if suspect else ())
        host = _find_host(episode, suspect, hosts[episode.node])
        if host is None:
            kept.append((episode, suspect))
        else:
            host.merge(episode)
            host.trim()
    accounts = build_accounts(context, [episode for episode, _ in kept])
    for (episode, suspect), account in zip(kept, accounts, strict=True):
        verdict, cause = _verdict(context, episode), causes[id(episode)]
        broker = _find_flapping(account, cause, flapping)
        seconds, meant = episode.seconds, None
        if suspect is not None and suspect.name == "topic_unknown":
            meant = _most_alike(episode, _known_topics(context))
        yield Assessment(
            episode, account, verdict, cause, suspect, 1, seconds, flapping=broker, meant=meant
        )


@once_per_run
def _known_topics(context: DetectionContext) -> Sequence[str]:
    """Return the names of topics that exist, as many as can be compared in short time."""
    found: set[str] = set()
    for batch in context.batches("leadership", pc.field("topic").is_valid(), ["topic"]):
        found.update(batch["topic"].unique().to_pylist())
    return sorted(found)[:_MAX_COMPARED]


def _most_alike(episode: Episode, known: Sequence[str]) -> str | None:
    """Return the topic whose name is most like one that nobody knows, if one is."""
    name = min(episode.topics, default="")
    return next(iter(difflib.get_close_matches(name, known, 1, _ALIKE)), None)


def _find_flapping(account: Account, cause: str, flapping: Flapping) -> int | None:
    """Return the flapping broker that lost its leaders, or that was given them back in between."""
    if cause == "flapping":
        flaps = [one.broker for one in account.absences if one.broker in flapping]
        return flaps[0] if flaps else None
    for move in account.moves.values():
        run = flapping.get(-1 if move.leader is None else move.leader, ())
        if not move.is_first and run and run[0].begin <= move.start <= run[-1].begin:
            return move.leader
    return None


def _find_host(
    episode: Episode, suspect: _Suspect | None, hosts: Sequence[Episode]
) -> Episode | None:
    """Find an explained episode of the same process and time, for errors that nothing explains."""
    if suspect is None or suspect.name != "stale_client":
        return None
    overlapping = (
        host for host in hosts if host.begin <= episode.end and episode.begin <= host.end
    )
    return next(overlapping, None)


def _cause(context: DetectionContext, episode: Episode, flapping: Flapping) -> str:
    moves = [move for move in episode.latest.values() if not move.is_first]
    absences = {move: absence_behind(context, move) for move in moves}
    causes = set()
    for election, previous in episode.elections:
        own = [absences[move] for move in moves if move.previous == previous]
        causes.add(_cause_of(election, own, flapping))
    if episode.absence is not None:
        causes.add(_cause_of_loss(episode.absence, flapping))
    near = context.limits[_LIMITS]["near"] * SECOND
    terms = (term.span.begin for term in context.history.lanes.controllers[1:])
    # A new controller explains only what no move of these partitions does.
    if episode.created_at is None and any(abs(at - episode.begin) <= near for at in terms):
        causes.add("controller_change")
    return next((cause for cause in CAUSES if cause in causes), "none_seen")


def _cause_of(election: str, absences: Sequence[Absence | None], flapping: Flapping) -> str:
    """Return the cause of moves away from a leader, and of its absences then, if there are any."""
    losses = [_cause_of_loss(one, flapping) for one in absences if one is not None]
    if election == "failover":
        return min(losses, key=CAUSES.index, default="broker_crash")
    if election == "unknown":
        # How the new leader was elected is not logged, but perhaps how the old one left.
        return min(losses, key=CAUSES.index, default="none_seen")
    return _ELECTIONS.get(election, "none_seen")


def _cause_of_loss(absence: Absence, flapping: Flapping) -> str:
    if absence.kind == "controlled":
        return "controlled_restart"
    run = flapping.get(absence.broker, ())
    is_within = bool(run) and run[0].begin <= absence.begin <= run[-1].begin
    return "flapping" if is_within else "broker_crash"


def _verdict(context: DetectionContext, episode: Episode) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = context.limits[_LIMITS]
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


def _bundle_bursts(
    context: DetectionContext, assessments: Sequence[Assessment]
) -> Iterator[Assessment]:
    """Make one of the bursts of a process that come too often, and of many that are harmless."""
    limits = context.limits[_LIMITS]
    unplanned: dict[str, list[Assessment]] = defaultdict(list)
    for one in assessments:
        if one.verdict == "transient" and _is_unplanned(one):
            unplanned[one.episode.node].append(one)
    frequent = [
        run
        for own in unplanned.values()
        for run in sessions(own, lambda one: one.episode.begin, limits["window"] * SECOND)
        if len(busiest_window(run, lambda one: one.episode.begin, limits["window"] * SECOND))
        >= limits["many"]
    ]
    bundled = {id(one) for run in frequent for one in run}
    harmless: dict[tuple[str, str], list[Assessment]] = defaultdict(list)
    for one in assessments:
        if one.verdict == "transient" and id(one) not in bundled:
            harmless[one.episode.node, one.cause].append(one)
    bundles = [bundle for bundle in harmless.values() if len(bundle) > limits["bursts"]]
    bundled |= {id(one) for bundle in bundles for one in bundle}
    yield from (one for one in assessments if id(one) not in bundled)
    yield from (replace(_join(run), frequent=True) for run in frequent)
    yield from map(_join, bundles)


def _is_unplanned(assessment: Assessment) -> bool:
    """Return True if leaders moved, or may have moved, and nobody is seen to have asked for it."""
    suspect = assessment.suspect.name if assessment.suspect is not None else "unexplained_move"
    moved = ("unexplained_move", "no_broker_logs", "stale_client")
    return assessment.cause not in PLANNED and suspect in moved


def _join(bundle: Sequence[Assessment]) -> Assessment:
    """Make one of several bursts of a process; the last of them tells how it stands now."""
    first, last = bundle[0].episode, bundle[-1]
    seconds = round(sum(one.seconds for one in bundle), 1)
    cause = min((one.cause for one in bundle), key=CAUSES.index)
    suspect = last.suspect if cause == "none_seen" else None
    account = replace(last.account, episode=replace(last.episode))
    for one in bundle[1:]:
        first.merge(one.episode)
    first.trim()
    flapping = next((one.flapping for one in bundle if one.flapping is not None), None)
    return Assessment(
        first, account, "transient", cause, suspect, len(bundle), seconds, flapping=flapping
    )


@dataclass(frozen=True)
class _Suspect:
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


def _find_suspects(
    context: DetectionContext, episodes: Sequence[Episode], near: int
) -> Mapping[int, _Suspect]:
    """Return what may be behind episodes behind which nothing moved, by the episode's `id`."""
    if not episodes:
        return {}
    lines = _read_related_lines(context, episodes)
    return {id(episode): _find_suspect(episode, lines, near * SECOND) for episode in episodes}


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
