"""Records that stand in parts, under names that nobody knows, are read by what the fields hold."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forensics.ingest.field_inference import learn_fields
from forensics.ingest.json_objects import ObjectReader
from tests.ingest.json_formats import Record, pretty, read_records
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import scan

COLUMNS = ("wann", "stufe", "klasse", "text")


def cells(one: Record) -> tuple[str, ...]:
    return one.iso, one.level, one.logger, one.message


def named(one: Record) -> dict[str, str]:
    return dict(zip(COLUMNS, cells(one), strict=True))


def lines(some: Iterable[object]) -> str:
    return "".join(json.dumps(one) + "\n" for one in some)


def table(rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def drawn(records: Sequence[Record]) -> str:
    rows = [" | ".join(one).replace("\n", "<br>") for one in map(cells, records)]
    return "# Logs\n\n" + "".join(
        f"| {row} |\n" for row in (" | ".join(COLUMNS), "--- | --- | --- | ---", *rows)
    )


def page(records: Sequence[Record]) -> str:
    rows = (
        "<tr>" + "".join(f"<td title='x'>{html.escape(cell)}</td>" for cell in cells(one)) + "</tr>"
        for one in records
    )
    names = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return f"<html><style>tr {{}}</style><table>\n<tr>{names}</tr>\n" + "\n".join(rows) + "</table>"


FORMS: dict[str, Callable[[Sequence[Record]], str]] = {
    "objects of own keys": lambda some: lines(map(named, some)),
    "values in objects of their types": lambda some: lines(
        {"at": {"$date": one.iso}, "r": {"s": one.level, "c": one.logger}, "t": {"S": one.message}}
        for one in some
    ),
    "rows below a schema": lambda some: json.dumps(
        {
            "schema": [{"name": name, "type": "text"} for name in COLUMNS],
            "datarows": [cells(one) for one in some],
        }
    ),
    "items of YAML": lambda some: "".join(
        "- " + "\n  ".join(f"{key}: {json.dumps(cell)}" for key, cell in named(one).items()) + "\n"
        for one in some
    ),
    "a table": lambda some: table([COLUMNS, *map(cells, some)], ";"),
    "a table of days and clocks": lambda some: table(
        [
            ("day", "clock", *COLUMNS[1:]),
            *((one.iso[:10], one.iso[11:-1], *cells(one)[1:]) for one in some),
        ]
    ),
    "a drawn table": drawn,
    "rows of a console": lambda some: "".join(
        f"{'*' * 20} {number}. row {'*' * 20}\n"
        + "".join(f"{name:>9}: {value}\n" for name, value in named(one).items())
        for number, one in enumerate(some)
    ),
    "sections": lambda some: "".join(
        "[[entry]]\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in named(one).items())
        for one in some
    ),
    "documents of XML": lambda some: "<r>\n"
    + "".join(
        "<doc>" + "".join(f'<str name="{k}"><![CDATA[{v}]]></str>' for k, v in named(one).items())
        + "</doc>\n"
        for one in some
    )
    + "</r>\n",
    "a table without a header": lambda some: table(
        (str(number), str(one.millis), *cells(one)[1:], "") for number, one in enumerate(some)
    ),
    "a page with a table": page,
    "a page with text": lambda some: "<html><title>server.log</title><body><pre>\n"
    + html.escape("".join(f"{one.text}\n" for one in some))
    + "</pre></body></html>\n",
    "a page of blocks": lambda some: "<!doctype html>\n<!-- saved -->\n<body>"
    + "".join(
        f"<div class='l'><span>{html.escape(line)}</span></div>\n"
        for one in some
        for line in one.text.split("\n")
    )
    + "</body>\n",
    "a text of a word processor": lambda some: "{\\rtf1{\\fonttbl{\\f0 A;}}\\f0\n"
    + "".join(f"{one.text}\n" for one in some)
    .replace("\\", "\\\\").replace("{", "\\{").replace("}", "\\}")
    .replace("\t", "\\tab ").replace("\n", "\\par\n")
    + "}\n",
    "what a cell of a notebook printed": lambda some: pretty(
        {
            "cells": [
                {"outputs": [{"name": "stdout", "text": [f"{line}\n" for line in text]}]}
                for text in ["".join(f"{one.text}\n" for one in some).splitlines()]
            ]
        }
    ),
    "documents of YAML with instants": lambda some: "".join(
        f"---\ninstant:\n  epochSecond: {one.millis // 1000}\n  nanoOfSecond:"
        f" {one.millis % 1000 * 1_000_000}\nlevel: {json.dumps(one.level)}\nloggerName:"
        f" {json.dumps(one.logger)}\nmessage: {json.dumps(one.message)}\n"
        for one in some
    ),
    "code in a chat": lambda some: pretty(
        [
            {"ts": str(one.millis), "text": "see\n```" + one.text.replace(">", "&gt;") + "```"}
            for one in some
        ]
    ),
}  # fmt: skip


def told(folder: Path) -> list[Any]:
    names = ("kind", "ts", "topic", "partition", "leader_epoch", "error", "setting")
    return sorted([str(row[name]) for name in names] for row in scan(folder).events)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [*read_records((LOGS / "broker-1/server.log").read_text("utf-8"))][270:700]


@pytest.fixture(scope="module")
def plain(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "server.log").write_text("".join(f"{one.text}\n" for one in records), "utf-8")
    return told(folder)


@pytest.mark.parametrize("name", FORMS)
def test_records_in_parts_are_read_by_what_the_fields_hold(
    name: str, records: list[Record], plain: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "export.txt").write_text(FORMS[name](records), "utf-8")

    assert len(plain) > 100
    assert told(tmp_path) == plain


def test_fields_of_another_program_are_nobodys() -> None:
    rows = [
        {
            "a": f"2026-11-18T11:00:{n:02}Z",
            "b": "INFO",
            "c": "com.shop.Cart",
            "d": f"paid {n} of it",
        }
        for n in range(10, 30)
    ]

    assert learn_fields(ObjectReader({}), rows) is None
    for row in rows:
        row["c"] = "kafka.server.KafkaServer"
    found = learn_fields(ObjectReader({}), rows)
    assert found is not None
    assert found.names["logger"] == ("c",)
    assert found.names["message"] == ("d",)
