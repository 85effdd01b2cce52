"""What several files of a node repeat counts once, and what one file repeats stays."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.events.file_accounts import FileAccount
from forensics.events.repeated_lines import (
    RepeatCounter,
    RepeatMarker,
    digest_events,
    find_comparable_files,
    find_copies,
    mark_duplicates,
    name_by_repeats,
    note_repeats,
    rank_files,
    sum_counts,
)
from forensics.sandbox import SandboxRun, run_archives
from forensics.schemas import EVENTS
from tests.ingest.sample_archives import write
from tests.ingest.whole_runs import read
from tests.ingest.written_logs import PLAIN

ARCHIVE = Path(__file__).parents[2] / "sample_logs/430-listener/logs.tar.gz"
FILES = ("server.log", "controller.log", "kafkaServer.out", "old.log")

Row = dict[str, Any]


def events(*rows: Row) -> pa.RecordBatch:
    usual = {"node": "broker-1", "kind": "isr_shrink", "rule": "r", "offset": 0}
    return pa.RecordBatch.from_pylist([usual | row for row in rows], schema=EVENTS)


def digested(batch: pa.RecordBatch, *compared: str) -> pa.RecordBatch:
    found = pa.Table.from_batches([digest_events(frozenset(compared))(batch)])
    return found.sort_by("digest").combine_chunks().to_batches()[0]


def account(file: str, first: int, last: int, *rules: str, node: str = "broker-1") -> FileAccount:
    return FileAccount(file, first=first, last=last, rules=Counter(rules), node=node)


def test_only_files_of_a_node_that_overlap_and_know_the_same_rules_are_compared() -> None:
    files = [
        account("a/server.log.1", 0, 10, "start"),
        account("a/server.log", 10, 20, "start"),
        account("a/controller.log", 0, 20, "start"),
        account("b/server.log", 0, 20, "start", node="broker-2"),
        account("b/state-change.log", 0, 20, "leader", node="broker-2"),
        account("c/server.log", 0, 20, "start", node="broker-3"),
        account("c/kafkaServer.out", 5, 30, "start", "leader", node="broker-3"),
    ]

    own = {"a/server.log.1", "a/server.log", "a/controller.log"}
    assert find_comparable_files(files) == own | {"c/server.log", "c/kafkaServer.out"}


def test_files_with_the_same_times_are_compared_however_short_they_are() -> None:
    files = [account("server.log", 5, 5, "start"), account("copy/server.log", 5, 5, "start")]

    assert find_comparable_files(files) == {"server.log", "copy/server.log"}


@pytest.mark.parametrize("moment", [0, 10, 20])
def test_a_file_of_one_moment_is_compared_with_those_around_it(moment: int) -> None:
    files = [account("server.log", 0, 20, "start"), account("tail.log", moment, moment, "start")]

    assert find_comparable_files(files) == {"server.log", "tail.log"}


def test_a_file_of_one_moment_after_all_others_is_compared_with_none() -> None:
    files = [account("server.log", 0, 20, "start"), account("tail.log", 30, 30, "start")]

    assert not find_comparable_files(files)


def test_of_equal_files_the_log_that_kafka_calls_so_counts() -> None:
    names = ("a/kafkaServer.out", "a/server.log")
    files = {name: FileAccount(name, counts=Counter(bytes=9), sha256="same") for name in names}

    mark_duplicates(files)

    assert [files[name].duplicate_of for name in names] == ["a/server.log", None]


@pytest.mark.parametrize("times", [2, 3])
def test_a_log_that_was_put_behind_itself_counts_once(times: int, tmp_path: Path) -> None:
    """As by `kubectl logs kafka-0 >> all.log`, done again."""
    once = read(write(tmp_path / "once/logs", PLAIN))
    name = "broker-1/server.log"
    found = read(write(tmp_path / "again/logs", PLAIN | {name: PLAIN[name] * times}))

    assert once.facts() == found.facts()
    (told,) = [one for one in found.files if one["file"].endswith(name)]
    assert told["duplicate_of"] is None
    assert told["duplicate_lines"] > 20 * (times - 1)


def test_what_kafka_logs_twice_counts_once_and_is_no_copy(tmp_path: Path) -> None:
    """From 3.0 to 3.9 a controller writes its lines into server.log and controller.log."""
    lines = PLAIN["controller-1/controller.log"]
    more = b"[2026-11-18 11:40:51,807] INFO Kafka version: 3.9.1 (o.a.k.utils.AppInfoParser)\n"
    once = read(write(tmp_path / "once/logs", {"controller-1/server.log": lines + more}))
    tree = {"controller-1/server.log": lines + more, "controller-1/controller.log": lines}
    twice = read(write(tmp_path / "twice/logs", tree))

    assert len(once.rows) > 50
    assert once.facts() == twice.facts()
    told = {one["file"].rpartition("/")[2]: one for one in twice.files}
    assert told["controller.log"]["duplicate_of"] is None
    assert not told["controller.log"]["duplicate_lines"]
    assert told["server.log"]["duplicate_lines"]


def test_kafkas_own_logs_keep_what_copies_have_too() -> None:
    names = ["a/kafkaServer.out", "a/server.log.bak", "old/a/server.log", "a/server.log",
             "a/controller.log"]  # fmt: skip

    assert rank_files(FileAccount(name) for name in names) == (
        "a/controller.log", "a/server.log", "old/a/server.log", "a/server.log.bak",
        "a/kafkaServer.out",
    )  # fmt: skip


@pytest.mark.parametrize(
    "other", [{"ts": 2}, {"node": "broker-2"}, {"rule": "q"}, {"partition": 1}, {"isr": [1, 2]}]
)
def test_events_that_differ_in_anything_that_they_state_differ_in_their_digest(other: Row) -> None:
    same: Row = {"ts": 1, "file": "x", "line": 1, "isr": [1], "partition": 0}
    batch = events(same, {**same, "file": "y", "line": 9, "text": "z"}, {**same, **other})

    digests = digest_events(frozenset({"x", "y"}))(batch)["digest"].to_pylist()

    assert digests[0] == digests[1] != digests[2]


def test_numbers_that_change_places_make_another_digest() -> None:
    """Leader 3 in epoch 1 is not leader 2 in epoch 2, though columns stand side by side."""
    pairs = [(leader, epoch) for leader in range(20) for epoch in range(20)]
    batch = events(
        *({"ts": 1, "file": "x", "line": 1, "leader": one, "leader_epoch": two}
          for one, two in pairs)
    )  # fmt: skip

    digests = digest_events(frozenset({"x"}))(batch)["digest"].to_pylist()

    assert len(set(digests)) == len(pairs)


def test_an_event_without_time_or_in_a_file_that_is_not_compared_has_a_digest_of_its_own() -> None:
    rows: list[Row] = [{"ts": None, "file": "x"}, {"ts": None, "file": "y"}]
    rows += [{"ts": 1, "file": "z"}, {"ts": 1, "file": "z"}]
    batch = events(*(row | {"line": 1} for row in rows))

    digests = digest_events(frozenset({"x", "y"}))(batch)["digest"]

    assert len(pc.unique(digests)) == 4


counts = st.dictionaries(
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(FILES), st.integers(1, 3), min_size=1),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(counts, st.lists(st.integers(0, 30), max_size=5))
def test_the_most_of_one_log_and_of_copies_stays(
    facts: Mapping[int, Mapping[str, int]], cuts: list[int]
) -> None:
    rows = [
        {"ts": fact, "file": file, "line": 10 * fact + number, "offset": number}
        for fact, files in facts.items()
        for file, count in files.items()
        for number in range(count)
    ]
    batch = digested(events(*rows), *FILES)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [batch.slice(begin, end - begin) for begin, end in pairwise(edges)]

    marked = [row for part in RepeatMarker(FILES)(iter(parts)) for row in part.to_pylist()]

    kept = Counter(row["line"] // 10 for row in marked if row["repeats"] is None)
    assert len(marked) == len(rows)
    assert dict(kept) == {fact: max(files.values()) for fact, files in facts.items()}


def test_repeated_lines_are_counted_by_file_and_original_whatever_the_batches_are() -> None:
    same = {"node": "n", "repeats": "a"}
    rows: list[Row] = [same | {"file": "b", "line": line} for line in (1, 1, 2, 3, 3)]
    rows += [same | {"file": "c", "line": 3}]
    own = [EVENTS.field(name) for name in ("file", "node", "line")]
    schema = pa.schema([*own, ("repeats", pa.string())])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    parts = [batch.slice(0, 1), batch.slice(1, 3), batch.slice(4)]

    counted = pa.Table.from_batches(RepeatCounter()(iter(parts)))
    accounts = {name: FileAccount(name, counts=Counter(records=9, lines=9)) for name in "abc"}
    accounts["b"].counts["events"], accounts["c"].counts["events"] = 5, 5
    note_repeats(accounts, pa.concat_tables([sum_counts(counted.slice(n, 1)) for n in (0, 1)]))
    find_copies(accounts.values())

    told = {name: one.to_row() for name, one in accounts.items()}
    assert [told[name]["duplicate_lines"] for name in "abc"] == [0, 3, 1]
    assert [told[name]["records"] for name in "abc"] == [9, 6, 8]
    assert [told[name]["events"] for name in "abc"] == [0, 0, 4]
    assert [told[name]["duplicate_of"] for name in "abc"] == [None, "a", None]


def _unpack(target: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        # What a copy repeats is in its own broker's logs.
        own = [one for one in archive if "/broker-1" in one.name]
        archive.extractall(target, own)
    return target


def _facts(run: SandboxRun) -> Counter[str]:
    names = [name for name in EVENTS.names if name not in ("file", "line", "offset", "text")]
    rows = ds.dataset(run.tables.folder / "events").to_table(names).to_pylist()
    return Counter(map(repr, rows))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[str]]:
    """A tree as it was recorded, and its facts."""
    folder = tmp_path_factory.mktemp("plain")
    tree = _unpack(folder / "logs")
    return tree, _facts(run_archives([str(tree)], folder / "out"))


def _as_output(text: bytes) -> bytes:
    return b"Java says something\n" + text + b"and something else\n"


def _first_half(text: bytes) -> bytes:
    return text[: text.index(b"\n[", len(text) // 2) + 1]


def _second_half(text: bytes) -> bytes:
    return text.removeprefix(_first_half(text))


def _wrapped(text: bytes) -> bytes:
    return b"".join(b"kafka-1  | " + line for line in text.splitlines(keepends=True))


def _cut_in_a_record(text: bytes) -> bytes:
    """Return a log up to the first line of a record of which later lines tell something."""
    head = text.index(b"Error sending fetch request")
    return text[: text.index(b"\n", head) + 1]


def _grepped(text: bytes) -> bytes:
    return b"".join(
        b"server.log:" + line for line in text.splitlines(keepends=True) if line.startswith(b"[")
    )


COPIES = {
    "cut off in a record": ("cut.log", _cut_in_a_record),
    "without all lines that begin no record": ("grepped.txt", _grepped),
    "the same beside it, with lines of others": ("kafkaServer.out", _as_output),
    "with other line breaks": ("crlf.log", lambda text: text.replace(b"\n", b"\r\n")),
    "its last lines": ("server.log.tail", _second_half),
    "as it was before": ("old/server.log", _first_half),
    "in a wrapper": ("docker.log", _wrapped),
}  # fmt: skip


@pytest.mark.parametrize("which", COPIES)
def test_a_copy_of_a_log_adds_nothing(
    which: str, plain: tuple[Path, Counter[str]], tmp_path: Path
) -> None:
    tree, facts = plain
    name, make = COPIES[which]
    logs = tmp_path / "logs"
    for path in sorted(tree.rglob("*.log")):
        target = logs / path.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    log = next(iter(sorted(logs.rglob("broker-1/server.log"))))
    copy = log.parent / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(make(log.read_bytes()))

    run = run_archives([str(logs)], tmp_path / "out")

    assert _facts(run) == facts
    told = next(one.to_row() for one in run.files.values() if one.file.endswith(f"broker-1/{name}"))
    assert told["duplicate_lines"] > 0
    assert told["duplicate_of"].endswith("broker-1/server.log")
    coverage = run.tables.read("coverage", ["log"]).to_pylist()
    assert {row["log"] for row in coverage if row["log"]}.isdisjoint({"all"})


def _later(text: bytes) -> bytes:
    """Return a log as a process that was started 37 seconds later, and refused, would write it."""
    text = re.sub(
        rb"Successfully registered broker (\d+) with broker epoch \d+",
        rb"Unable to register broker \1 because the controller returned error"
        rb" DUPLICATE_BROKER_REGISTRATION",
        text,
    )
    lines = [line for line in text.splitlines(keepends=True) if line[:1] == b"["]
    moment = [datetime.fromisoformat(line[1:20].decode()) for line in lines]
    return b"".join(
        b"[" + str(at + timedelta(seconds=37)).encode() + line[20:]
        for at, line in zip(moment, lines, strict=True)
    )


def test_a_second_process_with_the_id_of_a_broker_says_nothing_of_that_broker(
    plain: tuple[Path, Counter[str]], tmp_path: Path
) -> None:
    tree, facts = plain
    log = next(iter(sorted(tree.rglob("broker-1/server.log"))))
    second = tmp_path / "host-b/server.log"
    second.parent.mkdir()
    second.write_bytes(_later(log.read_bytes()))

    run = run_archives([str(tree), str(second.parent)], tmp_path / "out")

    [refused] = (_facts(run) - facts).elements()
    assert "DUPLICATE_BROKER_REGISTRATION" in refused
    assert not facts - _facts(run)
    told = run.files["host-b/server.log"].to_row()
    assert (told["node"], told["role"]) == (None, None)
    assert "of a second process with the id of broker-1" in told["damaged"]


def test_both_processes_may_have_their_logs_in_one_folder(
    plain: tuple[Path, Counter[str]], tmp_path: Path
) -> None:
    tree, facts = plain
    logs = tmp_path / "logs"
    shutil.copytree(tree, logs)
    log = next(iter(sorted(logs.rglob("broker-1/server.log"))))
    (log.parent / "server-again.log").write_bytes(_later(log.read_bytes()))

    run = run_archives([str(logs)], tmp_path / "out")

    [refused] = (_facts(run) - facts).elements()
    assert "DUPLICATE_BROKER_REGISTRATION" in refused
    assert not facts - _facts(run)
    alone = [one.file.rpartition("/")[2] for one in run.files.values() if one.is_refused]
    assert alone == ["server-again.log"]


def test_the_log_of_a_broker_that_moved_to_another_folder_is_its_own(
    plain: tuple[Path, Counter[str]], tmp_path: Path
) -> None:
    tree, facts = plain
    logs = tmp_path / "logs"
    shutil.copytree(tree, logs)
    log = next(iter(sorted(logs.rglob("broker-1/server.log"))))
    text = log.read_bytes()
    (logs / "host-b").mkdir()
    (logs / "host-b/server.log").write_bytes(_second_half(text))
    log.write_bytes(text[: len(text) - len(_second_half(text))])

    assert _facts(run_archives([str(logs)], tmp_path / "out")) == facts


def test_some_lines_that_name_nobody_belong_to_the_node_whose_log_has_them(
    plain: tuple[Path, Counter[str]], tmp_path: Path
) -> None:
    tree, facts = plain
    log = next(iter(sorted(tree.rglob("broker-1/server.log"))))
    lines = log.read_bytes().splitlines(keepends=True)
    told = next(line for line in lines if b" Truncating to " in line or b"Elected " in line)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "mail.txt").write_bytes(told)
    (notes / "again.txt").write_bytes(told + b"and so on\n")

    run = run_archives([str(tree), str(notes)], tmp_path / "out")

    assert _facts(run) == facts
    assert {run.files[name].node for name in ("notes/mail.txt", "notes/again.txt")} == {"broker-1"}


def test_lines_that_name_nobody_stay_apart_where_no_log_has_most_of_them(tmp_path: Path) -> None:
    written = pa.Table.from_batches([
        events(
            {"file": "a", "line": 1, "ts": 5, "topic": "orders"},
            {"file": "b", "line": 1, "ts": 5, "topic": "orders"},
            {"file": "b", "line": 2, "ts": 6, "topic": "orders"},
        )
    ])  # fmt: skip
    ds.write_dataset(written, tmp_path, format="parquet")
    files = {
        "a": account("a", 0, 10, "r"),
        "b": account("b", 5, 6, "r", node="file:b"),
    }
    files["b"].counts["events"] = 2

    assert not name_by_repeats(files, tmp_path)
    assert files["b"].node == "file:b"
