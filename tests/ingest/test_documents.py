"""Documents, tables and files with the newest record first tell what the plain log does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forensics.ingest.document_records import Document, Piece, looks_framed
from forensics.ingest.documents import find_document
from forensics.ingest.json_documents import JsonDocument
from forensics.ingest.wrapper_detection import shipped_wrappers
from tests.ingest.json_formats import DOCUMENTS, LINES, PARTS, Record, read_records
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import KINDS_OF_LINES, Scanned, scan

SEEN = ("kind", "ts", "topic", "partition", "leader", "leader_epoch", "isr", "setting", "value")
RECORDS = [*read_records((LOGS / "broker-1/server.log").read_text("utf-8"))][:150]


def read(folder: Path, text: str | bytes, **more: Any) -> Scanned:
    path = folder / "broker-1"
    path.mkdir(exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    (path / "server.log").write_bytes(data)
    return scan(path, **more)


def told(found: Scanned) -> list[dict[str, Any]]:
    return sorted([{key: row[key] for key in SEEN} for row in found.events], key=str)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of the plain log."""
    text = "".join(f"{one.text}\n" for one in RECORDS)
    return told(read(tmp_path_factory.mktemp("plain"), text))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_tells_what_the_plain_log_does(
    name: str, plain: list[dict[str, Any]], tmp_path: Path
) -> None:
    text = DOCUMENTS[name](RECORDS)
    found = read(tmp_path, text)
    (file,) = found.files.values()
    lines = text.count("\n") + (not text.endswith("\n"))

    assert len(plain) > 50
    assert plain == told(found)
    assert lines == file.counts["lines"] == sum(file.counts[kind] for kind in KINDS_OF_LINES)
    assert len(text.removeprefix("\ufeff").encode()) == file.counts["bytes"]
    assert (file.to_row()["layout"] or "").startswith("document+")
    assert file.to_row()["damaged"] is None
    check_places(name, text, found)


def check_places(name: str, text: str, found: Scanned) -> None:
    """Each event names the line and the byte that its record begins at."""
    begins = [0]
    for line in text.encode().split(b"\n"):
        begins.append(begins[-1] + len(line) + 1)
    for event in found.events:
        assert event["offset"] < begins[event["line"]]
        # A later line of a record in a table, or behind its length, is a line of the file.
        if "csv" not in name and "length" not in name:
            assert begins[event["line"] - 1] <= event["offset"]


@pytest.mark.parametrize("name", ["search response, indented", "splunk csv", "log4j2, indented"])
def test_where_a_document_is_split_changes_nothing(name: str, tmp_path: Path) -> None:
    text = DOCUMENTS[name](RECORDS)
    whole, split = read(tmp_path, text), read(tmp_path, text, split_size=9000)

    assert whole.facts() == split.facts()
    assert whole.accounts() == split.accounts()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_of_any_size_give_the_same_records(name: str) -> None:
    text = DOCUMENTS[name](RECORDS[:60]).encode()
    shipped = shipped_wrappers()
    found = []
    for size in (len(text), 1000, 37):
        document = find_document(text, shipped)
        assert document is not None
        found.append(pieces_of(document, text, size))

    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["loki", "otlp", "get-log-events", "log analytics"])
def test_blocks_of_any_size_give_the_same_records_of_a_long_document(name: str) -> None:
    """What stands around the records is known for all of them, however far away they are."""
    one = json.loads(DOCUMENTS[name](RECORDS).partition("\n{")[0])
    lists = [value for value in find_lists(one) if len(value) > 20]
    lists[0] *= -(-1_400_000 // len(json.dumps(lists[0])))
    text = json.dumps({"a": [one, one]}).encode()
    found = []
    for size in (1 << 20, 100_000):
        document = find_document(text, shipped_wrappers())
        assert document is not None
        found.append(pieces_of(document, text, size))

    assert len(text) > 5 << 19
    assert found[0] == found[1]
    assert len(found[0]) > 60 * 20
    assert len({piece.origin for piece in found[0]}) == 1


def find_lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from find_lists(inner)


def pieces_of(document: Document, text: bytes, size: int) -> list[Piece]:
    pieces: list[Piece] = []
    for at in range(0, len(text), size):
        pieces += document.feed(text[at : at + size], final=at + size >= len(text))
    return pieces


def search_response(count: int) -> tuple[str, list[Record]]:
    records = [RECORDS[at % len(RECORDS)] for at in range(count)]
    return DOCUMENTS["search response"](records), records


def test_a_document_longer_than_a_record_may_be_is_read_in_bounded_memory() -> None:
    """Elements are given out as they come, and their text is forgotten."""
    text, records = search_response(9000)
    document = find_document(text.encode(), shipped_wrappers())
    assert isinstance(document, JsonDocument)
    kept, count = 0, 0
    for at in range(0, len(text), 1 << 18):
        block = text[at : at + (1 << 18)].encode()
        pieces = document.feed(block, final=at + (1 << 18) >= len(text))
        count += len(pieces)
        kept = max(kept, len(document._text))

    assert len(text) > 3 << 20
    assert len(records) == count
    assert kept < 2 << 20


def test_origins_come_from_what_stands_around_the_records() -> None:
    two = [
        {
            "stream": {"pod": f"kafka-{pod}"},
            "values": [[one.nanos, one.text] for one in RECORDS[:5]],
        }
        for pod in (0, 1)
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "streams", "result": two}})
    document = find_document(text.encode(), shipped_wrappers())
    assert document is not None

    assert [b"kafka-0"] * 5 + [b"kafka-1"] * 5 == [
        piece.origin for piece in document.feed(text.encode(), final=True)
    ]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_is_cut_off_is_read_up_to_there(name: str, tmp_path: Path) -> None:
    text = DOCUMENTS[name](RECORDS)
    cut = text[: int(len(text) * 0.62)]
    found = read(tmp_path, cut)
    (file,) = found.files.values()

    assert cut.count("\n") + (not cut.endswith("\n")) == file.counts["lines"]
    assert len(found.events) > 10


def test_what_stands_after_damage_in_a_document_is_read(
    plain: list[dict[str, Any]], tmp_path: Path
) -> None:
    """A brace or a quote too few loses the object it is in, and no other."""
    parts = DOCUMENTS["log4j2, indented"](RECORDS).split("\n}\n")
    parts[40] = parts[40].replace('"main",', '"main,', 1)
    parts[80] = parts[80][: len(parts[80]) // 2] + "\n"
    text = "\n}\n".join(parts)
    found = told(read(tmp_path, text))

    assert len(plain) - 12 <= len(found) <= len(plain)


def test_a_document_may_be_packed(plain: list[dict[str, Any]], tmp_path: Path) -> None:
    text = DOCUMENTS["search response, indented"](RECORDS).encode()

    assert plain == told(read(tmp_path, gzip.compress(text)))


def test_text_between_objects_is_kept(plain: list[dict[str, Any]], tmp_path: Path) -> None:
    half = DOCUMENTS["log4j2, indented"](RECORDS[:70])
    rest = "".join(f"{one.text}\n" for one in RECORDS[70:])
    found = read(tmp_path, half + rest)

    assert plain == told(found)


def test_files_of_one_record_a_line_are_no_documents() -> None:
    shipped = shipped_wrappers()
    for path in LOGS.rglob("*.log*"):
        assert find_document(path.read_bytes(), shipped) is None
    for write in (*LINES.values(), *PARTS.values()):
        assert find_document(write(RECORDS).encode(), shipped) is None


def journal_export(records: list[Record], *, binary: bool) -> bytes:
    entries = []
    for one in records:
        message = one.text.encode()
        field = b"MESSAGE\n" + len(message).to_bytes(8, "little") + message if binary else b""
        field = field if binary or b"\n" in message else b"MESSAGE=" + message
        if not field:
            field = b"MESSAGE\n" + len(message).to_bytes(8, "little") + message
        stamp = f"{one.millis * 1000}".encode()
        entries.append(b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=" + stamp + b"\n_HOSTNAME=b1\n" + field)
    return b"\n\n".join(entries) + b"\n\n"


@pytest.mark.parametrize("binary", [False, True])
def test_the_journals_own_export_is_read(
    binary: bool, plain: list[dict[str, Any]], tmp_path: Path
) -> None:
    text = journal_export(RECORDS, binary=binary)
    found = read(tmp_path, text)

    assert plain == told(found)
    assert text.count(b"\n") == sum(one.counts["lines"] for one in found.files.values())


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' * 400_000,
        b"[" * (4 << 20),
        b'{"hits":['
        + b'{"message":"[2026-11-18 11:31:58,423] INFO x (a.B)"},' * 9
        + b"{" * (1 << 20),
        b'@timestamp,message\n1,"' + b"x\n" * (2 << 20),
        b"__CURSOR=1\nMESSAGE\n" + b"\xff" * (3 << 20),
        b'{\n"message": "[2026-11-18 11:31:58,423] INFO x (a.B)"\n}\n' + b'{"a"\n' * 30_000,
    ],
    ids=["objects", "lists", "open", "quote", "length", "columns"],
)
def test_hostile_documents_are_counted_in_bounded_time(text: bytes, tmp_path: Path) -> None:
    (file,) = read(tmp_path, text).files.values()

    assert text.count(b"\n") + (not text.endswith(b"\n")) == file.counts["lines"]


def test_a_dump_of_a_cluster_gives_the_logs_of_its_pods(tmp_path: Path) -> None:
    whole = "".join(f"{one.text}\n" for one in RECORDS)
    part = "".join(f"{one.text}\n" for one in RECORDS if "id=" not in one.text)
    logs = {"kafka-0": whole, "kafka-1": part}
    nodes = '{\n    "kind": "NodeList",\n    "apiVersion": "v1",\n    "items": []\n}\n'
    text = nodes * 2 + "".join(
        f"==== START logs for container kafka of pod ns/{name} ====\n{log}"
        f"==== END logs for container kafka of pod ns/{name} ====\n"
        for name, log in logs.items()
    )
    plain = read(tmp_path, logs["kafka-0"] + logs["kafka-1"])
    (file,) = (found := read(tmp_path, text)).files.values()

    assert told(plain) == told(found)
    assert len(told(found)) > 50
    assert {"kafka-0/kafka", "kafka-1/kafka"} == file.origins.keys()
    assert file.counts["lines"] == sum(file.counts[kind] for kind in KINDS_OF_LINES)


def test_events_of_a_server_are_no_yaml() -> None:
    line = json.dumps({"message": RECORDS[0].text, "pod": "a"})

    assert find_document(f"data: {line}\n\n".encode() * 40, shipped_wrappers()) is None
    assert find_document(f"id: 1\ndata: {line}\n\n".encode() * 40, shipped_wrappers()) is None


@pytest.mark.parametrize("sign", [b"\0", b" ", b"1", b"1 "])
def test_whether_messages_stand_behind_their_lengths_is_known_at_once(sign: bytes) -> None:
    """A sparse file holds megabytes of zeros; with the square of them this would never end."""
    assert not looks_framed(sign * (4 << 20))
