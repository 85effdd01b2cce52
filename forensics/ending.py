"""How a run ended: the exit code and its reason, and `_RESULT.json`, which is written last.

Where a cluster runs the job, the command that submitted it may end with 0 whatever happened: what
counts is this file, and that it is there.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from forensics.settings import Settings

__all__ = ["LEVELS", "Code", "Ending", "Stopwatch", "clear", "ending_of", "save"]

NAME = "_RESULT.json"
LEVELS = ("info", "low", "medium", "high", "critical")


class Code(IntEnum):
    """What the process ends with; 2 is click's own, for a command line that makes no sense."""

    DONE = 0
    FAILED = 1
    FOUND = 3
    CANNOT_TELL = 4
    HELD = 5
    INTERRUPTED = 130


@dataclass(frozen=True)
class Ending:
    """The code, and why it is that one."""

    code: Code
    because: str


@dataclass
class Stopwatch:
    """How long each stage took."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        begun = time.monotonic()
        try:
            yield
        finally:
            passed = time.monotonic() - begun
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 2)


def ending_of(
    document: Mapping[str, Any],
    problems: Iterable[str],
    closed: Iterable[str],
    settings: Settings,
) -> Ending:
    """Say how a run that came to its end ends.

    `problems` are what could not be read, `closed` the checks of quality whose failure means that
    nothing can be said. A finding that somebody asked to be told of comes before all of them: it
    is there.
    """
    worst = [one["severity"] for one in document["findings"]]
    if settings.fail_on is not None:
        asked = LEVELS[LEVELS.index(settings.fail_on) :]
        if count := sum(level in asked for level in worst):
            many = f"{count} finding{'' if count == 1 else 's'}"
            return Ending(Code.FOUND, f"{many} of level {settings.fail_on} or above")
    for check in closed:
        return Ending(Code.CANNOT_TELL, f"the quality gate is closed: {check}")
    for problem in problems:
        if settings.strict:
            return Ending(Code.CANNOT_TELL, f"not everything could be read: {problem}")
    if document["verdict"] == "cannot_tell":
        return Ending(Code.CANNOT_TELL, str(document["summary"]))
    return Ending(Code.DONE, str(document["summary"]))


def clear(out: Path) -> None:
    """Take away how an earlier run ended."""
    (out / NAME).unlink(missing_ok=True)


def save(out: Path, ending: Ending, **told: Any) -> dict[str, Any]:
    """Write how the run ended, whole or not at all, and give what was written."""
    result = {
        "schema": 1,
        "exit_code": int(ending.code),
        "reason": ending.because,
        **told,
        "peak_memory_mb": _peak_memory(),
    }
    out.mkdir(parents=True, exist_ok=True)
    half = out / f".{NAME}.{os.getpid()}"
    half.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    half.replace(out / NAME)
    return result


def _peak_memory() -> int:
    """The most that this process, or a child of it that has ended, ever held."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in whose) // 1024
