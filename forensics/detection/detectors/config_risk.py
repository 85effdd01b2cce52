"""What settings of brokers and topics allow: unclean elections, few replicas, short time-outs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, in_topics
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.assignments import Assignments, read_assignments
from forensics.detection.shared.min_isr import SETTING_KINDS, named_setting, read_min_isr
from forensics.detection.shared.setting_risks import (
    MAX_LINES,
    RiskText,
    SettingRisk,
    risk_findings,
)
from forensics.lib.node_ids import broker_id, broker_ids
from forensics.lib.whole_numbers import whole_number
from forensics.run_output.findings import Finding

NAME = "config-risk"
NEEDS = LogRequirements(("broker", "controller"), events=("setting_seen", "config_set"))
_UNCLEAN = "unclean.leader.election.enable"
_MINIMUM = "min.insync.replicas"
_LAG = "replica.lag.time.max.ms"
_REBALANCE = "auto.leader.rebalance.enable"
_RACK = "broker.rack"
_SESSIONS = {False: "zookeeper.session.timeout.ms", True: "broker.session.timeout.ms"}
_FETCH = "replica.fetch.wait.max.ms"
_SETTINGS = (_UNCLEAN, _MINIMUM, _LAG, _FETCH, _REBALANCE, _RACK, *_SESSIONS.values())
_COLUMNS = ("kind", "ts", "node", "file", "line", "text", "rule", "setting", "value", "topic",
            "broker", "detail")  # fmt: skip
# From then on a follower may lag for 30 s (KIP-537).
_LONGER_LAG = (2, 5)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield a finding for each risk that is one by itself or that mattered, and one of advice."""
    yield from risk_findings(context, NAME, _find_risks(context, context.limits[NAME]), _TEXTS)


def _find_risks(context: DetectionContext, limits: Mapping[str, Any]) -> Iterator[SettingRisk]:
    """Yield what the settings allow to go wrong, each once."""
    settings = sorted(_read_settings(context), key=by_time)
    yield from _find_unclean(context, settings)
    yield from _find_replica_risks(context, settings)
    short, usual = ("lag-time", limits["lag"]), ("lag-time-low", limits["usual_lag"])
    yield from _find_short_timeouts(context, settings, _LAG, *short)
    if context.commands.version >= _LONGER_LAG:
        yield from _find_short_timeouts(context, settings, _LAG, *usual, above=limits["lag"])
    yield _find_long_waits(settings)
    session = _SESSIONS[context.history.context.kraft]
    least = limits["broker_session" if context.history.context.kraft else "zookeeper_session"]
    yield from _find_short_timeouts(context, settings, session, "session-time-out", least)
    off = [row for row in settings if row["setting"] == _REBALANCE and row["value"] == "false"]
    brokers = broker_ids(row["node"] for row in off)
    yield SettingRisk("no-leader-rebalance", _REBALANCE, "false", off, brokers=brokers)


def _read_settings(context: DetectionContext) -> Iterator[Row]:
    """Read the settings: of each node and topic each value once."""
    kind, setting = pc.field("kind"), pc.field("setting")
    where = (kind == "setting_seen") & setting.isin(list(_SETTINGS))
    where |= kind.isin(SETTING_KINDS)
    seen: set[tuple[object, ...]] = set()
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        names = ("kind", "node", "topic", "broker", "setting", "value", "detail")
        key = tuple(row[name] for name in names)
        if key not in seen and len(seen) < MAX_LINES * MAX_LINES:
            seen.add(key)
            yield row


def _find_unclean(context: DetectionContext, settings: list[Row]) -> Iterator[SettingRisk]:
    own = [row for row in settings if row["setting"] == _UNCLEAN and row["value"] == "true"]
    given = [row for row in settings if row["kind"] in SETTING_KINDS]
    set_on = [row for row in given if named_setting(row, _UNCLEAN) == "true"]
    topics = {row["topic"] for row in set_on if row["topic"]}
    everywhere = bool(own) or any(row["topic"] is None for row in set_on)
    where = pc.field("clean") == False  # noqa: E712
    if not everywhere:
        where &= in_topics(topics)
    elected = next(context.each("leadership", where, ["topic"]), None) if own or set_on else None
    outcome = f"a replica out of sync was elected for {elected['topic']}" if elected else ""
    yield SettingRisk("unclean-elections", _UNCLEAN, "true", [*own, *set_on],
                      set() if everywhere else topics, broker_ids(row["node"] for row in own),
                      outcome=outcome)  # fmt: skip


def _find_replica_risks(context: DetectionContext, settings: list[Row]) -> Iterator[SettingRisk]:
    """Compare the replicas that partitions have with the minimum, with brokers and racks."""
    assignments = read_assignments(context)
    counts: dict[str, int] = {}
    for (topic, _), replicas in assignments.items():
        counts[topic] = min(len(replicas), counts.get(topic, len(replicas)))
    min_isr = read_min_isr(context)
    named = [row for row in settings
             if row["setting"] == _MINIMUM or named_setting(row, _MINIMUM)]  # fmt: skip
    groups: dict[tuple[str, int], set[str]] = {}
    for topic, count in sorted(counts.items()):
        least = min_isr.for_topic(topic)
        if least is not None and least > count:
            groups.setdefault(("min-isr-unreachable", least), set()).add(topic)
        elif least is not None and least == count > 1:
            groups.setdefault(("min-isr-all", least), set()).add(topic)
        elif least == 1 and count > 1 and not topic.startswith("__"):
            groups.setdefault(("min-isr-one", least), set()).add(topic)
    for (name, least), topics in sorted(groups.items()):
        lines = [row for row in named if row["topic"] is None or row["topic"] in topics]
        outcome = "" if name == "min-isr-one" else _describe_refusals(context, topics)
        yield SettingRisk(name, _MINIMUM, str(least), lines, topics, outcome=outcome)
    refusing = {
        one for (name, _), found in groups.items() if name != "min-isr-one" for one in found
    }
    brokers = len(context.history.lanes.brokers)
    for name, few in (("one-replica", 1), ("two-replicas", 2)):
        topics = {topic for topic, count in counts.items() if count == few < brokers} - refusing
        lines = _read_assignment_lines(context, topics)
        outcome = _describe_loss_of_leader(context, topics) if few == 1 else ""
        yield SettingRisk(name, "replication factor", str(few), lines, topics, outcome=outcome)
    yield from _find_shared_racks(context, settings, assignments)


def _read_assignment_lines(context: DetectionContext, topics: set[str]) -> list[Row]:
    """Look up a line that tells the replicas of one of some topics."""
    where = in_topics(sorted(topics)[:MAX_LINES])
    created = (pc.field("kind") == "topic_created") & pc.field("ts").is_valid()
    if row := next(context.each("events", where & created, _COLUMNS), None):
        return [row]
    rows = context.each("leadership", where & pc.field("replicas").is_valid(), ["evidence"])
    first: list[Row] = next((row["evidence"] for row in rows if row["evidence"]), [])
    return [row for row in context.read_lines(first) if "at" in row]


def _find_shared_racks(
    context: DetectionContext,
    settings: list[Row],
    assignments: Assignments,
) -> Iterator[SettingRisk]:
    """Find partitions with two replicas in one rack while another rack has none of them."""
    lines = {broker: row for row in settings if row["setting"] == _RACK
             and row["value"] not in ("null", "", None)
             and (broker := broker_id(row["node"])) is not None}  # fmt: skip
    racks = {broker: row["value"] for broker, row in lines.items()}
    close: dict[str, Sequence[int]] = {}
    for (topic, _), replicas in sorted(assignments.items()):
        used = {racks.get(replica) for replica in replicas}
        if None not in used and len(used) < min(len(replicas), len(set(racks.values()))):
            close.setdefault(topic, replicas)
    brokers = {broker for replicas in close.values() for broker in replicas}
    shared = ", ".join(sorted({racks[broker] for broker in brokers}))
    rows = [*[lines[broker] for broker in sorted(brokers)],
            *_read_assignment_lines(context, set(close))]  # fmt: skip
    yield SettingRisk("one-rack", _RACK, shared, rows, set(close), brokers)


def _describe_loss_of_leader(context: DetectionContext, topics: set[str]) -> str:
    # A broker that is stopped on purpose takes its only replicas with it, as everybody knows.
    lost = in_topics(sorted(topics)[:MAX_LINES]) & (pc.field("leader") == -1)
    for row in context.each("leadership", lost, ["topic", "started_at", "previous_leader"]):
        if row["started_at"] is not None and _unplanned(context, row):
            return f"{row['topic']} had no leader"
    return ""


def _unplanned(context: DetectionContext, row: Row) -> bool:
    return any(
        absence.broker == row["previous_leader"]
        and absence.kind != "controlled"
        and absence.begin <= row["started_at"] <= (absence.end or context.logs_end)
        for absence in context.absences
    )


def _is_number(row: Row) -> bool:
    return whole_number(row["value"]) is not None


def _find_short_timeouts(  # noqa: PLR0913, PLR0917
    context: DetectionContext, settings: list[Row], setting: str, name: str, least: float,
    above: float = 0,
) -> Iterator[SettingRisk]:  # fmt: skip
    """Find a time-out below a default of Kafka's."""
    rows = [row for row in settings if row["setting"] == setting and _is_number(row)]
    below = [row for row in rows if above * 1000 <= int(row["value"]) < least * 1000]
    brokers = broker_ids(row["node"] for row in below)
    paused = sorted({absence.broker for absence in context.absences
                     if absence.kind == "pause" and absence.broker in brokers})  # fmt: skip
    given_up = paused and name == "session-time-out"
    outcome = f"broker {paused[0]} was given up while it lived" if given_up else ""
    value = min((row["value"] for row in below), key=int, default="")
    yield SettingRisk(name, setting, value, below, brokers=brokers, outcome=outcome)


def _find_long_waits(settings: list[Row]) -> SettingRisk:
    """Find brokers whose fetches may wait for as long as a follower may lag."""
    own = [row for row in settings
           if row["setting"] in (_LAG, _FETCH) and _is_number(row)]  # fmt: skip
    lags = {row["node"]: row for row in own if row["setting"] == _LAG}
    waits = [row for row in own if row["setting"] == _FETCH and row["node"] in lags
             and int(row["value"]) >= int(lags[row["node"]]["value"])]  # fmt: skip
    lines = [row for wait in waits for row in (wait, lags[wait["node"]])]
    value = waits[0]["value"] if waits else ""
    brokers = broker_ids(row["node"] for row in waits)
    return SettingRisk("fetch-wait", _FETCH, value, lines, brokers=brokers)


def _describe_refusals(context: DetectionContext, topics: set[str]) -> str:
    kinds = ("append_failed", "client_error", "produce_failed", "send_failed")
    if not context.visibility.has_kinds(*kinds):
        return ""
    where = pc.field("kind").isin(list(kinds)) & pc.field("topic").isin(sorted(topics))
    where &= pc.field("error") == "NOT_ENOUGH_REPLICAS"
    row = next(context.each("events", where, ["topic"]), None)
    return f"writes to {row['topic']} were rejected" if row else ""


_TEXTS = {
    "unclean-elections": RiskText(
        "Unclean elections are allowed: {about}",
        "With unclean.leader.election.enable=true a replica that is not in sync may become leader "
        "when nobody in sync is alive, and what it lacks is lost, also if it was acknowledged.",
        "Set it to false where records matter more than being writable at all times.",
    ),
    "one-replica": RiskText(
        "Only one replica: {about}",
        "A partition with one replica has no leader while its broker is away, and is lost with its "
        "disk.",
        "Add replicas: kafka-reassign-partitions.sh with three brokers for each partition.",
    ),
    "two-replicas": RiskText(
        "only two replicas: {about}",
        "While one broker is away, in a planned restart too, a record lives on one disk only, or "
        "with min.insync.replicas=2 is rejected.",
        "Use three replicas and min.insync.replicas=2 for topics that matter.",
        advisory=True,
    ),
    "min-isr-unreachable": RiskText(
        "min.insync.replicas={value} is more than there are replicas: {about}",
        "A leader refuses all records with acks=all: there can never be enough in-sync replicas.",
        "Lower min.insync.replicas to one less than the number of replicas, or add replicas.",
    ),
    "min-isr-all": RiskText(
        "min.insync.replicas={value} is as many as there are replicas: {about}",
        "When any one broker is away, in a planned restart too, acks=all writes are rejected.",
        "Keep min.insync.replicas one below the number of replicas: with two replicas add a third "
        "one rather than lower it to 1.",
    ),
    "min-isr-one": RiskText(
        "min.insync.replicas=1: {about}",
        "While its followers are out of sync a leader alone acknowledges records with acks=all, "
        "and they are lost with it.",
        "With three replicas, set min.insync.replicas=2 for topics that matter.",
        advisory=True,
    ),
    "one-rack": RiskText(
        "two replicas in one rack: {about} ({value})",
        "A rack that fails takes both, though another rack has none of the replicas.",
        "Move one of them: kafka-reassign-partitions.sh --generate places replicas by rack.",
        advisory=True,
    ),
    "lag-time": RiskText(
        "replica.lag.time.max.ms={value} is short",
        "A follower that stalls for that long, as in a garbage collection, leaves the ISR, and "
        "returns: ISRs flap, and acks=all writes are rejected until then.",
        "Use Kafka's default, 30000 (10000 before 2.5).",
    ),
    "lag-time-low": RiskText(
        "replica.lag.time.max.ms={value}, where the default is 30000",
        "A follower that stalls for that long leaves the ISR: short stalls make ISRs shrink and "
        "grow again.",
        "Use Kafka's default, replica.lag.time.max.ms=30000, unless a shorter one is meant.",
        advisory=True,
    ),
    "fetch-wait": RiskText(
        "replica.fetch.wait.max.ms={value} is as long as a follower may lag: {about}",
        "A follower of a quiet partition hears nothing for that long, and falls out of the ISR "
        "though it has everything.",
        "Use the default, replica.fetch.wait.max.ms=500; it has to be below "
        "replica.lag.time.max.ms.",
    ),
    "session-time-out": RiskText(
        "{about}: a session time-out of {value} ms is short",
        "A broker that freezes for that long is given up: its leaders move, and move back.",
        "Use Kafka's defaults: zookeeper.session.timeout.ms=18000, broker.session.timeout.ms=9000.",
    ),
    "no-leader-rebalance": RiskText(
        "auto.leader.rebalance.enable=false: {about}",
        "After each failover leadership stays with the brokers that took over, until somebody runs "
        "a preferred election.",
        "Set auto.leader.rebalance.enable=true, or run a preferred election after each restart.",
        advisory=True,
    ),
}
