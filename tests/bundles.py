"""Builds support bundles out of recordings: their logs, and what would have lain beside them.

Every builder writes one bundle into a folder. The documents tell what was done to the processes:
the times are those of the recording.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[1] / "sample_logs"
UNCLEAN = SAMPLES / "430-unclean" / "logs"

__all__ = [
    "cluster_dump", "compose_project", "confluent_bundle", "machines", "metadata_dump",
    "must_gather", "pod_yaml", "strimzi_report", "tools_and_machines", "topic_ids",
]  # fmt: skip


def unpack(name: str, folder: Path) -> Path:
    """Return the folder with the logs of a sample, by node."""
    archive = next(one for one in (SAMPLES / name).iterdir() if one.name.startswith("logs"))
    if archive.is_dir():
        return archive
    opener = tarfile.open if archive.name.endswith("tar.gz") else zipfile.ZipFile
    with opener(archive) as packed:
        packed.extractall(folder)
    return folder / "logs" if (folder / "logs").is_dir() else folder


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def node_log(logs: Path, node: str) -> str:
    """Return what a container prints: the records of all its logs, in the order of time."""
    records: list[tuple[str, str]] = []
    for name in ("server.log", "controller.log", "state-change.log"):
        for line in (logs / node / name).read_text("utf-8").splitlines(keepends=True):
            if line.startswith("[20"):
                records.append((line[:24], line))
            else:
                at, text = records.pop()
                records.append((at, text + line))
    return "".join(text for _, text in sorted(records, key=lambda record: record[0]))


def pod_yaml(
    name: str, *, node_id: int | None = None, ended: Mapping[str, str] | None = None
) -> str:
    """Write a pod as `kubectl get pod -o yaml` does."""
    env = ""
    if node_id is not None:
        env = f"""
    env:
    - name: KAFKA_NODE_ID
      value: "{node_id}\""""
    last = "\n    lastState: {}"
    if ended:
        last = "\n    lastState:\n      terminated:\n" + "\n".join(
            f"        {key}: {value}" for key, value in sorted(ended.items())
        )
    return f"""apiVersion: v1
kind: Pod
metadata:
  annotations:
    strimzi.io/broker-cert-hash: "12ab"
  creationTimestamp: "2026-11-18T11:37:20Z"
  labels:
    strimzi.io/cluster: my-cluster
    strimzi.io/pod-name: {name}
  name: {name}
  namespace: kafka
spec:
  containers:
  - args:
    - /opt/kafka/kafka_run.sh{env}
    image: quay.io/strimzi/kafka:latest-kafka-4.3.0
    name: kafka
    resources:
      limits:
        memory: 2Gi
  nodeName: worker-{name[-1]}.example.internal
status:
  conditions:
  - lastTransitionTime: "2026-11-18T11:38:46Z"
    status: "True"
    type: Ready
  containerStatuses:
  - containerID: cri-o://6c8d1f0e9bb5
    image: quay.io/strimzi/kafka:latest-kafka-4.3.0{last}
    name: kafka
    ready: true
    restartCount: {1 if ended else 0}
    state:
      running:
        startedAt: "2026-11-18T11:38:42Z"
  phase: Running
  startTime: "2026-11-18T11:37:22Z"
"""


OOM_KILLED = {
    "containerID": "cri-o://17be02c41c9a",
    "exitCode": "137",
    "reason": "OOMKilled",
    "startedAt": '"2026-11-18T11:37:40Z"',
}
RESOURCE = """apiVersion: {version}
kind: {kind}
metadata:
  name: {name}
  namespace: kafka
spec:
  note: |
    [2026-11-18 11:38:25,719] INFO this is no log
"""


def resources() -> dict[str, str]:
    """Write what else a report holds: sixteen YAML files that tell nothing of the processes."""
    kinds = ("Deployment", "ConfigMap", "Secret", "Service", "NetworkPolicy", "Role", "Kafka",
             "KafkaTopic")  # fmt: skip
    return {
        f"reports/{kind.lower()}s/{kind.lower()}-{number}.yaml": RESOURCE.format(
            version="v1", kind=kind, name=f"{kind.lower()}-{number}"
        )
        for kind in kinds
        for number in (1, 2)
    }


def strimzi_report(folder: Path) -> Path:
    """Build what Strimzi's report.sh packs: broker 2 was killed for want of memory."""
    ended = {**OOM_KILLED, "finishedAt": '"2026-11-18T11:38:25Z"'}
    files = {
        **resources(),
        "reports/events/events.txt": (
            "LAST SEEN   TYPE      REASON             OBJECT                   MESSAGE\n"
            "58s         Warning   BackOff            pod/my-cluster-kafka-2   Back-off restarting"
            " failed container kafka in pod my-cluster-kafka-2\n"
        ),
    }
    for broker in (1, 2, 3):
        name = f"my-cluster-kafka-{broker}"
        files[f"reports/pods/{name}.yaml"] = pod_yaml(name, ended=ended if broker == 2 else None)
        files[f"reports/podlogs/{name}-kafka.log"] = node_log(UNCLEAN, f"broker-{broker}")
        files[f"reports/configs/{name}.cfg"] = (
            f"node.id={broker}\nprocess.roles=broker\nbroker.session.timeout.ms=9000\n"
        )
    files["reports/podlogs/my-cluster-controller-1-kafka.log"] = node_log(UNCLEAN, "controller-1")
    write(folder, files)
    return _zip(folder, folder.with_name("report-18-11-2026_11-40-00.zip"))


def _zip(folder: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return target


def must_gather(folder: Path) -> Path:
    """Build what `oc adm must-gather` collects: JSON lists, a machine's journal, logs by pod."""
    space = "must-gather/namespaces/kafka"
    event = {
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": "kafka-1", "namespace": "kafka"},
        "reason": "Killing",
        "message": "Container kafka failed liveness probe, will be restarted",
        "firstTimestamp": "2026-11-18T11:38:38Z",
        "lastTimestamp": "2026-11-18T11:38:38Z",
        "count": 1,
    }
    ended = {"exitCode": 137, "reason": "Error", "finishedAt": "2026-11-18T11:38:39Z"}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"kafka-{broker}", "namespace": "kafka"},
            "spec": {"nodeName": f"worker-{broker}", "containers": [{"name": "kafka"}]},
            "status": {
                "containerStatuses": [
                    {
                        "name": "kafka",
                        "restartCount": 2 - broker,
                        "lastState": {"terminated": ended} if broker == 1 else {},
                    }
                ]
            },
        }
        for broker in (1, 2)
    ]
    files = {
        f"{space}/core/events.json": _listed("EventList", [event]),
        f"{space}/core/pods.json": _listed("PodList", pods),
        "must-gather/host_service_logs/masters/kubelet_service.log": (
            "Nov 18 11:38:24.100000 worker-2 kubenswrapper[1402]: I1118 probe\n"
            "Nov 18 11:38:25.712000 worker-2 kernel: Memory cgroup out of memory: Killed process"
            " 20712 (java) total-vm:9121604kB, anon-rss:2093000kB, file-rss:0kB\n"
        ),
    }
    for broker in (1, 2, 3):
        path = f"{space}/pods/kafka-{broker}/kafka/kafka/logs/current.log"
        files[path] = node_log(UNCLEAN, f"broker-{broker}")
    path = f"{space}/pods/controller-1/kafka/kafka/logs/current.log"
    files[path] = node_log(UNCLEAN, "controller-1")
    write(folder, files)
    return folder


def _listed(kind: str, items: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "items": items, "kind": kind}, indent=4) + "\n"


def cluster_dump(folder: Path) -> Path:
    """Build what `kubectl cluster-info dump --output-directory` writes, packed: logs by pod."""
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-11-18T11:37:40Z",
             "finishedAt": "2026-11-18T11:38:25Z"}  # fmt: skip
    pods = [
        {
            "metadata": {"name": f"kafka-{broker}", "namespace": "kafka"},
            "spec": {"nodeName": f"worker-{broker}", "containers": [{"name": "kafka"}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "kafka",
                        "restartCount": int(broker == 2),
                        "lastState": {"terminated": ended} if broker == 2 else {},
                    }
                ],
            },
        }
        for broker in (1, 2, 3)
    ]
    node = {
        "metadata": {"name": "worker-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    files = {
        "dump/nodes.json": _listed("NodeList", [node]),
        "dump/kafka/events.json": _listed("EventList", []),
        "dump/kafka/pods.json": _listed("PodList", pods),
    }
    for kind in ("ReplicationController", "Service", "DaemonSet", "Deployment", "ReplicaSet"):
        name = f"dump/kafka/{kind.lower()}s.json"
        files[name] = _listed(f"{kind}List", [{"metadata": {"name": "x", "namespace": "kafka"}}])
    nodes = {f"kafka-{broker}": f"broker-{broker}" for broker in (1, 2, 3)}
    for pod, node_name in (nodes | {"controller-1": "controller-1"}).items():
        of = f"logs for container kafka of pod kafka/{pod}"
        text = f"==== START {of} ====\n{node_log(UNCLEAN, node_name)}==== END {of} ====\n"
        files[f"dump/kafka/{pod}/logs.txt"] = text
    write(folder, files)
    return _tar(folder, folder.with_name("cluster-state.tar.gz"))


def tools_and_machines(folder: Path) -> Path:
    """Build an archive of archives, one a machine, beside what web tools for Kafka export."""
    topics = [{"name": "orders-v2", "partitionCount": 8, "replicationFactor": 3}]
    state = {"MonitorState": {"state": "RUNNING", "numValidPartitions": 8}, "version": 1}
    status = (
        "\u00d7 kafka.service - Apache Kafka\n"
        "     Loaded: loaded (/etc/systemd/system/kafka.service; enabled; preset: enabled)\n"
        "     Active: failed (Result: oom-kill) since Wed 2026-11-18 11:38:25 UTC; 12min ago\n"
        "    Process: 4242 ExecStart=/opt/kafka/bin/kafka-server-start.sh (code=killed,"
        " signal=KILL)\n   Main PID: 4242 (code=killed, signal=KILL)\n"
    )
    files = {
        "akhq/topics.json": json.dumps(topics, indent=2) + "\n",
        "cruise-control/state.json": json.dumps(state) + "\n",
        "metrics/kafka.prom": (
            "# HELP kafka_server_replicamanager_underreplicatedpartitions Attribute Value\n"
            "# TYPE kafka_server_replicamanager_underreplicatedpartitions gauge\n"
            "kafka_server_replicamanager_underreplicatedpartitions 12.0\n"
        ),
        "README.txt": "Collected on 2026-11-18. One archive a machine; topics by AKHQ.\n",
    }
    for broker in (1, 2, 3):
        machine = {
            "df.txt": "Filesystem     1K-blocks     Used Available Use% Mounted on\n"
            "/dev/nvme1n1   514937088 91240012 397466980  19% /var/lib/kafka\n",
            "uname.txt": f"Linux kafka-{broker} 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n",
            "etc/server.properties": f"node.id={broker}\nprocess.roles=broker\n",
        }
        for log in ("server.log", "state-change.log", "controller.log"):
            text = (UNCLEAN / f"broker-{broker}" / log).read_text("utf-8")
            machine[f"var/log/kafka/{log}"] = text
        if broker == 2:
            machine["systemctl-status.txt"] = status
        write(folder / f"kafka-{broker}", machine)
        _tar(folder / f"kafka-{broker}", folder / f"kafka-{broker}.tgz", remove=True)
    for log in ("server.log", "controller.log"):
        text = (UNCLEAN / "controller-1" / log).read_text("utf-8")
        files[f"controller-1/var/log/kafka/{log}"] = text
    write(folder, files)
    return _zip(folder, folder.with_name("incident-4711.zip"))


def _tar(folder: Path, target: Path, *, remove: bool = False) -> Path:
    with tarfile.open(target, "w:gz") as packed:
        packed.add(folder, folder.name)
    if remove:
        shutil.rmtree(folder)
    return target


def compose_project(folder: Path) -> Path:
    """Build what somebody saves of a compose project: inspect, events, logs of containers."""
    events = (
        "2026-11-18T11:38:25.701112223Z container oom 0f3dd1ab7cf1 (image=apache/kafka:4.3.0,"
        " name=broker-2)\n"
        "2026-11-18T11:38:25.730112223Z container die 0f3dd1ab7cf1 (execDuration=45, exitCode=137,"
        " image=apache/kafka:4.3.0, name=broker-2)\n"
        "2026-11-18T11:38:42.002112223Z container start 0f3dd1ab7cf1 (image=apache/kafka:4.3.0,"
        " name=broker-2)\n"
    )
    inspection = [
        {
            "Id": "0f3dd1ab7cf1" + "0" * 52,
            "Created": "2026-11-18T11:37:40.1Z",
            "Path": "/__cacert_entrypoint.sh",
            "State": {
                "Status": "exited",
                "Running": False,
                "OOMKilled": False,
                "ExitCode": 137,
                "Error": "",
                "StartedAt": "2026-11-18T11:37:40.2Z",
                "FinishedAt": "2026-11-18T11:38:39.88Z",
            },
            "Name": "/kafka-one",
            "RestartCount": 0,
            "Config": {"Env": ["KAFKA_NODE_ID=1", "KAFKA_HEAP_OPTS=-Xmx1g"]},
        }
    ]
    files = {
        "docker-events.txt": events,
        "inspect.json": json.dumps(inspection, indent=4) + "\n",
        "docker-compose.yml": "services:\n  broker-2:\n    image: apache/kafka:4.3.0\n",
    }
    for node in ("broker-1", "broker-2", "broker-3", "controller-1"):
        files[f"{node}.log"] = node_log(UNCLEAN, node)
    write(folder, files)
    return folder


def machines(folder: Path) -> Path:
    """Build logs of three machines, each with its journal: systemd runs the brokers."""
    files = {}
    for broker in (1, 2, 3):
        host = f"kafka-{broker}"
        for log in ("server.log", "state-change.log", "controller.log"):
            files[f"{host}/{log}"] = (UNCLEAN / f"broker-{broker}" / log).read_text("utf-8")
        files[f"{host}/config/server.properties"] = f"node.id={broker}\nprocess.roles=broker\n"
        files[f"{host}/journal.txt"] = (
            f"Nov 18 11:37:40 {host} systemd[1]: Started kafka.service - Apache Kafka.\n"
        )
    files["kafka-2/journal.txt"] += (
        "Nov 18 11:38:25 kafka-2 kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),"
        "cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/kafka.service,task=java,"
        "pid=4242,uid=1001\n"
        "Nov 18 11:38:25 kafka-2 kernel: Out of memory: Killed process 4242 (java)"
        " total-vm:9121604kB, anon-rss:6093000kB, file-rss:0kB, shmem-rss:0kB, UID:1001\n"
        "Nov 18 11:38:25 kafka-2 systemd[1]: kafka.service: Main process exited, code=killed,"
        " status=9/KILL\n"
        "Nov 18 11:38:25 kafka-2 systemd[1]: kafka.service: Failed with result 'oom-kill'.\n"
    )
    files["kafka-1/hs_err_pid4811.log"] = CRASH_REPORT
    for log in ("server.log", "controller.log"):
        files[f"controller-1/{log}"] = (UNCLEAN / "controller-1" / log).read_text("utf-8")
    write(folder, files)
    return folder


CRASH_REPORT = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f3c5a1b2c3d, pid=4811, tid=4902
#
# JRE version: OpenJDK Runtime Environment (17.0.9+9) (build 17.0.9+9)
# Problematic frame:
# C  [libzstd-jni-1.5.6-4.so+0x4c3d]  ZSTD_decompressBlock+0x1d
#
# Core dump will be written. Default location: /var/crash/core.4811

---------------  S U M M A R Y ------------

Command Line: -Xmx1G -Xms1G kafka.Kafka /etc/kafka/server.properties

Host: kafka-1, 8 cores, 31G, Debian GNU/Linux 12 (bookworm)
Time: Wed Nov 18 11:38:39 2026 UTC elapsed time: 58.922 seconds (0d 0h 0m 58s)
"""


def confluent_bundle(folder: Path) -> Path:
    """Build a bundle of a support tool: descriptions, configurations, a disk that failed."""
    logs = unpack("391-failed-disk", folder.with_name("unpacked"))
    files = {}
    for node in sorted(path.name for path in logs.iterdir() if path.is_dir()):
        for path in sorted((logs / node).glob("*.log*")):
            files[f"hosts/{node}/logs/{path.name}"] = path.read_text("utf-8")
    files |= {
        "hosts/broker-2/dmesg.txt": (
            "[Thu Nov 19 19:00:00 2026] Linux version 6.1.0-18-amd64\n"
            "[Thu Nov 19 19:00:01 2026] sd 0:0:0:0: [sdb] Attached SCSI disk\n"
        ),
        "hosts/broker-3/journal.json": json.dumps(
            {
                "__REALTIME_TIMESTAMP": "1795031906700000",
                "_HOSTNAME": "h3",
                "SYSLOG_IDENTIFIER": "systemd",
                "MESSAGE": "kafka.service: Main process exited, code=killed, status=9/KILL",
            }
        )
        + "\n",
        "hosts/broker-1/jstack.txt": (
            "2026-11-19 19:40:00\nFull thread dump OpenJDK 64-Bit Server VM (17.0.9+9 mixed mode):"
            '\n\n"main" #1 prio=5 os_prio=0 cpu=1.0ms elapsed=9s tid=0x1 nid=0x1 waiting\n'
        ),
        "cluster/meta.properties": "#\nversion=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n",
        "cluster/topics.txt": (
            "Topic: orders\tTopicId: 3SRqdyCAQ1y-QXYXsCIkAQ\tPartitionCount: 1\t"
            "ReplicationFactor: 3\tConfigs: min.insync.replicas=2\n"
            "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,3\tElr: \t"
            "LastKnownElr: \n"
        ),
    }
    write(folder, files)
    return folder


def metadata_dump(truth: Path, topic_ids: Mapping[str, str] | None = None) -> str:
    """Write the metadata log of a recording as kafka-dump-log prints it.

    The truth has the state of each partition after each record; a change is written as Kafka
    writes it: what did not change is left out. Ids of topics are made up unless they are given.
    """
    rows = [json.loads(line) for line in (truth / "partitions.jsonl").read_text().splitlines()]
    others = [json.loads(line) for line in (truth / "cluster.jsonl").read_text().splitlines()]
    records: list[tuple[int, str, dict[str, Any]]] = [
        (row.pop("ts"), row.pop("type"), row) for row in others
    ]
    known: dict[tuple[str, int], dict[str, Any]] = {}
    ids: dict[str, str] = {}
    for row in rows:
        at, topic, number = row.pop("ts"), row.pop("topic"), row.pop("partition")
        if topic not in ids:
            ids[topic] = (topic_ids or {}).get(topic) or f"{len(ids):022d}"
            records.append((at, "TOPIC_RECORD", {"name": topic, "topicId": ids[topic]}))
        before = known.get((topic, number))
        data: dict[str, Any] = {"partitionId": number, "topicId": ids[topic]}
        if before is None:
            data |= {"replicas": row["replicas"], "isr": row["isr"], "leader": row["leader"]}
            data |= {"leaderEpoch": row["leader_epoch"], "partitionEpoch": row["partition_epoch"]}
            kind = "PARTITION_RECORD"
        else:
            kind = "PARTITION_CHANGE_RECORD"
            data |= {key: row[key] for key in ("isr", "replicas") if row[key] != before[key]}
            if row["leader_epoch"] != before["leader_epoch"]:
                data["leader"] = row["leader"]
            if row["recovery"] != before["recovery"]:
                data["leaderRecoveryState"] = row["recovery"]
        known[topic, number] = row
        records.append((at, kind, data))
    return _dump(sorted(records, key=lambda record: record[0]))


def topic_ids(log: str) -> dict[str, str]:
    """Return the ids of topics that a controller's log names."""
    found = re.findall(r"partition ([\w.-]+)-\d+ with topic ID ([\w-]{22})", log)
    return dict(found)


def _dump(records: Sequence[tuple[int, str, Mapping[str, Any]]]) -> str:
    lines = ["Dumping 00000000000000000000.log", "Log starting offset: 0"]
    for offset, (at, kind, data) in enumerate(records):
        payload = json.dumps({"type": kind, "version": 0, "data": data}, separators=(",", ":"))
        lines += [
            (
                f"baseOffset: {offset} lastOffset: {offset} count: 1 baseSequence: -1"
                " lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1"
                " isTransactional: false"
                f" isControl: false deleteHorizonMs: OptionalLong.empty position: {offset * 100}"
                f" CreateTime: {at} size: 100 magic: 2 compresscodec: none crc: 1 isvalid: true"
            ),
            (
                f"| offset: {offset} CreateTime: {at} keySize: -1 valueSize: 40 sequence: -1"
                f" headerKeys: [] payload: {payload}"
            ),
        ]
    return "\n".join(lines) + "\n"
