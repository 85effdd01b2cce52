"""Two small runs as the rest of the program would save them, made of plain functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forensics import schemas
from forensics.history.partitions.outages import build_outages
from forensics.lib.arrow_io import write_table

START = 1_795_001_860_000
KILLED_2, NOTICED_2, KILLED_1, NOTICED_1 = 45_700, 55_403, 59_900, 68_922
ELECTED, BACK, PREFERRED, END = 71_318, 109_666, 126_936, 150_000
FILE = "incident.tgz!broker-{}/server.log"
COMPARE = (
    "Compare the producers' counts with the topic.\n"
    "kafka-get-offsets.sh --bootstrap-server $BOOTSTRAP --topic metrics-firehose"
)
Row = dict[str, Any]


def iso(after: int) -> str:
    """Give a time of the sample as findings.json writes it."""
    moment = pa.scalar(START + after, pa.timestamp("ms", tz="UTC")).as_py()
    return str(moment.isoformat(timespec="milliseconds")).replace("+00:00", "Z")


def at(after: int | None) -> int | None:
    """Give a time of the sample as the tables hold it, in microseconds."""
    return None if after is None else (START + after) * 1000


def save(out: Path, name: str, rows: list[Row]) -> None:
    """Write one table as a directory of Parquet."""
    schema = getattr(schemas, name.upper())
    folder = out / "tables" / name
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "part-0.parquet")
    if name == "leadership":
        # Outages follow from who led; no broker is known to be away.
        write_table(build_outages(folder, ()), out / "tables" / "outages")


def finding(name: str, detector: str, severity: str, **more: Any) -> Row:
    """Make one finding with every key that the contract names."""
    plain: Row = {
        "id": name, "detector": detector, "severity": severity, "confidence": "confirmed",
        "title": detector, "from": iso(NOTICED_1), "to": iso(BACK), "brokers": [],
        "partitions": [], "clients": [], "measures": {}, "evidence": [], "explanation": "",
        "actions": [],
    }  # fmt: skip
    return plain | more


def lost(number: int, epoch: int, most: int | None) -> Row:
    """Make one row of what an unclean election took."""
    return {
        "partition": f"metrics-firehose-{number}", "leader_epoch": epoch, "leader": 2,
        "previous_leader": 1, "lost_from": 0, "lost_to": most,
        "lost_records_min": 845, "lost_records_max": most,
    }  # fmt: skip


def proof(node: int, line: int, text: str) -> Row:
    """Quote one line of one broker's log."""
    return {"file": FILE.format(node), "line": line, "text": text}


def document(findings: list[Row], verdict: str = "incident") -> Row:
    """Make findings.json around some findings."""
    return {
        "schema": 1, "verdict": verdict, "summary": "One sentence of the program's own.",
        "window": {"from": iso(0), "to": iso(END)},
        "archive": {"files": 4, "bytes": 412_000, "lines": 4_000, "events": 310},
        "impact": {
            "partitions_unavailable": 3, "partitions": 11, "partition_seconds": 120.0,
            "longest_s": 40.0, "planned_partition_seconds": 0.0, "clients_affected": 1,
            "records_lost_min": 0, "records_lost_max": 0,
        },
        "findings": findings,
    }  # fmt: skip


def unclean_findings() -> list[Row]:
    """Give the findings of the unclean election."""
    hit = ["metrics-firehose-0", "metrics-firehose-1", "metrics-firehose-2"]
    return [
        finding(
            "F-3f2a91c0", "unclean-election", "critical", brokers=[1, 2], partitions=hit,
            title="Broker 2 was elected from outside the ISR; broker 1 cut its log",
            **{"from": iso(ELECTED), "to": iso(BACK)},
            measures={"partitions": [lost(0, 2, 845), lost(1, 3, 1262), lost(2, 2, 1293)]},
            evidence=[
                proof(1, 18244, "[2026-11-18 11:38:51,318] INFO metrics-firehose-0 is at epoch 2"),
                proof(1, 19001, "[2026-11-18 11:39:29,101] INFO Truncating to 0 has effect")],
            explanation="Broker 1 was alone in the ISR when it died. `unclean.leader.election"
            ".enable` let broker 2 lead without the records it had missed.",
            actions=[COMPARE,
                     "Set `unclean.leader.election.enable=false` where loss matters."],
        ),
        finding("F-1b", "offline-partitions", "high", brokers=[1], partitions=hit,
                title="3 partitions had no leader for 2.4 s",
                **{"from": iso(NOTICED_1), "to": iso(ELECTED)},
                measures={"partitions": 3, "partition_seconds": 7.2, "longest_s": 2.4}),
        finding("F-2c", "stale-metadata", "medium", confidence="likely", clients=["app-metrics"],
                title="app-metrics worked with old leaders for 18 s", partitions=hit,
                **{"from": iso(NOTICED_1 + 900), "to": iso(NOTICED_1 + 19_000)},
                measures={"errors": 412, "duration_s": 18.1, "verdict": "sustained",
                          "cause": "unclean_election"}),
        finding("F-4e", "broker-restart", "medium", brokers=[2], title="Broker 2 crashed",
                **{"from": iso(KILLED_2), "to": iso(ELECTED)},
                measures={"kind": "crash", "away_s": 25.6}),
        finding("F-5f", "clock-skew", "info", brokers=[3], title="Broker 3 is 37 s ahead",
                **{"from": iso(0), "to": iso(END)},
                measures={"offset_ms": 37_000, "kind": "drift"}),
    ]  # fmt: skip


def reign(topic: str, number: int, *spans: tuple[int, int, int, int | None]) -> list[Row]:
    """Make the leader epochs of one partition from (epoch, leader, start, end)."""
    return [
        {
            "topic": topic, "partition": number, "leader_epoch": epoch, "leader": leader,
            "started_at": at(start), "ended_at": at(end), "how": "observed",
            "election": "unclean" if leader == 2 and start == ELECTED else "failover",
            "clean": not (leader == 2 and start == ELECTED),
        }
        for epoch, leader, start, end in spans
    ]  # fmt: skip


def leadership() -> list[Row]:
    """Give who led: three partitions through the incident, eight of orders-v2 without loss."""
    dark = (-1, NOTICED_1, ELECTED)
    rows = []
    for number in (0, 2):
        rows += reign("metrics-firehose", number, (0, 1, 0, NOTICED_1), (1, *dark),
                      (2, 2, ELECTED, PREFERRED), (3, 1, PREFERRED, None))  # fmt: skip
    rows += reign("metrics-firehose", 1, (0, 2, 0, NOTICED_2), (1, 1, NOTICED_2, NOTICED_1),
                  (2, *dark), (3, 2, ELECTED, None))  # fmt: skip
    for number in range(8):
        first = number % 3 + 1
        moved = {1: NOTICED_1, 2: NOTICED_2}.get(first)
        spans = [(0, first, 0, moved)] + ([(1, 3, moved, None)] if moved else [])
        rows += reign("orders-v2", number, *spans)
    return rows


def isr() -> list[Row]:
    """Give the states in sync of one partition of each topic."""
    states = [([1, 2], 0, NOTICED_2), ([1], NOTICED_2, NOTICED_1), ([], NOTICED_1, ELECTED),
              ([2], ELECTED, BACK), ([1, 2], BACK, None)]  # fmt: skip
    return [
        {"topic": "metrics-firehose", "partition": number, "isr": known, "replicas": [1, 2],
         "started_at": at(start), "ended_at": at(end), "how": "observed"}
        for number in range(3)
        for known, start, end in states
    ]  # fmt: skip


def lanes() -> list[Row]:
    """Give the lives of three brokers and who was the controller."""
    life = [
        (1, "up", 0, KILLED_1), (1, "crashed", KILLED_1, 94_600), (1, "starting", 94_600, 106_000),
        (1, "up", 106_000, None), (2, "up", 8_000, KILLED_2), (2, "crashed", KILLED_2, 62_000),
        (2, "starting", 62_000, 70_900), (2, "up", 70_900, None), (3, "up", 0, 120_000),
    ]  # fmt: skip
    rows = [
        {"node": f"broker-{broker}", "role": "broker", "broker": broker, "state": state,
         "started_at": at(start), "ended_at": at(end)}
        for broker, state, start, end in life
    ]  # fmt: skip
    active = {"node": "controller-1", "role": "controller", "broker": 100, "state": "active"}
    return [*rows, active | {"started_at": at(0), "ended_at": None}]


def errors() -> list[Row]:
    """Give the errors that one client logged."""
    return [
        {"kind": "client_error", "ts": at(NOTICED_1 + 900 + 45 * step), "node": "app-metrics",
         "file": "incident.tgz!app-metrics/client.log", "line": step, "client": "app-metrics",
         "error": "NOT_LEADER_OR_FOLLOWER"}
        for step in range(400)
    ]  # fmt: skip


def file(node: str, kind: str, /, **more: Any) -> Row:
    """Make one input file whose lines add up."""
    plain: Row = {
        "file": f"incident.tgz!{node}/{kind}.log", "node": node, "role": "broker",
        "layout": "log4j-default", "kafka_version": "4.3.0", "first_ts": at(0), "last_ts": at(END),
        "bytes": 103_000, "lines": 1_000, "records": 900, "continuation_lines": 80,
        "blank_lines": 10, "unparsed_lines": 6, "duplicate_lines": 4, "events": 77,
        "sha256": "0f" * 32,
    }  # fmt: skip
    return plain | more


def files() -> list[Row]:
    """Give the input files: one cut short, one of no known node."""
    rows = [file(f"broker-{n}", kind) for n in (1, 2, 3) for kind in ("server", "state-change")]
    rows.append(file("app-metrics", "client", role="client", first_ts=at(40_000)))
    rows.append(file("controller-1", "controller", last_ts=at(60_000),
                     damaged="gzip ends early, after 812 lines"))  # fmt: skip
    return [*rows, file("x", "mystery", node=None, role=None, unparsed_lines=400, records=506)]


def clocks() -> list[Row]:
    """Give the clocks of three brokers."""
    return [
        {"node": f"broker-{n}", "offset_ms": off, "uncertainty_ms": 12, "anchors": 40,
         "zone_shift_minutes": 0, "reference": n == 1}
        for n, off in ((1, 0), (2, -3), (3, 37_000))
    ]  # fmt: skip
