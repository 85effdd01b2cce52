"""Reads what a JVM leaves behind as it dies: `hs_err_pid*.log`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from forensics.events.documents.facts import Line, Row, read_moment, state, whole_number

_RULE = "jvm"
_SIGNAL = re.compile(
    r"^#  (?P<signal>SIG[A-Z]+|EXCEPTION_\w+|Internal Error)\b.*\bpid=(?P<pid>\d+)"
)
_MEMORY = re.compile(r"^# (?:There is insufficient memory|Native memory allocation)")
_OUT = re.compile(r"^#  (?:Out of Memory Error|fatal error: OutOfMemory)")
_TIME = re.compile(
    r"^[Tt]ime: (?P<when>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}.{0,80})$"
)


def read_crash_report(lines: Iterable[Line]) -> Iterator[Row]:
    """Read the report of a JVM that crashed, or that got no memory from the system."""
    cause: Line | None = None
    error, pid, frame, ended = "", None, "", None
    for line in lines:
        text = line.text
        if found := _SIGNAL.match(text):
            cause, error = cause or line, error or found["signal"]
            pid = pid or whole_number(found["pid"], 62)
        elif _MEMORY.match(text) or _OUT.match(text):
            cause, error = (cause, error) if error == "out of memory" else (line, "out of memory")
        elif text.startswith("# Problematic frame"):
            frame = "next"
        elif frame == "next":
            frame = text.removeprefix("#").strip() or frame
        elif ended is None and (found := _TIME.match(text)):
            ended = read_moment(found["when"])
    if cause is not None:
        yield state(
            cause, "jvm_crashed", _RULE, ended, error=error,
            detail="" if frame == "next" else frame, position=pid,
        )  # fmt: skip
