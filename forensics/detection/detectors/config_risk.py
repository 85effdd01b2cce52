"""What the logged settings allow: unclean elections, too few replicas, too short time-outs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.min_isr import read_min_isr
from forensics.lib.node_ids import broker_ids
from forensics.run_output.findings import Finding

NAME = "config-risk"
NEEDS = LogRequirements(
    ("broker", "controller", "client"), events=("setting_seen", "config_set", "client_setting_seen")
)
_MAX_NAMED = 3
_UNCLEAN = "unclean.leader.election.enable"
_MINIMUM = "min.insync.replicas"
_LAG = "replica.lag.time.max.ms"
_SESSIONS = {False: "zookeeper.session.timeout.ms", True: "broker.session.timeout.ms"}
_SETTINGS = (_UNCLEAN, _MINIMUM, _LAG, *_SESSIONS.values())
_UNCLEAN_SET = re.compile(r"unclean\.leader\.election\.enable(?: to |=| -> )\"?true")
_MINIMUM_SET = re.compile(r"min\.insync\.replicas(?: to |=| -> )\"?\d")
_COLUMNS = ("kind", "ts", "node", "file", "line", "text", "rule", "setting", "value", "topic",
            "broker", "client", "detail")  # fmt: skip
# How many lines and names of each risk are kept; more of them say the same.
_MAX_LINES = 200


@dataclass
class _Risk:
    """One thing that settings allow to go wrong, with the lines that show them."""

    name: str
    setting: str
    value: str
    lines: list[Row]
    topics: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)
    # what happened because of it; empty if nothing is seen
    outcome: str = ""


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each risk that settings hold."""
    for risk in _find_risks(context, context.limits[NAME]):
        yield _finding(context, risk)


def _finding(context: DetectionContext, risk: _Risk) -> Finding:
    limits = context.limits[NAME]
    begin = min(row["at"] for row in risk.lines)
    end = max(row["at"] for row in risk.lines)
    title, explanation, advice = _WORDS[risk.name]
    about = _some(risk.topics) or _some(risk.clients) or "the cluster"
    return context.finding(
        NAME,
        limits["met" if risk.outcome else "unmet"],
        title.format(about=about, value=risk.value),
        begin,
        end,
        risk.lines,
        brokers=sorted(risk.brokers),
        partitions=[],
        clients=sorted(risk.clients),
        measures={
            "risk": risk.name,
            "setting": risk.setting,
            "value": risk.value,
            "topics": sorted(risk.topics),
            "met": risk.outcome,
        },
        explanation=explanation + (f" It did: {risk.outcome}." if risk.outcome else ""),
        actions=[*_commands(context, risk), advice],
        why=f"{risk.setting} = {risk.value}" + (f"; {risk.outcome}" if risk.outcome else ""),
        doubts=_DOUBTS,
    )


def _commands(context: DetectionContext, risk: _Risk) -> list[str]:
    if risk.topics:
        return [f"{context.commands.topic_config(min(risk.topics))}   # still so?"]
    if risk.brokers:
        broker = min(risk.brokers)
        return [f"{context.commands.broker_config(broker, risk.setting)}   # still so?"]
    return []


def _some(names: Collection[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_NAMED} more" if len(ordered) > _MAX_NAMED else ""
    return ", ".join(ordered[:_MAX_NAMED]) + more


def _find_risks(context: DetectionContext, limits: Mapping[str, Any]) -> Iterator[_Risk]:
    """Yield what the settings allow to go wrong, each once."""
    settings = sorted(_read_settings(context), key=by_time)
    yield from _find_unclean(context, settings)
    yield from _find_min_isr_risks(context, settings)
    yield from _find_weak_acks(context, settings)
    yield from _find_short_timeouts(context, settings, _LAG, "lag-time", limits["lag"])
    session = _SESSIONS[context.history.context.kraft]
    least = limits["broker_session" if context.history.context.kraft else "zookeeper_session"]
    yield from _find_short_timeouts(context, settings, session, "session-time-out", least)


def _read_settings(context: DetectionContext) -> Iterator[Row]:
    """Read the settings: of each node, client and topic each value once."""
    kind, setting = pc.field("kind"), pc.field("setting")
    where = (kind == "setting_seen") & setting.isin(list(_SETTINGS))
    where |= (kind == "client_setting_seen") & (setting == "acks")
    where |= kind == "config_set"
    seen: set[tuple[object, ...]] = set()
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        names = ("kind", "node", "client", "topic", "broker", "setting", "value", "detail")
        key = tuple(row[name] for name in names)
        if key not in seen and len(seen) < _MAX_LINES * _MAX_LINES:
            seen.add(key)
            yield row


def _find_unclean(context: DetectionContext, settings: list[Row]) -> Iterator[_Risk]:
    own = [row for row in settings if row["setting"] == _UNCLEAN and row["value"] == "true"]
    set_on = [
        row
        for row in settings
        if row["kind"] == "config_set" and _UNCLEAN_SET.search(row["detail"] or "")
    ]
    lines = [*own, *set_on]
    if not lines:
        return
    topics = {row["topic"] for row in set_on if row["topic"]}
    everywhere = bool(own) or any(row["topic"] is None for row in set_on)
    where = pc.field("clean") == False  # noqa: E712
    if not everywhere:
        where &= pc.field("topic").isin(sorted(topics))
    elected = next(context.each("leadership", where, ["topic"]), None)
    outcome = f"a replica out of sync was elected for {elected['topic']}" if elected else ""
    topics = set() if everywhere else topics
    brokers = broker_ids(row["node"] for row in own)
    yield _Risk(
        "unclean-elections", _UNCLEAN, "true", lines[:_MAX_LINES], topics, brokers, outcome=outcome
    )


def _find_min_isr_risks(context: DetectionContext, settings: list[Row]) -> Iterator[_Risk]:
    """Compare the minimum with the replicas that partitions have."""
    counts = _count_replicas(context)
    min_isr = read_min_isr(context)
    named = [row for row in settings
             if row["setting"] == _MINIMUM or _MINIMUM_SET.search(row["detail"] or "")]  # fmt: skip
    groups: dict[tuple[str, int], set[str]] = {}
    for topic, count in sorted(counts.items()):
        least = min_isr.for_topic(topic)
        if least is not None and least > count:
            groups.setdefault(("min-isr-unreachable", least), set()).add(topic)
        elif least is not None and least == count > 1:
            groups.setdefault(("min-isr-all", least), set()).add(topic)
    for (name, least), topics in sorted(groups.items()):
        lines = [row for row in named if row["topic"] is None or row["topic"] in topics]
        if lines:
            yield _Risk(name, _MINIMUM, str(least), lines[:_MAX_LINES], topics,
                       outcome=_describe_refusals(context, topics))  # fmt: skip
    alone = {topic for topic, count in counts.items() if count == 1}
    if alone and len(context.history.lanes.brokers) > 1:
        yield from _find_single_replicas(context, alone)


def _find_single_replicas(context: DetectionContext, alone: set[str]) -> Iterator[_Risk]:
    where = pc.field("topic").isin(sorted(alone)[:_MAX_LINES]) & pc.field("replicas").is_valid()
    rows = context.each("leadership", where, ["topic", "evidence"])
    first: list[Row] = next((row["evidence"] for row in rows if row["evidence"]), [])
    lines = [row for row in context.read_lines(first) if "at" in row]
    # A broker that is stopped on purpose takes its only replicas with it, as everybody knows.
    lost = pc.field("topic").isin(sorted(alone)[:_MAX_LINES]) & (pc.field("leader") == -1)
    leaderless = next(
        (row["topic"]
         for row in context.each("leadership", lost, ["topic", "started_at", "previous_leader"])
         if row["started_at"] is not None and _unplanned(context, row)),
        None,
    )  # fmt: skip
    if lines:
        yield _Risk("one-replica", "replication factor", "1", lines, alone,
                   outcome=f"{leaderless} had no leader" if leaderless else "")  # fmt: skip


def _unplanned(context: DetectionContext, row: Row) -> bool:
    return any(
        absence.broker == row["previous_leader"]
        and absence.kind != "controlled"
        and absence.begin <= row["started_at"] <= (absence.end or context.logs_end)
        for absence in context.absences
    )


def _find_weak_acks(context: DetectionContext, settings: list[Row]) -> Iterator[_Risk]:
    """Find producers that do not wait for followers, if records were lost."""
    weak = [row for row in settings
            if row["kind"] == "client_setting_seen" and row["value"] in ("0", "1")]  # fmt: skip
    if not weak:
        return
    cut = context.first_rows("cuts", 1)
    unclean = pc.field("clean") == False  # noqa: E712
    lost = cut or [
        row for row in [next(context.each("leadership", unclean, ["topic"]), None)] if row
    ]
    if lost:
        clients = {str(row["client"] or row["node"]) for row in weak}
        values = sorted({row["value"] for row in weak})
        yield _Risk("acks-one", "acks", " or ".join(values), weak[:_MAX_LINES], clients=clients,
                   outcome=f"records of {lost[0]['topic']} were cut")  # fmt: skip


def _find_short_timeouts(
    context: DetectionContext, settings: list[Row], setting: str, name: str, least: float
) -> Iterator[_Risk]:
    """Find a time-out below all defaults that Kafka ever had."""
    rows = [row for row in settings if row["setting"] == setting and (row["value"] or "").isdigit()]
    below = [row for row in rows if int(row["value"]) < least * 1000]
    if below:
        brokers = broker_ids(row["node"] for row in below)
        paused = sorted(
            {
                absence.broker
                for absence in context.absences
                if absence.kind == "pause" and absence.broker in brokers
            }
        )
        outcome = f"broker {paused[0]} was given up while it lived" if paused else ""
        value = min((row["value"] for row in below), key=int)
        yield _Risk(name, setting, value, below[:_MAX_LINES], brokers=brokers,
                   outcome=outcome if name == "session-time-out" else "")  # fmt: skip


def _describe_refusals(context: DetectionContext, topics: set[str]) -> str:
    kinds = ("append_failed", "client_error", "produce_failed", "send_failed")
    if not context.visibility.has_kinds(*kinds):
        return ""
    where = pc.field("kind").isin(list(kinds)) & pc.field("topic").isin(sorted(topics))
    where &= pc.field("error") == "NOT_ENOUGH_REPLICAS"
    row = next(context.each("events", where, ["topic"]), None)
    return f"records of {row['topic']} were refused" if row else ""


def _count_replicas(context: DetectionContext) -> dict[str, int]:
    """Count for each topic the replicas of the partition that has the fewest."""
    fewest: dict[str, int] = {}
    where = pc.field("replicas").is_valid()
    for batch in context.batches("leadership", where, ["topic", "replicas"]):
        table = pa.table(
            {"topic": batch["topic"], "count": pc.list_value_length(batch["replicas"])}
        )
        for row in table.group_by("topic").aggregate([("count", "min")]).to_pylist():
            least = row["count_min"]
            if least and (row["topic"] not in fewest or least < fewest[row["topic"]]):
                fewest[row["topic"]] = least
    return fewest


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
