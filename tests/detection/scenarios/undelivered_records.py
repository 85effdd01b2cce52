"""Records that producers gave up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "undelivered-records"
Row = dict[str, Any]


def of(*events: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events))


def failed(second: float = 40, kind: str = "send_failed", **more: Any) -> Row:
    given = {"client": "app-1", "topic": "t", "partition": 3, "error": "TIMEOUT"} | more
    return event(second, "app", kind, **given)


def reported(second: float, error: str) -> Row:
    """Give a line of an application that quotes the error of librdkafka."""
    return event(second, "app", "application_error", error=error, rule="application.error@0.11")


def expired(count: int, past: int) -> str:
    return f"Expiring {count} record(s) for t-3:{past} ms has passed since batch creation"


EXPIRED = (
    "[2026-06-10 12:00:00,123] WARN [Producer clientId=shop] The metadata response from the cluster"
    " reported a recoverable issue with correlation id 142 : {orders=LEADER_NOT_AVAILABLE}"
    " (org.apache.kafka.clients.NetworkClient)\n"
    "[2026-06-10 12:02:00,123] ERROR Not stored (shop.orders.Worker)\n"
    "org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for orders-0:120001 ms"
    " has passed since batch creation\n"
)
CLOSED = (
    "[2026-06-10 12:00:00,123] INFO [Producer clientId=orders-svc] Proceeding to force close the"
    " producer since pending requests could not be completed within timeout 500 ms."
    " (org.apache.kafka.clients.producer.KafkaProducer)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "an application logs what its client says",
        from_logs({"shop/shop.log": EXPIRED * 2}),
        [{"severity": "medium", "partitions": ["orders-0"], "measures": {"records_min": 3},
          "title": "shop gave up at least 3 records of orders"}],
    ),
    Scenario(
        NAME, "fires", "a producer is closed by force",
        from_logs({"shop/shop.log": CLOSED}),
        [{"severity": "low", "clients": ["orders-svc"], "measures": {"closes": 1},
          "title": "orders-svc was closed before all records were sent"}],
    ),
    Scenario(
        NAME, "fires", "two batches",
        of(failed(detail=expired(2, 120_001)), failed(41, detail=expired(2, 120_002))),
        [{"severity": "medium", "measures": {"records_min": 4}}],
    ),
    Scenario(
        NAME, "fires", "an aborted transaction",
        of(failed(kind="producer_must_abort", detail=expired(5, 120_001), topic=None,
                  partition=None)),
        [{"severity": "medium", "partitions": ["t-3"], "measures": {"records_min": 5}}],
    ),
    Scenario(
        NAME, "fires", "records that were refused to the end, each with a line",
        of(failed(error="NOT_ENOUGH_REPLICAS"), failed(41, error="NOT_ENOUGH_REPLICAS")),
        [{"severity": "medium", "measures": {"records_min": 2}}],
    ),
    Scenario(NAME, "boundary", "five minutes apart", of(failed(), failed(340)), [{}]),
    Scenario(NAME, "boundary", "a second more", of(failed(), failed(341)), [{}, {}]),
    Scenario(NAME, "quiet", "records that are too large", of(failed(error="MESSAGE_TOO_LARGE"))),
    Scenario(
        NAME, "quiet", "metadata that did not come",
        of(failed(kind="application_error", detail="Topic t not present in metadata")),
    ),
    Scenario(
        NAME, "fires", "records that send() refused, beside one that expired",
        of(failed(kind="application_error", detail="Topic t not present in metadata after 9 ms."),
           failed(41, kind="application_error", detail=expired(1, 120_001))),
        [{"severity": "medium", "measures": {"records_min": 2, "topics": ["t"]}}],
    ),
    Scenario(
        NAME, "fires", "a topic that was deleted, in librdkafka's words for each record",
        of(
            event(30, "c-1", "topic_deleted", topic="t"),
            event(35, "app", "client_partitions_changed", client="app#producer-1", topic="t",
                  count=0),
            reported(40, "_MSG_TIMED_OUT"), reported(41, "UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        [{"severity": "medium", "title": "app gave up at least 2 records of t",
          "measures": {"records_min": 2, "suspect": "topic_deleted"}}],
    ),
    Scenario(
        NAME, "quiet", "the same words of a consumer",
        of(
            event(35, "app", "client_partitions_changed", client="app#consumer-1", topic="t",
                  count=0),
            reported(41, "UNKNOWN_TOPIC_OR_PARTITION"),
        ),
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("broker-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
