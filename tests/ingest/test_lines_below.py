"""The lines below the first of a record belong to it, in whatever dress they come."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from forensics.ingest.documents import find_document
from forensics.ingest.text_buffer import undo_breaks
from forensics.ingest.wrapper_detection import shipped_wrappers
from tests.ingest.json_formats import Record, read_records
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import KINDS_OF_LINES, Scanned, scan

SEEN = ("kind", "ts", "topic", "partition", "leader", "isr", "setting", "value", "error")
ALL = [*read_records((LOGS / "broker-1/server.log").read_text("utf-8"))]
WITH_ERRORS = [one for one in ALL[150:] if "Exception" in one.text and "\n" in one.text][:8]
RECORDS = [*ALL[:120], *WITH_ERRORS, *ALL[-5:]]


def read(folder: Path, text: str | bytes) -> Scanned:
    (folder / "broker-1").mkdir()
    data = text.encode() if isinstance(text, str) else text
    (folder / "broker-1/server.log").write_bytes(data)
    return scan(folder / "broker-1")


def told(found: Scanned) -> list[dict[str, Any]]:
    return sorted([{key: row[key] for key in SEEN} for row in found.events], key=str)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    rows = told(read(tmp_path_factory.mktemp("plain"), each(lambda one: one.text)))
    assert sum(row["kind"] == "setting_seen" for row in rows) > 50
    assert any(row["error"] for row in rows)
    return rows


def each(write: Callable[[Record], str]) -> str:
    return "".join(write(one) + "\n" for one in RECORDS)


def lines(write: Callable[[str, Record], str], records: Sequence[Record] = RECORDS) -> str:
    every = ((line, one) for one in records for line in one.text.split("\n"))
    return "".join(write(line, one) + "\n" for line, one in every)


def second(one: Record) -> str:
    return one.text[1:20]


def table(head: list[str], delimiter: str, before: bytes = b"", **how: Any) -> str:
    page = io.StringIO()
    rows = [[second(one).replace("-", "/"), "kafka-1", one.text] for one in RECORDS]
    csv.writer(page, delimiter=delimiter, lineterminator="\n", **how).writerows([head, *rows])
    return before.decode() + page.getvalue()


def escaped(text: str) -> str:
    for char, code in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("'", "\\'")):
        text = text.replace(char, code)
    return text


def turned(text: str) -> str:
    return "".join(reversed(text.splitlines(keepends=True)))


def search(line: str, _: Record) -> str:
    return json.dumps(
        {"type": "match", "data": {"path": {"text": "a.log"}, "lines": {"text": line + "\n"}}}
    )


def driver(line: str, one: Record) -> str:
    return json.dumps(
        {"short_message": line, "host": "d1", "level": 6, "timestamp": one.millis / 1000}
    )


def journal(line: str, one: Record) -> str:
    first, *rest = line.split("\n")
    below = "".join(f"\n            {more}" for more in rest)
    day = f"Wed {second(one)}.{one.millis:06d} UTC [s=7;i={one.millis:x}]"
    return f"{day}\n    _TRANSPORT=stdout\n    _HOSTNAME=b1\n    MESSAGE={first}{below}\n    _PID=1"


def exporter(one: Record) -> str:
    return (
        f"LogRecord #{one.millis}\nObservedTimestamp: {second(one)}.5 +0000 UTC\nSeverityText: \n"
        f"Body: Str({one.text})\nAttributes:\n     -> log.file.name: Str(server.log)\nFlags: 0"
    )


def expanded(one: Record) -> str:
    """Print a row as psql does with \\x."""
    first, *rest = one.text.split("\n")
    below = "".join(f"+\n        | {line}" for line in rest)
    head = f"-[ RECORD {one.millis} ]----\nid      | {one.millis}\n"
    return f"{head}message | {first}{below}\nhost    | b1"


def vertical(one: Record) -> str:
    return (
        f"{'*' * 27} {one.millis}. row {'*' * 27}\n     id: {one.millis}\n"
        f"message: {one.text}\n   host: b1"
    )


DRESSES: dict[str, Callable[[], str]] = {
    "a prefix of labels once a record": lambda: each(
        lambda one: f"{second(one).replace(' ', 'T')}Z {{name=broker-1}} {one.text}"
    ),
    "a prefix of compose once a record": lambda: each(lambda one: f"kafka-1  | {one.text}"),
    "a level where a service has its name": lambda: lines(
        lambda line, one: f"INFO   | jvm 1    | {second(one).replace('-', '/')} | {line}"
    ),
    "a string beside other strings": lambda: lines(search),
    "a level of the collector's": lambda: lines(driver),
    "the journal's fields, line by line": lambda: lines(journal),
    "the journal's fields, record by record": lambda: each(lambda one: journal(one.text, one)),
    "an exporter's fields": lambda: (
        "ResourceLog #0\nResource attributes:\n     -> host.name: Str(b1)\n" + each(exporter)
    ),
    "rows printed by psql": lambda: each(expanded),
    "rows printed by mysql": lambda: each(vertical),
    "a name behind every line": lambda: lines(lambda line, _: f"{line} (kafka/kafka-1/kafka)"),
    "columns behind every line": lambda: lines(
        lambda line, one: (
            f"{line}\tkafka-1\tPrimaryResult\t{second(one).replace(' ', 'T')}.1234567Z"
        )
    ),
    "a name behind and a time before every line": lambda: lines(
        lambda line, one: f"{second(one).replace(' ', 'T')}Z {line} <kafka-1>"
    ),
    "escaped breaks in columns": lambda: each(
        lambda one: f"{second(one)}\tb1\t{escaped(one.text)}"
    ),
    "escaped breaks in objects": lambda: each(
        lambda one: json.dumps({"log": escaped(one.text) + "\n", "stream": "stdout"})
    ),
    "escaped breaks in a plain log": lambda: each(lambda one: one.text.replace("\n", "\\n")),
    "blanks of lines below are lost": lambda: each(
        lambda one: "kafka-1  | " + "\n".join(line.strip() for line in one.text.split("\n"))
    ),
    "a short and a full message": lambda: each(
        lambda one: json.dumps(
            {"short_message": one.text.split("\n")[0], "full_message": one.text, "level": 6}
        )
    ),
    "newest first, behind a name": lambda: turned(lines(lambda line, _: f"kafka-1  | {line}")),
    "newest first, line by line": lambda: turned(
        lines(lambda line, one: f'{second(one).replace(" ", "T")}Z {{pod="kafka-1"}} {line}')
    ),
    "newest first, without a prefix": lambda: turned(each(lambda one: one.text)),
    "newest first, record by record": lambda: "".join(f"{one.text}\n" for one in reversed(RECORDS)),
    "a table with escapes": lambda: (
        "Timestamp\tBody\n" + each(lambda one: f"{second(one)}\t{escaped(one.text)}")
    ),
    "a table of Excel": lambda: table(
        ["Zeit", "Gerät", "Meldung"], ";", b"sep=;\n", quoting=csv.QUOTE_MINIMAL
    ),
    "a table with quotes between tabs": lambda: table(
        ["Time", "Pod", "Line"], "\t", quoting=csv.QUOTE_ALL
    ),
}


@pytest.mark.parametrize("name", DRESSES)
def test_lines_below_belong_to_their_record(
    name: str, plain: list[dict[str, Any]], tmp_path: Path
) -> None:
    text = DRESSES[name]()
    found = read(tmp_path, text)
    (file,) = found.files.values()

    assert plain == told(found)
    assert text.count("\n") == file.counts["lines"]
    assert text.count("\n") == sum(file.counts[kind] for kind in KINDS_OF_LINES)


def test_a_column_of_few_names_tells_nodes_apart(tmp_path: Path) -> None:
    """No name says what the column holds; that other brokers stand behind each name does."""
    rows = ["Quelle;Meldung"]
    for broker in ("1", "2", "3"):
        records = read_records((LOGS / f"broker-{broker}/server.log").read_text("utf-8"))
        rows += [f"k{broker};{one.text}" for one in records if "\n" not in one.text][-60:]
    (tmp_path / "all").mkdir()
    (tmp_path / "all/export.csv").write_text("\n".join(rows) + "\n")
    (file,) = scan(tmp_path / "all").files.values()

    assert {"?k1", "?k2", "?k3"} <= set(file.origins)


def test_names_behind_lines_tell_nodes_apart(tmp_path: Path) -> None:
    rows = []
    for broker in ("1", "2", "3"):
        records = [*read_records((LOGS / f"broker-{broker}/server.log").read_text("utf-8"))]
        rows.append(lines(lambda line, _, n=broker: f"{line} (ns/kafka-{n}/kafka)", records[:130]))  # type: ignore[misc]
    found = read(tmp_path, "".join(rows))
    (file,) = found.files.values()

    assert {"?kafka-1", "?kafka-2", "?kafka-3"} <= set(file.origins)
    assert all("(ns/" not in (row["value"] or "") for row in found.events)


def test_fields_of_a_resource_belong_to_all_its_records(tmp_path: Path) -> None:
    text = "".join(
        f"ResourceLog #0\nResource attributes:\n     -> k8s.pod.name: Str(k{n})\n" + each(exporter)
        for n in (1, 2)
    )
    (file,) = read(tmp_path, text).files.values()

    assert {"k1", "k2"} == set(file.origins)


@pytest.mark.parametrize("name", ["an exporter's fields", "newest first, line by line"])
def test_blocks_of_any_size_give_the_same_records(name: str) -> None:
    text = DRESSES[name]().encode()
    found = []
    for size in (777, len(text)):
        document = find_document(text, shipped_wrappers())
        assert document is not None
        blocks = [text[at : at + size] for at in range(0, len(text), size)]
        last = len(blocks) - 1
        found.append(
            [
                piece
                for at, one in enumerate(blocks)
                for piece in document.feed(one, final=at == last)
            ]
        )

    assert found[0] == found[1]
    for piece in found[0]:
        assert text[: piece.offset].count(b"\n") + 1 == piece.line


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"kafka-{n}  | [2026-11-18 11:31:58,423] INFO x (a.B)\n" for n in (1, 2)),
        "[2026-11-18 11:31:58,423] INFO x\n\ta.b = 1\n\tc.d = 2026-11-18 11:31:58 INFO\n (a.B)\n",
    ],
)
def test_lines_behind_names_are_no_printed_fields(text: str) -> None:
    assert find_document(text.encode() * 50, shipped_wrappers()) is None


def test_escapes_in_the_strings_of_objects_stay() -> None:
    line = rb'[t] INFO {"stack":"KafkaJSError: x\nError: y"} \n\tat a.b(C)'
    texts = pa.array([line, rb"a: \n\tb.c = 1"], pa.binary())

    both = undo_breaks(texts, np.ones(2, np.bool_)).to_pylist()
    assert [line, b"a: \n\tb.c = 1"] == both


def test_an_endless_line_among_fields_costs_no_memory() -> None:
    head = each(exporter).encode()
    document = find_document(head, shipped_wrappers())
    assert document is not None
    pieces = document.feed(head, final=False)
    for _ in range(40):
        pieces += document.feed(b"x" * (1 << 20), final=False)
    pieces += document.feed(b"\n" + head, final=True)

    assert 2 * len(RECORDS) == len(pieces)
    assert max(len(piece.text) for piece in pieces) < 3 << 20
