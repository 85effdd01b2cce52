"""A store behind an address: worked on in a folder of this machine, and put back in one stroke.

What a run has changed goes up as a single object, the journal, and only then file by file to its
place; the journal is emptied when all is there. Whoever opens a store whose journal is not empty
follows it first, so that a run that was killed has changed nothing, or all.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from forensics.lib.storage import ObjectStore, display
from forensics.weekly.store_files import StoreHeldError, describe_owner, lock_owner

_JOURNAL = ".commit.tar"
_GONE = "gone.json"
_LOCK = ".lock"
# A store of objects cannot lock: who writes its name there waits whether another one does, too.
_SETTLING = 2.0
_PAUSE = 1.0
# A run that was killed leaves its name behind; nobody audits for longer than that.
_FORGOTTEN = 24 * 3600.0


@contextmanager
def open_remote_store(address: str, wait: float, say: Callable[[str], None]) -> Iterator[Path]:
    """Give a folder that holds what the store holds; what is changed in it is put back at the end.

    If what is done with it fails, the store stays as it was.
    """
    store = ObjectStore(address)
    with _held(store, address, wait, say), TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        folder = Path(scratch)
        _follow(store)
        before = _fetch(store, folder)
        yield folder
        _put_back(store, folder, before)


def _fetch(store: ObjectStore, folder: Path) -> dict[str, str]:
    """Copy all that is kept, and say what it is."""
    found = {}
    for name in store.names():
        if _is_kept(name):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with store.open(name) as there, path.open("wb") as here:
                shutil.copyfileobj(there, here)
            found[name] = _digest(path)
    return found


def _put_back(store: ObjectStore, folder: Path, before: dict[str, str]) -> None:
    now = {
        name: path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _is_kept(name := path.relative_to(folder).as_posix())
    }
    changed = [name for name, path in now.items() if _digest(path) != before.get(name)]
    gone = sorted(set(before) - set(now))
    if not changed and not gone:
        return
    with TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        packed = Path(scratch) / "journal.tar"
        with tarfile.open(packed, "w") as written:
            said = json.dumps(gone).encode()
            told = tarfile.TarInfo(_GONE)
            told.size = len(said)
            written.addfile(told, io.BytesIO(said))
            for name in changed:
                written.add(now[name], f"new/{name}")
        with packed.open("rb") as journal:
            store.put(_JOURNAL, journal)
    _follow(store)


def _follow(store: ObjectStore) -> None:
    """Do what the journal says, if it says anything; doing it twice does no more than once."""
    if not store.size(_JOURNAL):
        return
    with store.open(_JOURNAL) as file, tarfile.open(fileobj=file, mode="r:") as journal:
        for member in journal:
            content = journal.extractfile(member) or io.BytesIO()
            if member.name == _GONE:
                gone = json.loads(content.read())
            else:
                store.put(member.name.removeprefix("new/"), content)
    for name in gone:
        store.remove(name)
    store.put(_JOURNAL, io.BytesIO())


def _is_kept(name: str) -> bool:
    """Whether a file is a part of the store; hidden ones belong to a run."""
    return not any(part.startswith(".") for part in name.split("/"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _held(
    store: ObjectStore, address: str, wait: float, say: Callable[[str], None]
) -> Iterator[None]:
    mine = json.dumps(lock_owner() | {"run": secrets.token_hex(8)}).encode()
    until = time.monotonic() + wait
    said = False
    while not _taken(store, mine):
        other = describe_owner(store.read(_LOCK).decode("utf-8", "replace"))
        if time.monotonic() >= until:
            raise StoreHeldError(
                f"Another run holds {display(address)}: {other}. Try again when it is done, or let "
                f"this one wait with --wait SECONDS. If it was killed, remove {_LOCK} there."
            )
        if not said:
            say(f"waiting    {display(address)} is held by {other}")
            said = True
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            store.put(_LOCK, io.BytesIO())


def _taken(store: ObjectStore, mine: bytes) -> bool:
    there = store.read(_LOCK) if store.size(_LOCK) else b""
    if there and not _is_forgotten(there):
        return False
    store.put(_LOCK, io.BytesIO(mine))
    time.sleep(_SETTLING)
    return store.read(_LOCK) == mine


def _is_forgotten(lock: bytes) -> bool:
    try:
        since = datetime.fromisoformat(json.loads(lock)["since"])
    except (ValueError, KeyError, TypeError):
        return True
    return (datetime.now(UTC) - since).total_seconds() > _FORGOTTEN
