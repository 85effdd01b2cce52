"""Groups that do not come to rest, and deploys, which only look like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "rebalance-storm"
Row = dict[str, Any]
JOIN = "Adding new member m-{} with group instance id None; client reason: not provided"
LEAVE = "Removing member m-{} on LeaveGroup; client reason: the consumer is being closed"
POLL = "Removing member m-{} on LeaveGroup; client reason: consumer poll timeout has expired."
HEARTBEAT = "removing member m-{} on heartbeat expiration"
HOME = {"topic": "__consumer_offsets", "partition": 0}


def rebalances(
    count: int, step: float = 10, details: Iterable[str] = (JOIN, LEAVE), begin: float = 100
) -> list[Row]:
    """Let a group begin so many rebalances, one every `step` seconds."""
    given = tuple(details)
    return [
        event(
            begin + n * step, "broker-1", "group_rebalancing", group="report", generation=n,
            detail=given[n % len(given)].format(n), **HOME,
        )
        for n in range(count)
    ]  # fmt: skip


def stable(members: int, second: float = 101) -> Row:
    return event(second, "broker-1", "group_stable", group="report", count=members)


def fallen(count: int, kind: str = "group_member_failed", begin: float = 100) -> list[Row]:
    return [event(begin + n, "broker-1", kind, group="report") for n in range(count)]


def group(*rows: Row | list[Row], **more: Any) -> Callable[[Path], DetectionContext]:
    flat = [row for one in rows for row in (one if isinstance(one, list) else [one])]
    return partial(case, events=flat, **more)


def moves(*seconds: float) -> list[Row]:
    facts: dict[str, Any] = {"topic": "__consumer_offsets", "previous_leader": 1}
    return [epoch(n, 2, second, **facts) for n, second in enumerate(seconds)]


def severe(severity: str, cause: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"group": "report", "cause": cause} | measures}]


LINE = (
    "[2026-11-18 19:2{}:0{},466] INFO [GroupCoordinator 1]: Preparing to rebalance group report in "
    "state PreparingRebalance with old generation {} (__consumer_offsets-1) (reason: Removing "
    "member app-1-51a5b5df-fded-483b-bffd-99e9de09659a on LeaveGroup; client reason: consumer poll "
    "timeout has expired.) (kafka.coordinator.group.GroupCoordinator)\n"
)

SETTINGS = [
    event(50, "app", "client_setting_seen", setting=name, value=value, offset=0)
    for name, value in (
        ("group.id", "report"), ("session.timeout.ms", "6000"), ("group.instance.id", "null"),
        ("partition.assignment.strategy", "[RangeAssignor]"),
    )
]  # fmt: skip


def starts(count: int, client: str = "c-1") -> list[Row]:
    """Let an application start a consumer of the group every 20 s."""
    return [
        event(95 + 20 * n, "app", "client_setting_seen", setting=name, value=value, offset=n)
        for n in range(count)
        for name, value in (("group.id", "report"), ("client.id", client.format(n)))
    ]


def of_crashes(*rows: list[Row]) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 500, role="client", records=9)]
    return group(rebalances(12, details=[JOIN, HEARTBEAT]), stable(2), *rows, files=files)


def expired(*groups: str) -> Callable[[Path], DetectionContext]:
    """Let librdkafka leave without its group's name; its id is a member's in some groups."""
    uuid = "237671d8-42c3-4ed9-a76e-3f329443ad9f"
    left = [
        event(90, "broker-1", "group_member_left", group=name, member=f"app-{uuid}")
        for name in groups
    ]
    late = [
        event(100 + 20 * n, "app", "group_poll_expired", client="app#consumer-1") for n in range(5)
    ]
    files = [logs("app", 500, role="client", records=9)]
    return group(rebalances(10), stable(2), left, late, files=files)


SCENARIOS = [
    Scenario(
        NAME, "fires", "librdkafka's consumers that poll too late, by the ids of members",
        expired("report"),
        [{"severity": "medium", "clients": ["app"], "measures": {"cause": "poll_expired"}}],
    ),
    Scenario(
        NAME, "boundary", "whose group it is cannot be told", expired("report", "other"),
    ),
    Scenario(
        NAME, "fires", "a member that crashes and is started again is named",
        of_crashes(starts(5)),
        [{"title": "Group report rebalanced 12 times in 110 s: members are not heard of in time; "
                   "app was started 5 times", "measures": {"started": {"app": 5}}}],
    ),
    Scenario(
        NAME, "boundary", "a deploy starts a member twice", of_crashes(starts(2)),
        [{"title": "Group report rebalanced 12 times in 110 s: members are not heard of in time"}],
    ),
    Scenario(
        NAME, "boundary", "a process with several consumers", of_crashes(starts(5, "c-{}")),
        [{"title": "Group report rebalanced 12 times in 110 s: members are not heard of in time"}],
    ),
    Scenario(
        NAME, "fires", "lines of a coordinator",
        from_logs(
            {"broker-1/server.log": "".join(LINE.format(n // 6, n % 6, n) for n in range(12))}
        ),
        severe("medium", "poll_expired", rebalances=12, reasons={"poll_expired": 12}),
    ),
    Scenario(
        NAME, "fires", "members that are not heard of",
        group(rebalances(12, details=[JOIN, HEARTBEAT]), stable(2)),
        severe("medium", "heartbeat_expired", members=2),
    ),
    Scenario(
        NAME, "fires", "members alone tell of it",
        group([event(100 + n, "app", "group_joined", group="report", generation=n)
               for n in range(12)],
              [event(100.5 + n, "app", "group_poll_expired", group="report") for n in range(3)],
              files=[logs("app", 500, role="client", records=9)]),
        [{"clients": ["app"], "measures": {"cause": "poll_expired", "rebalances": 12}}],
    ),
    Scenario(
        NAME, "fires", "an application that crashes and comes back for ever",
        group(rebalances(24, 3)), severe("medium", "members_come_and_go", members=1),
    ),
    Scenario(
        NAME, "fires", "of many members one falls out again and again",
        group(rebalances(12, 100, [JOIN, POLL]), stable(5)),
        severe("medium", "poll_expired", members=5),
    ),
    Scenario(
        NAME, "fires", "clients that ask for ever new ids, and are never heard of again",
        group(rebalances(12, 10, [JOIN]), fallen(60, "group_member_joining"),
              fallen(12, "group_members_late")),
        severe("medium", "members_come_and_go"),
    ),
    Scenario(
        NAME, "fires", "what members logged of their settings is told",
        group(rebalances(12, details=[JOIN, HEARTBEAT]), stable(2), SETTINGS),
        [{"measures": {"settings": {"session.timeout.ms": ["6000"],
          "partition.assignment.strategy": ["[RangeAssignor]"], "group.instance.id": ["null"]}}}],
    ),
    Scenario(
        NAME, "quiet", "members that lose their coordinator each time",
        group([event(100 + n, "app", "group_joined", group="report", generation=n)
               for n in range(12)],
              [event(100.5 + n, "app", "group_coordinator_lost", group="report")
               for n in range(12)]),
        severe("low", "coordinator_moved", coordinator_moves=0),
    ),
    Scenario(
        NAME, "quiet", "nobody tells why",
        group([event(100 + n, "app", "group_joined", group="report", generation=n)
               for n in range(12)]),
        severe("low", "unknown"),
    ),
    Scenario(
        NAME, "quiet", "client bug, really __consumer_offsets out of ISR",
        group(rebalances(12), fallen(2, "group_write_failed")), severe("low", "storing_failed"),
    ),
    Scenario(
        NAME, "quiet", "consumer problem, really a coordinator that moves",
        group(rebalances(12), leadership=moves(110, 150)),
        severe("low", "coordinator_moved", coordinator_moves=2),
    ),
    Scenario(
        NAME, "quiet", "a deploy of five members, one after another",
        group(rebalances(14), stable(5)),
    ),
    Scenario(
        NAME, "quiet", "a deploy of ten members that are killed",
        group(rebalances(20, details=[HEARTBEAT, JOIN]), stable(10)),
    ),
    Scenario(
        NAME, "quiet", "one and the same rebalance, begun for many reasons",
        group([row | {"generation": 7} for row in rebalances(30)]),
    ),
    Scenario(NAME, "boundary", "nine", group(rebalances(9))),
    Scenario(NAME, "boundary", "ten", group(rebalances(10)), [{"measures": {"rebalances": 10}}]),
    Scenario(NAME, "boundary", "less than six for each of two", group(rebalances(11), stable(2))),
    Scenario(
        NAME, "boundary", "six for each of two", group(rebalances(12), stable(2)),
        [{"measures": {"members": 2}}],
    ),
    Scenario(
        NAME, "boundary", "ten minutes apart", group(rebalances(12, 600)),
        severe("low", "members_come_and_go", rebalances=12),
    ),
    Scenario(NAME, "boundary", "just more than ten minutes apart", group(rebalances(12, 600.001))),
    Scenario(
        NAME, "boundary", "two a minute are no crash loop",
        group(rebalances(10, 34)), severe("low", "members_come_and_go"),
    ),
    Scenario(
        NAME, "boundary", "more than two a minute are",
        group(rebalances(11, 30)), severe("medium", "members_come_and_go"),
    ),
    Scenario(
        NAME, "boundary", "at one or three a minute it is the same",
        group(rebalances(10, 50)), severe("low", "members_come_and_go"),
    ),
    Scenario(
        NAME, "boundary", "three of three fell out", group(
            rebalances(12), stable(3), fallen(3)),
    ),
    Scenario(
        NAME, "boundary", "four of three fell out", group(rebalances(12), stable(3), fallen(4)),
        severe("medium", "heartbeat_expired"),
    ),
    Scenario(
        NAME, "boundary", "three of two fell out", group(rebalances(11), stable(2), fallen(3)),
    ),
    Scenario(
        NAME, "boundary", "said ten seconds before and after",
        group(rebalances(11, 10), stable(3), fallen(1, begin=90), fallen(2), fallen(1, begin=210)),
        severe("medium", "heartbeat_expired"),
    ),
    Scenario(
        NAME, "boundary", "said too long before",
        group(rebalances(11, 10), stable(3), fallen(1, begin=89.999), fallen(2),
              fallen(1, begin=210)),
    ),
    Scenario(
        NAME, "boundary", "half an hour",
        group(rebalances(12, 1800 / 11, [POLL, JOIN])), severe("high", "poll_expired"),
    ),
    Scenario(
        NAME, "boundary", "just less than half an hour",
        group(rebalances(12, 1799 / 11, [POLL, JOIN])), severe("medium", "poll_expired"),
    ),
    Scenario(
        NAME, "blind", "only a controller's log",
        partial(case, files=[logs("c-1", 100, role="controller", records=9)]),
        reason="there is no brokers' or clients' log",
    ),
]  # fmt: skip
