"""Cause chains tie what touches in time, by mechanisms of Kafka, and say how sure the order is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.causality.chains import build_chains
from forensics.detection.causality.links import MOVE, SCOPES, allowed_sources, load_mechanisms
from forensics.detection.detectors import detectors
from forensics.detection.runner import run_detectors
from forensics.history.clocks.model import ClockModel, Clocks, ClockSegment
from forensics.history.nodes.broker_states import Absence
from forensics.run_output.findings import Finding, PartitionLoss
from forensics.settings import SEVERITIES
from tests.detection.cases import SECOND, absence, case, epoch, logs, reign, row
from tests.recorded_runs import read_recording

SAMPLES = Path(__file__).parents[3] / "sample_logs"
NODES = ("broker-1", "broker-2", "broker-3", "broker-9", "controller-1", "app")

Chain = dict[str, Any]


def finding(detector: str, begin: float, end: float, **more: Any) -> Finding:
    """Make a finding; `node` told of it at its beginning."""
    node = more.pop("node", "broker-9")
    at = int(begin * SECOND)
    line = {"file": f"{node}/server.log", "line": at // 1000, "text": detector, "at": at}
    plain: dict[str, Any] = {
        "severity": "medium",
        "confidence": "likely",
        "title": f"{detector} at {begin:g}",
        "evidence": [line],
    }
    return Finding(detector=detector, begin=at, end=int(end * SECOND), **(plain | more))


def crash(broker: int, begin: float, end: float, **more: Any) -> Finding:
    return finding("broker-restart", begin, end, brokers=[broker], node=f"broker-{broker}", **more)


def offline(begin: float, end: float, led_by: int, name: str = "t-0") -> Finding:
    return finding("offline-partitions", begin, end, brokers=[led_by], partitions=[name])


def unclean(begin: float, leader: int, previous: int) -> Finding:
    loss = PartitionLoss("t-0", leader=leader, previous_leader=previous)
    return finding(
        "unclean-election", begin, begin, brokers=[leader, previous], partitions=["t-0"],
        severity="critical", losses=[loss],
    )  # fmt: skip


def stale(begin: float, cause: str, **more: Any) -> Finding:
    measures = {"cause": cause, "verdict": "sustained"}
    return finding(
        "stale-metadata", begin, begin + 20, partitions=["t-0"], node="app", measures=measures,
        **({"clients": ["app"]} | more),
    )  # fmt: skip


def clocks(doubt_ms: float = 100, nodes: Sequence[str] = NODES) -> Clocks:
    """Let all clocks be right within a doubt."""
    piece = ClockSegment(0, 0.0, 0.0, doubt_ms, 0, 10_000 * SECOND)
    return Clocks({}, {}, (), {node: ClockModel([piece]) for node in nodes})


def tied(
    folder: Path,
    *findings: Finding,
    away: Sequence[Absence] = (),
    known: Clocks | None = None,
    **more: Any,
) -> list[Chain]:
    files = [logs(node, 10_000, role="broker") for node in NODES]
    built = case(folder, files=files, away=away, clocks=known or clocks(), **more)
    return build_chains(built, findings)


def links(chain: Chain, role: str) -> list[dict[str, Any]]:
    return [link for link in chain["links"] if link["role"] == role]


def test_what_touches_and_has_a_mechanism_is_tied(tmp_path: Path) -> None:
    lost, gone = crash(1, 100, 160), offline(103, 140, led_by=1)
    (chain,) = tied(tmp_path, lost, gone)

    assert lost.id == chain["trigger"]["finding"]
    (link,) = links(chain, "effect")
    assert (lost.id, gone.id) == (link["from"], link["to"])
    assert (3.0, 0.2, "told") == (link["before_s"], link["doubt_s"], link["order"])
    assert "before by 3.0 s ± 0.2" == link["says"]
    assert link["cause"]
    assert "led these partitions" in link["mechanism"]
    assert ["broker-1/server.log", "broker-9/server.log"] == [
        one["file"] for one in link["evidence"]
    ]


@pytest.mark.parametrize(
    ("begin", "is_tied"),
    [(99.7, False), (99.9, True), (100, True), (160, True), (160.2, True), (160.201, False)],
)
def test_times_touch_within_the_doubt_of_the_clocks(
    begin: float, is_tied: bool, tmp_path: Path
) -> None:
    found = tied(tmp_path, crash(1, 100, 160), offline(begin, 200, led_by=1))

    assert is_tied == bool(found)


def test_an_order_within_the_doubt_cannot_be_told_and_is_no_cause(tmp_path: Path) -> None:
    (chain,) = tied(tmp_path, crash(1, 100, 160), offline(103, 140, led_by=1), known=clocks(1500))
    (link,) = links(chain, "effect")

    assert ("open", "order cannot be told", 3.0) == (link["order"], link["says"], link["doubt_s"])
    assert not link["cause"]


def test_where_nobody_knows_a_clock_no_order_is_told(tmp_path: Path) -> None:
    known = clocks(nodes=("broker-9",))
    (chain,) = tied(tmp_path, crash(1, 100, 160), offline(130, 140, led_by=1), known=known)
    (link,) = links(chain, "effect")

    assert ("open", None, False) == (link["order"], link["doubt_s"], link["cause"])


def test_lines_of_one_node_need_no_other_clock(tmp_path: Path) -> None:
    gone, taken = offline(100, 110, led_by=1), unclean(110, leader=2, previous=1)
    (chain,) = tied(tmp_path, gone, taken, known=clocks(nodes=()))
    (link,) = links(chain, "effect")

    assert "before by 10.0 s ± 0.001" == link["says"]


def test_a_death_lies_at_or_after_the_last_line(tmp_path: Path) -> None:
    away = [absence(1, "crash", 100, 160)]
    (chain,) = tied(tmp_path, crash(1, 100, 160), offline(110, 140, led_by=1), away=away)

    assert "before by at most 10.0 s ± 0.2" == links(chain, "effect")[0]["says"]


@pytest.mark.parametrize(
    "other",
    [
        offline(103, 140, led_by=2),  # another broker led them
        finding("record-too-large", 103, 140, brokers=[1]),  # there is no mechanism
        finding("clock-skew", 103, 140, brokers=[1]),
    ],
)
def test_what_only_happened_then_is_not_tied(other: Finding, tmp_path: Path) -> None:
    assert [] == tied(tmp_path, crash(1, 100, 160), other)


def test_what_somebody_ordered_came_of_nothing_else(tmp_path: Path) -> None:
    pause = finding("long-pause", 90, 120, brokers=[1], measures={"node": "broker-1"})
    asked = crash(1, 125, 160, measures={"kind": "controlled"})
    (tmp_path / "other").mkdir()

    assert [] == tied(tmp_path, pause, asked)
    hung = crash(1, 93, 160, measures={"kind": "unknown"})
    assert tied(tmp_path / "other", pause, hung, away=[absence(1, "pause", 93, 160)])


def test_a_pause_kills_no_broker(tmp_path: Path) -> None:
    pause = finding("long-pause", 90, 120, brokers=[1], measures={"node": "broker-1"})
    dead = crash(1, 110, 160, measures={"kind": "crash"})

    assert [] == tied(tmp_path, pause, dead, away=[absence(1, "crash", 110, 160)])


def test_each_of_many_pauses_explains_only_what_came_of_it(tmp_path: Path) -> None:
    lines = [
        {"file": "broker-1/server.log", "line": at, "text": "", "at": at * SECOND}
        for at in (100, 500)
    ]
    measures = {"node": "broker-1", "longest_ms": 12_000}
    pauses = finding("long-pause", 88, 500, brokers=[1], measures=measures, evidence=lines)
    later = finding("under-min-isr", 300, 320, brokers=[1])
    then = finding("under-min-isr", 495, 520, brokers=[1])
    (tmp_path / "other").mkdir()

    assert [] == tied(tmp_path, pauses, later)
    assert tied(tmp_path / "other", pauses, then)


def test_a_truncation_comes_of_the_move_just_before_it(tmp_path: Path) -> None:
    loss = PartitionLoss("t-0", leader=1, cut_on=[2])
    cut = finding("truncation", 201, 201, brokers=[2], partitions=["t-0"], losses=[loss])
    table = row(
        "cuts", topic="t", partition=0, broker=2, leader_epoch=3, started_at=201 * SECOND,
        evidence=[],
    )  # fmt: skip
    led = [
        epoch(1, 2, 1, 100),
        epoch(2, 3, 100, 200, previous_leader=2),
        epoch(3, 1, 200, previous_leader=3, election="preferred"),
    ]

    (chain,) = tied(tmp_path, crash(2, 98, 199, severity="high"), cut, leadership=led, cuts=[table])

    (link,) = links(chain, "effect")
    assert "Leadership was moved on purpose" in link["mechanism"]


def test_a_planned_outage_has_no_cause(tmp_path: Path) -> None:
    planned = finding(
        "offline-partitions", 103, 140, brokers=[1], partitions=["t-0"], measures={"planned": True}
    )

    assert [] == tied(tmp_path, crash(1, 100, 160), planned)


@pytest.mark.parametrize(("doubt_ms", "early", "is_tied"), [(20_000, 9, True), (20_000, 11, False)])
def test_no_doubt_of_clocks_makes_an_effect_much_older_than_its_cause(
    doubt_ms: float, early: float, is_tied: bool, tmp_path: Path
) -> None:
    known = clocks(doubt_ms)

    assert is_tied is bool(
        tied(tmp_path, crash(1, 100, 160), offline(100 - early, 140, led_by=1), known=known)
    )


@pytest.mark.parametrize(("seconds", "is_tied"), [(10, True), (1, False)])
def test_a_shrunk_isr_explains_only_partitions_that_had_nobody_left(
    seconds: float, is_tied: bool, tmp_path: Path
) -> None:
    short = finding("under-min-isr", 100, 130, partitions=["t-0"])
    led = [
        epoch(1, 1, 1, 130),
        epoch(2, -1, 130, 130 + seconds, previous_leader=1),
        epoch(3, 2, 130 + seconds),
    ]

    chains = tied(tmp_path, short, offline(129, 150, led_by=1), leadership=led)

    assert is_tied is bool(chains)


def test_two_brokers_that_are_away_reject_writes_together(tmp_path: Path) -> None:
    refused = finding("under-min-isr", 120, 140, brokers=[1, 2], partitions=["t-0"])
    (chain,) = tied(tmp_path, crash(1, 100, 160), crash(2, 110, 160), refused)

    assert 2 == len([one for one in links(chain, "effect") if one["to"] == refused.id])
    assert [] == chain["competing"]


def test_what_is_routine_makes_no_chain(tmp_path: Path) -> None:
    planned = crash(1, 100, 160, severity="info")
    burst = stale(110, "controlled_restart", severity="info")

    assert [] == tied(tmp_path, planned, burst)


def test_an_unclean_election_has_two_triggers(tmp_path: Path) -> None:
    """The one that was away too long, and the last one in sync that died meanwhile."""
    first, second = crash(2, 100, 141), crash(1, 120, 200)
    gone, taken = offline(122, 142, led_by=1), unclean(141.5, leader=2, previous=1)
    away = [absence(2, "crash", 100, 141), absence(1, "crash", 120, 200)]
    (chain,) = tied(tmp_path, taken, gone, second, first, away=away)

    assert first.id == chain["trigger"]["finding"]
    assert [first.id, second.id] == [link["to"] for link in links(chain, "trigger")]
    assert [(second.id, gone.id)] == [(x["from"], x["to"]) for x in links(chain, "propagation")]
    into = {link["from"]: link for link in links(chain, "effect")}
    assert {first.id, gone.id} == set(into)
    assert into[gone.id]["cause"]
    assert not into[first.id]["cause"]
    # That the broker before it had died is said already, by way of the partitions without leader.
    assert [] == chain["competing"]


def test_what_else_may_have_led_there_is_listed_and_nothing_is_called_cause(tmp_path: Path) -> None:
    one = finding("slow-controller", 95, 130)
    other = finding("quorum-trouble", 99, 130)
    loop = finding("fencing-loop", 105, 125, brokers=[1])
    (chain,) = tied(tmp_path, one, other, loop)

    (link,) = links(chain, "effect")
    (rival,) = chain["competing"]
    assert {one.id, other.id} == {link["from"], rival["from"]}
    assert loop.id == rival["to"]
    assert not link["cause"]


def test_errors_of_clients_come_of_the_last_move_and_what_their_detector_saw(
    tmp_path: Path,
) -> None:
    moves = [
        epoch(1, 1, 0, election="initial"),
        epoch(2, 2, 104, previous_leader=1),
        epoch(3, 1, 170, previous_leader=2, election="preferred"),
    ]
    away = [absence(1, "crash", 100, 160)]
    lost, after = crash(1, 100, 160), stale(105, "broker_crash")
    later = stale(171, "preferred_election")
    found = tied(tmp_path, lost, after, later, away=away, leadership=moves)

    by_trigger = {chain["trigger"]["detector"]: chain for chain in found}
    assert {"broker-restart", MOVE} == set(by_trigger)
    assert after.id == links(by_trigger["broker-restart"], "effect")[0]["to"]
    assert later.id == links(by_trigger[MOVE], "effect")[0]["to"]
    assert by_trigger[MOVE]["trigger"]["finding"] is None
    assert by_trigger[MOVE]["trigger"]["title"] == "Preferred election of 1 partition"
    assert links(by_trigger[MOVE], "trigger")[0]["evidence"]


def test_a_move_that_was_followed_by_another_explains_nothing_any_more(tmp_path: Path) -> None:
    moves = [epoch(2, 2, 104, previous_leader=1), epoch(3, 3, 120, previous_leader=2)]
    away = [absence(1, "crash", 100, 160)]

    assert [] == tied(
        tmp_path, crash(1, 100, 160), stale(125, "broker_crash"), away=away, leadership=moves
    )


def test_each_change_of_controller_has_its_own_trigger(tmp_path: Path) -> None:
    away = [absence(1, "crash", 100, 130), absence(2, "crash", 200, 230)]
    reigns = [
        reign("broker-1", 1, 1, 10),
        reign("broker-2", 2, 2, 105),
        reign("broker-3", 3, 3, 208),
    ]
    churn = finding("controller-churn", 105, 208)
    (chain,) = tied(
        tmp_path, crash(1, 100, 130), crash(2, 200, 230), churn, away=away, controllers=reigns
    )

    assert ["broker-restart at 100", "broker-restart at 200"] == [
        link["title"] for link in links(chain, "trigger")
    ]
    assert [5.0, 8.0] == [link["before_s"] for link in links(chain, "effect")]


def test_a_chain_does_not_grow_with_the_archive(tmp_path: Path) -> None:
    moves = [epoch(2, 2, 104, previous_leader=1)]
    clients = [
        stale(105 + n / 10, "broker_crash", severity="info", clients=[f"app-{n}"])
        for n in range(100)
    ]
    lost, gone = crash(1, 100, 160), offline(104, 140, led_by=1)
    (chain,) = tied(
        tmp_path, lost, gone, *clients, away=[absence(1, "crash", 100, 160)], leadership=moves
    )

    assert 60 == len(chain["links"])
    assert 42 == chain["links_left_out"]
    assert gone.id in {link["to"] for link in chain["links"]}


def test_the_order_of_findings_plays_no_part(tmp_path: Path) -> None:
    some = [crash(2, 100, 141), crash(1, 120, 200), offline(122, 142, 1), unclean(141.5, 2, 1)]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert tied(tmp_path / "a", *some) == tied(tmp_path / "b", *reversed(some))


def test_mechanisms_are_written_as_they_must_be() -> None:
    for one in load_mechanisms():
        assert one.description.endswith("."), one.description
        assert set(one.scopes) <= set(SCOPES), one.description
        assert one.sources, one.description
        assert one.targets, one.description
        assert "cause" not in one.description.lower()
    names = {one.name for one in detectors()} | {MOVE}
    assert names & {name for one in load_mechanisms() for name in one.sources | one.targets}


def test_every_cause_that_a_detector_may_name_is_known() -> None:
    named = (
        "controlled_restart", "broker_crash", "preferred_election", "reassignment", "flapping",
        "controller_change", "unclean_election", "none_seen",
    )  # fmt: skip

    assert all(allowed_sources(name) is not None for name in named)
    assert allowed_sources(None) is None


@pytest.fixture(scope="module", params=["430-unclean", "391-rolling"])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    known = read_recording(tmp_path_factory, request.param).context()
    truth = json.loads((SAMPLES / request.param / "truth" / "run.json").read_text("utf-8"))
    return request.param, run_detectors(known, detectors()), truth


def test_the_chains_of_recordings_tell_what_was_done(
    sample: tuple[str, Any, Mapping[str, Any]],
) -> None:
    name, answers, truth = sample
    findings = {one.id: one for one in answers.findings}
    killed = [one["node"] for one in truth["actions"] if one["do"] == "kill"]

    if name == "391-rolling":
        assert [] == answers.chains
        assert [] == killed
        return
    chain = answers.chains[0]
    triggers = [findings[link["to"]].brokers for link in links(chain, "trigger")]
    assert [f"broker-{broker}" for (broker,) in triggers] == killed
    effects = {findings[link["to"]].detector for link in links(chain, "effect")}
    assert "unclean-election" in effects
    assert {"broker-restart", "offline-partitions"} <= {
        findings[link["from"]].detector for link in links(chain, "recovery")
    }
    worst = max(SEVERITIES.index(findings[one].severity) for one in chain["findings"])
    assert SEVERITIES.index("critical") == worst
