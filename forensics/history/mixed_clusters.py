"""Tells clusters apart that name no id, or the same one: what one says the others contradict.

A partition has one leader in a leader epoch, and a controller epoch one controller. Where files
contradict each other in many of them, at the same time, and fall into groups that agree within
themselves, they are of several clusters. A topic that was created again contradicts what came
before it, and so does a file that tells of both: these are left out, unless a file says now the one
and now the other. It then holds lines of several clusters.

Clusters without a common topic contradict each other in nothing. There a node that writes the same
kinds of lines in two places at once is two processes; at different times it is only said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import ForensicsError
from forensics.history.cluster_ids import Place as NamedPlace
from forensics.history.cluster_ids import ancestors, describe_files, divide_files
from forensics.lib.arrow_io import read_batches
from forensics.lib.text_format import join_names
from forensics.lib.time_units import MINUTE

_STATES = ("partition_state", "leaders_listed")
_CONTROLLERS = ("controller_elected", "controller_seen")
_KEY = ("topic", "partition", "epoch")
_PLACE = ("file", "node")
_COLUMNS = (
    "kind", "topic", "partition", "leader", "leader_epoch", "controller", "controller_epoch",
    "file", "node", "line", "ts",
)  # fmt: skip
# So many epochs must be contradicted, of so many partitions: one may be a line that is misread.
_MIN_EPOCHS, _MIN_PARTITIONS = 3, 2
# Two clusters agree by chance, but not in nearly all that both tell of.
_MIN_SHARE = 0.1
# So many contradicted epochs are looked at.
_MAX_EPOCHS = 2_000
# So many claims are compared for each of them.
_MAX_CLAIMS = 60

# A file, and the node that wrote to it.
Place = tuple[str, str]
Key = tuple[str, int, int]


class _Claim(NamedTuple):
    """Who leads in an epoch, by one place: at which line first, and from when to when."""

    key: Key
    leader: int
    place: Place
    line: int
    begin: int
    end: int

    def __str__(self) -> str:
        """Quote where it is said."""
        return f"{self.leader} ({self.place[0]}:{self.line})"


class Contradiction(NamedTuple):
    """What two clusters contradict each other in."""

    epochs: int
    one: _Claim
    other: _Claim

    def __str__(self) -> str:
        """Say what is contradicted, with an example."""
        topic, partition, epoch = self.one.key
        whose = f"the leader of {topic}-{partition}" if topic else "the controller"
        return (
            f"They contradict each other in {self.epochs:,} epochs: in epoch {epoch} {whose} is"
            f" {self.one} and {self.other}"
        )


def refuse_contradictions(files: Iterable[str], events: Path) -> None:
    """Raise an error that names the files of each cluster, if lines prove that it is not one."""
    found = find_clusters(events)
    if found is None:
        return
    groups, contradiction = found
    if not groups:
        raise ForensicsError(
            f"{contradiction.one.place[0]} has lines of several clusters that no id tells apart."
            f" {contradiction}, by turns. Give the lines of each cluster in files of their own, or"
            f" --cluster any to read them as one, whose history is not to be trusted."
        )
    names: dict[NamedPlace, set[str]] = {
        place: {str(number)} for number, group in enumerate(groups) for place in group
    }
    clusters, unnamed, above = divide_files(files, names)
    told = "; ".join(f"{describe_files(one.files, above)}" for one in clusters)
    rest = f" Nothing tells whose these are: {describe_files(unnamed, above)}." if unnamed else ""
    raise ForensicsError(
        f"These are logs of {len(clusters)} clusters that no id tells apart. {contradiction}."
        f" Their files: {told}.{rest} Run the command once for each cluster, with its files alone,"
        f" or with --cluster any to read them as one, whose history is not to be trusted."
    )


def find_clusters(events: Path) -> tuple[Sequence[frozenset[Place]], Contradiction] | None:
    """Find the places of each cluster, if there are several, and what they contradict.

    There are no groups if one place has lines of several clusters.
    """
    by_key: dict[Key, list[_Claim]] = defaultdict(list)
    for claim in _list_claims(events, _find_disputed(events)):
        by_key[claim.key].append(claim)
    turns: dict[Place, list[tuple[_Claim, _Claim]]] = defaultdict(list)
    for key, claims in list(by_key.items()):
        if len({one.place for one in claims}) < len(claims):
            for one, other in _find_turns(claims):
                turns[one.place].append((one, other))
            # Who contradicts itself may have seen a topic that was created again.
            del by_key[key]
    for pairs in (turns[place] for place in sorted(turns)):
        if _is_enough(pairs):
            return (), Contradiction(len(pairs), *pairs[0])
    sides = _find_sides(by_key)
    if sides is None:
        return None
    contradicted = list(_contradicted_at_once(by_key, sides))
    shared = min(_count_shared(events, sides), _MAX_EPOCHS)
    if not _is_enough(contradicted) or len(contradicted) < _MIN_SHARE * shared:
        return None
    groups: dict[int, set[Place]] = defaultdict(set)
    for place, side in sides.items():
        groups[side].add(place)
    ordered = sorted((frozenset(group) for group in groups.values()), key=min)
    return ordered, Contradiction(len(contradicted), *contradicted[0])


def _is_enough(pairs: Sequence[tuple[_Claim, _Claim]]) -> bool:
    """Return True if so many epochs are contradicted that no misread line did it."""
    partitions = {one.key[:2] for one, _ in pairs}
    return len(pairs) >= _MIN_EPOCHS and len(partitions) >= _MIN_PARTITIONS


def _find_turns(claims: Sequence[_Claim]) -> Iterator[tuple[_Claim, _Claim]]:
    """Yield for each place two claims of one epoch that it repeats by turns."""
    found = set()
    for one, other in combinations(claims[:_MAX_CLAIMS], 2):
        by_turns = one.begin < other.begin < one.end or other.begin < one.begin < other.end
        if one.place == other.place and by_turns and one.place not in found:
            found.add(one.place)
            yield one, other


def _read_leaders(events: Path) -> Iterator[pa.Table]:
    """Read who says, in which lines, who leads in which epochs."""
    where = pc.field("kind").isin((*_STATES, *_CONTROLLERS))
    where &= pc.field("node").is_valid() & pc.field("ts").is_valid()
    return map(_name_leaders, read_batches(events, list(_COLUMNS), where))


def _find_disputed(events: Path) -> pa.Table:
    """Find the epochs for which several leaders are named; one cluster has few or none."""
    keys = [*_KEY, "leader"]
    named = [one.group_by(keys, use_threads=False).aggregate([]) for one in _read_leaders(events)]
    if not named:
        return pa.table({name: [] for name in _KEY})
    leaders = pa.concat_tables(named).group_by(list(_KEY), use_threads=False)
    counted = leaders.aggregate([("leader", "count_distinct")])
    several = counted.filter(pc.greater(counted["leader_count_distinct"], 1)).select(_KEY)
    return several.sort_by([(name, "ascending") for name in _KEY]).slice(0, _MAX_EPOCHS)


def _list_claims(events: Path, disputed: pa.Table) -> Iterator[_Claim]:
    """Yield what each place says of the disputed epochs."""
    found = [
        _group(one.join(disputed, list(_KEY), join_type="inner", use_threads=False))
        for one in (_read_leaders(events) if len(disputed) else ())
    ]
    order = [(name, "ascending") for name in (*_KEY, "leader", *_PLACE)]
    for row in _group(pa.concat_tables(found)).sort_by(order).to_pylist() if found else ():
        key, place = (row["topic"], row["partition"], row["epoch"]), (row["file"], row["node"])
        yield _Claim(key, row["leader"], place, row["line"], row["begin"], row["end"])


def _count_shared(events: Path, sides: Mapping[Place, int]) -> int:
    """Count the epochs of which several sides tell."""
    rows = [{"file": file, "node": node, "side": side} for (file, node), side in sides.items()]
    places, keys = pa.Table.from_pylist(rows), [*_KEY, "side"]
    told = [
        one.join(places, list(_PLACE), join_type="inner").group_by(keys).aggregate([])
        for one in _read_leaders(events)
    ]
    counted = pa.concat_tables(told).group_by(list(_KEY)).aggregate([("side", "count_distinct")])
    return int(pc.sum(pc.greater(counted["side_count_distinct"], 1)).as_py() or 0)


def _name_leaders(batch: pa.RecordBatch) -> pa.Table:
    """Return who leads a partition, or the cluster, in an epoch; the cluster has no topic."""
    is_state = pc.is_in(batch["kind"], pa.array(_STATES))
    times = batch["ts"].cast(pa.int64())
    table = pa.table(
        {
            "topic": pc.if_else(is_state, batch["topic"], ""),
            "partition": pc.if_else(is_state, batch["partition"], pa.scalar(-1, pa.int32())),
            "epoch": pc.if_else(is_state, batch["leader_epoch"], batch["controller_epoch"]),
            "leader": pc.if_else(is_state, batch["leader"], batch["controller"]),
            "file": batch["file"],
            "node": batch["node"],
            "line": batch["line"],
            "begin": times,
            "end": times,
        }
    )
    known = [table[name].is_valid() for name in ("topic", "partition", "epoch", "leader")]
    for one in known[1:]:
        known[0] = pc.and_(known[0], one)
    return table.filter(known[0])


def _group(table: pa.Table) -> pa.Table:
    keys, figures = [*_KEY, "leader", *_PLACE], {"line": "min", "begin": "min", "end": "max"}
    found = table.group_by(keys, use_threads=False).aggregate(list(figures.items()))
    found = found.select([*keys, *("_".join(one) for one in figures.items())])
    return found.rename_columns([*keys, *figures])


def _find_sides(by_key: Mapping[Key, Sequence[_Claim]]) -> dict[Place, int] | None:
    """Number the sides of places that contradict each other; None if all agree."""
    # How much more often two places contradict each other than they agree.
    disputes: dict[Place, Counter[Place]] = defaultdict(Counter)
    for claims in by_key.values():
        for one, other in combinations(claims[:_MAX_CLAIMS], 2):
            weight = 1 if one.leader != other.leader else -1
            disputes[one.place][other.place] += weight
            disputes[other.place][one.place] += weight
    sides: dict[Place, int] = {}
    # Those that contradict most are placed first.
    for place in sorted(disputes, key=lambda one: (-disputes[one].total(), one)):
        balance: Counter[int] = Counter()
        opposed = set()
        for near, weight in disputes[place].items():
            if near in sides:
                balance[sides[near]] += weight
                opposed |= {sides[near]} if weight > 0 else set()
        free = sorted(set(sides.values()) - opposed, key=lambda side: (balance[side], side))
        sides[place] = free[0] if free else len(set(sides.values()))
    return sides if len(set(sides.values())) > 1 else None


def _contradicted_at_once(
    by_key: Mapping[Key, Sequence[_Claim]], sides: Mapping[Place, int]
) -> Iterator[tuple[_Claim, _Claim]]:
    """Yield two claims of each epoch that sides contradict, who tell of the topic at one time."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for claims in by_key.values():
        for claim in claims:
            side = claim.key[0], sides[claim.place]
            low, high = spans.get(side, (claim.begin, claim.end))
            spans[side] = min(low, claim.begin), max(high, claim.end)
    for key, claims in by_key.items():
        for one, other in combinations(claims[:_MAX_CLAIMS], 2):
            pair = [spans[key[0], sides[claim.place]] for claim in (one, other)]
            overlap = min(high for _, high in pair) - max(low for low, _ in pair)
            if one.leader != other.leader and overlap > 0:
                yield one, other
                break


# So many topics of its own must each side name, and of so many nodes must there be two at another
# time, since a cluster may get other topics.
_MIN_TOPICS, _MIN_NODES = 3, 2
_WRITTEN = ("folder", "node", "topic", "rule", "begin", "end")
_MAX_FOLDERS = 3


class Strangers(NamedTuple):
    """Folders with logs of the same nodes, whose topics have nothing in common.

    `at_once`: a node writes the same kinds of lines in both at the same time.
    """

    folders: tuple[frozenset[str], frozenset[str]]
    nodes: Sequence[str]
    topics: tuple[str, str]
    at_once: bool

    @property
    def names(self) -> tuple[str, str]:
        """The highest folders that hold nothing of the other."""
        one, other = (frozenset(_with_ancestors(some)) for some in self.folders)
        return _name_folders(self.folders[0], other), _name_folders(self.folders[1], one)

    def __str__(self) -> str:
        """Say why they may be of two clusters."""
        one, other = self.names
        nodes = join_names(list(self.nodes), _MAX_FOLDERS)
        when = "at the same time " if self.at_once else ""
        return (
            f"{nodes} wrote {when}in {one} of {self.topics[0]} and more, and in {other} of"
            f" {self.topics[1]} and more, and no topic of the one is named in the other"
        )


def _with_ancestors(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        yield from (folder, *ancestors(folder))


def _name_folders(own: Iterable[str], others: frozenset[str]) -> str:
    highest = set()
    for folder in own:
        alone = [one for one in _with_ancestors([folder]) if one not in others]
        highest.add(alone[-1] if alone else folder)
    return join_names(sorted(highest), _MAX_FOLDERS)


def refuse_strangers(events: Path) -> Strangers | None:
    """Raise an error if one node is two processes; return what only may be two clusters."""
    found = find_strangers(events)
    if found is None or not found.at_once:
        return found
    raise ForensicsError(
        f"These are logs of several clusters that no id tells apart: {found}. Run the command once"
        " for each cluster, with its files alone, or with --cluster any to read them as one, whose"
        " history is not to be trusted."
    )


def find_strangers(events: Path) -> Strangers | None:
    """Find folders of the same nodes without a common topic; internal topics are everywhere."""
    written = _read_written(events)
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, node in _distinct(written, "folder", "node"):
        folders[node].add(folder)
    if all(len(some) < 2 for some in folders.values()):
        return None
    topics: dict[str, set[str]] = defaultdict(set)
    for row in (
        written.select(["folder", "topic"]).group_by(["folder", "topic"]).aggregate([]).to_pylist()
    ):
        if row["topic"] and not row["topic"].startswith("_"):
            topics[row["folder"]].add(row["topic"])
    groups = _join_by_topics(topics)
    for one, other in combinations(groups, 2):
        named = [set().union(*(topics[folder] for folder in group)) for group in (one, other)]
        if min(map(len, named)) < _MIN_TOPICS:
            continue
        both = [node for node, some in sorted(folders.items()) if some & one and some & other]
        busy = [node for node in both if _writes_at_once(written, node, one, other)]
        if busy or len(both) >= _MIN_NODES:
            first, second = (min(some) for some in named)
            return Strangers((one, other), busy or both, (first, second), bool(busy))
    return None


def _distinct(table: pa.Table, one: str, other: str) -> Iterator[tuple[str, str]]:
    pairs = table.group_by([one, other], use_threads=False).aggregate([])
    return zip(pairs[one].to_pylist(), pairs[other].to_pylist(), strict=True)


def _read_written(events: Path) -> pa.Table:
    """Read which nodes wrote lines by which rules of which topics in which folders, and when."""
    keys = ["file", "node", "topic", "rule"]
    where = pc.field("node").is_valid() & pc.field("ts").is_valid()
    where &= pc.starts_with(pc.field("node"), "broker-") | pc.starts_with(
        pc.field("node"), "controller-"
    )
    found = []
    for batch in read_batches(events, [*keys, "ts"], where):
        times = batch["ts"].cast(pa.int64())
        table = pa.table({name: batch[name] for name in keys} | {"begin": times, "end": times})
        found.append(_sum_written(table, keys))
    if not found:
        return pa.table({name: [] for name in _WRITTEN})
    whole = _sum_written(pa.concat_tables(found), keys)
    folders = pc.replace_substring_regex(whole["file"], r"(?:^|[/!])[^/!]*$", "")
    table = whole.append_column("folder", folders).drop_columns(["file"])
    return _sum_written(table, ["folder", *keys[1:]])


def _sum_written(table: pa.Table, keys: list[str]) -> pa.Table:
    found = table.group_by(keys, use_threads=False).aggregate([("begin", "min"), ("end", "max")])
    return found.rename_columns({"begin_min": "begin", "end_max": "end"})


def _join_by_topics(topics: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Join folders that name the same topic."""
    groups: list[tuple[set[str], set[str]]] = []
    for folder in sorted(topics):
        mine = [group for group in groups if group[1] & topics[folder]]
        joined = ({folder}.union(*(one[0] for one in mine)),
                  topics[folder].union(*(one[1] for one in mine)))  # fmt: skip
        groups = [group for group in groups if group not in mine] + [joined]
    return sorted((frozenset(folders) for folders, _ in groups), key=min)


def _writes_at_once(
    written: pa.Table, node: str, one: frozenset[str], other: frozenset[str]
) -> bool:
    """Return True if a node wrote lines of the same rules in two groups of folders by turns."""
    own = written.filter(pc.equal(written["node"], node))
    spans = []
    for group in (one, other):
        rows = own.filter(pc.is_in(own["folder"], pa.array(sorted(group)))).to_pylist()
        spans.append({rule: _span_of(rows, rule) for rule in {row["rule"] for row in rows}})
    for rule in spans[0].keys() & spans[1].keys():
        overlap = min(span[rule][1] for span in spans) - max(span[rule][0] for span in spans)
        if overlap > MINUTE:
            return True
    return False


def _span_of(rows: Sequence[Mapping[str, int]], rule: object) -> tuple[int, int]:
    some = [row for row in rows if row["rule"] == rule]
    return min(row["begin"] for row in some), max(row["end"] for row in some)
