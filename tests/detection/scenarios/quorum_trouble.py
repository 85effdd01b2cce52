"""A KRaft quorum without a leader: elections that fail, time-outs, a majority that is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from forensics.history.nodes.controller_terms import ControllerTerm
from tests.detection.cases import Row, absence, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

LED = ControllerTerm("controller-2", 2, Span("active", 0, None, [], 7))

NAME = "quorum-trouble"


def failing(seconds: Sequence[float], kind: str = "raft_election_timed_out") -> list[Row]:
    """Let elections fail at some moments."""
    return [
        event(second, "controller-1", kind, broker=1, controller_epoch=at)
        for at, second in enumerate(seconds)
    ]


def quorum(
    seconds: Sequence[float],
    *elected: float,
    kind: str = "raft_election_timed_out",
    told: Sequence[Row] = (),
    **more: Any,
) -> Callable[[Path], DetectionContext]:
    """Let elections fail at some moments, and be won at others."""
    won = [event(second, "controller-1", "controller_elected", controller=1) for second in elected]
    return partial(case, events=[*failing(seconds, kind), *won, *told], **more)


def lone(
    count: int, step: float = 13.5, length: float = 4.5, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let a broker be fenced after each session."""
    away = [absence(1, "pause", 100 + step * at, 100 + step * at + length) for at in range(count)]
    return partial(case, away=away, **more)


ALONE = {
    "controller.log": "".join(
        f"[2026-06-14 13:0{at // 60}:{at % 60:02d},546] INFO [QuorumController id=1] The request"
        " from broker 1 to unfence has been granted because it has caught up with the offset of its"
        " register broker record 24227. (org.apache.kafka.controller.BrokerHeartbeatManager)\n"
        f"[2026-06-14 13:0{(at + 9) // 60}:{(at + 9) % 60:02d},552] INFO [QuorumController id=1]"
        " Fencing broker 1 because its session has timed out."
        " (org.apache.kafka.controller.ReplicationControlManager)\n"
        for at in (3, 17, 30, 44, 57, 71)
    )
}
TIMED_OUT = {
    "controller-1/server.log": "".join(
        f"[2026-06-14 13:00:{at:02d},000] INFO [RaftManager id=1] Election has timed out, backing"
        " off for 100ms before becoming a candidate again"
        " (org.apache.kafka.raft.KafkaRaftClient)\n"
        for at in range(0, 60, 2)
    )
}
LEFT_ALONE = (
    "[2026-06-14 13:00:{at:06.3f}] INFO [RaftManager id=3002] {text}"
    " (org.apache.kafka.raft.{logger})\n"
)
FOLLOWS = (
    "FollowerState(fetchTimeoutMs=2000, epoch=1, leader=3003, leaderEndpoints=Endpoints(endpoints={"
    "ListenerName(CONTROLLER)=127.0.0.1/<unresolved>:19103}), votedKey=Optional.empty, voters="
    "[3001, 3002, 3003], highWatermark=Optional.empty, fetchingSnapshot=Optional.empty)"
)
ASKS = (
    "ProspectiveState(epoch=1, leaderId=OptionalInt[3003], votedKey=Optional.empty, epochElection="
    "EpochElection(voterStates={}), electionTimeoutMs=1600, highWatermark=Optional.empty)"
)
TIMED_OUT_ASKING = (
    "Election timed out before receiving sufficient vote responses to become candidate. Current"
    " epoch election state: EpochElection(voterStates={})"
)


def alone(turns: int) -> dict[str, str]:
    """Let a controller of Kafka 4 ask for votes in vain, and follow the dead leader in between."""
    said = []
    for turn in range(turns):
        at = 3.6 * turn
        said += [
            (at, "Transitioning to Prospective state due to fetch timeout", "KafkaRaftClient"),
            (at, f"Completed transition to {ASKS} from {FOLLOWS}", "QuorumState"),
            (at + 1.6, TIMED_OUT_ASKING, "KafkaRaftClient"),
            (at + 1.6, f"Completed transition to {FOLLOWS} from {ASKS}", "QuorumState"),
        ]  # fmt: skip
    lines = (
        LEFT_ALONE.format(at=at, text=text, logger=logger).replace(".", ",", 1)
        for at, text, logger in said
    )
    return {"controller-2/server.log": "".join(lines)}


STOPPED = [absence(one, "controlled", 50) for one in (1, 2, 3)]

VOTERS = [logs(f"controller-{one}", 10_000, role="controller", records=9) for one in (1, 2, 3)]

SCENARIOS = [
    Scenario(
        NAME, "fires", "one of three controllers is left",
        quorum(range(100, 160, 2), 160, files=VOTERS),
        [{"severity": "medium", "measures": {
            "kind": "no_leader", "silent": ["controller-2", "controller-3"]}}],
    ),
    Scenario(
        NAME, "fires", "two of three are left, and find no leader nevertheless",
        quorum(range(100, 160, 2), 160, files=VOTERS,
               told=[event(110, "controller-2", "raft_transition")]),
        [{"severity": "medium", "measures": {"kind": "no_leader", "failed": 30}}],
    ),
    Scenario(
        NAME, "fires", "nobody wins for a minute", from_logs(TIMED_OUT),
        [{"severity": "medium", "measures": {"kind": "no_leader", "failed": 30, "still": True}}],
    ),
    Scenario(
        NAME, "fires", "in between it follows the leader that is dead", from_logs(alone(10)),
        [{"severity": "medium", "measures": {
            "kind": "no_leader", "failed": 10, "longest_s": 34.0, "nodes": ["controller-2"]}}],
    ),
    Scenario(
        NAME, "boundary", "it follows one for less than half a minute", from_logs(alone(8)),
    ),
    Scenario(
        NAME, "fires", "a lost quorum looks like a broker that is fenced again and again",
        from_logs(ALONE),
        [{"severity": "high", "brokers": [1], "measures": {"kind": "lost_majority", "cycles": 6}}],
    ),
    Scenario(
        NAME, "fires", "the votes are refused",
        quorum([100, 120, 140], 145, kind="raft_votes_refused"),
        [{"severity": "medium", "measures": {"refused": 3, "longest_s": 45.0, "still": False}}],
    ),
    Scenario(
        NAME, "boundary", "a leader after half a minute", quorum([100, 110, 120], 130),
        [{"severity": "medium", "measures": {"longest_s": 30.0}}],
    ),
    Scenario(NAME, "boundary", "a leader just before", quorum([100, 110, 120], 129.5)),
    Scenario(
        NAME, "boundary", "a leader after five minutes", quorum(range(100, 401, 50), 400),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "a leader just before five minutes", quorum(range(100, 400, 50), 399.5),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "twenty elections within seconds", quorum(range(100, 120), 121),
        [{"severity": "medium", "measures": {"failed": 20}}],
    ),
    Scenario(NAME, "boundary", "nineteen", quorum(range(100, 119), 121)),
    Scenario(
        NAME, "boundary", "as far apart as belongs together", quorum([100, 160], 161),
        [{"measures": {"longest_s": 61.0}}],
    ),
    Scenario(
        NAME, "boundary", "further apart: two, each without a length", quorum([100, 160.5], 900),
    ),
    Scenario(
        NAME, "fires", "a leader is lost again after a while: one finding",
        quorum([100, 130, 400, 450, 500], 140, 520),
        [{"measures": {"times": 2, "longest_s": 120.0, "failed": 5, "still": False}}],
    ),
    Scenario(
        NAME, "boundary", "again ten minutes later", quorum([100, 130, 740, 780], 140, 790),
        [{"measures": {"times": 2}}],
    ),
    Scenario(
        NAME, "boundary", "again after a longer rest", quorum([100, 130, 740.5, 780], 140, 790),
        [{"measures": {"times": 1}}, {"measures": {"times": 1}}],
    ),
    Scenario(NAME, "boundary", "three times alone", lone(3), [{"measures": {"cycles": 3}}]),
    Scenario(NAME, "boundary", "twice alone", lone(2)),
    Scenario(
        NAME, "boundary", "a session that ends late, as far as a timer does",
        lone(4, 9 * 1.19 + 4.5), [{"measures": {"cycles": 4}}],
    ),
    Scenario(NAME, "boundary", "heard of in between", lone(4, 9 * 1.21 + 4.5)),
    Scenario(
        NAME, "boundary", "not as late as that", lone(4, 9 * 1.15 + 4.5),
        [{"measures": {"cycles": 4}}],
    ),
    Scenario(
        NAME, "quiet", "the log of a follower, who knows its leader",
        partial(case, events=[
            *failing(range(100, 200, 10)),
            *(
                event(second + 2, "controller-1", kind, controller=2, controller_epoch=7, **more)
                for second in range(100, 200, 20)
                for kind, more in (
                    ("controller_seen", {}), ("raft_transition", {"to_state": "FollowerState"}),
                )
            ),
        ]),
    ),
    Scenario(
        NAME, "quiet", "a controller that is cut off, while another one leads",
        quorum(
            range(100, 200, 10), offices=[LED],
            told=[event(150, "controller-2", "leaders_changing")],
        ),
        [{"severity": "low", "measures": {"kind": "cut_off"}}],
    ),
    Scenario(
        NAME, "fires", "who led is dead: nothing more is heard of it",
        quorum(
            range(100, 200, 10), offices=[LED],
        ),
        [{"severity": "medium", "measures": {"kind": "no_leader"}}],
    ),
    Scenario(NAME, "quiet", "elections of a start", quorum([100, 101, 102, 103, 104], 105)),
    Scenario(NAME, "quiet", "a cluster that is shut down", quorum(range(100, 200), away=STOPPED)),
    Scenario(
        NAME, "quiet", "a broker that hangs again and again",
        partial(case, away=[absence(1, "pause", 23 * at, 23 * at + 5) for at in range(1, 9)]),
    ),
    Scenario(NAME, "quiet", "a cluster on ZooKeeper", lone(8, kraft=False)),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
