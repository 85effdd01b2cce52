"""What each rule costs: the scan's own steps, with a watch beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa

from forensics.archives.planning import Split
from forensics.archives.reading import Piece, begin, pieces
from forensics.entries.layouts import Layout
from forensics.entries.parsing import lift, read
from forensics.events.checking import Book
from forensics.events.matching import Matcher
from forensics.events.rules import Rule, Wording

__all__ = ["Cost", "Profile", "profile"]

# As much sieved text is matched in one go as a scan matches.
_ENOUGH = 32 << 20


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
        default_factory=lambda: dict.fromkeys(("cut", "sieve", "read", "match"), 0.0)
    )
    wordings: dict[tuple[str, int], Cost] = field(default_factory=dict)
    bytes: int = 0
    records: int = 0
    sieved: int = 0
    events: int = 0

    def lines(self, limit: int) -> Iterator[str]:
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


class _Timed(Matcher):
    """A matcher that notes what each wording costs."""

    def __init__(self, rules: Iterable[Rule], found: Profile) -> None:
        super().__init__(rules)
        self._found = found

    def _claim(self, messages: pa.Array, rule: Rule, wording: Wording) -> Any:
        began = perf_counter()
        rows, fields = super()._claim(messages, rule, wording)
        cost = self._found.wordings.setdefault((rule.id, wording.at), Cost())
        cost.seconds += perf_counter() - began
        cost.asked += len(messages)
        cost.taken += len(rows)
        return rows, fields


def profile(splits: Iterable[Split], layouts: tuple[Layout, ...], heard: Sequence[Rule]) -> Profile:
    """Scan splits without Spark, as one worker does, and note where the time goes."""
    found = Profile()
    book = Book(layouts, heard)
    book.matcher = _Timed(heard, found)
    for split in splits:
        if split.role != "digest":
            for piece in pieces(split):
                _scan(piece, book, found)
    return found


def _scan(piece: Piece, book: Book, found: Profile) -> None:
    opened = begin(piece, book.signatures)
    lifted: list[pa.RecordBatch] = []
    for block, final in opened.blocks:
        with _watch(found, "cut"):
            cut = opened.cutter.feed(block, final=final)
        found.bytes += len(block)
        if cut is not None:
            found.records += len(cut.starts)
            with _watch(found, "sieve"):
                lifted.append(lift(cut, book.sieve.keep(cut, book.groups), book.groups))
        if final or sum(one.nbytes for one in lifted) > _ENOUGH:
            _match(lifted, book, found)
            lifted = []


def _match(lifted: list[pa.RecordBatch], book: Book, found: Profile) -> None:
    if not lifted:
        return
    with _watch(found, "sieve"):
        passed = book.sieve.narrow(pa.concat_batches(lifted), book.groups)
    found.sieved += len(passed)
    with _watch(found, "read"):
        entries = read(passed, book.groups)
    with _watch(found, "match"):
        found.events += len(book.matcher.match(entries))


@contextmanager
def _watch(found: Profile, step: str) -> Iterator[None]:
    began = perf_counter()
    yield
    found.steps[step] += perf_counter() - began
