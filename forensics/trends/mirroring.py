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
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from forensics.places import Objects, shown
from forensics.trends.holding import StoreHeldError, owner, told_of

__all__ = ["mirrored"]

_JOURNAL = ".commit.tar"
_GONE = "gone.json"
_LOCK = ".lock"
# A store of objects cannot lock: who writes its name there waits whether another one does, too.
_SETTLING = 2.0
_PAUSE = 1.0
# A run that was killed leaves its name behind; nobody audits for longer than that.
_FORGOTTEN = 24 * 3600.0


@contextmanager
def mirrored(address: str, wait: float, say: Callable[[str], None]) -> Iterator[Path]:
    """Give a folder that holds what the store holds; what is changed in it is put back at the end.

    If what is done with it fails, the store stays as it was.
    """
    store = Objects(address)
    with _held(store, address, wait, say), TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        folder = Path(scratch)
        _follow(store)
        before = _fetch(store, folder)
        yield folder
        _put_back(store, folder, before)


def _fetch(store: Objects, folder: Path) -> dict[str, str]:
    """Copy all that is kept, and say what it is."""
    found = {}
    for name in store.names():
        if _is_kept(name):
            content = store.read(name)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            found[name] = hashlib.sha256(content).hexdigest()
    return found


def _put_back(store: Objects, folder: Path, before: dict[str, str]) -> None:
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
        with tarfile.open(packed, "w") as journal:
            said = json.dumps(gone).encode()
            told = tarfile.TarInfo(_GONE)
            told.size = len(said)
            journal.addfile(told, io.BytesIO(said))
            for name in changed:
                journal.add(now[name], f"new/{name}")
        store.upload(packed, _JOURNAL)
    _follow(store)


def _follow(store: Objects) -> None:
    """Do what the journal says, if it says anything; doing it twice does no more than once."""
    content = store.read(_JOURNAL) if store.has(_JOURNAL) else b""
    if not content:
        return
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as journal:
        for member in journal:
            file = journal.extractfile(member)
            text = file.read() if file else b""
            if member.name == _GONE:
                gone = json.loads(text)
            else:
                store.write(member.name.removeprefix("new/"), text)
    for name in gone:
        store.remove(name)
    store.write(_JOURNAL, b"")


def _is_kept(name: str) -> bool:
    """Whether a file is a part of the store; hidden ones belong to a run."""
    return not any(part.startswith(".") for part in name.split("/"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _held(store: Objects, address: str, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    mine = json.dumps(owner() | {"run": secrets.token_hex(8)}).encode()
    until = time.monotonic() + wait
    said = False
    while not _taken(store, mine):
        other = told_of(store.read(_LOCK).decode("utf-8", "replace"))
        if time.monotonic() >= until:
            raise StoreHeldError(
                f"Another run holds {shown(address)}: {other}. Try again when it is done, or let "
                f"this one wait with --wait SECONDS. If it was killed, remove {_LOCK} there."
            )
        if not said:
            say(f"waiting    {shown(address)} is held by {other}")
            said = True
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            store.write(_LOCK, b"")


def _taken(store: Objects, mine: bytes) -> bool:
    there = store.read(_LOCK) if store.has(_LOCK) else b""
    if there and not _is_forgotten(there):
        return False
    store.write(_LOCK, mine)
    time.sleep(_SETTLING)
    return store.read(_LOCK) == mine


def _is_forgotten(lock: bytes) -> bool:
    try:
        since = datetime.fromisoformat(json.loads(lock)["since"])
    except (ValueError, KeyError, TypeError):
        return True
    return (datetime.now(UTC) - since).total_seconds() > _FORGOTTEN
