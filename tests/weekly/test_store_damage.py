"""A store whose files somebody has damaged is refused by a sentence and reaches no other folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.errors import ForensicsError
from forensics.weekly.atomic_commit import StoreFiles
from tests.weekly.audits import Audits

LINE = (
    "[2026-11-18 11:38:00,123] INFO [BrokerServer id=9] Transition from SHUTDOWN to STARTING"
    " (kafka.server.BrokerServer)\n"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "server.log").write_text(LINE)
    Audits(folder / "store").run(folder / "server.log")
    return folder


def refusal(built: Path, folder: Path, name: str, content: bytes) -> str:
    store = shutil.copytree(built / "store", folder / "store")
    (store / name).write_bytes(content)
    with pytest.raises(ForensicsError) as error:
        Audits(store).run(built / "server.log")
    return str(error.value)


def bomb(rows: int, schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({one.name: pa.nulls(rows, one.type) for one in schema}), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("store.json", b"[1]", "an object was expected"),
        ("store.json", b'{"weeks": [1]}', "has no weeks"),
        ("store.json", b'{"weeks": {"2026-W47": {"events": {"x": 1}}}}', "damaged"),
        ("store.json", b"[" * 200_000, "nested deeper"),
        ("inputs/logs.parquet", b"PAR1 no table PAR1", "no whole Parquet file"),
        ("inputs/containers.parquet", bomb(3, pa.schema([("sha256", pa.int64())])), "sha256 is"),
        ("weeks/2026-W47/findings.json", b"7", "an object was expected"),
        ("weeks/2026-W47/week.json", b'{"x": 1}', "week.json is damaged"),
    ],
)
def test_a_damaged_file_of_a_store_is_named(
    built: Path, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    assert says in refusal(built, tmp_path, name, content)


def test_a_table_of_events_with_too_many_rows_for_its_bytes_is_refused(
    built: Path, tmp_path: Path
) -> None:
    [path] = (built / "store/events").rglob("*.parquet")
    content = bomb(30_000_000, pa.schema([("file", pa.string())]))
    name = path.relative_to(built / "store").as_posix()

    assert "30,000,000 rows in" in refusal(built, tmp_path, name, content)


@pytest.mark.parametrize("name", ["../../precious", "/etc/precious", "weeks/../../precious"])
@pytest.mark.parametrize("key", ["move", "delete"])
def test_no_unfinished_commit_reaches_out_of_its_store(name: str, key: str, tmp_path: Path) -> None:
    store = tmp_path / "a/store"
    store.mkdir(parents=True)
    (tmp_path / "precious").write_text("mine")
    journal: dict[str, list[str]] = {"move": [], "delete": []} | {key: [name]}
    (store / ".commit.json").write_text(json.dumps(journal))

    with pytest.raises(ForensicsError, match="no file of a store"):
        StoreFiles(store).recover()

    assert (tmp_path / "precious").read_text() == "mine"
