"""Bursts of stale-metadata errors in clients: harmless when they end with the move behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from forensics.incidents.case import Case, Row
from forensics.incidents.episodes import Episode, episodes, meet_moves
from forensics.incidents.finding import Finding
from forensics.incidents.detectors.flapping_broker import flapping

__all__ = ["find"]

NAME = "stale-metadata"
STALE = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_MICROS = 1_000_000
# What stands further left explains an episode better than what stands right of it.
_CAUSES = (
    "unclean_election",
    "flapping",
    "broker_crash",
    "controlled_restart",
    "reassignment",
    "preferred_election",
    "controller_change",
    "none_seen",
)
_SEVERITIES = {"transient": "info", "sustained": "medium", "stuck": "high"}


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each client's episode of errors."""
    every = episodes(case, STALE, case.limits[NAME]["gap"])
    meet_moves(case, every, case.limits[NAME]["near"])
    told: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for place in case.places(line for one in every for line in _lines(one)):
        told[place["file"], place["line"]].append(place)
    flaps = set(flapping(case))
    for one in every:
        yield _finding(case, one, told, flaps)


def _lines(episode: Episode) -> Iterator[Row]:
    """Name a line for each of the first moves."""
    return (line for row in episode.moves for line in row["evidence"][:1])


def _finding(
    case: Case, episode: Episode, told: Mapping[tuple[str, int], list[Row]], flaps: set[int]
) -> Finding:
    begin, end = episode.begin, episode.end
    cause = _cause(case, episode, flaps)
    verdict = _verdict(case, episode)
    seconds = round((end - begin) / _MICROS, 1)
    moved = {(line["file"], line["line"]) for line in _lines(episode)}
    return Finding(
        detector=NAME,
        severity=_SEVERITIES[verdict],
        confidence="likely" if episode.moves else "possible",
        title=f"{episode.client}: {episode.errors} stale-metadata errors in {seconds} s, {verdict} "
        f"({_WORDS[cause]})",
        begin=begin,
        end=end,
        evidence=[*episode.first, *(one for at in moved for one in told.get(at, ()))],
        partitions=sorted(episode.partitions),
        clients=[episode.client],
        measures={
            "errors": episode.errors,
            "duration_s": seconds,
            "verdict": verdict,
            "cause": cause,
        },
        explanation=_EXPLANATIONS[verdict],
        actions=_ACTIONS[verdict],
    )


def _cause(case: Case, episode: Episode, flaps: set[int]) -> str:
    found = {_cause_of(election, leader, flaps) for election, leader in episode.elections}
    near = case.limits[NAME]["near"] * _MICROS
    reigns = [span for _, _, span in case.past.lanes.controllers[1:]]
    if any(abs(span.begin - episode.begin) <= near for span in reigns):
        found.add("controller_change")
    return next((cause for cause in _CAUSES if cause in found), "none_seen")


def _cause_of(election: str, previous: int | None, flaps: set[int]) -> str:
    if election == "unclean":
        return "unclean_election"
    if election == "failover":
        return "flapping" if previous in flaps else "broker_crash"
    return {
        "controlled_shutdown": "controlled_restart",
        "preferred": "preferred_election",
        "reassignment": "reassignment",
    }.get(str(election), "none_seen")


def _verdict(case: Case, episode: Episode) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = case.limits[NAME]
    begin, end = episode.begin, episode.end
    settled = begin if episode.settled is None else max(begin, episode.settled)
    if end - settled <= limits["settled"] * _MICROS:
        return "transient"
    last = case.last_words.get(episode.node, end)
    unfinished = case.past.clocks.correct(episode.node, last) - end <= limits["settled"] * _MICROS
    long = end - begin >= limits["stuck"] * _MICROS
    return "stuck" if long and unfinished else "sustained"


_WORDS = {
    "unclean_election": "after an unclean election",
    "flapping": "behind a flapping broker",
    "broker_crash": "after a broker was lost",
    "controlled_restart": "around a planned restart",
    "reassignment": "around a reassignment",
    "preferred_election": "around a preferred election",
    "controller_change": "around a change of controller",
    "none_seen": "no move seen behind it",
}
_EXPLANATIONS = {
    "transient": "The client asked the old leader, was told so, and found the new one. The errors "
    "end within seconds of the new leader: expected, nothing to do.",
    "sustained": "The errors went on well after a new leader was there: the client kept asking the "
    "wrong broker longer than a refresh of its metadata takes.",
    "stuck": "The errors go on to the end of the client's log: it does not find the leader.",
}
_ACTIONS = {
    "transient": ["Nothing to do."],
    "sustained": ["Look at the client's metadata.max.age.ms, and whether it reaches all brokers."],
    "stuck": ["Restart the client, and look whether its bootstrap servers name this cluster."],
}
