"""What each rule costs: a scan as one worker does it, with a watch beside its steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa

from forensics.events.log_reader import LogReader
from forensics.events.matcher import Matcher
from forensics.events.rules import Rule, Wording
from forensics.events.scan import Scanner
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import Records
from forensics.parsing.layouts import Layout

# What is not measured by itself: unpacking, cutting, counting.
_OTHER_STEPS = "cut"


@dataclass
class Cost:
    """What one wording has cost: so many records were asked, so many were taken."""

    seconds: float = 0.0
    asked: int = 0
    taken: int = 0


@dataclass
class Profile:
    """Seconds of each step of a scan, and the costs of each wording."""

    steps: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((_OTHER_STEPS, "sieve", "read", "match"), 0.0)
    )
    wordings: dict[tuple[str, int], Cost] = field(default_factory=dict)
    bytes: int = 0
    records: int = 0
    sieved: int = 0
    events: int = 0

    def to_lines(self, limit: int) -> Iterator[str]:
        """Tell it in lines of text."""
        total = sum(self.steps.values())
        speed = f", {self.bytes / 1e6 / total:.0f} MB/s" if total else ""
        yield f"{self.bytes / 1e6:.1f} MB, {self.records:,} records, {total:.2f} s{speed}"
        for step, seconds in self.steps.items():
            yield f"  {step:<6} {seconds:>8.2f} s  {100 * seconds / (total or 1):>3.0f} %"
        yield f"{self.sieved:,} records passed the sieve, {self.events:,} events"
        yield f"{'ms':>9} {'asked':>10} {'taken':>10}  rule:line of the wording"
        dearest = sorted(self.wordings.items(), key=lambda item: (-item[1].seconds, item[0]))
        for (rule, at), cost in dearest[:limit]:
            yield f"{1000 * cost.seconds:>9.1f} {cost.asked:>10} {cost.taken:>10}  {rule}:{at}"

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Note what a step takes."""
        began = perf_counter()
        yield
        self.steps[step] += perf_counter() - began


class _ProfilingMatcher(Matcher):
    """Notes what each wording costs."""

    def __init__(self, rules: Sequence[Rule], found: Profile) -> None:
        super().__init__(rules)
        self._found = found
        self._names = {
            id(wording): (rule.id, wording.line_number)
            for rule in rules
            for wording in rule.wordings
        }

    def _match_wording(self, messages: pa.Array, wording: Wording) -> Any:
        began = perf_counter()
        rows, fields = super()._match_wording(messages, wording)
        cost = self._found.wordings.setdefault(self._names[id(wording)], Cost())
        cost.seconds += perf_counter() - began
        cost.asked += len(messages)
        cost.taken += len(rows)
        return rows, fields


class _ProfilingReader(LogReader):
    """Notes what each step costs."""

    def __init__(self, layouts: tuple[Layout, ...], rules: Sequence[Rule], found: Profile) -> None:
        super().__init__(layouts, rules)
        self.matcher = _ProfilingMatcher(rules, found)
        self._found = found

    def extract(self, cut: Records) -> pa.RecordBatch:
        with self._found.time_step("sieve"):
            return super().extract(cut)

    def prefilter(self, lifted: pa.RecordBatch) -> pa.RecordBatch:
        with self._found.time_step("sieve"):
            passed = super().prefilter(lifted)
        self._found.sieved += len(passed)
        return passed

    def parse(self, passed: pa.RecordBatch) -> pa.RecordBatch:
        with self._found.time_step("read"):
            return super().parse(passed)

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        with self._found.time_step("match"):
            return super().match(entries)


def profile_scan(
    splits: Iterable[Split], layouts: tuple[Layout, ...], heard: Sequence[Rule]
) -> Profile:
    """Scan splits without Spark, and note where the time goes."""
    found = Profile()
    scanner = Scanner(_ProfilingReader(layouts, heard, found))
    began = perf_counter()
    for split in splits:
        for batch in scanner.scan(split):
            for account in batch["account"].drop_null().to_pylist():
                told = json.loads(account)
                found.bytes += told.get("bytes", 0)
                found.records += told.get("records", 0)
                found.events += told.get("events", 0)
    found.steps[_OTHER_STEPS] = perf_counter() - began - sum(found.steps.values())
    return found
