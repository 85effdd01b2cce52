"""Files on local disks, or in a store with an address such as s3://.

Addresses are those of `pyarrow.fs`, such as `s3://bucket/folder`, `gs://...`, `hdfs://host/folder`.
Credentials come from where the provider's own tools look for them; options of a store follow a
question mark, as in `s3://logs/broker-1?endpoint_override=10.0.0.5:9000&scheme=http`. A local file
is written whole or not at all.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast
from urllib.parse import parse_qsl, urlsplit

from forensics.errors import ArchiveError
from forensics.lib.text_safety import escape_undecodable


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to, and move that file to `path` at the end."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


# Object-store requests are slow: so much is read ahead for callers that read in small steps.
_READ_AHEAD = 8 << 20
_CONNECTIONS = 8
_HADOOP = ("hdfs://", "viewfs://")
_AZURE = ("abfs", "abfss")
_SINGLE_PUTS = "allow_delayed_open"
# What stores quote of addresses in their errors: signatures stand among the options.
_USER = re.compile(r"://[^\s/@'\"]*@")
_OPTIONS = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")
_MAX_MESSAGE = 2000
SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "file")


def is_remote(path: str) -> bool:
    """Return True if a path is an address.

    >>> [is_remote(path) for path in ("s3://logs/today", "/var/log/kafka", "logs:today", "s3:/x")]
    [True, False, False, False]
    """
    scheme, found, _ = path.partition("://")
    return bool(found) and scheme.isalnum()


def base_name(path: str) -> str:
    """Return the last part of a path, without the options of an address.

    >>> base_name("s3://logs/2026-11-18/?region=eu-central-1"), base_name("s3://logs")
    ('2026-11-18', 'logs')
    >>> base_name("/var/log/kafka/")
    'kafka'
    """
    if is_remote(path):
        return PurePosixPath(display(path).partition("://")[2]).name or "archive"
    return Path(os.path.normpath(Path(path).absolute())).name or "archive"


def absolute(path: str) -> str:
    """Return a path that means the same in every folder."""
    return path if is_remote(path) else str(Path(path).absolute())


def display(path: str) -> str:
    """Return a path for people: without user and options, which may be secret.

    >>> display("s3://KEY:SECRET@logs/a.log?endpoint_override=10.0.0.5:9000"), display("a?b")
    ('s3://logs/a.log', 'a?b')
    >>> display("abfs://logs@account.dfs.core.windows.net/a.log?sig=SECRET")
    'abfs://logs@account.dfs.core.windows.net/a.log'
    """
    if not is_remote(path):
        return escape_undecodable(path)
    scheme, _, rest = path.partition("?")[0].partition("://")
    bucket, slash, inside = rest.partition("/")
    user, at, host = bucket.rpartition("@")
    # Azure's addresses name the container, or the account, where others name the user.
    shown = f"{user.partition(':')[0]}{at}" if scheme in _AZURE else ""
    return f"{scheme}://{shown}{host}{slash}{inside}"


def is_folder(path: str) -> bool:
    """Return True if the path is a folder."""
    if not is_remote(path):
        return Path(path).is_dir()
    store, inside = _store(path)
    with naming(path):
        return str(store.get_file_info(inside).type.name) == "Directory"


# What notes an entry of a folder that is left out: its path from there, the kind of thing that it
# is, and, where something may be missing for it, a sentence about it.
LeaveOut = Callable[[str, str, str | None], None]
_KINDS = {
    stat.S_IFIFO: "named pipes",
    stat.S_IFSOCK: "sockets",
    stat.S_IFCHR: "devices",
    stat.S_IFBLK: "devices",
}


def walk_files(
    root: str, on_error: Callable[[OSError], None], leave_out: LeaveOut | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each file below a folder, in order: its path from there, and its path for `open_file`.

    `on_error` is called for folders that cannot be read. Links are followed to files inside the
    folder only; what is left out is told to `leave_out`.
    """
    if is_remote(root):
        yield from _objects(root)
        return
    top = os.path.realpath(root)
    for folder, folders, names in os.walk(root, onerror=on_error):
        folders.sort()
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*names, *linked]):
            path = Path(folder, name)
            below = path.relative_to(root).as_posix()
            reason, why = _why_left_out(path, top)
            if reason is None:
                yield below, str(path.absolute())
            elif leave_out is not None:
                leave_out(below, reason, why)


def _why_left_out(path: Path, top: str) -> tuple[str | None, str | None]:
    """Say what kind of thing is not read, and, where something may be missing for it, why."""
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            return (None, None) if stat.S_ISREG(mode) else (_kind_of(mode), None)
        target = os.path.realpath(path)
        found = os.stat(target).st_mode
    except OSError:
        if not path.is_symlink():
            return None, None
        return "broken links", f"a link to {display(os.readlink(path))}, which is not there"  # noqa: PTH115
    if target != top and not target.startswith(top.rstrip(os.sep) + os.sep):
        named = display(target)
        why = f"a link to {named}, outside of the folder: not followed; name that path to read it"
        return "links out of the folder", why
    if stat.S_ISDIR(found):
        return "links to folders that are read where they lie", None
    return (None, None) if stat.S_ISREG(found) else (_kind_of(found), None)


def _kind_of(mode: int) -> str:
    return f"{_KINDS.get(stat.S_IFMT(mode), 'things that are no files')}: not read"


def file_size(path: str) -> int:
    """Return the size of a file in bytes."""
    if not is_remote(path):
        return os.stat(path).st_size
    store, inside = _store(path)
    with naming(path):
        found = store.get_file_info(inside)
    if not found.is_file:
        raise FileNotFoundError(2, "there is no such file", display(path))
    return int(found.size)


def open_file(path: str, read_ahead: int = _READ_AHEAD) -> IO[bytes]:
    """Open a file to be read from any position; of one in a store so much is fetched at once."""
    if not is_remote(path):
        return open(path, "rb")
    store, inside = _store(path)
    with naming(path):
        return _buffered(store, inside, read_ahead)


def open_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path, as pyarrow has it, and the path inside."""
    if is_remote(path):
        return _store(path)
    fs: Any = importlib.import_module("pyarrow.fs")
    return fs.LocalFileSystem(), str(Path(path).absolute())


@contextmanager
def open_output(path: str) -> Iterator[Any]:
    """Open a new file for pyarrow to write to; folders are made as needed.

    A file in a store is there when it is closed, whole.
    """
    if not is_remote(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    system, inside = open_system(path)
    with naming(path), system.open_output_stream(inside) as file:
        yield file


def join(folder: str, name: str) -> str:
    """Return the path of a file in a folder, with the options that the folder's address has.

    >>> join("s3://logs/out?region=eu-central-1", "tables/events")
    's3://logs/out/tables/events?region=eu-central-1'
    >>> join("/shared/out/", "page.html")
    '/shared/out/page.html'
    """
    if not is_remote(folder):
        return f"{folder.rstrip('/')}/{name}"
    address, question, options = folder.partition("?")
    return f"{address.rstrip('/')}/{name}{question}{options}"


def private_folders(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yield folders for what this user keeps between runs, the best first; nobody else has them."""
    folders = []
    if cache := environ.get("XDG_CACHE_HOME"):
        folders.append(Path(cache) / "kafka-forensics")
    if home := environ.get("HOME"):
        folders.append(Path(home) / ".cache" / "kafka-forensics")
    folders.append(Path(tempfile.gettempdir()) / f"kafka-forensics-{os.getuid()}")
    for folder in folders:
        with suppress(OSError):
            if _is_private(folder):
                yield folder


def _is_private(folder: Path) -> bool:
    """Make the folder; in /tmp another user may have made one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.lstat()
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not writable_by_others


def upload(path: Path, address: str) -> None:
    """Copy a local file to an address."""
    with path.open("rb") as source, open_output(address) as target:
        while block := source.read(_READ_AHEAD):
            target.write(block)


def download(address: str, path: Path) -> None:
    """Copy a file from an address to a local path."""
    with open_file(address) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _READ_AHEAD)


class ObjectStore:
    """The objects below an address by their names, to read and to write."""

    def __init__(self, address: str) -> None:
        """Open the store, without a request to it."""
        self._address = address
        self._store, self._root = _store(address)

    def names(self) -> list[str]:
        """Return the names of all objects, in order."""
        return sorted(self._find())

    def _find(self, *, is_deep: bool = True) -> dict[str, Any]:
        fs: Any = importlib.import_module("pyarrow.fs")
        chosen = fs.FileSelector(self._root, allow_not_found=True, recursive=is_deep)
        with naming(self._address):
            found = self._store.get_file_info(chosen)
        objects = {one.path[len(self._root) :].lstrip("/"): one for one in found if one.is_file}
        # Some stores keep an empty object for what others call a folder.
        folders = {name.rpartition("/")[0] for name in objects}
        return {name: one for name, one in objects.items() if name not in folders}

    def states(self, *, is_deep: bool = True) -> dict[str, tuple[int, int]]:
        """Return the size of each object, and when it was written, by names in order.

        Where it is not to go deep, objects in folders are left out.
        """
        found = sorted(self._find(is_deep=is_deep).items())
        return {name: (one.size, one.mtime_ns or 0) for name, one in found}

    def written(self, name: str) -> int:
        """Return when an object was written, by asking for it alone; 0 if the store tells none.

        Arrow reads no time from a list in which a store writes parts of seconds its own way.
        """
        with naming(self._address):
            return self._store.get_file_info(self._at(name)).mtime_ns or 0

    def size(self, name: str) -> int | None:
        """Return the size of an object; None if it does not exist."""
        with naming(self._address):
            found = self._store.get_file_info(self._at(name))
        return int(found.size) if found.is_file else None

    def open(self, name: str) -> IO[bytes]:
        """Open an object to be read from any position."""
        with naming(self._address):
            return _buffered(self._store, self._at(name))

    def read(self, name: str) -> bytes:
        """Return the content of a small object."""
        with self.open(name) as file:
            return file.read()

    def put(self, name: str, content: IO[bytes]) -> None:
        """Write an object, whole or not at all."""
        with naming(self._address):
            out = self._store.open_output_stream(self._at(name))
            try:
                while block := content.read(_READ_AHEAD):
                    out.write(block)
            except BaseException:
                # There is no other way to let go than to close it, and then half of it is there.
                with suppress(Exception):
                    out.close()
                    self.remove(name)
                raise
            out.close()

    def remove(self, name: str) -> None:
        """Delete an object, if it exists."""
        if self.size(name) is None:
            return
        with naming(self._address):
            try:
                self._store.delete_file(self._at(name))
            except OSError:
                # A store without folders may fail to keep the folder that is left behind.
                if self.size(name) is not None:
                    raise

    def remove_folder(self, name: str) -> None:
        """Delete all objects below a name."""
        try:
            self._store.delete_dir(self._at(name))
        except FileNotFoundError:
            return
        except OSError:
            # As above, of the folder above; or a store that takes no list of objects to delete.
            below = [each for each in self.names() if each.startswith(f"{name}/")]
            with ThreadPoolExecutor(_CONNECTIONS) as pool:
                list(pool.map(self.remove, below))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def _buffered(store: Any, inside: str, read_ahead: int = _READ_AHEAD) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(_Remote(store.open_input_file(inside)), read_ahead))


class _Remote(io.RawIOBase):
    """A file of a store, as Python's buffering expects it."""

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
    fs: Any = importlib.import_module("pyarrow.fs")
    with naming(root):
        found = store.get_file_info(fs.FileSelector(inside, recursive=True))
    below = sorted(one.path[len(inside) :].lstrip("/") for one in found if one.is_file)
    for name in below:
        # A store may hold an object that is named like a folder.
        if name and not name.endswith("/"):
            yield name, join(root, name)


def _store(path: str) -> tuple[Any, str]:
    """Open the store of an address; returns it and the path inside."""
    address, question, options = path.partition("?")
    scheme, _, rest = address.partition("://")
    if scheme not in SCHEMES:
        raise ArchiveError(
            f"{scheme}:// is no kind of address that can be read; these are: "
            + ", ".join(f"{one}://" for one in SCHEMES)
        )
    # After the bucket there may be characters that no address may have.
    bucket, slash, inside = rest.partition("/")
    host = bucket if scheme != "file" else "/"
    store, root = _opened(f"{scheme}://{host}{question}{options}", path)
    found = f"{root.rstrip('/')}{slash}{inside}".rstrip("/")
    # The address may name a host before the container, and then the path inside has no slash.
    return store, found.lstrip("/") if scheme in _AZURE else found


@cache
def _opened(address: str, path: str) -> tuple[Any, str]:
    fs: Any = importlib.import_module("pyarrow.fs")
    try:
        if address.startswith(_HADOOP) and importlib.util.find_spec("hdfs_native"):
            return _open_hadoop(address), ""
        store, root = _open_by_arrow(fs, address)
    except (OSError, ValueError) as error:
        # The message may quote a secret of the address.
        why = _first_line(error).replace(address, display(address))
        raise ArchiveError(f"{display(path)} cannot be opened: {why}") from None
    return store, root


def _open_by_arrow(fs: Any, address: str) -> tuple[Any, str]:
    """Open a store; S3 takes what is small in one request, not as an upload of several parts."""
    if address.startswith("s3://") and _SINGLE_PUTS not in address:
        # Older versions of Arrow do not know it, and another fault comes again below.
        with suppress(ValueError):
            return cast(
                "tuple[Any, str]",
                fs.FileSystem.from_uri(
                    f"{address}{'&' if '?' in address else '?'}{_SINGLE_PUTS}=true"
                ),
            )
    return cast("tuple[Any, str]", fs.FileSystem.from_uri(address))


def _open_hadoop(address: str) -> Any:
    """Open HDFS by a client of its own, which needs neither Java nor Hadoop's C library.

    It reads core-site.xml and hdfs-site.xml where HADOOP_CONF_DIR says, as all others do.
    """
    fs: Any = importlib.import_module("pyarrow.fs")
    client: Any = importlib.import_module("hdfs_native.fsspec")
    parts = urlsplit(address)
    kind = client.HdfsFileSystem if parts.scheme == "hdfs" else client.ViewfsFileSystem
    system = kind(host=parts.hostname, port=parts.port, **dict(parse_qsl(parts.query)))
    return fs.PyFileSystem(fs.FSSpecHandler(system))


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the path to errors of a store, as the system does for its own files."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise type(error)(error.errno or 5, _first_line(error), display(path)) from error
    except Exception as error:
        # The client of HDFS raises the former; the other, where credentials are of the wrong kind.
        kinds = (RuntimeError, importlib.import_module("pyarrow").ArrowException)
        if not is_remote(path) or not isinstance(error, kinds):
            raise
        raise OSError(5, _first_line(error).partition("\\n")[0], display(path)) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message; addresses in it lose what may be secret."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0][:_MAX_MESSAGE]
    return _OPTIONS.sub(r"\1", _USER.sub("://", line))
