"""Whether a cluster runs without ZooKeeper, and may keep eligible leader replicas."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forensics.sandbox import run_lines

VERSION = (
    "[2026-06-10 12:00:00,123] INFO Kafka version: {} (org.apache.kafka.common.utils.AppInfoParser)"
)
ACTIVE = (
    "[2026-11-18 11:44:29,914] WARN [QuorumController id=3] Performing controller activation. "
    "Loaded ZK migration state of NONE. This is expected because this is a de-novo KRaft cluster. "
    "(org.apache.kafka.controller.QuorumController)"
)


@pytest.mark.parametrize(
    ("logs", "kraft", "elr"),
    [
        ({"broker-1/server.log": VERSION.format("2.8.2")}, False, False),
        ({"broker-1/server.log": VERSION.format("4.0.0")}, True, None),
        # a newer client says nothing of the cluster
        (
            {
                "broker-1/server.log": VERSION.format("2.8.2"),
                "app/client.log": VERSION.format("4.3.0"),
            },
            False,
            False,
        ),
        ({"controller-1/controller.log": ACTIVE}, True, None),
        ({"controller-1/controller.log": f"{ACTIVE}\n{VERSION.format('3.9.1')}"}, True, False),
    ],
)
def test_the_mode_follows_from_what_servers_say(
    logs: dict[str, str], kraft: bool, elr: Any, tmp_path: Path
) -> None:
    context = run_lines({name: text + "\n" for name, text in logs.items()}, tmp_path).past.context

    assert (kraft, elr) == (context.kraft, context.elr)


def test_a_line_with_its_own_offset_is_not_shifted_by_the_zone_of_its_node(tmp_path: Path) -> None:
    """The collector's log says how far it is from UTC; the broker's own log does not."""
    begun = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()) * 1000
    server = (
        "[2026-11-18 07:00:00,000] INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)\n"
        "[2026-11-18 07:00:00,010] INFO Kafka version: 3.9.1 (o.a.k.common.utils.AppInfoParser)\n"
        f"[2026-11-18 07:00:00,020] INFO Kafka startTimeMs: {begun} "
        "(org.apache.kafka.common.utils.AppInfoParser)\n"
    )
    collector = (
        "[2026-11-18T12:00:01.000+0000][gc] GC(0) Pause Full (System.gc()) 16M->4M(320M) 900ms\n"
        "[2026-11-18T12:00:09.000+0000][gc] GC(1) Pause Full (System.gc()) 16M->4M(320M) 900ms\n"
    )
    logs = {"broker-1/server.log": server, "broker-1/kafkaServer-gc.log": collector}

    tried = run_lines(logs, tmp_path)
    clocks = tried.past.clocks
    coverage = tried.past.context.observers.coverage
    nodes = {
        row["file"]: row["node"] for row in tried.tables.read("files", ["file", "node"]).to_pylist()
    }

    assert clocks.zones_min == {"broker-1": -300}
    assert set(nodes.values()) == {"broker-1"}
    assert coverage.begin == begun * 1000
    assert coverage.end == (begun + 9_000) * 1000
    assert tried.context().logs_end == (begun + 9_000) * 1000
