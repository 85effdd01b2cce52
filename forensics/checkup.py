"""Looks at what a run needs, before there is an incident: each answer says what to do about it."""

from __future__ import annotations

import importlib.util
import locale
import os
import platform
import re
import resource
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from forensics import __version__, java
from forensics.errors import JavaError
from forensics.progress import amount

__all__ = ["OK", "PROBLEM", "WARNING", "Check", "machine"]

OK, WARNING, PROBLEM = "ok", "warning", "problem"
# What is asked of the machine, in bytes; a run of a few GB of logs is content with it.
_LITTLE_DISK, _SOME_DISK = 1 << 30, 5 << 30
_LITTLE_MEMORY, _SOME_MEMORY = 1 << 30, 3 << 30
_FILES = 1024
_NAMED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)(;.*)?$")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: how it stands, and what to do where it is not well."""

    name: str
    state: str
    says: str
    advice: str = ""


def machine(environ: Mapping[str, str], out: Path) -> Iterator[Check]:
    """Look at everything that can be seen without starting Spark; `out` is where output goes."""
    yield _python()
    yield _packages()
    yield _java(environ)
    yield from _spark_elsewhere(environ)
    yield _memory()
    yield _disk("output", out)
    yield from _temporary(environ)
    yield _open_files()
    yield _encoding()


def _python() -> Check:
    says = f"{platform.python_version()}, {sys.executable}; kafka-forensics {__version__}"
    if not sys.platform.startswith("linux"):
        return Check("python", WARNING, f"{says}, on {sys.platform}", "Only Linux has been tried.")
    return Check("python", OK, says)


def _packages() -> Check:
    wrong, fine = [], []
    for name, wanted in _needs():
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append((f"{name} is missing", f"{name}{wanted}"))
            continue
        if _fits(have, wanted):
            fine.append(f"{name} {have}")
        else:
            wrong.append((f"{name} is {have}", f"{name}{wanted}"))
    if wrong:
        what = " ".join(shlex.quote(one) for _, one in wrong)
        install = f"{shlex.quote(sys.executable)} -m pip install {what}"
        return Check("packages", PROBLEM, ", ".join(one for one, _ in wrong), f"Run: {install}")
    return Check("packages", OK, ", ".join(fine) or "none are needed")


def _needs() -> list[tuple[str, str]]:
    """Say which packages are needed, in which versions: as installed, or as the checkout says."""
    checkout = _text(Path(__file__).parent.parent / "pyproject.toml")
    if 'name = "kafka-forensics"' in checkout:
        listed = tomllib.loads(checkout)["project"]["dependencies"]
    else:
        try:
            listed = metadata.requires("kafka-forensics") or []
        except metadata.PackageNotFoundError:
            listed = []
    found = [match for match in map(_NAMED.match, listed) if match]
    return [(one[1], one[2].strip()) for one in found if "extra" not in (one[3] or "")]


def _fits(have: str, wanted: str) -> bool:
    if importlib.util.find_spec("packaging") is None:
        return True
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only where it is

    return SpecifierSet(wanted).contains(have, prereleases=True)


def _java(environ: Mapping[str, str]) -> Check:
    try:
        return Check("java", OK, str(java.find(environ)))
    except JavaError as error:
        says, _, advice = str(error).partition(". ")
        return Check("java", PROBLEM, says, advice)


def _spark_elsewhere(environ: Mapping[str, str]) -> Iterator[Check]:
    """Look for a Spark or a Python that the environment would put in the place of ours."""
    if home := environ.get("SPARK_HOME"):
        ours = metadata.version("pyspark")
        jars = [path.name for path in Path(home).glob("jars/spark-core_*.jar")]
        same = any(ours in name for name in jars)
        says = f"SPARK_HOME is {home}" + ("" if same else f", which is not Spark {ours}")
        advice = "" if same else "Unset SPARK_HOME, or name one of that version."
        yield Check("spark home", OK if same else WARNING, says, advice)
    if python := environ.get("PYSPARK_PYTHON"):
        there = shutil.which(python)
        if there is None:
            yield Check(
                "workers", PROBLEM, f"PYSPARK_PYTHON is {python}, which cannot be started",
                f"Unset PYSPARK_PYTHON, or let it be {sys.executable}.",
            )  # fmt: skip
        elif Path(there).resolve() != Path(sys.executable).resolve():
            yield Check(
                "workers", WARNING, f"PYSPARK_PYTHON is {there}, another one than this",
                "It needs the same packages; unset it if it is not meant.",
            )  # fmt: skip


def _memory() -> Check:
    free = _available()
    if free is None:
        return Check("memory", WARNING, "nobody says how much is free", "Look at it yourself.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    says = f"{amount(free)} free, for {cores} cores"
    if free < _LITTLE_MEMORY:
        return Check("memory", PROBLEM, says, "Free some: Spark and its workers need 1 GB or more.")
    if free < _SOME_MEMORY:
        return Check("memory", WARNING, says, "Use fewer workers: --master 'local[1]'.")
    return Check("memory", OK, says)


def _available() -> int | None:
    """Say how much memory is free, and allowed: a container may have less than the machine."""
    lines = _text(Path("/proc/meminfo")).splitlines()
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    group = Path("/sys/fs/cgroup")
    limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _disk(name: str, folder: Path) -> Check:
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(name, PROBLEM, f"{there} cannot be written", "Name another folder.")
    free = shutil.disk_usage(there).free
    says = f"{amount(free)} free in {there.absolute()}"
    if free < _LITTLE_DISK:
        return Check(name, PROBLEM, says, "Free some, or name a folder on another disk.")
    if free < _SOME_DISK:
        return Check(name, WARNING, says, "Large archives need about a tenth of their text there.")
    return Check(name, OK, says)


def _temporary(environ: Mapping[str, str]) -> Iterator[Check]:
    spark = environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    for folder in dict.fromkeys([tempfile.gettempdir(), spark or "/tmp"]):  # noqa: S108 - Spark's own default
        check = _disk("temporary", Path(folder))
        advice = "Let TMPDIR and SPARK_LOCAL_DIRS name a folder with room." if check.advice else ""
        yield Check(check.name, check.state, check.says, advice)
    # Spark unpacks native libraries there, whatever TMPDIR says.
    if os.statvfs("/tmp").f_flag & os.ST_NOEXEC:  # noqa: S108
        yield Check(
            "temporary", WARNING, "the temporary folder of Java is mounted noexec",
            "Set JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=DIR, where DIR lets programs start.",
        )  # fmt: skip


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        advice = f"Run: ulimit -n {hard if hard != resource.RLIM_INFINITY else 65536}"
        return Check("open files", WARNING, f"at most {soft} at once", advice)
    return Check("open files", OK, f"{'any number' if soft < 0 else soft} at once")


def _encoding() -> Check:
    names = sys.getfilesystemencoding(), locale.getpreferredencoding(do_setlocale=False)
    says = f"files {names[0]}, text {names[1]}"
    if all(name.lower().replace("-", "") == "utf8" for name in names):
        return Check("encoding", OK, says)
    advice = "Set LC_ALL=C.UTF-8: names of files outside ASCII may be shown wrongly."
    return Check("encoding", WARNING, says, advice)
