"""A second Python on this machine, which does a part of what a run has to do beside the first.

Two threads of one Python take turns; two processes do not. Nothing depends on the second one:
what it cannot do, or did not come to do, the first does, and then also raises what that raises.
So the results are the same with and without it.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing.connection import Connection, Pipe
from threading import Thread
from typing import IO, Any, Generic, ParamSpec, TypeVar

from forensics.lib.this_machine import (
    collect_garbage_seldom,
    mappable_bytes,
    return_memory,
    usable_cores,
)

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

# The second Python looks for modules where the first does, and never in the working folder.
_PROGRAM = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]);"
    " from forensics.lib.second_process import serve; serve(*map(int, sys.argv[2:]))"
)
# Of prctl.h: which signal a process gets when the one that started it ends.
_PR_SET_PDEATHSIG = 1
# What work is shared, its next part, and how many it has.
_STATE = struct.Struct("=3q")
# Stands before a piece of work, which may be one that cannot be read.
_NUMBER = struct.Struct("=q")


class _LostError(Exception):
    """The second process has ended, or could not do what it was asked for."""


class SecondProcess:
    """Does work beside this process, if it was opened; only the main thread may ask it."""

    def __init__(self) -> None:
        """Have none: what is asked for is done in this process."""
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._state: IO[bytes] | None = None
        self._asked = 0
        # what has come back and was not asked for yet
        self._answers: dict[int, tuple[bool, Any]] = {}

    @property
    def is_there(self) -> bool:
        """Return True if there is a process to share work with."""
        return self._pipe is not None

    @property
    def pid(self) -> int | None:
        """The number of the process, if it was opened."""
        return None if self._process is None else self._process.pid

    def open(self, modules: Sequence[str] = ()) -> None:
        """Start the process, and let it import some modules at once; without room there is none."""
        ours, theirs = Pipe()
        try:
            self._state = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as this
            self._state.write(_STATE.pack(0, 0, 0))
            self._state.flush()
            given = (theirs.fileno(), self._state.fileno(), os.getpid())
            paths = repr([path for path in sys.path if isinstance(path, str)])
            flags = ("-I",) if sys.flags.isolated else ("-P",)
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _PROGRAM, paths, *map(str, given)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=given[:2],
            )  # fmt: skip
            self._pipe = ours
        except (OSError, TypeError, ValueError):
            # No room for it, or a Python that cannot be started again.
            ours.close()
        finally:
            theirs.close()
        self.preload(modules)

    def preload(self, modules: Sequence[str]) -> None:
        """Let the process import modules, of which it will be asked something."""
        self._send(_import_all, (tuple(modules),))

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget()
        if self._state is not None:
            self._state.close()

    def start(
        self,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Started[Result]:
        """Let the other process begin a piece of work; functions are sent by their names."""
        work = _Work(function, arguments, options)
        return Started(self, self._send(work, ()), work)

    def share(
        self,
        count: int,
        function: Callable[[Iterator[int]], Result],
        begins: Callable[[int], object] = lambda _: None,
    ) -> list[Result]:
        """Let both processes take numbers below `count`, in their order, until none is left.

        Each calls the function with those that it takes; what this process takes is told by
        `begins`. Return what the function returned, here first; there is one result, if this
        process has taken all.
        """
        if count < 2 or self._state is None or not self.is_there:
            return [function(_tell(range(count), begins))]
        round_number = _begin_round(self._state.fileno(), count)
        number = self._send(_take_part, (round_number, function))
        taken: list[int] = []
        mine = _tell(_take(self._state.fileno(), round_number), taken.append)
        here = function(_tell(mine, begins))
        if len(taken) == count:
            return [here]
        try:
            return [here, self._receive(number)]
        except _LostError:
            theirs = sorted({*range(count)} - {*taken})
            return [here, function(_tell(theirs, begins))]

    def _send(self, function: Callable[..., Any], arguments: Sequence[Any]) -> int:
        """Send a piece of work; return its number, whether it has gone or not."""
        self._asked += 1
        if self._pipe is None:
            return self._asked
        try:
            data = pickle.dumps((function, tuple(arguments)), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError):
            # What cannot be sent is done here.
            self._answers[self._asked] = (False, None)
            return self._asked
        try:
            self._pipe.send_bytes(_NUMBER.pack(self._asked) + data)
        except (OSError, ValueError):
            self._forget()
        return self._asked

    def _receive(self, number: int) -> Any:
        """Wait for the answer of a piece of work."""
        while number not in self._answers:
            if self._pipe is None:
                raise _LostError
            try:
                answered, done, result = pickle.loads(self._pipe.recv_bytes())  # noqa: S301
            except (EOFError, OSError):
                self._forget()
                raise _LostError from None
            self._answers[answered] = (done, result)
        done, result = self._answers.pop(number)
        if not done:
            raise _LostError
        return result

    def _forget(self) -> None:
        """Do all else here."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


class Started(Generic[Result]):
    """A piece of work that was given away."""

    def __init__(self, second: SecondProcess, number: int, work: Callable[[], Result]) -> None:
        """Keep what to wait for, and what to do if it does not come."""
        self._second, self._number, self._work = second, number, work

    def result(self) -> Result:
        """Wait for what it returns; do it here, if the other process did not."""
        try:
            result: Result = self._second._receive(self._number)  # noqa: SLF001
        except _LostError:
            return self._work()
        return result


class _Work(Generic[Result]):
    """A function and what it is called with."""

    def __init__(self, function: Callable[..., Result], arguments: Any, options: Any) -> None:
        self._function, self._arguments, self._options = function, arguments, options

    def __call__(self) -> Result:
        return self._function(*self._arguments, **self._options)


ALONE = SecondProcess()


@contextmanager
def open_second_process(
    modules: Sequence[str] = (), master: str | None = None
) -> Iterator[SecondProcess]:
    """Open a second process until the block ends, where there is a core and room for it.

    `master` is that of Spark: who asks for one thread there wants one here, too.
    """
    second = SecondProcess()
    try:
        if usable_cores() > 1 and mappable_bytes() is None and master not in {"local", "local[1]"}:
            second.open(modules)
        yield second
    finally:
        second.close()


# In the second process


def serve(pipe: int, state: int, parent: int) -> None:
    """Do what comes through a pipe until that is closed."""
    # Ctrl-C goes to all processes of a terminal; the first one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(parent)
    return_memory()
    collect_garbage_seldom()
    _STATE_FILE.append(state)
    given: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    connection = Connection(pipe)
    Thread(target=_read, args=(connection, given), daemon=True).start()
    with suppress(OSError):
        while True:
            connection.send_bytes(_answer(given.get()))


def _read(connection: Connection, given: queue.SimpleQueue[bytes]) -> None:
    """Keep what comes; end this process, whatever it does, when nobody can send any more."""
    try:
        while True:
            given.put(connection.recv_bytes())
    finally:
        os._exit(0)


def _answer(data: bytes) -> bytes:
    """Do a piece of work; who asked for it raises by itself what is raised here."""
    (number,) = _NUMBER.unpack_from(data)
    try:
        function, arguments = pickle.loads(memoryview(data)[_NUMBER.size :])  # noqa: S301
        return pickle.dumps((number, True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001
        return pickle.dumps((number, False, None))


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _end_with(parent: int) -> None:
    """Let the system end this process with the one that started it, and before that for memory."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


# What `serve` was given.
_STATE_FILE: list[int] = []


def _take_part(round_number: int, function: Callable[[Iterator[int]], Any]) -> Any:
    """Call a function with the parts of shared work that this process takes.

    Where all are taken nobody waits for it any more, and it must leave nothing.
    """
    numbers = _take(_STATE_FILE[0], round_number)
    first = next(numbers, None)
    return None if first is None else function(chain([first], numbers))


def _tell(numbers: Iterable[int], begins: Callable[[int], object]) -> Iterator[int]:
    for number in numbers:
        begins(number)
        yield number


def _begin_round(state: int, count: int) -> int:
    """Begin to share work of so many parts; whoever still takes parts of other work gets none."""
    with _locked(state):
        number = int(_STATE.unpack(os.pread(state, _STATE.size, 0))[0]) + 1
        os.pwrite(state, _STATE.pack(number, 0, count), 0)
    return number


def _take(state: int, round_number: int) -> Iterator[int]:
    """Yield the parts of shared work that nobody has taken."""
    while True:
        with _locked(state):
            number, part, count = _STATE.unpack(os.pread(state, _STATE.size, 0))
            if number != round_number or part >= count:
                return
            os.pwrite(state, _STATE.pack(number, part + 1, count), 0)
        yield part


@contextmanager
def _locked(state: int) -> Iterator[None]:
    fcntl.lockf(state, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(state, fcntl.LOCK_UN)
