"""A store in an object store: copied into a folder, and what a run changed put back at once.

The changes go up as a single object, the journal, and only then file by file to their places; the
journal is emptied when all is there. A run that opens a store with a journal replays it first, so
a killed run has changed nothing, or all.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from forensics.lib.folder_lock import lock_address
from forensics.lib.storage import ObjectStore
from forensics.weekly.atomic_commit import SCRATCH

_JOURNAL = ".commit.tar"
_DELETED = "gone.json"


@contextmanager
def open_remote_store(address: str, wait: float, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield a folder with the content of a store; its changes are put back if the run succeeds."""
    store = ObjectStore(address)
    with (
        lock_address(address, wait, say) as lock,
        TemporaryDirectory(prefix="kafka-forensics-") as scratch,
    ):
        folder = Path(scratch)
        _replay_journal(store)
        before = _download(store, folder)
        # A run that was killed has left there what its executors wrote.
        store.remove_folder(SCRATCH)
        try:
            yield folder
        finally:
            store.remove_folder(SCRATCH)
        lock.confirm()
        _upload_changes(store, folder, before)


def _download(store: ObjectStore, folder: Path) -> dict[str, str]:
    """Copy all files of a store, and return their digests."""
    digests = {}
    for name in filter(_is_visible, store.names()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with store.open(name) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        digests[name] = _digest(path)
    return digests


def _upload_changes(store: ObjectStore, folder: Path, before: dict[str, str]) -> None:
    paths = {path.relative_to(folder).as_posix(): path
             for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip
    changed = [name for name, path in paths.items()
               if _is_visible(name) and _digest(path) != before.get(name)]  # fmt: skip
    deleted = sorted(set(before) - set(paths))
    if not changed and not deleted:
        return
    with TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        packed = Path(scratch) / "journal.tar"
        with tarfile.open(packed, "w") as journal:
            content = json.dumps(deleted).encode()
            member = tarfile.TarInfo(_DELETED)
            member.size = len(content)
            journal.addfile(member, io.BytesIO(content))
            for name in changed:
                journal.add(paths[name], f"new/{name}")
        with packed.open("rb") as file:
            store.put(_JOURNAL, file)
    _replay_journal(store)


def _replay_journal(store: ObjectStore) -> None:
    """Do what the journal says, if there is one; doing it twice does no more than once."""
    if not store.size(_JOURNAL):
        return
    with store.open(_JOURNAL) as file, tarfile.open(fileobj=file, mode="r:") as journal:
        for member in journal:
            content = journal.extractfile(member) or io.BytesIO()
            if member.name == _DELETED:
                deleted = json.loads(content.read())
            else:
                store.put(member.name.removeprefix("new/"), content)
    for name in deleted:
        store.remove(name)
    store.put(_JOURNAL, io.BytesIO())


def _is_visible(name: str) -> bool:
    """Return True if a file is a part of the store; hidden ones belong to a run."""
    return not any(part.startswith(".") for part in name.split("/"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
