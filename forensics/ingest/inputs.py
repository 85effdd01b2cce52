"""Inputs that are no files: pipes, standard input, commands and downloads are written down first.

Every task has to be able to open its input from the beginning, so what can be read only once is
spooled into the work folder, within limits; it is deleted with it.
"""

from __future__ import annotations

import importlib
import os
import select
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from forensics.errors import ArchiveError
from forensics.lib import storage
from forensics.lib.limits import DEFAULT_LIMITS, Limits

STDIN = "-"
_CHUNK = 1 << 20
_WEB, _FSSPEC = ("http", "https"), ("sftp", "ssh", "ftp", "smb")
_FOLDER = "inputs"


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass
class Inputs:
    """What is to be read: files by name and path, folders and addresses, and what went wrong."""

    # paths that are read where they lie
    archives: list[str] = field(default_factory=list)
    # names and paths of what was written down
    spooled: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)


def gather_inputs(
    archives: Sequence[str],
    commands: Sequence[str],
    folder: Path,
    limits: Limits = DEFAULT_LIMITS,
) -> Inputs:
    """Write down what can be read only once, into a folder below `folder`."""
    inputs = Inputs()
    spool = _Spool(folder / _FOLDER, limits)
    for archive in archives:
        opener = _find_opener(archive, limits)
        if opener is None:
            inputs.archives.append(archive)
            continue
        name = "stdin" if archive == STDIN else storage.base_name(archive)
        _take(inputs, spool, name, opener)
    for command in commands:
        _take(inputs, spool, command, lambda command=command: _run(command))  # type: ignore[misc]
    return inputs


Opener = Callable[[], Any]


def _find_opener(archive: str, limits: Limits) -> Opener | None:
    """Return what opens an input that is no file; None for files, folders and stores."""
    if archive == STDIN:
        return lambda: _open_pipe(sys.stdin.fileno(), "standard input", None)
    if storage.is_remote(archive):
        scheme = archive.partition("://")[0].lower()
        if scheme in _WEB:
            return lambda: _open_web(archive, limits)
        return (lambda: _open_by_fsspec(archive)) if scheme in _FSSPEC else None
    try:
        mode = os.stat(archive).st_mode
    except OSError:
        return None
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode):
        return lambda: _open_fifo(archive, limits)
    return None


def _take(inputs: Inputs, spool: _Spool, name: str, opener: Opener) -> None:
    try:
        with opener() as source:
            path, fault = spool.write(source)
            fault = fault or getattr(source, "fault", None)
    except OSError as error:
        inputs.problems.append((name, f"cannot be read: {error.strerror or error}"))
        return
    if os.path.getsize(path) or fault is None:  # noqa: PTH202 - a plain text
        inputs.spooled.append((name, path))
    if fault is not None:
        inputs.problems.append((name, fault))


class _Spool:
    """Writes inputs into files, all of them together within a limit."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._left, self._limits = folder, limits.spool_bytes, limits
        self._count = 0

    def write(self, source: _Source) -> tuple[str, str | None]:
        """Write down one input; returns its path, and why it is not whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        path = self._folder / str(self._count)
        deadline = time.monotonic() + self._limits.seconds
        with path.open("wb") as file:
            try:
                while data := source.read(_CHUNK):
                    file.write(data[: self._left])
                    self._left -= len(data)
                    if self._left < 0:
                        self._left = 0
                        limit = f"{self._limits.spool_bytes:,} bytes (limit spool_bytes)"
                        return str(path), f"cut off: it gives more than {limit}"
                    if time.monotonic() > deadline:
                        return str(path), "cut off: it took too long (limit seconds)"
            except OSError as error:
                return str(path), f"breaks off after {file.tell():,} bytes: {error}"
        return str(path), None


class _Pipe:
    """A pipe that is open; one that nobody writes to ends with an error."""

    def __init__(self, handle: int, name: str, patience: float | None) -> None:
        self._handle, self._name, self._patience = handle, name, patience
        self._poll = select.poll()
        self._poll.register(handle, select.POLLIN | select.POLLHUP)

    def read(self, size: int = -1, /) -> bytes:
        """Wait for data; nothing is returned when all writers are gone."""
        if self._patience is not None and not self._poll.poll(self._patience * 1000):
            raise TimeoutError(
                f"{self._name}: nobody has written to this pipe for {self._patience:.0f} s"
                " (limit pipe_seconds); start its writer, or leave it out"
            )
        # Whoever has begun to write may take his time.
        self._patience = None
        self._poll.poll()
        return os.read(self._handle, size)


@contextmanager
def _open_pipe(handle: int, name: str, patience: float | None) -> Iterator[_Source]:
    if os.isatty(handle):
        raise ArchiveError(
            f"{name} is a terminal: send logs there, as in `cat server.log | kafka-forensics ... -`"
        )
    if stat.S_ISFIFO(os.fstat(handle).st_mode):
        yield _Pipe(handle, name, patience)
        return
    with os.fdopen(os.dup(handle), "rb") as file:
        yield file


@contextmanager
def _open_fifo(path: str, limits: Limits) -> Iterator[_Source]:
    # Opened like this, a pipe without a writer does not wait.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.set_blocking(handle, True)
        with _open_pipe(handle, storage.display(path), limits.pipe_seconds) as source:
            yield source
    finally:
        os.close(handle)


class _Command:
    """The output of a command; `fault` says how it ended, if not well."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Any) -> None:
        self._process, self._errors = process, errors
        self.fault: str | None = None

    def read(self, size: int = -1, /) -> bytes:
        """Read from the command's output; at its end its exit code is looked at."""
        output = self._process.stdout
        data = output.read(size) if output else b""
        if not data and (code := self._process.wait()):
            self._errors.seek(0)
            said = self._errors.read(64 << 10).decode("utf-8", "replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            self.fault = f"the command ended with {code}{last}"
        return data


@contextmanager
def _run(command: str) -> Iterator[_Source]:
    """Run a command that the user has named on the command line."""
    with (
        _temporary_file() as errors,
        subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):  # fmt: skip
        try:
            yield _Command(process, errors)
        finally:
            if process.poll() is None:
                process.terminate()
            if process.stdout:
                process.stdout.close()


@contextmanager
def _temporary_file() -> Iterator[Any]:
    """Hold what a command says beside its output in memory, never on disk."""
    with os.fdopen(os.memfd_create("errors"), "w+b") as file:
        yield file


@contextmanager
def _open_web(address: str, limits: Limits) -> Iterator[_Source]:
    shown = storage.display(address)
    try:
        with closing(
            urllib.request.urlopen(address, timeout=limits.pipe_seconds)  # noqa: S310 - http or https
        ) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise OSError(f"{shown} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(f"{shown} cannot be reached: {error.reason}") from None


@contextmanager
def _open_by_fsspec(address: str) -> Iterator[_Source]:
    scheme, _, rest = address.partition("://")
    shown = storage.display(address)
    try:
        fsspec = importlib.import_module("fsspec")
        opened = fsspec.open(address, "rb")
    except (ImportError, ValueError) as error:
        host, _, path = rest.rpartition("@")[2].partition("/")
        raise ArchiveError(
            f"{shown}: reading {scheme}:// needs more than is installed ({error});"
            f" pip install 'kafka-forensics[{'sftp' if scheme == 'ssh' else scheme}]',"
            f" or use --command 'ssh {host} cat /{path}'"
        ) from None
    with suppress(AttributeError), opened as source:
        yield source
