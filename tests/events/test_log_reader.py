"""Searching for all patterns at once, and for one after the other, gives the same events."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from forensics.events.log_reader import LogReader
from forensics.events.packs import load_rule_set
from forensics.events.scan import Scanner, compile_patterns, load_scanner
from forensics.ingest.read_plan import plan_reading
from forensics.ingest.record_starts import match_starts
from forensics.lib import pattern_set, secrets
from tests.ingest.sample_archives import LOGS

Readers = tuple[LogReader, LogReader]


def read_one_by_one() -> LogReader:
    rules = load_rule_set()
    return LogReader(rules.layouts, rules.active_rules(context=True), rules.wrappers)


@pytest.fixture(scope="module")
def readers() -> Readers:
    if pattern_set.open_pattern_set(["a"]) is None:
        pytest.skip("no Hyperscan here")
    quick = read_one_by_one()
    quick.search_at_once(quick.compile_patterns())
    return read_one_by_one(), quick


def example_lines(drawn: random.Random) -> Iterator[str]:
    """Yield lines of every rule, and nearly such lines: cut, mixed, or by another logger."""
    rules = load_rule_set().rules
    lines = [e.line for rule in rules for wording in rule.wordings for e in wording.examples]
    lines += [line for rule in rules for one in rule.wordings for line in one.must_not_match]
    for line in lines:
        yield line
        other = drawn.choice(lines)
        kind = drawn.randrange(4)
        if kind == 0:
            yield line[: drawn.randrange(len(line))]
        elif kind == 1:
            yield line.rpartition("(")[0] + "(" + other.rpartition("(")[2]
        elif kind == 2:
            middle = drawn.randrange(len(line))
            yield line[:middle] + other[drawn.randrange(len(other)) :]
        else:
            yield f"{line} password=hunter{drawn.randrange(9)} {other[30:]}"


def test_lines_of_all_rules_and_nearly_such_lines(readers: Readers) -> None:
    lines = "\n".join(example_lines(random.Random(1))).split("\n")
    slow, quick = readers
    records = slow.split_records(lines)
    assert records is not None
    extracted = slow.extract(records)
    passed = slow.prefilter(extracted)
    at_once = quick.prefilter(quick.extract(records))
    assert at_once.drop_columns("probes").equals(passed.drop_columns("probes"))
    entries = slow.parse(passed)
    marked = quick.parse(at_once)
    assert marked.drop_columns("probes").equals(entries.drop_columns("probes"))
    events = slow.match(entries)
    assert quick.match(marked).equals(events)
    assert len(passed) < len(extracted)
    assert len(events) > len(load_rule_set().rules)


def test_a_recording(readers: Readers) -> None:
    splits = plan_reading([str(LOGS)]).splits
    found = [
        pa.Table.from_batches([batch for split in splits for batch in Scanner(one).scan(split)])
        for one in readers
    ]
    assert found[0].equals(found[1])
    assert len(found[0]) > 1000


def test_the_quick_way_is_taken_where_it_is_asked_for(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    search = pattern_set.PatternSet.search

    def note(self: pattern_set.PatternSet, text: npt.NDArray[np.uint8], lines: int) -> object:
        asked.append(len(self.numbers))
        return search(self, text, lines)

    monkeypatch.setattr(pattern_set.PatternSet, "search", note)
    line = "[2026-11-18 11:38:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
    for reader, expected in zip(readers, (0, 2), strict=True):
        asked.clear()
        records = reader.split_records([line])
        assert records is not None
        assert len(reader.read_events(records)) == 1
        # those of rules, and those of secrets
        assert len(asked) == expected
    assert len(secrets.list_probes()) in asked


def test_what_matches_everywhere_is_searched_one_by_one(readers: Readers) -> None:
    stated = "[2026-11-18 11:38:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
    noise = "[2026-11-18 11:38:00,000] INFO {} (kafka.server.KafkaServer)".format("starting " * 99)
    slow, quick = readers
    records = slow.split_records([stated, *[noise] * 99])
    assert records is not None
    assert quick.extract(records)["probes"].null_count == len(records.starts)
    assert len(quick.read_events(records)) == 1
    alone = quick.split_records([stated])
    assert alone is not None
    both = pa.concat_batches([quick.extract(alone), quick.extract(records)])
    assert quick.match(quick.parse(quick.prefilter(both)))["line"].to_pylist() == [1, 1]


def test_an_error_is_quoted_in_any_line_of_a_warning(readers: Readers) -> None:
    error = "Caused by: org.apache.kafka.common.errors.TimeoutException: Topic orders not present"
    lines = [
        "[2026-11-18 11:38:00,000] WARN cannot send (com.acme.Orders)", "java.lang.Oops", error,
        "[2026-11-18 11:38:01,000] INFO cannot send (com.acme.Orders)", error,
        f"[2026-11-18 11:38:02,000] ERROR {error} (com.acme.Orders)",
    ]  # fmt: skip
    for reader in readers:
        records = reader.split_records(lines)
        assert records is not None
        assert reader.prefiltered(records)["line"].to_pylist() == [1, 6]
        assert reader.read_events(records)["line"].to_pylist() == [1, 6]


LAYOUTS = (
    "[2026-11-18 11:38:0{at},000] {level} {message} ({logger})",
    "2026-11-18 11:38:0{at},000 [main] {level} {logger} - {message}",
    "2026-11-18 11:38:0{at}.000 [main] {level:5} {logger} - {message}",
    "2026-11-18 11:38:0{at},000 {level} {message} ({logger}) [main]",
)
SAID = (
    ("INFO", "kafka.server.KafkaServer", "[KafkaServer id=1] started"),
    ("ERROR", "kafka.server.Swapper", "Could not swap orders-7 to /data/2"),
    ("ERROR", "kafka.server.ReplicaManager", "Could not swap orders-8"),
    ("FATAL", "org.apache.kafka.server.Vault", "The key is gone"),
    ("ERROR", "com.example.Plugin", "kafka.server.Swapper is odd"),
    ("ERROR", "org.apache.kafka.connect.runtime.Worker", "Odd"),
    ("WARN", "kafka.server.Swapper", "ERROR is odd"),
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_errors_of_kafka_that_no_rule_knows_are_events_either_way(
    readers: Readers, layout: str
) -> None:
    lines = [
        layout.format(at=at, level=level, logger=logger, message=message)
        for at, (level, logger, message) in enumerate(SAID)
    ]
    for reader in readers:
        records = reader.split_records(lines)
        assert records is not None
        events, _ = reader.match_parts(reader.parse(reader.prefiltered(records)))
        told = [(row["line"], row["level"], row["detail"]) for row in events.to_pylist()
                if row["kind"] == "error_unread"]  # fmt: skip
        assert told == [
            (2, "ERROR", "Could not swap * to *"), (3, "ERROR", "Could not swap *"),
            (4, "FATAL", "The key is gone"),
        ]  # fmt: skip
        assert reader.match(reader.parse(reader.prefiltered(records)))["line"].to_pylist() == [1]


def test_errors_of_rules_that_give_no_event_are_known() -> None:
    shipped = load_rule_set()
    (quiet,) = (rule for rule in shipped.rules if rule.id == "raft.shutdown-failed")
    active = [rule for rule in shipped.active_rules() if rule != quiet]
    line = next(one.line for wording in quiet.wordings for one in wording.examples
                if "] ERROR " in one.line)  # fmt: skip
    for known, expected in (((quiet,), []), ((), ["error_unread"])):
        reader = LogReader(shipped.layouts, active, shipped.wrappers, known)
        records = reader.split_records([line])
        assert records is not None
        events, _ = reader.match_parts(reader.parse(reader.prefiltered(records)))
        assert events["kind"].to_pylist() == expected


def test_patterns_are_compiled_where_there_is_much_to_read(readers: Readers) -> None:
    splits = plan_reading([str(LOGS)]).splits
    assert compile_patterns(splits) == ()
    assert len(compile_patterns(splits * 4)) == len(readers)
    # Packed logs hold about ten times as much text.
    plain = replace(splits[0], size=4 << 20, begin=0, end=4 << 20)
    assert compile_patterns([plain]) == ()
    assert len(compile_patterns([replace(plain, role="stream")])) == len(readers)


def test_without_hyperscan_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forensics.lib.pattern_set.hyperscan", None)
    reader = read_one_by_one()
    assert reader.compile_patterns() == ()
    reader.search_at_once(())
    records = reader.split_records(["[2026-11-18 11:38:00,000] INFO x (y)"])
    assert records is not None
    assert len(reader.read_events(records)) == 0


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        # the names of Sarama's modules are those of loggers of other libraries
        (b"[sarama] 2026/11/18 11:38:25 client/metadata got error from broker 1: EOF", True),
        (b"2026/11/18 11:38:25 consumer/broker/1 disconnecting due to EOF", True),
        (b"2026/11/18 11:38:25 [info] [2026-11-18 11:38:25,123] INFO up (kafka.server.X)", False),
        (b"[2026-11-18T11:38:25.123+0000][info][gc] GC(0) Pause Young 16M->4M(320M) 1.5ms", True),
        (b"[2026-11-18T11:38:25.123+0000][INFO ][kafka.server.KafkaServer] started", False),
    ],
)
def test_a_layout_of_a_program_without_loggers_reads_no_records_of_kafka(
    line: bytes, is_read: bool
) -> None:
    judge = load_scanner().reader.judge
    data = np.frombuffer(line, np.uint8)
    ends = np.array([len(line)])
    kinds = match_starts(np.append(data, np.zeros(64, np.uint8)), ends * 0, ends, judge.signatures)

    read = judge.reads(pa.array([line]), kinds, np.array([True]))

    assert kinds.all()
    assert [is_read] == read.tolist()
