"""Collects the names of a run: from the columns that hold names, and from free text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.lib.whole_numbers import whole_number
from forensics.redaction.name_patterns import find_names, is_internal, is_node, split_member
from forensics.run_output.reader import RunOutput

_NAME_COLUMNS = {"topic": "topics", "client": "clients", "group": "clients"}
_CLIENT_SETTINGS = ("client.id", "group.id", "transactional.id", "group.instance.id",
                    "application.id")  # fmt: skip
_TEXT_COLUMNS = ("text", "detail", "value", "member", "why", "log_dir", "observed")
# How brokers name sessions of ZooKeeper.
_SESSION = re.compile(r"0x[0-9a-f]+|[0-9]{15,}")


@dataclass
class RunNames:
    """Names by class, and the partitions."""

    names: dict[str, set[str]] = field(default_factory=dict)
    partitions: set[tuple[str, int]] = field(default_factory=set)

    def add(self, kind: str, name: str | None) -> None:
        """Add a name."""
        if kind == "clients" and name:
            if _SESSION.fullmatch(name) or name.startswith("file:"):
                return
            name = split_member(name)[0]
        if name and name.strip():
            self.names.setdefault(kind, set()).add(name.lower() if kind == "hosts" else name)

    def add_texts(self, texts: pa.Array) -> None:
        """Add the names that texts tell."""
        for kind, name in find_names(texts):
            self.add(kind, name)


def is_address(client: str) -> bool:
    """Return True if a client is named by its address only."""
    bare = client.lstrip("/").rpartition(":")[0] or client.lstrip("/")
    return (bare.count(".") == 3 and bare.replace(".", "").isdecimal()) or bare.count(":") > 1


def collect_names(run: RunOutput) -> RunNames:
    """Collect the names of a run."""
    found = RunNames({"topics": set()})
    for table in run.tables.names():
        for batch in run.tables.scan(table):
            _collect_from_columns(found, batch)
            for column in _TEXT_COLUMNS:
                found.add_texts(_unique(batch, column))
    _collect_from_document(found, run.document)
    found.names["topics"] = {name for name in found.names["topics"] if not is_internal(name)}
    return found


def _collect_from_columns(found: RunNames, batch: pa.RecordBatch) -> None:
    have = set(batch.schema.names)
    for column, kind in _NAME_COLUMNS.items():
        for name in _unique(batch, column).to_pylist():
            if kind == "topics" or not is_address(name):
                found.add(kind, name)
    for member in _unique(batch, "member").to_pylist():
        found.add("clients", member)
    if {"topic", "partition"} <= have:
        keys = ["topic", "partition"]
        pairs = pa.Table.from_batches([batch.select(keys)]).group_by(keys).aggregate([])
        rows = pairs.to_pylist()
        found.partitions |= {(row["topic"], row["partition"]) for row in rows if row["topic"]}
    if {"setting", "value"} <= have:
        names_client = pc.is_in(batch["setting"], pa.array(_CLIENT_SETTINGS))
        for name in batch["value"].filter(names_client).drop_null().unique().to_pylist():
            found.add("clients", None if name == "null" else name)
    if {"node", "role"} <= have:
        _collect_nodes(found, batch)


def _collect_nodes(found: RunNames, batch: pa.RecordBatch) -> None:
    """Add the nodes that have a name of their own, which broker-1 is not."""
    for node, role in set(zip(batch["node"].to_pylist(), batch["role"].to_pylist(), strict=True)):
        if node and not is_node(node) and not node.startswith("file:"):
            found.add("clients" if role == "client" else "hosts", node)


def _unique(batch: pa.RecordBatch, column: str) -> pa.Array:
    if column in batch.schema.names and pa.types.is_string(batch[column].type):
        return batch[column].drop_null().unique()
    return pa.array([], pa.string())


def _collect_from_document(found: RunNames, document: Mapping[str, Any]) -> None:
    """Add the names in findings; all other text of theirs comes from the tables."""
    for finding in (*document.get("findings", ()), *document.get("suppressed", ())):
        for client in map(str, finding.get("clients") or ()):
            found.add("clients", None if is_address(client) else client)
        for partition in map(str, finding.get("partitions") or ()):
            topic, _, number = partition.rpartition("-")
            if topic and (index := whole_number(number)) is not None:
                found.add("topics", topic)
                found.partitions.add((topic, index))
        texts = [str(line.get("text") or "") for line in finding.get("evidence") or ()]
        found.add_texts(pa.array(texts, pa.string()))
    for name in _find_ids(document):
        found.add("findings" if name.startswith("F-") else "chains", name)


def _find_ids(value: Any) -> Iterator[str]:
    """Yield the ids of findings and chains, wherever they are in findings.json."""
    if isinstance(value, Mapping):
        if str(value.get("id") or "")[:2] in ("F-", "C-"):
            yield str(value["id"])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _find_ids(item)
