"""Producers that cannot go on, and those that only made place for a newer one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "producer-fatal"
Row = dict[str, Any]


def failed(second: float, error: str = "CLUSTER_AUTHORIZATION_FAILED", **more: Any) -> Row:
    return event(second, "app", "producer_failed", **({"client": "app", "error": error} | more))


def fenced(second: float) -> Row:
    return failed(second, "PRODUCER_FENCED")


def aborted(second: float) -> Row:
    return event(second, "app", "producer_must_abort", client="app", error="TIMEOUT")


def client(*rows: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=rows, files=[logs("app", 1000, role="client", records=9)])


def found(severity: str, how: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"how": how} | measures}]


LINE = (
    "[2026-06-10 12:00:00,123] INFO [Producer clientId=orders-svc, transactionalId=orders-tx] "
    "Transiting to fatal error state due to org.apache.kafka.common.errors."
    "TransactionalIdAuthorizationException: Transactional Id authorization failed. "
    "(org.apache.kafka.clients.producer.internals.TransactionManager)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "a line of a producer that may not go on",
        from_logs({"orders-svc/client.log": LINE}),
        [{"severity": "medium", "clients": ["orders-svc"], "measures": {"how": "fatal"}}],
    ),
    Scenario(
        NAME, "fires", "one fencing that librdkafka tells as one of the transaction and as its own",
        from_logs({
            "app-pay/client.log": "%1|1795164536.056|TXNERR|app-pay#producer-1| [thrd:main]: Fatal"
            " transaction error: Failed to add partitions to transaction: Local: This instance has"
            " been fenced by a newer instance (_FENCED)\n"
            "%0|1795164536.056|FATAL|app-pay#producer-1| [thrd:main]: Fatal error: Local: This"
            " instance has been fenced by a newer instance: Failed to add partitions\n",
        }),
        found("low", "fenced", times=1),
    ),
    Scenario(NAME, "fires", "one that failed for good", client(failed(100)),
             found("medium", "fatal", times=1)),
    Scenario(
        NAME, "fires", "transactions that a broker gave up",
        client(*(event(100 + n, "b-1", "transaction_timed_out", value="orders-tx")
                 for n in range(5))),
        [{"severity": "medium", "clients": ["orders-tx"],
          "measures": {"how": "aborted", "transactional_id": "orders-tx"}}],
    ),
    Scenario(
        NAME, "quiet", "fenced once, as by a deploy", client(fenced(100)), found("low", "fenced"),
    ),
    Scenario(
        NAME, "quiet", "an application's own words for a fenced producer, and for other errors",
        client(event(100, "app", "application_error", error="PRODUCER_FENCED"),
               event(101, "app", "application_error", error="TIMEOUT")),
        found("low", "fenced", times=1),
    ),
    Scenario(
        NAME, "quiet", "out of sequence, which is told of by itself",
        client(failed(100, "OUT_OF_ORDER_SEQUENCE_NUMBER")),
    ),
    Scenario(NAME, "boundary", "fenced twice", client(fenced(100), fenced(110)),
             found("low", "fenced", times=2)),
    Scenario(
        NAME, "boundary", "fenced three times, five minutes apart",
        client(fenced(100), fenced(400), fenced(700)), found("medium", "fenced", times=3),
    ),
    Scenario(
        NAME, "boundary", "just more than five minutes apart",
        client(fenced(100), fenced(400.001)),
        [*found("low", "fenced", times=1), *found("low", "fenced", times=1)],
    ),
    Scenario(NAME, "boundary", "four aborts", client(*map(aborted, range(100, 104))),
             found("low", "aborted", times=4)),
    Scenario(NAME, "boundary", "five aborts", client(*map(aborted, range(100, 105))),
             found("medium", "aborted", times=5)),
    Scenario(
        NAME, "blind", "only a controller's log",
        partial(case, files=[logs("c-1", 100, role="controller", records=9)]),
        reason="there is no clients' or brokers' log",
    ),
]  # fmt: skip
