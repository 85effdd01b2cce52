"""Reads a few logs in this process, from lines to answers: no Spark, no Java, no page.

What a detector makes of an example is found out here, by the very stages that read archives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.detection.declarative.interpreter import make_detector
from forensics.detection.declarative.spec import DeclaredDetector
from forensics.detection.registry import all_detectors, load_declarations, load_shipped_declarations
from forensics.detection.thresholds import load_limits
from forensics.engine.local import LocalEngine
from forensics.errors import Problem, RuleError
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import Pack, packs_to_json
from forensics.history.rebuild import History
from forensics.ingest.read_plan import plan_reading
from forensics.pipeline import rebuild_history, scan_archives
from forensics.run_output.reader import Tables
from forensics.settings import Settings


@dataclass(frozen=True)
class SandboxRun:
    """What became of some logs: accounts, tables and the past, ready for detectors."""

    files: Mapping[str, FileAccount]
    past: History
    tables: Tables

    def context(self, limits: Mapping[str, Mapping[str, Any]] | None = None) -> DetectionContext:
        """Put the case together that detectors look at."""
        return DetectionContext(self.tables, self.past, limits or load_limits())


def run_archives(archives: Iterable[str], out: Path, packs: Sequence[Pack] = ()) -> SandboxRun:
    """Read archives and leave their tables in `out`."""
    settings = Settings(tuple(archives), out)
    work = plan_reading(settings.archives, settings.split_size)
    settings.tables.mkdir(parents=True, exist_ok=True)
    engine = LocalEngine()
    files = scan_archives(engine, work, packs_to_json(packs), settings, _ignore_progress)
    past = rebuild_history(engine, files, settings, _ignore_progress)
    return SandboxRun(files, past, Tables(settings.tables))


def run_lines(logs: Mapping[str, str], out: Path, packs: Sequence[Pack] = ()) -> SandboxRun:
    """Read logs given as text, each under the name of its file, such as `broker-1/server.log`."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "logs"
        for name, text in logs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return run_archives([str(folder)], out, packs)


def find_detector_problems(packs: Sequence[Pack], *, shipped: bool) -> list[Problem]:
    """Find what is wrong with the detectors of packs, and with their samples."""
    problems: list[Problem] = []
    rules = list(load_shipped_declarations()) if shipped else []
    for pack in packs:
        try:
            rules += load_declarations(pack.pages_in("detectors"))
        except RuleError as error:
            problems += error.problems
    if not problems:
        try:
            all_detectors(packs)
        except RuleError as error:
            problems += error.problems
    return problems or list(find_sample_problems(rules, packs))


def find_sample_problems(
    rules: Iterable[DeclaredDetector], packs: Sequence[Pack] = ()
) -> Iterator[Problem]:
    """Try declared detectors on their own samples: each must find as much as it says."""
    limits = load_limits()
    for rule in rules:
        asked = make_detector(rule)
        for sample in rule.samples:
            with TemporaryDirectory() as scratch:
                case = run_lines(sample.logs, Path(scratch), packs).context(limits)
                found = len(list(asked.find(case)))
            if found != sample.expected:
                says = (
                    f"sample {sample.name!r} must give {_many(sample.expected)} and gives {found}"
                )
                yield Problem(rule.origin, sample.line, says)


def _many(count: int) -> str:
    return f"{count} finding" if count == 1 else f"{count} findings"


def _ignore_progress(text: str) -> None:
    """Say nothing: nobody waits for so little."""
