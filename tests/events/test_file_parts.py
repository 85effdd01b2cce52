"""Several nodes in one file: each gets its lines, and what nobody can place is said to be so."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from forensics.events.packs import load_rule_set
from forensics.pipeline import detect_and_gate
from forensics.run_result import Stopwatch
from forensics.sandbox import SandboxRun, run_archives, run_lines
from forensics.schemas import EVENTS, FILES
from forensics.settings import Settings
from tests.ingest.scans import scan

SAMPLES = Path(__file__).parents[2] / "sample_logs"
TIME = re.compile(rb"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})")
BUCKETS = (
    "records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines",
)  # fmt: skip

# A record of a server: its time, who wrote it, and its lines.
Record = tuple[bytes, str, bytes]
Row = dict[str, Any]


def _records(node: str, text: bytes) -> list[Record]:
    found: list[Record] = []
    for line in text.splitlines(keepends=True):
        time = TIME.match(line)
        if time or not found:
            found.append((time[1] if time else b"", node, line))
        else:
            found[-1] = (*found[-1][:2], found[-1][2] + line)
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording, unpacked."""
    target = tmp_path_factory.mktemp("recorded")
    with tarfile.open(SAMPLES / "430-listener/logs.tar.gz") as archive:
        archive.extractall(target)
    return next(target.rglob("broker-1")).parent


@pytest.fixture(scope="module")
def servers(tree: Path) -> list[Record]:
    """What each server logged, in the order of its own lines."""
    found = []
    for folder in sorted(tree.glob("[bc]*-[0-9]*")):
        texts = [
            path.read_bytes() for path in sorted(folder.glob("*.log")) if "gc" not in path.name
        ]
        own = [record for text in texts for record in _records(folder.name, text)]
        found += sorted(own, key=lambda record: record[0])
    return found


def _write(tree: Path, target: Path, logs: dict[str, bytes]) -> Path:
    for path in sorted(tree.glob("app-*/*")):
        copy = target / path.relative_to(tree)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for name, text in logs.items():
        (target / name).write_bytes(text)
    return target


def _conclude(logs: Path, out: Path) -> tuple[Row, Counter[str], SandboxRun]:
    run = run_archives([str(logs)], out)
    settings = Settings((str(logs),), out)
    document = detect_and_gate(run.files, run.past, load_rule_set(()), settings, Stopwatch())[0]
    names = [name for name in EVENTS.names if name not in ("file", "line", "offset", "text")]
    events = ds.dataset(out / "tables/events").to_table(names).to_pylist()
    return document, Counter(map(repr, events)), run


@pytest.fixture(scope="module")
def apart(
    tree: Path, servers: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Row, Counter[str]]:
    """What is said if each server has a file of its own."""
    folder = tmp_path_factory.mktemp("apart")
    logs: dict[str, bytes] = {}
    for _, node, text in servers:
        logs[f"{node}.log"] = logs.get(f"{node}.log", b"") + text
    return _conclude(_write(tree, folder / "logs", logs), folder / "out")[:2]


def _prefixed(form: str) -> Callable[[list[Record]], bytes]:
    def build(records: list[Record]) -> bytes:
        nodes = sorted({node for _, node, _ in records})
        lines = []
        for _, node, text in sorted(records, key=lambda record: record[0]):
            front = form.format(nodes.index(node)).encode()
            lines += [front + line for line in text.splitlines(keepends=True)]
        return b"".join(lines)

    return build


TOGETHER: dict[str, Callable[[list[Record]], bytes]] = {
    "kubectl logs --prefix": _prefixed("[pod/kafka-{}/kafka] "),
    "docker compose logs": _prefixed("kafka{}-1  | "),
    "logcli": _prefixed('2026-11-18T11:31:58Z {{app="kafka", pod="kafka-{}"}} '),
    "stern": _prefixed("kafka-{} kafka "),
    "a host and its address": _prefixed("10.0.3.{}: "),
    "one behind the other": lambda records: b"".join(text for *_, text in records),
}


def _files(run: SandboxRun) -> list[Row]:
    rows: list[Row] = run.tables.read("files", FILES.names).to_pylist()
    return rows


def _titles(document: Row) -> Counter[tuple[str, str]]:
    return Counter((one["severity"], one["title"]) for one in document["findings"])


@pytest.mark.parametrize("form", TOGETHER)
def test_several_nodes_in_one_file_are_told_as_in_files_of_their_own(
    form: str, tree: Path, servers: list[Record], apart: tuple[Row, Counter[str]], tmp_path: Path
) -> None:
    logs = _write(tree, tmp_path / "logs", {"all.log": TOGETHER[form](servers)})

    document, events, run = _conclude(logs, tmp_path / "out")

    assert _titles(document) == _titles(apart[0])
    assert (document["verdict"], document["summary"]) == (apart[0]["verdict"], apart[0]["summary"])
    assert events == apart[1]
    rows = [row for row in _files(run) if row["file"].endswith("all.log")]
    whole = next(one for name, one in run.files.items() if name.endswith("all.log"))
    assert {row["node"] for row in rows} >= {"broker-1", "broker-2"}
    assert sum(row["lines"] for row in rows) == whole.counts["lines"]
    assert sum(row["bytes"] for row in rows) == whole.counts["bytes"]
    for row in rows:
        assert row["lines"] == sum(row[bucket] for bucket in BUCKETS)


def test_lines_without_anything_that_tells_their_node_are_placed_nowhere(
    tree: Path, servers: list[Record], apart: tuple[Row, Counter[str]], tmp_path: Path
) -> None:
    text = b"".join(text for *_, text in sorted(servers, key=lambda record: record[0]))
    logs = _write(tree, tmp_path / "logs", {"all.log": text})

    document, events, run = _conclude(logs, tmp_path / "out")

    assert document["verdict"] == apart[0]["verdict"]
    assert not _titles(document) - _titles(apart[0])
    assert events.total() == apart[1].total()
    rows = [row for row in _files(run) if row["file"].endswith("all.log")]
    assert None in {row["node"] for row in rows}
    # Settings tell whose folder is whose.
    nodes = [row["node"] for row in run.tables.read("events", ["node"]).to_pylist()]
    assert nodes.count(None) < 0.05 * len(nodes)
    assert sum(row["lines"] for row in rows) == text.count(b"\n")
    for row in rows:
        assert row["lines"] == sum(row[bucket] for bucket in BUCKETS)


def test_a_thread_before_the_time_is_no_writer(servers: list[Record], tmp_path: Path) -> None:
    lines = [
        b"[thread-%d] " % (at % 3) + line
        for at, (*_, text) in enumerate(sorted(servers, key=lambda record: record[0]))
        for line in text.splitlines(keepends=True)
    ]
    path = tmp_path / "all.log"
    path.write_bytes(b"".join(lines))

    account = scan(path).files["all.log"]

    assert account.origins == {}
    assert {part.node for part in account.parts} >= {"broker-1", "broker-2", None}


SETTINGS = """\
[2026-11-18 11:30:00,000] INFO KafkaConfig values:\x20
\tlog.dirs = /data/{folder}
\tnode.id = {node}
 (kafka.server.KafkaConfig)
"""
CREATED = (
    "[2026-11-18 11:31:00,000] INFO Created log for partition orders-0 in /data/a/orders-0"
    " with properties {} (kafka.log.LogManager)\n"
)
NAMED = "[2026-11-18 11:31:00,000] INFO [KafkaServer id={}] started (kafka.server.KafkaServer)\n"


@pytest.mark.parametrize(
    ("folders", "node"),
    [
        (["a", "b"], "broker-1"),
        # Two servers, or one whose settings are elsewhere, may use folders of one name.
        (["a", "a"], None),
        (["a"], None),
    ],
)
def test_a_folder_tells_the_server_whose_settings_name_it_alone(
    folders: list[str], node: str | None, tmp_path: Path
) -> None:
    settings = [SETTINGS.format(folder=one, node=at) for at, one in enumerate(folders, 1)]
    path = tmp_path / "all.log"
    path.write_text("".join([*settings, NAMED.format(1), NAMED.format(2), CREATED]), "utf-8")

    found = scan(path)

    placed = {row["node"] for row in found.events if row["kind"] == "log_created"}
    assert placed == {node}


@pytest.mark.parametrize("form", TOGETHER)
def test_where_a_file_is_split_changes_no_part(
    form: str, servers: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "all.log"
    path.write_bytes(TOGETHER[form](servers))
    whole, split = scan(path), scan(path, split_size=100_000)

    assert whole.facts() == split.facts()
    assert [row["node"] for row in sorted(whole.events, key=_place)] == [
        row["node"] for row in sorted(split.events, key=_place)
    ]
    one, other = (found.files["all.log"] for found in (whole, split))
    assert [part.to_row() | {"sha256": None} for part in one.parts] == [
        part.to_row() | {"sha256": None} for part in other.parts
    ]
    assert [part.gaps for part in one.parts] == [part.gaps for part in other.parts]


def _place(row: Row) -> tuple[Any, ...]:
    return row["line"], row["kind"], row["rule"], str(row["topic"]), str(row["partition"])


START = (
    "Registered kafka:type=kafka.Log4jController MBean (kafka.utils.Log4jControllerRegistration$)"
)


def _lanes(lines: list[str], out: Path) -> dict[int, list[str]]:
    log = "".join(f"[2026-11-18 11:3{n}:00,000] INFO {line}\n" for n, line in enumerate(lines))
    lanes = run_lines({"server.log": log}, out).past.lanes
    return {broker: [span.state for span in spans] for broker, spans in lanes.brokers.items()}


def test_brokers_that_start_at_once_are_not_taken_for_one_that_starts_again(
    tmp_path: Path,
) -> None:
    started = [f"[KafkaServer id={n}] started (kafka.server.KafkaServer)" for n in (1, 2, 3)]

    assert _lanes([START, START, START, *started], tmp_path) == {1: ["up"], 2: ["up"], 3: ["up"]}


def test_a_start_belongs_to_nobody_while_another_broker_stops_or_starts(tmp_path: Path) -> None:
    lines = [
        "[KafkaServer id=1] started (kafka.server.KafkaServer)",
        "[KafkaServer id=2] started (kafka.server.KafkaServer)",
        START,
        START,
        "[KafkaServer id=1] started (kafka.server.KafkaServer)",
    ]

    assert _lanes(lines, tmp_path) == {1: ["up"], 2: ["up"]}


def test_lines_without_an_origin_beside_those_that_have_one_are_placed_by_what_they_name(
    tmp_path: Path,
) -> None:
    named = "INFO [KafkaServer id={}] started (kafka.server.KafkaServer)"
    lines = [f"[2026-11-18 11:30:00,00{n % 10}] " for n in range(40)]
    texts = [f"kafka{n % 2}-1  | {time}{named.format(n % 2)}\n" for n, time in enumerate(lines)]
    texts += [f"{lines[1]}{named.format(1)}\n", f"{lines[2]}INFO nobody (kafka.Nobody)\n"]
    path = tmp_path / "all.log"
    path.write_text("".join(texts), encoding="utf-8")

    parts = scan(path).files["all.log"].parts

    assert {part.node for part in parts} == {"broker-0", "broker-1", None}
    assert sum(part.counts["lines"] for part in parts) == 42
    assert {part.node: part.counts["records"] for part in parts}["broker-0"] == 20


@pytest.mark.parametrize(("turns", "placed"), [(3, 3), (30, 0)])
def test_where_writers_with_other_clocks_take_turns_a_line_must_name_its_node(
    turns: int, placed: int, tmp_path: Path
) -> None:
    started = "[KafkaServer id={}] started (kafka.server.KafkaServer)"
    lines = [f"30:00,000] INFO {started.format(1)}"]
    for turn in range(turns):
        # The clock of broker 2 is ahead, and nobody is named in what broker 1 writes.
        lines.append(f"40:{turn:02d},000] INFO {started.format(2)}")
        lines.append(f"30:{turn:02d},000] INFO {START}")
    lines.append(f"40:59,000] INFO {started.format(2)}")
    path = tmp_path / "all.log"
    path.write_text("".join(f"[2026-11-18 11:{line}\n" for line in lines), encoding="utf-8")

    starts = [row["node"] for row in scan(path).events if row["kind"] == "process_starting"]

    assert starts.count("broker-2") == placed
