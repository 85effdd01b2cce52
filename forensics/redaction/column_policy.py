"""Says for each column, and each key of findings.json, how names go out of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.lib.secrets import mask_column
from forensics.redaction.collect_names import is_address
from forensics.redaction.name_patterns import is_common, is_node, words_in
from forensics.redaction.pseudonyms import Pseudonyms
from forensics.redaction.replacer import Replacer

# What this program, or Kafka, calls things by itself: no name of anybody's is in it.
_FIXED = frozenset({
    "kind", "rule", "level", "telling", "error", "retriable", "role", "layout", "kafka_version",
    "sha256", "how", "election", "manner", "ended", "invariant", "state", "expectation",
    "consequence", "table", "success", "recovery", "from_state", "to_state", "detector",
    "severity", "confidence", "verdict", "status", "about", "means", "beware", "schema", "version",
    "packs", "rules", "cause", "setting", "mechanism",
})  # fmt: skip
_CLIENTS = frozenset({"client", "clients", "group", "groups", "members"})
_TOPICS = frozenset({"topic", "topics"})
_PARTITIONS = frozenset({"partition", "partitions"})
_NODES = frozenset({"node", "nodes"})
_FILES = frozenset({"file", "files", "duplicate_of"})
_HOSTS = frozenset({"host", "hosts", "address", "addresses"})
_NAMED = _CLIENTS | _TOPICS | _PARTITIONS | _NODES | _FILES | _HOSTS
# What holds values under words of our own.
_OWN = frozenset({"", "measures", "window", "archive", "quality"})
_MEMBER = re.compile(r"(.*)(-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX = re.compile(r"(?:\.(?:log|txt|out|err|json|gz|tgz|tar|zip|zst|bz2|xz|lz4|\d+))*$")
_JOINT = re.compile(r"([/!])")
_SURE = re.compile(r"[0-9_.#+ :T-]+")


class ColumnPolicy:
    """Redacts values, each as its column or key asks for."""

    def __init__(
        self, replacer: Replacer, pseudonyms: Pseudonyms, classes: Collection[str]
    ) -> None:
        """Take what knows the names."""
        self._replacer, self._pseudonyms, self._classes = replacer, pseudonyms, frozenset(classes)
        self._paths: dict[str, str] = {}
        # parts of paths that were replaced whole: also where a sentence names a file
        self.folders: set[str] = set()

    def redact_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Redact a part of a table; its schema and its rows stay."""
        arrays = [self._array(field.name, batch[field.name]) for field in batch.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def redact_json(self, value: Any, key: str = "", own: Collection[str] = ()) -> Any:
        """Redact findings.json, or a part of it that stands under a key."""
        if isinstance(value, str):
            # What a log says is read as in the tables; our own sentences know whom they are about.
            return value if key in _FIXED else self._value(key, value, () if key == "text" else own)
        if key in _FIXED:
            return value
        if isinstance(value, Mapping):
            own = {*own, *finding_names(value)}
            return {
                self._key(key, str(name)): self.redact_json(one, str(name), own)
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            # The keys of rows are our own words; what is keyed by a name is no list.
            return [
                self.redact_json(one, "" if isinstance(one, Mapping) else key, own) for one in value
            ]
        return value

    def _key(self, above: str, key: str) -> str:
        """Redact a key that is a name; most are this program's own words."""
        if above in _OWN:
            return key
        if above in _NAMED or not _KEY.fullmatch(key):
            return self._value(above, key)
        for kind in ("topics", "clients", "hosts"):
            if self._replacer.knows(kind, key) and not is_common(key):
                return self._replacer.pseudonym_of(kind, key)
        return key

    def _array(self, name: str, array: pa.Array) -> pa.Array:
        kind = array.type
        if name in _FIXED:
            return array
        if pa.types.is_string(kind):
            return self._strings(name, array)
        if pa.types.is_list(kind) and not pa.types.is_integer(kind.value_type):
            counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
            inside = self._array(name, array.flatten())
            return pa.ListArray.from_arrays(ends, inside, type=kind, mask=array.is_null())
        if pa.types.is_struct(kind):
            fields = [self._array(one.name, pc.struct_field(array, one.name)) for one in kind]
            return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
        return array

    def _strings(self, name: str, array: pa.Array) -> pa.Array:
        coded = mask_column(array).dictionary_encode()
        texts = [None if one is None else self._value(name, one)
                 for one in coded.dictionary.to_pylist()]  # fmt: skip
        return pa.array(texts, pa.string()).take(coded.indices)

    def _value(self, name: str, value: str, own: Collection[str] = ()) -> str:
        treat: Callable[[str], str] | None = None
        if name in _TOPICS:
            treat = self._topic
        elif name in _CLIENTS:
            treat = self._client
        elif name in _PARTITIONS:
            treat = self._partition
        elif name in _NODES:
            treat = self._nodes
        elif name in _FILES:
            treat = self._path
        elif name == "member":
            treat = self._member
        elif name in _HOSTS:
            own = {*own, value.rpartition(":")[0] or value}
        return treat(value) if treat else self._replacer.replace(value, own)

    def _topic(self, topic: str) -> str:
        if self._replacer.knows("topics", topic):
            return self._replacer.pseudonym_of("topics", topic)
        return self._replacer.replace(topic)

    def _partition(self, name: str) -> str:
        topic, dash, number = name.rpartition("-")
        if self._replacer.knows("topics", topic):
            return f"{self._replacer.pseudonym_of('topics', topic)}{dash}{number}"
        return self._replacer.replace(name)

    def _client(self, client: str) -> str:
        if client.startswith("file:"):
            return self._node(client)
        if not is_address(client) and self._replacer.knows("clients", client):
            return self._replacer.pseudonym_of("clients", client)
        return self._replacer.replace(client)

    def _member(self, member: str) -> str:
        found = _MEMBER.fullmatch(member)
        return f"{self._client(found[1])}{found[2]}" if found else self._client(member)

    def _nodes(self, nodes: str) -> str:
        return ", ".join(map(self._node, nodes.split(", ")))

    def _node(self, node: str) -> str:
        if is_node(node):
            return node
        if node.startswith("file:"):
            return "file:" + self._path(node.removeprefix("file:"))
        for kind, name in (("clients", node), ("hosts", node.lower())):
            if self._replacer.knows(kind, name):
                return self._replacer.pseudonym_of(kind, name)
        return self._replacer.replace(node)

    def _path(self, path: str) -> str:
        if path not in self._paths:
            self._paths[path] = "".join(map(self._part, _JOINT.split(path)))
        return self._paths[path]

    def _part(self, part: str) -> str:
        """Redact a folder or a file: by its names, and whole where nobody knows what it is."""
        part = self._replacer.replace_addresses(part)
        suffix = _SUFFIX.search(part)
        stem, rest = (part[: suffix.start()], suffix[0]) if suffix else (part, "")
        if not stem or _SURE.fullmatch(stem) or is_node(stem):
            return part
        for kind, name in (("clients", stem), ("hosts", stem.lower()), ("topics", stem)):
            if self._replacer.knows(kind, name) and not is_common(name):
                return self._replacer.pseudonym_of(kind, name) + rest
        shown = self._replacer.replace(stem)
        if "hosts" not in self._classes or is_common(stem):
            return shown + rest
        left = re.sub(r"(?:host|ip|client|topic|principal|path)-[0-9a-f]{8,}", "", shown)
        # Folders are called after hosts, and no text need tell of those.
        known = all(is_common(word) for word in words_in(left))
        if known:
            return shown + rest
        self.folders.add(stem)
        return self._pseudonyms.get("paths", stem) + rest

    def redact_paths(self, paths: Iterable[str]) -> set[str]:
        """Redact paths, and give what folders and files there are of a name of their own."""
        for path in paths:
            self._path(path)
        return self.folders


def finding_names(finding: Mapping[str, Any]) -> set[str]:
    """Give the names that a finding is about: in its sentences they stand without a hint."""
    names = set(_texts(finding.get("clients")))
    for one in _texts(finding.get("partitions")):
        names |= {one, one.rpartition("-")[0]}
    measures = finding.get("measures")
    for part in (finding, measures if isinstance(measures, Mapping) else {}):
        for key in ("topic", "topics", "group", "groups", "client", "node", "host"):
            names |= set(_texts(part.get(key)))
    return names - {""}


def _texts(value: Any) -> list[str]:
    every = value if isinstance(value, list | tuple) else [value]
    return [one for one in every if isinstance(one, str)]
