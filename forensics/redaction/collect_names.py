"""Gathers the names of one run: from the columns that hold them, and from the texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.redaction.name_patterns import find_names, is_internal, is_node
from forensics.run_output.reader import RunOutput

_CLIENTS = ("client", "group")
_SETTINGS = ("client.id", "group.id", "transactional.id", "group.instance.id", "application.id")
_TEXTS = ("text", "detail", "value", "member", "why", "log_dir", "observed")
_MEMBER = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
# What brokers call a session of ZooKeeper's.
_SESSION = re.compile(r"0x[0-9a-f]+|[0-9]{15,}")


@dataclass
class RunNames:
    """Names by class, and the partitions that there are."""

    names: dict[str, set[str]] = field(default_factory=dict)
    partitions: set[tuple[str, int]] = field(default_factory=set)

    def add(self, kind: str, name: str | None) -> None:
        """Take a name."""
        if kind == "clients" and name:
            # A member is its client with a number that is nobody's name.
            gone = _SESSION.fullmatch(name) or name.startswith("file:")
            name = None if gone else _MEMBER.sub("", name)
        if name and name.strip():
            self.names.setdefault(kind, set()).add(name.lower() if kind == "hosts" else name)


def is_address(client: str) -> bool:
    """Whether what stands for a client is an address, as of one that told no name."""
    bare = client.lstrip("/").rpartition(":")[0] or client.lstrip("/")
    return (bare.count(".") == 3 and bare.replace(".", "").isdecimal()) or bare.count(":") > 1


def collect_names(run: RunOutput, tables: Iterable[str]) -> RunNames:
    """Gather the names of a run."""
    found = RunNames()
    for table in tables:
        for batch in run.tables.scan(table):
            _columns(found, batch)
            _texts(found, batch)
    _collect_from_document(found, run.document)
    internal = {name for name in found.names.get("topics", ()) if is_internal(name)}
    found.names["topics"] = found.names.get("topics", set()) - internal
    return found


def _columns(found: RunNames, batch: pa.RecordBatch) -> None:
    have = set(batch.schema.names)
    for column, kind in (("topic", "topics"), *((name, "clients") for name in _CLIENTS)):
        for name in _unique(batch, column) if column in have else ():
            if kind == "topics" or not is_address(name):
                found.add(kind, name)
    if {"topic", "partition"} <= have:
        pairs = pa.Table.from_batches([batch.select(["topic", "partition"])])
        keys = ["topic", "partition"]
        rows = pairs.group_by(keys).aggregate([]).to_pylist()
        found.partitions |= {(row["topic"], row["partition"]) for row in rows if row["topic"]}
    if {"setting", "value"} <= have:
        named = pc.is_in(batch["setting"], pa.array(_SETTINGS))
        for name in batch["value"].filter(named).drop_null().unique().to_pylist():
            found.add("clients", name if name not in ("null", "") else None)
    if {"node", "role"} <= have:
        _nodes(found, batch)
    if "member" in have:
        for name in _unique(batch, "member"):
            found.add("clients", name)


def _nodes(found: RunNames, batch: pa.RecordBatch) -> None:
    """Take the nodes that are called by a name of theirs; broker-1 is none."""
    for node, role in set(zip(batch["node"].to_pylist(), batch["role"].to_pylist(), strict=True)):
        if node and not is_node(node) and not node.startswith("file:"):
            found.add("clients" if role == "client" else "hosts", node)


def _unique(batch: pa.RecordBatch, column: str) -> list[str]:
    texts = batch[column]
    return [] if not pa.types.is_string(texts.type) else texts.drop_null().unique().to_pylist()


def _texts(found: RunNames, batch: pa.RecordBatch) -> None:
    for column in _TEXTS:
        if column in batch.schema.names and pa.types.is_string(batch[column].type):
            for kind, name in find_names(batch[column].drop_null().unique()):
                found.add(kind, name)


def _collect_from_document(found: RunNames, document: Mapping[str, Any]) -> None:
    """Take what findings name; the rest of their text is made of the tables."""
    for finding in (*document.get("findings", ()), *document.get("suppressed", ())):
        for client in finding.get("clients") or ():
            found.add("clients", None if is_address(str(client)) else str(client))
        for partition in finding.get("partitions") or ():
            topic, _, number = str(partition).rpartition("-")
            if topic and number.isdecimal():
                found.add("topics", topic)
                found.partitions.add((topic, int(number)))
        texts = [str(one.get("text") or "") for one in finding.get("evidence") or ()]
        for kind, name in find_names(pa.array(texts, pa.string())):
            found.add(kind, name)
    for name in _ids(document):
        found.add("findings" if name.startswith("F-") else "chains", name)


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if str(value.get("id") or "")[:2] in ("F-", "C-"):
            yield str(value["id"])
        for one in value.values():
            yield from _ids(one)
    elif isinstance(value, list):
        for one in value:
            yield from _ids(one)
