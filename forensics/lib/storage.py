"""Where the bytes of archives are: on this machine's disks, or behind an address such as s3://.

Addresses are those of `pyarrow.fs`: `s3://bucket/folder`, `gs://bucket/folder`, `hdfs://host/folder`.
Credentials come from where the provider's own tools look for them; what is special about a store
stands behind a question mark, as in `s3://logs/broker-1?endpoint_override=10.0.0.5:9000&scheme=http`.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from forensics.errors import ArchiveError

# A request costs as long as many a block: so much is read ahead of whoever reads in small steps.
_READ_AHEAD = 8 << 20
_SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "file")


def is_remote(path: str) -> bool:
    """Whether a path is an address.

    >>> [is_remote(path) for path in ("s3://logs/today", "/var/log/kafka", "logs:today", "s3:/x")]
    [True, False, False, False]
    """
    scheme, found, _ = path.partition("://")
    return bool(found) and scheme.isalnum()


def base_name(path: str) -> str:
    """Name a folder or file by the last part of its path, whatever stands behind it.

    >>> base_name("s3://logs/2026-11-18/?region=eu-central-1"), base_name("s3://logs")
    ('2026-11-18', 'logs')
    >>> base_name("/var/log/kafka/")
    'kafka'
    """
    if is_remote(path):
        return PurePosixPath(display(path).partition("://")[2]).name or "archive"
    return Path(os.path.normpath(Path(path).absolute())).name or "archive"


def absolute(path: str) -> str:
    """Give a path that means the same in every folder."""
    return path if is_remote(path) else str(Path(path).absolute())


def display(path: str) -> str:
    """Write a path for people: without what only opens the store, which may be a secret.

    >>> display("s3://KEY:SECRET@logs/a.log?endpoint_override=10.0.0.5:9000"), display("a?b")
    ('s3://logs/a.log', 'a?b')
    """
    if not is_remote(path):
        return path
    scheme, _, rest = path.partition("?")[0].partition("://")
    bucket, slash, inside = rest.partition("/")
    return f"{scheme}://{bucket.rpartition('@')[2]}{slash}{inside}"


def is_folder(path: str) -> bool:
    """Whether there are files below a path, and not one at it."""
    if not is_remote(path):
        return Path(path).is_dir()
    store, inside = _store(path)
    with _told(path):
        return str(store.get_file_info(inside).type.name) == "Directory"


def walk_files(root: str, on_error: Callable[[OSError], None]) -> Iterator[tuple[str, str]]:
    """Give each file below a folder, in order: its path from there, and its path for `open_file`.

    `on_error` is told of folders that may not be read.
    """
    if is_remote(root):
        yield from _objects(root)
        return
    for folder, folders, names in os.walk(root, onerror=on_error):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file():
                yield path.relative_to(root).as_posix(), str(path.absolute())


def file_size(path: str) -> int:
    """Give the size of a file in bytes."""
    if not is_remote(path):
        return os.stat(path).st_size
    store, inside = _store(path)
    with _told(path):
        found = store.get_file_info(inside)
    if not found.is_file:
        raise FileNotFoundError(2, "there is no such file", display(path))
    return int(found.size)


def open_file(path: str) -> IO[bytes]:
    """Open a file to be read from any position."""
    if not is_remote(path):
        return open(path, "rb")
    store, inside = _store(path)
    with _told(path):
        return _buffered(store, inside)


class ObjectStore:
    """The objects below an address, by their names: a folder that can be read and written."""

    def __init__(self, address: str) -> None:
        """Open the store; nothing is asked of it yet."""
        self._address = address
        self._store, self._root = _store(address)

    def names(self) -> list[str]:
        """Name all objects, in order."""
        fs: Any = importlib.import_module("pyarrow.fs")
        chosen = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
        with _told(self._address):
            found = self._store.get_file_info(chosen)
        names = {one.path[len(self._root) :].lstrip("/") for one in found if one.is_file}
        # Some stores keep an empty object for what others call a folder.
        folders = {name.rpartition("/")[0] for name in names}
        return sorted(names - folders)

    def size(self, name: str) -> int | None:
        """Give the size of an object; None: it is not there."""
        with _told(self._address):
            found = self._store.get_file_info(self._at(name))
        return int(found.size) if found.is_file else None

    def open(self, name: str) -> IO[bytes]:
        """Open an object to be read from any position."""
        with _told(self._address):
            return _buffered(self._store, self._at(name))

    def read(self, name: str) -> bytes:
        """Give the content of an object that is small."""
        with self.open(name) as file:
            return file.read()

    def put(self, name: str, content: IO[bytes]) -> None:
        """Put an object there, whole or not at all."""
        with _told(self._address), self._store.open_output_stream(self._at(name)) as out:
            while block := content.read(_READ_AHEAD):
                out.write(block)

    def remove(self, name: str) -> None:
        """Take an object away, if it is there."""
        if self.size(name) is None:
            return
        try:
            self._store.delete_file(self._at(name))
        except OSError:
            # Some stores keep no folders, and refuse to keep one that the object leaves behind.
            if self.size(name) is not None:
                raise

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def _buffered(store: Any, inside: str) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(_Remote(store.open_input_file(inside)), _READ_AHEAD))


class _Remote(io.RawIOBase):
    """A file of a store, as Python's own buffering wants it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = os.SEEK_SET, /) -> int:
        self._file.seek(at, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        return int(self._file.readinto(buffer))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _objects(root: str) -> Iterator[tuple[str, str]]:
    store, inside = _store(root)
    address, question, options = root.partition("?")
    fs: Any = importlib.import_module("pyarrow.fs")
    with _told(root):
        found = store.get_file_info(fs.FileSelector(inside, recursive=True))
    below = sorted(one.path[len(inside) :].lstrip("/") for one in found if one.is_file)
    for name in below:
        # A store of objects may hold one that is called like a folder.
        if name and not name.endswith("/"):
            yield name, f"{address.rstrip('/')}/{name}{question}{options}"


def _store(path: str) -> tuple[Any, str]:
    """Open the store of an address, and give the path inside it."""
    address, question, options = path.partition("?")
    scheme, _, rest = address.partition("://")
    if scheme not in _SCHEMES:
        raise ArchiveError(
            f"{scheme}:// is no kind of address that can be read; these are: "
            + ", ".join(f"{one}://" for one in _SCHEMES)
        )
    # What comes behind the bucket may hold letters that an address may not.
    bucket, slash, inside = rest.partition("/")
    store, root = _opened(f"{scheme}://{bucket}{question}{options}", path)
    return store, f"{root.rstrip('/')}{slash}{inside}".rstrip("/")


@cache
def _opened(address: str, path: str) -> tuple[Any, str]:
    fs: Any = importlib.import_module("pyarrow.fs")
    try:
        store, root = fs.FileSystem.from_uri(address)
    except (OSError, ValueError) as error:
        # What did not work may be the very part that holds a secret.
        why = _first(error).replace(address, display(address))
        raise ArchiveError(f"{display(path)} cannot be opened: {why}") from None
    return store, root


class _told:  # noqa: N801 - reads as what it does
    """Lets what a store says of a path name that path, as the system does for its own files."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Do what may fail."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            number = error.errno or 5
            raise type(error)(number, _first(error), display(self._path)) from error


def _first(error: Exception) -> str:
    """Give the first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
