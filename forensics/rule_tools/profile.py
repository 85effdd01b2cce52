"""Measures what each rule costs, in a scan as one worker does it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa

from forensics.events.event_columns import Rows
from forensics.events.log_reader import LogReader
from forensics.events.matcher import Matcher
from forensics.events.rules import Rule, Wording
from forensics.events.scan import Scanner
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import Records
from forensics.parsing.layouts import Layout

# Everything that is not measured by itself: unpacking, splitting, counting.
_OTHER_STEPS = "cut"


@dataclass
class Cost:
    """The time that one wording took for so many records, and how many it matched."""

    seconds: float = 0.0
    asked: int = 0
    taken: int = 0


@dataclass
class Profile:
    """The seconds of each step of a scan, and the cost of each wording."""

    steps: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((_OTHER_STEPS, "sieve", "read", "match"), 0.0)
    )
    wordings: dict[tuple[str, int], Cost] = field(default_factory=dict)
    bytes: int = 0
    records: int = 0
    sieved: int = 0
    events: int = 0

    def to_lines(self, limit: int) -> Iterator[str]:
        """Yield the profile as lines of text."""
        total = sum(self.steps.values())
        speed = f", {self.bytes / 1e6 / total:.0f} MB/s" if total else ""
        yield f"{self.bytes / 1e6:.1f} MB, {self.records:,} records, {total:.2f} s{speed}"
        for step, seconds in self.steps.items():
            yield f"  {step:<6} {seconds:>8.2f} s  {100 * seconds / (total or 1):>3.0f} %"
        yield f"{self.sieved:,} records passed the sieve, {self.events:,} events"
        yield f"{'ms':>9} {'asked':>10} {'taken':>10}  rule:line of the wording"
        slowest = sorted(self.wordings.items(), key=lambda item: (-item[1].seconds, item[0]))
        for (rule, line), cost in slowest[:limit]:
            yield f"{1000 * cost.seconds:>9.1f} {cost.asked:>10} {cost.taken:>10}  {rule}:{line}"

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Add the time of the block to a step."""
        begin = perf_counter()
        yield
        self.steps[step] += perf_counter() - begin


class _ProfilingMatcher(Matcher):
    """Measures each wording."""

    def __init__(self, rules: Sequence[Rule], profile: Profile) -> None:
        super().__init__(rules)
        self._profile = profile
        self._names = {
            id(wording): (rule.id, wording.line_number)
            for rule in rules
            for wording in rule.wordings
        }

    def _match_wording(self, messages: pa.Array, wording: Wording, rows: Rows | None = None) -> Any:
        begin = perf_counter()
        rows, fields = super()._match_wording(messages, wording, rows)
        cost = self._profile.wordings.setdefault(self._names[id(wording)], Cost())
        cost.seconds += perf_counter() - begin
        cost.asked += len(messages)
        cost.taken += len(rows)
        return rows, fields


class _ProfilingReader(LogReader):
    """Measures each step."""

    def __init__(
        self, layouts: tuple[Layout, ...], rules: Sequence[Rule], profile: Profile
    ) -> None:
        super().__init__(layouts, rules)
        self.matcher = _ProfilingMatcher(rules, profile)
        self._profile = profile

    def extract(self, records: Records, part: int = 0) -> pa.RecordBatch:
        with self._profile.time_step("sieve"):
            return super().extract(records, part)

    def prefilter(self, extracted: pa.RecordBatch) -> pa.RecordBatch:
        with self._profile.time_step("sieve"):
            passed = super().prefilter(extracted)
        self._profile.sieved += len(passed)
        return passed

    def parse(self, records: pa.RecordBatch) -> pa.RecordBatch:
        with self._profile.time_step("read"):
            return super().parse(records)

    def match_parts(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, Rows]:
        with self._profile.time_step("match"):
            return super().match_parts(entries)


def profile_scan(
    splits: Iterable[Split], layouts: tuple[Layout, ...], rules: Sequence[Rule]
) -> Profile:
    """Scan splits without Spark, and measure where the time goes."""
    profile = Profile()
    scanner = Scanner(_ProfilingReader(layouts, rules, profile))
    begin = perf_counter()
    for split in splits:
        for batch in scanner.scan(split):
            for account in map(json.loads, batch["account"].drop_null().to_pylist()):
                profile.bytes += account.get("bytes") or 0
                profile.records += account.get("records", 0)
                profile.events += account.get("events", 0)
    profile.steps[_OTHER_STEPS] = perf_counter() - begin - sum(profile.steps.values())
    return profile
