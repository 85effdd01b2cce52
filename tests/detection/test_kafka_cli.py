"""Commands are those of the Kafka version in the logs, and names in them do no harm."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.kafka_cli import ClusterAddresses, KafkaCli
from tests.detection.cases import case, event, logs

HOSTILE = ["a b", "$(rm -rf /)", "`id`", "a'; rm -rf / #", 'a"b', "a\nrm b", "a|b", "-x", ""]
ASKS: dict[str, Callable[[KafkaCli], str]] = {
    "topic": lambda on: on.topic("t"),
    "under_replicated": lambda on: on.under_replicated(),
    "unavailable": lambda on: on.unavailable(),
    "under_min_isr": lambda on: on.under_min_isr(),
    "topic_config": lambda on: on.topic_config("t"),
    "unclean_election": lambda on: on.unclean_election("t"),
    "broker_config": lambda on: on.broker_config(1, "acks"),
    "preferred_election": lambda on: on.preferred_election(),
    "group": lambda on: on.group("g"),
    "group_members": lambda on: on.group_members("g"),
    "reset_offsets": lambda on: on.reset_offsets("g", "t"),
    "begin_offsets": lambda on: on.begin_offsets("t"),
    "dump_log": lambda on: on.dump_log("t", 0),
    "leader_epochs": lambda on: on.leader_epochs("t", 0),
    "controller": lambda on: on.controller(),
    "quorum": lambda on: on.quorum(),
    "api_versions": lambda on: on.api_versions(),
    "log_dirs": lambda on: on.log_dirs(1, "t"),
    "verify_replicas": lambda on: on.verify_replicas("t"),
    "reassignments": lambda on: on.reassignments(),
    "read_record": lambda on: on.read_record("t", 0, 7),
    "registration": lambda on: on.registration(1),
    "raise_log_level": lambda on: on.raise_log_level("1"),
}

# What a command holds from a version on, and what it held until then.
CAME = [
    ("topic", "2.2", "--bootstrap-server", "--zookeeper"),
    ("unavailable", "2.2", "--bootstrap-server", "--zookeeper"),
    ("under_replicated", "2.2", "--bootstrap-server", "--zookeeper"),
    ("under_min_isr", "2.3", "--under-min-isr-partitions", "--under-replicated-partitions"),
    ("topic_config", "2.5", "--bootstrap-server", "--zookeeper"),
    ("unclean_election", "2.5", "--bootstrap-server", "--zookeeper"),
    # 2.4.1 answers with the settings that were changed while it ran, and so with none
    (
        "broker_config",
        "2.5",
        "kafka-configs.sh --bootstrap-server BROKER:9092 --describe --all",
        "server.properties   # on broker 1; no line: the default",
    ),
    ("preferred_election", "2.2", "--bootstrap-server", "--zookeeper"),
    ("preferred_election", "2.4", "kafka-leader-election.sh", "kafka-preferred-replica-election"),
    ("topic_config", "0.9", "kafka-configs.sh", "kafka-topics.sh --zookeeper"),
    ("unclean_election", "0.9", "kafka-configs.sh", "--alter --topic t --config"),
    ("group", "0.9", "kafka-consumer-groups.sh", "ConsumerOffsetChecker --zookeeper"),
    ("group", "0.11", "--bootstrap-server BROKER:9092 --describe", "--new-consumer"),
    ("group_members", "1.1", "--members", "--describe --group"),
    ("reset_offsets", "0.11", "--reset-offsets", "--describe"),
    ("reset_offsets", "1.1", "--dry-run", "--to-earliest"),
    ("api_versions", "0.11", "kafka-broker-api-versions.sh --bootstrap-server", "nc -vz"),
    ("begin_offsets", "3.0", "kafka-get-offsets.sh", "GetOffsetShell --broker-list"),
    ("dump_log", "2.0", "kafka-dump-log.sh", "kafka.tools.DumpLogSegments"),
    ("leader_epochs", "0.11", "leader-epoch-checkpoint", "DumpLogSegments"),
    ("log_dirs", "1.0", "kafka-log-dirs.sh", "df -h"),
    ("verify_replicas", "3.0", "--topics-include", "--topic-white-list"),
    ("raise_log_level", "2.4", "--entity-type broker-loggers", "log4j.properties"),
    ("reassignments", "2.6", "kafka-reassign-partitions.sh", "/admin/reassign_partitions"),
    ("read_record", "0.11", "kafka-console-consumer.sh", "kafka-simple-consumer-shell.sh"),
    ("read_record", "4.2", "--formatter-property print", "--property print"),
]
BEFORE = {"4.2": "4.1", "0.9": "0.8", "0.11": "0.10", "1.0": "0.11", "2.0": "1.1", "3.0": "2.8"}


def on(version: str, *, kraft: bool = False) -> KafkaCli:
    return KafkaCli.for_versions([version], kraft=kraft)


@pytest.mark.parametrize(("name", "version", "now", "then"), CAME)
def test_an_option_is_used_from_the_version_on_that_has_it(
    name: str, version: str, now: str, then: str
) -> None:
    major, minor = version.split(".")
    before = BEFORE.get(version, f"{major}.{int(minor) - 1}")

    assert now in ASKS[name](on(f"{version}.0"))
    assert now not in ASKS[name](on(f"{before}.2"))
    assert then in ASKS[name](on(f"{before}.2"))


@pytest.mark.parametrize("name", sorted(ASKS))
def test_kraft_is_never_asked_by_way_of_zookeeper(name: str) -> None:
    for version in ("2.8.0", "3.3.0", "4.0.0"):
        assert "zookeeper" not in ASKS[name](on(version, kraft=True)).lower()


def test_the_quorum_is_described_from_3_3_on() -> None:
    assert "describe --status" in on("3.3.1", kraft=True).controller()
    assert "describe --replication" in on("3.3.1", kraft=True).quorum()
    assert "RaftManager" in on("3.2.0", kraft=True).quorum()
    assert "--bootstrap-server" in on("3.6.2", kraft=True).quorum()
    assert "--bootstrap-controller" in on("3.7.0", kraft=True).quorum()
    assert "--bootstrap-controller" in on("3.7.0", kraft=True).controller()
    assert "/controller" in on("3.9.0").controller()
    assert "/controller" in on("3.9.0").quorum()


def _about(known: KafkaCli, name: str) -> list[str]:
    return [
        known.topic(name),
        known.topic_config(name),
        known.read_record(name, 0, 7),
        known.group_members(name),
        known.reset_offsets(name, name),
        known.begin_offsets(name),
        known.dump_log(name, 1),
        known.leader_epochs(name, 1),
        known.log_dirs(1, name),
        known.broker_config(1, name),
        known.verify_replicas(name),
        known.set_topic_config(name, name, name),
    ]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("version", ["0.10.2", "1.0.2", "2.3.1", "4.3.0"])
def test_a_name_from_a_log_is_one_word_of_one_line(name: str, version: str) -> None:
    known = on(version)

    for text, harmless in zip(_about(known, name), _about(known, "x"), strict=True):
        assert "\n" not in text
        assert len(shlex.split(text)) == len(shlex.split(harmless)), text


@pytest.mark.parametrize(
    ("versions", "kraft", "newest"),
    [
        (["2.8.2", "3.9.1", None], False, (3, 9)),
        (["0.9.0.1", "0.10.2"], False, (0, 10)),
        (["7.3.0-ccs"], False, (3, 3)),
        (["5.4.1-ce", "nonsense"], False, (2, 4)),
        (["2.5.0.7.1.7.0-551"], False, (2, 5)),
        ([], True, (3, 3)),
        ([None, "?"], False, (3, 0)),
    ],
)
def test_the_newest_version_decides(
    versions: list[str | None], kraft: bool, newest: tuple[int, int]
) -> None:
    assert newest == KafkaCli.for_versions(versions, kraft=kraft).version


def test_only_servers_say_the_version_of_a_cluster(tmp_path: Path) -> None:
    known = case(
        tmp_path,
        files=[
            logs("broker-1", 1, role="broker", kafka_version="2.3.1"),
            logs("app", 1, role="client", kafka_version="4.0.0"),
        ],
    ).commands

    assert (2, 3) == known.version
    assert known.kraft


@pytest.mark.parametrize(
    ("rules", "kraft", "version"),
    [
        ([], False, (3, 0)),
        (["leader.selected@0.8"], False, (0, 10)),
        (["leader.selected@0.8", "leader.selected@0.11"], False, (0, 11)),
        (["alter-partition.stale@2.7", "no.such@0.8"], False, (3, 0)),
        (["stop-replica.listed@0.8"], False, (2, 5)),
        (["kafka-python.bootstrap@1.3"], False, (3, 0)),
        (["quorum.unfenced@2.8"], True, (3, 2)),
    ],
)
def test_wordings_that_kafka_gave_up_bound_a_version_that_no_line_names(
    rules: list[str], kraft: bool, version: tuple[int, int]
) -> None:
    known = KafkaCli.for_versions([None], kraft=kraft, rules=rules)

    assert known.version == version
    assert known.assumed


def test_an_assumed_version_is_said_once() -> None:
    known = KafkaCli.for_versions([], kraft=False)

    first, second, prose = known.adapt([known.unavailable(), known.topic("t"), "Wait."])

    asked = f"{known.topic('t')}   # who leads each partition, who is in sync?"
    assert first.endswith("no leader now? (for Kafka 3.0; no line names the version)")
    assert second == asked
    assert prose == "Wait."
    assert on("3.0.0").adapt([known.topic("t")]) == [asked]


def test_a_command_is_asked_for_what_its_finding_asks() -> None:
    """Only where the finding has no question of its own is there that of the command."""
    kafka = on("3.9.1")
    own = f"{kafka.topic('t')}   # are the new replicas in the ISR?"

    assert kafka.adapt([own, kafka.group("g")]) == [
        own, f"{kafka.group('g')}   # where is the group, how far behind?",
    ]  # fmt: skip


def test_windows_has_no_journal_and_no_shell_scripts(tmp_path: Path) -> None:
    loaded = event(1, "broker-1", "log_loaded", text=r"Loaded Log(dir=C:\kafka\data\t-0)")
    server = logs("broker-1", 1, role="broker", kafka_version="2.1.0")
    (tmp_path / "w").mkdir()
    (tmp_path / "l").mkdir()
    windows = case(tmp_path / "w", files=[server], events=[loaded]).commands
    linux = case(tmp_path / "l", files=[server], events=[loaded | {"text": "dir=/data"}]).commands
    actions = ["journalctl -k | grep -i 'killed'   # memory?", linux.topic("kafka-a.sh"), "Wait."]

    assert linux.adapt(actions[::2]) == actions[::2]
    assert windows.adapt(actions) == [
        "Get-WinEvent -LogName System   # memory?",
        (
            "kafka-topics.bat --zookeeper ZOOKEEPER:2181 --describe --topic kafka-a.sh"
            "   # who leads each partition, who is in sync?"
        ),
        "Wait.",
    ]


def started(node: str, **settings: str) -> list[dict[str, Any]]:
    """Make the lines with which a node says its settings; _ stands for a dot."""
    return [
        event(1, node, "setting_seen", setting=name.replace("_", "."), value=value)
        for name, value in settings.items()
    ]


def commands_after(folder: Path, *starts: list[dict[str, Any]], version: str = "3.9.1") -> KafkaCli:
    server = logs("broker-1", 1, role="broker", kafka_version=version)
    return case(folder, files=[server], events=[one for lines in starts for one in lines]).commands


def test_commands_go_to_the_addresses_that_the_settings_name(tmp_path: Path) -> None:
    voters = "[3001@c1.example:9093, 3002@c2.example:9093]"
    known = commands_after(
        tmp_path,
        started(
            "broker-2",
            advertised_listeners="EXTERNAL://far.example:443,PLAINTEXT://b2.example:9092",
            log_dirs="/data/kafka/",
        ),
        started(
            "broker-1",
            advertised_listeners="null",
            listeners="CONTROLLER://c1.example:9093,PLAINTEXT://b1.example:9092",
            controller_quorum_voters=voters,
            log_dirs="null",
            log_dir="/var/kafka",
        ),
        started("controller-9", listeners="CONTROLLER://c9.example:9093", log_dirs="/meta"),
    )

    assert "--bootstrap-server b1.example:9092,b2.example:9092 --desc" in known.unavailable()
    assert "--bootstrap-controller c1.example:9093,c2.example:9093 desc" in known.controller()
    assert known.api_versions(2).endswith("--bootstrap-server b2.example:9092")
    assert known.api_versions(7).endswith("--bootstrap-server BROKER:9092")
    checkpoint = known.leader_epochs("t", 0, 5, 2)
    assert checkpoint.startswith("cat /data/kafka/t-0/leader-epoch-checkpoint   # on broker 2: ")
    assert known.leader_epochs("t", 0, 5).startswith("cat LOG_DIR/t-0/")
    assert known.dump_log("t", 0, 1).split()[2] == "/var/kafka/t-0/00000000000000000000.log"


def test_old_brokers_are_asked_by_way_of_the_zookeeper_that_they_name(tmp_path: Path) -> None:
    ensemble = "zk1.example:2181,zk2.example:2181/kafka"
    lines = started("broker-1", zookeeper_connect=ensemble, listeners="PLAINTEXT://b1:9092")
    known = replace(commands_after(tmp_path, lines, version="0.10.2"), kraft=False)

    assert known.topic("t") == f"kafka-topics.sh --zookeeper {ensemble} --describe --topic t"
    assert known.api_versions(1) == "nc -vz b1 9092"
    assert known.registration(None) == f"zookeeper-shell.sh {ensemble} ls /brokers/ids"
    assert "--broker-list b1:9092 " in known.begin_offsets("t")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listeners", "PLAINTEXT://:9092"),
        ("listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("listeners", "CONTROLLER://b1:9093"),
        ("listeners", "PLAINTEXT://$(id):9092"),
        ("advertised_listeners", "PLAINTEXT://b1;id:9092"),
        ("zookeeper_connect", "zk1:2181;id"),
        ("zookeeper_connect", "zk1"),
        ("log_dirs", "/data/a,/data/b"),
        ("log_dirs", "[/data/a, /data/b]"),
        ("log_dirs", "/data/`id`"),
        ("controller_quorum_voters", "[]"),
        ("controller_quorum_voters", "[1@$(id):9093]"),
    ],
)
def test_what_names_no_place_is_left_to_the_reader(
    tmp_path: Path, setting: str, value: str
) -> None:
    assert (
        commands_after(tmp_path, started("broker-1", **{setting: value})).places
        == ClusterAddresses()
    )


def test_brokers_that_name_two_zookeepers_leave_the_choice_to_the_reader(tmp_path: Path) -> None:
    one, other = ({"zookeeper_connect": f"{name}:2181"} for name in ("zk1", "zk2"))
    known = commands_after(tmp_path, started("broker-1", **one), started("broker-2", **other))

    assert known.places.zookeeper == "ZOOKEEPER:2181"


def test_kafka_4_3_writes_brackets_around_lists(tmp_path: Path) -> None:
    listeners = "[PLAINTEXT://b1:9092, SSL://b1:9094]"
    lines = started("broker-1", advertised_listeners=listeners, log_dirs="[/data/b1]")
    known = commands_after(tmp_path, lines, version="4.3.0").places

    assert (known.broker(1), known.log_dir(1)) == ("b1:9092", "/data/b1")


def test_the_last_start_of_a_broker_counts(tmp_path: Path) -> None:
    first = started("broker-1", listeners="PLAINTEXT://old:9092")
    later = [
        one | {"ts": 9_000_000} for one in started("broker-1", listeners="PLAINTEXT://b1:9092")
    ]
    known = commands_after(tmp_path, later, first)

    assert known.places.brokers == "b1:9092"


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.1.1", "4.3.0"])
def test_log_levels_are_raised_of_loggers_that_each_broker_has(version: str) -> None:
    """Brokers of 4.1.1 and 4.3.0 whose configuration does not name `kafka` refuse that one."""
    raised = on(version).raise_log_level("1")

    assert "kafka=INFO" not in raised
    assert "kafka.cluster.Partition=INFO," in raised
    assert ",state.change.logger=INFO " in raised
