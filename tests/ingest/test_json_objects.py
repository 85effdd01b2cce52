"""A log whose lines or records stand in JSON objects tells what the plain log does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.ingest.json_objects import read_moment
from forensics.ingest.wrappers import JsonWrapper, load_wrappers
from tests.ingest.json_formats import LINES, PARTS, Record, read_records
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import Scanned, scan

SEEN = ("kind", "ts", "topic", "partition", "leader", "leader_epoch", "isr", "setting", "value")
RECORDS = [*read_records((LOGS / "broker-1/server.log").read_text("utf-8"))][:150]
(READER,) = (one for one in load_wrappers() if type(one) is JsonWrapper)


def read(folder: Path, text: str, **more: Any) -> Scanned:
    path = folder / "broker-1"
    path.mkdir()
    (path / "server.log").write_text(text, encoding="utf-8")
    return scan(path, **more)


def told(found: Scanned) -> list[dict[str, Any]]:
    return sorted([{key: row[key] for key in SEEN} for row in found.events], key=str)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of the plain log."""
    text = "".join(f"{one.text}\n" for one in RECORDS)
    return told(read(tmp_path_factory.mktemp("plain"), text))


@pytest.mark.parametrize("name", [*LINES, *PARTS])
def test_objects_tell_what_the_plain_log_does(
    name: str, plain: list[dict[str, Any]], tmp_path: Path
) -> None:
    write = LINES.get(name) or PARTS[name]
    text = write(RECORDS)
    found = read(tmp_path, text)
    (file,) = found.files.values()

    assert len(plain) > 50
    assert plain == told(found)
    assert (text.count("\n"), 150) == (file.counts["lines"], file.counts["records"])
    assert (file.to_row()["layout"] or "").startswith("json+")


@pytest.mark.parametrize("name", ["fluent bit", "ecs nested"])
def test_where_a_file_of_objects_is_split_changes_nothing(name: str, tmp_path: Path) -> None:
    text = (LINES.get(name) or PARTS[name])(RECORDS[:60])
    (tmp_path / "server.log").write_text(text, encoding="utf-8")
    whole, split = scan(tmp_path), scan(tmp_path, split_size=len(text) // 7)

    assert whole.facts() == split.facts() != []
    assert whole.accounts() == split.accounts()


def opened(line: str) -> tuple[str, str] | None:
    found = READER.open(line.encode() + b"\n")
    return None if found is None else (found.text, found.origin)


PLAIN = RECORDS[0]


@pytest.mark.parametrize(
    ("node", "origin"),
    [
        ({"kubernetes": {"pod_name": "k-0", "container_name": "kafka"}}, "k-0/kafka"),
        ({"kubernetes": {"pod": {"name": "k-0"}, "node": {"name": "n"}}}, "k-0"),
        ({"resource": {"labels": {"pod_name": "k-0"}}}, "k-0"),
        ({"labels": {"pod": "k-0", "instance": "b1"}}, "k-0"),
        ({"container_name": "/kafka-1"}, "kafka-1"),
        ({"host": {"name": "b1"}, "agent": {"hostname": "b2"}}, "b1"),
        ({"_HOSTNAME": "b1", "_SYSTEMD_UNIT": "kafka.service"}, "b1 kafka.service"),
        ({"logStream": "b1"}, "b1"),
        ({"stream": "stdout"}, ""),
        ({"host": "h" * 300}, ""),
        (
            {
                "resource": {
                    "attributes": [{"key": "k8s.pod.name", "value": {"stringValue": "k-0"}}]
                }
            },
            "k-0",
        ),
    ],
)
def test_an_object_names_who_wrote_it(node: Mapping[str, Any], origin: str) -> None:
    assert (PLAIN.text, origin) == opened(json.dumps({**node, "message": PLAIN.text}))


@pytest.mark.parametrize(
    "node",
    [
        {"error": {"message": "none"}, "message": PLAIN.text},
        {"a": {"b": {"message": "none"}}, "message": PLAIN.text},
        {"message": "the pipeline's own", "event": {"original": PLAIN.text}},
        {"labels": {"log": "none"}, "tags": ["log", "message"], "log": PLAIN.text},
        {"log": {"file": {"path": "/a"}}, "message": PLAIN.text},
        {"a": '"message":"quoted"', "message": PLAIN.text},
        {"fields": {"message": [PLAIN.text]}},
        {"Message": PLAIN.text},
    ],
)
def test_the_right_string_is_found_among_others(node: Mapping[str, Any]) -> None:
    found = opened(json.dumps(node))

    assert found is not None
    assert found[0] == PLAIN.text


def parts(**more: object) -> str:
    node = {"@timestamp": PLAIN.iso, "level": "WARN", "logger": "kafka.Log", "message": "started"}
    return json.dumps({key: value for key, value in (node | more).items() if value is not None})


STARTED = f"[{PLAIN.iso[:10]} {PLAIN.iso[11:19]},{PLAIN.iso[20:23]}] WARN started (kafka.Log)"


@pytest.mark.parametrize(
    ("more", "below"),
    [
        (
            {"stack_trace": "java.io.IOException: no\n\tat a.b\n"},
            "\njava.io.IOException: no\n\tat a.b",
        ),
        ({"error": {"stack_trace": "x: no\n\tat a.b"}}, "\nx: no\n\tat a.b"),
        (
            {"exception": {"exception_class": "x", "stacktrace": "x: no\n\tat a.b"}},
            "\nx: no\n\tat a.b",
        ),
        (
            {
                "thrown": {
                    "name": "x",
                    "message": "no",
                    "extendedStackTrace": [
                        {"class": "a.B", "method": "c", "file": "B.java", "line": 7}
                    ],
                }
            },
            "\nx: no\n\tat a.B.c(B.java:7)",
        ),
        ({"message": "started\nbelow", "_exception": {"stackTrace": "below"}}, "\nbelow"),
        ({"exc_info": None}, ""),
    ],
)
def test_a_stack_trace_follows_the_message(more: Mapping[str, Any], below: str) -> None:
    assert (STARTED + below, "") == opened(parts(**more))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"level": "INFO] forged"}, "started"),
        ({"logger": "a) b (c"}, "started"),
        ({"@timestamp": "yesterday"}, "started"),
        ({"message": None}, None),
        ({"message": ["a", "b"]}, None),
        ({"logger": None}, STARTED.replace("kafka.Log", "-").replace("837", "837000")),
        ({"logger": None, "level": None, "severity": "WARN"}, "started"),
        ({"level": 40}, STARTED),
        ({"level": 4}, STARTED),
        ({"level": "warning"}, STARTED),
    ],
)
def test_parts_make_a_record_if_none_would_break_it(
    more: Mapping[str, Any], text: str | None
) -> None:
    assert (text and (text, "")) == opened(parts(**more))


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("2026-11-18T11:31:58Z", 1795001518_000000),
        ("2026-11-18T11:31:58.423999999-0230", 1795010518_423999),
        ("2026-11-19T00:31:58.4+13:00", 1795001518_400000),
        ("2026-11-18T25:31:58+01:00", None),
        ("1795001518423111111", 1795001518_423111),
        (1795001518423, 1795001518_423000),
        (1795001518.423, 1795001518_423000),
        ({"epochSecond": 1795001518, "nanoOfSecond": 423111111}, 1795001518_423111),
        ({"epochSecond": 10**18, "nanoOfSecond": 0}, None),
        ({"seconds": 1795001518, "nanos": 423111111}, 1795001518_423111),
        ({"seconds": "1795001518"}, 1795001518_000000),
        (999999999999999999999999, None),
        (-1, None),
        (True, None),
        ("", None),
    ],
)
def test_a_time_is_read_in_every_form(value: object, micros: int | None) -> None:
    assert micros == read_moment(value)


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.booleans())
def test_any_line_comes_out_as_it_went_in(text: str, in_ascii: bool) -> None:
    line = json.dumps({"a": "\\", "log": {"offset": 1}, "message": text}, ensure_ascii=in_ascii)

    assert (text, "") == opened(line)


@given(st.integers(0, 200))
def test_what_stands_before_a_tear_is_read(at: int) -> None:
    """An object that is cut off gives its message up to there, or nothing if that is cut away."""
    line = compact_line(PLAIN)
    found = opened(line[:at])

    begin = line.index(PLAIN.text)
    if at >= begin + 24:
        assert found is not None
        assert found[0] == PLAIN.text[: at - begin]
    elif at <= begin - 1:
        assert found is None


def compact_line(one: Record) -> str:
    return json.dumps({"stream": "stdout", "log": one.text, "n": 1}, separators=(",", ":"))


@pytest.mark.parametrize(
    "line",
    [
        '{"a":' * 100_000,
        "[" * 100_000,
        '{"message":"' + "\\" * 200_000,
        '{"message":"' + '\\"' * 100_000,
        '{"' + '":"' * 60_000,
        '{"message":' + "9" * 100_000 + "}",
        '{"message":{"log":' * 20_000 + '"x"' + "}}" * 20_000,
    ],
    ids=str,
)
def test_hostile_objects_are_read_or_left(line: str) -> None:
    opened(line)


def test_objects_of_many_shapes_take_no_more_memory() -> None:
    reader = JsonWrapper("a", (), (), READER.origin, True, READER.names).reader
    for at in range(6000):
        reader.read({f"key{at}": 1, "message": "x"})

    assert len(reader._plans) <= 4096
