"""Which cluster this is: its id, the Kafka version, ZooKeeper or KRaft, how many brokers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pyarrow.dataset as ds

from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import count, join_names, natural_key
from forensics.run_output.reader import RunOutput

# Lines of a quorum that name the cluster.
ID_KINDS = ("controller_created", "raft_vote", "raft_pre_vote")
CLUSTER_ID = re.compile(r"cluster ?id[='\" :]+([A-Za-z0-9_-]{8,40})", re.IGNORECASE)
QUORUM_SETTINGS = ("process.roles", "controller.quorum.voters")
ZOOKEEPER_SETTING = "zookeeper.connect"
VERSION = re.compile(r"\d+(\.\d+){1,3}(-[A-Za-z0-9.]{1,20})?")
SHOWN_ID = 8
ZOOKEEPER = "ZooKeeper"


@dataclass(frozen=True)
class ClusterFacts:
    """What the title line says of the cluster; empty where no line tells it."""

    id: str
    versions: tuple[str, ...]
    coordination: str
    brokers: int

    def __str__(self) -> str:
        kafka = f"Kafka {join_names(self.versions)}" if self.versions else "Kafka"
        brokers = count(self.brokers, "broker") if self.brokers else ""
        parts = [kafka, self.coordination, brokers]
        about = ", ".join(part for part in parts if part)
        return f"cluster {self.short_id} \u00b7 {about}" if self.id else about

    @property
    def short_id(self) -> str:
        """The beginning of the id, by which people tell clusters apart."""
        return f"{self.id[:SHOWN_ID]}\u2026" if len(self.id) > SHOWN_ID + 1 else self.id


def read_cluster_facts(run: RunOutput) -> ClusterFacts:
    """Read what the whole logs say of the cluster, whatever window of them is shown."""
    coordination = _coordination(run)
    servers = [row for row in run.files if row["role"] in ("broker", "controller")]
    # It stands in a heading: what is no version is no word for one.
    versions = {str(row["kafka_version"]) for row in servers}
    versions = {one for one in versions if VERSION.fullmatch(one)}
    lanes = run.tables.read("lanes", ["broker"], ds.field("role") == "broker")["broker"]
    brokers = {*lanes.unique().to_pylist(), *(broker_id(row["node"]) for row in servers)}
    brokers -= {None}
    return ClusterFacts(
        _cluster_id(run), tuple(sorted(versions, key=natural_key)), coordination, len(brokers)
    )


def uses_zookeeper(run: RunOutput) -> bool:
    """Say whether settings name ZooKeeper, so that brokers have sessions there."""
    return _coordination(run) == ZOOKEEPER


def _coordination(run: RunOutput) -> str:
    settings = _settings(run)
    if any(settings.get(name) for name in QUORUM_SETTINGS):
        return "KRaft"
    return ZOOKEEPER if settings.get(ZOOKEEPER_SETTING) else ""


def _cluster_id(run: RunOutput) -> str:
    names: Counter[str] = Counter()
    is_naming = ds.field("kind").isin(list(ID_KINDS))
    if "text" not in run.tables.column_names("events"):
        return ""
    for batch in run.tables.scan("events", ["text"], is_naming):
        for text in batch["text"].to_pylist():
            names.update(CLUSTER_ID.findall(text or "")[:1])
    # Logs of two clusters have no one name.
    return next(iter(names)) if len(names) == 1 else ""


def _settings(run: RunOutput) -> dict[str, bool]:
    """Say which of the settings that tell ZooKeeper from KRaft have a value."""
    names = (*QUORUM_SETTINGS, ZOOKEEPER_SETTING)
    if not {"setting", "value"} <= set(run.tables.column_names("events")):
        return {}
    wanted = (ds.field("kind") == "setting_seen") & ds.field("setting").isin(list(names))
    rows = run.tables.read("events", ["setting", "value"], wanted).to_pylist()
    empty = ("", "null", "[]", "None")
    known = {row["setting"] for row in rows if (row["value"] or "").strip() not in empty}
    return {name: name in known for name in names}
