"""Records in a form that nobody expects: who stands still before them, and who goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "serialization-errors"
Row = dict[str, Any]
AT = "Error deserializing key/value for partition orders-3 at offset 48120. If needed, please seek"


def failed(second: float, kind: str = "listener_failed", **more: Any) -> Row:
    facts = {"error": "RECORD_DESERIALIZATION_FAILED", "detail": AT} | more
    return event(second, "app", kind, **facts)


def unsent(second: float) -> Row:
    return failed(
        second, "send_failed", error="SERIALIZATION_FAILED", detail="no schema", topic="t"
    )


def client(*rows: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=rows, files=[logs("app", 1000, role="client", records=9)])


def found(severity: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "clients": ["app"], "measures": measures}]


LINE = (
    "[2026-06-10 12:00:00,123] ERROR stream-thread [orders-app-2e1f-StreamThread-1] Encountered "
    "the following exception during processing and the thread is going to shut down:  (org.apache."
    "kafka.streams.processor.internals.StreamThread)\n"
    f"org.apache.kafka.common.errors.RecordDeserializationException: {AT} past the record\n"
    "\tat org.apache.kafka.clients.consumer.internals.CompletedFetch\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of an application whose thread dies of it",
        from_logs({"orders-app/client.log": LINE}),
        [{"severity": "medium", "partitions": ["orders-3"],
          "measures": {"stands_still": True, "records": ["orders-3@48120"]}}],
    ),
    Scenario(
        NAME, "fires", "one record, again and again", client(*map(failed, range(100, 200, 10))),
        found("medium", errors=10, records=["orders-3@48120"]),
    ),
    Scenario(
        NAME, "fires", "records that cannot be written", client(*map(unsent, range(100, 110))),
        found("medium", writes=True, stands_still=False),
    ),
    Scenario(
        NAME, "fires", "a connector that says it in the text of another error",
        client(failed(100, "connector_task_failed", error="org.apache.kafka.connect.Connect",
                      detail="Converting byte[] to Kafka data failed due to serialization error")),
        found("medium", stands_still=True),
    ),
    Scenario(
        NAME, "quiet", "a record that is too large when serialized",
        client(failed(100, "send_failed", error="MESSAGE_TOO_LARGE",
                      detail="The message is 1200088 bytes when serialized which is larger than")),
    ),
    Scenario(
        NAME, "quiet", "a principal that brokers cannot read",
        client(failed(100, error="PRINCIPAL_DESERIALIZATION_FAILURE", detail="")),
    ),
    Scenario(
        NAME, "boundary", "two, and it goes on", client(unsent(100), unsent(110)),
        found("low", errors=2),
    ),
    Scenario(
        NAME, "boundary", "three, five minutes apart",
        client(unsent(100), unsent(400), unsent(700)), found("medium", errors=3),
    ),
    Scenario(
        NAME, "boundary", "just more than five minutes apart", client(unsent(100), unsent(400.001)),
        [*found("low", errors=1), *found("low", errors=1)],
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("b-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
