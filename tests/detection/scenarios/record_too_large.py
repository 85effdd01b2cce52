"""Records that are refused for their size, by whom, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "record-too-large"
Row = dict[str, Any]
OWN = (
    "The message is 1200088 bytes when serialized which is larger than 1048576, which is the value "
    "of the max.request.size configuration."
)
RECEIVE = "org.apache.kafka.common.network.InvalidReceiveException"


def refused(second: float, **more: Any) -> Row:
    facts = {"client": "app", "topic": "t", "error": "MESSAGE_TOO_LARGE"} | more
    return event(second, "app", "send_failed", **facts)


def split(second: float) -> Row:
    return refused(second) | {"kind": "producer_batch_split", "partition": 0}


def closed(second: float, size: int = 4_000_130) -> Row:
    detail = f"Invalid receive (size = {size} larger than 3000000)"
    facts = {"broker": 1, "value": "/10.0.0.7", "error": RECEIVE, "detail": detail}
    return event(second, "broker-1", "connection_failed", **facts)


def broken(second: float, client: str) -> Row:
    return event(second, client, "client_request_cancelled", client=client, detail="PRODUCE")


def client(*rows: Row) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 1000, role="client", records=9), logs("broker-1", 1000, role="broker")]
    return partial(case, events=rows, files=files)


def found(severity: str, limit: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"limit": limit} | measures}]


LINE = (
    "[2026-11-18 19:43:0{},533] ERROR Error when sending message to topic photos with key: null, "
    "value: 1200000 bytes with error: (org.apache.kafka.clients.producer.internals."
    f"ErrorLoggingCallback)\norg.apache.kafka.common.errors.RecordTooLargeException: {OWN}\n"
)
BROKER = (
    "[2026-11-18 19:42:4{},247] WARN [SocketServer listenerType=BROKER, nodeId=1] Unexpected error "
    "from /10.0.0.7 (channelId=127.0.0.1:19001-127.0.0.1:46822-0-10); closing connection "
    f"(org.apache.kafka.common.network.Selector)\n{RECEIVE}: Invalid receive (size = 4000130 "
    f"larger than 3000000)\n\tat org.apache.kafka.common.network.NetworkReceive.readFrom\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a producer that refuses its own records",
        from_logs({"app/client.log": "".join(map(LINE.format, range(3)))}),
        found("medium", "max.request.size", records=3, topic="photos", largest=1_200_088,
              allowed=1_048_576, lost=True),
    ),
    Scenario(
        NAME, "fires", "lines of a broker that closes connections",
        from_logs({"broker-1/server.log": "".join(map(BROKER.format, range(3)))}),
        found("medium", "socket.request.max.bytes", largest=4_000_130, allowed=3_000_000),
    ),
    Scenario(
        NAME, "fires", "the client whose requests break at the same moments",
        client(*(row for n in range(4) for row in (
            closed(100 + 10 * n), broken(100.1 + 10 * n, "app"), broken(105 + 10 * n, "other")))),
        [{"severity": "medium", "clients": ["app"], "brokers": [1]}],
    ),
    Scenario(
        NAME, "fires", "a broker's limit", client(refused(100), refused(110), refused(120)),
        found("medium", "message.max.bytes"),
    ),
    Scenario(
        NAME, "fires", "a broker's limit that its settings tell",
        client(refused(100), refused(110), refused(120), event(
            5, "broker-1", "setting_seen", setting="message.max.bytes", value="1048588")),
        found("medium", "message.max.bytes", allowed=1_048_588),
    ),
    Scenario(
        NAME, "fires", "brokers whose limits differ: which one refused is not told",
        client(refused(100), refused(110), refused(120), *(event(
            5, f"broker-{size}", "setting_seen", setting="message.max.bytes", value=size)
            for size in ("1048588", "2000000"))),
        found("medium", "message.max.bytes", allowed=None),
    ),
    Scenario(
        NAME, "fires", "a topic's own limit",
        client(refused(100), refused(110), refused(120), event(
            5, "c-1", "config_set", topic="t", detail="max.message.bytes to 4000")),
        found("medium", "max.message.bytes", allowed=4000),
    ),
    Scenario(
        NAME, "fires", "a batch larger than a segment",
        client(*(refused(100 + n, error="RECORD_LIST_TOO_LARGE") for n in range(3))),
        found("medium", "segment.bytes"),
    ),
    Scenario(
        NAME, "quiet", "batches that are split and sent again",
        client(*map(split, range(100, 200))), found("info", "message.max.bytes", lost=False),
    ),
    Scenario(
        NAME, "quiet", "a browser and a TLS client on the broker's port",
        client(*(closed(100 + n, 1195725856) for n in range(9)),
               *(closed(100.5 + n, 369295616) for n in range(9))),
    ),
    Scenario(NAME, "quiet", "other errors", client(refused(100, error="TIMEOUT"))),
    Scenario(
        NAME, "boundary", "two", client(refused(100), refused(110)),
        found("low", "message.max.bytes"),
    ),
    Scenario(
        NAME, "boundary", "three, five minutes apart",
        client(refused(100), refused(400), refused(700)),
        found("medium", "message.max.bytes", records=3),
    ),
    Scenario(
        NAME, "boundary", "just more than five minutes apart",
        client(refused(100), refused(400.001)),
        [{"measures": {"records": 1}}, {"measures": {"records": 1}}],
    ),
    Scenario(
        NAME, "blind", "only a controller's log",
        partial(case, files=[logs("c-1", 100, role="controller", records=9)]),
        reason="there is no clients' or brokers' log",
    ),
]  # fmt: skip
