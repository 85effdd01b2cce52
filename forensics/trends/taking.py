"""Finds what is new in archives: files on disk are known by their bytes, and read only once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from forensics import places
from forensics.archives.planning import named_files, nothing_to_read
from forensics.events.accounting import FileAccount
from forensics.masking import Names
from forensics.trends.manifest import Container, Log, Manifest, written

__all__ = ["Given", "given", "taken"]

_BLOCK = 1 << 20
_READERS = 4
Named = tuple[str, str]


@dataclass(frozen=True)
class Given:
    """What a run was given: all files on disk by their bytes, and where those to read are."""

    containers: Mapping[str, Container]
    # digest to path
    unread: Mapping[str, str]
    # digest to a name for the time of reading: a digest itself looks like a secret, and is masked
    keys: Mapping[str, str]
    problems: Sequence[Named]
    files: int = 0

    @property
    def work(self) -> list[Named]:
        """Give what is to be read, each by its name of now and its path."""
        return sorted((self.keys[one], path) for one, path in self.unread.items())

    def place(self, file: str) -> Named:
        """Give the digest of the container, and the place in it, that a name of now stands for."""
        key, joint, inside = file.partition("!")
        found = next(one for one, name in self.keys.items() if name == key)
        return found, joint + inside

    @property
    def size(self) -> int:
        """How many bytes are to be read."""
        return sum(self.containers[one].size for one in self.unread)


def given(archives: Sequence[str], known: Manifest, read_by: str) -> Given:
    """Look at every file on disk, and say which are to be read.

    That is what nobody has read yet, and what was read by other rules than those of now.
    """
    problems: list[Named] = []
    # One archive at a time: two of the same name are two runs' or one's, and nobody can tell.
    files = [one for archive in archives for one in named_files([archive], problems)]
    stale = {
        container
        for container, logs in known.inside().items()
        if any(log.read_by != read_by and log.superseded_by is None for log in logs)
    }
    containers: dict[str, Container] = {}
    unread: dict[str, str] = {}
    for label, path, found in _digested(files):
        if isinstance(found, OSError):
            problems.append(
                (label, f"{places.shown(path)} cannot be read: {found.strerror or found}")
            )
            continue
        one = containers.get(found.sha256, found).called(found.name)
        containers[found.sha256] = one
        if found.sha256 not in known.containers or found.sha256 in stale:
            unread.setdefault(found.sha256, path)
    if not containers:
        raise nothing_to_read(archives, problems)
    keys = {one: f"c{number}" for number, one in enumerate(sorted(unread))}
    return Given(containers, unread, keys, problems, len(files))


def taken(
    known: Manifest, new: Given, read: Mapping[str, FileAccount], read_by: str
) -> dict[str, str]:
    """Note what was read; gives each log that counts as new, and the file its events are read from.

    The accounts in `read` have the names of the time of reading.
    """
    for one in new.containers.values():
        same = known.containers.get(one.sha256, one)
        known.containers[one.sha256] = same.called(one.name)
    news: dict[str, str] = {}
    for file in sorted(read):
        log = _log(new.place(file), read[file], read_by)
        before = known.logs.get(log.id)
        if before is not None:
            all_places = before.places | log.places
            if before.read_by == read_by:
                # The same content, in another archive: one of both accounts, whichever came first.
                account = min(before.account, log.account)
                known.logs[log.id] = replace(before, places=all_places, account=account)
                continue
            log = replace(log, places=all_places, superseded_by=before.superseded_by)
        known.logs[log.id] = log
        news[log.id] = file
    return news


def _log(place: Named, account: FileAccount, read_by: str) -> Log:
    name = account.sha256 if account.sha256 and account.counts["bytes"] else "".join(place)
    return Log(name, frozenset([place]), read_by, written(account))


def _digested(files: Iterable[Named]) -> Iterator[tuple[str, str, Container | OSError]]:
    with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
        files = list(files)
        for (label, path), found in zip(files, pool.map(_container, files), strict=True):
            yield label, path, found


def _container(named: Named) -> Container | OSError:
    label, path = named
    digest, size = hashlib.sha256(), 0
    try:
        with places.opened(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return error
    return Container(digest.hexdigest(), Names().shown(label), size)
