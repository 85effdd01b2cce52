"""Redacts tables and findings.json: how, depends on the column or the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.lib.secrets import mask_column
from forensics.redaction.collect_names import is_address
from forensics.redaction.name_patterns import (
    is_made_of_kafka_words,
    is_node,
    split_member,
    words_in,
)
from forensics.redaction.pseudonyms import Pseudonyms
from forensics.redaction.text_replacer import Replacer

# Columns and keys whose values are words of this program or of Kafka, never names.
_FIXED = frozenset({
    "kind", "rule", "level", "telling", "error", "retriable", "role", "layout", "kafka_version",
    "sha256", "how", "election", "manner", "ended", "invariant", "state", "expectation",
    "consequence", "table", "success", "recovery", "from_state", "to_state", "detector",
    "severity", "confidence", "verdict", "status", "about", "means", "beware", "schema", "version",
    "packs", "rules", "cause", "found", "setting", "mechanism", "topic_id", "format", "limits",
})  # fmt: skip
_CLIENTS = frozenset({"client", "clients", "group", "groups", "members"})
_TOPICS = frozenset({"topic", "topics"})
_PARTITIONS = frozenset({"partition", "partitions"})
_NODES = frozenset({"node", "nodes"})
_FILES = frozenset({"file", "files", "duplicate_of", "container", "inside", "examples"})
_HOSTS = frozenset({"host", "hosts", "address", "addresses"})
_NAMES = _CLIENTS | _TOPICS | _PARTITIONS | _NODES | _FILES | _HOSTS
# Objects whose keys are words of this program.
_OWN_KEYS = frozenset({"", "measures", "window", "archive", "quality"})
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX = re.compile(r"(?:\.(?:log|txt|out|err|json|gz|tgz|tar|zip|zst|bz2|xz|lz4|\d+))*$")
_SEPARATOR = re.compile(r"([/!])")
_WITHOUT_LETTERS = re.compile(r"[0-9_.#+ :T-]+")
_PSEUDONYM = re.compile(r"(?:host|ip|client|topic|principal|path)-[0-9a-f]{8,}")


class ColumnPolicy:
    """Redacts values by the column or key that they belong to."""

    def __init__(
        self, replacer: Replacer, pseudonyms: Pseudonyms, classes: Collection[str]
    ) -> None:
        """Redact names of some classes."""
        self._replacer, self._pseudonyms, self._classes = replacer, pseudonyms, frozenset(classes)
        self._paths: dict[str, str] = {}
        # parts of paths that were replaced as a whole: sentences may contain them, too
        self.folders: set[str] = set()
        self._by_column: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(_TOPICS, partial(self._known_or_text, "topics")),
            **dict.fromkeys(_CLIENTS, self._client),
            **dict.fromkeys(_PARTITIONS, self._partition),
            **dict.fromkeys(_NODES, self._nodes),
            **dict.fromkeys(_FILES, self._path),
            "member": self._member,
            "subject": self._subject,
        }

    def redact_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Redact rows of a table; the schema and the number of rows stay."""
        arrays = [self._array(field.name, batch[field.name]) for field in batch.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def redact_json(self, value: Any, key: str = "", own: Collection[str] = ()) -> Any:
        """Redact findings.json, or the value of a key; `own` are the names that it is about."""
        if key in _FIXED:
            return value
        if isinstance(value, str):
            # Text of logs is redacted as in the tables: it is not about any names.
            return self._value(key, value, () if key == "text" else own)
        if isinstance(value, Mapping):
            own = {*own, *finding_names(value)}
            return {
                self._key(key, str(name)): self.redact_json(member, str(name), own)
                for name, member in value.items()
            }
        if isinstance(value, list | tuple):
            # Objects in a list are rows, whose keys are words of this program.
            return [
                self.redact_json(item, "" if isinstance(item, Mapping) else key, own)
                for item in value
            ]
        return value

    def _key(self, above: str, key: str) -> str:
        """Redact a key if it is a name; most are words of this program."""
        if above in _OWN_KEYS:
            return key
        if above in _NAMES or not _KEY.fullmatch(key):
            return self._value(above, key)
        for kind in ("topics", "clients", "hosts"):
            if self._replacer.knows(kind, key) and not is_made_of_kafka_words(key):
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
            fields = [self._array(field.name, pc.struct_field(array, field.name)) for field in kind]
            return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
        return array

    def _strings(self, name: str, array: pa.Array) -> pa.Array:
        coded = mask_column(array).dictionary_encode()
        texts = [None if text is None else self._value(name, text)
                 for text in coded.dictionary.to_pylist()]  # fmt: skip
        return pa.array(texts, pa.string()).take(coded.indices)

    def _value(self, name: str, value: str, own: Collection[str] = ()) -> str:
        if name in self._by_column:
            return self._by_column[name](value)
        if name in _HOSTS:
            own = {*own, value.rpartition(":")[0] or value}
        return self._replacer.replace(value, own)

    def _known_or_text(self, kind: str, name: str) -> str:
        if self._replacer.knows(kind, name):
            return self._replacer.pseudonym_of(kind, name)
        return self._replacer.replace(name)

    def _partition(self, name: str) -> str:
        topic, dash, number = name.rpartition("-")
        if self._replacer.knows("topics", topic):
            return f"{self._replacer.pseudonym_of('topics', topic)}{dash}{number}"
        return self._replacer.replace(name)

    def _client(self, client: str) -> str:
        if client.startswith("file:"):
            return self._node(client)
        if is_address(client):
            return self._replacer.replace(client)
        return self._known_or_text("clients", client)

    def _member(self, member: str) -> str:
        client, rest = split_member(member)
        return self._client(client) + rest

    def _subject(self, subject: str) -> str:
        kind, space, name = subject.partition(" ")
        return kind + space + self._path_part(name)

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
            self._paths[path] = "".join(map(self._path_part, _SEPARATOR.split(path)))
        return self._paths[path]

    def _path_part(self, part: str) -> str:
        """Redact a folder or a file: by its names, or as a whole if words of it are not known."""
        part = self._replacer.replace_addresses(part)
        suffix = _SUFFIX.search(part)
        stem, rest = (part[: suffix.start()], suffix[0]) if suffix else (part, "")
        if not stem or _WITHOUT_LETTERS.fullmatch(stem) or is_node(stem):
            return part
        for kind, name in (("clients", stem), ("hosts", stem.lower()), ("topics", stem)):
            if self._replacer.knows(kind, name) and not is_made_of_kafka_words(name):
                return self._replacer.pseudonym_of(kind, name) + rest
        redacted = self._replacer.replace(stem)
        if "hosts" not in self._classes or is_made_of_kafka_words(stem):
            return redacted + rest
        # Folders may have names of hosts that no text tells.
        if all(is_made_of_kafka_words(word) for word in words_in(_PSEUDONYM.sub("", redacted))):
            return redacted + rest
        self.folders.add(stem)
        return self._pseudonyms.get("paths", stem) + rest

    def redact_paths(self, paths: Iterable[str]) -> set[str]:
        """Redact paths; return the folders and files that were replaced as a whole."""
        for path in paths:
            self._path(path)
        return self.folders


def finding_names(finding: Mapping[str, Any]) -> set[str]:
    """Return the names that a finding is about: its sentences contain them without a hint."""
    names = set(_texts(finding.get("clients")))
    for partition in _texts(finding.get("partitions")):
        names |= {partition, partition.rpartition("-")[0]}
    measures = finding.get("measures")
    for part in (finding, measures if isinstance(measures, Mapping) else {}):
        for key in ("topic", "topics", "group", "groups", "client", "node", "host"):
            names |= set(_texts(part.get(key)))
    return names - {""}


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [text for text in values if isinstance(text, str)]
