"""Which cluster logs are of, by the ids that brokers and controllers log as they start.

Two clusters have brokers of the same ids. Mixed, the one's epochs would fall over the other's, so
logs of two clusters are refused, with what is whose, unless the user names one of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from forensics.errors import ForensicsError
from forensics.lib.arrow_io import read_batches
from forensics.lib.text_format import join_names, quantity

# What names the cluster of the process that logs it.
_KINDS = ("cluster_seen", "controller_created")
_STARTING = "broker.starting@"
_MAX_NAMED = 6
# What is asked for instead of an id where all are to be read as one.
ANY_CLUSTER = "any"
# The folder of a file, or the file itself, and the node that wrote it.
Place = tuple[str, str | None]


def find_cluster_ids(events: Path) -> dict[Place, set[str]]:
    """Find the ids of clusters that each node names, by the folder of its files."""
    found: dict[Place, set[str]] = defaultdict(set)
    rule = pc.field("rule")
    where = pc.field("kind").isin(_KINDS) | pc.starts_with(rule, pattern=_STARTING)
    for batch in read_batches(events, ["file", "node", "detail"], where):
        for row in batch.to_pylist():
            # Kafka 3.x closes one of these lines with a full stop.
            if cluster := (row["detail"] or "").rstrip("."):
                found[_folder(row["file"]), row["node"]].add(cluster)
    return dict(found)


class ClusterFiles(NamedTuple):
    """The files of one cluster, and its ids: one that it changed has two."""

    ids: frozenset[str]
    files: Sequence[str]


def refuse_several_clusters(files: Iterable[str], ids: Mapping[Place, set[str]]) -> None:
    """Raise an error that names the files of each cluster, if there are several.

    A node that moved to another cluster names both of them: that is one history.
    """
    clusters, unnamed, above = divide_files(files, ids)
    if len(clusters) < 2:
        return
    told = [
        f"{' and '.join(sorted(one.ids))}: {describe_files(one.files, above)}" for one in clusters
    ]
    rest = f" No line tells whose these are: {describe_files(unnamed, above)}." if unnamed else ""
    raise ForensicsError(
        f"These are logs of {len(clusters)} clusters, and a history is of one."
        f" {'; '.join(told)}.{rest} Run the command once for each cluster, with its files alone, or"
        f" with --cluster ID."
    )


def leave_out_others(
    files: Iterable[str], ids: Mapping[Place, set[str]], wanted: str, *, must_name: bool = True
) -> Mapping[str, str]:
    """Return the files that are not of the wanted cluster, each with the reason.

    Unless the wanted one must be named, all that names none may be of it.
    """
    clusters, unnamed, _ = divide_files(files, ids)
    is_named = any(wanted in one.ids for one in clusters)
    if must_name and not is_named:
        known = join_names(sorted(set().union(*(one.ids for one in clusters))), _MAX_NAMED)
        raise ForensicsError(
            f"--cluster {wanted}: no line names this cluster; these logs name {known or 'none'}."
        )
    if is_named and len(clusters) == 1:
        return {}
    others = {
        file: "of another cluster, left out by --cluster"
        for one in clusters
        if wanted not in one.ids
        for file in one.files
    }
    reason = "no line names which cluster; left out by --cluster"
    return others | dict.fromkeys(unnamed if is_named else (), reason)


def divide_files(
    files: Iterable[str], ids: Mapping[Place, set[str]]
) -> tuple[list[ClusterFiles], list[str], Mapping[str, set[int]]]:
    """Divide files among clusters by the folders around them; some may be of none.

    Also returns which clusters have files below each folder.
    """
    groups = _join_groups(ids)
    above: dict[str, set[int]] = defaultdict(set)
    for number, (_, places) in enumerate(groups):
        for folder, _ in places:
            for one in (folder, *ancestors(folder)):
                above[one].add(number)
    unnamed: list[str] = []
    members: list[list[str]] = [[] for _ in groups]
    for file in sorted(files):
        nearest = next((above[one] for one in (file, *ancestors(file)) if one in above), set())
        (members[min(nearest)] if len(nearest) == 1 else unnamed).append(file)
    clusters = [
        ClusterFiles(frozenset(group[0]), names)
        for group, names in zip(groups, members, strict=True)
    ]
    return clusters, unnamed, above


def _join_groups(ids: Mapping[Place, set[str]]) -> list[tuple[set[str], list[Place]]]:
    """Join places that name the same id, and ids that one place names."""
    groups: list[tuple[set[str], list[Place]]] = []
    for place in sorted(ids, key=str):
        mine = [group for group in groups if group[0] & ids[place]]
        clusters = ids[place].union(*(group[0] for group in mine))
        places = [one for group in mine for one in group[1]]
        groups = [group for group in groups if group not in mine]
        groups.append((clusters, [*places, place]))
    return sorted(groups, key=lambda group: min(map(str, group[1])))


def _folder(file: str) -> str:
    return next(iter(ancestors(file)), file)


def ancestors(file: str) -> list[str]:
    """Return the folders and archives around a file, the nearest first.

    >>> ancestors("logs.tgz!broker-1/server.log")
    ['logs.tgz!broker-1', 'logs.tgz']
    """
    return [file[: at.start()] for at in re.finditer(r"[/!]", file)][::-1]


def describe_files(files: Sequence[str], above: Mapping[str, set[int]]) -> str:
    """Name some files by the highest folders that hold nothing of another cluster."""
    if not files:
        return "lines in files that name others, too"
    folders = set()
    for file in files:
        own = [one for one in ancestors(file) if len(above.get(one, ())) < 2]
        folders.add(own[-1] if own else file)
    return f"{quantity(len(files), 'file')} in {join_names(sorted(folders), _MAX_NAMED)}"
