"""Audits in this process, of four archives that reach into four weeks, one of them over an edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from forensics.engine.local import LocalEngine
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.weekly.iso_week import Week
from forensics.weekly_audit import AuditRequest, audit
from tests.weekly.shifted_logs import read_logs, shift_times, write_logs

WEEKS = ["2026-W44", "2026-W45", "2026-W46", "2026-W47"]
LOGS = {
    "282-expired-offsets": ("broker-1/", "app-audit/", "app-mail/"),
    "391-rebalances": ("broker-1/", "app-invoice1/"),
}
_MIDDLE = datetime(2026, 11, 18, 19, 47, 0)  # noqa: DTZ001 - as the lines say it
_EDGE = datetime(2026, 11, 9)  # noqa: DTZ001
ARCHIVES: Mapping[str, tuple[str, timedelta]] = {
    "one": ("282-expired-offsets", timedelta(weeks=-3)),
    # Half of it is on Sunday, in W45, the other half on Monday, in W46.
    "two": ("282-expired-offsets", _EDGE - _MIDDLE),
    "three": ("391-rebalances", timedelta(weeks=-1)),
    "four": ("391-rebalances", timedelta()),
}


@contextmanager
def open_local_engine(second: SecondProcess = ALONE) -> Iterator[LocalEngine]:
    """Open the engine that needs no Spark."""
    yield LocalEngine(second=second)


def ignore_message(text: str) -> None:
    """Print nothing."""


def archives_in(folder: Path) -> dict[str, Path]:
    """Write the four archives; all of them are called `logs`, as those of one cluster are."""
    archives = {}
    for name, (sample, by) in ARCHIVES.items():
        logs = {file: text for file, text in read_logs(sample).items()
                if file.startswith(LOGS[sample]) and "gc" not in file}  # fmt: skip
        archives[name] = write_logs(shift_times(logs, by), folder / name / "logs")
    return archives


@dataclass
class Audits:
    """Audits of one store, with what they say."""

    store: Path
    said: list[str] = field(default_factory=list)
    say: Callable[[str], None] | None = None
    second: SecondProcess = ALONE

    def run(self, *archives: Path, week: str | None = None, **wishes: Any) -> dict[str, Any]:
        """Audit some archives into the store; without any, build it again."""
        asked = AuditRequest(
            tuple(map(str, archives)), str(self.store), Week.parse(week) if week else None, **wishes
        )
        engines = partial(open_local_engine, self.second)
        return audit(asked, self.say or self.said.append, engines=engines, second=self.second)
