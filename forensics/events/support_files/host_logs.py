"""Reads what a machine and its JVM log as processes die: kernel, systemd, `hs_err_pid*.log`.

Such lines stand in a journal, in a syslog or in the kernel's own ring, alone or between those of
Kafka.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from forensics.events.support_files.facts import Line, Row, read_moment, state, whole_number
from forensics.ingest.record_splitter import TakenLines
from forensics.ingest.record_starts import Lines
from forensics.lib.time_units import SECOND

_RULE = "host"
_WHEN = (
    r"(?P<when>(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?: ?(?:Z|[+-]\d\d:?\d\d)| [A-Z]{3,4})?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\d{10}\.\d{6})"
)
_SECONDS = re.compile(r"[0-9]{10}(?:\.[0-9]{1,9})?")
# host, program and its process; RFC 5424 has the same in another order
# A level at the place of the host is that of a program.
_NO_LEVEL = r"(?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) )"
_JOURNAL = re.compile(
    rf"^(?:<\d{{1,3}}>)?{_WHEN} {_NO_LEVEL}(?P<host>[\w.-]+) "
    r"(?P<program>[\w./@:-]+?)(?:\[(?P<pid>\d+)\])?: (?P<says>.*)$"
)
_RFC5424 = re.compile(
    r"^(?:\d+ )?<\d{1,3}>1 (?P<when>\S+) (?P<host>\S+) (?P<program>\S+) (?P<pid>\S+) \S+ "
    r"(?:-|\[.*?\]) ?(?P<says>.*)$"
)
_RING = re.compile(
    r"^(?:<\d{1,3}>)?(?:\[ *\d+\.\d{6}\]"
    r"|\[(?P<ctime>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"
    r"|(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d)) (?P<says>\S.*)$"
)
_CLOCK = re.compile(r"^(?:\[ *\d+\.\d+\] )+")
# A line that holds none of these is of no interest; nearly all are not.
PROBE = re.compile(
    rb"Kill(?:ed)? process|killed process|oom-kill|OOM killer|process exited|I/O error|EXT4-fs|XFS|"
    rb"read-only|Linux version|due to memory pressure|segfault"
)
_PROBE = re.compile(PROBE.pattern.decode())
_KILLED = re.compile(r"[Kk]ill(?:ed)? process (?P<pid>\d+)[, ]+\(?(?P<name>[^),]+)\)?")
_OOM = re.compile(r"oom-kill:constraint=\w+,.*\btask=(?P<name>[^,]+),pid=(?P<pid>\d+)")
_UNIT = re.compile(r"^(?P<unit>[\w@.:\\-]+\.(?:service|scope)): (?P<says>.*)$")
_EXITED = re.compile(
    r"Main process exited, code=(?P<code>\w+), status=(?P<status>\d+)/(?P<name>\S+)"
)
_OOMD = re.compile(r"Killed (?P<unit>\S+\.(?:service|scope)) due to memory pressure")
_SEGFAULT = re.compile(r"^(?P<name>[^\[]+)\[(?P<pid>\d+)\]: segfault at ")
_DISK = re.compile(
    r"(?:blk_update_request: |Buffer )?I/O error|EXT4-fs error|"
    r"[Rr]emounting filesystem read-only|XFS .*(?:[Ss]hutting down|metadata I/O error)"
)
_DEVICE = re.compile(
    r"\bdev(?:ice)? (?P<one>[a-z][\w-]*)|\((?:device )?(?P<two>[a-z][\w-]*)\)", re.ASCII
)
# Processes that may be a broker's: a JVM, or the script that started one.
_JVM = re.compile(r"java|kafka|jsvc", re.IGNORECASE)
_UNITS = re.compile(r"kafka|confluent-(?:server|broker)|broker", re.IGNORECASE)
_SAMPLE = 40
# A longer line is none of these; a JSON object may be.
_MAX_LINE = 8 << 10
_SHARE = 0.8


def looks_like_host_log(head: str) -> bool:
    r"""Return True if most lines are a journal's, a syslog's or the kernel's.

    >>> looks_like_host_log("Nov 18 11:38:25 kafka-2 kernel: Linux version 6.1\n")
    True
    >>> looks_like_host_log("[2026-11-18 11:38:25,123] INFO up (kafka.server.KafkaServer)\n")
    False
    """
    lines = [line for line in head.splitlines() if line.strip()][:_SAMPLE]
    if lines and lines[0].startswith("-- "):
        lines = lines[1:]
    allowed = len(lines) * (1 - _SHARE)
    for line in lines:
        allowed -= not _matches(line)
        if allowed < 0:
            return False
    return bool(lines)


def _matches(text: str) -> bool:
    if text.startswith("{"):
        return '"__REALTIME_TIMESTAMP"' in text
    return any(pattern.match(text) for pattern in (_JOURNAL, _RFC5424, _RING))


def read_host_lines(lines: Iterable[Line]) -> Iterator[Row]:
    """Read the lines that tell of ends of processes, and of disks."""
    for line in lines:
        if not _PROBE.search(line.text):
            continue
        at, host, program, says = _take_apart(line.text[:_MAX_LINE])
        if program == "kernel":
            yield from _read_kernel(line, at, host, _CLOCK.sub("", says))
        elif program.startswith("systemd"):
            yield from _read_systemd(line, at, host, says)


def _take_apart(text: str) -> tuple[int | None, str, str, str]:
    """Return the time, the host, the program and the message of a line."""
    if text.startswith("{"):
        return _from_json(text)
    if found := _JOURNAL.match(text) or _RFC5424.match(text):
        when, host, program = found["when"], found["host"], found["program"]
        at = read_moment(when) if (seconds := _SECONDS.fullmatch(when)) is None else None
        if seconds:
            at = round(float(when) * SECOND)
        return at, host, program.rpartition("/")[2], found["says"]
    if found := _RING.match(text):
        when = found["iso"] or found["ctime"] or ""
        return read_moment(when), "", "kernel", found["says"]
    return None, "", "", ""


def _from_json(text: str) -> tuple[int | None, str, str, str]:
    try:
        entry: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None, "", "", ""
    if not isinstance(entry, dict):
        return None, "", "", ""
    at = str(entry.get("__REALTIME_TIMESTAMP", ""))
    known = at.isdecimal() and len(at) == 16
    program = "kernel" if entry.get("_TRANSPORT") == "kernel" else entry.get("SYSLOG_IDENTIFIER")
    return (
        int(at) if known else None,
        str(entry.get("_HOSTNAME") or ""),
        str(program or ""),
        str(entry.get("MESSAGE") or ""),
    )


def _read_kernel(line: Line, at: int | None, host: str, says: str) -> Iterator[Row]:
    subject = f"host {host}".strip()
    if found := _KILLED.search(says) or _OOM.search(says):
        if _JVM.search(found["name"]):
            yield state(
                line, "kernel_killed", _RULE, at, subject=subject, error="OOMKilled",
                detail=found["name"], position=whole_number(found["pid"], 62),
            )  # fmt: skip
    elif (found := _SEGFAULT.match(says)) and _JVM.search(found["name"]):
        yield state(
            line, "process_ended", _RULE, at, subject=subject, error="SIGSEGV",
            detail=found["name"], position=whole_number(found["pid"], 62),
        )  # fmt: skip
    elif _DISK.search(says):
        device = _DEVICE.search(says)
        name = (device["one"] or device["two"]) if device else None
        yield state(line, "host_disk_failed", _RULE, at, subject=subject, detail=name)
    elif says.startswith("Linux version"):
        yield state(line, "host_booted", _RULE, at, subject=subject)


_ACTIVE = re.compile(
    r"^\s*Active: (?P<state>\w+)(?: \((?!Result)[^)]*\))?(?: \(Result: (?P<result>[\w-]+)\))?"
    r" since (?P<when>.+?);"
)
_PROCESS = re.compile(
    r"^\s*(?:Main PID|Process): (?P<pid>\d+) .*\(code=(?P<code>\w+)"
    r"(?:, (?:status|signal)=(?P<status>[\w/-]+))?\)"
)


def read_service_status(lines: Iterable[Line]) -> Iterator[Row]:
    """Read `systemctl status`: how the service ended, and the lines of the journal below that."""
    unit, host, ended = "", "", False
    active: tuple[Line, re.Match[str]] | None = None
    process: re.Match[str] | None = None
    for line in lines:
        if line.number == 1:
            unit = line.text.split()[1]
        elif active is None and (found := _ACTIVE.match(line.text)):
            active = line, found
        elif found := _PROCESS.match(line.text):
            process = found
        elif journal := _JOURNAL.match(line.text):
            host = host or journal["host"]
            for row in read_host_lines([line]):
                ended = ended or row["kind"] in ("process_ended", "kernel_killed")
                yield row
    if active and not ended and active[1]["state"] in ("failed", "inactive", "activating"):
        yield from _read_ended_service(*active, unit, host, process)


def _read_ended_service(
    line: Line, active: re.Match[str], unit: str, host: str, process: re.Match[str] | None
) -> Iterator[Row]:
    at = read_moment(active["when"])
    facts: Row = {"subject": f"host {host}".strip(), "detail": unit}
    status, _, _ = (process["status"] or "" if process else "").partition("/")
    if active["result"] == "oom-kill":
        yield state(line, "kernel_killed", _RULE, at, error="OOMKilled", **facts)
    elif process and _UNITS.search(unit) and (status != "0" or active["state"] == "failed"):
        was_killed = process["code"] != "exited"
        facts["position"] = whole_number(process["pid"], 62)
        facts["error"] = f"SIG{status.removeprefix('SIG')}" if was_killed else None
        yield state(line, "process_ended", _RULE, at, value=None if was_killed else status, **facts)


def _read_systemd(line: Line, at: int | None, host: str, says: str) -> Iterator[Row]:
    if found := _OOMD.search(says):
        unit = found["unit"].rpartition("/")[2]
        says = "oom-kill"
    elif found := _UNIT.match(says):
        unit, says = found["unit"], found["says"]
    else:
        return
    if not _UNITS.search(unit):
        return
    facts: Row = {"subject": f"host {host}".strip(), "detail": unit}
    if exited := _EXITED.search(says):
        killed = exited["code"] != "exited"
        yield state(
            line, "process_ended", _RULE, at, value=None if killed else exited["status"],
            error=f"SIG{exited['name'].removeprefix('SIG')}" if killed else None, **facts,
        )  # fmt: skip
    elif "oom-kill" in says or "OOM killer" in says:
        yield state(line, "kernel_killed", _RULE, at, error="OOMKilled", **facts)


_CRASH_RULE = "jvm"
_SIGNAL = re.compile(
    r"^#  (?P<signal>SIG[A-Z]+|EXCEPTION_\w+|Internal Error)\b.*\bpid=(?P<pid>\d+)"
)
_MEMORY = re.compile(
    r"^# (?:There is insufficient memory|Native memory allocation| Out of Memory Error)"
)
_HEAP = re.compile(
    r"^(?:#  fatal error: OutOfMemory encountered: |(?:Terminating|Aborting) due to )"
    r"(?P<of>.{0,200})"
)
_HEAP_ERROR = "OutOfMemoryError"
_COMMAND = re.compile(r"^(?:Command Line|java_command): (?P<command>.+)$")
_MAIN_CLASS = re.compile(r"(?:^| )(?P<main>[a-z][\w$]*(?:\.[\w$]+)+)(?: |$)")
_LOGS_DIR = re.compile(r"-Dkafka\.logs\.dir=(?P<path>\S+)")
_TIME = re.compile(
    r"^[Tt]ime: (?P<when>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}.{0,80})$"
)


def read_crash_report(lines: Iterable[Line]) -> Iterator[Row]:
    """Read the report of a JVM that crashed, or that got no memory from the system or its heap.

    `subject` is its main class; `value` is the directory of its logs, if its command names one.
    """
    cause: Line | None = None
    error, pid, frame, ended = "", None, "", None
    command = ""
    for line in lines:
        text = line.text
        if found := _SIGNAL.match(text):
            cause, error = cause or line, error or found["signal"]
            pid = pid or whole_number(found["pid"], 62)
        elif found := _HEAP.match(text):
            cause, frame = (cause or line, frame or found["of"])
            error = _HEAP_ERROR
        elif _MEMORY.match(text):
            cause, error = (cause, error) if error == "out of memory" else (line, "out of memory")
        elif text.startswith("# Problematic frame"):
            frame = frame or "next"
        elif frame == "next":
            frame = text.removeprefix("#").strip() or frame
        elif ended is None and (found := _TIME.match(text)):
            ended = read_moment(found["when"])
        elif found := _COMMAND.match(text):
            command += f" {found['command']}"
    if cause is not None:
        main, folder = _MAIN_CLASS.search(command), _LOGS_DIR.search(command)
        yield state(
            cause, "jvm_crashed", _CRASH_RULE, ended, error=error,
            detail="" if frame == "next" else frame, position=pid,
            subject=f"JVM {main['main']}" if main else None, value=folder and folder["path"],
        )  # fmt: skip


# What a JVM, or the shell that ran it, writes into the output of a process that ends.
_LAST_PROBES = (
    b"Java Runtime Environment", b"due to java.lang.OutOfMemoryError", b"Killed", b"Aborted",
    b"Segmentation fault",
)  # fmt: skip
_LAST_WORDS = re.compile(
    rb"(?m)^(?:# A fatal error has been detected by the Java Runtime Environment"
    rb"|# There is insufficient memory for the Java Runtime Environment"
    rb"|(?:Terminating|Aborting) due to java\.lang\.OutOfMemoryError"
    rb"|(?:[\w./-]{1,200}: line [0-9]{1,6}: {1,9}[0-9]{1,10} )?"
    rb"(?:Killed|Aborted|Segmentation fault)\b)"
)
_SHELL = re.compile(
    r"^(?P<script>[\w./-]+: line \d+: +(?P<pid>\d+) )?"
    r"(?P<what>Killed|Aborted|Segmentation fault)(?: +\(core dumped\))?(?P<rest> +\S.*)?$"
)
_SHELL_SIGNALS = {"Killed": "SIGKILL", "Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV"}
_LAST_LINES = 40


def find_last_words(taken: TakenLines) -> Iterator[tuple[int, list[Line]]]:
    """Yield what processes and their shells wrote as they ended between records.

    Each with the number of records before it.
    """
    lines = taken.lines
    if not len(lines) or not any(probe in taken.text for probe in _LAST_PROBES):
        return
    text = lines.data[: lines.text_length].tobytes()
    own = np.arange(len(lines))
    read: set[int] = set()
    for found in _LAST_WORDS.finditer(text, int(lines.starts[0])):
        row = int(np.searchsorted(lines.starts, found.start(), "right")) - 1
        if row in read:
            continue
        if lines.origins is not None:
            own = np.flatnonzero(pc.equal(lines.origins, lines.origins[row]).fill_null(True))
        heads = own[lines.kinds[own] > 0]
        above = heads[heads <= row]
        below = np.append(heads[heads > row], len(lines))[0]
        rows = own[(own >= row) & (own < below)][:_LAST_LINES].tolist()
        read.update(rows)
        yield (
            int(np.count_nonzero(lines.kinds[: above[-1] + 1])) if len(above) else 0,
            [Line(int(taken.numbers[at]), 0, _cut(text, lines, at)) for at in rows],
        )


def _cut(text: bytes, lines: Lines, row: int) -> str:
    cut = text[lines.starts[row] : lines.own_ends[row]][:_MAX_LINE]
    return cut.decode("utf-8", "replace")


def read_last_words(lines: Sequence[Line]) -> Iterator[Row]:
    """Read what a process or its shell wrote as it ended."""
    found = _SHELL.match(lines[0].text)
    if not found:
        yield from read_crash_report(lines)
    elif found["script"] or not found["rest"]:
        yield state(
            lines[0], "process_ended", _CRASH_RULE, error=_SHELL_SIGNALS[found["what"]],
            position=whole_number(found["pid"], 62),
        )  # fmt: skip
