"""Applications quote errors of their Kafka clients, in lines and by loggers of their own."""

from __future__ import annotations

import pytest

from forensics.events.log_reader import LogReader
from forensics.events.packs import load_rule_set

FOUND = load_rule_set()
BOOK = LogReader(FOUND.layouts, FOUND.active_rules())
QUOTE = "org.apache.kafka.common.errors.RecordTooLargeException: The message is 9 bytes"


def told(*lines: str) -> list[tuple[str, str | None]]:
    cut = BOOK.split_records(lines)
    assert cut is not None
    events = BOOK.read_events(cut)
    return [(row["kind"], row["error"]) for row in events.select(["kind", "error"]).to_pylist()]


@pytest.mark.parametrize(
    "line",
    [
        f"[2026-06-10 12:00:00,123] ERROR oh: {QUOTE} (com.example.Orders)",
        f"[2026-06-10 12:00:00,123] ERROR oh (com.example.Orders)\nCaused by: {QUOTE}",
        f"2026-06-10 12:00:00.123 WARN [main] com.example.Orders - oh\n\n{QUOTE}",
        # Kafka Connect has a class of that name, too
        f"2026-06-10 12:00:00.123 ERROR [main] com.example.Worker - oh\n{QUOTE}",
        f"2026-06-10 12:00:00,123 ERROR orders oh: {QUOTE}",
    ],
)
def test_an_error_is_found_in_the_line_and_below_it(line: str) -> None:
    assert [("application_error", "MESSAGE_TOO_LARGE")] == told(line)


@pytest.mark.parametrize(
    "line",
    [
        f"[2026-06-10 12:00:00,123] INFO oh: {QUOTE} (com.example.Orders)",
        "[2026-06-10 12:00:00,123] ERROR org.apache.kafka.common is not here (com.example.Orders)",
        "[2026-06-10 12:00:00,123] ERROR oh (com.example.Orders)\njava.io.IOException: kafka",
        "[2026-06-10 12:00:00,123] WARN no error of any kind (com.example.Orders)",
    ],
)
def test_what_is_no_quoted_error_is_not_taken(line: str) -> None:
    assert [] == told(line)


def test_the_first_error_of_a_trace_counts_once() -> None:
    line = (
        f"2026-06-10 12:00:00.123 ERROR [main] com.example.Orders - oh\n{QUOTE}\nCaused by: {QUOTE}"
    )

    assert [("application_error", "MESSAGE_TOO_LARGE")] == told(line)


def test_a_rule_that_knows_the_logger_comes_first() -> None:
    line = (
        "[2026-06-10 12:00:00,123] WARN [Producer clientId=orders] Error while fetching metadata"
        " with correlation id 142 : {orders-v2=LEADER_NOT_AVAILABLE} "
        f"(org.apache.kafka.clients.NetworkClient)\n{QUOTE}"
    )

    assert [("client_error", "LEADER_NOT_AVAILABLE")] == told(line)
