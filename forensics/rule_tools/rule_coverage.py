"""Tells which rule takes which line of a log, what it costs, and what lines no rule takes.

All records of an archive are walked over in this process, and counted by logger and by shape.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.event_columns import Rows
from forensics.events.log_reader import LogReader
from forensics.events.matcher import Matcher
from forensics.events.rules import Rule, Wording
from forensics.events.scan import Scanner
from forensics.ingest.archive_reader import open_parts, open_splitter
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Signature
from forensics.lib.text_safety import printable
from forensics.parsing.layouts import Layout
from forensics.schemas import FACTS

# Everything that is not measured by itself: unpacking, splitting, counting.
_OTHER_STEPS = "other"


@dataclass
class ArchiveWalk:
    """Counts of records and of lines in no known layout, and the damaged files."""

    records: int = 0
    unparsed_lines: int = 0
    damaged: list[str] = field(default_factory=list)

    def iter_records(
        self, splits: Iterable[Split], signatures: Sequence[Signature]
    ) -> Iterator[tuple[str, Records]]:
        """Yield the records of each file, some at a time.

        Splits must hold whole files, since line numbers start anew in each split.
        """
        for split in splits:
            if split.role == "digest":
                continue
            for piece in open_parts(split):
                opened = open_splitter(piece, signatures)
                for block, final in opened.blocks:
                    records = opened.splitter.feed(block, final=final)
                    if records is not None:
                        yield piece.file, records
                self.records += opened.splitter.counts.records
                self.unparsed_lines += opened.splitter.counts.unparsed_lines
                if piece.unpacked.damaged:
                    self.damaged.append(
                        f"{printable(piece.file)}: {printable(piece.unpacked.damaged)}"
                    )


_DIGITS = re.compile(r"[0-9]+")
_UNQUOTED = re.compile(r"[\w.:,+@/#-]+")
# Shapes are for people: longer ones are cut.
_SHAPE_CHARS = 240


@dataclass
class RuleTally(ArchiveWalk):
    """Counts of `rules explain`."""

    claimed: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)


def explain_matches(splits: Iterable[Split], reader: LogReader, tally: RuleTally) -> Iterator[str]:
    """Yield a line of text for each event, and count in `tally`."""
    for file, records in tally.iter_records(splits, reader.signatures):
        yield from _explain_records(records, file, reader, tally)


def _explain_records(
    records: Records, file: str, reader: LogReader, tally: RuleTally
) -> Iterator[str]:
    events = reader.read_events(records)
    tally.claimed += len(events["offset"].unique())
    tally.rules.update(rule for _, rule in _pairs(events))
    tally.shapes.update(_unclaimed_shapes(reader, records, events))
    for event in events.to_pylist():
        yield f"{printable(file)}:{event['line']} {_format_event(event)}"


def _pairs(events: pa.RecordBatch) -> set[tuple[int, str]]:
    """Return each rule once for each line, however many events it makes of it."""
    return set(zip(events["offset"].to_pylist(), events["rule"].to_pylist(), strict=True))


def _format_event(event: Mapping[str, Any]) -> str:
    names = [*FACTS.names, "telling"]
    facts = [f"{name}={_value(event[name])}" for name in names if event[name] is not None]
    return " ".join([event["rule"], event["kind"], *facts])


def _value(value: Any) -> str:
    r"""Write a fact so that its end can be seen.

    >>> _value([1, 2]), _value("orders-v2"), _value("two words")
    ('[1,2]', 'orders-v2', '"two words"')
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if isinstance(value, str) and _UNQUOTED.fullmatch(value) else printable(text)


def _unclaimed_shapes(reader: LogReader, records: Records, events: pa.RecordBatch) -> Iterator[str]:
    """Yield the masked text of records whose logger some rule knows, and that no rule took."""
    entries = reader.parse_all(records)
    loggers = pa.array([name.encode() for name in reader.matcher.loggers], pa.binary())
    left = pc.and_(
        pc.is_in(entries["logger"], loggers),
        pc.invert(pc.is_in(entries["offset"], events["offset"])),
    )
    for row in entries.select(["logger", "level", "message"]).filter(left).to_pylist():
        logger, level, message = ((part or b"").decode("utf-8", "replace") for part in row.values())
        yield printable(f"{logger} {level} {_DIGITS.sub('#', message)[:_SHAPE_CHARS]}")


# What differs from line to line without meaning anything, and the mask for it.
_MASKS = (
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "<uuid>"),
    (r"\b[A-Za-z0-9_-]{22}\b", "<id>"),
    (r"[A-Za-z0-9._-]+-[0-9]+\b(?:, ?[A-Za-z0-9._-]+-[0-9]+\b)*", "<partition>"),
    (r"0x[0-9a-f]+", "<hex>"),
    (r"[0-9]+", "#"),
)
_LONGEST = 200
# Hostile logs hold as many shapes as lines; the rarest ones are then dropped.
_MAX_SHAPES = 100_000


@dataclass(frozen=True, order=True)
class Shape:
    """Records that look alike."""

    logger: str
    level: str
    text: str


@dataclass
class RuleCoverage(ArchiveWalk):
    """Counts of records by logger and by what takes them, and of the rest by shape."""

    loggers: Counter[str] = field(default_factory=Counter)
    telling: Counter[str] = field(default_factory=Counter)
    routine: Counter[str] = field(default_factory=Counter)
    shapes: Counter[Shape] = field(default_factory=Counter)
    first_lines: dict[Shape, str] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)

    @property
    def claimed(self) -> int:
        """The number of records that some rule takes."""
        return self.telling.total() + self.routine.total()

    def unclaimed(self, logger: str) -> int:
        """Return how many records of a logger no rule takes."""
        return self.loggers[logger] - self.telling[logger] - self.routine[logger]

    def rank_loggers(self) -> list[str]:
        """Return the loggers, those with the most unclaimed records first."""
        return sorted(self.loggers, key=lambda name: (-self.unclaimed(name), name))

    def to_lines(self, limit: int) -> Iterator[str]:
        """Yield the counts as lines of text."""
        yield f"{'unclaimed':>10} {'telling':>10} {'routine':>10}  logger"
        for name in self.rank_loggers()[:limit]:
            told, routine = self.telling[name], self.routine[name]
            yield f"{self.unclaimed(name):>10} {told:>10} {routine:>10}  {printable(name)}"
        yield ""
        for shape, count in self._rank_shapes(limit):
            words = " ".join(map(printable, (shape.logger, shape.level, shape.text)))
            yield f"{count:>10}  {words}"
            yield f"{'':>12}{printable(self.first_lines[shape])}"
        share = 100 * self.claimed / (self.records or 1)
        yield (
            f"{self.records} records, {self.claimed} claimed ({share:.1f} %), "
            f"{self.unparsed_lines} lines in no known layout"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        return {
            "records": self.records,
            "claimed": self.claimed,
            "nowhere": self.unparsed_lines,
            "loggers": [
                {
                    "logger": name,
                    "unclaimed": self.unclaimed(name),
                    "telling": self.telling[name],
                    "routine": self.routine[name],
                }
                for name in self.rank_loggers()
            ],
            "shapes": [
                asdict(shape) | {"count": count, "first": self.first_lines[shape]}
                for shape, count in self._rank_shapes(len(self.shapes))
            ],
            "rules": dict(sorted(self.rules.items())),
        }

    def _rank_shapes(self, limit: int) -> list[tuple[Shape, int]]:
        return sorted(self.shapes.items(), key=lambda item: (-item[1], item[0]))[:limit]


def measure_rule_coverage(splits: Iterable[Split], reader: LogReader) -> RuleCoverage:
    """Count the records of splits, which must hold whole files."""
    coverage = RuleCoverage()
    routine = {rule.id for rule in reader.rules if rule.is_routine}
    for file, records in coverage.iter_records(splits, reader.signatures):
        _count(records, file, reader, routine, coverage)
    return coverage


def _count(
    records: Records, file: str, reader: LogReader, routine: set[str], coverage: RuleCoverage
) -> None:
    entries = reader.parse_all(records)
    events = reader.matcher.match(entries)
    takers = pc.list_element(pc.split_pattern(events["rule"], "@"), 0)
    quiet = pc.is_in(takers, pa.array(sorted(routine), pa.string()))
    for column, counter in (
        (events.filter(pc.invert(quiet)), coverage.telling),
        (events.filter(quiet), coverage.routine),
    ):
        lines = entries.filter(pc.is_in(entries["offset"], column["offset"]))
        counter.update(_counts(lines["logger"]))
    # A line counts once, however many events a rule makes of it.
    claims = set(zip(events["offset"].to_pylist(), takers.to_pylist(), strict=True))
    coverage.rules.update(rule for _, rule in claims)
    coverage.loggers.update(_counts(entries["logger"]))
    left = entries.filter(pc.invert(pc.is_in(entries["offset"], events["offset"])))
    _shapes(left, file, coverage)


def _counts(column: pa.Array) -> dict[str, int]:
    return {_text(row["values"]): row["counts"] for row in pc.value_counts(column).to_pylist()}


def _shapes(entries: pa.RecordBatch, file: str, coverage: RuleCoverage) -> None:
    texts = entries["message"]
    for pattern, mark in _MASKS:
        texts = pc.replace_substring_regex(texts, pattern, mark)
    texts = pc.binary_slice(texts, 0, _LONGEST)
    columns = (entries["line"], entries["logger"], entries["level"], texts)
    for line, *row in zip(*(column.to_pylist() for column in columns), strict=True):
        shape = Shape(*map(_text, row))
        coverage.shapes[shape] += 1
        coverage.first_lines.setdefault(shape, f"{file}:{line}")
    if len(coverage.shapes) > _MAX_SHAPES:
        coverage.shapes = Counter(dict(coverage.shapes.most_common(_MAX_SHAPES // 2)))
        coverage.first_lines = {shape: coverage.first_lines[shape] for shape in coverage.shapes}


def _text(raw: bytes | str | None) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw or ""


@dataclass
class Cost:
    """The time that one wording took for so many records, and how many it matched."""

    seconds: float = 0.0
    tried: int = 0
    matched: int = 0


@dataclass
class Profile:
    """The seconds of each step of a scan, and the cost of each wording."""

    steps: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((_OTHER_STEPS, "prefilter", "parse", "match"), 0.0)
    )
    wordings: dict[tuple[str, int], Cost] = field(default_factory=dict)
    bytes: int = 0
    records: int = 0
    prefiltered: int = 0
    events: int = 0

    def to_lines(self, limit: int) -> Iterator[str]:
        """Yield the profile as lines of text."""
        total = sum(self.steps.values())
        speed = f", {self.bytes / 1e6 / total:.0f} MB/s" if total else ""
        yield f"{self.bytes / 1e6:.1f} MB, {self.records:,} records, {total:.2f} s{speed}"
        for step, seconds in self.steps.items():
            yield f"  {step:<9} {seconds:>8.2f} s  {100 * seconds / (total or 1):>3.0f} %"
        yield f"{self.prefiltered:,} records passed the prefilter, {self.events:,} events"
        yield f"{'ms':>9} {'tried':>10} {'matched':>10}  rule:line of the wording"
        slowest = sorted(self.wordings.items(), key=lambda item: (-item[1].seconds, item[0]))
        for (rule, line), cost in slowest[:limit]:
            yield f"{1000 * cost.seconds:>9.1f} {cost.tried:>10} {cost.matched:>10}  {rule}:{line}"

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
        cost.tried += len(messages)
        cost.matched += len(rows)
        return rows, fields


class _ProfilingReader(LogReader):
    """Measures each step."""

    def __init__(
        self, layouts: tuple[Layout, ...], rules: Sequence[Rule], profile: Profile
    ) -> None:
        super().__init__(layouts, rules)
        self.matcher = _ProfilingMatcher(rules, profile)
        self._profile = profile

    def select(self, records: Records) -> tuple[Rows, pa.Array | None]:
        with self._profile.time_step("prefilter"):
            return super().select(records)

    def prefilter(self, extracted: pa.RecordBatch) -> pa.RecordBatch:
        with self._profile.time_step("prefilter"):
            passed = super().prefilter(extracted)
        self._profile.prefiltered += len(passed)
        return passed

    def parse(self, records: pa.RecordBatch) -> pa.RecordBatch:
        with self._profile.time_step("parse"):
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
