"""Tells the nodes apart that wrote to one file, and says which lines nobody can place.

Where lines have an origin (a pod, a container), each origin is a part. Else a file is cut where its
time falls back, as where one log was put behind another. A part that names one id belongs to that
node with all its lines; of a part that names several, only lines that name one themselves do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.writers import (
    FOLDER,
    ROLES,
    SERVER_ROLES,
    find_servers,
    name_origin,
    split_voice,
)
from forensics.ingest.wrapper_base import GUESSED
from forensics.parsing.time_statistics import MIN_BACKWARD_JUMP, MIN_SILENCE, Gap

if TYPE_CHECKING:
    from forensics.events.file_accounts import FileAccount
import numpy.typing as npt

from forensics.events.writers import MAX_ORIGINS, NamedWriters, build_voices, decode_origins
from forensics.ingest.documents import Splitter
from forensics.ingest.record_splitter import LineCounts, Records, RecordSplitter
from forensics.parsing.entries import read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.time_statistics import TimeStatistics
from forensics.parsing.timestamps import NO_TIME

# An id that is named so rarely beside another one is no second node.
_RARE = 200
# Of one server, no more logs than that are put together in a file.
_MAX_TURNS = 16
# Of more, each with each is not compared.
_MANY_CLIENTS = 400
# So many cuts of a file are kept; what follows is one part.
MAX_CUTS = 256
# Where the time of a file falls back: the line, the times before and behind, and how many records,
# blank and unparsed lines stand before it.
Cut = tuple[int, int, int, int, int, int]
Writer = tuple[str, str]
NodeRole = tuple[str | None, str | None]


def folder_of(name: str) -> str:
    """Return the folder of a file, or the archive at whose top it lies."""
    return name[: max(name.rfind("/"), name.rfind("!"), 0)]


def tell_clients_apart(
    files: Mapping[str, FileAccount], writers: Mapping[str, Writer | None]
) -> None:
    """Name clients by a folder further up where those of several have one name.

    The folders of containers have the same name in all pods: `pods/shop-1/app/app/logs`.
    """
    groups: dict[str, dict[tuple[str, ...], list[FileAccount]]] = defaultdict(dict)
    for name, file in files.items():
        above = re.split(r"[/!]", folder_of(name))[::-1]
        if file.role == "client" and file.node and file.node in above:
            own = tuple(above[above.index(file.node) + 1 :])
            groups[file.node].setdefault(own, []).append(file)
    for folders in groups.values():
        # The nearest folder above that is not the same for all.
        for parts in zip(*folders, strict=False):
            if len(set(parts)) > 1:
                pairs = zip(parts, folders.values(), strict=True)
                found = [(part, one) for part, own_files in pairs for one in own_files]
                if _are_many(found, writers):
                    for part, file in found:
                        file.node = part
                break


def _are_many(
    found: Sequence[tuple[str, FileAccount]], writers: Mapping[str, Writer | None]
) -> bool:
    """Whether files of different folders are of different clients: by their ids, or their times."""
    if len(found) > _MANY_CLIENTS or not all(re.search("[A-Za-z]", part) for part, _ in found):
        return False
    for (part, one), (other_part, other) in combinations(found, 2):
        ids = {writers.get(one.file), writers.get(other.file)}
        if part == other_part or (len(ids) > 1 and None not in ids):
            continue
        is_copy = bool(set(one.heads.items()) & set(other.heads.items()))
        begins = [at for at in (one.first, other.first) if at is not None]
        ends = [at for at in (one.last, other.last) if at is not None]
        if is_copy or len(begins) + len(ends) < 4 or max(begins) > min(ends):
            return False
    return True


def add_cuts(total: FileAccount, account: Mapping[str, Any], base: int) -> None:
    """Add the cuts of a split, and the one before it; `total` does not count the split yet."""
    counts = [total.counts[name] for name in ("records", "blank_lines", "unparsed_lines")]
    local: Sequence[Counter[str]] = [Counter(one) for one in account.get("stretches", ())]
    local = local or [Counter(account["writers"])]
    cuts: list[Cut] = []
    first, last = account["first"], total.last
    if first is not None and last is not None and last - first >= MIN_BACKWARD_JUMP:
        cuts.append((base + 1, last, first, counts[0], counts[1], counts[2]))
        total.stretches.append(Counter())
    for line, begin, end, *before in account.get("cuts", ()):
        at = [one + two for one, two in zip(counts, before, strict=True)]
        cuts.append((base + line, begin, end, at[0], at[1], at[2]))
    if not total.stretches:
        total.stretches.append(Counter())
    total.stretches[-1].update(local[0])
    total.stretches += local[1:]
    total.cuts += cuts
    for extra in total.stretches[MAX_CUTS + 1 :]:
        total.stretches[MAX_CUTS].update(extra)
    del total.cuts[MAX_CUTS:], total.stretches[MAX_CUTS + 1 :]


def main_writer(account: FileAccount) -> Writer | None:
    """Return the first role that the lines of a file name, and the id that they name most often."""
    for role in ROLES:
        named = {key: n for key, n in account.writers.items() if key.startswith(role + ":")}
        if named:
            best = min(named, key=lambda key: (-named[key], key))
            return role, best.partition(":")[2]
    return ("client", "") if "librdkafka" in account.layouts else None


def server_of(account: FileAccount, known: Collection[str]) -> Writer | None:
    """Return the server that lines name without its role, if other lines tell what it is."""
    servers = _servers(account.writers)
    server = min(servers, default="")
    if len(servers) != 1 or not {f"{role}:{server}" for role in SERVER_ROLES} & set(known):
        return None
    return _role_of_id(server, set(known)), server


def settle_origins(account: FileAccount) -> None:
    """Forget what stands before lines if it may be a thread as well as a writer.

    Where a layout was found in the lines, only this proves that it names writers: the file has
    lines of several servers, and behind each of these names are lines of one at most.
    """
    guessed = [origin for origin in account.origins if origin.startswith(GUESSED)]
    if not guessed:
        return
    servers = [_servers(account.origins[origin].writers) for origin in guessed]
    if len(set().union(*servers)) < 2 or any(len(some) > 1 for some in servers):
        account.origins = {}


def is_shared(account: FileAccount) -> bool:
    """Return True if several nodes wrote to a file."""
    named = [origin for origin in account.origins if origin]
    return len(named) > 1 or len(_servers(account.writers)) > 1


def _servers(writers: Mapping[str, int]) -> set[str]:
    """Return the ids of servers that are named often enough."""
    by_id: Counter[str] = Counter()
    for writer, count in writers.items():
        for identity in find_servers([writer]):
            by_id[identity] += count
    most = max(by_id.values(), default=0)
    return {identity for identity, count in by_id.items() if count * _RARE >= most}


@dataclass(frozen=True)
class Placement:
    """Which lines of a shared file belong to which node.

    Parts begin at `starts`, or each origin is one; `nodes` are theirs, None where lines must name
    their own, by `writers`.
    """

    starts: tuple[int, ...]
    nodes: tuple[str | None, ...]
    origins: Mapping[str, str | None]
    writers: Mapping[str, str]

    def place(self, lines: pa.Array, voices: pa.Array) -> pa.Array:
        """Return the nodes of events, null where nobody can tell."""
        coded = voices.dictionary_encode()
        known = [split_voice(voice) for voice in coded.dictionary.to_pylist()]
        by_origin = pa.array([self.origins.get(origin) for origin, _ in known], pa.string())
        by_name = pa.array([self.writers.get(writer) for _, writer in known], pa.string())
        named = by_name.take(coded.indices)
        if self.origins:
            return pc.coalesce(by_origin.take(coded.indices), named)
        parts = np.searchsorted(np.array(self.starts), lines.to_numpy(), "right") - 1
        own = pa.array(self.nodes, pa.string()).take(pa.array(np.maximum(parts, 0)))
        return pc.coalesce(own, named)


def place_shared(
    nodes: pa.Array, codes: pa.Array, lines: pa.Array, voices: pa.Array,
    shared: Mapping[int, Placement],
) -> pa.Array:  # fmt: skip
    """Set the nodes of events in shared files; `codes` tell by which placement, if by any."""
    numbers = codes.to_numpy() if shared else np.empty(0, np.int64)
    for code in np.unique(numbers).tolist():
        if code in shared:
            chosen = numbers == code
            rows = pa.array(np.flatnonzero(chosen))
            found = shared[code].place(lines.take(rows), voices.take(rows))
            nodes = pc.replace_with_mask(nodes, pa.array(chosen), found.cast(pa.string()))
    return nodes


def split_file(account: FileAccount, mapped: Mapping[str, str]) -> None:
    """Give each node that wrote to a file its part; `mapped` are origins that the user places."""
    known = {key for key in account.writers if key.startswith(SERVER_ROLES)}
    homes = _find_homes(account)
    parts = list(_origin_parts(account) if len(account.origins) > 1 else _stretches(account))
    owners = [_owner(part, known, mapped) for part in parts]
    if len(account.origins) > 1:
        # Of what stands beside the lines of several, each line must name its node.
        owners = [
            owner if part.origin else (None, None)
            for part, owner in zip(parts, owners, strict=True)
        ]
    elif _is_interleaved(parts):
        owners = [(None, None)] * len(parts)
    else:
        owners = _between_equals(owners, [not _servers(part.writers) for part in parts])
    by_node: dict[NodeRole, list[FileAccount]] = defaultdict(list)
    writers: dict[str, str] = {}
    for part, owner in zip(parts, owners, strict=True):
        if owner[1] is None:
            for key, named in _take_named(part, known, homes):
                writers[key] = str(named.node)
                by_node[named.role, named.node].append(named)
        by_node[owner].append(part)
    nodes = tuple(node for _, node in owners)
    by_origin = {part.origin: node for part, node in zip(parts, nodes, strict=True) if part.origin}
    starts = tuple(part.begins for part in parts)
    account.placement = Placement(starts, nodes, by_origin, writers)
    order = sorted(by_node, key=lambda one: (one[1] is None, one[1] or "", one[0] or ""))
    account.parts = [_merge(account, by_node[one], *one) for one in order]
    _share_bytes(account)
    account.node = None
    roles = [part.role for part in account.parts if part.role]
    account.role = min(roles, key=ROLES.index, default=None)


def _share_bytes(account: FileAccount) -> None:
    """Share the bytes of a file among its nodes by their lines: nobody counts them one by one."""
    left, lines = account.counts["bytes"], sum(part.counts["lines"] for part in account.parts)
    for part in account.parts:
        part.counts["bytes"] = left * part.counts["lines"] // max(1, lines)
        left, lines = left - part.counts["bytes"], lines - part.counts["lines"]


def _is_interleaved(parts: Iterable[FileAccount]) -> bool:
    """Return True if time falls back because writers with different clocks take turns.

    Logs that were put one behind the other have few stretches each.
    """
    turns = Counter(server for part in parts for server in _servers(part.writers))
    return max(turns.values(), default=0) > _MAX_TURNS


def _owner(part: FileAccount, known: set[str], mapped: Mapping[str, str]) -> NodeRole:
    """Return the role and the node of a part, if all of its lines are of one node."""
    if part.origin in mapped:
        return role_of(mapped[part.origin]), mapped[part.origin]
    if len(_servers(part.writers)) > 1:
        return None, None
    writer = main_writer(part)
    server = min(_servers(part.writers), default=None)
    if server is not None:
        writer = _role_of_id(server, known), server
    if writer is None or (writer[0] == "client" and not part.origin):
        return None, None
    role, identity = writer
    if role == "client":
        return role, name_origin(part.origin) or identity
    name = name_origin(part.origin)
    if role == "controller":
        return role, name if "controller" in name.lower() else f"controller-{identity}"
    return "broker", f"broker-{identity}"


def _role_of_id(identity: str, known: set[str]) -> str:
    """Return the role of a server: one that is broker and controller at once is a broker."""
    is_controller = f"controller:{identity}" in known and f"broker:{identity}" not in known
    return "controller" if is_controller else "broker"


def role_of(node: str) -> str:
    """Return the role of a node by its name."""
    role = node.partition("-")[0]
    return role if role in SERVER_ROLES else "client"


def _between_equals(owners: Sequence[NodeRole], silent: Sequence[bool]) -> list[NodeRole]:
    """Give a part that names nobody to the node of both its neighbours, if they are of one."""
    filled = list(owners)
    for number in range(1, len(filled) - 1):
        following = next((one for one in owners[number + 1 :] if one[1]), (None, None))
        if silent[number] and filled[number - 1][1] == following[1]:
            filled[number] = filled[number - 1]
    return filled


def _find_homes(account: FileAccount) -> dict[str, str]:
    """Return the server of each log folder, by its settings; none if two servers may share one.

    Whose settings are not in the file may keep its logs in a folder of the same name.
    """
    told = {server for server, _ in account.folders}
    if not _servers(account.writers) <= told:
        return {}
    owners: dict[str, set[str]] = defaultdict(set)
    for server, folder in account.folders:
        owners[folder].add(server)
    return {
        f"{FOLDER}:{folder}": next(iter(servers))
        for folder, servers in owners.items()
        if len(servers) == 1
    }


def _take_named(
    part: FileAccount, known: set[str], homes: Mapping[str, str]
) -> Iterator[tuple[str, FileAccount]]:
    """Take the lines that name their node, or its folder, out of a part of several."""
    servers = _servers(part.writers)
    for key, count in sorted(part.writers.items()):
        identity = homes.get(key, "") or key.partition(":")[2]
        if identity not in servers or not (find_servers([key]) or key in homes):
            continue
        role = _role_of_id(identity, known)
        named = part.new_part(node=f"{role}-{identity}", role=role)
        records = min(count, part.counts["records"])
        for name in ("lines", "records"):
            named.counts[name] += records
            part.counts[name] -= records
        yield key, named


def _origin_parts(account: FileAccount) -> Iterator[FileAccount]:
    rest = replace(account.origins.get("", account.new_part()), origin="")
    rest.counts, rest.writers = Counter(account.counts), Counter(account.writers)
    for origin, part in sorted(account.origins.items()):
        if origin:
            yield replace(part, origin=origin, counts=Counter(part.counts))
            rest.counts -= part.counts
            rest.writers -= part.writers
    # Lines around which nothing stands.
    if rest.counts["lines"] > 0:
        yield rest


def _stretches(account: FileAccount) -> Iterator[FileAccount]:
    """Yield the stretches between the cuts of a file, each with its own counts.

    Where no line has a time, the file is one.
    """
    counts = account.counts
    names = ("records", "blank_lines", "unparsed_lines")
    ends = counts["lines"] + 1, account.last or 0, 0
    whole: Cut = (*ends, counts[names[0]], counts[names[1]], counts[names[2]])
    begin, before, line = account.first, (0, 0, 0), 1
    for number, (end, last, then, *at) in enumerate((*account.cuts, whole)):
        part = account.new_part()
        part.begins, part.first = line, begin
        part.last = None if account.last is None else last
        done = dict(zip(names, map(int.__sub__, at, before), strict=True))
        part.counts.update(lines=end - line, **done)
        part.counts["continuation_lines"] = end - line - sum(done.values())
        part.writers = account.stretches[number]
        part.gaps = [gap for gap in account.gaps if line < gap[2] < end]
        yield part
        line, begin, before = end, then, (at[0], at[1], at[2])


def _merge(
    account: FileAccount, parts: Sequence[FileAccount], role: str | None, node: str | None
) -> FileAccount:
    """Sum the parts of one node."""
    merged = account.new_part(node=node, role=role)
    merged.levels = Counter()
    merged.begins = min(part.begins for part in parts)
    for part in parts:
        merged.counts.update(part.counts)
        merged.levels.update(part.levels)
        merged.writers.update(part.writers)
    covered = sorted(piece for part in parts for piece in _covered(part))
    if covered:
        merged.first, reach = covered[0][:2]
        for begin, end, line in covered[1:]:
            if begin - reach >= MIN_SILENCE:
                merged.gaps.append((reach, begin, line))
            reach = max(reach, end)
        merged.last = reach
    return merged


def _covered(part: FileAccount) -> Iterator[Gap]:
    """Yield from when to when a part has lines, and the first of them."""
    if part.first is None or part.last is None:
        return
    begin, line = part.first, part.begins
    for low, high, at in sorted(part.gaps):
        if low >= begin:
            yield begin, low, line
            begin, line = high, at
    yield begin, max(begin, part.last), line


def list_node_accounts(files: Iterable[FileAccount]) -> list[FileAccount]:
    """Return an account for each file and node: of a shared file its parts."""
    return [part for file in files for part in (file.parts or [file])]


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
        known = np.array([self._number(name) for name in coded.dictionary.to_pylist()], np.int64)
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
        if not len(self._named_at):
            return pa.nulls(len(offsets), pa.string())
        texts, codes = pa.array(self._texts, pa.string()), self._origins_of(offsets)
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
