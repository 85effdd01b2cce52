"""Processes that stood still for seconds: garbage collection, a stalled disk, a frozen host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.detection.shared.process_stalls import look_at_machine
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, Row, absence, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "long-pause"
SERVERS = [logs(f"broker-{one}", 10_000, role="broker", records=9) for one in (1, 2, 3)]


def collected(ends: Sequence[float], seconds: float = 2.0, node: str = "broker-1") -> list[Row]:
    """Let a JVM collect garbage at some moments."""
    length = round(seconds * 1000)
    return [event(end, node, "gc_pause", duration_ms=length, detail="Full") for end in ends]


def gc(ends: Sequence[float], seconds: float = 2.0) -> Callable[[Path], DetectionContext]:
    """Let broker 1 collect garbage."""
    return partial(case, files=SERVERS, events=collected(ends, seconds))


def unheard(
    seconds: float, session: int = 9000, connected: bool = True
) -> Callable[[Path], DetectionContext]:
    """Let a ZooKeeper client notice after so many seconds that it heard nothing."""
    begun = event(1, "broker-1", "zookeeper_connected", duration_ms=session)
    lost = event(900, "broker-1", "zookeeper_disconnected", duration_ms=round(seconds * 1000))
    return partial(case, files=SERVERS, events=[begun, lost] if connected else [lost], kraft=False)


def fenced(*events: Row, how: str) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be fenced from 109 to 114; `events` are what it wrote."""
    return partial(case, files=SERVERS, events=events, away=[absence(2, how, 109, 114)])


def late(
    seconds: float, *more: Row, ends: Sequence[float] = (900,), detail: str = "RaftManager"
) -> Callable[[Path], DetectionContext]:
    """Let broker 1 notice after so many seconds that a request of 2 s had timed out."""
    text = f"(elapsed time since send: {round(seconds * 1000)}ms, request timeout: 2000ms)"
    lost = [
        event(end, "broker-1", "peer_request_lost", duration_ms=round(seconds * 1000), text=text,
              detail=detail, value="FETCH")
        for end in ends
    ]  # fmt: skip
    return partial(case, files=SERVERS, events=[*lost, *more])


def removed(
    *more: Row, wakes: float = 122, kind: str = "group_coordinator_lost", **given: Any
) -> Callable[[Path], DetectionContext]:
    """Let the coordinator on broker 1 hear no heartbeat of a consumer from 100 to 110."""
    settings = {"client.id": "app", "group.id": "g", "session.timeout.ms": "10000"}
    member = "app-5ab0695a-8d49-4126-9849-def87cd9c4ce"
    rows = [
        *(event(1, "app", "client_setting_seen", offset=0, setting=name, value=value)
          for name, value in settings.items()),
        event(110, "broker-1", "group_member_failed", group="g", member=member, broker=1),
        event(wakes, "app", kind, group="g", client="app"),
    ]  # fmt: skip
    files = [*SERVERS, logs("app", 10_000, role="client", records=9)]
    return partial(case, files=files, events=[*rows, *more], **given)


GC = {
    "broker-1/kafkaServer-gc.log": "[2026-11-18T11:24:42.957+0000][gc          ] GC(15) Pause Full"
    " (G1 Compaction Pause) 4096M->4001M(4096M) 12107.523ms\n",
    "broker-1/server.log": "[2026-11-18 11:24:00,000] INFO [KafkaServer id=1] started"
    " (kafka.server.KafkaServer)\n",
}


def slept(used: str) -> Callable[[Path], DetectionContext]:
    """Let a collection of 20 s use so much processor time."""
    lines = "".join(
        f"[2026-11-18T11:24:42.957+0000][gc{more}] GC(15) {text}\n"
        for more, text in (
            (
                "          ",
                "Pause Young (Normal) (G1 Evacuation Pause) 206M->151M(267M) 20021.523ms",
            ),
            (",cpu      ", used),
        )
    )
    return from_logs({**GC, "broker-1/kafkaServer-gc.log": lines})


PAUSED = Span(
    "paused", 100 * SECOND, 114 * SECOND,
    [{"file": "broker-2/server.log", "line": 7, "text": "lost", "rule": None, "at": 114 * SECOND}],
)  # fmt: skip

SCENARIOS = [
    Scenario(
        NAME, "fires", "a consumer that its group did without", removed(),
        [{"severity": "medium", "brokers": [], "clients": ["app"],
          "measures": {"node": "app", "longest_ms": 22_000, "pauses": 1}}],
    ),
    Scenario(
        NAME, "quiet", "a consumer that noticed by itself",
        removed(event(105, "app", "group_session_expired")),
    ),
    Scenario(
        NAME, "quiet", "a consumer that was started again", removed(kind="client_setting_seen"),
    ),
    Scenario(
        NAME, "quiet", "a coordinator that froze, and heard nobody",
        removed(away=[absence(1, "pause", 99, 110)]),
    ),
    Scenario(NAME, "quiet", "a consumer that wakes as it is removed", removed(wakes=110.5)),
    Scenario(
        NAME, "fires", "a full collection, in the collector's own log", from_logs(GC),
        [{"severity": "medium", "brokers": [1],
          "measures": {"node": "broker-1", "longest_ms": 12107, "pauses": 1}}],
    ),
    Scenario(
        NAME, "fires", "an old JVM tells of it in seconds",
        partial(case, files=SERVERS, events=[
            event(900, "broker-1", "gc_pause_early", value="12.3412345"),
            event(901, "broker-1", "application_stopped", value="12.3500000"),
            event(950, "broker-1", "application_stopped", value="0.2"),
        ]),
        [{"severity": "medium", "measures": {"longest_ms": 13341, "pauses": 1}}],
    ),
    Scenario(
        NAME, "fires", "a ZooKeeper client that woke too late", unheard(14.1),
        [{"severity": "medium", "measures": {"longest_ms": 12600, "pauses": 1}}],
    ),
    Scenario(
        NAME, "fires", "a pause that the lanes found",
        partial(case, files=SERVERS, brokers={1: [], 2: [PAUSED], 3: []}),
        [{"severity": "medium", "measures": {"node": "broker-2", "longest_ms": 14000}}],
    ),
    Scenario(
        NAME, "fires", "a controller that was silent while an event took long",
        partial(case, files=SERVERS, events=[
            event(900, "broker-1", "quorum_event_slow", duration_ms=30_000)
        ]),
        [{"severity": "medium", "measures": {"node": "broker-1", "longest_ms": 30_000}}],
    ),
    Scenario(
        NAME, "fires", "a request that had timed out long before anybody looked", late(7),
        [{"severity": "low", "confidence": "possible", "brokers": [1],
          "measures": {"longest_ms": 6750, "pauses": 1, "fenced": 0}}],
    ),
    Scenario(
        NAME, "fires", "again and again", late(7, ends=range(100, 200, 10)),
        [{"severity": "medium", "measures": {"pauses": 10}}],
    ),
    Scenario(
        NAME, "fires", "what it wrote first as it woke is the end",
        late(7, event(899, "broker-1", "isr_shrunk")), [{"measures": {"longest_ms": 5750}}],
    ),
    Scenario(
        NAME, "fires", "of a request that is not sent all the time only the delay counts",
        late(7, detail="alter-partition"), [{"measures": {"longest_ms": 3000}}],
    ),
    Scenario(
        NAME, "boundary", "a thread that sleeps for a time-out looks once more after another",
        late(6, detail="heartbeat"), [{"measures": {"longest_ms": 2000}}],
    ),
    Scenario(
        NAME, "boundary", "and no later than that: the other one froze", late(5.999, detail="x"),
    ),
    Scenario(
        NAME, "quiet", "who asks one that hangs waits for two time-outs, again and again",
        late(4.006, ends=range(100, 200, 5), detail="heartbeat"),
    ),
    Scenario(
        NAME, "fires", "a controller that the others no longer heard of, until it woke",
        partial(case, files=SERVERS, processes={"controller-3": [PAUSED]}),
        [{"severity": "medium", "measures": {"node": "controller-3", "longest_ms": 14000}}],
    ),
    Scenario(
        NAME, "boundary", "noticed less than two seconds late", late(3.999),
    ),
    Scenario(NAME, "boundary", "two seconds late", late(4), [{"measures": {"longest_ms": 3750}}]),
    Scenario(
        NAME, "quiet", "it wrote meanwhile: one thread was busy",
        late(7, event(896, "broker-1", "isr_shrunk")),
    ),
    Scenario(NAME, "quiet", "longer than a session and not fenced: its clock was set", late(125)),
    Scenario(
        NAME, "fires", "shorter than the session that is set",
        late(12, event(1, "broker-1", "setting_seen", setting="broker.session.timeout.ms",
                       value="18000")),
        [{"measures": {"longest_ms": 11_750}}],
    ),
    Scenario(
        NAME, "fires", "a host: all nodes at once",
        partial(case, files=SERVERS, events=[
            *collected([900], 10), *collected([901.5], 10, "broker-2"),
            *collected([903], 10, "broker-3"),
        ]),
        [{"severity": "medium", "brokers": [1, 2, 3],
          "measures": {"host": True, "pauses": 1, "longest_ms": 10_000}}],
    ),
    Scenario(
        NAME, "fires", "a silence whose length the JVM tells better",
        partial(
            case, files=SERVERS, away=[absence(2, "pause", 109, 114)],
            events=[event(113, "broker-2", "safepoint_pause", duration_ms=11_500)],
        ),
        [{"measures": {"longest_ms": 11_500, "pauses": 1, "ways": {"jvm": 1}}}],
    ),
    Scenario(
        NAME, "boundary", "a pause each, too far apart for one host",
        partial(case, files=SERVERS, events=[
            *collected([900], 10), *collected([903.001], 10, "broker-2"),
        ]),
        [{"brokers": [1], "measures": {"host": False}}, {"brokers": [2]}],
    ),
    Scenario(
        NAME, "boundary", "two of three that wake together",
        partial(case, files=SERVERS, events=[
            *collected([900], 10), *collected([903], 10, "broker-2"),
        ]),
        [{"brokers": [1, 2], "measures": {"host": True}}],
    ),
    Scenario(
        NAME, "fires", "a collection that did not get to run: the machine, not the heap",
        slept("User=0.01s Sys=0.00s Real=20.02s"),
        [{
            "actions": look_at_machine("broker-1", knows_collector=True, starved=True),
            "measures": {"longest_ms": 20_021, "ways": {"starved": 1}},
        }],
    ),
    Scenario(
        NAME, "boundary", "a collection that worked all the time on one processor",
        slept("User=17.90s Sys=2.10s Real=20.02s"), [{"measures": {"ways": {"jvm": 1}}}],
    ),
    Scenario(
        NAME, "fires", "a collection of JVM 8 that did not get to run",
        from_logs({
            "broker-1/kafkaServer-gc.log": "2026-06-10T12:00:00.123+0000: 86412.345: [Full GC"
            " (Ergonomics) [PSYoungGen: 10720K->0K(141824K)] 179150K->21211K(312832K), 21.0741209"
            " secs] [Times: user=0.22 sys=0.00, real=21.07 secs]\n",
            "broker-1/server.log": "[2026-06-10 11:00:00,000] INFO starting"
            " (kafka.server.KafkaServer)\n[2026-06-10 13:00:00,000] INFO [KafkaServer id=1] started"
            " (kafka.server.KafkaServer)\n",
        }),
        [{"measures": {"ways": {"starved": 1}}}],
    ),
    Scenario(NAME, "boundary", "two seconds", gc([900]), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "just less than two", gc([900], 1.999)),
    Scenario(NAME, "boundary", "as long as a session", gc([900], 9), [{"severity": "medium"}]),
    Scenario(
        NAME, "boundary", "just shorter than a session", gc([900], 8.999), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "nine short ones", gc(range(100, 190, 10)),
        [{"severity": "low", "measures": {"pauses": 9}}],
    ),
    Scenario(
        NAME, "boundary", "ten short ones", gc(range(100, 200, 10)),
        [{"severity": "medium", "measures": {"pauses": 10}}],
    ),
    Scenario(
        NAME, "boundary", "an hour apart", gc([100, 3702]), [{"measures": {"pauses": 2}}],
    ),
    Scenario(NAME, "boundary", "more than an hour apart", gc([100, 3702.001]), [{}, {}]),
    Scenario(
        NAME, "quiet", "ZooKeeper down: noticed in time, the server does not answer", unheard(6),
    ),
    Scenario(NAME, "quiet", "a session whose length nobody tells", unheard(12, connected=False)),
    Scenario(
        NAME, "quiet", "cut off: it goes on to write",
        fenced(event(104, "broker-2", "heartbeat_failed"), how="isolated"),
    ),
    Scenario(NAME, "quiet", "a restart", fenced(how="controlled")),
    Scenario(
        NAME, "quiet", "a controller at work in between",
        partial(case, files=SERVERS, events=[
            event(880, "broker-1", "raft_transition"),
            event(900, "broker-1", "quorum_event_slow", duration_ms=30_000),
        ]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
