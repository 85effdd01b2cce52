"""Writes a redacted copy of a saved run: tables, findings.json and the page; no log is read.

Numbers, times and epochs stay; every name is replaced by its pseudonym.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.lib.folder_lock import LOCK_FILE
from forensics.lib.secrets import mask_column
from forensics.lib.whole_numbers import whole_number
from forensics.redaction.name_patterns import (
    find_names,
    is_internal,
    is_made_of_kafka_words,
    is_node,
    split_member,
    words_in,
)
from forensics.redaction.pseudonyms import CLASSES, Pseudonyms
from forensics.redaction.text_replacer import Replacer
from forensics.report import page
from forensics.run_output import findings
from forensics.run_output.reader import RunOutput, open_run

# The parts of a run that are copied.
_FINDINGS, _TABLES = "findings.json", "tables"
# What the run that is just now writing has there, or an earlier one that failed.
_OF_RUNS = frozenset({LOCK_FILE, "_RESULT.json"})

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
_NAME_COLUMNS = {"topic": "topics", "client": "clients", "group": "clients"}
_CLIENT_SETTINGS = ("client.id", "group.id", "transactional.id", "group.instance.id",
                    "application.id")  # fmt: skip
_TEXT_COLUMNS = ("text", "detail", "value", "member", "why", "log_dir", "observed")
# How brokers name sessions of ZooKeeper.
_SESSION = re.compile(r"0x[0-9a-f]+|[0-9]{15,}")


def redact_run(source: Path, out: Path, classes: Collection[str], secret: Path) -> _ColumnPolicy:
    """Write the run in `source` with pseudonyms into `out`; `secret` is the private map."""
    run = open_run(source)
    check_target(out, secret)
    if out.resolve() == source.resolve() or source.resolve() in out.resolve().parents:
        message = f"{out} is, or is inside, the run that is to be redacted; name another folder."
        raise ForensicsError(message)
    pseudonyms = Pseudonyms.open(secret)
    policy = _make_policy(run, classes, pseudonyms)
    with _private_folder(out) as folder:
        for table in run.tables.names():
            _redact_table(run, table, folder / _TABLES / table, policy)
        findings.write_findings(_redact_document(run.document, policy, classes), folder / _FINDINGS)
        page.draw_report(folder)
        # Save the map first: without it, nobody could find the names again.
        pseudonyms.save(secret)
        _move(folder, out)
    return policy


def redact_result(result: Mapping[str, Any], policy: _ColumnPolicy) -> dict[str, Any]:
    """Redact `_RESULT.json`, without the command line."""
    return {key: policy.redact_json(value, key) for key, value in result.items()
            if key not in ("page", "command")}  # fmt: skip


def check_target(out: Path, secret: Path) -> None:
    """Refuse a target that holds other files, or would hold the map."""
    target = secret.resolve()
    if out.resolve() == target or out.resolve() in target.parents:
        message = f"The map {secret} would be inside {out}; name a place that nobody gets by --map."
        raise ForensicsError(message)
    if not secret.parent.is_dir():
        message = f"--map {secret}: there is no folder {secret.parent}; make it first."
        raise ForensicsError(message)
    old = {path.name for path in out.iterdir()} - _OF_RUNS if out.is_dir() else set()
    if old and not (_FINDINGS in old and "redaction" in open_run(out).document):
        message = f"{out} holds files that are not redacted; name a new folder."
        raise ForensicsError(message)


def _make_policy(run: RunOutput, classes: Collection[str], pseudonyms: Pseudonyms) -> _ColumnPolicy:
    found = _collect_names(run)
    kinds = (*(kind for kind in CLASSES if kind in classes), "findings", "chains")
    names = {kind: found.names.get(kind, set()) for kind in kinds}
    first = _ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)
    # The names of folders, which sentences may contain, are known only after this.
    names["paths"] = first.redact_paths(str(row["file"]) for row in run.rows("files", ["file"]))
    return _ColumnPolicy(Replacer(names, pseudonyms, found.partitions), pseudonyms, classes)


def _redact_document(
    document: Mapping[str, Any], policy: _ColumnPolicy, classes: Collection[str]
) -> dict[str, Any]:
    """Redact findings.json, and list in it the classes that are redacted."""
    own = {name for finding in document.get("findings") or () for name in finding_names(finding)}
    redacted = {
        key: policy.redact_json(value, key, () if key == "findings" else own)
        for key, value in document.items()
        if key != "redaction"
    }
    before = (document.get("redaction") or {}).get("classes", ())
    known = [kind for kind in CLASSES if kind in {*classes, *before}]
    return redacted | {"redaction": {"classes": known, "secrets": "masked"}}


def _redact_table(run: RunOutput, name: str, target: Path, policy: _ColumnPolicy) -> None:
    data = run.tables.dataset(name)
    target.mkdir(parents=True)
    if data is None:
        return
    schema = data.schema.remove_metadata()
    with pq.ParquetWriter(target / "part-0.parquet", schema, compression="zstd") as writer:
        for batch in run.tables.scan(name):
            writer.write_batch(policy.redact_batch(batch.replace_schema_metadata(None)))


@contextmanager
def _private_folder(out: Path) -> Iterator[Path]:
    """Make a private folder beside `out`, and delete it afterwards."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.half-", dir=out.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(folder: Path, out: Path) -> None:
    """Replace an earlier redaction by a new one; findings.json comes last."""
    out.mkdir(exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == _FINDINGS):
        target = out / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)


class _ColumnPolicy:
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
        if _is_address(client):
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


@dataclass
class _RunNames:
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


def _is_address(client: str) -> bool:
    """Return True if a client is named by its address only."""
    bare = client.lstrip("/").rpartition(":")[0] or client.lstrip("/")
    return (bare.count(".") == 3 and bare.replace(".", "").isdecimal()) or bare.count(":") > 1


def _collect_names(run: RunOutput) -> _RunNames:
    """Collect the names of a run."""
    found = _RunNames({"topics": set()})
    for table in run.tables.names():
        for batch in run.tables.scan(table):
            _collect_from_columns(found, batch)
            for column in _TEXT_COLUMNS:
                found.add_texts(_unique(batch, column))
    _collect_from_document(found, run.document)
    found.names["topics"] = {name for name in found.names["topics"] if not is_internal(name)}
    return found


def _collect_from_columns(found: _RunNames, batch: pa.RecordBatch) -> None:
    have = set(batch.schema.names)
    for column, kind in _NAME_COLUMNS.items():
        for name in _unique(batch, column).to_pylist():
            if kind == "topics" or not _is_address(name):
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


def _collect_nodes(found: _RunNames, batch: pa.RecordBatch) -> None:
    """Add the nodes that have a name of their own, which broker-1 is not."""
    for node, role in set(zip(batch["node"].to_pylist(), batch["role"].to_pylist(), strict=True)):
        if node and not is_node(node) and not node.startswith("file:"):
            found.add("clients" if role == "client" else "hosts", node)


def _unique(batch: pa.RecordBatch, column: str) -> pa.Array:
    if column in batch.schema.names and pa.types.is_string(batch[column].type):
        return batch[column].drop_null().unique()
    return pa.array([], pa.string())


def _collect_from_document(found: _RunNames, document: Mapping[str, Any]) -> None:
    """Add the names in findings; all other text of theirs comes from the tables."""
    for finding in (*document.get("findings", ()), *document.get("suppressed", ())):
        for client in map(str, finding.get("clients") or ()):
            found.add("clients", None if _is_address(client) else client)
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
