"""Changes that were made shortly before trouble."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, absence, case, epoch, event, logs
from tests.detection.scenarios import Scenario

NAME = "recent-change"
Row = dict[str, Any]


def changed(
    second: float = 100, kind: str = "config_set", topic: str | None = "t", **more: Any
) -> Row:
    given = {"detail": "min.insync.replicas to 3"} | more
    return event(second, "controller-1", kind, topic=topic, **given)


def refused(second: float, topic: str = "t") -> Row:
    return event(second, "app", "client_error", topic=topic, partition=0,
                 error="NOT_ENOUGH_REPLICAS")  # fmt: skip


def of(*events: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events), **more)


def started(end: float) -> Mapping[int, list[Span]]:
    """Let broker 1 start, and be up from a moment on."""
    return {1: [Span("starting", 0, int(end * SECOND), [])]}


RAISED = (
    "Changed shortly before: min.insync.replicas to 3 (topic t), 12 s before writes to t were"
    " refused (NOT_ENOUGH_REPLICAS)"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "a minimum was raised, and writes were refused",
        of(changed(), refused(112)),
        [{"severity": "info", "title": RAISED}],
    ),
    Scenario(
        NAME, "fires", "of several troubles the one of the same topic is named",
        of(changed(), refused(112), refused(105, "u")),
        [{"title": RAISED}],
    ),
    Scenario(
        NAME, "fires", "a reassignment, and a broker that crashed",
        of(changed(kind="reassignments_asked", topic=None), away=[absence(1, "crash", 160)]),
        [{"title": "Changed shortly before: replicas were reassigned, 60 s before broker 1 was"
          " lost"}],
    ),
    Scenario(
        NAME, "fires", "each node that logs it counts once",
        of(changed(), changed(101), refused(112)),
        [{"title": RAISED}],
    ),
    Scenario(
        NAME, "fires", "a setting that lists very much is cut in the title",
        of(changed(detail="leader.replication.throttled.replicas to " + ",".join(["10:2"] * 200)),
           refused(112)),
        [{"title": "Changed shortly before: leader.replication.throttled.replicas to "
          + "10:2," * 15 + "10:…, 12 s before writes to t were refused (NOT_ENOUGH_REPLICAS)"}],
    ),
    Scenario(NAME, "boundary", "ten minutes before", of(changed(), refused(700)), [{}]),
    Scenario(NAME, "boundary", "earlier than that", of(changed(), refused(701))),
    Scenario(NAME, "quiet", "the cluster was new",
             of(changed(topic=None), refused(112), leadership=[epoch(0, 1, 101)])),
    Scenario(
        NAME, "boundary", "a broker that started a minute before reads what is set",
        of(changed() | {"node": "broker-1"}, refused(112), brokers=started(40)),
    ),
    Scenario(
        NAME, "boundary", "it has been up for longer",
        of(changed() | {"node": "broker-1"}, refused(112), brokers=started(39)), [{}],
    ),
    Scenario(NAME, "quiet", "afterwards", of(changed(), refused(99))),
    Scenario(NAME, "quiet", "a broker that was stopped",
             of(changed(), away=[absence(1, "controlled", 160)])),
    Scenario(
        NAME, "boundary", "a topic that was made ten seconds before begins with it",
        of(changed(), refused(112), leadership=[epoch(0, 1, 90)]),
    ),
    Scenario(
        NAME, "boundary", "the topic is older",
        of(changed(), refused(112), leadership=[epoch(0, 1, 89)]), [{}],
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
