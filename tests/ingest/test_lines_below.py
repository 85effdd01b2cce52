"""The lines below the first of a record belong to it, in whatever dress they come."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

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


def search(line: str, _: Record) -> str:
    return json.dumps(
        {"type": "match", "data": {"path": {"text": "a.log"}, "lines": {"text": line + "\n"}}}
    )


def driver(line: str, one: Record) -> str:
    return json.dumps(
        {"short_message": line, "host": "d1", "level": 6, "timestamp": one.millis / 1000}
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
