"""Shell commands for the Kafka version in the logs, with which a reader checks a finding or acts.

Options came and went: each branch names the version from which on it holds. Names come from logs,
and are quoted as words of a shell. BROKER, CONTROLLER, ZOOKEEPER and LOG_DIR stand where no line
names the place. Commands are written for Linux; `adapt` turns them into those of Windows.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from forensics.events.packs import load_rule_set, version_numbers
from forensics.lib.arrow_io import is_any_of, iter_rows
from forensics.lib.node_ids import broker_id
from forensics.run_output.reader import Tables

_ADVERTISED, _LISTENERS = "advertised.listeners", "listeners"
_VOTERS, _BOOTSTRAP = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
_ZOOKEEPER, _DIRS, _DIR = "zookeeper.connect", "log.dirs", "log.dir"
_SETTINGS = (_ADVERTISED, _LISTENERS, _VOTERS, _BOOTSTRAP, _ZOOKEEPER, _DIRS, _DIR)
# Only what a shell takes as it is; a listener on every address names no host.
_HOST = r"(?!0\.0\.0\.0:)(?:[A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:]*[0-9A-Fa-f][0-9A-Fa-f:]*\]):\d{1,5}"
_LISTENER = re.compile(rf"(?:^|,\s*)([A-Za-z]\w*)://({_HOST})(?=,|$)")
_VOTER = re.compile(rf"(?:^|,\s*)(?:\d+@)?({_HOST})(?=,|$)")
_ZOOKEEPERS = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/[\w./-]*)?")
_PATH = re.compile(r"(?:/|[A-Za-z]:[\\/])[\w.\\/:-]*")
# Enough to reach a cluster of which one node is down.
_SHOWN = 2

Version = tuple[int, ...]

# Brokers log paths of their files in lines of these kinds.
_KINDS_WITH_PATHS = (
    "disk_error", "file_move_failed", "index_corrupted", "log_created", "log_dir_failed",
    "log_loaded", "setting_seen", "stopped_clean",
)  # fmt: skip
_WINDOWS_PATH = r"\b[A-Za-z]:\\\w"
_LEADERS = "state.change.logger"
# Pauses in the words of Java 8 and of later ones; names of the files may end in numbers.
GREP_PAUSES = "grep -Ei 'pause|full gc|to-space|stall|safepoint' kafkaServer-gc.log*"
_NUMBER = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?")
# Confluent numbers its builds differently: 5.4.1-ccs is Kafka 2.4, 7.3.0-ccs is Kafka 3.3.
_CONFLUENT = re.compile(r"-(?:ccs|ce|cp)")
_CONFLUENT_OF = {3: (0, 8), 4: (1, 0), 5: (2, 0), 6: (2, 6), 7: (3, 0), 8: (4, 0)}
_SCRIPT = re.compile(r"(?:kafka|zookeeper)-[a-z-]+\.(?:sh|bat)\b")
# What does in PowerShell what a command of Linux does; the reader's comment stays.
_IN_POWERSHELL = tuple(
    (re.compile(pattern), command)
    for pattern, command in (
        (r"^(?:journalctl|dmesg)\b[^#]*", "Get-WinEvent -LogName System   "),
        (r"^df\b[^#]*", "Get-PSDrive -PSProvider FileSystem   "),
        (r"^ls -ld? ", "Get-Acl "),
        (r"^(?:chronyc|timedatectl)\b[^#]*", "w32tm /query /status   "),
        (r"^iostat\b[^#]*", r"Get-Counter '\\PhysicalDisk(*)\\Avg. Disk sec/Write'   "),
        (r"^nc -vz (\S+) (\S+)", r"Test-NetConnection \1 -Port \2"),
        (r"^ss -ltnp\b", "Get-NetTCPConnection -State Listen"),
        (r"^z?grep (?:-\w+ )*", "Select-String "),
        (r"\| grep (?:-\w+ )*", "| Select-String "),
        (r"\| (?:head|tail)\b( -\w+)*", "| Select-Object -First 10"),
        (r"^((?:kafka|zookeeper)-[a-z-]+)\.sh\b", r"\1.bat"),
    )
)


# What a command that only looks is asked for, where the finding has no question of its own.
_QUESTIONS = tuple(
    (re.compile(pattern), question)
    for pattern, question in (
        (r"kafka-topics\.sh .*--describe --topic ", "who leads each partition, who is in sync?"),
        (r"--describe --group \S+ --members", "who is in the group, and on which hosts?"),
        (r"--describe --group |ConsumerOffsetChecker", "where is the group, how far behind?"),
        (r"(GetOffsetShell|get-offsets\.sh) .*--time -2", "where does each partition begin?"),
        (r"(GetOffsetShell|get-offsets\.sh) .*--time -1", "where does each partition end?"),
        (r"kafka-configs\.sh .*--describe .*\| grep ", "which value is in use?"),
        (r"kafka-configs\.sh .*--describe ", "which settings does it have of its own?"),
        (r"kafka-metadata-quorum\.sh .*--status", "who is the active controller?"),
        (r"kafka-metadata-quorum\.sh .*--replication", "how far behind is each voter?"),
        (r"zookeeper-shell\.sh .*get /controller", "who is the controller?"),
        (r"zookeeper-shell\.sh .*(ls|get) /brokers/ids", "which brokers are registered?"),
        (r"kafka-broker-api-versions\.sh ", "does the broker answer?"),
        (r"kafka-log-dirs\.sh ", "errors, sizes, lag?"),
        (r"kafka-reassign-partitions\.sh .*--list", "what is still being moved?"),
        (r"kafka-(replica-verification|dump-log)\.sh |DumpLogSegments", "what is in the log?"),
        (r"kafka-console-consumer\.sh |kafka-simple-consumer-shell", "what is in this record?"),
        (r"--election-type preferred|preferred-replica", "give the first replicas the lead again"),
        (r"kafka-topics\.sh .*--under-", "which partitions are still short of replicas?"),
        (r"kafka-topics\.sh .*--unavailable-partitions", "which have no leader now?"),
    )
)


@dataclass(frozen=True)
class ClusterAddresses:
    """The addresses and log directories of a cluster; words to fill in where no line names them."""

    addresses: Mapping[int, str] = field(default_factory=dict)
    controllers: str = "CONTROLLER:9093"
    zookeeper: str = "ZOOKEEPER:2181"
    log_dirs: Mapping[int, str] = field(default_factory=dict)

    @property
    def brokers(self) -> str:
        """Return where clients begin.

        >>> ClusterAddresses().brokers
        'BROKER:9092'
        >>> ClusterAddresses({2: "b:9092", 1: "a:9092", 3: "c:9092"}).brokers
        'a:9092,b:9092'
        """
        first = sorted(self.addresses)[:_SHOWN]
        return ",".join(self.addresses[broker] for broker in first) or "BROKER:9092"

    def broker(self, broker: int | None) -> str:
        """Return where one broker is, or a word for it."""
        return "BROKER:9092" if broker is None else self.addresses.get(broker, "BROKER:9092")

    def log_dir(self, broker: int | None) -> str:
        """Return the log directory of a broker, or of all if they have the same."""
        every = set(self.log_dirs.values())
        known = every.pop() if len(every) == 1 and broker is None else None
        return known or self.log_dirs.get(-1 if broker is None else broker, "LOG_DIR")


def read_cluster_addresses(tables: Tables) -> ClusterAddresses:
    """Return what the settings of brokers and controllers tell, those of their last start."""
    where = (pc.field("kind") == "setting_seen") & pc.field("setting").isin(_SETTINGS)
    known: dict[str, dict[str, str]] = {}
    columns = ["ts", "node", "setting", "value"]
    rows = list(iter_rows(tables.scan("events", columns, where), columns))
    for row in sorted(rows, key=lambda row: row["ts"] or 0):
        known.setdefault(row["node"] or "", {})[row["setting"]] = _strip(row["value"] or "")
    brokers = {broker: known[node] for node in known if (broker := broker_id(node)) is not None}
    voters = {one for settings in known.values() for one in _find_voters(settings)}
    addresses = {broker: _find_address(said, voters) for broker, said in brokers.items()}
    zookeepers = {said.get(_ZOOKEEPER, "null") for said in known.values()} - {"null", ""}
    zookeeper = zookeepers.pop() if len(zookeepers) == 1 else ""
    return ClusterAddresses(
        {broker: address for broker, address in addresses.items() if address},
        ",".join(sorted(voters)[:_SHOWN]) or ClusterAddresses.controllers,
        zookeeper if _ZOOKEEPERS.fullmatch(zookeeper) else ClusterAddresses.zookeeper,
        {broker: path for broker, said in brokers.items() if (path := _find_dir(said))},
    )


def _strip(value: str) -> str:
    """Take the brackets of a list away, which Kafka 4.3 writes around each."""
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def _find_voters(settings: Mapping[str, str]) -> Iterator[str]:
    for name in (_VOTERS, _BOOTSTRAP):
        yield from _VOTER.findall(settings.get(name, ""))


def _find_address(settings: Mapping[str, str], voters: set[str]) -> str | None:
    """Return the listener for clients: the plain one, if there are several."""
    for name in (_ADVERTISED, _LISTENERS):
        found: dict[str, str] = {
            listener: address
            for listener, address in _LISTENER.findall(settings.get(name, ""))
            if address not in voters and "CONTROLLER" not in listener.upper()
        }
        if found:
            return found.get("PLAINTEXT") or next(iter(found.values()))
    return None


def _find_dir(settings: Mapping[str, str]) -> str | None:
    """Return the only log directory; of several nobody knows which one holds a partition."""
    said = settings.get(_DIRS) or "null"
    path = settings.get(_DIR, "") if said == "null" else said
    return path.rstrip("/") if _PATH.fullmatch(path) else None


def _with_question(action: str) -> str:
    """Write behind a command what it is asked for, where nothing stands there."""
    if not _SCRIPT.match(action) or "   # " in action or "\n" in action:
        return action
    question = next((text for pattern, text in _QUESTIONS if pattern.search(action)), "")
    return f"{action}   # {question}" if question else action


def quote(text: object) -> str:
    r"""Quote a name from a log as one word of a shell, in one line.

    >>> quote("orders"), quote("a; rm b"), quote("a\nb")
    ('orders', "'a; rm b'", "'a\\nb'")
    """
    plain = str(text)
    if not plain.isprintable():
        plain = plain.encode("unicode_escape").decode()
    return shlex.quote(plain)


def parse_version(text: str) -> Version | None:
    """Read a version as logged.

    >>> [parse_version(text) for text in ("2.8.2", "7.3.0-ccs", "5.5.1-ce", "unknown")]
    [(2, 8), (3, 3), (2, 5), None]
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    if _CONFLUENT.search(text) and major in _CONFLUENT_OF:
        base = _CONFLUENT_OF[major]
        return base[0], base[1] + minor
    return major, minor


@dataclass(frozen=True)
class KafkaCli:
    """The commands for a cluster of one version (major, minor) and mode."""

    version: Version
    kraft: bool
    # whether no line names the version, so that it is the likeliest one
    assumed: bool = False
    windows: bool = False
    # where the cluster is, as its settings tell
    places: ClusterAddresses = field(default_factory=ClusterAddresses)

    @classmethod
    def for_versions(
        cls,
        versions: Iterable[str | None],
        *,
        kraft: bool,
        rules: Iterable[str] = (),
        windows: bool = False,
    ) -> KafkaCli:
        """Take the newest of the versions; without any, one whose options most versions have.

        Without any, `rules` are the wordings that servers' lines matched (column `rule`): a wording
        that Kafka gave up, or took up, bounds the version.

        >>> KafkaCli.for_versions(["2.8.2", None, "2.5.1"], kraft=False).version
        (2, 8)
        """
        known = [version for text in versions if text and (version := parse_version(text))]
        if known:
            return cls(max(known), kraft, windows=windows)
        # KRaft is usable from 3.3 on; later versions with ZooKeeper have all options of 3.0.
        likely: Version = (3, 3) if kraft else (3, 0)
        low, high = _find_bounds(rules)
        # Both may be there after an upgrade; the newest counts.
        likely = min(max(likely, low), high) if low <= high else low
        return cls(likely, kraft, assumed=True, windows=windows)

    def adapt(self, actions: Sequence[str]) -> list[str]:
        """Write actions for the system that Kafka runs on; say so where the version is assumed."""
        actions = [_with_question(action) for action in actions]
        actions = [_to_windows(action) for action in actions] if self.windows else actions
        for index, action in enumerate(actions):
            if self.assumed and _SCRIPT.match(action):
                mark = "" if " # " in action else "  #"
                version = f"{self.version[0]}.{self.version[1]}"
                actions[index] = f"{action}{mark} (for Kafka {version}; no line names the version)"
                break
        return actions

    def raise_log_level(self, broker: str) -> str:
        """Let a broker log at INFO what tells of leaders and ISRs."""
        if self.version < (2, 4):  # KIP-412
            lines = f"log4j.logger.kafka=INFO log4j.logger.{_LEADERS}=INFO"
            return f"printf '%s\\n' {lines} >> log4j.properties   # from the next restart on"
        # Brokers refuse names that they have no logger of: not each configuration names `kafka`.
        loggers = "kafka.cluster.Partition", "kafka.server.ReplicaFetcherManager", _LEADERS
        levels = ",".join(f"{logger}=INFO" for logger in loggers)
        return (
            f"kafka-configs.sh {self._bootstrap} --alter --entity-type broker-loggers "
            f"--entity-name {broker} --add-config {levels}   # until its next restart"
        )

    def topic(self, topic: str) -> str:
        """Show leader, replicas and ISR of each partition of a topic."""
        return f"kafka-topics.sh {self._topics} --describe --topic {quote(topic)}"

    def under_replicated(self) -> str:
        """List the partitions that have replicas out of sync."""
        return f"kafka-topics.sh {self._topics} --describe --under-replicated-partitions"

    def unavailable(self) -> str:
        """List the partitions that have no leader."""
        return f"kafka-topics.sh {self._topics} --describe --unavailable-partitions"

    def under_min_isr(self) -> str:
        """List the partitions that take no records with acks=all."""
        if self.version < (2, 3):  # KIP-351
            return self.under_replicated()
        return f"kafka-topics.sh {self._topics} --describe --under-min-isr-partitions"

    def topic_config(self, topic: str) -> str:
        """Show the settings of a topic."""
        if self.version < (0, 9):  # KIP-21
            return f"{self.topic(topic)} --topics-with-overrides"
        return f"kafka-configs.sh {self._configs} --describe {_entity('topics', topic)}"

    def set_topic_config(self, topic: str, setting: str, value: str) -> str:
        """Change a setting of a topic."""
        if self.version < (0, 9):  # KIP-21
            change = f"--alter --topic {quote(topic)} --config {quote(f'{setting}={value}')}"
            return f"kafka-topics.sh {self._zookeeper} {change}"
        change = f"--alter {_entity('topics', topic)} --add-config {quote(f'{setting}={value}')}"
        return f"kafka-configs.sh {self._configs} {change}"

    def unclean_election(self, topic: str) -> str:
        """Forbid unclean elections of a topic."""
        return self.set_topic_config(topic, "unclean.leader.election.enable", "false")

    def broker_config(self, broker: int, setting: str | None = None) -> str:
        """Show the settings of a broker, or one of them."""
        if self.version < (2, 5):  # KIP-524: before, brokers did not tell what their file says
            note = f"on broker {broker}; no line: the default"
            return f"grep {quote(setting or '')} server.properties   # {note}"
        picked = "" if setting is None else f" | grep {quote(setting)}"
        entity = _entity("brokers", broker)
        return f"kafka-configs.sh {self._bootstrap} --describe --all {entity}{picked}"

    def preferred_election(self) -> str:
        """Give leadership of all partitions back to their first replicas."""
        if self.version < (2, 4):  # KIP-460
            at = self._zookeeper if self.version < (2, 2) else self._bootstrap  # KIP-183
            return f"kafka-preferred-replica-election.sh {at}"
        which = "--election-type preferred --all-topic-partitions"
        return f"kafka-leader-election.sh {self._bootstrap} {which}"

    def group(self, group: str) -> str:
        """Show members, offsets and lag of a consumer group."""
        if self.version < (0, 9):  # KAFKA-313
            tool = "kafka-run-class.sh kafka.tools.ConsumerOffsetChecker"
            return f"{tool} {self._zookeeper} --group {quote(group)}"
        return f"kafka-consumer-groups.sh {self._groups} --describe --group {quote(group)}"

    def group_members(self, group: str) -> str:
        """Show the members of a consumer group and their partitions."""
        if self.version < (1, 1):  # KIP-175
            return self.group(group)
        return f"{self.group(group)} --members --verbose"

    def reset_offsets(self, group: str, topic: str, to: str = "--to-earliest") -> str:
        """Show to which offsets a group would be reset; only --execute changes them."""
        if self.version < (0, 11):  # KIP-122
            return self.group(group)
        # Before 1.1 there was no such option; leaving --execute out was enough.
        dry = " --dry-run" if self.version >= (1, 1) else ""
        whom = f"--group {quote(group)} --topic {quote(topic)}"
        return f"kafka-consumer-groups.sh {self._groups} --reset-offsets {whom} {to}{dry}"

    def begin_offsets(self, topic: str) -> str:
        """Show where the log of each partition begins."""
        which = f"--topic {quote(topic)} --time -2"
        if self.version < (3, 0):  # KIP-635
            tool = "kafka-run-class.sh kafka.tools.GetOffsetShell"
            return f"{tool} --broker-list {self.places.brokers} {which}"
        return f"kafka-get-offsets.sh {self._bootstrap} {which}"

    def read_record(self, topic: str, partition: int, offset: int) -> str:
        """Read one record."""
        one = f"--topic {quote(topic)} --partition {partition} --offset {offset} --max-messages 1"
        if self.version < (0, 11):  # the other tool reads from an offset since 0.10.1
            return f"kafka-simple-consumer-shell.sh --broker-list {self.places.brokers} {one}"
        shown = "--formatter-property" if self.version >= (4, 2) else "--property"  # KIP-1147
        return f"kafka-console-consumer.sh {self._bootstrap} {one} {shown} print.timestamp=true"

    def dump_log(self, topic: str, partition: int, broker: int | None = None) -> str:
        """Show the batches of a segment, on the broker that has it."""
        path = self._in_log_dir(topic, partition, "00000000000000000000.log", broker)
        if self.version < (2, 0):  # KAFKA-6615
            return f"kafka-run-class.sh kafka.tools.DumpLogSegments --files {path}"
        return f"kafka-dump-log.sh --files {path}"

    def leader_epochs(
        self, topic: str, partition: int, epoch: int | None = None, broker: int | None = None
    ) -> str:
        """Show at which offset a leader epoch begins in a log, of a broker if that is known."""
        if self.version < (0, 11):  # KIP-101
            return self.dump_log(topic, partition, broker)
        # An epoch in which nothing was written has no line.
        what, since = ("EPOCH", "each epoch") if epoch is None else (epoch, f"epoch {epoch}")
        where = "" if broker is None or broker < 0 else f"on broker {broker}: "
        path = self._in_log_dir(topic, partition, "leader-epoch-checkpoint", broker)
        return f'cat {path}   # {where}line "{what} OFFSET": where {since} begins'

    def controller(self) -> str:
        """Show who is the active controller."""
        if not self.kraft:
            return f"zookeeper-shell.sh {self.places.zookeeper} get /controller"
        if self.version < (3, 3):  # KIP-836
            return "grep -h 'RaftManager' LOGS/server.log | tail   # who leads the quorum"
        return f"kafka-metadata-quorum.sh {self._quorum} describe --status"

    def api_versions(self, broker: int | None = None) -> str:
        """Ask a broker for something that each of them answers."""
        at = self.places.broker(broker)
        if self.version < (0, 11):  # the tool came with 0.10.2
            return "nc -vz {} {}".format(*at.split(",")[0].rpartition(":")[::2])
        return f"kafka-broker-api-versions.sh --bootstrap-server {at}"

    def registration(self, broker: int | None) -> str:
        """Show who is registered as a broker."""
        if self.kraft:
            return self.quorum()
        what = "ls /brokers/ids" if broker is None else f"get /brokers/ids/{broker}"
        return f"zookeeper-shell.sh {self.places.zookeeper} {what}"

    def quorum(self) -> str:
        """Show how far each controller and broker is behind in the metadata log."""
        if not self.kraft or self.version < (3, 3):  # KIP-836
            return self.controller()
        return f"kafka-metadata-quorum.sh {self._quorum} describe --replication"

    def log_dirs(self, broker: int, topic: str | None = None) -> str:
        """Show the log directories of a broker: errors, sizes, lag."""
        if self.version < (1, 0):  # KIP-113
            return f"df -h {self.places.log_dir(broker)}   # on broker {broker}"
        topics = "" if topic is None else f" --topic-list {quote(topic)}"
        return f"kafka-log-dirs.sh {self._bootstrap} --describe --broker-list {broker}{topics}"

    def verify_replicas(self, topic: str) -> str:
        """Compare the replicas of a topic: it reads all of it, and runs until it is stopped."""
        chosen = "--topics-include" if self.version >= (3, 0) else "--topic-white-list"  # KIP-629
        which = f"{chosen} {quote(re.escape(topic))}"
        return f"kafka-replica-verification.sh --broker-list {self.places.brokers} {which}"

    def reassignments(self) -> str:
        """Show the reassignments that are under way."""
        if self.version < (2, 6):  # KAFKA-8834
            look = f"zookeeper-shell.sh {self.places.zookeeper} get /admin/reassign_partitions"
            return f"{look}   # NoNode: none"
        return f"kafka-reassign-partitions.sh {self._bootstrap} --list"

    @property
    def _bootstrap(self) -> str:
        return f"--bootstrap-server {self.places.brokers}"

    @property
    def _controller(self) -> str:
        return f"--bootstrap-controller {self.places.controllers}"

    @property
    def _zookeeper(self) -> str:
        return f"--zookeeper {self.places.zookeeper}"

    @property
    def _quorum(self) -> str:
        # KIP-919: controllers answer themselves, also while no broker does.
        return self._controller if self.version >= (3, 7) else self._bootstrap

    @property
    def _topics(self) -> str:
        return self._zookeeper if self.version < (2, 2) else self._bootstrap  # KIP-377

    @property
    def _configs(self) -> str:
        return self._zookeeper if self.version < (2, 5) else self._bootstrap  # KIP-543

    @property
    def _groups(self) -> str:
        return f"{self._bootstrap} --new-consumer" if self.version < (0, 11) else self._bootstrap

    def _in_log_dir(self, topic: str, partition: int, file: str, broker: int | None) -> str:
        return f"{self.places.log_dir(broker)}/{quote(f'{topic}-{partition}')}/{file}"


def read_cli(tables: Tables, *, kraft: bool) -> KafkaCli:
    """Return the commands for the cluster of a run, as its tables tell."""
    files = tables.read("files", ["file", "role", "kafka_version"]).to_pylist()
    versions = [one["kafka_version"] for one in files if one["role"] in ("broker", "controller")]
    others = [one["file"] for one in files if one["role"] != "client"]
    rules = set[str]()
    where = is_any_of("file", others)
    for batch in tables.scan("events", ["rule"], where) if others and not any(versions) else ():
        rules.update(batch["rule"].unique().drop_null().to_pylist())
    pathed = pc.field("kind").isin(_KINDS_WITH_PATHS)
    pathed &= pc.match_substring_regex(pc.field("text"), _WINDOWS_PATH)
    windows = any(len(batch) for batch in tables.scan("events", ["line"], pathed))
    known = KafkaCli.for_versions(versions, kraft=kraft, rules=rules, windows=windows)
    return replace(known, places=read_cluster_addresses(tables))


def _find_bounds(rules: Iterable[str]) -> tuple[Version, Version]:
    """Return the first and last version that have all of some wordings (`id@first version`)."""
    matched = set(rules)
    spans: dict[str, list[Version]] = {}
    # Rules of client libraries count the versions of these.
    for rule in load_rule_set().rules if matched else ():
        for wording in rule.wordings if "/clients/" not in rule.path else ():
            if (name := f"{rule.id}@{wording.versions[0]}") in matched:
                spans.setdefault(name, []).extend(map(version_numbers, wording.versions))
    low = max((min(span) for span in spans.values()), default=(0, 0))
    return low, min((max(span) for span in spans.values()), default=(99, 0))


def _to_windows(action: str) -> str:
    """Turn a command of Linux into one of Windows.

    >>> _to_windows("journalctl -k | grep -i 'killed process'   # out of memory?")
    'Get-WinEvent -LogName System   # out of memory?'
    """
    for pattern, command in _IN_POWERSHELL:
        action = pattern.sub(command, action)
    return action


def _entity(kind: str, name: object) -> str:
    return f"--entity-type {kind} --entity-name {quote(name)}"
