"""Who wrote a line is found in fields of any name, if lines that name their server agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forensics.ingest.field_inference import find_writer_field
from forensics.ingest.json_objects import ReadObject
from tests.ingest.json_formats import Record, pretty, read_records
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import Scanned, scan

Written = Sequence[tuple[str, Record]]
NODES = ("broker-1", "broker-2", "broker-3")
FORMS: dict[str, Callable[[Written], str]] = {
    "key of a topic": lambda some: "".join(
        json.dumps({"topic": "logs", "broker": 1, "key": node, "payload": one.text}) + "\n"
        for node, one in some
    ),
    "tag in an event, beside the host of all": lambda some: "".join(
        json.dumps({"event": {"line": one.text, "tag": f"kafka/{node}"}, "host": "docker-1"}) + "\n"
        for node, one in some
    ),
    "hits with a source": lambda some: json.dumps(
        {"messages": [{"message": {"source": n, "message": one.text}} for n, one in some]}
    ),
    "indented": lambda some: pretty([{"ort": node, "roh": one.text} for node, one in some]),
    "column behind a number": lambda some: "".join(
        f"CreateTime:{one.millis}\t{node}\t{line}\n"
        for node, one in some
        for line in one.text.split("\n")
    ),
    "labels before the line, most the same for all": lambda some: "".join(
        f"Integration Name: kafka | Type: file | Status: info | Timestamp: {one.iso} | Hostname:"
        f" {node} | Service: kafka | Source: kafka | Tags: name:server.log,dir:/var/log/kafka |"
        f" Message: {line}\n"
        for node, one in some
        for line in one.text.split("\n")
    ),
}


def placed(found: Scanned) -> list[tuple[Any, ...]]:
    return sorted((row["kind"], row["ts"], row["node"] or "") for row in found.events)


@pytest.fixture(scope="module")
def written() -> Written:
    """The first records of three brokers, in the order of time."""
    texts = {node: (LOGS / node / "server.log").read_text("utf-8") for node in NODES}
    some = [(node, one) for node, text in texts.items() for one in [*read_records(text)][:120]]
    return sorted(some, key=lambda one: one[1].at)


@pytest.fixture(scope="module")
def plain(written: Written, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """What a log of each broker gives."""
    folder = tmp_path_factory.mktemp("plain")
    for node in NODES:
        (folder / node).mkdir()
        text = "".join(f"{one.text}\n" for name, one in written if name == node)
        (folder / node / "server.log").write_text(text, "utf-8")
    return placed(scan(folder))


@pytest.mark.parametrize("name", FORMS)
def test_a_field_of_any_name_tells_the_nodes_apart(
    name: str, written: Written, plain: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "export.txt").write_text(FORMS[name](written), "utf-8")
    found = placed(scan(tmp_path))

    assert {node for _, _, node in plain} == set(NODES)
    assert plain == found


def seen(**columns: Sequence[str]) -> list[tuple[dict[str, str], ReadObject]]:
    text = "[2026-11-18 11:38:51,321] INFO [Broker id={}] started (state.change.logger)"
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [(row, ReadObject(text.format(row.pop("id")), "", False, None)) for row in rows]


def test_a_field_that_lines_contradict_tells_nobody() -> None:
    ids = "121212"

    assert find_writer_field(seen(id=ids, zone="aaabbb", wer="pqpqpq")) == "wer"
    assert find_writer_field(seen(id=ids, zone="aaabbb")) is None
    assert find_writer_field(seen(id=ids, level=["INFO", "WARN"] * 3)) is None
    assert find_writer_field(seen(id=ids, wer="aaaaaa")) is None


def test_a_known_name_of_several_writers_goes_before_all_others() -> None:
    rows = seen(id="121212", wer="pqpqpq")
    told = [(row, one._replace(origin=row["wer"])) for row, one in rows]

    assert find_writer_field(told) is None
