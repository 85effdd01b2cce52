"""Who wrote a line: what stands around it (its origin), and the id that it names at its beginning.

Both together are the voice of a line. Events carry it from the scan on; which node it belongs to is
known only when all of a file has been read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.wrapper_base import GUESSED
from forensics.lib.log_templates import TYPES, compile_template
from forensics.lib.yaml_with_lines import load_yaml, rule_files

ROLES = ("broker", "controller", "client")
SERVER_ROLES = ("broker", "controller")
# What a line names that a broker and a controller write alike.
_SERVER = "server"
# What a line names that only says in which folder its logs are.
FOLDER = "folder"
# A record of settings names its server, and where that keeps its logs.
_SETTINGS = "KafkaConfig values"
_OWN_ID = r"(?m:^\s*(?:node|broker)\.id = (?P<id>[0-9]+)\s*$)"
_LOG_DIRS = re.compile(rb"^\s*log\.dirs = \[?(/.*?)\]?\s*$", re.MULTILINE)
_LOG_DIR = re.compile(rb"^\s*log\.dir = \[?(/.*?)\]?\s*$", re.MULTILINE)
_ID = re.compile(r"\{id:(\w+)\}")
# More than so many pods or containers in one part of a file are not told apart.
MAX_ORIGINS = 500
Codes = npt.NDArray[np.int64]
Folders = frozenset[tuple[str, str]]

_BETWEEN = "\t"
_NAMING_LABELS = re.compile(r'\b(?:pod|pod_name|container|container_name|instance|host)="([^"]+)"')


class NamedWriters:
    """The writers that entries name as `role:id`: the number of one for each entry, or -1.

    `settings` are the pairs of server and log folder that settings name, by their entries.
    """

    def __init__(
        self, codes: Codes, names: list[str], settings: Mapping[int, Folders] | None = None
    ) -> None:
        """Keep the numbers, and what they stand for."""
        self.codes, self.names, self._settings = codes, names, settings or {}

    @property
    def folders(self) -> Folders:
        """The pairs of server and log folder."""
        return frozenset(pair for pairs in self._settings.values() for pair in pairs)

    def take(self, rows: Codes) -> NamedWriters:
        """Return those of some entries."""
        some = np.flatnonzero(np.isin(rows, list(self._settings))) if self._settings else ()
        settings = {int(at): self._settings[int(rows[at])] for at in some}
        return NamedWriters(self.codes[rows], self.names, settings)

    def count(self, rows: npt.NDArray[np.bool_] | None = None) -> Counter[str]:
        """Count the entries that name each of them, or some of the entries."""
        codes = self.codes if rows is None else self.codes[rows]
        found = np.bincount(codes[codes >= 0], minlength=len(self.names)).tolist()
        return Counter(
            {name: count for name, count in zip(self.names, found, strict=True) if count}
        )


class WriterCounter:
    """Finds, for each role and id, the lines that name it as their writer at their beginning.

    `document` has the shape of rules/nodes/writers.yaml, which is the default.
    """

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        if document is None:
            document = load_yaml(next(rule_files("nodes")))
        self._patterns = [
            (role, pattern)
            for role in (*SERVER_ROLES, _SERVER, "client", FOLDER)
            for pattern in _join_templates(document.get(role, ()))
        ]

    def count(self, messages: pa.Array, clients: pa.Array) -> dict[str, int]:
        """Count writers as `role:id`; `clients` are those that a layout names by itself."""
        return dict(self.find(messages, clients).count())

    def find(
        self, messages: pa.Array, clients: pa.Array, more: pa.Array | None = None
    ) -> NamedWriters:
        """Find who each entry names; `clients` are those that a layout names by itself.

        `more` are the further lines of entries: a record of settings names its server there.
        """
        found = _WriterCodes(len(clients))
        rows = np.arange(len(clients))
        found.note("client", clients, rows)
        folders: dict[int, Folders] = {}
        if more is not None and len(messages):
            settings = pc.starts_with(messages, pattern=_SETTINGS)
            if pc.any(settings).as_py():
                some = np.flatnonzero(pc.fill_null(settings, False))
                texts = more.take(pa.array(some))
                ids = pc.struct_field(pc.extract_regex(texts, _OWN_ID), "id")
                found.note(_SERVER, ids, some)
                folders = dict(zip(some.tolist(), _read_folders(ids, texts), strict=True))
        for role, pattern in self._patterns:
            if not len(messages):
                break
            ids = pc.struct_field(pc.extract_regex(messages, pattern), "id")
            if ids.null_count < len(ids):
                found.note(role, ids, rows)
                left = ids.is_null()
                rows = rows[left.to_numpy(zero_copy_only=False)]
                messages = messages.filter(left)
        return NamedWriters(found.codes, list(found.numbers), folders)


def _join_templates(sources: Sequence[str]) -> list[str]:
    """Compile templates to as few patterns as there are types of ids: each costs a look at a line.

    Whatever follows the id in one of them may follow it in all.
    """
    joined: dict[str, tuple[list[str], list[str]]] = {}
    for source in sources:
        begin, kind, end = _ID.split(source)
        heads, tails = joined.setdefault(kind, ([], []))
        heads.append(compile_template(begin).body)
        tails.append(compile_template(end.removesuffix("{:rest}")).body)
    return [
        f"^(?:{'|'.join(heads)})(?P<id>{TYPES[kind]})(?:{'|'.join(dict.fromkeys(tails))})"
        for kind, (heads, tails) in joined.items()
    ]


def _read_folders(ids: pa.Array, settings: pa.Array) -> Iterator[Folders]:
    """Yield, for each server whose settings are logged, it with its log folders."""
    for identity, text in zip(ids.to_pylist(), settings.to_pylist(), strict=True):
        match = _LOG_DIRS.search(text) or _LOG_DIR.search(text)
        folders = match[1].split(b",") if identity and match else ()
        yield frozenset(
            (identity.decode(), folder.decode("utf-8", "replace").strip()) for folder in folders
        )


class _WriterCodes:
    """Numbers writers as they are found."""

    def __init__(self, count: int) -> None:
        self.codes = np.full(count, -1, np.int64)
        self.numbers: dict[str, int] = {}

    def note(self, role: str, ids: pa.Array, rows: Codes) -> None:
        """Note the ids that some rows name."""
        some = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
        if not len(some):
            return
        coded = ids.take(pa.array(some)).dictionary_encode()
        names = [f"{role}:{one.decode('utf-8', 'replace')}" for one in coded.dictionary.to_pylist()]
        known = [self.numbers.setdefault(name, len(self.numbers)) for name in names]
        self.codes[rows[some]] = np.array(known, np.int64)[coded.indices.to_numpy()]


def build_voices(writers: NamedWriters, rows: Codes, origins: pa.Array | None) -> pa.Array:
    """Return the voices of events; `rows` are the entries they come from, `origins` the events'.

    >>> split_voice(build_voices(NamedWriters(np.array([0]), ["broker:1"]), np.array([0]), None)[0])
    ('', 'broker:1')
    """
    names = [name if find_servers([name]) or is_folder(name) else "" for name in writers.names]
    codes = writers.codes[rows]
    voices = [_BETWEEN + name for name in names]
    named = pa.array([*voices, _BETWEEN], pa.string()).take(pa.array(codes % (len(names) + 1)))
    if origins is None:
        silent = pc.equal(named, _BETWEEN)
        return pc.if_else(silent, pa.scalar(None, pa.string()), named)
    return pc.binary_join_element_wise(origins, named, "")


def split_voice(voice: pa.Scalar | str | None) -> tuple[str, str]:
    """Return the origin of a voice and who it names, each perhaps empty."""
    text = voice.as_py() if isinstance(voice, pa.Scalar) else voice
    origin, _, writer = (text or "").rpartition(_BETWEEN)
    return origin, writer


def name_origin(origin: str) -> str:
    """Return the name by which people know an origin: its pod or container.

    >>> name_origin('{app="kafka", pod="kafka-0"}'), name_origin("kafka-0/kafka")
    ('kafka-0', 'kafka-0')
    >>> name_origin("?[kafka-0]"), name_origin("?kafka-0 kafka")
    ('kafka-0', 'kafka-0')
    """
    label = _NAMING_LABELS.search(origin)
    if label:
        return label[1]
    if origin.startswith(GUESSED):
        return next(iter(re.findall(r"[\w.@-]+", origin)), "")
    return origin.strip("{}").partition("/")[0].strip()


def decode_origins(origins: pa.Array) -> pa.Array:
    """Return origins as text, without what would blur a voice."""
    try:
        text = origins.cast(pa.string())
    except pa.ArrowInvalid:
        text = pa.array([one.decode("utf-8", "replace") for one in origins.to_pylist()])
    return pc.replace_substring(text, _BETWEEN, " ")


def is_folder(writer: str) -> bool:
    """Return True if a line names no writer, but the folder of one."""
    return writer.startswith(FOLDER + ":")


def find_servers(writers: Iterable[str]) -> set[str]:
    """Return the ids of the brokers and controllers among writers: one process may be both."""
    parts = (writer.partition(":") for writer in writers)
    return {identity for role, _, identity in parts if role in (*SERVER_ROLES, _SERVER)}
