"""Stale-metadata errors in clients: harmless when they end with the move behind them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case, Row
from forensics.incidents.confidence import sureness
from forensics.incidents.detectors.flapping_broker import flapping
from forensics.incidents.episodes import Episode, Reach, episodes
from forensics.incidents.finding import Finding
from forensics.incidents.needs import CLIENTS
from forensics.incidents.staleness import CAUSES, actions, doubts, explanation, title
from forensics.incidents.suspects import Suspect, suspects

__all__ = ["find"]

NAME = "stale-metadata"
NEEDS = CLIENTS
STALE = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_MICROS = 1_000_000
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


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each client's episode of errors."""
    limits = case.limits[NAME]
    names = ("gap", "late", "ahead", "stroke", "near", "settled")
    reach = Reach(*(limits[name] for name in names))
    judged = list(_merged(list(_judged(case, episodes(case, STALE, reach))), limits["bursts"]))
    told = _told(case, judged)
    yield from (_finding(case, one, told) for one in judged)


def _judged(case: Case, every: Sequence[Episode]) -> Iterator[_Judged]:
    flaps = set(flapping(case))
    causes = {id(one): _cause(case, one, flaps) for one in every}
    loose = [one for one in every if causes[id(one)] == "none_seen"]
    found = suspects(case, loose, case.limits[NAME]["near"])
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
            host.join(one)
            host.trim()
    for one in kept:
        yield _Judged(
            one, _verdict(case, one), causes[id(one)], behind.get(id(one)), 1, one.seconds
        )


def _host(one: Episode, suspect: Suspect | None, hosts: Sequence[Episode]) -> Episode | None:
    """Find what the same client saw at the same time, for errors without anything of their own."""
    if suspect is None or suspect.name != "stale_client":
        return None
    return next((host for host in hosts if host.begin <= one.end and one.begin <= host.end), None)


def _cause(case: Case, episode: Episode, flaps: set[int]) -> str:
    found = {_cause_of(case, episode, *one, flaps) for one in episode.elections}
    if episode.away is not None:
        found.add(_loss(episode.away.kind, episode.away.broker, flaps))
    near = case.limits[NAME]["near"] * _MICROS
    reigns = [span for _, _, span in case.past.lanes.controllers[1:]]
    if episode.created is None and any(abs(one.begin - episode.begin) <= near for one in reigns):
        found.add("controller_change")
    return next((cause for cause in CAUSES if cause in found), "none_seen")


def _cause_of(
    case: Case, episode: Episode, election: str, previous: int | None, flaps: set[int]
) -> str:
    if election == "failover":
        return _loss("crash", previous, flaps)
    if election == "unknown":
        # How the new leader came about is not told, but perhaps how the old one left.
        near = case.limits[NAME]["near"] * _MICROS
        kinds = [
            away.kind
            for away in case.away
            if away.broker == previous and abs(away.begin - episode.begin) <= near
        ]
        return _loss(kinds[-1], previous, flaps) if kinds else "none_seen"
    return _ELECTIONS.get(election, "none_seen")


def _loss(kind: str, broker: int | None, flaps: set[int]) -> str:
    if kind == "controlled":
        return "controlled_restart"
    return "flapping" if broker in flaps else "broker_crash"


def _verdict(case: Case, episode: Episode) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = case.limits[NAME]
    begin, end = episode.begin, episode.end
    settled = begin if episode.settled is None else max(begin, episode.settled)
    if end - settled <= limits["settled"] * _MICROS:
        return "transient"
    last = case.last_words.get(episode.node, end)
    unfinished = case.past.clocks.correct(episode.node, last) - end <= limits["settled"] * _MICROS
    long = end - begin >= limits["long"] * _MICROS
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
            first.join(one.episode)
        first.trim()
        seconds = round(sum(one.seconds for one in bundle), 1)
        head = bundle[0]
        yield _Judged(first, "transient", head.cause, head.suspect, len(bundle), seconds)


def _told(case: Case, judged: Sequence[_Judged]) -> _Told:
    """Look up the lines that tell of the first moves."""
    wanted = {move for one in judged for move in one.episode.moves}
    if not wanted:
        return {}
    topics = sorted({topic for (topic, _), _ in wanted})
    starts = sorted({start for _, start in wanted})
    topic, moment = pc.field("topic"), pc.field("started_at")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    where &= moment.isin(pa.array(starts, pa.timestamp("us", tz="UTC")))
    lines: dict[tuple[str, int | None, int], list[Row]] = defaultdict(list)
    for row in case.each("leadership", where, ["topic", "partition", "started_at", "evidence"]):
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
    for place in case.places(line for found in mine.values() for line in found):
        texts[place["file"], place["line"]].append(place)
    return {
        name: [text for line in found for text in texts[line["file"], line["line"]]]
        for name, found in mine.items()
    }


def _finding(case: Case, one: _Judged, told: _Told) -> Finding:
    episode, verdict = one.episode, one.verdict
    suspect = one.suspect.name if one.suspect is not None else None
    lines = [*told.get(id(episode), ()), *(one.suspect.evidence if one.suspect else ())]
    evidence = [*episode.first, *lines]
    confidence, reason = sureness(case, episode.begin, episode.end, evidence, stated=False)
    return Finding(
        detector=NAME,
        severity=str(case.limits[NAME][one.limit]),
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
        actions=list(actions(case, episode, verdict, suspect)),
        why=_why(case, episode, verdict),
        reason=reason,
        doubts=doubts(episode, suspect),
    )


def _why(case: Case, episode: Episode, verdict: str) -> str:
    limits = case.limits[NAME]
    if episode.settled is None:
        past, since = episode.seconds, "the first of them"
    else:
        settled = max(episode.begin, episode.settled)
        past, since = round((episode.end - settled) / _MICROS, 1), "the last new leader"
    text = f"the last error came {max(0.0, past):g} s after {since}; "
    text += f"{limits['settled']:g} s are let pass"
    if verdict == "stuck":
        text += f", and errors of {episode.seconds:g} s to the end of the log (limit "
        text += f"{limits['long']:g} s) do not end"
    return text
