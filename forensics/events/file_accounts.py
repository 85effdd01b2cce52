"""The accounts of files: lines and bytes summed over splits, and which node wrote each file.

A node is found by what the lines say first, then by the neighbours of the file, then by its name.
Events that were staged by split get the line numbers of the whole file and its node here, and
those of duplicate files are dropped.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_parts import (
    Cut,
    Placement,
    Writer,
    add_cuts,
    folder_of,
    is_shared,
    main_writer,
    place_shared,
    role_of,
    server_of,
    settle_origins,
    split_file,
    tell_clients_apart,
)
from forensics.events.layout_stretches import Stretch, add_stretches, stretch_rows
from forensics.events.node_map import NodeMap, find_mapped_node, map_origins
from forensics.events.undated_times import find_window, settle_years
from forensics.events.zone_changes import Shift, shift_events
from forensics.ingest.container_accounts import CONTAINER_SPLIT
from forensics.ingest.conversion_patterns import find_fitting
from forensics.ingest.record_splitter import MOST_NAMED
from forensics.ingest.window_formats import WINDOW
from forensics.lib.secrets import mask_text
from forensics.lib.time_units import to_datetime
from forensics.parsing.layouts import OF_FOUND_LAYOUTS
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

# The role of a file that is no log.
DOCUMENT = "document"

_NODE_IN_NAME = re.compile(
    r"(?P<role>broker|controller|kafka)[-_.]?(?P<id>\d{1,10})(?!\d)", re.IGNORECASE
)


# They name nobody.
_FOLDERS_OF_LOGS = frozenset({"log", "logs"})


def assign_nodes(files: Mapping[str, FileAccount], node_map: NodeMap = ()) -> None:
    """Set the node and role of every file, and the parts of files that several nodes share.

    What the user says in `node_map` goes before all that lines and names say.

    A process that is broker and controller at once, with one folder for both, is one node.
    A broker is named by its id. Controllers and clients are named by their folder where no other
    process logs to it: people know them by it, and several clients may share one client id.
    """
    writers: dict[str, Writer | None] = {}
    for name, file in files.items():
        mapped = find_mapped_node(name, node_map)
        if mapped:
            file.node, file.role = mapped, role_of(mapped)
        elif is_shared(file) and not file.is_document:
            split_file(file, map_origins(file.origins, node_map))
        else:
            writers[name] = main_writer(file)
    known = {key for file in files.values() for key in file.writers}
    writers |= {
        name: server_of(files[name], known) for name, writer in writers.items() if writer is None
    }
    # Of several archives each is a folder; of one the name says nothing about what is in it.
    packed = len({name.rpartition("!")[0] for name in files}) > 1
    folders: dict[str, set[Writer]] = defaultdict(set)
    for name, writer in writers.items():
        if writer:
            folders[folder_of(name)].add(writer)
    writers |= {
        name: ("broker", writer[1])
        for name, writer in writers.items()
        if writer and ("broker", writer[1]) in folders[folder_of(name)]
    }
    for folder, tenants in folders.items():
        folders[folder] = {
            tenant for tenant in tenants if ("broker", tenant[1]) not in tenants - {tenant}
        }
    for name, own in writers.items():
        if files[name].is_document:
            # It tells of others, and is nobody's log.
            files[name].role, files[name].node = DOCUMENT, None
            continue
        tenants = folders[folder_of(name)]
        writer = own or (next(iter(tenants)) if len(tenants) == 1 else None)
        alone = len(tenants) == 1
        files[name].role, files[name].node = _role_and_node(
            name, writer, alone=alone, packed=packed and alone
        )
    tell_clients_apart(files, writers)
    _name_by_heads(files)


def _name_by_heads(files: Mapping[str, FileAccount]) -> None:
    """Give a file that names nobody to the node of one that begins with the same bytes.

    It is an older copy, which ends before the first line that names somebody.
    """
    unknown = [file for file in files.values() if file.role is None and not file.is_document]
    heads: dict[tuple[str, str], set[tuple[str, str | None]]] = defaultdict(set)
    for file in files.values() if any(file.heads for file in unknown) else ():
        for head in file.heads.items() if file.node and file.role else ():
            heads[head].add((file.role or "", file.node))
    for file in unknown:
        length = max(file.heads, key=int, default="")
        known = heads.get((length, file.heads.get(length, "")), set())
        if len(known) == 1:
            file.role, file.node = next(iter(known))


def _role_and_node(
    name: str, writer: tuple[str, str] | None, *, alone: bool, packed: bool = False
) -> tuple[str | None, str]:
    folder = re.split(r"[/!]", folder_of(name))[-1]
    if name[len(folder_of(name)) :].startswith("!"):
        # The name of an archive, without its endings.
        folder = folder.partition(".")[0]
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
        own = (alone and "/" in inside) or (packed and "!" in name)
        stem = name.rpartition("/")[2].partition(".")[0]
        if own and folder in _FOLDERS_OF_LOGS:
            # Each of several clients may have one of its own.
            above = [part for part in inside.split("/")[:-1] if part not in _FOLDERS_OF_LOGS]
            own, folder = bool(above), above[-1] if above else ""
        return role, folder if own else identity.rstrip(",") or stem
    return role, f"{role}-{identity}"


# Follows a number in the notes of a file.
IMPOSSIBLE_NOTE = "fact(s) with a number that Kafka cannot have written, left out"

# So many records, and no rule knows one of them: perhaps they were read wrongly.
_MANY = 20
# So many lines below records that look like records are no accident.
_FEW_MISREAD = 3

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
    # the servers whose settings it holds, with their log folders
    folders: list[tuple[str, str]] = field(default_factory=list)
    bases: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    # its lines that tell a moment by its own clock and since 1970: line, logged micros, epoch ms
    clocks: list[tuple[int, int, int]] = field(default_factory=list)
    # what is added to its times where the offset from UTC changes
    shifts: list[Shift] = field(default_factory=list)
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
    # which layout read which of its lines; lines that no known one reads, and patterns in it
    layout_stretches: dict[tuple[str, str, int], Stretch] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    # shapes of what looks like records and is read by no layout, by the part of the file
    unread_parts: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    # the first lines below records that look like records themselves
    misread_at: list[int] = field(default_factory=list)
    # lines that say what rules look for and gave no event: how many, by rule, and the first
    unread_lines: int = 0
    unread_messages: Counter[str] = field(default_factory=Counter)
    unread_at: int | None = None
    untimed_at: int | None = None  # the first of its lines at a time that cannot be, as 24:00
    patterns: list[str] = field(default_factory=list)
    # what it is an entry of: a folder, an archive, a compressed file
    container: str | None = None
    broken: bool = False
    # whether it is no log, but something else that lies beside logs
    is_document: bool = False
    # whether its lines may have times without a year
    is_yearless: bool = False
    # whether it is of a process that used the id of a broker that was there already
    is_refused: bool = False
    duplicate_of: str | None = None
    # its events by rule, and its lines that others of its node have already, by those others
    rules: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    # the file that holds nearly all lines of this one, too, perhaps with others
    copy_of: str | None = None
    version: str | None = None
    node: str | None = None
    role: str | None = None
    # where its time falls back, and the writers that each stretch between names
    cuts: list[Cut] = field(default_factory=list)
    stretches: list[Counter[str]] = field(default_factory=list)
    # what each origin wrote; of a file that nodes share, the account of each of them
    origins: dict[str, FileAccount] = field(default_factory=dict)
    parts: list[FileAccount] = field(default_factory=list)
    placement: Placement | None = None
    # of a part: its origin, and the line that it begins with
    origin: str = ""
    begins: int = 1

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

    def new_part(self, node: str | None = None, role: str | None = None) -> FileAccount:
        """Return the account of a part of this file, in which nothing is counted yet."""
        part = FileAccount(self.file, node=node, role=role)
        part.layouts, part.zoned, part.forms = self.layouts, self.zoned, self.forms
        part.notes, part.broken, part.sha256 = self.notes, self.broken, self.sha256
        part.rules, part.levels = self.rules, Counter(self.levels)
        part.unread_lines, part.unread_at = self.unread_lines, self.unread_at
        part.unread_messages, part.untimed_at = self.unread_messages, self.untimed_at
        part.counts["untimed"] = self.counts["untimed"]
        part.duplicate_of = self.duplicate_of
        return part

    def leave_out(self, reason: str) -> None:
        """Keep how many lines the file has, and that nothing of it counts."""
        self.notes = [*self.notes, reason]
        self.node = self.role = self.first = self.last = None
        self.parts, self.gaps, self.steps, self.falls = [], [], [], []
        self.stepped = self.fallen = 0
        self.counts["events"] = self.counts["repeated_events"] = 0
        self.repeats = Counter()

    def take_out(self, reason: str) -> None:
        """Give the file to no node: it is of a process that was never part of the cluster."""
        self.notes = [*self.notes, reason]
        self.node = self.role = None
        self.is_refused = True

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of files: one for each node."""
        return [part.to_row() for part in self.parts or [self]]

    def to_layout_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of layouts."""
        copied = self.is_document or self.duplicate_of is not None
        return [] if copied else stretch_rows(self.file, self.layout_stretches)

    def close(self) -> None:
        """Settle what only the end of the file decides."""
        # A backward step at the last record may be an out-of-order write; drop it.
        self.open_steps = [step for step in self.open_steps if step[1] < CONFIRM_AFTER]
        if self.last is not None:
            self.confirm_open_steps(self.last)

    def confirm_open_steps(self, later: int) -> None:
        """Count the open steps that `later`, a later time, is still behind."""
        confirmed = [step for step, _ in self.open_steps if later < step[0]]
        self.stepped += len(confirmed)
        self.steps = largest_jumps([*self.steps, *confirmed])
        self.open_steps = []

    def _say_unread_messages(self, layout: str | None) -> str:
        """Say that some lines look like events and are none."""
        count, rules = self.unread_lines, self.unread_messages
        rule = min(rules, key=lambda name: (-rules[name], name))
        where = f", the first is line {self.unread_at:,}" if self.unread_at else ""
        what = (
            f"it is no log ({layout}), save the log itself as text, a record a line"
            if self.is_document
            else "see `kafka-forensics layout try`"
        )
        return (
            f"{count:,} line(s) were read as no event although they say what rules look for"
            f" (most often {rule}{where}): {what}"
        )

    def to_row(self) -> dict[str, Any]:
        """Return the row of the table of files."""
        counts = self.counts
        duplicate = self.duplicate_of is not None
        lines = {
            name: 0 if duplicate and name != "lines" else counts.get(name, 0) for name in _SUMMED
        }
        layout = max(self.layouts, key=lambda name: (self.layouts[name], name), default=None)
        strange = self.counts["impossible"]
        notes = [*self.notes, *([f"{strange} {IMPOSSIBLE_NOTE}"] if strange else [])]
        if self.untimed_at and not duplicate:
            said = "line(s) that state something have a time that cannot be, the first is line"
            notes.append(f"{counts['untimed']:,} {said} {self.untimed_at:,}")
        if parted := self.counts["parted_lines"] if not self.origin else 0:
            notes.append(
                f"{parted:,} line(s) that look like parts of records, such as stack traces, stand"
                " behind lines of other writers, and are not read with their records"
            )
        if layout in OF_FOUND_LAYOUTS and not counts.get("events") and counts["records"] >= _MANY:
            notes.append(
                f"no rule knows any of its {counts['records']:,} records, whose layout was found as"
                f" {self.wrapper}; if this is a log of Kafka, see `kafka-forensics layout try`"
            )
        if self.unread_parts and counts["records"]:
            notes.append(_say_unread(self.unread_parts))
        elif counts["misread_lines"] >= _FEW_MISREAD and not duplicate:
            notes.append(_say_misread(counts["misread_lines"], self.misread_at))
        if self.unread_lines and not duplicate:
            notes.append(self._say_unread_messages(layout))
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


def _say_unread(parts: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    """Say that some lines are read by no layout, and what most of them look like."""
    shapes = Counter[str]()
    for found in parts.values():
        for shape, count in found:
            shapes[shape] += count
    shape, _ = min(shapes.items(), key=lambda one: (-one[1], one[0]))
    first = min(map(int, parts)) * WINDOW >> 20
    return (
        f"lines that look like records are read by no layout ({len(parts):,} part(s) of 4 MB, the"
        f" first at {first:,} MB), most of them like {shape!r}; see `kafka-forensics layout try`"
    )


def _say_misread(count: int, lines: Sequence[int]) -> str:
    """Say that lines below records look like records that no layout reads."""
    named = ", ".join(f"{line:,}" for line in lines[:MOST_NAMED])
    where = (
        f" ({'lines' if len(lines) >= count else 'the first are lines'} {named})" if lines else ""
    )
    return (
        f"{count:,} lines below records look like records themselves{where}: no layout reads them,"
        " they count as parts of the records above; see `kafka-forensics layout try`"
    )


def configured_patterns(files: Iterable[FileAccount]) -> list[str]:
    """Return the patterns of configuration in an archive that read files in no known layout.

    They count for all files: nothing tells for certain which process a configuration belongs to.
    """
    known = list(files)
    patterns = [pattern for one in known for pattern in one.patterns]
    return find_fitting(((one.file, one.unread) for one in known), patterns) if patterns else []


def sum_accounts(rows: Iterable[Mapping[str, Any]]) -> dict[str, FileAccount]:
    """Sum accounts by file; each row has `file`, `split` and the account of that split."""
    return sum_ordered_accounts(sorted(rows, key=lambda row: (row["file"], row["split"])))


def sum_ordered_accounts(rows: Iterable[Mapping[str, Any]]) -> dict[str, FileAccount]:
    """Sum accounts that are sorted by file and split.

    An account may be JSON still: of very many files that takes least memory. The line numbers of a
    split begin after the lines of the splits before it.
    """
    files: dict[str, FileAccount] = {}
    for row in rows:
        if row["split"] == CONTAINER_SPLIT:
            continue
        total = files.get(row["file"]) or files.setdefault(row["file"], FileAccount(row["file"]))
        account = row["account"]
        if isinstance(account, str):
            account = json.loads(account)
        total.sha256 = account.get("sha256") or total.sha256
        total.heads = account.get("heads") or total.heads
        total.container = account.get("container") or total.container
        if row["split"] < 0:
            continue
        total.bases[row["split"]] = base = total.counts["lines"]
        add_cuts(total, account, base)
        for origin, part in account.get("origins", {}).items():
            known = total.origins.setdefault(origin, FileAccount(row["file"], origin=origin))
            _add_split(known, part, base)
        _add_split(total, account, base)
        add_stretches(total.layout_stretches, account.get("layout_stretches", ()), base)
        total.unread += account.get("unread", ())
        total.unread_parts |= account.get("unread_parts", {})
        total.patterns += account.get("patterns", ())
    for total in files.values():
        for one in (total, *total.origins.values()):
            one.close()
        settle_origins(total)
    return files


def _add_split(total: FileAccount, account: Mapping[str, Any], base: int) -> None:
    """Add the account of a split whose lines come after `base` others."""
    total.gaps = longest_gaps([*total.gaps, *_file_gaps(account, base, total.last)])
    _add_backward_jumps(total, account, base)
    total.levels.update(account.get("levels", {}))
    for name in _SUMMED:
        total.counts[name] += account.get(name, 0)
    total.counts["stray_lines"] += account.get("stray_lines", 0)
    total.misread_at += [base + line for line in account.get("misread_at", ())]
    for name in ("impossible", "misread_lines", "parted_lines", "untimed"):
        total.counts[name] += account.get(name, 0)
    if untimed_at := account.get("untimed_at"):
        total.untimed_at = total.untimed_at or base + untimed_at
    if unread := account.get("unread_messages"):
        total.unread_lines += unread["count"]
        total.unread_messages.update(unread["rules"])
        total.unread_at = total.unread_at or base + unread["first"]
    total.layouts.update(account["layouts"])
    total.forms.update(account.get("forms", {}))
    total.zoned += account.get("zoned", 0)
    total.writers.update(account["writers"])
    total.clocks += [(base + line, at, epoch) for line, at, epoch in account.get("clocks", ())]
    named = ((server, folder) for server, folder in account.get("folders", ()))
    total.folders = sorted({*total.folders, *named})
    total.rules.update(account.get("rules", {}))
    total.notes += account["notes"]
    total.broken = total.broken or account["broken"]
    total.is_yearless = total.is_yearless or account.get("yearless", False)
    total.is_document = total.is_document or account.get("document", False)
    if total.first is None and account["first"] is not None:
        total.first, total.begins = account["first"], base + account.get("begins", 1)
    total.last = total.last if account["last"] is None else account["last"]


def _file_gaps(account: Mapping[str, Any], base: int, last: int | None) -> Iterable[Gap]:
    """Yield the silences of a split by the lines of its file, and the one before the split."""
    for begin, end, line in account.get("gaps", ()):
        yield begin, end, base + line
    first = account["first"]
    if last is not None and first is not None and first - last >= MIN_SILENCE:
        yield last, first, base + account.get("begins", 1)


def _add_backward_jumps(total: FileAccount, account: Mapping[str, Any], base: int) -> None:
    """Add the backward steps of a split, in it and at its beginning, and its epoch regressions."""
    steps = [(begin, end, base + line) for begin, end, line in account.get("steps", ())]
    total.stepped += account.get("stepped", 0)
    first, last = account["first"], total.last
    if first is not None:
        total.confirm_open_steps(first)
        if last is not None and last - first >= MIN_BACKWARD_JUMP:
            steps.append((last, first, base + account.get("begins", 1)))
            total.stepped += 1
    total.steps = largest_jumps([*total.steps, *steps])
    total.open_steps += [
        ((begin, end, base + line), left)
        for (begin, end, line), left in account.get("open_steps", ())
    ]
    falls = ((*fall[:5], base + fall[5]) for fall in account.get("falls", ()))
    total.falls = keep_first([*total.falls, *falls])
    total.fallen += account.get("fallen", 0)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


Batches = Iterator[pa.RecordBatch]
# What counts of a process that was never part of the cluster: that it was refused.
KEPT_KINDS = ("registration_failed",)


def make_event_finalizer(
    files: Mapping[str, FileAccount],
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Return the function that turns staged batches into the table of events."""
    keys: list[str] = []
    bases: list[int] = []
    nodes: list[str | None] = []
    shared: dict[int, Placement] = {}
    shifts: dict[int, Sequence[Shift]] = {}
    for name, file in files.items():
        if file.duplicate_of is None:
            for split, base in file.bases.items():
                if file.shifts:
                    shifts[len(keys)] = file.shifts
                if file.placement:
                    shared[len(keys)] = file.placement
                keys.append(f"{split} {name}")
                bases.append(base)
                nodes.append(file.node)

    refused = [name for name, file in files.items() if file.is_refused]
    is_yearless = any(file.is_yearless for file in files.values())
    window = find_window(edge for one in files.values() for edge in (one.first, one.last))

    def finalize(batches: Iterable[pa.RecordBatch]) -> Batches:
        known, starts, names = pa.array(keys), pa.array(bases, pa.int64()), pa.array(nodes)
        for staged in batches:
            split = pc.cast(staged["split"], pa.string())
            index = pc.index_in(pc.binary_join_element_wise(split, staged["file"], " "), known)
            counts = pc.and_(index.is_valid(), counted_events(staged, refused))
            batch, index = staged.filter(counts), index.filter(counts)
            columns = {name: batch[name] for name in EVENTS.names}
            columns["line"] = pc.add(columns["line"], starts.take(index))
            voices, places = columns["node"], names.take(index).cast(pa.string())
            columns["node"] = place_shared(places, index, columns["line"], voices, shared)
            if shifts:
                columns["ts"] = shift_events(columns["ts"], index, columns["line"], shifts)
            if is_yearless:
                columns["ts"] = settle_years(columns["ts"], window)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)

    return finalize


def counted_events(
    staged: pa.RecordBatch | pa.Table, refused: Sequence[str]
) -> pa.Array | pa.ChunkedArray:
    """Mark the events that count: of files of refused processes only the refusal itself."""
    if not refused:
        return staged["kind"].is_valid()
    kept = pc.is_in(staged["kind"], pa.array(KEPT_KINDS, pa.string()))
    others = pc.invert(pc.is_in(staged["file"], pa.array(refused, pa.string())))
    return pc.and_(staged["kind"].is_valid(), pc.or_(kept, others))
