"""Reads a few logs in this process, by the same stages as archives: no Spark, no Java, no page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.detection.thresholds import load_limits
from forensics.engine.local import LocalEngine
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import Pack
from forensics.history.rebuild import History
from forensics.pipeline import plan_archives, rebuild_history, scan_archives
from forensics.run_output.reader import Tables
from forensics.settings import Settings


@dataclass(frozen=True)
class SandboxRun:
    """What was made of some logs: accounts, tables and their history, ready for detectors."""

    files: Mapping[str, FileAccount]
    past: History
    tables: Tables

    def context(self, limits: Mapping[str, Mapping[str, Any]] | None = None) -> DetectionContext:
        """Return the context that detectors look at."""
        return DetectionContext(self.tables, self.past, limits or load_limits())


def run_archives(archives: Iterable[str], out: Path, packs: Sequence[Pack] = ()) -> SandboxRun:
    """Read archives and leave their tables in `out`."""
    settings = Settings(tuple(archives), out)
    engine = LocalEngine()
    work = plan_archives(settings, _ignore)
    files = scan_archives(engine, work, packs, settings, _ignore)
    history = rebuild_history(engine, files, settings, _ignore)
    return SandboxRun(files, history, Tables(settings.tables))


def run_lines(logs: Mapping[str, str], out: Path, packs: Sequence[Pack] = ()) -> SandboxRun:
    """Read logs given as text, each under the name of its file, such as `broker-1/server.log`."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "logs"
        for name, text in logs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return run_archives([str(folder)], out, packs)


def _ignore(_text: str) -> None: ...
