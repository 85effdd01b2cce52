"""Makes summaries of weeks, as week.json holds them, out of a few values each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.weekly.iso_week import Week
from forensics.weekly.week_metrics import BROKER_SIGNALS
from forensics.weekly.week_summary import WeekSummary

HOUR = 3_600_000
DAY = 24 * HOUR
WEEK = 7 * DAY
RULES = [["kafka-forensics", "a" * 64]]
CLUSTER = {
    "minutes_dark": 0.0, "records_lost": 0, "controller_changes": 1, "stale_bursts": 0,
    "stale_errors": 0,
}  # fmt: skip
DETECTORS = ("flapping-broker", "offline-partitions", "stale-metadata", "unclean-election")


def make_finding(
    detector: str, severity: str = "high", number: int = 1, **more: Any
) -> dict[str, Any]:
    """Make one group of findings about some `brokers`, `clients` or `topics`."""
    brokers, clients, topics = (
        list(more.get(name, ())) for name in ("brokers", "clients", "topics")
    )
    names = [str(broker) for broker in brokers] or clients or topics
    noun = "broker" if brokers else "client" if clients else "topic"
    subject = f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "cluster"
    defaults: dict[str, Any] = {
        "signature": f"{detector}: {subject}", "detector": detector, "severity": severity,
        "incident": severity in ("critical", "high", "medium"), "confidence": "confirmed",
        "title": f"{detector} of {subject}", "brokers": brokers, "clients": clients,
        "topics": topics, "count": number, "levels": {severity: number}, "size": float(number),
        "findings": [[f"F-{index:08x}", severity, 0] for index in range(number)],
    }  # fmt: skip
    return defaults | more


def make_week(
    name: str,
    findings: Sequence[Mapping[str, Any]] = (),
    *,
    covered: float | Mapping[int, float] = 1.0,
    brokers: Sequence[int] = (1, 2, 3),
    signals: Mapping[int, Mapping[str, float]] | None = None,
    **more: Any,
) -> WeekSummary:
    """Make a week; `covered` is the share of it that the logs of all, or of each broker, cover."""
    start, end = Week.parse(name).window_ms
    shares = covered if isinstance(covered, Mapping) else dict.fromkeys(brokers, covered)
    groups: list[Any] = [dict(group) for group in findings]
    levels = Counter[str]()
    for group in groups:
        levels.update(group["levels"])
        group["findings"] = [
            [id_, level, at or start + HOUR] for id_, level, at in group["findings"]
        ]
    counts = {
        broker: dict.fromkeys(BROKER_SIGNALS, 0.0) | dict((signals or {}).get(broker, {}))
        for broker in brokers
    }
    defaults: dict[str, Any] = {
        "week": name, "window": [start, end],
        "verdict": "incident" if any(group["incident"] for group in groups) else "clear",
        "summary": groups[0]["title"] if groups else "", "levels": dict(levels), "rules": RULES,
        "nodes": {f"broker-{broker}": _node(broker, share)
                  for broker, share in shares.items() if share},
        "brokers": list(brokers),
        "signals": {"brokers": {str(broker): each for broker, each in counts.items()},
                    "cluster": dict(CLUSTER)},
        "away": {str(broker): _away(each) for broker, each in counts.items()},
        "findings": groups, "findings_left_out": 0,
        "detectors": {detector: {"status": "quiet", "why": []} for detector in DETECTORS},
        "hours": [0] * 168,
        "nights": {"nights": 7, "partitions": [], "left_out": 0, "often": 0},
        "versions": {f"broker-{broker}": ["4.3.0"] for broker in brokers},
        "topics": {"partitions": {"orders": 6}, "topics": 1, "all_partitions": 6},
        "topic_turns": {"created": [], "deleted": []},
        "files": {"files": 3, "damaged": 0, "lines": 1000, "unparsed_lines": 0},
    }  # fmt: skip
    return WeekSummary(**(defaults | more))


def _node(broker: int, share: float) -> dict[str, Any]:
    return {
        "role": "broker", "broker": broker, "covered_ms": round(share * WEEK),
        "days": [round(share * DAY)] * 7,
    }  # fmt: skip


def _away(counts: Mapping[str, float]) -> dict[str, Any]:
    times, minutes = counts["absences"], counts["minutes_away"]
    each = minutes / times if times else None
    return {"unplanned": times, "planned": 0, "minutes": minutes, "longest": each, "median": each}


def make_quarter() -> list[WeekSummary]:
    """Make twelve weeks, one of them missing: one broker flaps more and more, the rules change."""
    weeks = []
    first = Week.parse("2026-W36")
    for at in range(12):
        name, old = str(first.shift(at)), at < 4
        flaps = (0, 0, 1, 0, 2, 2, 3, 0, 5, 6, 7, 11)[at]
        flapping = make_finding("flapping-broker", "high", 1, brokers=[2], size=float(flaps))
        findings = [flapping] * (flaps > 2)
        findings += [make_finding("stale-metadata", "medium", 1, clients=["app-orders"])] * (
            at % 3 == 2
        )
        findings += [make_finding("unclean-election", "critical", 1, brokers=[1])] * (at == 10)
        findings += [make_finding("offline-partitions", "high", 1, brokers=[3])] * (at == 11)
        findings += [make_finding("broker-restart", "info", 2, brokers=[1])] * (at > 8)
        if at == 7:
            # A week that is not in the store.
            continue
        weeks.append(make_week(
            name, findings,
            covered={1: 0.97, 2: 0.05 if at == 9 else 0.9, 3: 0.95 - 0.04 * at},
            signals={
                1: {"leaders_lost": 20 + 3 * at, "isr_drops": 14 + at % 5, "errors": 120 - 9 * at},
                2: {"leaders_lost": 24 * flaps, "isr_drops": 31 * flaps, "absences": flaps,
                    "minutes_away": 2.4 * flaps, "errors": 40},
                3: {"leaders_lost": 11, "isr_drops": 6 + at % 3, "errors": 30 + at * at},
            },
            hours=[None if 30 <= hour < 36 else (hour * 7919 + at) % 97 // 88 * (hour % 23)
                   for hour in range(168)],
            nights={"nights": 7, "left_out": 0, "often": 2, "partitions": [
                ["orders-2", 6, 2300.0], ["payments.events-0", 3, 620.5], ["orders-1", 1, 3.0]]},
            rules=[["kafka-forensics", ("a" if old else "b") * 64]],
            versions={f"broker-{one}": ["4.3.0" if at > 10 and one == 1 else "4.2.0"]
                      for one in (1, 2, 3)},
        ))  # fmt: skip
    return weeks
