"""Errors of brokers and controllers that no rule knows, and those that are not theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "unread-errors"
STARTED = "[2026-06-10 12:00:00,123] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
AT = "[2026-06-10 12:0{}:00,123] "
MOVE = "ERROR [ReplicaManager broker=1] Could not swap orders-{} to /data/2. (kafka.server.{})\n"
THROWN = "java.lang.IllegalStateException: no such folder\n\tat kafka.log.X.y(X.scala:7)\n"
FATAL = "FATAL [Vault] The key is gone, halting (org.apache.kafka.server.vault.Vault)\n"
LAST = AT.format(9) + "INFO [KafkaServer id=1] shutting down (kafka.server.KafkaServer)\n"


def broker(*lines: str) -> Any:
    text = STARTED + "".join(AT.format(at) + line for at, line in enumerate(lines, 1)) + LAST
    return from_logs({"broker-1/server.log": text})


def many(folder: Path) -> DetectionContext:
    """More kinds of messages than are told apart."""
    rows = [
        event(at, "broker-1", "error_unread", level="ERROR", logger="X", detail=f"odd {at}")
        for at in range(1001)
    ]
    return case(folder, events=rows, files=[logs("broker-1", 2000, role="broker")])


SCENARIOS = [
    Scenario(
        NAME, "fires", "two lines of one kind, and one at FATAL",
        broker(MOVE.format(7, "Swapper") + THROWN, MOVE.format(8, "Swapper") + THROWN, FATAL),
        [{
            "severity": "low", "brokers": [1],
            "title": "Broker 1 logged 3 error messages of 2 kinds that no rule reads",
            "measures": {"errors": 3, "fatal": 1, "kinds": 2},
        }],
    ),
    Scenario(
        NAME, "fires", "another exception is another kind",
        broker(MOVE.format(7, "Swapper") + THROWN, MOVE.format(8, "Swapper")),
        [{"measures": {"errors": 2, "fatal": 0, "kinds": 2}}],
    ),
    Scenario(
        NAME, "fires", "a logger that rules know, in a text that none knows",
        broker(MOVE.format(7, "ReplicaManager")), [{"measures": {"errors": 1, "kinds": 1}}],
    ),
    Scenario(
        NAME, "fires", "that it quotes an error which clients get does not say what it means",
        broker("ERROR Could not vote (org.apache.kafka.raft.Voter)\n"
               "org.apache.kafka.common.errors.TimeoutException: gone\n"),
        [{"measures": {"errors": 1}}],
    ),
    Scenario(NAME, "quiet", "a rule knows it",
             broker("ERROR Processor got uncaught exception. (kafka.network.Processor)\n")),
    Scenario(NAME, "quiet", "it is no error", broker("WARN Odd (kafka.server.Swapper)\n")),
    Scenario(NAME, "quiet", "a plug-in logged it",
             broker("ERROR kafka.server.Swapper is odd (com.example.Plugin)\n")),
    Scenario(NAME, "quiet", "a worker of Connect in the same process",
             broker("ERROR Odd (org.apache.kafka.connect.runtime.Worker)\n")),
    Scenario(
        NAME, "quiet", "a client's error says nothing of the cluster",
        from_logs({"broker-1/server.log": STARTED + LAST, "app/client.log": AT.format(1)
                   + "ERROR [Producer clientId=app] No (org.apache.kafka.clients.producer.No)\n"}),
    ),
    Scenario(NAME, "boundary", "more kinds than are told apart are counted",
             many, [{"measures": {"errors": 1001, "kinds": 1000}}]),
    Scenario(
        NAME, "blind", "without logs of servers",
        from_logs({"app/client.log": AT.format(1)
                   + "INFO [Producer clientId=app] Odd (org.apache.kafka.clients.producer.Odd)\n"}),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
