"""What looks like one trouble and is another: no detector at all may fall for it.

Each case is Kafka's own lines, read by the whole pipeline. Scenarios of single detectors have more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from forensics.detection.detectors import detectors
from forensics.sandbox import run_lines


def at(second: float, text: str, level: str = "INFO") -> str:
    """Write a line of 11:30 and so many seconds."""
    whole, ms = divmod(round(1000 * second), 1000)
    minute, rest = divmod(whole, 60)
    hour, minute = divmod(30 + minute, 60)
    return f"[2026-11-18 {11 + hour}:{minute:02d}:{rest:02d},{ms:03d}] {level} {text}\n"


def sorted_lines(*lines: str) -> str:
    return "".join(sorted(lines))


ZK = "(org.apache.zookeeper.ClientCnxn)"
SERVER = "(kafka.server.KafkaServer)"
CONTROLLER = "(kafka.controller.KafkaController)"
STATE = "(state.change.logger)"
QUORUM = "[QuorumController id=1]"
PEER = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0]"
CLUSTER = "(org.apache.kafka.controller.ClusterControlManager)"


def started(second: float, broker: int) -> str:
    """Start a broker that found the mark of its orderly stop."""
    return "".join([
        at(second, "Registered kafka:type=kafka.Log4jController MBean"
           " (kafka.utils.Log4jControllerRegistration$)"),
        at(second + 0.4, f"starting {SERVER}"),
        at(second + 0.9, f"Skipping recovery of 3 logs from /tmp/kafka-logs-{broker} since clean"
           " shutdown file was found (kafka.log.LogManager)"),
        at(second + 1, "Session establishment complete on server localhost/127.0.0.1:19000,"
           f" sessionid = 0x10000263905000{broker}, negotiated timeout = 18000 {ZK}"),
        at(second + 1.4, f"Registered broker {broker} at path /brokers/ids/{broker} with addresses:"
           f" PLAINTEXT://127.0.0.1:1900{broker}, czxid (broker epoch): 55"
           " (kafka.zk.KafkaZkClient)"),
        at(second + 2, f"[KafkaServer id={broker}] started {SERVER}"),
    ])  # fmt: skip


def stopped(second: float, broker: int) -> str:
    """Stop a broker in good order."""
    return "".join([
        at(second, "Terminating process due to signal SIGTERM"
           " (org.apache.kafka.common.utils.LoggingSignalHandler)"),
        at(second + 0.01, f"[KafkaServer id={broker}] shutting down {SERVER}"),
        at(second + 0.02, f"[KafkaServer id={broker}] Starting controlled shutdown {SERVER}"),
        at(second + 0.5, f"[KafkaServer id={broker}] Controlled shutdown succeeded {SERVER}"),
        at(second + 2, f"[KafkaServer id={broker}] shut down completed {SERVER}"),
    ])  # fmt: skip


def follows(broker: int, seconds: Iterable[float]) -> str:
    """Let a broker write at some moments."""
    return "".join(
        at(second, f"[GroupCoordinator {broker}]: Group audit with generation {int(second)} is now"
           " empty (__consumer_offsets-4) (kafka.coordinator.group.GroupCoordinator)")
        for second in seconds
    )  # fmt: skip


def states(broker: int, begin: float) -> list[str]:
    """Let broker 1 take over eight partitions, and broker 2 follow it."""
    role = "Leader" if broker == 1 else "Follower"
    return [
        at(begin + 7 * part, f"[Broker id={broker}] {role} orders-{part} starts at leader epoch 3"
           " from offset 48 with "
           + ("high watermark 48 ISR [1,2] addingReplicas [] removingReplicas []."
              if broker == 1 else "high watermark 48.") + f" Previous leader epoch was 2. {STATE}")
        for part in range(8)
    ]  # fmt: skip


def change(second: float, broker: int, fenced: int) -> str:
    record = f"brokerId={broker}, brokerEpoch={5 + broker}, fenced={fenced}, "
    return at(second, f"{QUORUM} Replayed BrokerRegistrationChangeRecord modifying the registration"
              f" for broker {broker}: BrokerRegistrationChangeRecord({record}"
              f"inControlledShutdown=0, logDirs=[]) {CLUSTER}")  # fmt: skip


LET_IN = (
    "The request from broker {} to unfence has been granted because it has caught up with the"
    " offset of its register broker record 6. (org.apache.kafka.controller.BrokerHeartbeatManager)"
)
REPLAY = "".join([
    *(at(broker, f"{QUORUM} {LET_IN.format(broker)}") for broker in (1, 2, 3)),
    at(1234, f"{QUORUM} Creating new QuorumController with clusterId MkU3OEVBNTcwNTJENDM2Qk"
       " (org.apache.kafka.controller.QuorumController)"),
    *(at(1235, f"{QUORUM} Replayed initial RegisterBrokerRecord for broker {broker}:"
         f" RegisterBrokerRecord(brokerId={broker}, isMigratingZkBroker=false,"
         f" incarnationId=vTajgI-5QPGVuXM5oNJUog, brokerEpoch={5 + broker}, endPoints=[],"
         f" features=[], rack=null, fenced=true, inControlledShutdown=false) {CLUSTER}")
      + at(1235, f"{QUORUM} Replayed PartitionRecord for new partition orders-{broker}"
         " with topic ID TMlCK9LzTRuSMBv-gcB_jw and PartitionRegistration("
         f"replicas=[{broker}, 9], directories=[A10eDOaswrK0gr6IKzU5ZA, CkXFJeR3bAP_5S6Sw23uVA],"
         f" isr=[{broker}, 9], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[],"
         f" leader={broker}, leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)."
         " (org.apache.kafka.controller.ReplicationControlManager)")
      for broker in (1, 2, 3)),
    *(change(1235.1 + turn / 1000, broker, fenced)
      for turn in range(700) for broker in (1, 2, 3)
      for fenced in (-1, 1, -1)),
    *(at(1300 + 60 * turn, f"{QUORUM} {LET_IN.format(9)}") for turn in range(9)),
])  # fmt: skip
FENCING = (
    "Fencing broker 1 because its session has timed out."
    " (org.apache.kafka.controller.ReplicationControlManager)"
)
ALONE = "".join(
    at(13.5 * turn, f"{QUORUM} {LET_IN.format(1)}") + at(13.5 * turn + 9, f"{QUORUM} {FENCING}")
    for turn in range(8)
)
SEEN_STOPPING = {
    "broker-1/controller.log": "".join([
        at(102.1, f"[Controller id=1] Newly added brokers: , deleted brokers: 2, bounced brokers: ,"
           f" all live brokers: 1,3 {CONTROLLER}"),
        at(102.2, f"[Controller id=1] Broker failure callback for 2 {CONTROLLER}"),
        at(122, "[Controller id=1] Newly added brokers: 2, deleted brokers: , bounced brokers: ,"
           f" all live brokers: 1,2,3 {CONTROLLER}"),
        at(122.1, f"[Controller id=1] New broker startup callback for 2 {CONTROLLER}"),
    ]),
    "broker-2/server.log": started(0, 2) + stopped(100, 2) + started(120, 2),
}  # fmt: skip
ASLEEP = {
    f"broker-{broker}/server.log": sorted_lines(
        started(0, broker),
        follows(broker, (*range(10, 90, 5), *range(701, 760, 5))),
        at(700 + broker / 10, "Client session timed out, have not heard from server in"
           f" 610{broker}19ms for sessionid 0x10000263905000{broker} {ZK}", "WARN"),
        at(700.5 + broker / 10, "Unable to reconnect to ZooKeeper service, session"
           f" 0x10000263905000{broker} has expired {ZK}", "WARN"),
        at(700.6 + broker / 10, "[ZooKeeperClient Kafka server] Session expired."
           " (kafka.zookeeper.ZooKeeperClient)"),
        at(701.6 + broker / 10, f"Registered broker {broker} at path /brokers/ids/{broker} with"
           f" addresses: PLAINTEXT://127.0.0.1:1900{broker}, czxid (broker epoch): 352"
           " (kafka.zk.KafkaZkClient)"),
    )
    for broker in (1, 2, 3)
}  # fmt: skip
PEER_STOPPED = {
    "broker-2/server.log": started(0, 2) + stopped(100, 2),
    "broker-1/server.log": started(0, 1) + "".join(
        at(101 + 2 * turn, f"{PEER} Error sending fetch request (sessionId=279142395, epoch=257) to"
           " node 2: (org.apache.kafka.clients.FetchSessionHandler)")
        + "java.io.IOException: Connection to 2 was disconnected before the response was read\n"
        + at(101.1 + 2 * turn, f"{PEER} Connection to node 2 (/127.0.0.1:19002) could not be"
             " established. Node may not be available. (org.apache.kafka.clients.NetworkClient)",
             "WARN")
        for turn in range(120)
    ),
}  # fmt: skip
OPENING = (
    "Opening socket connection to server localhost/127.0.0.1:19000. Will not attempt to"
    f" authenticate using SASL (unknown error) {ZK}"
)
# The connection it has is given up after two thirds of a session, each new one after a whole.
MUTE = started(0, 1) + "".join(
    at(18 * turn + 17.9, "Client session timed out, have not heard from server in"
       f" {12_014 if turn == 1 else 17_914}ms for sessionid 0x100002639050001 {ZK}", "WARN")
    + at(18 * turn + 17.91, OPENING)
    + at(18 * turn + 17.92, "Socket connection established to localhost/127.0.0.1:19000, initiating"
         f" session {ZK}")
    for turn in range(1, 9)
)  # fmt: skip
COLD = {
    "broker-1/controller.log": "".join([
        at(2, "[Controller id=1] 1 successfully elected as the controller. Epoch incremented to 2"
           f" and epoch zk version is now 2 {CONTROLLER}"),
        at(2.2, f"[Controller id=1] Currently active brokers in the cluster: Set(1) {CONTROLLER}"),
        *(at(broker + 17.41, f"[Controller id=1] New broker startup callback for {broker}"
             f" {CONTROLLER}") for broker in (2, 3)),
    ]),
    "broker-1/state-change.log": "".join([
        *(at(3 + part / 100, f"[Controller id=1 epoch=2] Controller 1 epoch 2 failed to change"
             f" state for partition orders-{part} from OfflinePartition to OnlinePartition {STATE}",
             "ERROR")
          + "kafka.common.StateChangeFailedException: Failed to elect leader for partition"
          f" orders-{part} under strategy OfflinePartitionLeaderElectionStrategy(false)\n"
          for part in range(100)),
        *(at(5 + part / 100, "[Broker id=1] Received LeaderAndIsrRequest with correlation id 1 from"
             f" controller 1 epoch 2 for partition orders-{part} (last update controller epoch 1)"
             f" but cannot become follower since the new leader 2 is unavailable. {STATE}",
             "ERROR") for part in range(100)),
        *(at(21.5 + part / 100, f"[Controller id=1 epoch=2] Changed partition orders-{part} from"
             f" OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=2,"
             f" leaderEpoch=7, isr=List(2), zkVersion=9) {STATE}") for part in range(100)),
    ]),
    "broker-1/server.log": started(0, 1),
    "broker-2/server.log": started(18, 2),
    "broker-3/server.log": started(19, 3),
}  # fmt: skip
HOST_PAUSED = at(0, f"{QUORUM} {LET_IN.format(1)}") + "".join(
    at(second, f"{QUORUM} Exceptionally slow controller event {what} took {ms} ms."
       " (org.apache.kafka.controller.EventPerformanceMonitor)", "ERROR")
    for second, what, ms in ((140.1, "writeNoOpRecord(2015152945)", 43023),
                             (140.2, "maybeFenceStaleBroker(1339587139)", 43021))
)  # fmt: skip
ONE_FILE = "".join(started(20 * broker, broker) for broker in (1, 2, 3))


def compose(**services: Iterable[str]) -> str:
    """Print the lines of services in turn, each behind its name."""
    return "".join(
        f"{name}  | {line}" for turn in zip(*services.values(), strict=True)
        for name, line in zip(services, turn, strict=True)
    )  # fmt: skip


def in_utc(line: str) -> str:
    """Put before a line what `docker logs -t` does: its time, an hour behind the log's zone."""
    return f"2026-11-18T10:{line[15:20]}.{line[21:24]}111111Z {line}"


REGISTERED = {
    f"broker-{broker}/server.log": at(0.1 * broker, f"[BrokerLifecycleManager id={broker}]"
        f" Successfully registered broker {broker} with broker epoch {5 + broker}"
        " (kafka.server.BrokerLifecycleManager)") + follows(broker, range(5, 2400, 25))
    for broker in (1, 2, 3)
}  # fmt: skip
CASES: Mapping[str, tuple[Mapping[str, str], set[str]]] = {
    "flapping broker, really a controller without a majority": (
        {"controller.log": ALONE},
        {"A controller without a majority fenced broker 1 8 times in 94 s"},
    ),
    "thousands of fence events at start, really a replay of the metadata log": (
        {"controller-1/controller.log": REPLAY}, set(),
    ),
    "broker failure, really an orderly stop seen from the controller": (SEEN_STOPPING, set()),
    "broker failure, really host sleep": (
        ASLEEP, {"broker-1, broker-2, broker-3 froze together for 10 min 7 s",
         "3 brokers lost their sessions with ZooKeeper together"},
    ),
    "network trouble between brokers, really a peer that was told to stop": (PEER_STOPPED, set()),
    "ZooKeeper down, really a ZooKeeper that accepts and never answers": (
        {"broker-1/server.log": MUTE}, {"broker-1 got no answer from ZooKeeper for 126.0 s"},
    ),
    "error storm, really a controller up before its brokers": (COLD, set()),
    "slow controller, really a host that paused once": (
        {"controller-1/controller.log": HOST_PAUSED}, {"controller-1 froze for about 43 s"},
    ),
    "crashes, really several brokers that write to one file": ({"server.log": ONE_FILE}, set()),
    "clock fault, really several writers in one file": (
        {"server.log": "".join([*states(1, 0), *states(2, 0)])}, set(),
    ),
    "clock fault, really columns of compose": (
        {"all.log": compose(kafka1=states(1, 0)) + compose(kafka2=states(2, 0))}, set(),
    ),
    "clock fault, really the burst of a replay": (
        {"controller-1/controller.log": REPLAY, **REGISTERED}, set(),
    ),
    "clock fault, really the UTC offset of a wrapper": (
        {"broker-1.log": "".join(states(1, 0)), "broker-2.log": "".join(map(in_utc, states(2, 0)))},
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_detector_takes_one_trouble_for_another(name: str, tmp_path: Path) -> None:
    logs, expected = CASES[name]
    run = run_lines(logs, tmp_path / "out")
    case = run.context()

    off = [(one["offset_ms"], one["zone_shift_minutes"]) for one in case.history.clocks.rows]
    assert all(abs(ms or 0) < 1000 and not minutes for ms, minutes in off), off
    assert all(file.counts["events"] for file in run.files.values())
    found = [one for detector in detectors() for one in detector.find(case)]
    assert expected == {one.title for one in found if one.severity != "info"}
