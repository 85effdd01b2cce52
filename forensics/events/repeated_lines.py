"""Counts once what several files of one node repeat, such as `kafkaServer.out` beside `server.log`.

Two events are the same if one node logged the same facts by the same rule at the same time; of
lines that a file itself repeats, the first is compared with the first, the second with the second.
Neither layout nor wrapper nor line breaks matter, and files need not have the same length.
Only files of one node that overlap in time and know the same rules are compared at all, which in
most archives are none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import KEPT_KINDS, FileAccount
from forensics.events.file_parts import folder_of, list_node_accounts
from forensics.lib.arrow_io import is_any_of, iter_rows, read_batches
from forensics.lib.time_units import SECOND, TIMESTAMP
from forensics.schemas import EVENTS, FACTS

Place = tuple[str, int, int, str]
_PLACE = ("file", "line", "offset", "rule")
Batches = Iterator[pa.RecordBatch]
Rows = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# An event with a digest of what it states: repeats have the same.
DIGESTED = pa.schema([*EVENTS, ("digest", pa.int64())])
# Of a repeated event: the file that holds the one that counts.
MARKED = pa.schema([*EVENTS, ("repeats", pa.string())])
# One line of which an event is a repeat.
REPEATED_LINES = pa.schema(
    [
        ("file", pa.string()),
        ("node", pa.string()),
        ("repeats", pa.string()),
        ("lines", pa.int64()),
        ("events", pa.int64()),
    ]
)
_OWN_LOG = re.compile(
    r"(?P<name>server|controller|state-change|log-cleaner|kafka-request|kafka-authorizer)\.log"
    r"(?:\.[-\d]+)*(?:\.(?:gz|bz2|xz|zst|lz4))?"
)
# A file of which so much is repeated is a copy: what it adds are odd lines, such as a JVM's.
COPY_SHARE = 0.9
# Of a file that is mostly repeated so many other events are compared with whole records.
_MAX_ODD = 10_000
_COMPARED = ("ts", "node", "kind", "rule", *FACTS.names)
_MIX, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def mark_duplicates(files: Mapping[str, FileAccount]) -> None:
    """Mark all but one of several files with the same content as its duplicates.

    Kafka's own log files go before copies of its output, then the smaller name before the larger.
    """
    originals: dict[str, str] = {}
    for name in sorted(files, key=lambda name: (name_own_log(name) is None, name)):
        file = files[name]
        if file.sha256 and file.counts["bytes"]:
            original = originals.setdefault(file.sha256, name)
            file.duplicate_of = None if original == name else original


def find_comparable_files(files: Iterable[FileAccount]) -> frozenset[str]:
    """Return the files that may repeat lines of another file of their node, or their own.

    A log that was put behind itself falls back in time.
    """
    by_node: dict[str, list[FileAccount]] = defaultdict(list)
    files = list(files)
    again = {one.file for one in files if one.cuts and one.rules and one.duplicate_of is None}
    for file in list_node_accounts(files):
        if file.node and file.rules and file.duplicate_of is None and file.span is not None:
            by_node[file.node].append(file)
    pairs = (pair for owned in by_node.values() for pair in _overlapping_pairs(owned))
    return frozenset(again.union(one.file for pair in pairs for one in pair))


def _overlapping_pairs(files: list[FileAccount]) -> Iterator[tuple[FileAccount, FileAccount]]:
    """Yield the pairs of files whose times overlap and that know the same rules."""
    open_files: list[tuple[tuple[int, int], FileAccount]] = []
    for file in sorted(files, key=lambda one: (one.span or (0, 0), one.file)):
        first, last = file.span or (0, 0)
        # A rotated file begins where the one before it ends, which is no overlap.
        open_files = [
            (span, other)
            for span, other in open_files
            if span[1] > first or span[0] == first or span[1] == first == last
        ]
        for _, other in open_files:
            if other.file != file.file and _may_repeat(other, file):
                yield other, file
        open_files.append(((first, last), file))


def _may_repeat(one: FileAccount, other: FileAccount) -> bool:
    """Return True if files know the same rules.

    Kafka's own logs do, too: from 3.0 to 3.9 controllers log much into server.log and
    controller.log alike.
    """
    return not one.rules.keys().isdisjoint(other.rules)


def name_own_log(file: str) -> str | None:
    """Name the log that Kafka itself calls so; None for what others made of its output.

    >>> name_own_log("logs.tgz!broker-1/server.log.2026-11-18-11")
    'server'
    >>> name_own_log("broker-1/kafkaServer.out")
    """
    match = _OWN_LOG.fullmatch(re.split(r"[/!]", file)[-1])
    return match["name"] if match else None


def rank_files(files: Iterable[FileAccount]) -> tuple[str, ...]:
    """Return files in the order in which they keep what they have in common.

    Kafka's own log files come before copies of its output, and those for some loggers before the
    one for all; then what holds more, then what lies higher and has the shorter name.
    """

    def rank(file: FileAccount) -> tuple[bool, bool, int, int, int, str]:
        depth, name = len(re.findall(r"[/!]", file.file)), name_own_log(file.file)
        return (
            name is None,
            name == "server",
            -file.counts["events"],
            depth,
            len(file.file),
            file.file,
        )

    return tuple(file.file for file in sorted(files, key=rank))


def digest_events(compared: frozenset[str]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that adds digests to events; those of other files have their own each."""
    names = pa.array(sorted(compared), pa.string())

    def digest(events: pa.RecordBatch) -> pa.RecordBatch:
        places = _hash_columns(events, ("file", "line", "offset", "rule"))
        places += np.arange(len(events), dtype=np.uint64)
        same = pc.and_(pc.is_in(events["file"], names), events["ts"].is_valid())
        facts = _hash_columns(events, _COMPARED)
        digests = np.where(same.to_numpy(zero_copy_only=False), facts, places).view(np.int64)
        return pa.RecordBatch.from_arrays([*events.columns, pa.array(digests)], schema=DIGESTED)

    return digest


def _hash_columns(events: pa.RecordBatch, columns: Sequence[str]) -> Words:
    """Hash rows, the same in any batch: each value that is there adds to its row's sum."""
    total = np.zeros(len(events), np.uint64)
    for name in columns:
        column = events[name]
        if column.null_count == len(column):
            continue
        values = _hash_values(column) + _salt(name)
        values = (values ^ (values >> np.uint64(31))) * _MIX
        values ^= values >> np.uint64(29)
        total += np.where(column.is_valid().to_numpy(zero_copy_only=False), values, np.uint64(0))
    return total


def _salt(name: str) -> np.uint64:
    # Not a multiple of what numbers are spread by: leader 3 in epoch 1 is not leader 2 in epoch 2.
    return np.uint64((EVENTS.get_field_index(name) + 1) * int(_MIX) & 0xFFFFFFFFFFFFFFFF)


def _hash_values(column: pa.Array) -> Words:
    if pa.types.is_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    if pa.types.is_string(column.type):
        coded = pc.fill_null(column, "").dictionary_encode()
        words = pd.util.hash_array(
            coded.dictionary.to_numpy(zero_copy_only=False), categorize=False
        )
        return np.asarray(words[coded.indices.to_numpy()], np.uint64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.asarray(numbers.astype(np.int64).view(np.uint64) * _SPREAD + np.uint64(1), np.uint64)


def name_by_repeats(files: Mapping[str, FileAccount], events: Path) -> bool:
    """Give a file that names nobody to the node whose lines it repeats; True if there is any.

    A few lines of a log, cut out and saved, seldom say whose they are. What they state stands in
    the log itself, at the same time.
    """
    unknown = {
        name
        for name, file in files.items()
        if file.node == f"file:{name}" and file.counts["events"] and file.duplicate_of is None
    }
    spans = [span for name in unknown if (span := files[name].span)]
    if not spans or len({file.node for file in files.values()} - {None}) == 1:
        return False
    # Of several files with an event that one comes first that says whose it is.
    known = [file for file in files.values() if file.node and file.file not in unknown]
    order = [*rank_files(known), *rank_files(files[name] for name in unknown)]
    first, last = min(first for first, _ in spans), max(last for _, last in spans)
    dated = (pc.field("ts") >= pa.scalar(first, TIMESTAMP)) & (
        pc.field("ts") <= pa.scalar(last, TIMESTAMP)
    )
    stated = list(_read_stated(events, dated & is_any_of("file", unknown), order))
    if not stated:
        return False
    owners, digests = (np.concatenate(part) for part in zip(*stated, strict=True))
    wanted = np.unique(digests)
    best = np.full(len(wanted), len(order), np.int64)
    for ranks, found in _read_stated(events, dated, order):
        at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
        same = wanted[at] == found
        np.minimum.at(best, at[same], ranks[same])
    pairs = np.unique(np.stack([owners, np.searchsorted(wanted, digests)]), axis=1)
    counts = Counter(zip(pairs[0].tolist(), best[pairs[1]].tolist(), strict=True))
    stated_by, repeated = Counter[int](), defaultdict[int, Counter[str]](Counter)
    for (owner, holder), count in sorted(counts.items()):
        stated_by[owner] += count
        repeated[owner][files[order[holder]].node or ""] += count
    named = False
    for owner in sorted(repeated):
        file = files[order[owner]]
        node, count = repeated[owner].most_common(1)[0]
        if node != file.node and count >= COPY_SHARE * stated_by[owner]:
            role = next(one.role for one in files.values() if one.node == node)
            file.node, file.role, named = node, role, True
    return named


# A process that starts says so in several lines, within that.
_START = 10 * SECOND
# A broker that has nothing to do logs something that rules know within that.
_AROUND = 3600 * SECOND
# Folders that hold different parts of one log have few loggers in common.
_MIN_LOGGERS = 3


_SECOND = (
    "of a second process with the id of {}, which runs meanwhile with its logs in {}: only that it"
    " was refused counts"
)


def take_out_second_processes(files: Mapping[str, FileAccount], events: Path) -> bool:
    """Give no node to logs of a process with the id of a broker that runs; True if there are any.

    Each has a folder of its own, or a file of its own in one. The second one starts, and is
    refused, while the first one logs on, which does not start then: so neither copies nor other
    parts of the first one's log are taken for it, nor brokers of another cluster.
    """
    homes: dict[str, dict[str, list[FileAccount]]] = defaultdict(lambda: defaultdict(list))
    for name, file in files.items():
        if file.role == "broker" and file.node and file.span and file.duplicate_of is None:
            homes[file.node][folder_of(name)].append(file)
    refused = _find_refused(events) if homes else set()
    for node, folders in sorted(homes.items()):
        for folder, file in [(one, file) for one in folders for file in folders[one]]:
            beside = [one for one in folders[folder] if one is not file and not one.is_refused]
            held = next((one for one in beside if file.file in refused
                         and _run_at_once([one], [file], events, beside)), None)  # fmt: skip
            if held is not None:
                file.take_out(_SECOND.format(node, held.file))
                file.counts["events"] = _count_kept([file.file], events)
                folders[folder] = [one for one in folders[folder] if one is not file]
        first, *others = sorted(
            folders, key=lambda one: (min(file.span or (0, 0) for file in folders[one]), one)
        )
        for other in (one for one in others if _run_at_once(folders[first], folders[one], events)):
            for name, file in files.items():
                if file.node == node and folder_of(name) == other:
                    file.take_out(_SECOND.format(node, first))
                    file.counts["events"] = _count_kept([name], events)
    return any(file.is_refused for file in files.values())


def _find_refused(events: Path) -> set[str]:
    """Return the files in which a process says that it was refused."""
    where = pc.field("kind").isin(KEPT_KINDS)
    rows = iter_rows(read_batches(events, ["file"], where), ["file"])
    return {str(row["file"]) for row in rows}


def _run_at_once(
    first: Sequence[FileAccount],
    second: Sequence[FileAccount],
    events: Path,
    beside: Sequence[FileAccount] = (),
) -> bool:
    """Return True if a process starts in some files while that of the others goes on.

    `beside` are more of its files, which tell only that it goes on.
    """
    if not _count_kept([file.file for file in second], events):
        return False
    spans = [file.span for file in second if file.span]
    begin, end = min(low for low, _ in spans) - _AROUND, max(high for _, high in spans) + _AROUND
    read = [
        list(_read_lines([file.file for file in some], events, begin, end))
        for some in (first, second)
    ]
    known = set(read[0])
    # What both hold is a copy, and says of no second process.
    added = [line for line in read[1] if line not in known]
    own = [line for line in read[0] if line not in set(read[1])]
    if len({line[1] for line in own} & {line[1] for line in added}) < _MIN_LOGGERS:
        return False
    starts = sorted(at for at, _, _, is_start in read[0] if is_start)
    for start in (at for at, _, _, is_start in added if is_start):
        later = min((at for at, *_ in own if at > start + _START), default=None)
        if (
            later is not None
            and not any(start - _START <= at <= later for at in starts)
            and any(_logs_in(file, start, later) for file in beside or first)
        ):
            return True
    return False


def _count_kept(names: Sequence[str], events: Path) -> int:
    where = is_any_of("file", names) & is_any_of("kind", KEPT_KINDS)
    return sum(len(batch) for batch in read_batches(events, ["kind"], where))


def _logs_in(file: FileAccount, begin: int, end: int) -> bool:
    """Return True if a file goes on over some time, and holds lines of it."""
    low, high = file.span or (0, 0)
    silent = any(since <= begin and until >= end for since, until, *_ in file.gaps)
    return low < begin and high >= end and not silent


def _read_lines(
    names: Sequence[str], events: Path, begin: int, end: int
) -> Iterator[tuple[int, str, str, bool]]:
    columns = ["ts", "logger", "text", "kind"]
    where = is_any_of("file", names) & pc.field("kind").is_valid()
    where &= pc.field("ts") >= pa.scalar(begin, TIMESTAMP)
    where &= pc.field("ts") <= pa.scalar(end, TIMESTAMP)
    for row in iter_rows(read_batches(events, columns, where), columns):
        yield row["ts"], row["logger"], row["text"], row["kind"] == "process_starting"


def _read_stated(
    events: Path, where: pc.Expression, order: Sequence[str]
) -> Iterator[tuple[Rows, Words]]:
    """Read what events state as digests, and the places of their files in an order."""
    columns = [name for name in ("file", *_COMPARED) if name != "node"]
    names = pa.array(order, pa.string())
    for batch in read_batches(events, columns, where & pc.field("kind").is_valid()):
        ranks = pc.index_in(batch["file"], names)
        rows = batch.filter(ranks.is_valid())
        yield pc.drop_null(ranks).to_numpy().astype(np.int64), _hash_columns(rows, columns[1:])


@dataclass(frozen=True)
class RepeatMarker:
    """Marks repeats among events that come sorted by their digests; `order` ranks the files.

    Of each event that several files have, the file that comes first in `order` keeps it.
    """

    order: tuple[str, ...]
    # the lines at which files fall back in time
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keys: tuple[str, ...] = ("digest",)
    kinds: tuple[str, ...] = ()
    columns: tuple[str, ...] = tuple(DIGESTED.names)

    def __call__(self, events: Batches) -> Batches:
        """Mark what is repeated."""
        order = pa.array(self.order, pa.string())
        # Files that are not compared have nothing to compare.
        kinds = np.array([*(name_own_log(file) is not None for file in self.order), 0], np.int64)
        cuts = [self.cuts.get(file, ()) for file in self.order]
        held: list[pa.RecordBatch] = []
        for batch in events:
            whole = pa.Table.from_batches([*held, batch]).combine_chunks().to_batches()[0]
            digests = whole["digest"].to_numpy()
            # More events of the last digest may follow.
            end = int(np.searchsorted(digests, digests[-1]))
            held = [whole.slice(end)]
            if end:
                yield _mark(whole.slice(0, end), order, kinds, cuts)
        if held:
            yield _mark(held[0], order, kinds, cuts)


def _mark(
    events: pa.RecordBatch, order: pa.Array, kinds: Rows, cuts: Sequence[tuple[int, ...]]
) -> pa.RecordBatch:
    """Mark repeats within Kafka's own logs, and in other files those of all of them."""
    digests = events["digest"].to_numpy()
    groups = np.cumsum(np.append(0, _changes(digests)))
    ranks = pc.fill_null(pc.index_in(events["file"], order), len(order)).to_numpy()
    kind = kinds[ranks]
    lines = events["line"].to_numpy()
    turns = np.zeros(len(lines), np.int64)
    for rank, places in enumerate(cuts):
        if places:
            own = ranks == rank
            turns[own] = np.searchsorted(np.array(places), lines[own], "right")
    # The how manieth of its file an event is, since time fell back, of those that state the same.
    rows = np.lexsort((events["offset"].to_numpy(), lines, turns, ranks, groups))
    numbers = np.empty(len(rows), np.int64)
    numbers[rows] = _count_within(groups[rows], ranks[rows], turns[rows])
    rows = np.lexsort((turns, ranks, numbers, kind, groups))
    first = np.append(True, _changes(groups[rows], kind[rows], numbers[rows]))
    keepers = np.empty(len(rows), np.int64)
    keepers[rows] = rows[np.flatnonzero(first)[np.cumsum(first) - 1]]
    # What is left of other files is compared with all that Kafka's own logs keep.
    own = np.flatnonzero((keepers == np.arange(len(rows))) & (kind > 0))
    owned = np.bincount(groups[own], minlength=int(groups[-1]) + 1)
    found = np.zeros(len(owned), np.int64)
    found[groups[own][::-1]] = own[::-1]
    copies = np.flatnonzero((kind == 0) & (numbers < owned[groups]))
    keepers[copies] = found[groups[copies]]
    kept = pa.array(keepers == np.arange(len(rows)))
    repeats = pc.if_else(kept, None, events["file"].take(pa.array(keepers)))
    columns = [events[name] for name in EVENTS.names]
    return pa.RecordBatch.from_arrays([*columns, repeats], schema=MARKED)


def _count_within(*sorted_columns: Rows) -> Rows:
    """Number the rows of each group from 0; columns are sorted."""
    begins = np.flatnonzero(np.append(True, _changes(*sorted_columns)))
    counts = np.diff(np.append(begins, len(sorted_columns[0])))
    numbers: Rows = np.arange(len(sorted_columns[0])) - np.repeat(begins, counts)
    return numbers


def _changes(*columns: Rows) -> npt.NDArray[np.bool_]:
    changes = np.zeros(max(0, len(columns[0]) - 1), np.bool_)
    for values in columns:
        changes |= values[1:] != values[:-1]
    return changes


def find_cut_repeats(marked: Path, compared: Iterable[str]) -> dict[Place, str]:
    """Find events of records that lack lines, which another file has whole.

    The last record of a file may be cut off, and what was searched for words has only the lines
    with these: what such a record states is the same as far as it goes. Returns the file that holds
    each as a whole.
    """
    known = is_any_of("file", compared)
    last: dict[str, int] = {}
    kept, repeated = Counter[str](), Counter[str]()
    for batch in read_batches(marked, ["file", "line", "repeats"], known):
        table = pa.Table.from_batches([batch]).group_by("file", use_threads=False)
        figures = [("line", "max"), ("line", "count"), ("repeats", "count")]
        for row in table.aggregate(figures).to_pylist():
            last[row["file"]] = max(row["line_max"], last.get(row["file"], 0))
            repeated[row["file"]] += row["repeats_count"]
            kept[row["file"]] += row["line_count"] - row["repeats_count"]
    mostly = {one for one in last if repeated[one] >= kept[one] and kept[one] <= _MAX_ODD}
    # Other files may have a line of that number, too: there may be thousands of files.
    maybe = is_any_of("file", mostly) | is_any_of("line", last.values())
    ends = [
        row
        for row in _read_kept(marked, known & maybe)
        if row["file"] in mostly or row["line"] == last[row["file"]]
    ]
    times = pa.array({row["ts"] for row in ends}, TIMESTAMP)
    others: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in _read_kept(marked, known & pc.field("ts").isin(times)) if ends else ():
        others[_subject(row)].append(row)
    found: dict[Place, str] = {}
    for end in ends:
        near = others[_subject(end)]
        whole = [one["file"] for one in near if one["file"] != end["file"] and _holds(one, end)]
        if whole:
            found[end["file"], end["line"], end["offset"], end["rule"]] = min(whole)
    return found


def _read_kept(marked: Path, where: pc.Expression) -> Iterator[dict[str, Any]]:
    columns = ["file", "line", "offset", *_COMPARED]
    kept = pc.field("ts").is_valid() & pc.field("repeats").is_null()
    return iter_rows(read_batches(marked, columns, kept & where), columns)


def _subject(row: Mapping[str, Any]) -> tuple[Any, ...]:
    # Other statements of the same moment may say nearly the same, and are none of its lines.
    return row["ts"], row["node"], row["kind"], (row["rule"] or "").partition("@")[0]


def _holds(whole: Mapping[str, Any], cut: Mapping[str, Any]) -> bool:
    """Return True if an event states all that another one states, and more."""
    pairs = [(whole[name], cut[name]) for name in FACTS.names]
    more = any(one is not None and other is None for one, other in pairs)
    return more and all(other is None or one == other for one, other in pairs)


@dataclass(frozen=True)
class CutMarker:
    """Marks the events that `find_cut_repeats` found."""

    found: Mapping[Place, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Mark them in each batch."""
        names = pa.array(sorted({place[0] for place in self.found}), pa.string())
        for batch in batches:
            maybe = np.flatnonzero(pc.is_in(batch["file"], names))
            repeats = batch["repeats"].to_pylist() if len(maybe) else []
            columns = [batch[name].take(pa.array(maybe)) for name in _PLACE] if len(maybe) else []
            places = zip(*(column.to_pylist() for column in columns), strict=True)
            for row, place in zip(maybe.tolist(), places, strict=True):
                repeats[row] = self.found.get(place, repeats[row])
            column = pa.array(repeats, pa.string()) if repeats else batch["repeats"]
            yield batch.set_column(batch.schema.get_field_index("repeats"), "repeats", column)


def keep_unrepeated(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Leave out the events that are marked as repeats."""
    for batch in batches:
        kept = batch.filter(batch["repeats"].is_null())
        yield pa.RecordBatch.from_arrays([kept[name] for name in EVENTS.names], schema=EVENTS)


@dataclass(frozen=True)
class RepeatCounter:
    """Counts the lines and events of each file that others have already, and which others."""

    keys: tuple[str, ...] = ("file", "node", "repeats", "line")
    kinds: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("file", "node", "repeats", "line")

    def __call__(self, events: Batches) -> Batches:
        """Count what is sorted by file and line."""
        lines: Counter[tuple[str, ...]] = Counter()
        counts: Counter[tuple[str, ...]] = Counter()
        last: tuple[str | int, ...] = ()
        for batch in events:
            table = pa.Table.from_batches([batch.select(self.keys)])
            grouped = table.group_by(list(self.keys), use_threads=False)
            columns = grouped.aggregate([([], "count_all")]).to_pydict()
            names = (*self.keys, "count_all")
            for *key, line, count in zip(*(columns[name] for name in names), strict=True):
                lines[tuple(key)] += last != (*key, line)
                counts[tuple(key)] += count
                last = (*key, line)
        rows = [
            dict(zip(REPEATED_LINES.names, (*key, count, counts[key]), strict=True))
            for key, count in sorted(lines.items())
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=REPEATED_LINES)


def sum_counts(rows: pa.Table) -> pa.Table:
    """Sum the counts of one file, node and original."""
    sums = {name: pc.sum(rows[name]).as_py() for name in ("lines", "events")}
    names = {name: rows[name][0].as_py() for name in REPEATED_LINES.names[:3]}
    return pa.Table.from_pylist([names | sums], REPEATED_LINES)


def note_repeats(files: Mapping[str, FileAccount], counted: pa.Table) -> None:
    """Note in the accounts how many lines and events are repeats, and of which files."""
    for row in counted.to_pylist():
        file = files[row["file"]]
        for one in (file, *(part for part in file.parts if part.node == row["node"])):
            one.repeats[row["repeats"]] += row["lines"]
            one.counts["repeated_events"] += row["events"]


def find_copies(files: Iterable[FileAccount]) -> None:
    """Note which files, or parts of them, are hardly more than copies of others."""
    for file in files:
        for one in (file, *file.parts):
            if one.counts["repeated_events"] >= max(1.0, COPY_SHARE * one.counts["events"]):
                original = min(one.repeats, key=lambda name: (-one.repeats[name], name))
                # Kafka itself writes some lines into two of its logs: none is a copy.
                own = {name_own_log(one.file), name_own_log(original)}
                is_copy = len(own - {None}) < 2 and original != one.file
                one.copy_of = original if is_copy else None
