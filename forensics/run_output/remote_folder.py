"""An output folder in a store: written here and put there at the end, fetched to be read.

A list of the files, with their digests, is put there when all of them are, and the result of the
run last. Whoever reads takes only what is in the list, and what is not as it says is refused: a run
that was killed, or two that wrote to one address, never look like one that came to its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from forensics.errors import ForensicsError
from forensics.lib.folder_lock import FolderHeldError, RemoteLock, lock_address
from forensics.lib.storage import SCHEMES, ObjectStore, display, is_remote, private_folders
from forensics.run_output.integrity import FINDINGS_FILE, RESULT_FILE, read_json

FILES_FILE = "_FILES.json"
STAGING = "_staging"
# What is in the folders that are fetched.
_BEGINNINGS = (FINDINGS_FILE, RESULT_FILE, "store.json")
_CONNECTIONS = 8
# A copy that nobody has read for so long is deleted when another one is made.
_KEPT_SECONDS = 24 * 3600
_ADDRESSES: dict[Path, str] = {}


def place_name(folder: Path) -> str:
    """Name an output folder for people: by its address, if it is the copy of one."""
    return _ADDRESSES.get(folder, str(folder))


@contextmanager
def open_output(place: str | Path) -> Iterator[Path]:
    """Yield a folder to write into; what is in it at the end is put to `place`, if need be.

    A run that fails leaves there why it failed, too.
    """
    if not is_remote(str(place)):
        yield Path(place)
        return
    store = ObjectStore(str(place))
    with (
        lock_address(str(place)) as lock,
        tempfile.TemporaryDirectory(prefix="kafka-forensics-") as scratch,
    ):
        folder = Path(scratch)
        _ADDRESSES[folder] = display(str(place)).rstrip("/")
        store.remove(RESULT_FILE)
        # What executors wrote for a run that was killed.
        store.remove_folder(STAGING)
        try:
            yield folder
        except BaseException:
            # Why it failed is more than that the store cannot be reached, either.
            with suppress(OSError, FolderHeldError):
                _publish(folder, store, lock)
            raise
        else:
            _publish(folder, store, lock)
        finally:
            with suppress(OSError):
                store.remove_folder(STAGING)


def _publish(folder: Path, store: ObjectStore, lock: RemoteLock) -> None:
    """Put all files of a run into its place; before the last one is there, none counts."""
    lock.confirm()
    paths = {name: path for name, path in _list_files(folder) if name != RESULT_FILE}
    try:
        if paths:
            # What an earlier run has left; whatever else is there is not ours.
            store.remove(FILES_FILE)
            store.remove_folder("tables")
            _put_all(store, paths)
            files = {
                name: {"bytes": path.stat().st_size, "sha256": _digest(path)}
                for name, path in sorted(paths.items())
            }
            (folder / FILES_FILE).write_text(
                json.dumps({"schema": 1, "files": files}, indent=1) + "\n"
            )
            _put(store, FILES_FILE, folder / FILES_FILE)
        if (folder / RESULT_FILE).is_file():
            _put(store, RESULT_FILE, folder / RESULT_FILE)
    except BaseException:
        # Half of a run is worth nothing, and lies there for good.
        tops = dict.fromkeys((RESULT_FILE, FILES_FILE, *(name.partition("/")[0] for name in paths)))
        for name in tops:
            with suppress(OSError):
                (store.remove_folder if (folder / name).is_dir() else store.remove)(name)
                lock.show()
        raise


def _put_all(store: ObjectStore, paths: Mapping[str, Path]) -> None:
    """Put files over a few connections; whoever stops that waits only for those under way."""
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        try:
            list(pool.map(lambda one: _put(store, *one), paths.items()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def put_page(folder: Path, address: str, page: Path) -> str:
    """Put a page that was drawn into the copy of an output folder beside the others."""
    store = ObjectStore(address)
    with lock_address(address):
        known = (folder / FILES_FILE).read_bytes() if (folder / FILES_FILE).is_file() else b""
        there = b"" if store.size(FILES_FILE) is None else store.read(FILES_FILE)
        if there != known:
            raise ForensicsError(
                f"Another run has written to {display(address)} since this page was begun. Draw it"
                " again."
            )
        _put(store, page.name, page)
        listed = json.loads(known) if known else None
        if listed and page.name in listed["files"]:
            listed["files"][page.name] = {"bytes": page.stat().st_size, "sha256": _digest(page)}
            (folder / FILES_FILE).write_text(json.dumps(listed, indent=1) + "\n")
            _put(store, FILES_FILE, folder / FILES_FILE)
    return f"{display(address).rstrip('/')}/{page.name}"


def local_folder(place: str) -> Path:
    """Return the folder of a saved run or of a store of weeks: as it is, or a copy made of it."""
    return fetch(place) if is_remote(place) else Path(place)


def is_saved_run(place: str) -> bool:
    """Return True if a path or an address is the output of a postmortem, and no archive."""
    if not is_remote(place):
        folder = Path(place)
        return (folder / FINDINGS_FILE).is_file() and (folder / "tables").is_dir()
    scheme = place.partition("://")[0]
    return scheme in SCHEMES and ObjectStore(place).size(FINDINGS_FILE) is not None


def fetch(address: str) -> Path:
    """Copy a saved run, or a store of weeks, into a folder of this user; return the folder.

    As long as nothing changes there it is copied once. Only what is in the list of files counts,
    if there is one: a folder may also have been copied into a store by other means.
    """
    store = ObjectStore(address)
    # The name of an object may be any text, also one that leads elsewhere on this machine.
    there = {
        name: state
        for name, state in store.states().items()
        if _is_visible(name) and _is_inside(name)
    }
    shown = display(address).rstrip("/")
    if not any(name in there for name in _BEGINNINGS):
        raise ForensicsError(
            f"{shown} is no output folder of a postmortem: it has no findings.json."
        )
    # Not every store says when a file was written.
    told = [
        store.read(name).decode("latin-1") for name in (FILES_FILE, RESULT_FILE) if name in there
    ]
    key = hashlib.sha256(json.dumps([shown, sorted(there.items()), told]).encode()).hexdigest()[:32]
    for cache in private_folders():
        copies = cache / "runs"
        folder = copies / key
        if not folder.is_dir():
            _remove_old(copies)
            copies.mkdir(exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(prefix=".half-", dir=copies) as half:
                made = Path(half, "run")
                _copy(store, there, made, shown)
                with suppress(OSError):
                    made.rename(folder)
        os.utime(folder)
        _ADDRESSES[folder] = shown
        return folder
    raise ForensicsError(f"There is no folder for a copy of {shown}: set XDG_CACHE_HOME to one.")


def _copy(
    store: ObjectStore, there: Mapping[str, tuple[int, int]], folder: Path, shown: str
) -> None:
    folder.mkdir()
    names = set(there)
    digests: dict[str, str] = {}
    if FILES_FILE in there:
        _get(store, FILES_FILE, folder)
        listed = read_json(folder / FILES_FILE).get("files")
        if not isinstance(listed, dict) or not all(map(_is_inside, listed)):
            raise ForensicsError(f"{shown}/{FILES_FILE} is not as a run writes it.")
        digests = {name: str(one["sha256"]) for name, one in listed.items()}
        names = {*digests, *({RESULT_FILE} & names)}
    if missing := sorted(names - set(there)):
        raise ForensicsError(
            f"{shown}/{missing[0]} is not there, and {FILES_FILE} names it. {_REWRITTEN}"
        )
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(lambda name: _get(store, name, folder), sorted(names)))
    for name, digest in digests.items():
        if _digest(folder / name) != digest:
            raise ForensicsError(f"{shown}/{name} is not what {FILES_FILE} says. {_REWRITTEN}")


_REWRITTEN = "Another run may be writing there now: try again when it is done."


def _remove_old(copies: Path) -> None:
    for path in copies.iterdir() if copies.is_dir() else ():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _list_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and _is_visible(name):
            yield name, path


def _is_visible(name: str) -> bool:
    """Return True for what belongs to a run, and not to the program that writes it."""
    return not name.startswith(f"{STAGING}/") and not any(
        part.startswith(".") for part in name.split("/")
    )


def _is_inside(name: str) -> bool:
    """Return True if a name leads nowhere else."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _put(store: ObjectStore, name: str, path: Path) -> None:
    with path.open("rb") as file:
        store.put(name, file)


def _get(store: ObjectStore, name: str, folder: Path) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with store.open(name) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
