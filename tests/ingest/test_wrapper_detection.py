"""A log that was wrapped line by line says what the bare log says, wherever it is split."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.ingest import record_splitter
from forensics.ingest import wrapper_detection as unwrapping_module
from forensics.ingest.record_splitter import LineCounts, Records, RecordSplitter, SplitterOptions
from forensics.ingest.record_starts import MAX_RECORD, Signature, find_lines
from forensics.ingest.wrapper_detection import WrapperStack, detect_wrappers, to_texts
from forensics.ingest.wrappers import JsonWrapper, load_wrappers
from forensics.parsing.entries import group_layouts, group_signatures
from forensics.parsing.layouts import load_layouts
from tests.ingest.sample_archives import LOG, LOGS
from tests.ingest.scans import KINDS_OF_LINES, Scanned, scan
from tests.ingest.wrapped_logs import WRAPS, cri, docker_json, wrapper_of

TRACE = [b"java.io.IOException: no", b"\tat kafka.server.KafkaServer.startup(KafkaServer.scala:99)"]
OTHERS = [*TRACE, b"", "größe \U0001f600".encode()]
LINES = [*LOG.splitlines(), *OTHERS, *LOG.splitlines()[:9]]
# As many as several splits need: each split looks at what stands around it.
FEW_LINES = [*LOG.splitlines()[:40], *OTHERS, *LOG.splitlines()[:9]]
KNOWN = {wrapper.id: wrapper for wrapper in load_wrappers()}
SHIPPED = group_signatures(group_layouts(load_layouts()))
# What the hypothesis tests take for a record.
SHORT = [Signature.of("[dd] "), Signature.of("d|")]

LINES_OF_A_KIND = ("bytes", "lines", "long_lines", "stray_lines", "parted_lines")

Row = dict[str, Any]


def joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def read(text: bytes, split_size: int = 64 << 20) -> Scanned:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_bytes(text)
        return scan(path, split_size=split_size)


def told(found: Scanned, *places: str) -> list[Row]:
    """Give the events without their offsets, and without what else is named."""
    left_out = {"offset", *places}
    rows = [{key: row[key] for key in row if key not in left_out} for row in found.events]
    return sorted(rows, key=lambda row: (row["text"], row.get("line", 0), row["kind"], str(row)))


def counts(found: Scanned) -> dict[str, int]:
    one = found.files["server.log"]
    assert one.counts["lines"] == sum(one.counts[name] for name in KINDS_OF_LINES)
    return {name: one.counts[name] for name in ("lines", *KINDS_OF_LINES, "events")}


def row(found: Scanned) -> Row:
    return found.files["server.log"].to_row()


def texts(cut: Records | None) -> list[bytes]:
    assert cut is not None
    return [cut.data[a:b].tobytes() for a, b in zip(cut.starts, cut.ends, strict=True)]


@pytest.fixture(scope="module")
def bare() -> Scanned:
    """The log without a wrapper."""
    return read(joined(LINES))


def test_every_shipped_wrapper_is_tried() -> None:
    assert {wrapper_of(name) for name in WRAPS} == set(KNOWN)


@pytest.mark.parametrize("name", WRAPS)
def test_a_wrapped_log_says_what_the_bare_one_says(name: str, bare: Scanned) -> None:
    found = read(WRAPS[name](LINES))
    same = ("node", "role", "kafka_version", "first_ts", "last_ts", "damaged")

    assert len(bare.events) > 20
    assert told(bare) == told(found)
    assert counts(bare) == counts(found)
    assert [row(bare)[key] for key in same] == [row(found)[key] for key in same]
    assert ("apache", f"{wrapper_of(name)}+apache") == (row(bare)["layout"], row(found)["layout"])


@pytest.mark.parametrize("name", WRAPS)
def test_an_event_names_the_line_and_the_byte_it_stands_at(name: str) -> None:
    text = WRAPS[name](LINES)
    begins = np.cumsum([0, *(len(line) for line in text.splitlines(keepends=True))])

    for event in read(text).events:
        assert begins[event["line"] - 1] == event["offset"]


@pytest.mark.parametrize("split_size", [700, 4000])
@pytest.mark.parametrize("name", WRAPS)
def test_where_a_wrapped_file_is_split_changes_nothing(name: str, split_size: int) -> None:
    text = WRAPS[name](FEW_LINES)
    whole, split = read(text), read(text, split_size)

    assert whole.accounts() == split.accounts()
    assert whole.facts() == split.facts() != []
    assert row(whole)["layout"] == row(split)["layout"]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("colours", "compose"),
        ("compose", "timestamps"),
        ("docker-json", "colours"),
        ("kubectl-prefix", "timestamps"),
        ("message-json", "cri"),
    ],
)
def test_wrappers_may_be_wrapped(outer: str, inner: str, bare: Scanned) -> None:
    found = read(WRAPS[outer](WRAPS[inner](LINES).splitlines()))

    assert told(bare) == told(found)
    assert f"{wrapper_of(outer)}+{wrapper_of(inner)}+apache" == row(found)["layout"]


@pytest.mark.parametrize("pack", [gzip.compress, lambda text: text.decode().encode("utf-16")])
def test_a_wrapped_log_may_be_packed_and_have_windows_line_ends(
    pack: Callable[[bytes], bytes], bare: Scanned
) -> None:
    text = WRAPS["compose"](LINES).replace(b"\n", b"\r\n")

    assert told(bare) == told(read(pack(text)))


@pytest.mark.parametrize(("tear", "longest"), [(cri, 16384), (cri, 90), (docker_json, 16384)])
def test_torn_lines_are_put_together(tear: Callable[..., bytes], longest: int) -> None:
    """The record has the number of its first part; the others are its continuation."""
    news = next(line for line in LOG.splitlines() if b"Transition from" in line)
    long = news.replace(b"] INFO ", b"] INFO " + b"x" * 40_000, 1)
    lines = [*LINES[:50], news, long, *TRACE, *LINES[50:]]
    bare, text = read(joined(lines)), tear(lines, longest)
    found, split = read(text), read(text, 20_000)

    assert told(bare, "line") == told(found, "line")
    assert text.count(b"\n") == counts(found)["lines"]
    assert counts(bare)["records"] == counts(found)["records"]
    assert found.facts() == split.facts()
    assert found.accounts() == split.accounts()


def test_what_a_process_left_unfinished_swallows_no_record() -> None:
    """Docker tears at 16 KiB; a shorter line without a break is the end of a container."""
    record = next(line for line in LINES if b"Transition from" in line)
    left = json.dumps({"log": "starting ...", "stream": "stderr"}).encode() + b"\n"
    found = read(docker_json([record] * 20) + left + docker_json([record] * 20))

    assert 40 == counts(found)["records"]


def test_a_file_with_a_few_wrapped_lines_is_read_as_it_is(bare: Scanned) -> None:
    few = b"".join(wrap(TRACE) for wrap in WRAPS.values())
    found = read(joined(LINES) + few)

    assert "apache" == row(found)["layout"]
    assert told(bare) == told(found)


def test_plain_logs_carry_no_wrapper() -> None:
    boot = b"2026-11-18T11:36:56.674Z  WARN 3 --- [main] o.a.k.clients.NetworkClient   : x\n"

    assert detect_wrappers(boot * 9, SHIPPED) is None
    assert detect_wrappers(b"", SHIPPED) is None
    assert detect_wrappers(b"\n\n", SHIPPED) is None
    assert [] == [
        path for path in LOGS.rglob("*.log*") if detect_wrappers(path.read_bytes(), SHIPPED)
    ]


def test_records_that_look_wrapped_are_records() -> None:
    """A layout may begin as a wrapper does; only records inside make it a wrapper."""
    layout = [Signature.of("dddd-dd-ddTdd:dd:dd.dddddd")]

    assert detect_wrappers(WRAPS["timestamps"]([b"INFO one"] * 9), layout) is None
    assert detect_wrappers(WRAPS["timestamps"]([b"INFO one"] * 9), []) is not None
    assert detect_wrappers(WRAPS["cri"]([*LINES]), SHIPPED) is not None


def test_lines_without_the_wrapper_are_read_as_they_are(bare: Scanned) -> None:
    """Compose says of itself when it attaches, and when a service has ended."""
    head = b"Attaching to kafka-1, zookeeper-1\n"
    found = read(head + WRAPS["compose"](LINES) + b"kafka-1 exited with code 137\n")

    assert told(bare, "line") == told(found, "line")
    assert counts(found)["unparsed_lines"] == counts(bare)["unparsed_lines"] + 2


def test_what_one_service_says_is_no_part_of_another_s_record() -> None:
    """Lines of another service end a record; they are its own only where its own record is next."""
    lines = [
        b"a  | [12] one",
        b"a  | \tat",
        b"b  | loose",
        b"a  | \tlate",
        b"b  | 7|two",
        b"b  | x",
    ]
    cutter = RecordSplitter(SHORT, SplitterOptions(wrappers=WrapperStack((KNOWN["compose"],))))
    cut = cutter.feed(b"\n".join(lines), final=True)

    assert [b"[12] one\n\tat\n", b"7|two\nx"] == texts(cut)
    assert 1 == cutter.counts.unparsed_lines
    assert 3 == cutter.counts.continuation_lines


def opened(name: str, text: bytes) -> list[bytes]:
    found = KNOWN[wrapper_of(name)].unwrap(to_texts(find_lines(text, final=True)))
    return [found.data[a:b].tobytes() for a, b in zip(found.starts, found.stops, strict=True)]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=20), st.booleans())
def test_strings_are_read_as_json_reads_them(found: list[str], in_ascii: bool) -> None:
    rows = [{"a": "\\", "message": text} for text in found]
    raw = "".join(json.dumps(one, ensure_ascii=in_ascii) + "\n" for one in rows).encode()

    ends = ["" if text.endswith("\n") else "\n" for text in found]
    assert [text + end for text, end in zip(found, ends, strict=True)] == [
        line.decode() for line in opened("message-json", raw)
    ]


def test_parts_of_a_record_behind_lines_of_others_are_said() -> None:
    """A stack trace that another service interrupts is no longer part of its record."""
    head = b"[2026-11-18 11:38:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
    trace = [b"java.io.IOException: no", b"\tat a.b.C.d(C.java:1)"]
    others = [b"another service says something"] * 3

    def text(*lines: tuple[bytes, bytes]) -> bytes:
        return joined([name + b"  | " + line for name, line in lines])

    whole = [(b"kafka", line) for _ in range(9) for line in (head, *trace)]
    parted = [(b"kafka", head), *((b"web", line) for line in others)]
    parted += [(b"kafka", line) for line in trace]
    said = row(read(text(*whole, *parted)))["damaged"]

    assert row(read(text(*whole)))["damaged"] is None
    assert "2 line(s) that look like parts of records" in said


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (rb"a\"b\\", b'a"b\\'),
        (rb"\u00e9\u20ac\ud83d\ude00\u003c", "é€😀<".encode()),
        (rb"\ud83d|\ude00", "\ufffd|\ufffd".encode()),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀".encode()),
        (rb"\u12|\uxyzw\u", rb"\u12|\uxyzw\u"),
        (rb"\/\b\f\r\t", b"/\b\f\r\t"),
    ],
)
def test_an_escape_is_what_it_stands_for(written: bytes, meant: bytes) -> None:
    line = b'{"message":"' + written + b'"}\n'

    assert [meant + b"\n", b"as \\n it is\n", meant + b"\n"] == opened(
        "message-json", line + b"as \\n it is\n" + line
    )


HOSTILE = {
    "parts without an end": b"2026-11-18T11:31:58Z stdout P [12]\n" * 90_000,
    "a million backslashes": b'{"message":"' + b"\\" * (1 << 20),
    "a string without an end": b'{"message":"[12] ' + b"x" * (3 << 20),
    "a prefix without an end": b"k" * (3 << 20) + b"  | [12] x",
    "a line without an end": b"kafka  | [12] " + b"x" * (3 << 20),
    "colours without an end": b"\x1b[" * (1 << 20),
    "no text at all": b"kafka  | \n" * 300_000,
}


@pytest.mark.parametrize("place", ["before the line", "behind the line"])
def test_a_line_beside_something_nested_deep_is_read(place: str) -> None:
    """No parser of JSON goes so deep; what the line says is searched for then."""
    deep, lines = b'"a":' + b"[" * 20_000 + b"]" * 20_000, joined(FEW_LINES)
    wrapped = docker_json(lines.splitlines()).splitlines()
    for at in (0, 30, 45):
        inside = wrapped[at][1:-1]
        parts = (deep, inside) if place == "before the line" else (inside, deep)
        wrapped[at] = b"{" + b",".join(parts) + b"}"

    found, whole = read(joined(wrapped)), read(docker_json(lines.splitlines()))

    assert counts(found) == counts(whole)
    assert told(found) == told(whole)


@pytest.mark.parametrize("name", ["colours", "cri", "docker-json"])
@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("block", [1 << 16, 4 << 20])
def test_hostile_lines_are_counted_and_cost_no_more_than_others(
    what: str, name: str, block: int
) -> None:
    lines = WRAPS[name]([b"[12] one", b"x"]) * 2
    text = lines + HOSTILE[what] + b"\n" + lines + b"[34] " + b"x" * MAX_RECORD + b"\n" + lines
    cutter = RecordSplitter(
        SHORT, SplitterOptions(wrappers=WrapperStack((KNOWN[wrapper_of(name)],)))
    )
    for at in range(0, len(text), block):
        cutter.feed(text[at : at + block], final=at + block >= len(text))

    assert text.count(b"\n") == cutter.counts.lines
    assert len(text) == cutter.counts.bytes
    assert cutter.counts.records >= 7


def as_object(text: bytes, *, torn: bool, plain: bool) -> bytes:
    log = json.dumps(text.decode() + "\n" * (not torn)).encode()
    return text if plain else b'{"x":"\\\\","log":' + log + b',"y":1}'


INNER = st.sampled_from(
    [b"[12] hello", b"[34] x", b"7|rd", b"\tat java", b"", b"   ", b"loose", b"[1", b"\r", b'"\\"']
)
FLAGS = st.sampled_from([b" stdout F ", b" stdout P ", b" stderr P:x ", b""])
NAMES = st.sampled_from([b"a  | ", b"b  | ", b"b  |", b""])
WRAPPED = {
    "cri": st.builds(
        lambda flag, text: flag and b"2026-11-18T11:31:58Z" + flag + text, FLAGS, INNER
    ),
    "compose": st.builds(lambda name, text: name + text, NAMES, INNER),
    "docker-json": st.builds(
        lambda text, torn, plain: as_object(text, torn=torn, plain=plain),
        INNER,
        st.booleans(),
        st.booleans(),
    ),
    "colours": st.builds(lambda text: b"\x1b[1m" + text + b"\x1b[0m", INNER),
}


@st.composite
def wrapped(draw: st.DrawFn) -> tuple[WrapperStack, bytes]:
    """Draw a file and how it is wrapped."""
    name = draw(st.sampled_from(sorted(WRAPPED)))
    wrapper = KNOWN[wrapper_of(name)]
    if isinstance(wrapper, JsonWrapper):
        # So that short lines can be torn.
        wrapper = replace(wrapper, min_split_length=4)
    lines = draw(st.lists(WRAPPED[name], max_size=30))
    return WrapperStack((wrapper,)), b"\n".join(lines) + draw(st.sampled_from([b"", b"\n"]))


Found = list[tuple[int, int, bytes, bytes]]


def run(text: bytes, part: SplitterOptions, block: int, base: int) -> tuple[Found, LineCounts]:
    """Do what a reader does, with the line before the split in its hand."""
    at = part.offset
    if at:
        newline = text.find(b"\n", at - 1)
        at = len(text) if newline < 0 else newline + 1
    before = text[text.rfind(b"\n", 0, max(at - 1, 0)) + 1 : at]
    cutter = RecordSplitter(SHORT, replace(part, offset=at, before=before))
    found: Found = []
    while at < len(text) and not cutter.done:
        cut = cutter.feed(text[at : at + block], final=at + block >= len(text))
        at += block
        if cut is not None:
            found += [
                (int(line) + base, int(place), cut.data[a:b].tobytes(), cut.data[a:c].tobytes())
                for line, place, a, b, c in zip(
                    cut.lines, cut.offsets, cut.starts, cut.heads, cut.ends, strict=True
                )
            ]
    return found, cutter.counts


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(wrapped(), st.lists(st.integers(1, 900), max_size=4), st.integers(1, 90), st.booleans())
def test_any_split_and_any_block_give_the_same_records_and_the_same_account(
    file: tuple[WrapperStack, bytes],
    points: list[int],
    block: int,
    headless: bool,
) -> None:
    """Neither a line that is torn nor a service that changes depends on where the file is split."""
    unwrapping, text = file
    same_everywhere(text, SplitterOptions(headless=headless, wrappers=unwrapping), points, block)


@settings(max_examples=300, deadline=None)
@given(wrapped(), st.lists(st.integers(1, 900), max_size=4), st.integers(1, 90), st.booleans())
def test_what_is_too_long_is_cut_at_the_same_place_everywhere(
    file: tuple[WrapperStack, bytes], points: list[int], block: int, wrapped: bool
) -> None:
    unwrapping, text = file
    with pytest.MonkeyPatch.context() as patch:
        for module in (record_splitter, unwrapping_module):
            patch.setattr(module, "MAX_RECORD", 50)
        part = SplitterOptions(wrappers=unwrapping if wrapped else None)
        same_everywhere(text.replace(b"hello", b"hello" * 20), part, points, block)


def test_a_return_before_what_is_too_long_closes_the_line_everywhere() -> None:
    part = "2026-11-18T11:31:58Z stdout"
    text = f"{part} P [34] x\n{part} P \r\n{part} F [12] {'hello' * 20}".encode()
    with pytest.MonkeyPatch.context() as patch:
        for module in (record_splitter, unwrapping_module):
            patch.setattr(module, "MAX_RECORD", 50)
        same_everywhere(text, SplitterOptions(wrappers=WrapperStack((KNOWN["cri"],))), [], 1)


def same_everywhere(text: bytes, part: SplitterOptions, points: list[int], block: int) -> None:
    whole, expected = run(text, part, 1 << 20, 0)
    bounds = [0, *sorted({point for point in points if point < len(text)}), len(text)]
    found: Found = []
    total = LineCounts()
    for begin, end in zip(bounds, bounds[1:], strict=False):
        mine = replace(part, offset=begin, limit=end, continues_split=begin > 0)
        some, account = run(text, mine, block, total.lines)
        found += some
        for name in (*LINES_OF_A_KIND, *KINDS_OF_LINES):
            setattr(total, name, getattr(total, name) + getattr(account, name))
        for kind, count in account.layouts.items():
            total.layouts[kind] = total.layouts.get(kind, 0) + count
        for origin, lines in account.origins.items():
            sums = total.origins.setdefault(origin, {})
            for name, count in lines.items():
                sums[name] = sums.get(name, 0) + count

    assert found == whole
    assert total == expected
    assert total.bytes == len(text)
    assert total.lines == text.count(b"\n") + (not text.endswith(b"\n") and text != b"")
    assert total.lines == sum(getattr(total, name) for name in KINDS_OF_LINES)
