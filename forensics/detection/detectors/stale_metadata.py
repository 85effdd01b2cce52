"""Stale-metadata errors in clients: harmless when they end with the move behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, in_topics
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared import stale_metadata_words as words
from forensics.detection.shared.client_settings import read_client_starts
from forensics.detection.shared.stale_metadata_assessment import (
    INFORMATIONAL,
    Assessment,
    assess_episodes,
)
from forensics.detection.shared.stale_metadata_episodes import EpisodeLimits, find_episodes
from forensics.detection.shared.stale_metadata_words import advise
from forensics.lib.text_format import join_names, pluralize, quantity
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding

NAME = "stale-metadata"
NEEDS = CLIENTS
STALE_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    INFORMATIONAL,
)
# Of one finding so many errors are quoted, so that there is room for what explains them.
_MAX_ERRORS = 15

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
    "replica_away": "a replica was away, and the leader served on: mostly informational",
}


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each application and move of leaders."""
    limits = context.limits[NAME]
    names = ("gap", "late", "ahead", "stroke", "near", "settled")
    late = {
        node: max(start.number("metadata.max.age.ms") or 0 for start in starts) / 1000
        for node, starts in read_client_starts(context).items()
    }
    numbers = {name: limits[name] for name in names[:-1]}
    episode_limits = EpisodeLimits(**numbers, fresh=limits["settled"], late_by_node=late)
    episodes = find_episodes(context, STALE_ERRORS, episode_limits)
    assessments = list(assess_episodes(context, episodes))
    lines = _read_move_lines(context, assessments)
    for assessment in sorted(assessments, key=lambda one: (one.episode.begin, one.episode.node)):
        yield _finding(context, assessment, lines)


def _read_move_lines(
    context: DetectionContext, assessments: Sequence[Assessment]
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
    context: DetectionContext, assessment: Assessment, move_lines: Mapping[int, Sequence[Row]]
) -> Finding:
    episode, account, limits = assessment.episode, assessment.account, context.limits[NAME]
    suspect = assessment.suspect
    evidence = [
        *episode.first[:_MAX_ERRORS],
        *move_lines.get(id(episode), ()),
        *(suspect.evidence if suspect else ()),
        *account.evidence(),
    ]
    return context.finding(
        NAME,
        limits[assessment.limit],
        _title(assessment),
        episode.begin,
        episode.end,
        evidence,
        # A broker's answer states that a topic is not there.
        stated=assessment.is_topic_gone,
        brokers=account.asked,
        partitions=sorted(episode.partitions),
        clients=sorted(episode.clients),
        measures=_measures(assessment, limits["slow"], context.limits["client-config"]),
        explanation=_explanation(assessment, limits),
        actions=list(advise(context, assessment)),
        why=_why(assessment, limits),
        doubts=_doubts(assessment),
    )


def _measures(
    assessment: Assessment, slow: float, patience: Mapping[str, Any]
) -> Mapping[str, Any]:
    episode, account = assessment.episode, assessment.account
    last, slowest = account.last_move, account.propagation
    ages = account.logged_numbers("metadata.max.age.ms")
    return {
        "errors": episode.errors,
        "duration_s": assessment.seconds,
        "verdict": assessment.verdict,
        "cause": assessment.cause,
        "suspect": assessment.suspected,
        "bursts": assessment.bursts,
        "leaderless": episode.leaderless,
        "topics": sorted(episode.topics),
        "asked": account.asked,
        "led_before": account.previous,
        "leader": last[1].leader if last else None,
        "leader_epoch": last[1].leader_epoch if last else None,
        "led_since": to_iso(last[1].settled_at) if last and last[1].settled_at else None,
        "stale_s": None if episode.stale is None else round(max(0, episode.stale) / SECOND, 1),
        "spread_s": round(slowest.took / SECOND, 1)
        if slowest and slowest.doubt is not None
        else None,
        "slow_spread": slowest is not None and slowest.is_surely_over(slow),
        "outdated": account.outdated,
        "metadata_max_age_ms": max(ages, default=None),
        "fails_fast": account.fails_fast(patience["retries"], patience["delivery"]),
        "lost": words.loss_of(account, assessment.cause, assessment.suspected)[0],
        "duplicated": words.duplicates_of(account)[0],
        "recovered": False if assessment.verdict == "stuck" else account.recovered,
        "stable": account.is_stable,
        "explained_by": None,
    } | ({"meant": assessment.meant} if assessment.meant else {})


def _title(assessment: Assessment) -> str:
    """Describe the episode in one line."""
    episode, suspect = assessment.episode, assessment.suspected
    behind = _SUSPECTS[suspect] if suspect is not None else _CAUSES[assessment.cause]
    behind += f"; is {assessment.meant} meant?" if assessment.meant else ""
    if assessment.bursts == 1 and assessment.is_topic_gone:
        what = f"{quantity(episode.errors, 'error')} in {episode.seconds:g} s for topic "
        what += join_names(sorted(episode.topics))
        what += ", to the end of its log" if assessment.verdict == "stuck" else ""
    elif assessment.bursts > 1:
        what = f"{assessment.bursts} bursts, {episode.errors} stale-metadata errors"
        what += ", too often" if assessment.frequent else f", all {assessment.verdict}"
    else:
        many = quantity(episode.errors, "stale-metadata error")
        what = f"{many} in {episode.seconds:g} s, {assessment.verdict}"
    clients = f" ({quantity(len(episode.clients), 'client')})" if len(episode.clients) > 1 else ""
    return f"{episode.application}{clients}: {what} ({behind})"


def _why(assessment: Assessment, limits: Mapping[str, Any]) -> str:
    episode = assessment.episode
    if assessment.frequent:
        return (
            f"{assessment.bursts} bursts that nobody asked for; {limits['many']} within"
            f" {limits['window']} s are too many"
        )
    text = f"errors for {episode.seconds:g} s"
    if episode.stale is not None:
        text += (
            f", the last one {words.seconds_text(episode.stale)} after the move of its partition"
        )
    text += f"; up to {limits['settled']} s after the first error and the new leader are normal"
    if assessment.verdict == "stuck":
        text += f", and errors for {limits['long']} s to the end of the log do not end"
    return text


def _explanation(assessment: Assessment, limits: Mapping[str, Any]) -> str:
    """Go through what one looks at, step by step."""
    episode, account, verdict = assessment.episode, assessment.account, assessment.verdict
    suspect = assessment.suspected
    if suspect == "replica_away":
        return _REPLICA_AWAY
    if suspect in _GONE and assessment.is_topic_gone:
        parts = [_gone_text(assessment)]
    elif suspect in (None, "unexplained_move"):
        parts = [_VERDICTS["frequent" if assessment.frequent else verdict]]
    else:
        parts = [f"{_UNMOVED[verdict]}; {_SUSPECTS[suspect]}: {_MEANINGS[suspect]}"]
    if episode.leaderless:
        parts.append(
            f"{episode.leaderless} of the errors came while the partition had no leader at all: "
            "for those the client is right, and the brokers are to be looked at."
        )
    parts += words.who_leads(account)
    news = words.news_text(account, limits["slow"])
    if assessment.cause in _MOVED:
        why = words.why_moved(account, assessment.cause)
        parts.append(f"Cause: {why}.{news}")
        unstable = assessment.unstable_broker
        says = "none that flaps" if unstable is None else f"broker {unstable}"
        parts.append(f"Unstable broker: {says}.")
    elif news:
        parts.append(news.strip())
    lost = words.loss_of(account, assessment.cause, suspect)[0]
    parts += [
        words.controller_text(account),
        words.age_text(account, is_settled=verdict == "transient", settled=limits["settled"]),
        words.recovery_text(account, verdict),
        words.outcome_text(account, assessment.cause, suspect) + words.catch_text(account, lost),
    ]
    return " ".join(parts)


def _gone_text(assessment: Assessment) -> str:
    """Say why a topic is not there, and what that means for a client."""
    lines = assessment.suspect.evidence if assessment.suspect else ()
    deleted = [row["at"] for row in lines if row["kind"].startswith("topic_delet")]
    at = f" at {words.clock_time(max(deleted))}" if deleted else ""
    meant = f" (is {assessment.meant} meant?)" if assessment.meant else ""
    topics = sorted(assessment.episode.topics)
    names = f"{pluralize('topic', len(topics))} {join_names(topics)}"
    created = [row["at"] for row in lines if row["kind"] in ("topic_created", "topic_auto_created")]
    again = f" at {words.clock_time(max(created))}" if created else ""
    episode = assessment.episode
    return _GONE[str(assessment.suspected)].format(
        topics=names, at=at, meant=meant, again=again,
        client=episode.application, seconds=f"{episode.seconds:g}",
    )  # fmt: skip


def _doubts(assessment: Assessment) -> list[str]:
    """Return what would make the finding wrong."""
    episode, account = assessment.episode, assessment.account
    suspect = assessment.suspected
    doubts = []
    if suspect in ("topic_unknown", "stale_client"):
        doubts.append("The brokers' lines about these partitions may just not be in the archive.")
    if not episode.topics:
        doubts.append("The errors do not say which topic they are about.")
    if suspect is None and not episode.partitions:
        doubts.append("The errors name topics only: any of their partitions may be meant.")
    if account.outdated:
        doubts.append("The line by which a broker gave up leadership may not be in the archive.")
    if "false" in account.logged("enable.idempotence"):
        doubts.append(
            "A batch that the former leader had written before it answered is sent again, too: "
            "without idempotence it can be there twice."
        )
    return doubts


_MOVED = tuple(cause for cause in _CAUSES if cause not in ("controller_change", "none_seen"))
_VERDICTS = {
    "transient": "Transient: the client asked a broker that did not lead, was told so, and found "
    "the new leader within seconds.",
    "frequent": "Each burst is transient, but they come too often: leaders keep moving.",
    "sustained": "Sustained: the errors went on well after a new leader was there: the client kept "
    "asking the wrong broker for longer than a refresh of its metadata takes.",
    "stuck": "Stuck: the errors last to the end of the client's log: it does not find the leader.",
}
_UNMOVED = {
    "transient": "Transient: the errors ended within seconds by themselves. No leader had moved "
    "just before",
    "sustained": "Sustained: the errors went on for a while, though no leader had moved just "
    "before",
    "stuck": "Stuck: the errors last to the end of the client's log, though no leader had moved "
    "just before",
}
_REPLICA_AWAY = (
    "Mostly informational: a replica of the partition was not there, which the metadata says; the "
    "leader serves on, and clients go on. A consumer that reads from a follower goes to the leader "
    "until the replica is back."
)
_GONE = {
    "topic_recreated": "Somebody deleted {topics}{at} and it was created again{again}: what it had "
    "held is gone, and {client} got errors for {seconds} s.",
    "topic_deleted": "Somebody deleted {topics}{at} while the client still used it: it gets errors "
    "until it stops, or until the topic is created again.",
    "topic_unknown": "No broker knows {topics}, and no line of a broker or controller names it: a "
    "name that is not spelt as it should be{meant}, or a topic that somebody forgot to create.",
}
_MEANINGS = {
    "topic_recreated": "until it was there again, nothing could answer for it.",
    "topic_just_created": "till all brokers know a new topic, some say that it does not exist or "
    "has no leader. That ends by itself.",
    "unreachable_broker": "see which address the metadata gives: what the client may reach "
    "under its bootstrap address is another one.",
    "stale_broker": "a broker that lost the controller goes on telling what it last knew, and the "
    "client goes back and forth.",
    "client_starting": "its first answer came from a broker that did not know better yet.",
    "no_broker_logs": "so nobody can tell whether the client or the cluster is at fault.",
    "stale_client": "either the client never asked for new metadata, or a line of the brokers is "
    "missing here.",
}
