"""The words for an episode of stale metadata: title, explanation, what to do, what to doubt."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.incidents.case import Case
from forensics.incidents.commands import word
from forensics.incidents.episodes import Episode
from forensics.incidents.suspects import SUSPECTS

__all__ = ["CAUSES", "actions", "doubts", "explanation", "title"]

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


def actions(case: Case, episode: Episode, verdict: str, suspect: str | None) -> Sequence[str]:
    """Say what to do, and what not."""
    topic = min(episode.topics, default=None)
    if verdict == "transient":
        return ["Nothing to do."]
    if suspect in ("topic_deleted", "topic_unknown"):
        look = [] if topic is None else [case.commands.topic(topic)]
        name = "the topic" if topic is None else f"topic {word(topic)}"
        return [*look, f"Take {name} out of the settings of {word(episode.client)}, or create it."]
    if suspect == "topic_recreated":
        return [f"Restart {word(episode.client)} if it does not recover by itself."]
    if suspect == "unreachable_broker":
        text = "Compare advertised.listeners of each broker with what {} can resolve and reach."
        return [text.format(word(episode.client))]
    look = [case.commands.topic(topic)] if topic is not None else []
    refresh = (
        f"Look at metadata.max.age.ms and the number of retries of {word(episode.client)}, and "
        "whether it reaches every broker."
    )
    restart = f"Restart {word(episode.client)}: a new start asks for all metadata anew."
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
