"""What settings of clients allow: lost or repeated records, long waits for a new leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, in_topics
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.client_settings import (
    ClientStart,
    read_client_starts,
    topics_without_acks,
)
from forensics.detection.shared.setting_risks import RiskText, SettingRisk, risk_findings
from forensics.lib.arrow_io import is_any_of
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "client-config"
NEEDS = LogRequirements(("client",), events=("client_setting_seen",))
# After these nobody knows whether the broker wrote the batch.
_UNSURE = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT")
_GIVEN_UP = ("send_failed", "produce_failed", "producer_force_closed", "client_closed_unsent")
_SHOWN = 5
_SELECTOR = "replica.selector.class"
# A client of a node, by its id; clients of other nodes may have the same.
_Client = tuple[str, str]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield a finding for each setting that mattered, and one of advice."""
    yield from risk_findings(context, NAME, _find_risks(context), _TEXTS)


def _find_risks(context: DetectionContext) -> Iterator[SettingRisk]:
    limits = context.limits[NAME]
    starts = [one for several in read_client_starts(context).values() for one in several]
    # Of each client the last start; an id may stand for a producer and a consumer.
    every = list({(one.node, one.client, one.is_producer): one for one in starts}.values())
    producers = [one for one in every if one.is_producer]
    yield from _find_weak_acks(context, producers)
    yield from _find_doubles(context, producers)
    # Connect workers try again themselves what they write to their own topics.
    workers = {one.node for one in starts if str(one.line["rule"]).startswith("connect.")}
    hasty = [one for one in producers
             if one.node not in workers and _below(one, "retries", limits["retries"])]  # fmt: skip
    quick = [
        one for one in producers if _below(one, "delivery.timeout.ms", limits["delivery"] * 1000)
    ]
    given_up = _count(context, pc.field("kind").isin(list(_GIVEN_UP)))
    for setting, found in (("retries", hasty), ("delivery.timeout.ms", quick)):
        lost = [one for one in found if given_up[one.node, one.client] or given_up[one.node, ""]]
        outcome = f"{lost[0].client} gave records up" if lost else ""
        yield _risk("gives-up-early", setting, lost or found, outcome)
    age = "metadata.max.age.ms"
    yield _risk(
        "metadata-old", age, [one for one in every if (one.number(age) or 0) > limits["age"] * 1000]
    )
    yield _risk(
        "metadata-young", age, [one for one in every if _below(one, age, limits["young"] * 1000)]
    )
    commits = "enable.auto.commit"
    members = [one for one in every if one.values.get("group.id") not in (None, "", "null")]
    auto = [one for one in members if one.values.get(commits) == "true"]
    yield _risk("auto-commit", commits, auto)
    servers = "bootstrap.servers"
    lone = [one for one in every if servers in one.values and "," not in one.values[servers]]
    yield _risk(
        "one-bootstrap-server", servers, lone if len(context.history.lanes.brokers) > 1 else []
    )
    yield from _find_unused_racks(context, every)


def _below(start: ClientStart, setting: str, least: float) -> bool:
    number = start.number(setting)
    return number is not None and number < least


def _risk(
    name: str,
    setting: str,
    starts: Sequence[ClientStart],
    outcome: str = "",
    topics: Sequence[str] = (),
) -> SettingRisk:
    values = " or ".join(sorted({one.values[setting] for one in starts}))
    lines = [one.lines[setting] for one in starts]
    clients = {one.client for one in starts}
    return SettingRisk(name, setting, values, lines, set(topics), clients=clients, outcome=outcome)


def _find_weak_acks(
    context: DetectionContext, producers: Sequence[ClientStart]
) -> Iterator[SettingRisk]:
    """Find producers that do not wait for followers, and what was cut of their topics."""
    topics = topics_without_acks(context)
    weak = [one for one in producers if (one.node, one.client) in topics]
    cut = {
        row["topic"]
        for row in context.each("cuts", in_topics(set().union(*topics.values())), ["topic"])
    }
    hit = [one for one in weak if cut & topics[one.node, one.client]]
    lost = sorted({topic for one in hit for topic in cut & topics[one.node, one.client]})
    outcome = f"records of {', '.join(lost)} were truncated that may have been acknowledged"
    yield _risk("acks-one", "acks", hit, outcome, lost)
    yield _risk("acks-one-safe", "acks", [one for one in weak if one not in hit])


def _find_doubles(
    context: DetectionContext, producers: Sequence[ClientStart]
) -> Iterator[SettingRisk]:
    """Find producers without idempotence that sent again what may have been written."""
    off = [one for one in producers if one.values.get("enable.idempotence") == "false"]
    unsure = (pc.field("kind") == "client_error") & pc.field("error").isin(list(_UNSURE))
    counts = _count(context, unsure) if off else Counter()
    again = [one for one in off if counts[one.node, one.client] and one.number("retries") != 0]
    if again:
        times = ", ".join(f"{one.client} {quantity(counts[one.node, one.client], 'time')}"
                          for one in again)  # fmt: skip
        outcome = f"batches were retried that may have been written already: {times}"
        risk = _risk("doubles", "enable.idempotence", again, outcome)
        nodes = sorted({one.node for one in again})
        risk.lines += context.first_events(
            "client_error", _SHOWN, unsure & is_any_of("node", nodes)
        )
        yield risk
    yield _risk("no-idempotence", "enable.idempotence", [one for one in off if one not in again])


def _count(context: DetectionContext, where: pc.Expression) -> Counter[_Client]:
    """Count events of each client; a line that names none counts for its node."""
    counts: Counter[_Client] = Counter()
    for batch in context.batches("events", where, ["node", "client"]):
        rows = pa.Table.from_batches([batch]).group_by(["node", "client"])
        for row in rows.aggregate([([], "count_all")]).to_pylist():
            counts[row["node"] or "", row["client"] or ""] += row["count_all"]
    return counts


def _find_unused_racks(
    context: DetectionContext, starts: Sequence[ClientStart]
) -> Iterator[SettingRisk]:
    """Find consumers with a rack, where every broker says that leaders serve everybody."""
    racked = [one for one in starts if one.values.get("client.rack", "") not in ("", "null")]
    where = (pc.field("kind") == "setting_seen") & (pc.field("setting") == _SELECTOR)
    rows = (
        list(
            context.each("events", where & pc.field("ts").is_valid(), [*EVIDENCE_COLUMNS, "value"])
        )
        if racked
        else []
    )
    if rows and {row["value"] for row in rows} <= {"null", ""}:
        risk = _risk("unused-rack", "client.rack", racked)
        first: Row = rows[0]
        risk.lines.append(first)
        yield risk


_TWICE = (
    "Where the answer to a batch is lost, the producer retries it, and a broker that had written "
    "it writes it twice, or after later ones."
)
_UNWAITED = (
    "With acks=1 a leader acknowledges before any follower has the record, with acks=0 nobody does:"
    " each change of leader may lose the last records, and the producer is not told."
)
_WAIT = "Let producers of records that matter use acks=all, and topics min.insync.replicas=2."
_TEXTS = {
    "acks-one": RiskText(
        "acks={value}, and records of its topics were truncated: {about}",
        _UNWAITED,
        _WAIT,
        advisory=True,
    ),
    "acks-one-safe": RiskText(
        "acks={value}: {about}",
        _UNWAITED,
        _WAIT,
        advisory=True,
    ),
    "doubles": RiskText(
        "Possible duplicates: {about} retried batches without idempotence",
        _TWICE,
        "Look for duplicates of those seconds, and set enable.idempotence=true (with acks=all).",
        advisory=True,
    ),
    "no-idempotence": RiskText(
        "enable.idempotence=false: {about}",
        _TWICE,
        "Set enable.idempotence=true (with acks=all), or let readers drop what they have seen.",
        advisory=True,
    ),
    "gives-up-early": RiskText(
        "records are given up early: {about} ({setting}={value})",
        "A change of leader takes seconds, and up to 20 s where a broker crashes: a producer that "
        "gives up before that loses records that a retry would have saved.",
        "Leave retries at its default (2147483647 since 2.1) and bound the time by "
        "delivery.timeout.ms=120000; keep what fails all the same in an outbox.",
        advisory=True,
    ),
    "metadata-old": RiskText(
        "metadata.max.age.ms={value}: {about}",
        "A client that gets no error learns of new partitions and leaders after that time only.",
        "Use the default, metadata.max.age.ms=300000, or less.",
        advisory=True,
    ),
    "metadata-young": RiskText(
        "metadata.max.age.ms={value}: {about}",
        "The client asks for metadata all the time; errors make it ask at once anyhow.",
        "Use the default, metadata.max.age.ms=300000.",
        advisory=True,
    ),
    "auto-commit": RiskText(
        "enable.auto.commit=true: {about}",
        "Offsets are committed by time, not by what is done: after a crash records that were "
        "fetched and not yet processed are skipped, or those of the last seconds read again.",
        "Commit after processing (enable.auto.commit=false) where each record matters.",
        advisory=True,
    ),
    "one-bootstrap-server": RiskText(
        "a single bootstrap server: {about}",
        "While that one is away the client cannot start, though others are up. A name that stands "
        "for several brokers is fine.",
        "List two or three brokers in bootstrap.servers.",
        advisory=True,
    ),
    "unused-rack": RiskText(
        "client.rack without replica.selector.class: {about}",
        "Brokers send consumers to the leader all the same, across racks.",
        "Set replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector on "
        "the brokers.",
        advisory=True,
    ),
}
