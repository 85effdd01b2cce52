"""An active controller that was lost: nobody elects leaders until another one takes over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.history.nodes.controller_terms import ControllerTerm
from tests.detection.cases import SECOND, absence, case, epoch, event, logs, reign
from tests.detection.scenarios import Scenario, from_logs

NAME = "controller-lost"


def term(node: str, number: int, begin: float, end: float | None, how: str | None = None) -> Any:
    """Make the term of a controller that ended in some way, shown by one line."""
    plain = reign(node, int(node[-1]), number, begin)
    ends = None if end is None else int(end * SECOND)
    place: EvidenceRow = {"file": f"{node}/server.log", "line": number, "text": "gone"}
    lines = [*plain.span.evidence, *([place] if how else [])]
    span = Span("active", plain.span.begin, ends, lines, number)
    return ControllerTerm(node, plain.controller, span, how)


def lost(
    how: str | None = "crashed", gap: float = 4, node: str = "controller-2", **more: Any
) -> Callable[[Path], DetectionContext]:
    """Lose the controller 1 at 100 s; another one takes over some seconds later."""
    terms = [term("controller-1", 1, 0, 100, how), term(node, 2, 100 + gap, None)]
    return partial(case, offices=terms, **more)


def twice(apart: float) -> Callable[[Path], DetectionContext]:
    """Lose two controllers, one some seconds after the other."""
    again = 104 + apart
    return partial(case, offices=[
        term("broker-1", 1, 0, 100, "crashed"),
        term("broker-2", 2, 104, again - 3, "paused"),
        term("broker-3", 3, again, None),
    ])  # fmt: skip


def failover(begin: float) -> Any:
    """Let partition t-0, led by broker 3, get another leader."""
    return epoch(1, 2, begin, previous_leader=3, election="failover")


RAFT = (
    "[2026-11-18 11:44:{at},000] INFO [RaftManager id={id}] {text}"
    " (org.apache.kafka.raft.{logger})\n"
)
ELECTED = (
    "[2026-11-18 11:44:{at},000] INFO [QuorumController id={id}] Becoming the active controller"
    " at epoch {epoch}, next write offset 1. (org.apache.kafka.controller.QuorumController)\n"
)
TIMED_OUT = "Transitioning to Prospective state due to fetch timeout"
DISCONNECTED = (
    "[2026-11-18 11:44:{at},500] INFO [RaftManager id=3002] Node 3001 disconnected."
    " (org.apache.kafka.clients.NetworkClient)\n"
)
KILLED = {
    "controller-1/controller.log": ELECTED.format(at="10", id=3001, epoch=4),
    "controller-2/server.log": DISCONNECTED.format(at="30")
    + RAFT.format(at="32", id=3002, text=TIMED_OUT, logger="KafkaRaftClient"),
    "controller-2/controller.log": ELECTED.format(at="34", id=3002, epoch=5),
}
BOTH = {"losses": 2, "lost_by": ["broker-1", "broker-2"], "how": ["crashed", "paused"]}

SCENARIOS = [
    Scenario(
        NAME, "fires", "the active controller is killed, and nothing else", from_logs(KILLED),
        [{
            "severity": "low",
            "measures": {"node": "controller-1", "how": ["crashed"], "longest_s": 3.5,
                         "epochs": [5]},
        }],
    ),
    Scenario(
        NAME, "fires", "nobody leads for long", lost(gap=8.7),
        [{"severity": "medium", "measures": {"longest_s": 8.7, "losses": 1}}],
    ),
    Scenario(
        NAME, "fires", "a partition has to wait for its next leader",
        lost(away=[absence(3, "crash", 101)], leadership=[failover(105)]),
        [{"severity": "medium", "measures": {"delayed_partitions": 1}}],
    ),
    Scenario(
        NAME, "fires", "a leader's change of the ISR has to wait",
        lost(events=[event(102, "broker-3", "isr_proposed", topic="t", partition=0, broker=3)]),
        [{"severity": "low", "measures": {"waiting_isr_changes": 1}}],
    ),
    Scenario(
        NAME, "fires", "a ZooKeeper controller is at work once it has read everything",
        lost(events=[event(106, "controller-2", "controller_ready")]),
        [{"severity": "medium", "measures": {"longest_s": 6.0}}],
    ),
    Scenario(
        NAME, "fires", "lost twice within minutes: one finding", twice(90),
        [{"severity": "low", "brokers": [1, 2], "measures": BOTH}],
    ),
    Scenario(
        NAME, "fires", "the same node is elected again after a crash",
        lost(node="controller-1"), [{"measures": {"losses": 1}}],
    ),
    Scenario(
        NAME, "fires", "two of three controllers crash, and the one left is elected again",
        partial(
            case,
            offices=[term("broker-1", 1, 0, 100, "no_majority"), term("broker-1", 2, 124, None)],
            away=[absence(2, "crash", 100), absence(3, "crash", 100)],
        ),
        [{
            "severity": "medium", "brokers": [1],
            "measures": {"how": ["no_majority"], "longest_s": 24.0},
        }],
    ),
    Scenario(
        NAME, "fires", "another controller is down: nobody is elected before it is started",
        lost(gap=40, processes={"controller-3": [Span("crashed", 101 * SECOND, 139 * SECOND)]}),
        [{"severity": "medium", "measures": {"longest_s": 40.0}}],
    ),
    Scenario(NAME, "boundary", "as long as an election takes", lost(gap=5), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "longer", lost(gap=5.1), [{"severity": "medium"}]),
    Scenario(
        NAME, "boundary", "a partition whose leader is well moves later",
        lost(leadership=[failover(105)]), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "a change of the ISR before",
        lost(events=[event(99, "broker-3", "isr_proposed", topic="t", partition=0, broker=3)]),
        [{"measures": {"waiting_isr_changes": 0}}],
    ),
    Scenario(
        NAME, "boundary", "lost twice, far apart: two findings", twice(601),
        [{"measures": {"losses": 1}}, {"measures": {"losses": 1}}],
    ),
    Scenario(NAME, "quiet", "it was stopped, and handed over", lost("stopped")),
    Scenario(NAME, "quiet", "nothing shows how it ended", lost(None)),
    Scenario(
        NAME, "quiet", "a stop of the process that its own log shows",
        lost("resigned", events=[event(95, "controller-1", "process_stopping")]),
    ),
    Scenario(
        NAME, "quiet", "it resigned, and was elected again",
        lost("resigned", node="controller-1"),
    ),
    Scenario(
        NAME, "quiet", "three times within minutes: that is churn",
        partial(case, offices=[
            term(f"controller-{1 + at % 2}", at, 100 * at, 100 * at + 97, "crashed")
            for at in range(4)
        ]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
