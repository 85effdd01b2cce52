"""Looks at what a run needs, before there is an incident: each answer says what to do about it.

A run on a tiny archive, end to end, to see that everything is there: Spark, workers, page.

The archive is made from the logs that a detector carries as its sample, so what must be found in
it is known.
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
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics import __version__
from forensics.detection.declarative.spec import DeclaredDetector
from forensics.detection.registry import load_shipped_declarations
from forensics.engine import java
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError, JavaError
from forensics.lib.formatting import format_bytes
from forensics.settings import Settings

_REINSTALL_ADVICE = "The installation is damaged: pip install --force-reinstall kafka-forensics"
_START_ADVICE = "See what Spark says by itself: pyspark --master 'local[1]' </dev/null"
_MIN_PAGE_BYTES = 10_000


def check_with_spark(master: str | None, watcher: ProgressListener = SILENT) -> Iterator[Check]:
    """Read a tiny archive as `postmortem` does, on Spark."""
    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        rule, logs, expected = _largest_sample()
        archive = Path(folder) / "sample.tar.gz"
        _pack(logs, archive)
        settings = Settings((str(archive),), Path(folder) / "out", master or "local[2]")
        try:
            # Spark is wanted only now.
            from forensics.pipeline import postmortem  # noqa: PLC0415

            result = postmortem(settings, _ignore_progress, watcher)
        except ForensicsError as error:
            yield Check("spark", PROBLEM, str(error), _START_ADVICE)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL_ADVICE)
            return
        seconds = result["seconds"]
        yield Check("spark", OK, f"started in {seconds['start']:.0f} s on {settings.master}")
        yield _check_sample_run(result, rule, settings.out, expected)


def check_without_spark() -> Iterator[Check]:
    """Read the same in this process: rules, layouts and detectors, but neither Spark nor page."""
    from forensics.detection.declarative.interpreter import make_detector  # noqa: PLC0415
    from forensics.sandbox import run_archives  # noqa: PLC0415

    with TemporaryDirectory(prefix="kafka-forensics-") as folder:
        rule, logs, expected = _largest_sample()
        archive = Path(folder) / "sample.tar.gz"
        _pack(logs, archive)
        try:
            trial = run_archives([str(archive)], Path(folder) / "out")
            found = len(list(make_detector(rule).find(trial.context())))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield Check("sample", PROBLEM, f"{type(error).__name__}: {error}", _REINSTALL_ADVICE)
            return
        lines = sum(one.counts["lines"] for one in trial.files.values())
        says = f"{lines} lines read without Spark, {found} finding of {expected}"
        good = found == expected
        yield Check("sample", OK if good else PROBLEM, says, "" if good else _REINSTALL_ADVICE)


def _largest_sample() -> tuple[DeclaredDetector, Mapping[str, str], int]:
    """Give the sample of a detector that has the most logs, and what must be found in it."""
    firing = [
        (rule, one) for rule in load_shipped_declarations() for one in rule.samples if one.expected
    ]
    rule, sample = max(firing, key=lambda pair: (len(pair[1].logs), pair[1].name))
    return rule, sample.logs, sample.expected


def _pack(logs: Mapping[str, str], target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for name, text in logs.items():
            data = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _check_sample_run(
    result: Mapping[str, Any], rule: DeclaredDetector, out: Path, expected: int
) -> Check:
    document = json.loads((out / "findings.json").read_text("utf-8"))
    found = sum(one["detector"] == rule.id for one in document["findings"])
    size = (out / "report.html").stat().st_size
    lines = result["archive"]["lines"]
    says = f"{lines} lines read, {found} finding of {expected}, page of {format_bytes(size)} drawn"
    good = found == expected and size > _MIN_PAGE_BYTES
    return Check("sample", OK if good else PROBLEM, says, "" if good else _REINSTALL_ADVICE)


def _ignore_progress(text: str) -> None:
    """Say nothing: only the outcome counts."""


OK, WARNING, PROBLEM = "ok", "warning", "problem"
# What is asked of the machine, in bytes; a run of a few GB of logs is content with it.
_MIN_DISK, _GOOD_DISK = 1 << 30, 5 << 30
_MIN_MEMORY, _GOOD_MEMORY = 1 << 30, 3 << 30
_MIN_OPEN_FILES = 1024
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)(;.*)?$")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: how it stands, and what to do where it is not well."""

    name: str
    state: str
    message: str
    advice: str = ""


def check_machine(environ: Mapping[str, str], out: Path) -> Iterator[Check]:
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
    """Say which packages are needed, in which versions: as installed, or as the checkout says."""
    checkout = _read_text(Path(__file__).parents[2] / "pyproject.toml")
    if 'name = "kafka-forensics"' in checkout:
        listed = tomllib.loads(checkout)["project"]["dependencies"]
    else:
        try:
            listed = metadata.requires("kafka-forensics") or []
        except metadata.PackageNotFoundError:
            listed = []
    found = [match for match in map(_REQUIREMENT.match, listed) if match]
    return [(one[1], one[2].strip()) for one in found if "extra" not in (one[3] or "")]


def _satisfies(have: str, wanted: str) -> bool:
    if importlib.util.find_spec("packaging") is None:
        return True
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only where it is

    return SpecifierSet(wanted).contains(have, prereleases=True)


def _java(environ: Mapping[str, str]) -> Check:
    try:
        return Check("java", OK, str(java.find_java(environ)))
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
    free = _available_memory()
    if free is None:
        return Check("memory", WARNING, "nobody says how much is free", "Look at it yourself.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    says = f"{format_bytes(free)} free, for {cores} cores"
    if free < _MIN_MEMORY:
        return Check("memory", PROBLEM, says, "Free some: Spark and its workers need 1 GB or more.")
    if free < _GOOD_MEMORY:
        return Check("memory", WARNING, says, "Use fewer workers: --master 'local[1]'.")
    return Check("memory", OK, says)


def _available_memory() -> int | None:
    """Say how much memory is free, and allowed: a container may have less than the machine."""
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
    says = f"{format_bytes(free)} free in {there.absolute()}"
    if free < _MIN_DISK:
        return Check(name, PROBLEM, says, "Free some, or name a folder on another disk.")
    if free < _GOOD_DISK:
        return Check(name, WARNING, says, "Large archives need about a tenth of their text there.")
    return Check(name, OK, says)


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
    says = f"files {names[0]}, text {names[1]}"
    if all(name.lower().replace("-", "") == "utf8" for name in names):
        return Check("encoding", OK, says)
    advice = "Set LC_ALL=C.UTF-8: names of files outside ASCII may be shown wrongly."
    return Check("encoding", WARNING, says, advice)
