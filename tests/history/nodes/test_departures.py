"""When and how a broker went that nobody stopped: by its own last line and what others logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.history.clocks.model import Clocks
from forensics.history.log_coverage import Coverage, Log
from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.history.nodes.departures import date_departures
from forensics.lib.time_units import SECOND
from forensics.schemas import EVENTS

RESET = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Cancelled in-flight FETCH request"
REFUSED = "Connection to node 2 (/kafka2:9092) could not be established. Node may not be available."
Facts = Mapping[str, Any]


def event(second: float, node: str, kind: str, **facts: Any) -> dict[str, Any]:
    line = {"file": f"{node}/server.log", "line": int(second * 10), "text": kind, "rule": "r"}
    return line | {"kind": kind, "ts": int(second * SECOND), "node": node} | facts


def lost(second: float, milliseconds: int, node: str = "broker-1") -> dict[str, Any]:
    return event(
        second, node, "peer_request_lost", broker=1, peer=2, text=RESET, duration_ms=milliseconds
    )


def span(state: str, begin: float, end: float | None, what: str | None = None) -> Span:
    place: EvidenceRow = {
        "file": "controller-1/controller.log", "line": int(begin * 10), "text": state, "rule": "r",
        "at": int(begin * SECOND), "what": what,
    }  # fmt: skip
    return Span(state, int(begin * SECOND), None if end is None else int(end * SECOND), [place])


def dated(
    tmp_path: Path,
    spans: list[Span],
    events: Iterable[Facts],
    log: str | None = "server",
    unnamed_starts: Iterable[int] = (),
    *,
    others: Iterable[int] = (),
    stopping: Iterable[int] = (),
) -> list[tuple[str, float]]:
    folder = tmp_path / "events"
    folder.mkdir()
    rows = [event(1, "controller-1", "controller_elected"), *events]
    table = pa.Table.from_pylist(rows, schema=EVENTS)
    pq.write_table(table, folder / "part-0.parquet")
    place: EvidenceRow = {"file": "broker-2/server.log", "line": 1}
    own = Log("broker-2", "broker", log or "", 0, 900 * SECOND, (), (), {}, 9, (place, place))
    covered = Coverage((own,) if log else (), 0, 900 * SECOND)
    brokers = {2: spans} | {broker: [span("up", 10, None)] for broker in others}
    brokers |= {one: [span("up", 10, 104), span("stopping", 104, 108)] for one in stopping}
    lanes = date_departures(brokers, folder, Clocks({}, {}, ()), covered, unnamed_starts)
    return [(one.state, one.begin / SECOND) for one in lanes[2]]


def crashed() -> list[Span]:
    return [span("up", 10, 100), span("crashed", 100, 130), span("starting", 130, None)]


def fenced(back: float | None = 130) -> list[Span]:
    spans = [span("up", 10, 120), span("fenced", 120, back, "fenced")]
    return [*spans, span("up", back, None)] if back is not None else spans


def test_a_crash_begins_as_connections_that_were_in_use_break(tmp_path: Path) -> None:
    events = [event(100, "broker-2", "log_rolled"), lost(112.5, 300)]

    assert dated(tmp_path, crashed(), events)[1] == ("crashed", 112.5)


def test_the_last_connections_that_were_in_use_date_a_crash(tmp_path: Path) -> None:
    """Others may have closed theirs before, for reasons of their own."""
    events = [event(100, "broker-2", "log_rolled"), lost(105, 26), lost(112.5, 76, "broker-3")]

    assert dated(tmp_path, crashed(), events)[1] == ("crashed", 112.5)


@pytest.mark.parametrize(("stopping", "begin"), [([1], 100), ([], 105)])
def test_who_is_being_stopped_tells_nothing_of_the_other_end(
    tmp_path: Path, stopping: list[int], begin: float
) -> None:
    events = [event(100, "broker-2", "log_rolled"), lost(105, 26)]

    assert dated(tmp_path, crashed(), events, stopping=stopping)[1] == ("crashed", begin)


def test_an_idle_connection_that_is_closed_is_no_crash(tmp_path: Path) -> None:
    idle = event(
        103, "broker-1", "peer_disconnected", broker=1, peer=2, text="Node 2 disconnected."
    )
    events = [event(100, "broker-2", "log_rolled"), idle, lost(120, 300)]

    assert dated(tmp_path, crashed(), events)[1] == ("crashed", 120)


def test_a_broker_that_refuses_connections_was_gone_before(tmp_path: Path) -> None:
    refused = event(128, "broker-1", "peer_unreachable", broker=1, peer=2, text=REFUSED)
    registered = event(131, "controller-1", "broker_registered", broker=2, controller=1)
    spans = crashed()
    lanes = dated(tmp_path, spans, [event(100, "broker-2", "log_rolled"), refused, registered])

    # heard of until 131 less its session of 9 s, at least; gone when it refused
    assert lanes[1] == ("crashed", (120 + 128) / 2)
    assert spans[1].begin_bracket == (120 * SECOND, 128 * SECOND)


def test_without_a_word_of_others_a_crash_begins_with_the_last_own_line(tmp_path: Path) -> None:
    spans = crashed()

    assert dated(tmp_path, spans, [event(100, "broker-2", "log_rolled")])[1] == ("crashed", 100)
    assert spans[1].begin_bracket == (100 * SECOND, 130 * SECOND)


def test_a_silent_broker_that_was_fenced_hung_until_it_wrote_again(tmp_path: Path) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    lanes = dated(tmp_path, fenced(), own)

    # its last heartbeat came 9 s before it was fenced, and the next one would have after 2 s
    assert lanes == [("up", 10), ("paused", (109 + 113) / 2), ("fenced", 126), ("up", 130)]


@pytest.mark.parametrize(("started", "state"), [(90, "paused"), (115, "fenced")])
def test_in_a_shared_file_lines_that_name_a_broker_show_that_it_hung_and_no_start_does(
    started: int, state: str, tmp_path: Path
) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    lanes = dated(tmp_path, fenced(), own, log=None, unnamed_starts=[started * SECOND])

    assert lanes[1][0] == state


@pytest.mark.parametrize(("lengths", "begin"), [((6000, 6000), 114.0), ((6000, 9000), 120.0)])
def test_a_session_that_no_line_places_counts_where_all_are_as_long(
    lengths: tuple[int, int], begin: float, tmp_path: Path
) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    sessions = [
        event(2, "", "zookeeper_connected", duration_ms=length) | {"node": None}
        for length in lengths
    ]

    assert dated(tmp_path, fenced(), [*own, *sessions])[1][1] == begin


def test_a_fetch_that_was_never_answered_dates_a_pause(tmp_path: Path) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]

    assert dated(tmp_path, fenced(), [*own, lost(120, 9000)])[1] == ("paused", 111.25)


@pytest.mark.parametrize("kind", ["heartbeat_failed", "peer_timed_out"])
def test_a_broker_that_goes_on_to_log_time_outs_was_cut_off(tmp_path: Path, kind: str) -> None:
    own = [event(100, "broker-2", "log_rolled")]
    own += [event(second, "broker-2", kind, broker=2, peer=3) for second in (115, 119, 123, 127)]

    assert [state for state, _ in dated(tmp_path, fenced(), own)] == ["up", "isolated", "up"]


@pytest.mark.parametrize(
    ("others", "state"), [([], "isolated"), ([1], "fenced"), ([1, 3], "fenced")]
)
def test_nobody_is_cut_off_alone_where_zookeeper_answers_nobody(
    tmp_path: Path, others: list[int], state: str
) -> None:
    waits = [
        event(second, f"broker-{broker}", "zookeeper_disconnected", duration_ms=6000)
        for broker in (2, *others)
        for second in (115, 119, 123, 127)
    ]
    own = [event(100, "broker-2", "log_rolled"), *waits]

    assert dated(tmp_path, fenced(), own, others=(1, 3))[1][0] == state


def test_a_broker_that_writes_as_ever_is_only_fenced(tmp_path: Path) -> None:
    own = [event(second, "broker-2", "log_rolled") for second in range(100, 130)]

    assert dated(tmp_path, fenced(), own) == [("up", 10), ("fenced", 120), ("up", 130)]


def test_a_broker_that_never_returned_died_where_its_connections_broke(tmp_path: Path) -> None:
    events = [event(100, "broker-2", "log_rolled"), lost(112.5, 300)]

    assert dated(tmp_path, fenced(None), events) == [("up", 10), ("crashed", 112.5)]


def test_a_new_controller_gives_everybody_a_new_session(tmp_path: Path) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    elected = event(112, "controller-1", "controller_elected")

    assert dated(tmp_path, fenced(), [*own, elected]) == [("up", 10), ("fenced", 120), ("up", 130)]


def test_after_a_new_controller_a_fetch_still_dates_a_pause(tmp_path: Path) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    elected = event(112, "controller-1", "controller_elected")

    assert dated(tmp_path, fenced(), [*own, elected, lost(120.5, 15_500)])[1] == ("paused", 105.25)


@pytest.mark.parametrize("value", ["API_VERSIONS", "BEGIN_QUORUM_EPOCH", "VOTE"])
def test_the_first_requests_on_a_connection_prove_nobody_alive(tmp_path: Path, value: str) -> None:
    """A new controller connects to all: the host of one that hangs takes that, and is silent."""
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    elected = event(112, "controller-1", "controller_elected")
    tried = [lost(at, 2002, "broker-4") | {"value": value} for at in (116, 119, 122)]
    fetch = lost(120.5, 15_500) | {"value": "FETCH"}

    moments = dated(tmp_path, fenced(), [*own, elected, fetch, *tried])

    assert moments[1] == ("paused", 105.25)


def test_a_silent_log_of_a_controller_proves_no_pause(tmp_path: Path) -> None:
    own = [event(100, "broker-2", "log_rolled"), event(126, "broker-2", "heartbeat_failed")]
    lanes = dated(tmp_path, fenced(), own, log="controller")

    assert lanes == [("up", 10), ("fenced", 120), ("up", 130)]
