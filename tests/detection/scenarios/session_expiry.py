"""Sessions of brokers with ZooKeeper that end, and registrations that are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from forensics.detection.context import DetectionContext
from tests.detection.cases import Row, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "session-expiry"
NODE = "broker-2"
DUPLICATE = "DUPLICATE_BROKER_REGISTRATION"


def zookeeper(*events: Row, last: float = 10_000) -> Callable[[Path], DetectionContext]:
    """Let broker 2 tell of its sessions."""
    files = [logs(NODE, last, role="broker", records=9)]
    return partial(case, files=files, events=events, kraft=False)


def ended(second: float) -> Row:
    """Let the session of broker 2 end."""
    return event(second, NODE, "session_expired")


def again(second: float, node: str = NODE, kind: str = "broker_registered") -> Row:
    """Let broker 2 be registered again."""
    return event(second, node, kind, broker=2)


def refused(
    seconds: Sequence[float], owner: str | None = "0x1", why: str = "NODEEXISTS"
) -> list[Row]:
    """Let broker 2 be refused at some moments."""
    return [
        event(second, NODE, "registration_failed", broker=2, error=why, detail=owner)
        for second in seconds
    ]


def lost(seconds: Sequence[float], kind: str = "zookeeper_unreachable") -> list[Row]:
    """Let broker 2 fail to reach ZooKeeper."""
    return [event(second, NODE, kind) for second in seconds]


def renewed(count: int) -> list[Row]:
    """Let sessions end, and be renewed."""
    return [row for at in range(count) for row in (ended(100 * at + 100), again(100 * at + 103))]


STALE = [
    event(100 * at + 100, NODE, "zookeeper_disconnected", duration_ms=30_000) for at in range(3)
]
LINES = {
    "broker-2/server.log": "[2026-11-18 11:46:18,021] INFO starting (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:46:19,512] ERROR Error while creating ephemeral at /brokers/ids/2, node already"
    " exists and owner '72057758203314178' does not match current session '72057758203314179'"
    " (kafka.zk.KafkaZkClient$CheckedEphemeral)\n"
    "[2026-11-18 11:46:20,456] ERROR Exiting Kafka. (kafka.Kafka$)\n"
    "[2026-11-18 11:46:41,426] INFO Registered broker 2 at path /brokers/ids/2 with addresses:"
    " PLAINTEXT://127.0.0.1:19002, czxid (broker epoch): 184 (kafka.zk.KafkaZkClient)\n"
    "[2026-11-18 11:48:14,351] WARN Unable to reconnect to ZooKeeper service, session"
    " 0x100002639050001 has expired (org.apache.zookeeper.ClientCnxn)\n"
    "[2026-11-18 11:48:14,353] INFO [ZooKeeperClient Kafka server] Session expired."
    " (kafka.zookeeper.ZooKeeperClient)\n"
    "[2026-11-18 11:48:14,363] INFO Registered broker 2 at path /brokers/ids/2 with addresses:"
    " PLAINTEXT://127.0.0.1:19002, czxid (broker epoch): 352 (kafka.zk.KafkaZkClient)\n"
}


def together(*seconds: float, silence: Sequence[Row] = ()) -> Callable[[Path], DetectionContext]:
    """Let brokers 1, 2 and 3 lose a session, one at each moment; they register again."""
    files = [logs(f"broker-{one}", 10_000, role="broker", records=9) for one in (1, 2, 3)]
    rows = [
        row
        for one, second in enumerate(seconds, 1)
        for row in (
            event(second, f"broker-{one}", "session_expired"),
            event(second + 2, f"broker-{one}", "broker_registered", broker=one),
        )
    ]
    return partial(case, files=files, events=[*silence, *rows], kraft=False)


def unanswered(*seconds: float, lasted_ms: int = 6_000) -> list[Row]:
    """Let each of the brokers say at one moment for how long ZooKeeper did not answer."""
    return [
        event(second, f"broker-{one}", "zookeeper_disconnected", duration_ms=lasted_ms)
        for one, second in enumerate(seconds, 1)
    ]


SCENARIOS = [
    Scenario(
        NAME, "fires", "ZooKeeper froze: from the last answer that any of them had",
        together(100, 100.1, 101, silence=[*unanswered(76, 77, 76.5), *unanswered(87, 88, 87.5)]),
        [{
            "begin": 71_000_000,
            "title": "3 brokers lost their sessions with ZooKeeper together after 29.0 s without "
            "an answer",
            "doubts": [],
        }],
    ),
    Scenario(
        NAME, "boundary", "all write again only as they wake: a pause of their host is as likely",
        together(100, 100.1, 101, silence=unanswered(99.9, 99.9, 99.9, lasted_ms=30_000)),
        [{
            "begin": 100_000_000,
            "title": "3 brokers lost their sessions with ZooKeeper together",
            "doubts": ["A pause of the host that all of these brokers share looks the same."],
        }],
    ),
    Scenario(
        NAME, "boundary", "a long time without an answer is told once",
        together(140, 140.1, 141, silence=[
            row for second in range(76, 140, 9) for row in unanswered(*[second] * 3)
        ]),
        [{"begin": 70_000_000, "measures": {"kind": "common"}}],
    ),
    Scenario(
        NAME, "fires", "most brokers at once: ZooKeeper", together(100, 100.1, 103),
        [{"severity": "medium", "brokers": [1, 2, 3], "measures": {"kind": "common"}}],
    ),
    Scenario(
        NAME, "boundary", "two of three at once", together(100, 100.1),
        [{"severity": "medium", "brokers": [1, 2]}],
    ),
    Scenario(
        NAME, "quiet", "all brokers, but one after the other", together(100, 300, 500),
        [{"severity": "low"}] * 3,
    ),
    Scenario(
        NAME, "fires", "a start that was too fast, and a session that ended", from_logs(LINES),
        [{"severity": "low", "brokers": [2], "measures": {"kind": "too_fast", "refused": 1}},
         {"severity": "low", "measures": {"kind": "expired", "expiries": 1}}],
    ),
    Scenario(
        NAME, "fires", "a zombie: refused for ever", zookeeper(ended(100), *refused([101])),
        [{"severity": "high", "measures": {"kind": "zombie"}}],
    ),
    Scenario(
        NAME, "fires", "two processes with one id", zookeeper(*refused([100, 130, 160])),
        [{"severity": "high", "measures": {"kind": "twin", "refused": 3, "lasted_s": 60.0}}],
    ),
    Scenario(
        NAME, "fires", "ZooKeeper is gone", zookeeper(*lost(range(100, 200, 2))),
        [{"severity": "medium", "measures": {"kind": "unreachable"}}],
    ),
    Scenario(
        NAME, "fires", "ZooKeeper answers nobody: one finding",
        zookeeper(*lost(range(100, 200, 2)), *(
            event(second, "broker-1", "zookeeper_disconnected") for second in range(104, 200, 4)
        )),
        [{"severity": "medium", "measures": {"kind": "unreachable", "node": "broker-1, broker-2"}}],
    ),
    Scenario(
        NAME, "boundary", "three sessions", zookeeper(*renewed(3)),
        [{"severity": "medium", "measures": {"expiries": 3}}],
    ),
    Scenario(
        NAME, "boundary", "two sessions", zookeeper(*renewed(2)),
        [{"severity": "low", "measures": {"expiries": 2}}],
    ),
    Scenario(
        NAME, "boundary", "three sessions that pauses of its own ended",
        zookeeper(*renewed(3), *STALE),
        [{"severity": "low", "measures": {"expiries": 3}}],
    ),
    Scenario(
        NAME, "boundary", "a minute without a registration", zookeeper(ended(100), last=160),
        [{"severity": "high", "measures": {"kind": "zombie"}}],
    ),
    Scenario(
        NAME, "boundary", "a log that ends before anyone could know",
        zookeeper(ended(100), last=159.5), [{"severity": "low", "measures": {"kind": "expired"}}],
    ),
    Scenario(
        NAME, "boundary", "restarted before anyone could know",
        zookeeper(ended(100), event(150, NODE, "process_starting"), again(155)),
        [{"severity": "low", "measures": {"kind": "expired"}}],
    ),
    Scenario(
        NAME, "boundary", "refused for less than a minute",
        zookeeper(*refused([100, 159.5])), [{"severity": "low", "measures": {"kind": "too_fast"}}],
    ),
    Scenario(
        NAME, "boundary", "three starts in vain", zookeeper(*refused([100, 102, 104]), again(110)),
        [{"severity": "medium", "measures": {"kind": "too_fast", "refused": 3}}],
    ),
    Scenario(
        NAME, "boundary", "two starts in vain", zookeeper(*refused([100, 102]), again(110)),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "half a minute without ZooKeeper", zookeeper(*lost([100, 115, 130])),
        [{"severity": "medium"}],
    ),
    *(
        Scenario(
            NAME, kind, name,
            zookeeper(*lost([100, 105]), event(end, NODE, "zookeeper_connected"),
                      *(event(at, other, "zookeeper_unreachable") for at in (100, 106)),
                      event(end, other, "zookeeper_connected")),
            [{"severity": "low", "measures": {"kind": "unreachable"}}] if fires else [],
        )
        for kind, name, other, end, fires in (
            ("boundary", "ten seconds without ZooKeeper for all brokers", "broker-1", 110, True),
            ("boundary", "and just less", "broker-1", 109.9, False),
            ("quiet", "ZooKeeper is gone for one broker, and soon back", NODE, 110, False),
        )
    ),
    Scenario(NAME, "boundary", "just less", zookeeper(*lost([100, 115, 129.5]))),
    Scenario(
        NAME, "boundary", "attempts as far apart as belong together",
        zookeeper(*lost([100, 130, 160])), [{"measures": {"attempts": 3}}],
    ),
    Scenario(NAME, "boundary", "attempts too far apart", zookeeper(*lost([100, 130.5, 161]))),
    Scenario(
        NAME, "quiet", "two brokers with one id: own old session",
        zookeeper(*refused([100]), again(108)), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "ZooKeeper down: it was stopped before the broker",
        zookeeper(*lost(range(100, 200, 2)), event(95, NODE, "process_stopping")),
        [{"severity": "low", "measures": {"kind": "stopped_first"}}],
    ),
    Scenario(
        NAME, "quiet", "ZooKeeper down, really stopped before a broker that still tries to stop",
        zookeeper(*lost(range(300, 400, 2)), event(95, NODE, "process_stopping")),
        [{"severity": "low", "measures": {"kind": "stopped_first"}}],
    ),
    Scenario(
        NAME, "fires", "ZooKeeper is gone after a restart", zookeeper(
            *lost(range(300, 400, 2)), event(95, NODE, "process_stopping"),
            event(99, NODE, "process_starting")),
        [{"severity": "medium", "measures": {"kind": "unreachable"}}],
    ),
    Scenario(
        NAME, "quiet", "registered again, as the controller tells",
        zookeeper(ended(100), again(104, "broker-1", "brokers_joined")), [{"severity": "low"}],
    ),
    Scenario(NAME, "quiet", "a connection that was lost and found", zookeeper(*lost([100, 101]))),
    Scenario(
        NAME, "quiet", "ZooKeeper down: lost again and again, and there in between",
        zookeeper(
            *lost(range(100, 200, 20), "zookeeper_disconnected"),
            *lost(range(105, 205, 20), "zookeeper_connected"),
        ),
    ),
    Scenario(
        NAME, "quiet", "a KRaft broker that waits for its old registration to time out",
        zookeeper(*refused([100, 102, 104, 106], None, DUPLICATE), again(109)),
    ),
    Scenario(
        NAME, "boundary", "a KRaft broker that waits for ever",
        zookeeper(*refused(range(100, 170, 10), None, DUPLICATE)),
        [{"severity": "high", "measures": {"kind": "twin"}}],
    ),
    Scenario(
        NAME, "boundary", "refused by one process before, and by another one later",
        zookeeper(*refused([100]), *refused([170], "0x2")),
        [{"severity": "low", "measures": {"kind": "too_fast"}}],
    ),
    Scenario(NAME, "quiet", "a first registration", zookeeper(again(100))),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' log",
    ),
]  # fmt: skip
