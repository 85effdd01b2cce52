"""Finds what is new in archives: files on disk are known by their bytes, and read only once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from forensics.events.file_accounts import FileAccount
from forensics.ingest.inputs import Inputs
from forensics.ingest.read_plan import list_files, nothing_to_read_error
from forensics.lib import storage
from forensics.lib.secrets import NameMasker
from forensics.weekly.manifest import Container, Log, Manifest, account_json

_MAX_READERS = 4
# A name, and a path, a problem or a place.
NamePair = tuple[str, str]


@dataclass(frozen=True)
class NewInputs:
    """What a run was given: all files on disk by their bytes, and the paths of those to read."""

    containers: Mapping[str, Container]
    # digest to path
    unread: Mapping[str, str]
    # a name while reading, to digest: a digest itself looks like a secret, and would be masked
    digests: Mapping[str, str]
    problems: Sequence[NamePair]
    file_count: int

    @property
    def files_to_read(self) -> list[NamePair]:
        """The name of each file while reading, and its path."""
        return sorted((name, self.unread[digest]) for name, digest in self.digests.items())

    @property
    def bytes_to_read(self) -> int:
        """The size of all files to read."""
        return sum(self.containers[digest].size for digest in self.unread)

    def place_of(self, file: str) -> NamePair:
        """Return the digest of the container, and the place in it, of a name while reading."""
        name, separator, inside = file.partition("!")
        return self.digests[name], separator + inside


def find_new_inputs(inputs: Inputs, manifest: Manifest, read_by: str) -> NewInputs:
    """Find the files that were never read, or that were read by other rules than these."""
    problems: list[NamePair] = list(inputs.problems)
    archives = inputs.archives
    # List archives one by one: equal names of different runs are not told apart by each other.
    files = [file for archive in archives for file in list_files([archive], problems)]
    files += list_files((), problems, spooled=inputs.spooled)
    stale = manifest.stale_containers(read_by)
    containers: dict[str, Container] = {}
    unread: dict[str, str] = {}
    with ThreadPoolExecutor(min(_MAX_READERS, os.cpu_count() or 1)) as pool:
        digested = pool.map(_digest_container, files)
    for (label, path), found in zip(files, digested, strict=True):
        if isinstance(found, OSError):
            reason = f"{storage.display(path)} cannot be read: {found.strerror or found}"
            problems.append((label, reason))
            continue
        digest = found.sha256
        containers[digest] = containers.get(digest, found).with_name(found.name)
        if digest not in manifest.containers or digest in stale:
            unread.setdefault(digest, path)
    if not containers:
        raise nothing_to_read_error([*archives, *(name for name, _ in inputs.spooled)], problems)
    digests = {f"c{number}": digest for number, digest in enumerate(sorted(unread))}
    return NewInputs(containers, unread, digests, problems, len(files))


def _digest_container(file: NamePair) -> Container | OSError:
    label, path = file
    digest, size = hashlib.sha256(), 0
    try:
        with storage.open_file(path) as content:
            while block := content.read(1 << 20):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return error
    return Container(digest.hexdigest(), NameMasker().mask(label), size)


def register_inputs(
    manifest: Manifest, new: NewInputs, accounts: Mapping[str, FileAccount], read_by: str
) -> dict[str, str]:
    """Note what was read; return the id of each new log, and the file its events are read from.

    Accounts and files have the names that they had while reading.
    """
    for digest, container in new.containers.items():
        known = manifest.containers.get(digest, container)
        manifest.containers[digest] = known.with_name(container.name)
    new_logs: dict[str, str] = {}
    for file in sorted(accounts):
        log = _build_log(new.place_of(file), accounts[file], read_by)
        known_log = manifest.logs.get(log.id)
        if known_log is not None:
            places = known_log.places | log.places
            if known_log.read_by == read_by:
                # The same content in another archive: of two accounts keep one, in any order.
                account = min(known_log.account, log.account)
                manifest.logs[log.id] = replace(known_log, places=places, account=account)
                continue
            log = replace(log, places=places, superseded_by=known_log.superseded_by)
        manifest.logs[log.id] = log
        new_logs[log.id] = file
    return new_logs


def _build_log(place: NamePair, account: FileAccount, read_by: str) -> Log:
    id_ = account.sha256 if account.sha256 and account.counts["bytes"] else "".join(place)
    return Log(id_, frozenset([place]), read_by, account_json(account))
