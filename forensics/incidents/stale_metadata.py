"""Bursts of stale-metadata errors in clients: harmless when they end with the move behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of
from forensics.incidents.finding import Finding
from forensics.incidents.flapping_broker import flapping

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
    errors = case.events("client_error", where=pc.field("error").isin(STALE))
    by_client: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in errors:
        by_client[row["node"] or "", row["client"] or row["node"] or "unknown"].append(row)
    flaps = set(flapping(case))
    for (node, client), rows in sorted(by_client.items()):
        for episode in _episodes(rows, case.limits[NAME]["gap"]):
            yield _finding(case, node, client, episode, flaps)


def _episodes(rows: Sequence[Row], gap: float) -> Iterator[list[Row]]:
    episode: list[Row] = []
    for row in rows:
        if episode and row["at"] - episode[-1]["at"] > gap * _MICROS:
            yield episode
            episode = []
        episode.append(row)
    if episode:
        yield episode


def _finding(case: Case, node: str, client: str, episode: list[Row], flaps: set[int]) -> Finding:
    begin, end = episode[0]["at"], episode[-1]["at"]
    moves = _moves(case, episode)
    cause = _cause(case, moves, begin, flaps)
    verdict = _verdict(case, node, begin, end, moves)
    seconds = round((end - begin) / _MICROS, 1)
    return Finding(
        detector=NAME,
        severity=_SEVERITIES[verdict],
        confidence="likely" if moves else "possible",
        title=f"{client}: {len(episode)} stale-metadata errors in {seconds} s, {verdict} ("
        + _WORDS[cause]
        + ")",
        begin=begin,
        end=end,
        evidence=[*episode, *case.places(e for row in moves[:5] for e in row["evidence"][:1])],
        partitions=sorted({name_of(row) for row in episode if row["partition"] is not None}),
        clients=[client],
        measures={
            "errors": len(episode),
            "duration_s": seconds,
            "verdict": verdict,
            "cause": cause,
        },
        explanation=_EXPLANATIONS[verdict],
        actions=_ACTIONS[verdict],
    )


def _moves(case: Case, episode: Sequence[Row]) -> list[Row]:
    """Find the leader changes of the episode's partitions that lie near it."""
    near = case.limits[NAME]["near"] * _MICROS
    begin, end = episode[0]["at"] - near, episode[-1]["at"] + near
    topics = sorted({row["topic"] for row in episode if row["topic"]})
    names = {name_of(row) for row in episode if row["partition"] is not None}
    rows = case.rows("leadership", pc.field("topic").isin(topics)) if topics else []
    return sorted(
        (
            row
            for row in rows
            if row["started_at"] is not None
            and begin <= row["started_at"] <= end
            and row["leader"] != row["previous_leader"]
            and row["election"] != "initial"
            and (not names or name_of(row) in names)
        ),
        key=lambda row: (row["started_at"], name_of(row)),
    )


def _cause(case: Case, moves: Sequence[Row], begin: int, flaps: set[int]) -> str:
    found = {_cause_of(row, flaps) for row in moves}
    near = case.limits[NAME]["near"] * _MICROS
    reigns = [span for _, _, span in case.past.lanes.controllers[1:]]
    if any(abs(span.begin - begin) <= near for span in reigns):
        found.add("controller_change")
    return next((cause for cause in _CAUSES if cause in found), "none_seen")


def _cause_of(row: Row, flaps: set[int]) -> str:
    if row["election"] == "unclean":
        return "unclean_election"
    if row["election"] == "failover":
        return "flapping" if row["previous_leader"] in flaps else "broker_crash"
    return {
        "controlled_shutdown": "controlled_restart",
        "preferred": "preferred_election",
        "reassignment": "reassignment",
    }.get(str(row["election"]), "none_seen")


def _verdict(case: Case, node: str, begin: int, end: int, moves: Sequence[Row]) -> str:
    """Compare the end of the errors with the moment from which a new leader was there."""
    limits = case.limits[NAME]
    leaders = [row["started_at"] for row in moves if (row["leader"] or -1) >= 0]
    settled = max([begin, *(moment for moment in leaders if moment <= end)])
    if end - settled <= limits["settled"] * _MICROS:
        return "transient"
    last: Any = max(
        (row["last_ts"] for row in case.rows("files", pc.field("node") == node) if row["last_ts"]),
        default=end,
    )
    unfinished = case.past.clocks.correct(node, last) - end <= limits["settled"] * _MICROS
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
