"""Who wrote a line: what stands around it (its origin), and the id that it names at its beginning.

Both together are the voice of a line. Events carry it from the scan on; which node it belongs to is
known only when all of a file has been read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_parts import MAX_CUTS, Cut
from forensics.ingest.documents import Splitter
from forensics.ingest.record_splitter import LineCounts, Records, RecordSplitter
from forensics.ingest.wrapper_base import GUESSED
from forensics.lib.log_templates import TYPES, compile_template
from forensics.lib.yaml_with_lines import load_yaml, rule_files
from forensics.parsing.entries import read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.time_statistics import Gap, TimeStatistics
from forensics.parsing.timestamps import NO_TIME

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


Numbers = npt.NDArray[np.int64]


class PieceParts:
    """The parts of one piece: stretches between cuts, or origins."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        """Begin with one stretch and no origin."""
        self.writers = Counter[str]()
        # the servers whose settings are here, with their log folders
        self.folders = set[tuple[str, str]]()
        self.cuts: list[Cut] = []
        self._stretches = [Counter[str]()]
        self._groups = groups
        self._origins: dict[str, _Origin] = {}
        self._counted = (0, 0, 0)
        # the records that wait to be matched: where they are and who wrote them
        self._offsets: list[Numbers] = []
        self._codes: list[Numbers] = []
        self._names: dict[str, int] = {}
        self._texts: list[str] = []
        self._named = NamedWriters(np.empty(0, np.int64), [])
        self._named_at = np.empty(0, np.int64)

    @property
    def stretches(self) -> list[Counter[str]]:
        """Return the writers of each stretch, if there are several."""
        return self._stretches if self.cuts else []

    def add_records(self, records: Records, fallen_back: list[Gap], splitter: Splitter) -> None:
        """Take the records of a block, and the lines in it at which time falls back.

        A document holds its records in any order: where time falls back says nothing of it.
        """
        if fallen_back and isinstance(splitter, RecordSplitter):
            self._add_cuts(records, fallen_back, splitter)
        counts = splitter.counts
        self._counted = counts.records, counts.blank_lines, counts.unparsed_lines
        if records.origins is not None:
            self._add_origins(records)

    def _add_cuts(self, records: Records, fallen_back: list[Gap], splitter: RecordSplitter) -> None:
        for begin, end, line in sorted(fallen_back, key=lambda gap: gap[2]):
            if len(self.cuts) >= MAX_CUTS:
                return
            lines = (records.lines, splitter.blank_at, splitter.unparsed_at)
            inside = (int((some < line).sum()) for some in lines)
            before = [one + two for one, two in zip(self._counted, inside, strict=True)]
            self.cuts.append((line, begin, end, before[0], before[1], before[2]))
            self._stretches.append(Counter())

    def _add_origins(self, records: Records) -> None:
        coded = decode_origins(pc.fill_null(records.origins, b"")).dictionary_encode()
        names = coded.dictionary.to_pylist()
        known = np.array([self._number(name) for name in names], np.int64)
        codes = known[coded.indices.to_numpy()]
        self._offsets.append(records.offsets)
        self._codes.append(codes)
        for number in np.unique(codes).tolist():
            self._origin(self._texts[number]).add(_take(records, np.flatnonzero(codes == number)))

    def _number(self, origin: str) -> int:
        """Return the number of an origin; beyond some hundred they are not told apart."""
        if origin not in self._names and len(self._names) >= MAX_ORIGINS:
            origin = ""
        if origin not in self._names:
            self._texts.append(origin)
        return self._names.setdefault(origin, len(self._names))

    def _origin(self, name: str) -> _Origin:
        return self._origins.setdefault(name, _Origin(self._groups))

    def add_writers(self, named: NamedWriters, lines: Numbers, offsets: Numbers) -> None:
        """Take who the entries at some lines and offsets name."""
        self._named, self._named_at = named, offsets
        counts = named.count()
        self.writers.update(counts)
        self.folders |= named.folders
        if self.cuts:
            starts = np.array([cut[0] for cut in self.cuts])
            stretches = np.searchsorted(starts, lines, "right")
            for number in np.unique(stretches).tolist():
                self._stretches[number].update(named.count(stretches == number))
        else:
            self._stretches[0].update(counts)
        codes = self._origins_of(offsets)
        for number in [] if codes is None else np.unique(codes).tolist():
            self._origin(self._texts[number]).writers.update(named.count(codes == number))

    def _origins_of(self, offsets: Numbers) -> Numbers | None:
        if not self._offsets:
            return None
        places = np.concatenate(self._offsets)
        rows = _find_rows(places, offsets)
        # Nothing stands around the other records of a file.
        codes = np.concatenate(self._codes)[rows]
        return np.where(places[rows] == offsets, codes, self._number(""))

    def voices_of(self, offsets: Numbers) -> pa.Array:
        """Return the voices of events at some offsets of the entries that were given last."""
        codes = self._origins_of(offsets)
        texts = pa.array(self._texts, pa.string())
        origins = None if codes is None else texts.take(pa.array(codes))
        return build_voices(self._named, _find_rows(self._named_at, offsets), origins)

    def forget_matched(self) -> None:
        """Forget the places of records that were matched."""
        self._offsets, self._codes = [], []

    def to_accounts(self, counts: LineCounts, layouts: Mapping[int, str]) -> dict[str, Any]:
        """Return the account of each origin, by the counts of their lines."""
        found: dict[str, Any] = {}
        for origin, lines in counts.origins.items():
            text = self._texts[self._number(decode_origins(pa.array([origin]))[0].as_py())]
            account = found.setdefault(text, self._origin(text).to_account(layouts))
            for name, count in lines.items():
                account[name] = account.get(name, 0) + count
        return found


class _Origin:
    """What one origin wrote."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        self.writers = Counter[str]()
        self._times = TimeStatistics(groups)
        self._groups = groups
        self._kinds = Counter[int]()
        self._first: int | None = None
        self._last: int | None = None
        # the line of its first record
        self._begins = 1

    def add(self, records: Records) -> None:
        self._times.add(records)
        kinds = np.bincount(records.kinds)
        self._kinds.update({kind: int(kinds[kind]) for kind in np.flatnonzero(kinds).tolist()})
        ends = read_times(records, np.array([0, len(records.starts) - 1], np.int64), self._groups)
        known = [int(time) for time in ends if time != NO_TIME]
        if known and self._first is None:
            self._first, self._begins = known[0], int(records.lines[0])
        if known:
            self._last = known[-1]

    def to_account(self, layouts: Mapping[int, str]) -> dict[str, Any]:
        return {
            "layouts": {layouts[kind]: count for kind, count in sorted(self._kinds.items())},
            "writers": self.writers,
            "begins": self._begins,
            "first": self._first,
            "last": self._last,
            "gaps": self._times.gaps,
            "levels": self._times.levels,
            "steps": self._times.backward.jumps,
            "stepped": self._times.backward.count,
            "open_steps": self._times.backward.unconfirmed,
            "events": 0,
            "notes": [],
            "broken": False,
        }


def _find_rows(places: Numbers, wanted: Numbers) -> Numbers:
    """Return the row of each wanted place, or of the one before it; they may be in any order."""
    order = np.argsort(places, kind="stable")
    rows: Numbers = order[np.maximum(np.searchsorted(places[order], wanted, "right") - 1, 0)]
    return rows


def _take(records: Records, rows: Numbers) -> Records:
    columns = ("offsets", "starts", "heads", "ends", "lines", "heights", "kinds")
    taken = {name: getattr(records, name)[rows] for name in columns}
    return replace(records, **taken, origins=None)
