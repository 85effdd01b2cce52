"""A wrapper is checked against its own lines, and what is wrong with it is said with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.ingest.record_starts import find_lines
from forensics.ingest.wrapper_detection import check_wrappers, to_texts
from forensics.ingest.wrappers import JsonWrapper, load_wrappers
from forensics.parsing.entries import group_layouts, group_signatures
from forensics.parsing.layouts import load_layouts

SOUND = """\
id: bar
match: "{origin:name} {torn:flag}| {line}"
torn: P
examples:
  - line: "kafka P| text"
    gives: {line: text, origin: kafka, torn: true}
  - line: "kafka F| text"
    gives: {line: text, origin: kafka, torn: false}
refuses:
  - "kafka | text"
"""


def problems(folder: Path, text: str, *, plain: tuple[str, ...] = ()) -> list[str]:
    path = folder / "bar.yaml"
    path.write_text(text)
    return [f"{one.line}: {one.message}" for one in check_wrappers((), plain, [path])]


def test_the_shipped_wrappers_hold_and_leave_every_layout_alone() -> None:
    layouts = load_layouts()
    plain = [str(one["line"]) for layout in layouts for one in layout.examples]

    assert [] == list(check_wrappers(group_signatures(group_layouts(layouts)), plain))
    assert len(load_wrappers()) > 10
    assert len(plain) > 5


def test_a_sound_wrapper_has_no_problems(tmp_path: Path) -> None:
    assert [] == problems(tmp_path, SOUND, plain=("[2026-11-18] kafka F| text",))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("line: text, origin: kafka, torn: true", "line: other", "5: gives line: expected 'other'"),
        ("origin: kafka, torn: false", "origin: b", "7: gives origin: expected 'b', got 'kafka'"),
        ("torn: true}", "torn: false}", "5: gives torn: expected False, got True"),
        ("torn: false}", "ts: 1}", "7: gives ts: a wrapper gives line, origin, torn"),
        ('"kafka | text"', '"kafka F| text"', "10: wrapper bar opens a line that it must refuse"),
        ('"kafka F| text"', '"kafka text"', "7: the example is opened by no wrapper, not by bar"),
        ("| {line}", "| ", "2: 'match' must end with {line}"),
        ("{line}", "{line} ", "2: 'match' must end with {line}"),
        ("{origin:name}", "{host:name}", "2: 'match' must end with {line}"),
        ("{origin:name}", "{origin:nome}", "1: there is no type 'nome'"),
        ("torn: P\n", "tears: P\n", "3: wrapper: unknown key 'tears'"),
        ("torn: P\n", "json: log\n", "1: wrapper: must have one of match, json, pairs, remove"),
        ("match:", "remove: x\nabout:", "8: gives line"),
        ('match: "{origin:name} {torn:flag}| {line}"', 'remove: "("', "1: missing ), unterm"),
        ("id: bar\n", "", "1: wrapper: no 'id'"),
    ],
)
def test_a_problem_is_said_with_its_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    found = problems(tmp_path, SOUND.replace(old, new, 1))

    assert any(one.startswith(says) for one in found), found


def test_a_line_of_a_layout_must_not_be_opened(tmp_path: Path) -> None:
    line = "kafka F| text"

    assert [f"1: wrapper bar opens the example of a layout: {line!r}"] == problems(
        tmp_path, SOUND, plain=(line,)
    )


def test_an_id_may_be_taken_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_text(SOUND)

    assert [f"id 'bar' is taken by {paths[0]}"] == [
        one.message for one in check_wrappers((), (), paths) if "taken" in one.message
    ]


@pytest.mark.parametrize(
    ("json", "says"),
    [
        ("log", "'json' must name the keys of 'message'"),
        ("{time: t}", "'json' must name the keys of 'message'"),
        ("{message: m, text: m}", "'json' has an unknown part 'text'"),
        ("{message: [m, 7]}", "'json' must name keys of 'message'"),
        ("{message: {a: b}}", "'json' must name keys of 'message'"),
    ],
)
def test_what_an_object_holds_is_checked(tmp_path: Path, json: str, says: str) -> None:
    text = f"id: foo\njson: {json}\nexamples: []\nrefuses: []\n"
    (found,) = problems(tmp_path, text)

    assert found.startswith("2: ")
    assert says in found


TEXTS = (
    "[2026-11-18 11:31:58,423] INFO a\n", "\tat a.b", " at", "", "\\n", "a\\",
    'q"\t', "x\n\n", "\ud83d|",
    "größe \U0001f600", "\\\\n", "\n", "a" * 20_000, "end\u000a",
)  # fmt: skip
FRAMES: tuple[dict[str, object], ...] = (
    {}, {"stream": "stdout", "time": "2026-11-18T11:31:58.423Z"}, {"logtag": "P"}, {"logtag": "F"},
    {"kubernetes": {"pod_name": "kafka-0", "labels": {"a": "b"}}}, {"level": "INFO"},
    {"kubernetes": {"labels": {"level": "INFO", "logger": "x"}}}, {"message": "other"},
    {"host": "b1", "_SYSTEMD_UNIT": "kafka"}, {"more": [1]}, {"logger": "kafkajs"},
    {"log.level": "WARN"},
)  # fmt: skip


@pytest.mark.parametrize("ascii_only", [True, False])
def test_lines_that_are_read_quickly_are_read_alike(
    ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        json.dumps({**frame, "log": text, "z": number}, ensure_ascii=ascii_only)
        for number, frame in enumerate(FRAMES)
        for text in TEXTS
        if ascii_only or not text.startswith("\ud83d")
    ]
    text = "".join(row + "\n" for row in [*rows, *rows[::-1], '{"log":"cut of']).encode()
    (wrapper,) = (one for one in load_wrappers() if type(one) is JsonWrapper)

    quick = wrapper.unwrap(to_texts(find_lines(text, final=True)))
    monkeypatch.setattr("forensics.ingest.json_wrappers._Frames.read", lambda *_: None)
    slow = wrapper.unwrap(to_texts(find_lines(text, final=True)))

    assert quick.to_arrow() == slow.to_arrow()
    assert quick.origins == slow.origins
    assert quick.continues.tolist() == slow.continues.tolist()
    assert quick.carried.tolist() == slow.carried.tolist()
