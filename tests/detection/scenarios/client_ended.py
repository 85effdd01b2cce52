"""Clients that closed with an error of the cluster, and those that went on or were told to stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "client-ended"
Row = dict[str, Any]


def revoked(second: float) -> Row:
    return event(second, "app", "partitions_revoked", client="app", group="g")


def joined(second: float, node: str) -> Row:
    return event(second, node, "group_joined", client=node, group="g")


def failed(second: float, error: str = "TIMEOUT", **more: Any) -> Row:
    return event(second, "app", "application_error", **{"error": error, "retriable": True, **more})


def client(*rows: Row, last: float = 100, end: float = 200) -> Callable[[Path], DetectionContext]:
    files = [
        logs("app", last, role="client", records=9), logs("broker-1", end, role="broker"),
    ]  # fmt: skip
    return partial(case, events=rows, files=files)


FOUND = [{"severity": "medium", "clients": ["app"], "measures": {"error": "TIMEOUT"}}]
PREFIX = "[2026-06-10 12:00:{},123] INFO [Consumer clientId=orders-svc, groupId=report] "
CLASS = " (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n"
LINES = (
    PREFIX.format("01") + "Adding newly assigned partitions: orders-0" + CLASS
    + PREFIX.format("10") + "Revoke previously assigned partitions orders-0" + CLASS
    + "[2026-06-10 12:00:10,200] ERROR Worker failed, giving up (shop.Worker)\n"
    "org.apache.kafka.common.errors.TimeoutException: Timeout of 5000ms expired before "
    "successfully committing offsets\n"
)  # fmt: skip
BROKER = "[2026-06-10 12:0{}:00,123] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"

SCENARIOS = [
    Scenario(
        NAME, "fires", "a consumer whose commit timed out",
        from_logs({"orders-svc/client.log": LINES,
                   "broker-1/server.log": BROKER.format(0) + BROKER.format(2)}),
        [{"severity": "medium", "clients": ["orders-svc"], "measures": {"error": "TIMEOUT"}}],
    ),
    Scenario(NAME, "fires", "closed, and nothing after that", client(revoked(99), failed(100)),
             FOUND),
    Scenario(
        NAME, "quiet", "it joined its group again",
        client(revoked(98), event(99, "app", "group_joining", client="app"), failed(100)),
    ),
    Scenario(
        NAME, "quiet", "a new member took its place, such as the next pod",
        client(joined(10, "app"), revoked(99), failed(100), joined(130, "app-2")),
    ),
    Scenario(
        NAME, "fires", "a member that was there before has work of its own",
        client(joined(10, "app-2"), revoked(99), failed(100), joined(130, "app-2")), FOUND,
    ),
    Scenario(NAME, "quiet", "its log goes on", client(revoked(99), failed(100), last=150)),
    Scenario(NAME, "quiet", "an error that does not pass has a finding of its own",
             client(revoked(99), failed(100, "OFFSET_OUT_OF_RANGE", retriable=False))),
    Scenario(
        NAME, "quiet", "a producer that was closed, with records that it could not send",
        client(event(99, "app", "producer_closing", client="app"), failed(100)),
    ),
    Scenario(NAME, "quiet", "an application that tries again closes nothing", client(failed(100))),
    Scenario(NAME, "boundary", "ten seconds before the logs end",
             client(revoked(99), failed(100), end=110), FOUND),
    Scenario(NAME, "boundary", "just before the logs end",
             client(revoked(99), failed(100), end=109.9)),
    Scenario(
        NAME, "blind", "only a broker's log", partial(case, files=[logs("broker-1", 100)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
