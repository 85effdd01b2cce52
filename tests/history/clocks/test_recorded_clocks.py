"""Recordings whose nodes get wrong clocks: these are recovered, and leadership stays the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from forensics.history.clocks.model import Clocks
from forensics.sandbox import run_archives
from tests.history.wrong_clocks import (
    Wrong,
    by,
    drifting,
    rewritten,
    rewritten_copy,
    stepping,
    unpacked,
)

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[3] / "sample_logs"
SECOND = 1_000_000
Row = dict[str, Any]
Place = tuple[Any, ...]


@dataclass(frozen=True)
class Read:
    """What was made of an archive: clocks, events, and who led each epoch since when."""

    clocks: Clocks
    events: Mapping[Place, Row]
    leaders: Mapping[Place, tuple[int | None, int | None]]

    def row(self, node: str) -> Mapping[str, Any]:
        return next(row for row in self.clocks.rows if row["node"] == node)


def read(logs: Path, out: Path) -> Read:
    """Read an archive as far as leadership."""
    found = run_archives([str(logs)], out)
    led = ds.dataset(found.tables.folder / "leadership", format="parquet").to_table()
    led = led.append_column("at", led["started_at"].cast(pa.int64()))
    leaders = {
        (row["topic"], row["partition"], row["leader_epoch"]): (row["leader"], row["at"])
        for row in led.to_pylist()
    }
    return Read(found.past.clocks, placed(found.tables.folder / "events"), leaders)


def placed(events: Path) -> dict[Place, Row]:
    columns = ["node", "file", "line", "ts", "kind", "topic", "partition"]
    table = ds.dataset(events, format="parquet").to_table(columns=columns)
    table = table.set_column(3, "ts", table["ts"].cast(pa.int64()))
    return {
        (
            *row["file"].split("/")[-2:],
            row["line"],
            row["kind"],
            row["topic"],
            row["partition"],
        ): row
        for row in table.to_pylist()
        if row["ts"] is not None
    }


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Read]]:
    """Unpack and read each recording once."""
    known: dict[str, tuple[Path, Read]] = {}

    def give(name: str) -> tuple[Path, Read]:
        if name not in known:
            logs = unpacked(SAMPLES / name, tmp_path_factory.mktemp(name))
            known[name] = (logs, read(logs, tmp_path_factory.mktemp(f"{name}-out")))
        return known[name]

    return give


def middle(told: Read) -> int:
    moments = sorted(row["ts"] for row in told.events.values() if "broker" in row["node"])
    between: int = (moments[0] + moments[-1]) // 2
    return between


def stays_right(true: Read, told: Read) -> None:
    """Check that all events are corrected within their doubt, and that the same nodes led."""
    assert true.events.keys() == told.events.keys()
    for place, row in told.events.items():
        doubt = told.clocks.uncertainty(row["node"], row["ts"], row["file"], row["line"])
        if doubt is not None:
            assert abs(told.clocks.event_time(row) - true.events[place]["ts"]) <= doubt + 1000, (
                place
            )
    assert {key: leader for key, (leader, _) in true.leaders.items()} == {
        key: leader for key, (leader, _) in told.leaders.items()
    }


@pytest.mark.parametrize(
    ("case", "kind", "make"),
    [
        ("430-unclean broker-1", "offset", lambda _: by(-420)),
        ("430-unclean controller-1", "offset", lambda _: by(95)),
        ("430-unclean broker-2", "step", lambda at: stepping(20, at)),
        ("430-unclean broker-3", "step", lambda at: stepping(-20, at)),
        ("282-flapping broker-1", "offset", lambda _: by(0.3)),
        ("282-flapping broker-3", "step", lambda at: stepping(20, at)),
        ("391-rolling broker-2", None, lambda at: drifting(200, at)),
        ("391-rolling broker-3", "zone", lambda _: by(-5 * 3600)),
        ("391-rolling broker-1", "step", lambda at: stepping(-20, at)),
    ],
)
def test_a_wrong_clock_is_recovered_and_leadership_stays(
    case: str,
    kind: str | None,
    make: Callable[[int], Wrong],
    recorded: Callable[[str], tuple[Path, Read]],
    tmp_path: Path,
) -> None:
    """Every event of every node is corrected within the doubt that is stated for it."""
    name, node = case.split()
    logs, true = recorded(name)
    wrong = make(middle(true))
    told = read(rewritten_copy(logs, tmp_path / "logs", {node: wrong}), tmp_path / "out")

    # A drift of 40 ms in these three minutes is no more than the doubt.
    assert kind in (None, told.row(node)["kind"])
    stays_right(true, told)
    for key, (_, at) in true.leaders.items():
        _, now = told.leaders[key]
        assert (at is None) == (now is None)
        assert at is None or now is None or abs(at - now) < SECOND, key


@pytest.mark.parametrize("size", [20, -20])
@pytest.mark.parametrize(
    ("case", "later"),
    [("282-flapping broker-2", -66), ("282-flapping broker-3", 66), ("430-unclean broker-1", 40)],
)
def test_a_step_that_little_tells_of_is_within_the_doubt_and_leadership_stays(
    case: str,
    later: int,
    size: int,
    recorded: Callable[[str], tuple[Path, Read]],
    tmp_path: Path,
) -> None:
    """Whether or not it is found: shortly after the beginning, or before the end, few saw it."""
    name, node = case.split()
    logs, true = recorded(name)
    wrong = {node: stepping(size, middle(true) + later * SECOND)}

    stays_right(true, read(rewritten_copy(logs, tmp_path / "logs", wrong), tmp_path / "out"))


@pytest.mark.parametrize("nodes", ["broker-2", "broker-1 broker-2 broker-3 controller-1"])
@pytest.mark.parametrize("hours", [2, -5])
def test_lines_of_the_collector_with_an_offset_of_their_own_are_not_shifted_twice(
    nodes: str, hours: int, recorded: Callable[[str], tuple[Path, Read]], tmp_path: Path
) -> None:
    """Kafka writes the time of its machine without a zone, and the JVM beside it with one."""
    logs, true = recorded("430-unclean")
    local = dict.fromkeys(nodes.split(), by(hours * 3600))
    copy = rewritten_copy(logs, tmp_path / "logs", local)
    for node in local:
        for path in (copy / node).glob("kafkaServer-gc.log*"):
            path.write_text(path.read_text("utf-8").replace("+0000]", f"{hours:+03d}00]"))
    told = read(copy, tmp_path / "out")

    pauses = [place for place, row in true.events.items() if row["kind"] == "gc_pause"]
    assert {"broker-2", "broker-3"} == {place[0] for place in pauses}
    stays_right(true, told)


@pytest.mark.parametrize("name", ["430-unclean", "282-flapping", "391-rolling"])
def test_all_brokers_and_controllers_are_tied_and_right(
    name: str, recorded: Callable[[str], tuple[Path, Read]]
) -> None:
    """Each recording was made on one machine."""
    _, true = recorded(name)
    servers = [row for row in true.clocks.rows if not row["node"].startswith("app-")]

    assert servers
    assert {"none"} == {row["kind"] for row in servers}
    assert all(abs(row["offset_ms"]) <= row["uncertainty_ms"] < 1_500 for row in servers)


def test_times_are_rewritten_where_lines_begin_and_nowhere_else() -> None:
    log = (
        "[2026-11-18 11:59:59,900] INFO since [2026-11-18 11:00:00,000] (x)\n\tat 2026-11-18\n"
        "2026-11-18T11:59:59.900+0000  INFO 1 ---\n%7|1795001891.950|FAIL|rd| 1795001891.950\n"
    )

    assert rewritten(log, by(0.2)) == (
        "[2026-11-18 12:00:00,100] INFO since [2026-11-18 11:00:00,000] (x)\n\tat 2026-11-18\n"
        "2026-11-18T12:00:00.100+0000  INFO 1 ---\n%7|1795001892.150|FAIL|rd| 1795001891.950\n"
    )
