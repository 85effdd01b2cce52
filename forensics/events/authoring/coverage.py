"""What the rules know of an archive: records by logger, and the shapes that no rule claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.cutting import Cut
from forensics.archives.planning import Split
from forensics.events.authoring.showing import plain
from forensics.events.authoring.walking import Walk
from forensics.events.book import Book

__all__ = ["Coverage", "Shape", "cover"]

# What differs from line to line without saying anything new, and the mark that stands for it.
_MASKS = (
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "<uuid>"),
    (r"\b[A-Za-z0-9_-]{22}\b", "<id>"),
    (r"[A-Za-z0-9._-]+-[0-9]+\b(?:, ?[A-Za-z0-9._-]+-[0-9]+\b)*", "<partition>"),
    (r"0x[0-9a-f]+", "<hex>"),
    (r"[0-9]+", "#"),
)
# A shape is for the eye: longer ones are cut.
_LONGEST = 200
# Hostile logs hold as many shapes as lines; what is rare then goes first.
_MOST_SHAPES = 100_000


@dataclass(frozen=True, order=True)
class Shape:
    """Records that look alike."""

    logger: str
    level: str
    text: str


@dataclass
class Coverage(Walk):
    """What was counted: records by logger and by who claims them, and the rest by shape."""

    loggers: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    routine: Counter[str] = field(default_factory=Counter)
    shapes: Counter[Shape] = field(default_factory=Counter)
    places: dict[Shape, str] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)

    @property
    def claimed(self) -> int:
        """How many records some rule takes."""
        return self.told.total() + self.routine.total()

    def unclaimed(self, logger: str) -> int:
        """How many records of one logger no rule takes."""
        return self.loggers[logger] - self.told[logger] - self.routine[logger]

    def ranked(self) -> list[str]:
        """Name the loggers, those with the most unclaimed records first."""
        return sorted(self.loggers, key=lambda name: (-self.unclaimed(name), name))

    def lines(self, limit: int) -> Iterator[str]:
        """Tell it in lines of text."""
        yield f"{'unclaimed':>10} {'telling':>10} {'routine':>10}  logger"
        for name in self.ranked()[:limit]:
            told, routine = self.told[name], self.routine[name]
            yield f"{self.unclaimed(name):>10} {told:>10} {routine:>10}  {plain(name)}"
        yield ""
        for shape, count in self._shapes(limit):
            yield f"{count:>10}  {plain(shape.logger)} {plain(shape.level)} {plain(shape.text)}"
            yield f"{'':>12}{plain(self.places[shape])}"
        share = 100 * self.claimed / (self.records or 1)
        yield (
            f"{self.records} records, {self.claimed} claimed ({share:.1f} %), "
            f"{self.nowhere} lines in no known layout"
        )

    def document(self) -> dict[str, Any]:
        """Tell it for machines."""
        return {
            "records": self.records,
            "claimed": self.claimed,
            "nowhere": self.nowhere,
            "loggers": [
                {
                    "logger": name,
                    "unclaimed": self.unclaimed(name),
                    "telling": self.told[name],
                    "routine": self.routine[name],
                }
                for name in self.ranked()
            ],
            "shapes": [
                asdict(shape) | {"count": count, "first": self.places[shape]}
                for shape, count in self._shapes(len(self.shapes))
            ],
            "rules": dict(sorted(self.rules.items())),
        }

    def _shapes(self, limit: int) -> list[tuple[Shape, int]]:
        return sorted(self.shapes.items(), key=lambda item: (-item[1], item[0]))[:limit]


def cover(splits: Iterable[Split], book: Book) -> Coverage:
    """Count over splits of whole files (a plan with a huge split size)."""
    coverage = Coverage()
    routine = {rule.id for rule in book.rules if rule.routine}
    for file, cut in coverage.cuts(splits, book.signatures):
        _count(cut, file, book, routine, coverage)
    return coverage


def _count(cut: Cut, file: str, book: Book, routine: set[str], coverage: Coverage) -> None:
    entries = book.entries(cut)
    events = book.matcher.match(entries)
    takers = pc.list_element(pc.split_pattern(events["rule"], "@"), 0)
    quiet = pc.is_in(takers, pa.array(sorted(routine), pa.string()))
    for column, counter in (
        (events.filter(pc.invert(quiet)), coverage.told),
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


def _shapes(entries: pa.RecordBatch, file: str, coverage: Coverage) -> None:
    texts = entries["message"]
    for pattern, mark in _MASKS:
        texts = pc.replace_substring_regex(texts, pattern, mark)
    texts = pc.binary_slice(texts, 0, _LONGEST)
    columns = (entries["line"], entries["logger"], entries["level"], texts)
    for line, *row in zip(*(column.to_pylist() for column in columns), strict=True):
        shape = Shape(*map(_text, row))
        coverage.shapes[shape] += 1
        coverage.places.setdefault(shape, f"{file}:{line}")
    if len(coverage.shapes) > _MOST_SHAPES:
        coverage.shapes = Counter(dict(coverage.shapes.most_common(_MOST_SHAPES // 2)))
        coverage.places = {shape: coverage.places[shape] for shape in coverage.shapes}


def _text(raw: bytes | str | None) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw or ""
