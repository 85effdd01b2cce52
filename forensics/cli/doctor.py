"""Checks what a run needs, before there is an incident; each answer says what to do about it.

A sample run reads a tiny archive end to end. It is made of the logs that a detector carries as its
sample, so it is known what must be found in it.
"""

from __future__ import annotations

import importlib.util
import io
import json
import locale
import os
import platform
import re
import resource
import shlex
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from forensics import __version__
from forensics.detection.declarative.spec import DeclaredDetector
from forensics.detection.registry import load_shipped_declarations
from forensics.engine import java
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError, JavaError
from forensics.lib.text_format import format_bytes
from forensics.lib.this_machine import usable_cores
from forensics.settings import Settings

_REINSTALL_ADVICE = "The installation is damaged: pip install --force-reinstall kafka-forensics"
_START_ADVICE = "See what Spark says by itself: pyspark --master 'local[1]' </dev/null"
_MIN_PAGE_BYTES = 10_000

OK, WARNING, PROBLEM = "ok", "warning", "problem"
# What the machine needs, in bytes; it is enough for a few GB of logs.
_MIN_DISK, _GOOD_DISK = 1 << 30, 5 << 30
_MIN_MEMORY, _GOOD_MEMORY = 1 << 30, 3 << 30
_MIN_OPEN_FILES = 1024
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)(;.*)?$")


@dataclass(frozen=True)
class Check:
    """The result of one check, and what to do where it is not ok."""

    name: str
    state: str
    message: str
    advice: str = ""


def check_quick_start() -> Iterator[Check]:
    """Read a tiny archive on Spark once more, and keep the classes that Java loads for it."""
    from forensics.engine.spark import end_java  # noqa: PLC0415 - needs Spark

    try:
        with java.keep_classes(end_java) as kept:
            yield from (one for one in check_with_spark("local[2]") if one.state == PROBLEM)
        told = f"{kept} holds Java's classes ({format_bytes(kept.stat().st_size)})"
        yield Check("java start", OK, f"{told}; runs start sooner, and you may delete it")
    except ForensicsError as error:
        yield Check("java start", WARNING, str(error), "Nothing needs it.")


def check_with_spark(master: str | None, listener: ProgressListener = SILENT) -> Iterator[Check]:
    """Read a tiny archive on Spark, as `postmortem` does."""
    with _sample_archive() as (archive, rule, expected):
        out = archive.with_name("out")
        settings = Settings((str(archive),), out, master or "local[2]")
        try:
            # Spark is loaded only now.
            from forensics.pipeline import postmortem  # noqa: PLC0415

            result = postmortem(settings, lambda _: None, listener)
        except ForensicsError as error:
            yield Check("spark", PROBLEM, str(error), _START_ADVICE)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL_ADVICE)
            return
        seconds = result["seconds"]["start"]
        yield Check("spark", OK, f"started in {seconds:.0f} s on {settings.master}")
        document = json.loads((out / "findings.json").read_text("utf-8"))
        count = sum(finding["detector"] == rule.id for finding in document["findings"])
        size = (out / "report.html").stat().st_size
        lines = result["archive"]["lines"]
        message = f"{lines} lines read, {count} finding of {expected}"
        good = count == expected and size > _MIN_PAGE_BYTES
        yield _check_sample(f"{message}, page of {format_bytes(size)} drawn", good=good)


def check_without_spark() -> Iterator[Check]:
    """Read the same in this process: rules, layouts and detectors, but neither Spark nor page."""
    from forensics.detection.declarative.interpreter import make_detector  # noqa: PLC0415
    from forensics.sandbox import run_archives  # noqa: PLC0415

    with _sample_archive() as (archive, rule, expected):
        try:
            run = run_archives([str(archive)], archive.with_name("out"))
            count = len(list(make_detector(rule).find(run.context())))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL_ADVICE)
            return
        lines = sum(file.counts["lines"] for file in run.files.values())
        message = f"{lines} lines read without Spark, {count} finding of {expected}"
        yield _check_sample(message, good=count == expected)


@contextmanager
def _sample_archive() -> Iterator[tuple[Path, DeclaredDetector, int]]:
    """Pack the sample with the most logs; yield it, its detector, and the number of findings."""
    firing = [
        (rule, one) for rule in load_shipped_declarations() for one in rule.samples if one.expected
    ]
    rule, sample = max(firing, key=lambda pair: (len(pair[1].logs), pair[1].name))
    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        path = Path(folder) / "sample.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in sample.logs.items():
                data = text.encode("utf-8")
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        yield path, rule, sample.expected


def _check_sample(message: str, *, good: bool) -> Check:
    return Check("sample", OK if good else PROBLEM, message, "" if good else _REINSTALL_ADVICE)


def check_machine(environ: Mapping[str, str], out: Path) -> Iterator[Check]:
    """Check everything that needs no Spark; `out` is the folder for output."""
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
    message = f"{platform.python_version()}, {sys.executable}; kafka-forensics {__version__}"
    if not sys.platform.startswith("linux"):
        return Check(
            "python", WARNING, f"{message}, on {sys.platform}", "Only Linux has been tried."
        )
    return Check("python", OK, message)


def _packages() -> Check:
    wrong, fine = [], []
    for name, wanted in _required_packages():
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append((f"{name} is missing", f"{name}{wanted}"))
            continue
        if _satisfies(have, wanted):
            fine.append(f"{name} {have}")
        else:
            wrong.append((f"{name} is {have}", f"{name}{wanted}"))
    if wrong:
        what = " ".join(shlex.quote(one) for _, one in wrong)
        install = f"{shlex.quote(sys.executable)} -m pip install {what}"
        return Check("packages", PROBLEM, ", ".join(one for one, _ in wrong), f"Run: {install}")
    return Check("packages", OK, ", ".join(fine) or "none are needed")


def _required_packages() -> list[tuple[str, str]]:
    """Return the required packages and versions, of the checkout or else of the installation."""
    checkout = _read_text(Path(__file__).parents[2] / "pyproject.toml")
    if 'name = "kafka-forensics"' in checkout:
        listed = tomllib.loads(checkout)["project"]["dependencies"]
    else:
        try:
            listed = metadata.requires("kafka-forensics") or []
        except metadata.PackageNotFoundError:
            listed = []
    found = [match for match in map(_REQUIREMENT.match, listed) if match]
    return [(one[1], one[2].strip()) for one in found if _applies(one[3] or "")]


def _applies(marker: str) -> bool:
    """Return whether a requirement is one of this machine, and of no extra."""
    if not marker.strip(" ;") or "extra" in marker:
        return "extra" not in marker
    if importlib.util.find_spec("packaging") is None:
        return False
    from packaging.markers import Marker  # noqa: PLC0415 - only where it is

    return Marker(marker.strip(" ;")).evaluate()


def _satisfies(have: str, wanted: str) -> bool:
    if importlib.util.find_spec("packaging") is None:
        return True
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only where it is

    return SpecifierSet(wanted).contains(have, prereleases=True)


def _java(environ: Mapping[str, str]) -> Check:
    try:
        return Check("java", OK, str(java.find_java(environ)))
    except JavaError as error:
        message, _, advice = str(error).partition(". ")
        return Check("java", PROBLEM, message, advice)


def _spark_elsewhere(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check for a Spark or a Python that the environment puts in the place of ours."""
    if home := environ.get("SPARK_HOME"):
        ours = metadata.version("pyspark")
        jars = [path.name for path in Path(home).glob("jars/spark-core_*.jar")]
        same = any(ours in name for name in jars)
        message = f"SPARK_HOME is {home}" + ("" if same else f", which is not Spark {ours}")
        advice = "" if same else "Unset SPARK_HOME, or name one of that version."
        yield Check("spark home", OK if same else WARNING, message, advice)
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
    free = _available_memory()
    if free is None:
        return Check("memory", WARNING, "nobody says how much is free", "Look at it yourself.")
    message = f"{format_bytes(free)} free, for {usable_cores()} cores"
    if free < _MIN_MEMORY:
        return Check(
            "memory", PROBLEM, message, "Free some: Spark and its workers need 1 GB or more."
        )
    if free < _GOOD_MEMORY:
        return Check("memory", WARNING, message, "Use fewer workers: --master 'local[1]'.")
    return Check("memory", OK, message)


def _available_memory() -> int | None:
    """Return how much memory is free and allowed: a container may have less than the machine."""
    lines = _read_text(Path("/proc/meminfo")).splitlines()
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    group = Path("/sys/fs/cgroup")
    limit, used = (
        _read_text(group / "memory.max").strip(),
        _read_text(group / "memory.current").strip(),
    )
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _disk(name: str, folder: Path) -> Check:
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(name, PROBLEM, f"{there} cannot be written", "Name another folder.")
    free = shutil.disk_usage(there).free
    message = f"{format_bytes(free)} free in {there.absolute()}"
    if free < _MIN_DISK:
        return Check(name, PROBLEM, message, "Free some, or name a folder on another disk.")
    if free < _GOOD_DISK:
        return Check(
            name, WARNING, message, "Large archives need about a tenth of their text there."
        )
    return Check(name, OK, message)


def _temporary(environ: Mapping[str, str]) -> Iterator[Check]:
    spark = environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    for folder in dict.fromkeys([tempfile.gettempdir(), spark or "/tmp"]):  # noqa: S108 - Spark's own default
        check = _disk("temporary", Path(folder))
        advice = "Let TMPDIR and SPARK_LOCAL_DIRS name a folder with room." if check.advice else ""
        yield Check(check.name, check.state, check.message, advice)
    # Spark unpacks native libraries there, whatever TMPDIR says.
    if os.statvfs("/tmp").f_flag & os.ST_NOEXEC:  # noqa: S108
        yield Check(
            "temporary", WARNING, "the temporary folder of Java is mounted noexec",
            "Set JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=DIR, where DIR lets programs start.",
        )  # fmt: skip


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _MIN_OPEN_FILES:
        advice = f"Run: ulimit -n {hard if hard != resource.RLIM_INFINITY else 65536}"
        return Check("open files", WARNING, f"at most {soft} at once", advice)
    return Check("open files", OK, f"{'any number' if soft < 0 else soft} at once")


def _encoding() -> Check:
    names = sys.getfilesystemencoding(), locale.getpreferredencoding(do_setlocale=False)
    message = f"files {names[0]}, text {names[1]}"
    if all(name.lower().replace("-", "") == "utf8" for name in names):
        return Check("encoding", OK, message)
    advice = "Set LC_ALL=C.UTF-8: names of files outside ASCII may be shown wrongly."
    return Check("encoding", WARNING, message, advice)
