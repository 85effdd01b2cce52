"""The accounts of files: lines and bytes summed over splits, and which node wrote each file.

A node is found by what the lines say first, then by the neighbours of the file, then by its name.
Events that were staged by split get the line numbers of the whole file and its node here, and
those of duplicate files are dropped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.documents.years import find_window, settle_years
from forensics.ingest.container_accounts import CONTAINER_SPLIT
from forensics.lib.log_templates import compile_template
from forensics.lib.secrets import mask_text
from forensics.lib.time_units import to_datetime
from forensics.lib.yaml_with_lines import load_yaml, rule_files
from forensics.parsing.time_statistics import (
    CONFIRM_AFTER,
    MIN_BACKWARD_JUMP,
    MIN_SILENCE,
    EpochRegression,
    Gap,
    keep_first,
    largest_jumps,
    longest_gaps,
)
from forensics.schemas import EVENTS

ROLES = ("broker", "controller", "client")
# The role of a file that is no log.
DOCUMENT = "document"


class WriterCounter:
    """Counts, for each role and id, the lines that name it as their writer at their beginning.

    `document` has the shape of rules/nodes/writers.yaml, which is the default.
    """

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        if document is None:
            document = load_yaml(next(rule_files("nodes")))
        self._patterns = [
            (role, compile_template(source).pattern)
            for role in ROLES
            for source in document.get(role, ())
        ]

    def count(self, messages: pa.Array, clients: pa.Array) -> dict[str, int]:
        """Count writers as `role:id`; `clients` are those that a layout names by itself."""
        counts = _count_ids("client", clients.drop_null())
        for role, pattern in self._patterns:
            if not len(messages):
                break
            fields = pc.extract_regex(messages, pattern)
            named = fields.is_valid()
            for key, count in _count_ids(role, fields.filter(named).field("id")).items():
                counts[key] = counts.get(key, 0) + count
            messages = messages.filter(pc.invert(named))
        return counts


def _count_ids(role: str, ids: pa.Array) -> dict[str, int]:
    entries = ids.value_counts().to_pylist()
    return {f"{role}:{e['values'].decode('utf-8', 'replace')}": e["counts"] for e in entries}


_NODE_IN_NAME = re.compile(r"(?P<role>broker|controller|kafka)[-_.]?(?P<id>\d+)", re.IGNORECASE)


def assign_nodes(files: Mapping[str, FileAccount]) -> None:
    """Set the node and role of every file.

    A process that is broker and controller at once, with one folder for both, is one node.
    A broker is named by its id. Controllers and clients are named by their folder where no other
    process logs to it: people know them by it, and several clients may share one client id.
    """
    writers = {name: _main_writer(file) for name, file in files.items()}
    folders: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, writer in writers.items():
        if writer:
            folders[_folder(name)].add(writer)
    writers |= {
        name: ("broker", writer[1])
        for name, writer in writers.items()
        if writer and ("broker", writer[1]) in folders[_folder(name)]
    }
    for folder, tenants in folders.items():
        folders[folder] = {
            tenant for tenant in tenants if ("broker", tenant[1]) not in tenants - {tenant}
        }
    for name, file in files.items():
        if file.is_document:
            # It tells of others, and is nobody's log.
            file.role, file.node = DOCUMENT, None
            continue
        tenants = folders[_folder(name)]
        writer = writers[name] or (next(iter(tenants)) if len(tenants) == 1 else None)
        file.role, file.node = _role_and_node(name, writer, alone=len(tenants) == 1)


def _main_writer(account: FileAccount) -> tuple[str, str] | None:
    """Return the first role that the lines of a file name, and the id that they name most often."""
    for role in ROLES:
        named = {key: n for key, n in account.writers.items() if key.startswith(role + ":")}
        if named:
            best = min(named, key=lambda key: (-named[key], key))
            return role, best.partition(":")[2]
    return ("client", "") if "librdkafka" in account.layouts else None


def _role_and_node(
    name: str, writer: tuple[str, str] | None, *, alone: bool
) -> tuple[str | None, str]:
    folder = _folder(name).rpartition("/")[2].rpartition("!")[2]
    if writer is None:
        match = _NODE_IN_NAME.search(name.rpartition("!")[2])
        if not match:
            return None, f"file:{name}"
        role = "controller" if match["role"].lower() == "controller" else "broker"
        return role, f"{role}-{int(match['id'])}"
    role, identity = writer
    if role == "controller" and alone and "controller" in folder.lower():
        return role, folder
    if role == "client":
        # The top of an archive says nothing about one client; a folder inside it does.
        inside = name.rpartition("!")[2] if "!" in name else name.partition("/")[2]
        own = alone and "/" in inside
        stem = name.rpartition("/")[2].partition(".")[0]
        return role, folder if own else identity.rstrip(",") or stem
    return role, f"{role}-{identity}"


def _folder(name: str) -> str:
    head, _, _ = name.rpartition("/")
    return head or name.rpartition("!")[0]


# Follows a number in the notes of a file.
IMPOSSIBLE_NOTE = "fact(s) with a number that Kafka cannot have written, left out"

_SUMMED = (
    "bytes",
    "lines",
    "records",
    "continuation_lines",
    "blank_lines",
    "unparsed_lines",
    "events",
)


@dataclass
class FileAccount:
    """What is known of one file."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    layouts: Counter[str] = field(default_factory=Counter)
    # records whose time has its own offset from UTC
    zoned: int = 0
    writers: Counter[str] = field(default_factory=Counter)
    bases: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    # its longest silences, and the number of records by the first letter of their level
    gaps: list[Gap] = field(default_factory=list)
    levels: Counter[str] = field(default_factory=Counter)
    # where its time and its epochs go backwards: a few, and how often in all
    steps: list[Gap] = field(default_factory=list)
    stepped: int = 0
    # backward steps; only later records show whether time stays there
    open_steps: list[tuple[Gap, int]] = field(default_factory=list)
    falls: list[EpochRegression] = field(default_factory=list)
    fallen: int = 0
    sha256: str | None = None
    # the digests of its first bytes, by their number
    heads: dict[str, str] = field(default_factory=dict)
    # records by the wrappers of their lines, the outermost first; "" for those without
    forms: Counter[str] = field(default_factory=Counter)
    # what it is an entry of: a folder, an archive, a compressed file
    container: str | None = None
    broken: bool = False
    # whether it is no log, but something else that lies beside logs
    is_document: bool = False
    # whether its lines may have times without a year
    is_yearless: bool = False
    duplicate_of: str | None = None
    # its events by rule, and its lines that others of its node have already, by those others
    rules: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    # the file that holds nearly all lines of this one, too, perhaps with others
    copy_of: str | None = None
    version: str | None = None
    node: str | None = None
    role: str | None = None

    @property
    def wrapper(self) -> str | None:
        """The wrappers of most records, if they have any."""
        forms = self.forms | {"": self.layouts.total() - self.forms.total() + self.forms[""]}
        return max(forms, key=lambda name: (forms[name], name), default="") or None

    @property
    def logs_offsets(self) -> bool:
        """Return True if its times say how far they are from UTC, so that no zone is to be told."""
        return 2 * self.zoned > self.layouts.total()

    @property
    def span(self) -> tuple[int, int] | None:
        """Return from when to when it has lines, also where its time goes backwards."""
        if self.first is None or self.last is None:
            return None
        return min(self.first, self.last), max(self.first, self.last)

    def confirm_open_steps(self, later: int) -> None:
        """Count the open steps that `later`, a later time, is still behind."""
        confirmed = [step for step, _ in self.open_steps if later < step[0]]
        self.stepped += len(confirmed)
        self.steps = largest_jumps([*self.steps, *confirmed])
        self.open_steps = []

    def to_row(self) -> dict[str, Any]:
        """Return the row of the table of files."""
        counts = dict(self.counts)
        duplicate = self.duplicate_of is not None
        lines = {
            name: 0 if duplicate and name != "lines" else counts.get(name, 0) for name in _SUMMED
        }
        layout = max(self.layouts, key=lambda name: (self.layouts[name], name), default=None)
        strange = self.counts["impossible"]
        notes = [*self.notes, *([f"{strange} {IMPOSSIBLE_NOTE}"] if strange else [])]
        # Of repeated lines those are known that state something; they are no records of their own.
        repeated = 0 if duplicate else min(self.repeats.total(), lines["records"])
        lines["records"] -= repeated
        lines["events"] -= 0 if duplicate else counts.get("repeated_events", 0)
        return lines | {
            "file": self.file,
            "node": self.node,
            "role": self.role,
            "layout": "+".join(name for name in (self.wrapper, layout) if name) or None,
            "kafka_version": self.version,
            "first_ts": _moment(self.first),
            "last_ts": _moment(self.last),
            "bytes": counts.get("bytes", 0),
            "duplicate_lines": counts.get("lines", 0) if duplicate else repeated,
            "damaged": mask_text("; ".join(dict.fromkeys(notes))) if notes else None,
            "sha256": self.sha256,
            "duplicate_of": self.duplicate_of or self.copy_of,
        }


def sum_accounts(rows: Iterable[Mapping[str, Any]]) -> dict[str, FileAccount]:
    """Sum accounts by file; each row has `file`, `split` and the account of that split.

    The line numbers of a split begin after the lines of the splits before it.
    """
    files: dict[str, FileAccount] = {}
    for row in sorted(rows, key=lambda row: (row["file"], row["split"])):
        if row["split"] == CONTAINER_SPLIT:
            continue
        total = files.setdefault(row["file"], FileAccount(row["file"]))
        account = row["account"]
        total.sha256 = account.get("sha256") or total.sha256
        total.heads = account.get("heads") or total.heads
        total.container = account.get("container") or total.container
        if row["split"] < 0:
            continue
        total.bases[row["split"]] = base = total.counts["lines"]
        total.gaps = longest_gaps([*total.gaps, *_file_gaps(account, base, total.last)])
        _add_backward_jumps(total, account, base)
        total.levels.update(account.get("levels", {}))
        for name in _SUMMED:
            total.counts[name] += account[name]
        total.counts["stray_lines"] += account.get("stray_lines", 0)
        total.counts["impossible"] += account.get("impossible", 0)
        total.layouts.update(account["layouts"])
        total.forms.update(account.get("forms", {}))
        total.zoned += account.get("zoned", 0)
        total.writers.update(account["writers"])
        total.rules.update(account.get("rules", {}))
        total.notes += account["notes"]
        total.broken = total.broken or account["broken"]
        total.is_yearless = total.is_yearless or account.get("yearless", False)
        total.is_document = total.is_document or account.get("document", False)
        total.first = account["first"] if total.first is None else total.first
        total.last = total.last if account["last"] is None else account["last"]
    for total in files.values():
        # A backward step at the last record may be an out-of-order write; drop it.
        total.open_steps = [step for step in total.open_steps if step[1] < CONFIRM_AFTER]
        if total.last is not None:
            total.confirm_open_steps(total.last)
    return files


def _file_gaps(account: Mapping[str, Any], base: int, last: int | None) -> Iterable[Gap]:
    """Yield the silences of a split by the lines of its file, and the one before the split."""
    for begin, end, line in account.get("gaps", ()):
        yield begin, end, base + line
    first = account["first"]
    if last is not None and first is not None and first - last >= MIN_SILENCE:
        yield last, first, base + 1


def _add_backward_jumps(total: FileAccount, account: Mapping[str, Any], base: int) -> None:
    """Add the backward steps of a split, in it and at its beginning, and its epoch regressions."""
    steps = [(begin, end, base + line) for begin, end, line in account.get("steps", ())]
    total.stepped += account.get("stepped", 0)
    first, last = account["first"], total.last
    if first is not None:
        total.confirm_open_steps(first)
        if last is not None and last - first >= MIN_BACKWARD_JUMP:
            steps.append((last, first, base + 1))
            total.stepped += 1
    total.steps = largest_jumps([*total.steps, *steps])
    total.open_steps += [
        ((begin, end, base + line), left)
        for (begin, end, line), left in account.get("open_steps", ())
    ]
    falls = ((*fall[:5], base + fall[5]) for fall in account.get("falls", ()))
    total.falls = keep_first([*total.falls, *falls])
    total.fallen += account.get("fallen", 0)


def mark_duplicates(files: Mapping[str, FileAccount]) -> None:
    """Mark all but the first of several files with the same content as its duplicates."""
    originals: dict[str, str] = {}
    for name in sorted(files):
        file = files[name]
        if file.sha256 and file.counts["bytes"]:
            original = originals.setdefault(file.sha256, name)
            file.duplicate_of = None if original == name else original


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


Batches = Iterator[pa.RecordBatch]


def make_event_finalizer(
    files: Mapping[str, FileAccount],
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Return the function that turns staged batches into the table of events."""
    keys: list[str] = []
    bases: list[int] = []
    nodes: list[str | None] = []
    for name, file in files.items():
        if file.duplicate_of is None:
            for split, base in file.bases.items():
                keys.append(f"{split} {name}")
                bases.append(base)
                nodes.append(file.node)

    is_yearless = any(file.is_yearless for file in files.values())
    window = find_window(edge for one in files.values() for edge in (one.first, one.last))

    def finalize(batches: Iterable[pa.RecordBatch]) -> Batches:
        known, starts, names = pa.array(keys), pa.array(bases, pa.int64()), pa.array(nodes)
        for staged in batches:
            split = pc.cast(staged["split"], pa.string())
            index = pc.index_in(pc.binary_join_element_wise(split, staged["file"], " "), known)
            counts = pc.and_(index.is_valid(), staged["kind"].is_valid())
            batch, index = staged.filter(counts), index.filter(counts)
            columns = {name: batch[name] for name in EVENTS.names}
            columns["line"] = pc.add(columns["line"], starts.take(index))
            columns["node"] = names.take(index).cast(pa.string())
            if is_yearless:
                columns["ts"] = settle_years(columns["ts"], window)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)

    return finalize
