"""Entries meet the rules: one rule for a line, in the order of the lines."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from forensics.events.log_reader import LogReader
from forensics.events.rules import Rule
from forensics.ingest.record_splitter import RecordSplitter
from forensics.sandbox import run_lines
from forensics.schemas import EVENTS

STARTS = (
    "[2026-11-18 11:31:58,423] INFO [Broker id=1] Leader orders-v2-3 with topic id"
    " Some(mlekThOQyvRhoxmQ) starts at leader epoch {epoch} from offset 0 with partition epoch 0,"
    " high watermark 0, ISR [1,2,3], adding replicas [] and removing replicas []"
    " . Previous leader None and previous leader epoch was {previous}. (state.change.logger)"
)
UNCLEAN = (
    "[2026-11-18 11:39:28,767] INFO [QuorumController id=3001] UNCLEAN partition change for"
    " audit_log-1 with topic ID J-U4p8IiTWCbGg0PGYYtjA: isr: [] -> [1], leader: -1 -> 1,"
    " leaderRecoveryState: RECOVERED -> RECOVERING, leaderEpoch: 1 -> 2, lastKnownElr: [1] -> [],"
    " partitionEpoch: 3 -> 4 (org.apache.kafka.controller.ReplicationControlManager)"
)
UPDATED = (
    "[2026-11-18 11:51:22,793] INFO [Partition audit_log-3 broker=1] ISR updated to {} "
    " and version updated to 1 (kafka.cluster.Partition)"
)


def events(book: LogReader, text: bytes) -> list[dict[str, Any]]:
    cut = RecordSplitter(book.signatures).feed(text, final=True)
    assert cut is not None
    found = book.read_events(cut)
    assert found.schema.equals(EVENTS)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def read(book: LogReader, *lines: str) -> list[dict[str, Any]]:
    return events(book, "\n".join(lines).encode())


def test_events_come_in_the_order_of_the_lines_whatever_rule_takes_them(
    book: LogReader, rules: tuple[Rule, ...]
) -> None:
    lines = [one.line for rule in rules for wording in rule.wordings for one in wording.examples]
    lines = [line for line in lines if "\n" not in line]
    shuffled = lines[1::2] + lines[::-2]

    numbers = [event["line"] for event in read(book, *shuffled)]

    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, len(shuffled) + 1))


def test_one_rule_takes_a_line(book: LogReader, rules: tuple[Rule, ...]) -> None:
    lines = [one.line for rule in rules for wording in rule.wordings for one in wording.examples]
    taken: dict[int, set[str]] = defaultdict(set)
    for event in read(book, *lines):
        taken[event["offset"]].add(event["rule"])

    assert {len(names) for names in taken.values()} == {1}


def test_an_event_says_where_it_stands_and_what_it_rests_on(book: LogReader) -> None:
    line = UPDATED.format("1")

    (event,) = read(book, "[2026-11-18 11:00:00,000] INFO nothing (kafka.Nobody)", "", line)

    place = {name: event[name] for name in ("line", "offset", "level", "logger", "text", "rule")}
    assert place == {
        "line": 3,
        "offset": 55,
        "level": "INFO",
        "logger": "Partition",
        "text": line,
        "rule": "isr.updated@3.1",
    }
    assert event["ts"].isoformat() == "2026-11-18T11:51:22.793000+00:00"


def test_what_a_line_says_beside_its_news_was_so_at_some_earlier_time(book: LogReader) -> None:
    now, before = read(book, UNCLEAN)

    assert (now["leader"], now["leader_epoch"], now["partition_epoch"]) == (1, 2, 4)
    assert now["telling"] == "replay"
    assert (before["leader"], before["leader_epoch"], before["partition_epoch"]) == (-1, 1, 3)
    assert before["telling"] == "always"
    assert (before["topic"], before["partition"], before["controller"]) == ("audit_log", 1, 3001)


@pytest.mark.parametrize(("previous", "telling"), [("-1", "fresh"), ("4", None)])
def test_a_broker_that_knew_no_epoch_before_may_retell_an_old_start(
    previous: str, telling: str | None, book: LogReader
) -> None:
    (event,) = read(book, STARTS.format(epoch=5, previous=previous))

    assert (event["kind"], event["leader_epoch"]) == ("partition_state", 5)
    assert event["telling"] == telling


def test_a_number_that_is_too_large_does_not_lose_the_line(book: LogReader) -> None:
    (event,) = read(book, STARTS.format(epoch=99999999999, previous=1))

    assert event["leader_epoch"] is None
    assert event["topic"] == "orders-v2"


def test_bytes_that_are_no_utf_8_survive(book: LogReader) -> None:
    line = (
        b"[2026-11-18 11:51:22,793] WARN [Producer clientId=\xff\xfe] Error while fetching metadata"
        b" with correlation id 142 : {orders-v2=LEADER_NOT_AVAILABLE}"
        b" (org.apache.kafka.clients.NetworkClient)"
    )

    (event,) = events(book, line)

    assert (event["client"], event["error"]) == ("\ufffd\ufffd", "LEADER_NOT_AVAILABLE")
    assert "clientId=\ufffd\ufffd]" in event["text"]


def test_nothing_matched_is_an_empty_table_of_events(book: LogReader) -> None:
    assert read(book, "[2026-11-18 11:00:00,000] INFO nothing (kafka.Nobody)") == []


def test_crlf_changes_no_event(book: LogReader, rules: tuple[Rule, ...]) -> None:
    lines = [one.line for rule in rules for wording in rule.wordings for one in wording.examples]
    lines = [line for line in lines if "\n" not in line]
    unix = read(book, *lines)
    windows = events(book, "\r\n".join(lines).encode())

    for one in (*unix, *windows):
        del one["offset"]
    assert windows == unix


SETTINGS = (
    "[2026-11-18 11:37:51,263] INFO KafkaConfig values: ",
    "\tnode.id = 2",
    "\tnum.partitions = 1",
    "\tunclean.leader.election.enable = true",
    " (org.apache.kafka.common.config.AbstractConfig)",
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_setting_cites_its_own_line(book: LogReader, end: str) -> None:
    found = events(
        book, end.join(["[2026-11-18 11:37:51,200] INFO begin (x.Y)", *SETTINGS]).encode()
    )

    unclean = found[-1]
    assert (unclean["line"], unclean["text"]) == (5, "\tunclean.leader.election.enable = true")
    assert {one["offset"] for one in found} == {
        len("[2026-11-18 11:37:51,200] INFO begin (x.Y)" + end)
    }


def test_a_setting_in_a_message_of_one_line_cites_that_line(tmp_path: Path) -> None:
    first, *more = SETTINGS
    wrapped = json.dumps({"log": "\n".join([first, *more]) + "\n", "stream": "stdout",
                          "time": "2026-11-18T11:37:51.263Z"})  # fmt: skip

    run = run_lines({"broker-2/server.log": "\n".join([wrapped] * 3)}, tmp_path)

    rows = run.tables.read("events", ["setting", "line"]).to_pylist()
    assert [1, 2, 3] == [row["line"] for row in rows if row["setting"] == "node.id"]
