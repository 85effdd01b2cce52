"""Puts what is known of a burst of stale metadata into sentences, in the order in which one looks.

Is it over; who leads now, and since when; why leaders moved; which broker is unstable; how the
controller did; whether metadata.max.age.ms matters; whether it has recovered, and what was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.stale_metadata_account import Account
from forensics.detection.shared.stale_metadata_assessment import PLANNED, Assessment
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.lib.text_format import brokers_text, quantity
from forensics.lib.time_units import SECOND, to_iso

_LEFT = {
    "crash": "broker {broker} crashed at {at}",
    "pause": "broker {broker} froze and was given up at {noticed}",
    "isolated": "broker {broker} was cut off from the network and was given up at {noticed}",
    "controlled": "broker {broker} was shut down at {at}",
}
_WHY = {
    "preferred_election": "a preferred election gave leadership back to the first replicas",
    "reassignment": "partitions were reassigned to other brokers",
    "unclean_election": "a replica that was not in sync was made leader (unclean election)",
    "controlled_restart": "the former leader was shut down",
    "broker_crash": "the former leader left the cluster",
    "flapping": "the former leader left the cluster",
}
_DELETED = "yes", "what the topic held is deleted, and sends to it fail until it is there"
_LOST_WITH_TOPIC = {
    "topic_deleted": _DELETED,
    "topic_recreated": _DELETED,
    "topic_unknown": ("not_known", "sends to a topic that nobody knows fail after max.block.ms"),
}
# A broker that answers so has not written the batch, and the client sends it again.
_REFUSED = {"NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH"}
_NAMED = 3
# Shorter times without a controller are not told.
_SHORT = SECOND // 2


TAKE_OUT = "Take {} out of the settings of {}, or create it."


def clock_time(micros: int) -> str:
    """Write the time of day of a moment, in UTC."""
    return f"{to_iso(micros)[11:-1]} UTC"


def seconds_text(micros: int) -> str:
    """Write a length in seconds."""
    return f"{round(max(0, micros) / SECOND, 1):g} s"


def who_leads(account: Account) -> Iterator[str]:
    """Say who was asked, who led since when, and whether that is so to the end."""
    last = account.last_move
    if last is None:
        return
    name, move = last
    if account.asked or account.previous:
        yield f"Asked: {_asked(account)}."
    if move.leader is None or move.settled_at is None:
        yield f"Leader: {name} had none since {clock_time(move.start)}, as far as the logs go."
        return
    known = [] if move.leader_epoch is None else [f"leader epoch {move.leader_epoch}"]
    others = len(account.moves) - 1
    known += [f"{quantity(others, 'other partition')} with it"] if others else []
    about = f" ({', '.join(known)})" if known else ""
    since = clock_time(move.settled_at)
    yield f"Leader: broker {move.leader} led {name}{about} from {since} {_until(account)}."


def _asked(account: Account) -> str:
    if account.episode.asked:
        return f"{brokers_text(account.asked)}, as the errors name it"
    texts = [f"{brokers_text(account.former)}, which led before"] if account.former else []
    if account.not_yet_leading:
        early = "before it had taken over" if account.former else "as it took over"
        texts.append(f"{brokers_text(account.not_yet_leading)} {early}")
    if not texts:
        dead = brokers_text(account.previous)
        return f"cannot tell; {dead}, which led before, was down, and the errors name no broker"
    return ", or ".join(texts) + " (the errors name no broker)"


def _until(account: Account) -> str:
    following = account.next_move
    if following is None:
        known = account.last_known
        return (
            "to the end of the logs, unchanged"
            if known is None
            else f"until {clock_time(known)}; the logs do not say what came then"
        )
    name, term = following
    last = account.last_move
    on = "" if last is not None and last[0] == name else f"on; {name} "
    whom = "nobody led it" if term.leader < 0 else f"broker {term.leader} took over"
    why = "the topic was made again" if term.election == "initial" else _election(term.election)
    return f"{on}until {clock_time(term.begin or 0)}, when {whom} ({why})"


def _election(name: str) -> str:
    return name.replace("_", " ")


def why_moved(account: Account, cause: str) -> str:
    """Say why leaders moved, for causes that are moves."""
    if cause in ("preferred_election", "reassignment"):
        return _WHY[cause]
    left: list[str] = []
    for absence in account.absences:
        noticed = absence.fencing["at"] if absence.fencing is not None else absence.begin
        times = {"at": clock_time(absence.begin), "noticed": clock_time(noticed)}
        text = _LEFT.get(absence.kind, "broker {broker} was given up by the cluster at {noticed}")
        left.append(text.format(broker=absence.broker, **times))
    if left:
        text = ", ".join(left[:_NAMED])
        return f"{text}, and {_WHY[cause]}" if cause == "unclean_election" else text
    if account.previous and cause != "unclean_election":
        return _WHY[cause].replace("the former leader", brokers_text(account.previous))
    return _WHY[cause]


def news_text(account: Account, limit: float) -> str:
    """Say how slowly a move became known, where that is slow, and how sure it is."""
    propagation = account.propagation
    if propagation is None or propagation.doubt is None or propagation.least <= limit * SECOND:
        return ""
    first, late = propagation.lines
    what = "took over" if propagation.is_leader else "heard of it"
    who = "the controller decided" if first["broker"] is None else "the first broker knew"
    text = (
        f"{who} at {clock_time(first['at'])}, and broker {propagation.broker} {what} at"
        f" {clock_time(late['at'])}, {seconds_text(propagation.took)} later"
    )
    if propagation.is_surely_over(limit):
        return f" The news spread slowly: {text}."
    off = seconds_text(propagation.doubt)
    return f" Perhaps the news spread slowly: {text}, by clocks that may be off by {off} there."


def controller_text(account: Account) -> str:
    """Say whether there was an active controller, and whether it changed."""
    terms = account.terms
    active = [term for term in terms if term.span.state == "active"]
    if not active:
        return "Controller: these logs do not show which one was active."
    texts = []
    if len(active) > 1:
        last = active[-1]
        texts.append(f"it changed to {_who(last)} at {clock_time(last.span.begin)}")
    for term in terms:
        if term.span.state == "vacant" and (term.span.end or 0) - term.span.begin >= _SHORT:
            end = term.span.end or 0
            length = seconds_text(end - term.span.begin)
            texts.append(f"none was active for {length} from {clock_time(term.span.begin)} on")
    if not texts:
        return f"Controller: {_who(active[0])} was active all the while."
    return f"Controller: {'; '.join(texts)}."


def _who(term: ControllerTerm) -> str:
    return term.node if term.controller is None else f"node {term.controller}"


def age_text(account: Account, *, is_settled: bool, settled: float) -> str:
    """Say what metadata.max.age.ms is, and whether it explains how long this took."""
    logged = account.logged_numbers("metadata.max.age.ms")
    value = "not logged, 300000 by default in Java clients"
    if logged:
        value = f"{' and '.join(str(number) for number in logged)}, as logged"
    delay = account.episode.delay
    if not is_settled:
        says = "it does not explain errors that go on: a client asks anew at each of them"
    elif delay is None or account.last_move is None:
        says = "no leader moved, so it explains nothing"
    elif delay <= settled * SECOND:
        says = "it played no part: a client asks anew at the first error"
    elif delay <= account.max_age_ms * 1000:
        says = f"it allows for the {seconds_text(delay)} from the move to the first error"
    else:
        says = (
            f"it does not explain the {seconds_text(delay)} from the move to the first error: "
            "metadata was asked for in between, and still named the former leader"
        )
    return f"metadata.max.age.ms: {value}; {says}."


def recovery_text(account: Account, verdict: str) -> str:
    """Say whether the errors stopped."""
    if verdict == "stuck":
        return "Recovered: no, the errors last to the end of its log."
    if account.next_error is not None:
        return f"Recovered: yes, until the next burst at {clock_time(account.next_error)}."
    quiet = seconds_text(account.quiet)
    if account.recovered:
        return f"Recovered: yes, no further error in its log, which goes on for {quiet}."
    return f"Recovered: cannot tell, its log ends {quiet} after the last error."


def loss_of(account: Account, cause: str, suspect: str | None) -> tuple[str, str]:
    """Return whether records were lost (no, possible, yes, not_known), and why."""
    sent = account.sent
    if suspect in _LOST_WITH_TOPIC and not (account.is_consumer and suspect == "topic_unknown"):
        return _LOST_WITH_TOPIC[suspect]
    if account.is_consumer:
        return "no", "a consumer reads on where it was"
    if sent is not None and sent.given_up:
        given_up = quantity(sent.given_up, "send")
        return "yes", f"{given_up} failed for good, unless the application repeats what it sent"
    if cause == "unclean_election":
        return "possible", "an unclean leader lacks what the former one had; see its finding"
    if account.cut and account.logged("acks") not in (["-1"], ["all"]):
        return "possible", (
            f"{quantity(account.cut, 'record')} were cut off the former leader's log, and this "
            "producer does not wait for all replicas in sync"
        )
    return _loss_by_settings(account)


def _loss_by_settings(account: Account) -> tuple[str, str]:
    if not account.starts:
        return "not_known", "no send is seen to fail, but its acks and retries are not logged"
    acks, retries = account.logged("acks"), account.logged_numbers("retries")
    if "0" in acks:
        return "not_known", "with acks=0 a producer does not hear what was lost"
    if 0 in retries:
        return "possible", "with retries=0 it does not send again what a broker refused"
    if "1" in acks and any(
        one.kind != "controlled" and one.end is None for one in account.absences
    ):
        return "not_known", "with acks=1 the former leader may hold more, and it is not back"
    again = "no send is seen to fail"
    if _REFUSED & set(account.episode.error_counts):
        again = "it sent the refused batches again; no send is seen to fail"
    if "1" in acks:
        return "no", f"{again}; no log was cut behind this move (acks=1)"
    shown = [f"acks={' and '.join(acks)}", f"retries={' and '.join(map(str, retries))}"]
    times = account.logged("delivery.timeout.ms")
    shown += [f"delivery.timeout.ms={' and '.join(times)}"] if times else []
    return "no", f"{again} ({', '.join(shown)})"


def duplicates_of(account: Account) -> tuple[str, str]:
    """Return whether records may have been written twice (no, possible, not_known), and why."""
    if account.is_consumer:
        return "no", ""
    idempotence = account.logged("enable.idempotence")
    unsure = account.sent.unsure if account.sent is not None else 0
    if idempotence == ["true"]:
        return "no", "enable.idempotence=true"
    if unsure:
        logged = "enable.idempotence=false" if idempotence else "enable.idempotence is not logged"
        failed = quantity(unsure, "batch") if unsure == 1 else f"{unsure} batches"
        return "possible", f"{failed} got no answer and went out again, and {logged}"
    return ("no", "no request went unanswered") if idempotence else ("not_known", "")


def outcome_text(account: Account, cause: str, suspect: str | None) -> str:
    """Say what was lost and what may be there twice."""
    lost, why = loss_of(account, cause, suspect)
    text = {"no": "Lost: nothing", "yes": "Lost: yes", "possible": "Lost: possible"}
    parts = [f"{text.get(lost, 'Lost: not known')}, {why}."]
    twice, reason = duplicates_of(account)
    if twice == "possible":
        parts.append(f"Twice: possible, {reason}.")
    return " ".join(parts)


def catch_text(account: Account, lost: str) -> str:
    """Say whether an application should handle the error by itself."""
    if account.is_consumer or lost == "yes":
        return ""
    return (
        " An application need not catch the error: it is retriable, and the client tries again by "
        "itself until delivery.timeout.ms is over."
    )


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
            terms = account.leader_terms.get(last[0])
            now = terms[-1].leader if terms else -1
            note = f"does broker {now} lead {last[0]}?" if now >= 0 else f"who leads {last[0]}?"
        look = [f"{context.commands.topic(topic)}   # {note}"]
    if suspect == "replica_away":
        yield f"{context.commands.under_replicated()}   # is the replica back?"
    elif suspect in ("topic_deleted", "topic_unknown"):
        yield from look
        gone = "the topic" if topic is None else f"topic {quote(topic)}"
        if assessment.meant:
            yield (
                f"Correct the topic in the settings of {name} if {quote(assessment.meant)} is meant"
                f" by {quote(topic)}, or create {gone}."
            )
        else:
            yield TAKE_OUT.format(gone, name)
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
