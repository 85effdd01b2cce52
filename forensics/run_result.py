"""How a run ended: the exit code and its reason, and `_RESULT.json`, which is written last.

Where a cluster runs the job, the command that submitted it may end with 0 whatever happened: what
counts is this file, and that it is there.

The most memory that a run held at once on this machine: this process, Spark's and its workers.

Pages that processes share are counted once, as the kernel does it where it tells.
"""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

from forensics import __version__
from forensics.engine.progress import SILENT, ProgressListener
from forensics.lib.secrets import mask_text
from forensics.settings import Settings

_PAUSE = 1.0
_PROC = Path("/proc")


class PeakMemory:
    """Looks every second, while it is open, at what the processes of this run hold."""

    def __init__(self) -> None:
        """Begin with what this process held so far."""
        self.bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            # Under spark-submit the Java that started this process is a part of the run, too.
            first = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
            self.bytes = max(self.bytes, _tree_memory(first))


def _tree_memory(first: int) -> int:
    children: defaultdict[int, list[int]] = defaultdict(list)
    with suppress(OSError):
        for path in _PROC.iterdir():
            if path.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    stat = (path / "stat").read_text()
                    # A name may hold blanks and brackets; the parent stands behind the last one.
                    children[int(stat.rpartition(")")[2].split()[1])].append(int(path.name))
    total, todo = 0, [first]
    while todo:
        one = todo.pop()
        total += _process_memory(one)
        todo += children[one]
    return total


def _process_memory(process: int) -> int:
    folder = _PROC / str(process)
    with suppress(OSError, ValueError):
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    with suppress(OSError, ValueError, IndexError):
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


RESULT_FILE = "_RESULT.json"
SEVERITIES = ("info", "low", "medium", "high", "critical")


class ExitCode(IntEnum):
    """What the process ends with; 2 is click's own, for a command line that makes no sense."""

    DONE = 0
    FAILED = 1
    FINDINGS = 3
    CANNOT_TELL = 4
    STORE_LOCKED = 5
    INTERRUPTED = 130


@dataclass(frozen=True)
class RunOutcome:
    """The code, and why it is that one."""

    code: ExitCode
    reason: str


@dataclass
class Stopwatch:
    """When a run began, how long each stage took, and the most memory it held while open."""

    listener: ProgressListener = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    peak: PeakMemory = field(default_factory=PeakMemory)

    def __enter__(self) -> Self:
        self.peak.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.peak.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        begun = time.monotonic()
        self.listener.begin_stage(name)
        try:
            yield
        finally:
            self.listener.end_stage()
            passed = time.monotonic() - begun
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 2)

    def figures(self) -> dict[str, Any]:
        """Give what `_RESULT.json` says of the time and the memory that a run took."""
        return {
            "started": self.started.isoformat(timespec="milliseconds"),
            "ended": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": self.seconds,
            "peak_memory_mb": self.peak.bytes >> 20,
        }


def decide_outcome(
    document: Mapping[str, Any],
    problems: Iterable[str],
    closed: Iterable[str],
    settings: Settings,
) -> RunOutcome:
    """Say how a run that came to its end ends.

    `problems` are what could not be read, `closed` the checks of quality whose failure means that
    nothing can be said. A finding that somebody asked to be told of comes before all of them: it
    is there.
    """
    worst = [one["severity"] for one in document["findings"]]
    if settings.fail_on is not None:
        asked = SEVERITIES[SEVERITIES.index(settings.fail_on) :]
        if count := sum(level in asked for level in worst):
            many = f"{count} finding{'' if count == 1 else 's'}"
            return RunOutcome(ExitCode.FINDINGS, f"{many} of level {settings.fail_on} or above")
    for check in closed:
        return RunOutcome(ExitCode.CANNOT_TELL, f"the quality gate is closed: {check}")
    for problem in problems:
        if settings.strict:
            return RunOutcome(ExitCode.CANNOT_TELL, f"not everything could be read: {problem}")
    if document["verdict"] == "cannot_tell":
        return RunOutcome(ExitCode.CANNOT_TELL, str(document["summary"]))
    return RunOutcome(ExitCode.DONE, str(document["summary"]))


def clear_result(out: Path) -> None:
    """Take away how an earlier run ended."""
    (out / RESULT_FILE).unlink(missing_ok=True)


def save_result(out: Path, ending: RunOutcome, **told: Any) -> dict[str, Any]:
    """Write how the run ended, whole or not at all, and give what was written."""
    result = {
        "schema": 1,
        "version": __version__,
        "exit_code": int(ending.code),
        # An error tells of paths as they are; all else was made of what is masked already.
        "reason": mask_text(ending.reason) if ending.code is ExitCode.FAILED else ending.reason,
        **told,
    }
    if "command" in told:
        result["command"] = [mask_text(word) for word in told["command"]]
    out.mkdir(parents=True, exist_ok=True)
    half = out / f".{RESULT_FILE}.{os.getpid()}"
    half.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    half.replace(out / RESULT_FILE)
    return result
