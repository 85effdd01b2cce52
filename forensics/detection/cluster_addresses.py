"""Where the nodes of a cluster are, as their settings tell: what commands need to reach them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.lib.arrow_io import iter_rows
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
