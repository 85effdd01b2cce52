"""Archives as people have them give the events of the plain tree, or say what is left out.

Each row packs, wraps, writes or damages the same small tree of logs; all stages up to the tables
of events and files run in this process.
"""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.sample_archives import Tree, tarred, write, zipped
from tests.ingest.whole_runs import Run, read
from tests.ingest.written_logs import LINES, PLAIN, Record, lines_as, records_as


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Read the tree as it is."""
    run = read(write(tmp_path_factory.mktemp("plain") / "logs", PLAIN))
    assert len(run.rows) > 100
    assert not run.notes()
    return run


# How the tree is packed into one file.


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "tar in zip in tar.gz": lambda: gzip.compress(tarred({"a.zip": zipped({"b": tarred(PLAIN)})})),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archive_gives_the_events_of_its_files(name: str, plain: Run, tmp_path: Path) -> None:
    (tmp_path / "logs.bin").write_bytes(ARCHIVES[name]())

    assert plain.facts() == read(tmp_path / "logs.bin").facts()


# How each file is compressed.

STREAMS: dict[str, Callable[[bytes], bytes]] = {
    "gzip, many members": lambda text: b"".join(
        gzip.compress(text[at : at + 5000]) for at in range(0, len(text), 5000)
    ),
    "bzip2 without a suffix": bz2.compress,
}


@pytest.mark.parametrize("name", STREAMS)
def test_compressed_files_give_the_events_of_their_text(
    name: str, plain: Run, tmp_path: Path
) -> None:
    tree = {f"{path}.x": STREAMS[name](text) for path, text in PLAIN.items()}

    assert plain.facts() == read(write(tmp_path / "logs", tree)).facts()


# How each record or line is written.


def _objects(make: Callable[[Record], Mapping[str, Any]]) -> Tree:
    return records_as(lambda one: json.dumps(make(one)))


def _docker(line: str, one: Record) -> str:
    time = one.at("%Y-%m-%dT%H:%M:%S.%LZ")
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": time})


_ISO = "%Y-%m-%dT%H:%M:%S.%LZ"

WRITTEN: dict[str, Callable[[], Tree]] = {
    "Elasticsearch's _source": lambda: _objects(
        lambda one: {"_index": "x", "_source": {"@timestamp": one.at(_ISO), "message": one.text}}
    ),
    "a copy of the output of a start script": lambda: (
        PLAIN | {"broker-1/kafkaServer.out": b"JVM warning\n" + PLAIN["broker-1/server.log"]}
    ),
    "an older copy": lambda: (
        PLAIN | {f"old/{name}": b"".join(lines[: len(lines) // 2]) for name, lines in LINES.items()}
    ),
    "a copy with carriage returns": lambda: (
        PLAIN | {f"win/{name}": text.replace(b"\n", b"\r\n") for name, text in PLAIN.items()}
    ),
    "a tail beside the file": lambda: (
        PLAIN | {"broker-1/tail.log": b"".join(LINES["broker-1/server.log"][-60:])}
    ),
    "a copy as Docker writes it": lambda: (
        PLAIN | {"broker-1/json.log": lines_as(_docker)["broker-1/server.log"]}
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_logs_written_otherwise_give_the_same_events(name: str, plain: Run, tmp_path: Path) -> None:
    assert plain.facts() == read(write(tmp_path / "logs", WRITTEN[name]())).facts()


# What is damaged: the files that are whole are read in full, and the rest is named.


DAMAGED: dict[str, tuple[Callable[[], bytes], set[str]]] = {
    "a tar.gz that is cut": (lambda: gzip.compress(tarred(PLAIN))[:6000], set()),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_whole_is_read_and_the_rest_is_named(name: str, plain: Run, tmp_path: Path) -> None:
    make, whole = DAMAGED[name]
    (tmp_path / "logs.bin").write_bytes(make())

    found = read(tmp_path / "logs.bin")

    kept = [row for row in plain.rows if row["file"].split("/")[1] in whole]
    assert found.notes()
    assert not Run(kept, [], []).facts() - found.facts()


def _encrypted(folder: Path) -> None:
    (folder / "logs/x.7z").write_bytes(b"7z\xbc\xaf\x27\x1c\0\4" + bytes(3000))


BESIDE: dict[str, Callable[[Path], None]] = {
    "7z": _encrypted,
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_beside_logs_is_named_and_changes_nothing(
    name: str, plain: Run, tmp_path: Path
) -> None:
    write(tmp_path / "logs", PLAIN)
    BESIDE[name](tmp_path)

    found = read(tmp_path / "logs")

    assert found.notes()
    assert plain.facts() == found.facts()
