"""Stale-metadata errors: who moved behind them, how long they went on, and what else it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.clocks.model import ClockModel, Clocks, ClockSegment
from tests.detection.cases import absence, case, epoch, event, logs, reign, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "stale-metadata"
Row = dict[str, Any]
Build = Callable[[Path], DetectionContext]


def error(second: float, **more: Any) -> Row:
    facts = {"client": "app", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "t", "partition": 0}
    return event(second, "app", "client_error", **(facts | more))


def unknown(second: float, **more: Any) -> Row:
    return error(second, error="UNKNOWN_TOPIC_OR_PARTITION", partition=None, **more)


def move(second: float, election: str = "failover", number: int = 1, **more: Any) -> Row:
    """Broker 2 follows broker 1."""
    facts = {"leader": 2, "previous_leader": 1} | more
    return epoch(number, facts.pop("leader"), second, election=election, **facts)


def client(*rows: Row, moves: Iterable[Row] = (), ends: float = 10_000, **more: Any) -> Build:
    """Put the rows in the log of a client that began long ago and that ends at `ends`."""
    files = [
        logs("app", ends, role="client", records=9, first_ts=0),
        logs("broker-1", 10_000, role="broker", records=9),
    ]
    return partial(case, events=rows, leadership=tuple(moves), **({"files": files} | more))


def every(first: int, last: float, step: int = 10, make: Callable[..., Row] = error) -> list[Row]:
    return [make(second) for second in (*range(first, int(last), step), last)]


def held(verdict: str, cause: str, severity: str, **measures: Any) -> dict[str, Any]:
    return {"severity": severity, "measures": {"verdict": verdict, "cause": cause} | measures}


def bursts(count: int, election: str = "preferred", apart: float = 100, **more: Any) -> Build:
    moves = [
        move(apart * n + 100, election, n, previous_leader=1 + n % 2, leader=2 - n % 2)
        for n in range(count)
    ]
    return client(*(error(apart * n + 101) for n in range(count)), moves=moves, **more)


PATIENT = {"acks": "-1", "retries": "2147483647", "delivery.timeout.ms": "120000",
           "enable.idempotence": "true", "metadata.max.age.ms": "300000"}  # fmt: skip


def settings(**changed: str) -> list[Row]:
    """A producer's settings as it logs them at its start; underscores stand for dots."""
    values = PATIENT | {name.replace("_", "."): value for name, value in changed.items()}
    values |= {"client.id": "app"}
    return [event(1, "app", "client_setting_seen", setting=name, value=value)
            for name, value in values.items()]  # fmt: skip


def state(second: float, broker: int | None, leader: int = 2, **more: Any) -> Row:
    """What a broker, or the controller, logs as it takes up leader epoch 1 of t-0."""
    node = "controller-1" if broker is None else f"broker-{broker}"
    facts = {"topic": "t", "partition": 0, "leader_epoch": 1, "leader": leader, "broker": broker}
    return event(second, node, "partition_state", **(facts | more))


def known_clocks(*nodes: str, doubt: float = 100) -> Clocks:
    segment = ClockSegment(0, 0.0, 0.0, doubt, 0, 1 << 60)
    return Clocks({}, {}, (), {node: ClockModel([segment]) for node in nodes})


CLOCKS = known_clocks("controller-1", "broker-1", "broker-2", "broker-3")
AROUND_A_CRASH: dict[str, Any] = {"moves": [move(100)], "away": [absence(1, "crash", 91, 130)]}

LINES = """\
[2026-11-18 11:46:13,300] WARN [Producer clientId=app-orders] Got error produce response with \
correlation id 158 on topic-partition orders-0, retrying (2147483646 attempts left). Error: \
NOT_LEADER_OR_FOLLOWER (org.apache.kafka.clients.producer.internals.Sender)
"""
MOVED = """\
[2026-11-18 11:46:12,000] INFO [Broker id=2] Handling LeaderAndIsr request correlationId 1 from \
controller 3 for 1 partitions (state.change.logger)
[2026-11-18 11:46:13,100] INFO [Broker id=2] Leader orders-0 with topic id Some(\
3SRqdyCAQ1y-QXYXsCIkAQ) starts at leader epoch 5 from offset 120 with partition epoch 9, high \
watermark 120, ISR [2,3], adding replicas [] and removing replicas [] . Previous leader \
Some(1) and previous leader epoch was 4. (state.change.logger)
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "one burst around a restart is expected",
        client(error(100.2), error(101), moves=[move(100, "controlled_shutdown")]),
        [held("transient", "controlled_restart", "info", errors=2, duration_s=0.8, suspect=None)],
    ),
    Scenario(
        NAME, "fires", "a line of a producer's log",
        from_logs({"app-orders/client.log": LINES, "broker-2/state-change.log": MOVED}),
        [{"clients": ["app-orders"], "partitions": ["orders-0"], "severity": "info"}],
    ),
    Scenario(
        NAME, "fires", "errors that outlive the new leader by far",
        client(*every(100, 160), moves=[move(99)]),
        [held("sustained", "broker_crash", "medium")],
    ),
    Scenario(
        NAME, "fires", "errors that never end",
        client(*every(100, 160), moves=[move(99)], ends=165),
        [held("stuck", "broker_crash", "high")],
    ),
    Scenario(
        NAME, "fires", "each move has its own episode",
        client(error(101), error(121), moves=[
            move(100), move(120, "preferred", 2, leader=1, previous_leader=2)]),
        [
            held("transient", "broker_crash", "info"),
            held("transient", "preferred_election", "info"),
        ],
    ),
    Scenario(
        NAME, "fires", "partitions that moved apart are told apart",
        client(error(101), error(101.5, partition=1), moves=[
            move(100), move(101, "reassignment", partition=1)]),
        [
            held("transient", "broker_crash", "info"),
            held("transient", "reassignment", "info"),
        ],
    ),
    Scenario(
        NAME, "fires", "errors without a topic, after a broker was lost",
        client(error(101, topic=None, partition=None), away=[absence(1, "crash", 100, 130)]),
        [held("transient", "broker_crash", "info")],
    ),
    Scenario(
        NAME, "fires", "a topic deleted under a client",
        client(*every(101, 150, make=unknown), event(100, "broker-1", "topic_deleted", topic="t"),
               ends=155),
        [held("stuck", "none_seen", "medium", suspect="topic_deleted")],
    ),
    Scenario(
        NAME, "fires", "a topic deleted and made again",
        client(*every(101, 130, make=unknown), event(100, "broker-1", "topic_deleted", topic="t"),
               event(129, "broker-1", "topic_created", topic="t")),
        [held("sustained", "none_seen", "low", suspect="topic_recreated", lost="yes")],
    ),
    Scenario(
        NAME, "fires", "a topic that nobody ever created",
        client(*every(101, 150, make=unknown), ends=155),
        [held("stuck", "none_seen", "medium", suspect="topic_unknown")],
    ),
    Scenario(
        NAME, "fires", "a topic whose name is spelt wrong",
        client(*every(101, 150, make=partial(unknown, topic="ordres")), ends=155,
               moves=[epoch(0, 1, 1, topic="orders", election="initial")]),
        [held("stuck", "none_seen", "medium", suspect="topic_unknown", meant="orders")],
    ),
    Scenario(
        NAME, "fires", "a broker that gives out old metadata",
        client(*every(100, 150), event(120, "app", "client_metadata_stale"), moves=[
            epoch(0, 1, 1, election="initial")]),
        [held("sustained", "none_seen", "medium", suspect="stale_broker")],
    ),
    Scenario(
        NAME, "fires", "a broker that cannot be reached",
        client(*every(100, 150), event(120, "app", "client_connect_failed"), moves=[
            epoch(0, 1, 1, election="initial")]),
        [held("sustained", "none_seen", "medium", suspect="unreachable_broker")],
    ),
    Scenario(
        NAME, "fires", "errors with no move behind them are suspicious",
        client(*every(100, 150), moves=[epoch(0, 1, 1, election="initial")]),
        [held("sustained", "none_seen", "medium", suspect="stale_client")],
    ),
    Scenario(
        NAME, "fires", "without brokers' logs nobody knows",
        client(*every(100, 150), files=[logs("app", 10_000, role="client", records=9)]),
        [held("sustained", "none_seen", "medium", suspect="no_broker_logs")],
    ),
    Scenario(
        NAME, "fires", "a move that no line explains",
        client(error(101), moves=[move(100, "unknown")]),
        [held("transient", "none_seen", "info", suspect="unexplained_move")],
    ),
    Scenario(
        NAME, "fires", "a move that the old leader's stop explains",
        client(error(101), moves=[move(100, "unknown")], away=[absence(1, "controlled", 99, 120)]),
        [held("transient", "controlled_restart", "info", suspect=None)],
    ),
    Scenario(
        NAME, "quiet", "stale client, really a partition without a leader in a careless roll",
        client(*every(101, 150), moves=[
            epoch(1, -1, 100, previous_leader=1), move(151, "failover", 2, previous_leader=-1)]),
        [held("transient", "broker_crash", "info", leaderless=6)],
    ),
    Scenario(
        NAME, "quiet", "stale client, really a partition without a leader to the end",
        client(*every(101, 150), moves=[epoch(1, -1, 100, previous_leader=1)]),
        [held("sustained", "broker_crash", "low", leaderless=6)],
    ),
    Scenario(
        NAME, "quiet", "metadata storm, really an auto-created topic",
        client(*(unknown(100 + n / 10) for n in range(20)), moves=[
            epoch(0, 1, 101.5, election="initial")]),
        [held("transient", "none_seen", "info", suspect="topic_just_created")],
    ),
    Scenario(NAME, "quiet", "other errors", client(error(100, error="REQUEST_TIMED_OUT"))),
    Scenario(
        NAME, "boundary", "half a minute apart, with no move behind them", client(
            error(100), error(130)), [{"measures": {"errors": 2}}],
    ),
    Scenario(
        NAME, "boundary", "just more than half a minute apart", client(error(100), error(130.001)),
        [{"measures": {"errors": 1}}, {"measures": {"errors": 1}}],
    ),
    Scenario(
        NAME, "boundary", "to the end of what a refresh may take",
        client(error(99.5), error(115), moves=[move(100)]),
        [held("transient", "broker_crash", "info")],
    ),
    Scenario(
        NAME, "boundary", "just beyond what a refresh may take",
        client(error(99.5), error(115.001), moves=[move(100)]),
        [held("sustained", "broker_crash", "medium")],
    ),
    Scenario(
        NAME, "boundary", "half a minute, to the end of the log",
        client(error(100), error(120), error(130), moves=[move(99)], ends=145),
        [held("stuck", "broker_crash", "high")],
    ),
    Scenario(
        NAME, "boundary", "just less than half a minute, to the end of the log",
        client(error(100), error(120), error(129.999), moves=[move(99)], ends=135),
        [held("sustained", "broker_crash", "medium")],
    ),
    Scenario(
        NAME, "boundary", "a client that hears of a move five minutes later",
        client(error(400), moves=[move(100)]), [held("transient", "broker_crash", "info")],
    ),
    Scenario(
        NAME, "boundary", "a client that hears of a move later than its refresh",
        client(error(400.001), moves=[move(100)]), [held("transient", "none_seen", "info")],
    ),
    Scenario(
        NAME, "boundary", "errors two seconds before the first line about the move",
        client(error(98), moves=[move(100)]), [held("transient", "broker_crash", "info")],
    ),
    Scenario(
        NAME, "boundary", "errors longer before the first line about the move",
        client(error(97.999), moves=[move(100)]), [held("transient", "none_seen", "info")],
    ),
    Scenario(
        NAME, "boundary", "a new controller half a minute later",
        client(error(100), controllers=[reign("c-1", 1, 1, 5), reign("c-2", 2, 2, 130)]),
        [held("transient", "controller_change", "info")],
    ),
    Scenario(
        NAME, "boundary", "a new controller too late to matter",
        client(error(100), controllers=[reign("c-1", 1, 1, 5), reign("c-2", 2, 2, 130.001)]),
        [held("transient", "none_seen", "info")],
    ),
    Scenario(
        NAME, "boundary", "moves of one stroke",
        client(error(106), error(106, partition=1), moves=[move(100), move(105, partition=1)]),
        [{"measures": {"errors": 2}}],
    ),
    Scenario(
        NAME, "boundary", "moves of two strokes",
        client(error(106), error(106.1, partition=1), moves=[
            move(100), move(105.001, partition=1)]),
        [{"measures": {"errors": 1}}, {"measures": {"errors": 1}}],
    ),
    Scenario(
        NAME, "boundary", "twenty harmless bursts", bursts(20),
        [{"measures": {"bursts": 1, "errors": 1}}] * 20,
    ),
    Scenario(
        NAME, "boundary", "twenty-one harmless bursts are told as one", bursts(21),
        [{"severity": "info", "measures": {"bursts": 21, "errors": 21}}],
    ),
    Scenario(
        NAME, "fires", "who was asked, who leads since when, and whether that is so to the end",
        client(error(100.2), moves=[move(100, number=5)]),
        [{"brokers": [1], "measures": {
            "asked": [1], "led_before": [1], "leader": 2, "leader_epoch": 5, "stable": True,
            "led_since": "1970-01-01T00:01:40.000Z"}}],
    ),
    Scenario(
        NAME, "fires", "a broker that the errors name was asked",
        client(error(100.2, broker=3), moves=[move(100)]), [{"brokers": [3]}],
    ),
    Scenario(
        NAME, "fires", "a broker that was dead was not asked",
        client(error(100.2), state(103, 2), **AROUND_A_CRASH), [{"brokers": [2]}],
    ),
    Scenario(
        NAME, "quiet", "asked, really nobody that the logs show",
        client(error(110), state(103, 2), **AROUND_A_CRASH), [{"brokers": []}],
    ),
    Scenario(
        NAME, "fires", "a rack is lost: one card for all its leaders",
        client(error(101), error(101, partition=1), moves=[
            move(100), move(100, partition=1, previous_leader=3)],
            away=[absence(1, "crash", 91, 130), absence(3, "crash", 91, 130)]),
        [held("transient", "broker_crash", "info", errors=2, led_before=[1, 3])],
    ),
    Scenario(
        NAME, "fires", "with acks=1, while the former leader is not back",
        client(*settings(acks="1"), error(101), moves=[move(100)], away=[
            absence(1, "crash", 91)]),
        [{"measures": {"lost": "not_known"}}],
    ),
    Scenario(
        NAME, "quiet", "records cut off, really after another time as leader",
        client(*settings(acks="1"), error(101), moves=[
            move(100), move(120, "preferred", 2, leader=1, previous_leader=2),
            move(125, "preferred", 3, leader=2, previous_leader=1)], cuts=[row(
                "cuts", topic="t", partition=0, leader_epoch=3, leader=2, broker=1, cut_to=5,
                log_end=9, started_at=130_000_000, evidence=[])]),
        [{"measures": {"lost": "no"}}],
    ),
    Scenario(
        NAME, "fires", "a new leader that has not taken over may have been asked",
        client(error(100.2), state(99.9, None), state(101, 2), moves=[move(100)]),
        [{"brokers": [1, 2]}],
    ),
    Scenario(
        NAME, "fires", "the leader moves on later",
        client(error(100.2), moves=[
            move(100), move(200, "preferred", 2, leader=1, previous_leader=2)]),
        [{"measures": {"leader": 2, "stable": False}}],
    ),
    Scenario(
        NAME, "quiet", "stable, really a leader whose end only is known",
        client(error(100.2), moves=[move(100, end=150)]),
        [{"measures": {"leader": 2, "stable": False}}],
    ),
    Scenario(
        NAME, "fires", "stale for as long as from the move to the last error, not between errors",
        client(error(108.8), error(109), moves=[move(100)]),
        [{"measures": {"stale_s": 9.0, "duration_s": 0.2, "verdict": "transient"}}],
    ),
    Scenario(
        NAME, "fires", "stale by the move of its own partition",
        client(error(101), error(104, partition=1), moves=[move(100), move(103.5, partition=1)]),
        [{"measures": {"stale_s": 1.0, "errors": 2}}],
    ),
    Scenario(
        NAME, "fires", "clients of one process have one card",
        client(error(101), error(101, client="b"), error(102, client="c"), moves=[move(100)]),
        [{"clients": ["app", "b", "c"], "measures": {"errors": 3}}],
    ),
    Scenario(
        NAME, "fires", "nothing is lost with acks=all and retries",
        client(*settings(), error(101), moves=[move(100)]),
        [{"measures": {"lost": "no", "duplicated": "no", "metadata_max_age_ms": 300_000}}],
    ),
    Scenario(
        NAME, "fires", "who does not try again may lose what was refused",
        client(*settings(retries="0"), error(101), moves=[move(100)]),
        [{"measures": {"lost": "possible"}}],
    ),
    Scenario(
        NAME, "fires", "who waits for no answer does not know what is lost",
        client(*settings(acks="0"), error(101), moves=[move(100)]),
        [{"measures": {"lost": "not_known"}}],
    ),
    Scenario(
        NAME, "fires", "records that only the former leader had, with acks=1",
        client(*settings(acks="1"), error(101), moves=[move(100)], cuts=[row(
            "cuts", topic="t", partition=0, leader_epoch=1, leader=2, broker=1, cut_to=5,
            log_end=9, started_at=130_000_000, evidence=[])]),
        [{"measures": {"lost": "possible"}}],
    ),
    Scenario(
        NAME, "fires", "a send that failed for good",
        client(*settings(), error(101), event(215, "app", "send_failed", topic="t"),
               moves=[move(100)]),
        [{"measures": {"lost": "yes"}}],
    ),
    Scenario(
        NAME, "quiet", "lost, really a send of another topic, or of a later time",
        client(*settings(), error(101), event(110, "app", "send_failed", topic="u"),
               event(300, "app", "send_failed", topic="t"), moves=[move(100)]),
        [{"measures": {"lost": "no"}}],
    ),
    Scenario(
        NAME, "fires", "a consumer loses nothing",
        client(error(101, text="[Consumer clientId=app, groupId=g] Error in fetch"),
               moves=[move(100)]),
        [{"measures": {"lost": "no", "duplicated": "no"}}],
    ),
    Scenario(
        NAME, "fires", "an answer that never came, without idempotence",
        client(*settings(enable_idempotence="false"), error(95, error="NETWORK_EXCEPTION"),
               error(101), **AROUND_A_CRASH),
        [{"measures": {"duplicated": "possible", "errors": 1}}],
    ),
    Scenario(
        NAME, "quiet", "written twice, really an idempotent producer",
        client(*settings(), error(95, error="REQUEST_TIMED_OUT"), error(101), **AROUND_A_CRASH),
        [{"measures": {"duplicated": "no"}}],
    ),
    Scenario(
        NAME, "quiet", "written twice, really an answer that never came in another incident",
        client(*settings(enable_idempotence="false"), error(103.1, error="NETWORK_EXCEPTION"),
               error(101), **AROUND_A_CRASH),
        [{"measures": {"duplicated": "no"}}],
    ),
    Scenario(
        NAME, "fires", "news that spread slowly",
        client(error(101), state(100, None), state(102.3, 2), moves=[move(100)], clocks=CLOCKS),
        [{"measures": {"slow_spread": True, "spread_s": 2.3}}],
    ),
    Scenario(
        NAME, "quiet", "slow news, really clocks that are not known so well",
        client(error(101), state(100, None), state(102.3, 2), moves=[move(100)],
               clocks=known_clocks("controller-1", "broker-2", doubt=200)),
        [{"measures": {"slow_spread": False, "spread_s": 2.3}}],
    ),
    Scenario(
        NAME, "quiet", "slow news, really a broker that was away meanwhile",
        client(error(101), state(100, None), state(100.1, 2), state(130, 1), clocks=CLOCKS,
               **AROUND_A_CRASH),
        [{"measures": {"slow_spread": False}}],
    ),
    Scenario(
        NAME, "boundary", "news that took just two seconds",
        client(error(101), state(100, None), state(102.2, 2), moves=[move(100)], clocks=CLOCKS),
        [{"measures": {"slow_spread": False}}],
    ),
    Scenario(
        NAME, "boundary", "a new topic that one broker knows a little later than two seconds",
        client(unknown(103), state(100, None, leader_epoch=0),
               state(102.201, 3, leader_epoch=0, partition=1), clocks=CLOCKS, moves=[
                   epoch(0, 2, 100, election="initial")]),
        [{"measures": {"suspect": "topic_just_created", "slow_spread": True}}],
    ),
    Scenario(
        NAME, "fires", "a zombie: its log goes on, without a word that it no longer leads",
        client(*every(100, 160), state(100, 2), moves=[move(99)], ends=165, files=[
            logs("app", 165, role="client"), logs("broker-1", 400, role="broker")]),
        [held("stuck", "broker_crash", "high", outdated=[1], recovered=False)],
    ),
    Scenario(
        NAME, "quiet", "a zombie, really a former leader that was away",
        client(*every(100, 160), state(100, 2), ends=165, **AROUND_A_CRASH),
        [held("stuck", "broker_crash", "high", outdated=[])],
    ),
    Scenario(
        NAME, "quiet", "a zombie, really a former leader that knows",
        client(*every(100, 160), state(100, 2), state(100.1, 1), moves=[move(99)], ends=165),
        [held("stuck", "broker_crash", "high", outdated=[])],
    ),
    Scenario(
        NAME, "fires", "a log that ends soon does not show whether the client recovered",
        client(error(101), moves=[move(100)], ends=110), [{"measures": {"recovered": None}}],
    ),
    Scenario(
        NAME, "fires", "a failover behind a shutdown is a planned one",
        client(error(101), moves=[move(100)], away=[absence(1, "controlled", 99, 130)]),
        [held("transient", "controlled_restart", "info")],
    ),
    Scenario(
        NAME, "quiet", "a flapping broker, really a crash of a day before",
        client(error(101), moves=[move(100)], ends=100_000, away=[
            absence(1, "crash", second, second + 5) for second in (98, 9000, 9100, 9200)]),
        [held("transient", "broker_crash", "info")],
    ),
    Scenario(
        NAME, "quiet", "another broker's crash, really a preferred election at the same time",
        client(error(101), moves=[move(100, "preferred")], away=[absence(3, "crash", 99, 130)]),
        [held("transient", "preferred_election", "info")],
    ),
    Scenario(
        NAME, "fires", "leadership that goes back to a flapping broker is no routine",
        client(error(151), moves=[move(150, "preferred", previous_leader=2, leader=1)], away=[
            absence(1, "crash", second, second + 5) for second in (90, 200, 300)]),
        [held("transient", "preferred_election", "info")],
    ),
    Scenario(
        NAME, "fires", "a replica that is not available is mostly informational",
        client(*every(100, 160, make=partial(error, error="REPLICA_NOT_AVAILABLE")), ends=165),
        [{"severity": "info", "measures": {"suspect": "replica_away"}}],
    ),
    Scenario(
        NAME, "boundary", "five moves that nobody asked for, within ten minutes",
        bursts(5, "failover", 150),
        [{"severity": "low", "measures": {"bursts": 5, "errors": 5, "verdict": "transient"}}],
    ),
    Scenario(
        NAME, "boundary", "four moves that nobody asked for", bursts(4, "failover", 150),
        [{"severity": "info", "measures": {"bursts": 1}}] * 4,
    ),
    Scenario(
        NAME, "boundary", "five moves in just more than ten minutes", bursts(5, "failover", 150.25),
        [{"severity": "info", "measures": {"bursts": 1}}] * 5,
    ),
    Scenario(
        NAME, "boundary", "an hour of moves that nobody asked for is one finding",
        bursts(12, "failover", 149, ends=90_000), [{"severity": "low", "measures": {"bursts": 12}}],
    ),
    Scenario(
        NAME, "boundary", "a client that fails fast: ten retries, less than half a minute",
        client(*settings(retries="10", delivery_timeout_ms="29999"), error(101), moves=[move(100)]),
        [{"measures": {"fails_fast": ["retries", "delivery.timeout.ms"]}}],
    ),
    Scenario(
        NAME, "boundary", "eleven retries and half a minute",
        client(*settings(retries="11", delivery_timeout_ms="30000"), error(101), moves=[move(100)]),
        [{"measures": {"fails_fast": []}}],
    ),
    Scenario(
        NAME, "boundary", "a client that logs a longer metadata.max.age.ms",
        client(*settings(metadata_max_age_ms="600000"), error(700), moves=[move(100)]),
        [held("transient", "broker_crash", "info", stale_s=600.0)],
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("broker-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
