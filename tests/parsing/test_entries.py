"""Records become entries: the right layout, no line lost that a rule needs, few others kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from forensics.events.writers import WriterCounter
from forensics.ingest.record_splitter import Records, RecordSplitter
from forensics.parsing.entries import (
    ENTRIES,
    extract_records,
    find_layout,
    group_layouts,
    group_signatures,
    parse_records,
)
from forensics.parsing.layouts import Layout, load_layouts
from forensics.parsing.prefilter import Prefilter, first_lines, later_lines

LAYOUTS = load_layouts()
GROUPS = group_layouts(LAYOUTS)
NOON = "2026-11-18 12:00:00"
EXAMPLES = [(layout, str(example["line"])) for layout in LAYOUTS for example in layout.examples]


def cut(text: str | bytes, groups: list[list[Layout]] = GROUPS) -> Records:
    raw = text.encode() if isinstance(text, str) else text
    found = RecordSplitter(group_signatures(groups)).feed(raw, final=True)
    assert found is not None
    return found


def entries(text: str | bytes) -> list[dict[str, Any]]:
    found = cut(text)
    parsed = parse_records(found, np.arange(len(found.starts)), GROUPS)
    assert parsed.schema.equals(ENTRIES)
    rows: list[dict[str, Any]] = parsed.to_pylist()
    return sorted(rows, key=lambda row: row["line"])


def kept(sieve: Prefilter, *lines: str) -> list[int]:
    """Say which of some lines pass a sieve."""
    found = cut("\n".join(lines))
    lifted = sieve.select_by_probe(
        extract_records(found, sieve.select_by_logger(found, GROUPS), GROUPS), GROUPS
    )
    return [found.lines.tolist().index(line) for line in lifted["line"].to_pylist()]


@pytest.mark.parametrize(
    ("layout", "line"), EXAMPLES, ids=[f"{layout.id}-{n}" for n, (layout, _) in enumerate(EXAMPLES)]
)
def test_a_line_is_read_by_its_own_layout(layout: Layout, line: str) -> None:
    found = cut(line)

    assert find_layout(found, 0, GROUPS[found.kinds[0] - 1]) == layout.id


def test_two_layouts_that_start_alike_are_told_apart() -> None:
    dash = f"{NOON},001 INFO  [main] a.b.Dash - said (this) and [that]"
    strimzi = f"{NOON},002 INFO said this - and that (a.b.Strimzi) [main]"
    neither = f"{NOON},003 something else"

    read = entries(f"{dash}\n{strimzi}\n{neither}\n{dash}")

    assert cut(dash).kinds[0] == cut(strimzi).kinds[0]
    assert [(row["line"], row["logger"], row["message"]) for row in read] == [
        (1, b"Dash", b"said (this) and [that]"),
        (2, b"Strimzi", b"said this - and that"),
        (4, b"Dash", b"said (this) and [that]"),
    ]


def test_an_entry_knows_its_time_its_place_and_its_text() -> None:
    first = f"[{NOON},123] WARN one (a.B)"
    second = f"[{NOON},999] INFO two (c)"

    one, two = entries(f"{first}\n\tat more\n{second}\n")

    noon = (datetime(2026, 11, 18, 12, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    assert (one["line"], one["offset"], one["ts"]) == (1, 0, noon + 123_000)
    assert (two["line"], two["offset"], two["ts"]) == (3, len(first) + 10, noon + 999_000)
    assert (one["level"], one["logger"], one["message"]) == (b"WARN", b"B", b"one")
    assert (one["text"], one["client"]) == (first.encode(), None)


def test_a_nonsense_month_leaves_the_entry_and_takes_its_time() -> None:
    (entry,) = entries("[2026-13-18 12:00:00,123] WARN one (a.B)")

    assert (entry["ts"], entry["message"]) == (None, b"one")


def test_a_long_line_is_evidence_only_in_part() -> None:
    (entry,) = entries(f"[{NOON},123] WARN {'x' * 5000} (a.B)")

    assert len(entry["text"]) == 2000
    assert len(entry["message"]) == 5000


def test_windows_line_ends_change_no_entry() -> None:
    lines = [line for _, line in EXAMPLES]

    unix, windows = entries("\n".join(lines)), entries("\r\n".join(lines) + "\r\n")

    for row in (*unix, *windows):
        del row["offset"]
    assert windows == unix


def test_the_first_line_of_a_record_is_its_text_and_the_others_are_beside_it() -> None:
    found = cut(f"[{NOON},123] WARN one (a.B)\n\tat x\n[{NOON},124] INFO two (a.B)\n")
    rows = np.array([0], np.int64)

    assert first_lines(found, rows).to_pylist() == [f"[{NOON},123] WARN one (a.B)".encode()]
    assert later_lines(found, rows).to_pylist() == [b"\tat x\n"]


def test_what_nobody_listens_to_does_not_pass() -> None:
    texts_wanted = ["ISR updated to "]
    sieve = Prefilter({"KafkaController": texts_wanted, "Partition": texts_wanted})
    lines = [
        f"[{NOON},001] INFO ISR updated to 1 (kafka.controller.KafkaController)",
        f"[{NOON},002] INFO Cleaner 0: ISR updated to (kafka.log.LogCleaner)",
        f"[{NOON},003] INFO then ISR updated to 2 (kafka.cluster.Partition)",
        f"{NOON}.004 INFO  [main] a.Partition - ISR updated to 1",
        f"{NOON}.005 INFO  [main] a.Partition - nothing",
        "[2026-11-18T11:24:42.957+0000][gc          ] GC(0) ISR updated to nothing",
    ]

    assert kept(sieve, *lines) == [0, 2, 3]


@pytest.mark.parametrize("logger", ["a", "FAIL", "seven77", "eight888", "nine99999"])
def test_a_logger_of_any_length_is_heard(logger: str) -> None:
    sieve = Prefilter({logger: ["a"]})

    assert kept(sieve, f"[{NOON},001] INFO a (x.{logger})", f"[{NOON},001] INFO a (x.Other)") == [0]


def test_a_message_of_several_lines_is_looked_at_closely() -> None:
    """Its logger stands further down, where one look does not reach."""
    text = f"[{NOON},001] INFO first\nsecond (kafka.log.LogCleaner)\n"

    assert kept(Prefilter({"Partition": ["first"]}), text) == [0]


@pytest.mark.parametrize(
    ("message", "writer"),
    [
        ("[Broker id=7] Transitioning", "broker:7"),
        ("[QuorumController id=3001] x", "controller:3001"),
        ("[Producer clientId=app-1] x", "client:app-1"),
        ("[GroupCoordinator id=2 topic=__consumer_offsets partition=4] x", "broker:2"),
        ("[broker-1-to-controller-heartbeat-channel-manager]: x", "broker:1"),
        ("[SocketServer listenerType=CONTROLLER, nodeId=5] x", "server:5"),
        ("Registered broker 3 at path /brokers/ids/3 with addresses: x", "broker:3"),
        ("[UnifiedLog partition=orders-1, dir=/data/b1] Truncating", "folder:/data/b1"),
    ],
)
def test_a_message_names_its_writer(message: str, writer: str) -> None:
    messages = pa.array([message.encode(), b"nobody"], pa.binary())

    assert WriterCounter().count(messages, pa.nulls(2, pa.binary())) == {writer: 1}


def test_a_layout_can_name_the_client_itself() -> None:
    clients = pa.array([b"rd-1", None, b"rd-1"], pa.binary())

    assert WriterCounter().count(pa.nulls(0, pa.binary()), clients) == {"client:rd-1": 2}
