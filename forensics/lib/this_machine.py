"""What this machine and its system give a process; macOS says some of it in another way."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import resource
import signal
import sys
from _thread import start_new_thread
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, stack_size

# What libraries map and hardly use: a pool of a gigabyte, buffers and a stack for each thread.
_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_STACK_BYTES = 2 << 20
# Of malloc.h: what of the end of its memory is kept, from where on each block is mapped by itself.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_SMALL_BLOCK = 1 << 20
# What a small archive's run maps, as measured.
_NEEDED_BYTES = 500 << 20
_NEARLY_ALL = 0.9
# A thread begins within so many seconds, or never.
_BEGINNING = 30
_ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

# Objects that are made until Python looks for garbage.
_SELDOM = (100_000, 50, 100)


def usable_cores() -> int:
    """Return on how many cores this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def collect_garbage_seldom() -> None:
    """Let Python look for garbage in circles seldom: rules, rows and findings hold next to none.

    Looking takes a fifth to a third of the time of whatever makes many objects.
    """
    gc.set_threshold(*_SELDOM)
    # Python looks through all objects once more before it ends, which takes half a second.
    atexit.register(gc.freeze)


def return_memory() -> None:
    """Let glibc, where that is there, give memory back, also that of an Arrow that is loaded later.

    Arrow's own allocator keeps so much of it that the peak of a run is higher by a quarter.
    """
    if _set_malloc({_M_TRIM_THRESHOLD: _SMALL_BLOCK, _M_MMAP_THRESHOLD: _SMALL_BLOCK}):
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def keep_memory() -> bool:
    """Let glibc keep large blocks for the ones that follow; return False where it is not there."""
    return _set_malloc({_M_TRIM_THRESHOLD: 64 << 20, _M_MMAP_THRESHOLD: 32 << 20})


def _set_malloc(options: Mapping[int, int]) -> bool:
    """Set options of glibc's malloc; return False where there is another library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    for option, value in options.items():
        mallopt(option, value)
    return True


def peak_memory() -> int:
    """Return the most memory that this process has held, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    return most if sys.platform == "darwin" else most << 10


def mappable_bytes() -> int | None:
    """Return how much memory this process may map, where `ulimit -v` limits it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def map_little() -> None:
    """Let libraries that are loaded from now on map little that they do not use.

    `ulimit -v` counts what is mapped.
    """
    for name, value in _FRUGAL.items():
        os.environ.setdefault(name, value)
    stack_size(_STACK_BYTES)
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        # Without it, glibc maps 64 MB for each thread that allocates.
        libc.mallopt(_M_ARENA_MAX, 1)
        # The threads of libraries have as much as `ulimit -s` says.
        attributes = ctypes.create_string_buffer(256)
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
        libc.pthread_setattr_default_np(attributes)


def check_threads(count: int) -> None:
    """Raise MemoryError if this process may not start so many threads."""
    over = Event()
    try:
        for _ in range(count):
            start_thread(over.wait)
    finally:
        over.set()


class Helper:
    """A thread that nobody waits for to begin.

    Where memory is over, one may end before it begins, and `Thread.start` would wait forever.
    """

    def __init__(self, target: Callable[[], object]) -> None:
        """Keep what it is to do; whatever fails in it is nobody's error."""
        self._target = target
        self.begun, self._over = Event(), Event()

    def start(self) -> None:
        """Begin; RuntimeError where the machine has no room for it."""
        try:
            start_new_thread(self._work, ())
        except RuntimeError:
            self._over.set()
            raise

    def _work(self) -> None:
        self.begun.set()
        try:
            with suppress(Exception):
                self._target()
        finally:
            self._over.set()

    def is_alive(self) -> bool:
        """Return True if it has begun and is not over."""
        return self.begun.is_set() and not self._over.is_set()

    def join(self, seconds: float) -> None:
        """Wait until it is over, but not for longer than that."""
        self._over.wait(seconds)


def start_thread(target: Callable[[], object]) -> Helper:
    """Start a thread that a run cannot do without; MemoryError if it never begins."""
    helper = Helper(target)
    try:
        helper.start()
    except RuntimeError as error:
        raise MemoryError(str(error)) from error
    if not helper.begun.wait(_BEGINNING):
        raise MemoryError("a thread that was started never began")
    return helper


def start_helper(target: Callable[[], object]) -> Helper:
    """Start a thread that a run can do without, where the machine has room for one.

    Whatever fails in it is nobody's error: who needs its work does it again.
    """
    helper = Helper(target)
    with suppress(RuntimeError):
        helper.start()
    return helper


def is_memory_used_up() -> bool:
    """Return True if this process has mapped nearly all that `ulimit -v` allows."""
    if (allowed := mappable_bytes()) is None:
        return False
    with suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text("utf-8")
        return int(status.split("VmPeak:")[1].split()[0]) << 10 > allowed * _NEARLY_ALL
    return False


def end_at_once(code: int) -> None:
    """End this process without the rest of what Python does then.

    Where memory is over, that fails in hundreds of places, and each of them says so.
    """
    try:
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def memory_is_short() -> str:
    """Say that memory is over, and what to do."""
    if (allowed := mappable_bytes()) is None:
        return "there is not enough memory; see the limits of the container, or read fewer logs"
    return (
        f"there is not enough memory: `ulimit -v` lets a process map {allowed >> 10:,} KB, and a"
        f" run needs {_NEEDED_BYTES >> 10:,} and more. Raise it, or read fewer logs"
    )


def stand_by_child() -> None:
    """Go on in a child of this process, which says it if the system or a library ends that.

    What finds no memory in C or C++ ends a process, and tells nobody why.
    """
    if sys.platform != "linux":
        return
    read, write = os.pipe()
    signals = {*_ENDINGS, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if not child:
        os.close(read)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Who ends as Python does has said why.
        atexit.register(os.write, write, b".")
        return
    os.close(write)
    os._exit(_wait_for(child, signals, read))


def _wait_for(child: int, signals: Collection[signal.Signals], said: int) -> int:
    """Return what a child ends with; it writes into the pipe `said` if it has said why."""
    ended = 0
    while not ended:
        told = signal.sigwaitinfo(signals)
        ended, status = os.waitpid(child, os.WNOHANG)
        # A key goes to all processes of a terminal.
        if not ended and told.si_signo != signal.SIGCHLD and told.si_code <= 0:
            os.kill(child, told.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if -code in {*_ENDINGS, signal.SIGKILL}:
        return 128 - code
    if not os.read(said, 1):
        os.write(2, f"Error: {memory_is_short()}\n".encode())
        return 1
    return code
