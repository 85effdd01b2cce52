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
