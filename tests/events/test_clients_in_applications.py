"""What client libraries say is read in the logs of applications, whatever these call the logger."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.scans import scan

BEGIN = datetime(2026, 11, 18, 11, 38, tzinfo=UTC)
SARAMA = (
    ("all_brokers_down", "client/metadata no available broker to send metadata request to"),
    ("client_disconnected", "producer/broker/2 state change to [closing] because EOF"),
    ("client_disconnected", "Failed to connect to broker 10.0.0.1:9092: dial tcp 10.0.0.1:9092: connect: connection refused"),  # noqa: E501
    ("client_leader_left", "producer/leader/orders/3 abandoning broker 2"),
)  # fmt: skip
PYTHON = (
    ("commit_failed", "Auto offset commit failed for group report: NodeNotReadyError: coordinator-1"),  # noqa: E501
    ("group_session_expired", "Heartbeat session expired, marking coordinator dead"),
    ("client_disconnected", "Unable connect to node with id 0: [Errno 111] Connect call failed ('10.0.0.2', 9092)"),  # noqa: E501
)  # fmt: skip
Line = Callable[[datetime, str], str]


def stamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")[:23]


def as_json(**keys: Any) -> str:
    return json.dumps(keys, separators=(",", ":"))


OF_GO: dict[str, Line] = {
    "beats": lambda t, m: as_json(
        **{"log.level": "info", "@timestamp": f"{stamp(t)}Z", "log.logger": "kafka", "message": m}
    ),
    "logrus": lambda t, m: f'time="{stamp(t)}401361Z" level=info msg="{m}\\n"',
    "zap": lambda t, m: as_json(level="info", ts=t.timestamp(), caller="kafka/log.go:53", msg=m),
    "slog": lambda t, m: as_json(time=f"{stamp(t)}000001Z", level="INFO", msg=m),
    "slog in quotes": lambda t, m: f'time={stamp(t)}Z level=INFO msg="{m}" logger=sarama',
    "slog after log": lambda t, m: f"{t:%Y/%m/%d %H:%M:%S} INFO {m}",
    "zap console": lambda t, m: f'{stamp(t)}Z\tinfo\tkafkaexporter\t{m}\t{{"kind": "exporter"}}',
    "go-kit": lambda t, m: f'ts={stamp(t)}Z caller=log.go:10 level=info component=kafka msg="{m}"',
}
OF_PYTHON: dict[str, Line] = {
    "airflow": lambda t, m: f"[{stamp(t)}+0000] {{conn.py:418}} WARNING - {m}",
    "faust": lambda t, m: f"[{stamp(t).replace('T', ' ').replace('.', ',')}] [1] [WARNING] {m}",
    "lambda": lambda t, m: f"[WARNING]\t{stamp(t)}Z\t1c8df7d3-46da-9778-518e-6eca8125cafe\t{m}",
    "structlog": lambda t, m: as_json(
        event=m, logger="app.worker", level="warning", timestamp=f"{stamp(t)}123Z"
    ),
}


SAYS = "127.0.0.1:19002/2: Disconnected: connection reset by peer (after 13605ms in state UP)"
RDKAFKA = (("client_disconnected", f"[thrd:127.0.0.1:19002/2]: {SAYS}"),)
OF_RDKAFKA: dict[str, Line] = {
    "ClickHouse": lambda t, m: (
        f"{stamp(t).replace('-', '.').replace('T', ' ')}518 [ 1135276 ] {{}} <Warning> StorageKafka"
        f" (db.queue): [client.id:ClickHouse-23f4] [rdk:FAIL] {m}"
    ),
    "Fluent Bit": lambda t, m: (
        f"[{t:%Y/%m/%d %H:%M:%S}] [ warn] [output:kafka:kafka.0] app#producer-1: {m}"
    ),
    "level and facility": lambda t, m: (
        f"[{stamp(t).replace('T', ' ')}] [27540] [error]ut.c:27(on_log):"
        f" RDKAFKA-4-FAIL: app#producer-1: {m}"
    ),
    "its own line in a message": lambda t, m: as_json(
        level="warn", ts=t.timestamp(), msg=f"got %4|{t.timestamp():.3f}|FAIL|app#producer-1| {m}"
    ),
    ".NET": lambda t, m: as_json(
        Timestamp=f"{stamp(t)}Z", LogLevel="Warning", Category="MyApp.KafkaConsumer",
        Message=f"FAIL app#producer-1 {m}", State={"Message": m, "Facility": "FAIL"},
    ),
    "Serilog": lambda t, m: as_json(
        **{"@t": f"{stamp(t)}0000Z", "@l": "Warning"},
        Facility="FAIL", Name="app#producer-1", Message=m,
    ),
    "node-rdkafka": lambda t, m: (
        f"{stamp(t)}Z  ERROR: Log:" + as_json(severity=4, fac="FAIL", message=m)
    ),
}  # fmt: skip
BROKER = {"broker": "kafka2:9092", "clientId": "my-app"}
KAFKAJS = (("client_disconnected", "[Connection] Connection timeout"),)
OF_KAFKAJS: dict[str, Line] = {
    "concurrently": lambda t, m: "[0] " + kafkajs(t, m),
    "pm2": lambda t, m: "0|my-app  | " + kafkajs(t, m),
    "compose": lambda t, m: "api_1   | " + kafkajs(t, m),
    "NestJS": lambda t, m: (
        f"[Nest] 124  - {t:%m/%d/%Y, %I:%M:%S %p}   ERROR [ClientKafka] ERROR {m} "
        + as_json(timestamp=f"{stamp(t)}Z", logger="kafkajs", **BROKER)
    ),
    "log4js": lambda t, m: f"[{stamp(t)}] [ERROR] kafkajs - {m} {as_json(**BROKER)}",
    "winston": lambda t, m: as_json(
        level="error", message=m, timestamp=f"{stamp(t)}Z", service="orders", **BROKER
    ),
}


def kafkajs(time: datetime, message: str) -> str:
    return as_json(
        level="ERROR", timestamp=f"{stamp(time)}Z", logger="kafkajs", message=message, **BROKER
    )


def read(folder: Path, lines: list[str], name: str = "client.log") -> list[tuple[str, datetime]]:
    path = folder / "app-orders" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    found = [(row["kind"], row["ts"]) for row in scan(path.parent).events]
    return sorted(found, key=lambda one: (one[1], one[0]))


def check(folder: Path, write: Line, said: tuple[tuple[str, str], ...]) -> None:
    times = [BEGIN + timedelta(milliseconds=1717 * number) for number in range(24)]
    lines = [write(time, said[at % len(said)][1]) for at, time in enumerate(times)]

    found = read(folder, lines)

    assert [kind for kind, _ in found] == [said[at % len(said)][0] for at in range(24)]
    late = [abs((time - wanted).total_seconds()) for (_, time), wanted in zip(found, times)]  # noqa: B905
    assert max(late) < 1


@pytest.mark.parametrize("name", OF_GO)
def test_the_message_alone_tells_a_library_of_go(tmp_path: Path, name: str) -> None:
    check(tmp_path, OF_GO[name], SARAMA)


@pytest.mark.parametrize("name", OF_PYTHON)
def test_the_message_alone_tells_a_library_of_python(tmp_path: Path, name: str) -> None:
    check(tmp_path, OF_PYTHON[name], PYTHON)


@pytest.mark.parametrize("name", OF_RDKAFKA)
def test_the_parts_of_a_line_of_librdkafka_are_put_together(tmp_path: Path, name: str) -> None:
    check(tmp_path, OF_RDKAFKA[name], RDKAFKA)


@pytest.mark.parametrize("name", OF_KAFKAJS)
def test_an_object_of_kafkajs_is_read_behind_anything(tmp_path: Path, name: str) -> None:
    check(tmp_path, OF_KAFKAJS[name], KAFKAJS)


@pytest.mark.parametrize(
    "message",
    [
        "Failed to connect to broker mqtt.shop:1883: dial tcp 10.0.0.7:1883: i/o timeout",
        "Stopping connector payments",
        "Cluster ID: orders",
        "sent to kafka: client/metadata no available broker to send metadata request to",
        "could not publish: Heartbeat session expired, marking coordinator dead; retrying",
        "Topic orders not found in cluster metadata, asked for it again",
    ],
)
def test_an_application_that_speaks_of_brokers_says_nothing_of_kafka(
    tmp_path: Path, message: str
) -> None:
    for write in OF_GO.values():
        assert read(tmp_path, [write(BEGIN, message)] * 12) == []
