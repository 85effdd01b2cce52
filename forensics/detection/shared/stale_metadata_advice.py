"""What to do about stale metadata: mostly nothing, else find the broker behind it."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.stale_metadata_account import Account
from forensics.detection.shared.stale_metadata_assessment import PLANNED, Assessment
from forensics.detection.shared.stale_metadata_words import duplicates_of


def advise(context: DetectionContext, assessment: Assessment) -> Iterator[str]:
    """Yield what to do, and what not."""
    episode, account = assessment.episode, assessment.account
    suspect = assessment.suspected
    name, topic = quote(episode.application), min(episode.topics, default=None)
    look = []
    if topic is not None:
        last = account.last_move
        note = "who leads its partitions?"
        if last is not None:
            topic = last[0].rpartition("-")[0]
            now = account.reigns[last[0]][-1].leader if last[0] in account.reigns else -1
            note = f"does broker {now} lead {last[0]}?" if now >= 0 else f"who leads {last[0]}?"
        look = [f"{context.commands.topic(topic)}   # {note}"]
    if suspect == "replica_away":
        yield f"{context.commands.under_replicated()}   # is the replica back?"
    elif suspect in ("topic_deleted", "topic_unknown"):
        yield from look
        gone = "the topic" if topic is None else f"topic {quote(topic)}"
        yield f"Take {gone} out of the settings of {name}, or create it."
    elif suspect == "topic_recreated":
        yield f"Restart {name} if it does not recover by itself."
    elif suspect == "unreachable_broker":
        yield f"Compare advertised.listeners of each broker with what {name} can resolve and reach."
    elif assessment.verdict == "transient" and (
        assessment.frequent or assessment.unstable_broker is not None
    ):
        yield from _stabilise(context, assessment)
        yield from look
    elif assessment.verdict == "transient":
        yield _ROUTINE if assessment.cause in (*PLANNED, "none_seen") else _NOT_THE_CLIENT
        yield from look
    else:
        yield from look
        yield from _find_outdated(context, assessment)
    limits = context.limits["client-config"]
    yield from _advise_patience(account, limits["retries"], limits["delivery"])


def _stabilise(context: DetectionContext, assessment: Assessment) -> Iterator[str]:
    broker = assessment.unstable_broker
    if broker is None:
        yield "Find out why leaders move so often: their clients get these errors each time."
    else:
        yield (
            f"Stabilise broker {broker}: each time it leaves, its partitions get other leaders, and"
            " their clients these errors. Leaders that go back to it before will move again."
        )
        yield f"{context.commands.api_versions(broker)}   # broker {broker}: does it answer?"
    yield f"{context.commands.controller()}   # is there one active controller, and the same?"


def _find_outdated(context: DetectionContext, assessment: Assessment) -> Iterator[str]:
    """Yield how to find the broker that gives out old metadata, before anybody restarts clients."""
    account, commands = assessment.account, context.commands
    name = quote(assessment.episode.application)
    asked = f" {account.asked[0]}" if account.asked else ""
    yield f"{commands.api_versions()}   # of each broker: does it answer?"
    yield f"ss -ltnp   # on broker{asked}: does it listen where its clients ask it?"
    yield f"{commands.controller()}   # is there an active controller?"
    for broker in account.outdated:
        yield (
            f"Broker {broker} has not taken up that it no longer leads, though its log goes on: "
            f"compare what it answers with the others, and restart it if it is behind. {_LAST}"
        )
    if not account.outdated:
        yield (
            "Describe the topic at each broker in turn: one that names another leader than the rest"
            f" is a zombie. Restart that broker, not the client. {_LAST}"
        )
    if assessment.verdict == "stuck":
        yield f"Restart {name} only if all brokers name the same leader: then it alone is behind."
    else:
        yield (
            f"Look at metadata.max.age.ms and the number of retries of {name}, and whether it "
            "reaches every broker."
        )


def _advise_patience(account: Account, few: int, short: float) -> Iterator[str]:
    """Yield what to change in a producer that gives up too soon."""
    name = quote(account.episode.application)
    for setting in account.fails_fast(few, short):
        logged = account.logged_numbers(setting)[0]
        yield (
            f"Raise {setting} of {name} ({logged}), or leave it at its default: an election takes"
            " longer than it waits."
        )
    if duplicates_of(account)[0] == "possible":
        yield f"Set enable.idempotence=true for {name}: then what is sent again is written once."


_ROUTINE = "Nothing to do."
_NOT_THE_CLIENT = "Nothing to do for the client: look after what took its leader away."
_LAST = "Do not restart it while it is the only replica in sync of any partition."
