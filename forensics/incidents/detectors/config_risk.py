"""What the logged settings allow: unclean elections, too few replicas, too short time-outs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from forensics.incidents.case import Case
from forensics.incidents.confidence import sureness
from forensics.incidents.finding import Finding
from forensics.incidents.needs import Needs
from forensics.incidents.risks import Risk, risks

__all__ = ["find"]

NAME = "config-risk"
NEEDS = Needs(
    ("broker", "controller", "client"),
    events=("setting_seen", "config_set", "client_setting_seen"),
)
_NAMED = 3


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each risk that settings hold."""
    for risk in risks(case, case.limits[NAME]):
        yield _finding(case, risk)


def _finding(case: Case, risk: Risk) -> Finding:
    limits = case.limits[NAME]
    begin = min(row["at"] for row in risk.places)
    end = max(row["at"] for row in risk.places)
    confidence, reason = sureness(case, begin, end, risk.places, stated=True)
    title, explanation, advice = _WORDS[risk.name]
    about = _some(risk.topics) or _some(risk.clients) or "the cluster"
    return Finding(
        detector=NAME,
        severity=limits["met" if risk.met else "unmet"],
        confidence=confidence,
        title=title.format(about=about, value=risk.value),
        begin=begin,
        end=end,
        evidence=risk.places,
        brokers=sorted(risk.brokers),
        partitions=[],
        clients=sorted(risk.clients),
        measures={
            "risk": risk.name,
            "setting": risk.setting,
            "value": risk.value,
            "topics": sorted(risk.topics),
            "met": risk.met,
        },
        explanation=explanation + (f" It did: {risk.met}." if risk.met else ""),
        actions=[*_commands(case, risk), advice],
        why=f"{risk.setting} = {risk.value}" + (f"; {risk.met}" if risk.met else ""),
        reason=reason,
        doubts=_DOUBTS,
    )


def _commands(case: Case, risk: Risk) -> list[str]:
    if risk.topics:
        return [f"{case.commands.topic_config(min(risk.topics))}   # still so?"]
    if risk.brokers:
        broker = min(risk.brokers)
        return [f"{case.commands.broker_config(broker, risk.setting)}   # still so?"]
    return []


def _some(names: Collection[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


# For each risk its title, what it allows, and what to do.
_WORDS = {
    "unclean-elections": (
        "Unclean elections are allowed: {about}",
        (
            "With unclean.leader.election.enable=true a replica that is not in sync may become "
            "leader when nobody in sync is alive, and what it lacks is lost, also if it was "
            "acknowledged."
        ),
        "Set it to false where records matter more than being writable at all times.",
    ),
    "one-replica": (
        "Only one replica: {about}",
        (
            "A partition with one replica has no leader while its broker is away, and is lost with "
            "its disk."
        ),
        "Add replicas: kafka-reassign-partitions.sh with two or three brokers for each partition.",
    ),
    "min-isr-unreachable": (
        "min.insync.replicas={value} is more than there are replicas: {about}",
        "A leader refuses all records with acks=all: there can never be enough replicas in sync.",
        "Lower min.insync.replicas to one less than the number of replicas, or add replicas.",
    ),
    "min-isr-all": (
        "min.insync.replicas={value} is as many as there are replicas: {about}",
        "When any one broker is away, in a planned restart too, records with acks=all are refused.",
        "Set min.insync.replicas to one less than the number of replicas.",
    ),
    "acks-one": (
        "Producers with acks={value} while records were lost: {about}",
        (
            "With acks=1 a leader acknowledges before any follower has the record, with acks=0 "
            "nobody does: each change of leader may lose what came last, and nobody is told."
        ),
        "Let producers of records that matter use acks=all, and topics min.insync.replicas=2.",
    ),
    "lag-time": (
        "replica.lag.time.max.ms={value} is short",
        (
            "A follower that stalls for that long, as in a garbage collection, leaves the ISR, "
            "and returns: ISRs flap, and records with acks=all are refused meanwhile."
        ),
        "Use Kafka's default, 30000.",
    ),
    "session-time-out": (
        "{about}: a session time-out of {value} ms is short",
        "A broker that stands still for that long is given up: its leaders move, and move back.",
        "Use Kafka's defaults: zookeeper.session.timeout.ms=18000, broker.session.timeout.ms=9000.",
    ),
}
_DOUBTS = (
    "Settings that were changed while a broker ran, or before these logs begin, may not be seen.",
)
