"""How a run ended: the exit code and its reason, its figures, and `_RESULT.json`.

`_RESULT.json` is written last. Where a cluster runs the job, the command that submitted it may end
with 0 whatever happened: what counts is this file, and that it is there. The same figures stand in
a few lines at the end of a run.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from forensics import __version__
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import DISK_ERRORS, ForensicsError
from forensics.lib.arrow_io import read_batches
from forensics.lib.secrets import mask_text
from forensics.lib.storage import write_atomically
from forensics.lib.text_format import format_bytes, quantity, rough_duration
from forensics.lib.text_safety import printable_lines
from forensics.lib.this_machine import Helper, peak_memory, start_helper
from forensics.run_output.findings import WORST_FIRST
from forensics.run_output.integrity import FINDINGS_FILE, RESULT_FILE
from forensics.settings import SEVERITIES, Settings

if TYPE_CHECKING:
    from forensics.detection.runner import DetectionResults
    from forensics.events.file_accounts import FileAccount

_PROC = Path("/proc")
_SAMPLE_SECONDS = 1.0


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


class PeakMemory:
    """The most memory that this process, Spark's JVM and its workers held at once.

    While it is started, a thread samples all processes of the run every second. Pages that
    processes share are counted once where the kernel tells them apart.
    """

    def __init__(self) -> None:
        self.bytes = peak_memory()
        self._stopped = threading.Event()
        self._thread: Helper | None = None

    def start(self) -> None:
        """Start sampling."""
        self._thread = start_helper(self._sample)

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        if self._thread and self._thread.is_alive():
            self._thread.join(2)

    def _sample(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            # Under spark-submit the Java that started this process is a part of the run, too.
            root = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
            self.bytes = max(self.bytes, _tree_memory(root))


def _tree_memory(root: int) -> int:
    """Sum the memory of a process and all its descendants."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    with suppress(OSError):
        for path in _PROC.iterdir():
            if path.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    stat = (path / "stat").read_text()
                    # A name may hold blanks and brackets; the parent stands behind the last one.
                    children[int(stat.rpartition(")")[2].split()[1])].append(int(path.name))
    total, todo = 0, [root]
    while todo:
        process = todo.pop()
        total += _process_memory(process)
        todo += children[process]
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
        """Time the block as a stage of this name, but for stages within it: all sum up to a run."""
        begin, before = time.monotonic(), sum(self.seconds.values())
        self.listener.begin_stage(name)
        try:
            yield
        finally:
            self.listener.end_stage()
            within = sum(self.seconds.values()) - before
            elapsed = max(0.0, time.monotonic() - begin - within)
            self.seconds[name] = round(self.seconds.get(name, 0.0) + elapsed, 2)

    def figures(self) -> dict[str, Any]:
        """Return the times and the memory of the run for `_RESULT.json`."""
        return {
            "started": self.started.isoformat(timespec="milliseconds"),
            "ended": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": self.seconds,
            # A peak of this process may stand between two samples.
            "peak_memory_mb": max(self.peak.bytes, peak_memory()) >> 20,
        }


def decide_outcome(
    document: Mapping[str, Any], problems: Iterable[str], closed: Iterable[str], settings: Settings
) -> RunOutcome:
    """Decide how a run ends that came to its end.

    `problems` are what could not be read, `closed` the checks of quality whose failure closes the
    gate. A finding of the level that `--fail-on` names goes before all of them: it is there.
    """
    if settings.fail_on is not None:
        wanted = SEVERITIES[SEVERITIES.index(settings.fail_on) :]
        if count := sum(finding["severity"] in wanted for finding in document["findings"]):
            reason = f"{quantity(count, 'finding')} of level {settings.fail_on} or above"
            return RunOutcome(ExitCode.FINDINGS, reason)
    for check in closed:
        return RunOutcome(ExitCode.CANNOT_TELL, f"the quality gate is closed: {check}")
    for problem in problems:
        if settings.strict:
            return RunOutcome(ExitCode.CANNOT_TELL, f"not everything could be read: {problem}")
    blind = document["verdict"] == "cannot_tell"
    return RunOutcome(ExitCode.CANNOT_TELL if blind else ExitCode.DONE, str(document["summary"]))


def count_figures(
    document: Mapping[str, Any], files: Mapping[str, FileAccount], answers: DetectionResults
) -> dict[str, Any]:
    """Count what the summary at the end of a run shows."""
    severities = Counter(finding["severity"] for finding in document["findings"])
    statuses = Counter(outcome.status for outcome in answers.outcomes)
    rows = [file.to_row() for file in files.values()]
    buckets = ("records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines")
    quality = document["quality"]
    failed = Counter(expectation["consequence"] for expectation in quality["failed"])
    slowest = sorted(answers.seconds.items(), key=lambda item: (-item[1], item[0]))[:5]
    return {
        "verdict": document["verdict"],
        "summary": document["summary"],
        "archive": document["archive"],
        "lines": {name: sum(row[name] for row in rows) for name in buckets},
        "damaged": sum(file.broken for file in files.values()),
        "findings": {severity: severities[severity] for severity in WORST_FIRST},
        "suppressed": len(answers.suppressed),
        "quality": {
            "gate": quality["gate"],
            "checks": quality["checks"],
            "failed": dict(sorted(failed.items())),
        },
        "detectors": dict(sorted(statuses.items())),
        "slowest": dict(slowest),
    }


def clear_result(out: Path) -> None:
    """Delete the result of an earlier run: until there is one again, the folder is half a run."""
    (out / RESULT_FILE).unlink(missing_ok=True)


def begin_output(settings: Settings) -> None:
    """Delete what an earlier run has left, just before this one writes: no page is of two runs."""
    for name in (FINDINGS_FILE, "report.html"):
        (settings.out / name).unlink(missing_ok=True)
    shutil.rmtree(settings.tables, ignore_errors=True)
    settings.tables.mkdir(parents=True)


def remove_half_run(settings: Settings) -> None:
    """Delete the tables of a run that has ended before it had findings: they are not whole."""
    if not (settings.out / FINDINGS_FILE).is_file():
        for folder in (settings.staging, settings.tables):
            shutil.rmtree(folder, ignore_errors=True)


def name_folder(error: BaseException, out: Path) -> BaseException:
    """Return an error of the disk that names no file as one sentence with the output folder."""
    if (
        not isinstance(error, OSError)
        or error.filename is not None
        or error.errno not in DISK_ERRORS
    ):
        return error
    advice = "Free some space there, or name another folder with -o."
    return ForensicsError(f"{out}: {os.strerror(error.errno or 0)}. {advice}")


def save_result(out: Path, outcome: RunOutcome, **figures: Any) -> dict[str, Any]:
    """Write how the run ended, whole or not at all, and return what was written."""
    failed = outcome.code is ExitCode.FAILED
    result = {
        "schema": 1,
        "version": __version__,
        "exit_code": int(outcome.code),
        # An error names paths as they are; all other reasons were made of masked text.
        "reason": printable_lines(mask_text(outcome.reason) if failed else outcome.reason),
        **figures,
    }
    if "command" in figures:
        result["command"] = [printable_lines(mask_text(word)) for word in figures["command"]]
    out.mkdir(parents=True, exist_ok=True)
    with write_atomically(out / RESULT_FILE) as partial:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    return result


def save_failure(
    out: Path, error: BaseException, command: tuple[str, ...], watch: Stopwatch
) -> None:
    """Write why a run failed, or that it was interrupted.

    A folder that cannot be written is most likely why it failed, and the error says so itself.
    """
    with suppress(OSError):
        outcome = failure_outcome(error, f"{type(error).__name__}: {error}")
        save_result(out, outcome, command=command, **watch.figures())


def failure_outcome(error: BaseException, reason: str) -> RunOutcome:
    """Return the outcome of a run that `error` has ended; Ctrl-C needs no reason."""
    if isinstance(error, KeyboardInterrupt):
        return RunOutcome(ExitCode.INTERRUPTED, "interrupted")
    return RunOutcome(ExitCode.FAILED, reason)


_LINE_WORDS = {
    "records": "records",
    "continuation_lines": "continued",
    "blank_lines": "blank",
    "unparsed_lines": "unparsed",
    "duplicate_lines": "duplicate",
}
_HOLE_WORDS = {
    "missing": "nodes or logs missing",
    "rotated": "rotated away",
    "silent": "silences",
    "hidden": "where a level hides INFO",
}


def format_summary(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of a run that came to its end, a line for each."""
    for name, text in _rows(result):
        if text:
            yield f"{name:10} {text}"


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    archive, counts = result.get("archive", {}), result.get("lines", {})
    damaged = f", {result['damaged']:,} of them damaged" if result.get("damaged") else ""
    if archive:
        yield "read", f"{archive['files']:,} files, {format_bytes(archive['bytes'])}{damaged}"
        buckets = ", ".join(f"{counts.get(key, 0):,} {word}" for key, word in _LINE_WORDS.items())
        yield "lines", f"{archive['lines']:,}: {buckets}"
        yield "events", f"{archive['events']:,}"
    suppressed = f", {result['suppressed']} suppressed" if result.get("suppressed") else ""
    findings = [f"{count} {level}" for level, count in result.get("findings", {}).items() if count]
    yield "findings", (", ".join(findings) or "none") + suppressed
    yield "detectors", ", ".join(f"{n} {name}" for name, n in result.get("detectors", {}).items())
    if quality := result.get("quality"):
        failed = ", ".join(f"{count} {word}" for word, count in quality["failed"].items())
        text = f"gate {quality['gate']}; {quality['checks']} checks, {failed or 'all hold'}"
        yield "quality", text
    if coverage := result.get("coverage"):
        holes = ", ".join(f"{n:,} {_HOLE_WORDS[state]}" for state, n in coverage["holes"].items())
        nodes = quantity(coverage["nodes"], "node")
        yield "coverage", f"logs of {nodes}; holes: {holes or 'none'}"
    slow = [f"{name} {seconds:.1f} s" for name, seconds in result.get("slowest", {}).items()]
    yield "slowest", ", ".join(slow[:3])
    yield "memory", f"{result.get('peak_memory_mb', 0):,} MB at most"
    stages = result.get("seconds", {})
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.items())
    yield "time", f"{rough_duration(sum(stages.values()))}: {times}"


def summarise_coverage(tables: Path) -> dict[str, Any]:
    """Count the nodes that have logs, and the holes in these logs by their kind."""
    nodes, states = set(), Counter[str]()
    for batch in read_batches(tables / "coverage", ["node", "state"]):
        for row in batch.to_pylist():
            states[row["state"]] += 1
            if row["state"] not in ("missing", "down"):
                nodes.add(row["node"])
    holes = {state: states[state] for state in sorted(_HOLE_WORDS) if states[state]}
    return {"nodes": len(nodes), "holes": holes}
