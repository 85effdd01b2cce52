"""Whether a cluster runs without ZooKeeper, and may keep eligible leader replicas."""

from __future__ import annotations

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
