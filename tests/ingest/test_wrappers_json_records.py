"""Records that are written as JSON objects read as those that Kafka itself writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.ingest.record_starts import find_lines
from forensics.ingest.wrapper_detection import to_texts
from forensics.ingest.wrappers import JsonRecordWrapper, load_wrappers
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import scan
from tests.ingest.wrapped_logs import docker_json

START = re.compile(r"\[([-\d]+ [:\d]+),(\d{3})\] (\w+) ")
LOGGER = re.compile(r" \(([\w.$]+)\)$", re.MULTILINE)
KOLKATA = timezone(timedelta(hours=5, minutes=30))
SEEN = ("kind", "ts", "topic", "partition", "leader", "leader_epoch", "isr", "setting", "value")
Parts = tuple[datetime, str, str, str]
Form = Callable[[Parts], Mapping[str, Any]]


def ecs(parts: Parts) -> Mapping[str, Any]:
    at, level, message, logger = parts
    told = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"
    return {"@timestamp": told, "ecs.version": "1.2.0", "log.level": level, "message": message,
            "process.thread.name": "main", "log.logger": logger}  # fmt: skip


def logstash(parts: Parts) -> Mapping[str, Any]:
    at, level, message, logger = parts
    return {"@timestamp": at.astimezone(KOLKATA).isoformat(), "@version": "1", "message": message,
            "logger_name": logger, "thread_name": "main", "level": level}  # fmt: skip


def log4j2(parts: Parts) -> Mapping[str, Any]:
    at, level, message, logger = parts
    instant = {"epochSecond": int(at.timestamp()), "nanoOfSecond": at.microsecond * 1000}
    return {"instant": instant, "thread": "main", "level": level, "loggerName": logger,
            "message": message, "endOfBatch": False}  # fmt: skip


def millis(parts: Parts) -> Mapping[str, Any]:
    at, level, message, logger = parts
    moment = int(at.timestamp()) * 1000 + at.microsecond // 1000
    return {"timeMillis": moment, "level": level, "loggerName": logger, "message": message}


def jboss(parts: Parts) -> Mapping[str, Any]:
    at, level, message, logger = parts
    return {"timestamp": at.isoformat(), "sequence": 1, "loggerName": logger, "level": level,
            "message": message}  # fmt: skip


FORMS: Mapping[str, Form] = {
    "record-timestamp": jboss,
    "record-ecs": ecs, "record-logstash": logstash, "record-log4j2": log4j2,
    "record-log4j2-millis": millis,
}  # fmt: skip


def records(text: str) -> Iterator[tuple[str, Parts]]:
    """Take a log of Kafka's own layout apart; gives each record as it is, and its parts."""
    starts = [*(found.start() for found in START.finditer(text)), len(text)]
    for begin, end in zip(starts, starts[1:], strict=False):
        record = text[begin:end].rstrip("\n")
        head, logger = START.match(record), LOGGER.search(record)
        if head and logger:
            at = datetime.strptime(head[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            message = record[head.end() : logger.start()] + record[logger.end() :]
            moment = at + timedelta(milliseconds=int(head[2]))
            yield record, (moment, head[3], message, logger[1])


@pytest.mark.parametrize("split_size", [5000, 64 << 20])
@pytest.mark.parametrize("name", FORMS)
def test_a_log_in_parts_tells_what_the_plain_one_does(
    name: str, split_size: int, tmp_path: Path
) -> None:
    plain = [*records((LOGS / "broker-1/server.log").read_text("utf-8"))][:700]
    for folder in ("plain", "parts"):
        (tmp_path / folder / "broker-1").mkdir(parents=True)
    text = "".join(f"{record}\n" for record, _ in plain)
    (tmp_path / "plain/broker-1/server.log").write_text(text, encoding="utf-8")
    parts = "".join(json.dumps(FORMS[name](one)) + "\n" for _, one in plain)
    (tmp_path / "parts/broker-1/server.log").write_text(parts, encoding="utf-8")

    wanted, got = scan(tmp_path / "plain"), scan(tmp_path / "parts", split_size=split_size)
    (file,) = got.files.values()

    assert {"records": 700, "lines": 700} == {k: file.counts[k] for k in ("records", "lines")}
    assert f"{name}+apache" == file.to_row()["layout"]
    assert len(wanted.events) > 100
    order = sorted([{k: row[k] for k in SEEN} for row in wanted.events], key=str)
    assert order == sorted([{k: row[k] for k in SEEN} for row in got.events], key=str)


def test_every_form_is_tried() -> None:
    assert set(FORMS) == {one.id for one in load_wrappers() if one.makes_records}


def test_a_collector_may_stand_around_them(tmp_path: Path) -> None:
    """What Docker keeps of a process that writes such objects."""
    plain = [*records((LOGS / "broker-1/server.log").read_text("utf-8"))][:60]
    lines = [json.dumps(ecs(one)).encode() for _, one in plain]
    (tmp_path / "server.log").write_bytes(docker_json(lines))
    (file,) = scan(tmp_path).files.values()

    assert ("docker-json+record-ecs+apache", 60) == (
        file.to_row()["layout"],
        file.counts["records"],
    )


def opened(line: str, name: str = "record-ecs") -> str | None:
    (wrapper,) = (one for one in load_wrappers() if one.id == name)
    assert isinstance(wrapper, JsonRecordWrapper)
    texts = wrapper.unwrap(to_texts(find_lines(line.encode() + b"\n", final=True)))
    text = texts.data[: int(texts.bounds[-1])].tobytes().decode("utf-8", "replace")
    return text.removesuffix("\n") if np.all(texts.carried) else None


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), max_size=60)
AT = datetime(2026, 11, 18, 11, 31, 58, 423_000, tzinfo=UTC)


@given(WORDS, WORDS, st.booleans())
def test_any_message_comes_out_as_it_went_in(first: str, below: str, ascii_only: bool) -> None:
    message = f"{first}\n{below}"
    line = json.dumps(ecs((AT, "INFO", message, "kafka.Log")), ensure_ascii=ascii_only)

    assert f"[2026-11-18 11:31:58,423] INFO {first} (kafka.Log)\n{below}" == opened(line)


@pytest.mark.parametrize(
    ("stamp", "told"),
    [
        ("2026-11-18T11:31:58Z", "2026-11-18 11:31:58,000"),
        ("2026-11-18T11:31:58.4Z", "2026-11-18 11:31:58,400"),
        ("2026-11-18 11:31:58,423", "2026-11-18 11:31:58,423"),
        ("2026-11-18T11:31:58.423999999-0230", "2026-11-18 14:01:58,423"),
        ("2026-11-19T00:31:58.423+13:00", "2026-11-18 11:31:58,423"),
        ("2026-11-18T25:31:58.423+01:00", None),
        ("11:31:58", None),
        ("", None),
    ],
)
def test_the_time_is_brought_to_utc_where_it_has_an_offset(stamp: str, told: str | None) -> None:
    line = json.dumps({**ecs((AT, "INFO", "started", "kafka.Log")), "@timestamp": stamp})

    assert (told and f"[{told}] INFO started (kafka.Log)") == opened(line)


@pytest.mark.parametrize(
    "more",
    [
        {"log.level": "INFO] forged"}, {"log.level": 7}, {"log.logger": ""}, {"log.logger": None},
        {"log.logger": "a) b (c"}, {"message": ["a"]},
    ],
)  # fmt: skip
def test_what_would_break_the_line_leaves_it_as_it_was(more: Mapping[str, Any]) -> None:
    line = json.dumps({**ecs((AT, "INFO", "started", "kafka.Log")), **more})

    assert opened(line) is None


def test_a_log_whose_objects_hold_whole_lines_is_read_by_those() -> None:
    """Filebeat's own objects have a time and a message, and nothing of the record's parts."""
    text = (LOGS / "broker-1/server.log").read_text("utf-8").splitlines()[:40]
    line = json.dumps({"@timestamp": "2026-11-18T11:31:58.423Z", "message": text[0]})

    assert opened(line) is None


@pytest.mark.parametrize(
    ("name", "numbers", "told"),
    [
        ("record-log4j2-millis", {"timeMillis": 99999999999999}, True),
        ("record-log4j2-millis", {"timeMillis": 999999999999999}, False),
        ("record-log4j2-millis", {"timeMillis": -1}, False),
        ("record-log4j2", {"instant": {"epochSecond": 10**18, "nanoOfSecond": 0}}, False),
        ("record-log4j2", {"instant": {"epochSecond": 1795001518}}, False),
    ],
)
def test_a_number_that_is_no_time_of_this_world_is_none(
    name: str, numbers: Mapping[str, Any], *, told: bool
) -> None:
    line = json.dumps({**FORMS[name]((AT, "INFO", "started", "kafka.Log")), **numbers})

    assert told == (opened(line, name) is not None)
