"""Where a file is split changes nothing: not a line, not a record, not an event."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.events import scan as scanning
from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import KINDS_OF_LINES, Scanned, scan

LINES = [
    *(LOGS / "broker-1/state-change.log").read_bytes().splitlines()[40:60],
    *(LOGS / "app-orders/client.log").read_bytes().splitlines()[-10:],
    *(LOGS / "app-rd/client.log").read_bytes().splitlines()[:3],
    b"java.io.IOException: no",
    b"\tat kafka.server.KafkaServer.startup(KafkaServer.scala:99)",
    b"",
    b"  ",
    "größe \U0001f600".encode(),
    b"\xc3 not UTF-8",
]
texts = st.builds(
    lambda lines, ends, end: ends.join(lines) + end,
    st.lists(st.sampled_from(LINES), max_size=25),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n"]),
)


def read(text: bytes, split_size: int) -> Scanned:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_bytes(text)
        return scan(path, split_size=split_size)


@pytest.mark.slow
@settings(max_examples=25)
@given(texts, st.integers(40, 6000))
def test_any_split_size_gives_the_same_accounts_and_events(text: bytes, split_size: int) -> None:
    whole, split = read(text, 64 << 20), read(text, split_size)

    assert whole.accounts() == split.accounts()
    assert whole.facts() == split.facts()
    assert [] == [
        one
        for one in split.files.values()
        if one.to_row()["damaged"] != whole.files["server.log"].to_row()["damaged"]
    ]
    assert hashlib.sha256(text).hexdigest() == split.files["server.log"].sha256


@pytest.fixture(scope="module")
def whole() -> Scanned:
    """The sample, each file in one piece."""
    return scan(LOGS)


def counted(split_size: int) -> tuple[dict[str, int], Scanned]:
    """Give how many lines `wc -l` and one for an unfinished last line say there are."""
    texts = {f"logs/{path.relative_to(LOGS)}": path.read_bytes() for path in LOGS.rglob("*.log*")}
    wanted = {
        name: text.count(b"\n") + (text[-1:] not in (b"", b"\n")) for name, text in texts.items()
    }
    return wanted, scan(LOGS, split_size=split_size)


@pytest.mark.parametrize(
    "split_size", [pytest.param(5 << 10, marks=pytest.mark.slow), 64 << 10, 64 << 20]
)
def test_lines_are_what_wc_says_at_any_split_size(split_size: int, whole: Scanned) -> None:
    wanted, found = counted(split_size)

    assert 28 == len(wanted)
    assert wanted == {name: one.counts["lines"] for name, one in found.files.items()}
    for one in found.files.values():
        assert one.counts["lines"] == sum(one.counts[name] for name in KINDS_OF_LINES)
    assert whole.accounts(after="\0") == found.accounts(after="\0")
    assert whole.facts() == found.facts()


def test_an_event_names_the_line_and_the_byte_it_stands_at(whole: Scanned) -> None:
    files = {event["file"] for event in whole.events}
    texts = {name: (LOGS.parent / name).read_bytes() for name in files}
    lines = {name: text.split(b"\n") for name, text in texts.items()}

    for event in whole.events:
        text = event["text"].encode()
        # A setting has the offset of its record.
        at = texts[event["file"]].find(text.split(b"\n")[0][:2000], event["offset"])
        assert (at == event["offset"]) != text.startswith(b"\t")
        assert lines[event["file"]][event["line"] - 1].startswith(text.split(b"\n")[0][:2000])


SPLITS = plan_reading([str(LOGS)], 40_000).splits


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """The rows of every split, each scanned by itself."""
    found = (rows for one in SPLITS for rows in load_scanner().scan(one))
    return sorted(str(row) for rows in found for row in rows.to_pylist())


@pytest.mark.parametrize(("pieces", "size"), [(1000, 32 << 20), (3, 32 << 20), (1000, 5000)])
def test_files_that_are_matched_together_give_what_each_gives_alone(
    pieces: int, size: int, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_MATCH_BATCH_PIECES", pieces)
    monkeypatch.setattr(scanning, "_MATCH_BATCH_BYTES", size)
    together = [row for rows in load_scanner().scan_all(SPLITS) for row in rows.to_pylist()]

    assert len(SPLITS) > 28
    assert alone == sorted(map(str, together))
    offsets: dict[tuple[str, int], list[Any]] = {}
    for row in together:
        offsets.setdefault((row["file"], row["split"]), []).append(row["offset"])
    # The events of a piece come in order, and before its account.
    assert all(some == sorted(some) and last is None for *some, last in offsets.values())


MESSAGES = "".join(
    f"note {at} at the end of a shift: [Partition t-{at} broker=1] Shrinking ISR from 1,2 to 1. \n"
    for at in range(30)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MESSAGES, "30 line(s) were read as no event although they say what rules look for"),
        (
            "".join(
                f"[2026-11-18 11:38:{at:02},000] INFO {line} (notes)\n"
                for at, line in enumerate(MESSAGES.splitlines())
            ),
            "30 line(s) were read as no event although they say what rules look for",
        ),
        (
            f"<?xml version='1.0'?>\n<page>\n{MESSAGES}</page>\n",
            "30 line(s) were read as no event although they say what rules look for",
        ),
        ("<?xml version='1.0'?>\n<page>\n" + "a line of text\n" * 30 + "</page>\n", None),
        ("[2026-11-18 11:38:00,000] INFO nothing happened (notes)\n" * 30, None),
    ],
    ids=["no layout", "not their layout", "a document", "a document without", "a log without"],
)
def test_messages_of_kafka_that_nobody_reads_are_said(
    text: str, says: str | None, tmp_path: Path
) -> None:
    (tmp_path / "server.log").write_text(text)
    for split_size in (64 << 20, 700):
        found = scan(tmp_path, split_size=split_size)
        (row,) = found.files[f"{tmp_path.name}/server.log"].to_rows()

        assert [] == found.events
        assert (says is None) == (row["damaged"] is None)
        assert (says or "") in (row["damaged"] or "")


def test_lines_whose_time_cannot_be_are_said(tmp_path: Path) -> None:
    line = "[2026-11-18 {}:00:03,728] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    text = line.format(23) + line.format(24) * 3 + line.format(25)
    (tmp_path / "server.log").write_text(text, "utf-8")
    for size in (1 << 20, 150):
        (file,) = scan(tmp_path, split_size=size).files.values()
        assert file.to_row()["damaged"] == (
            "4 line(s) that state something have a time that cannot be, the first is line 2"
        )
    (tmp_path / "server.log").write_text(line.format(23), "utf-8")
    (file,) = scan(tmp_path).files.values()
    assert file.to_row()["damaged"] is None


CRASH = """\
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f3c5a1b2c3d, pid=4811, tid=4902
#
# Problematic frame:
# C  [libzstd-jni-1.5.6-4.so+0x4c3d]  ZSTD_decompressBlock+0x1d
#
"""
NO_MEMORY = """\
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 12288 bytes for committing reserved memory.
"""
LAST_WORDS = [
    (CRASH, ("jvm_crashed", "SIGSEGV")),
    (NO_MEMORY, ("jvm_crashed", "out of memory")),
    ("Terminating due to java.lang.OutOfMemoryError: Java heap space\n",
     ("jvm_crashed", "OutOfMemoryError")),
    ("Aborting due to java.lang.OutOfMemoryError: Java heap space\n" + CRASH,
     ("jvm_crashed", "OutOfMemoryError")),
    ("Killed\n", ("process_ended", "SIGKILL")),
    ('bin/kafka-run-class.sh: line 347:  4811 Killed      "$JAVA" $KAFKA_HEAP_OPTS\n',
     ("process_ended", "SIGKILL")),
    ("run.sh: line 3: 17 Segmentation fault      (core dumped) java -jar x\n",
     ("process_ended", "SIGSEGV")),
    ("Killed by hand, says the operator\n", None),
    ("\tsee: # A fatal error has been detected by the Java Runtime Environment\n", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prefix", "split_size"), [("", 64 << 20), ("", 900), ("kafka-1  | ", 900)]
)
def test_what_processes_wrote_as_they_ended_has_the_time_of_the_record_before_it(
    prefix: str, split_size: int
) -> None:
    log = (LOGS / "broker-1/state-change.log").read_text("utf-8").splitlines(keepends=True)
    lines, expected = [], []
    for number, (words, fact) in enumerate(LAST_WORDS):
        lines += [*log[5 * number : 5 * number + 5], *words.splitlines(keepends=True)]
        if fact:
            expected.append((*fact, log[5 * number + 4][1:24].replace(",", ".")))
    found = read("".join(prefix + line for line in lines).encode(), split_size).events

    by_rule = (row for row in found if row["rule"] == "document.jvm")
    told = sorted(by_rule, key=lambda row: row["line"])
    assert expected == [(row["kind"], row["error"], str(row["ts"])[:23]) for row in told]
    assert all(lines[row["line"] - 1].rstrip() == row["text"] for row in told)
