"""Says which rule takes which line of a log, and what the lines look like that no rule takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.cutting import Cut
from forensics.archives.planning import Split
from forensics.events.authoring.showing import plain
from forensics.events.authoring.walking import Walk
from forensics.events.book import Book
from forensics.tables import FACTS

__all__ = ["Tally", "explain"]

_DIGITS = re.compile(r"[0-9]+")
_BARE = re.compile(r"[\w.:,+@/#-]+")
# A shape is for the eye: longer ones are cut.
_SHAPE = 240


@dataclass
class Tally(Walk):
    """What was counted on the way."""

    claimed: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)


def explain(splits: Iterable[Split], book: Book, tally: Tally) -> Iterator[str]:
    """Yield one line of text for each event that the rules find, and count in `tally`."""
    for file, cut in tally.cuts(splits, book.signatures):
        yield from _cut(cut, file, book, tally)


def _cut(cut: Cut, file: str, book: Book, tally: Tally) -> Iterator[str]:
    events = book.events(cut)
    tally.claimed += len(events["offset"].unique())
    tally.rules.update(rule for _, rule in _pairs(events))
    tally.shapes.update(_unclaimed_shapes(book, cut, events))
    for event in events.to_pylist():
        yield f"{plain(file)}:{event['line']} {_told(event)}"


def _pairs(events: pa.RecordBatch) -> set[tuple[int, str]]:
    """Count a rule once for each line, however many events it makes of it."""
    return set(zip(events["offset"].to_pylist(), events["rule"].to_pylist(), strict=True))


def _told(event: Mapping[str, Any]) -> str:
    names = [*FACTS.names, "telling"]
    facts = [f"{name}={_value(event[name])}" for name in names if event[name] is not None]
    return " ".join([event["rule"], event["kind"], *facts])


def _value(value: Any) -> str:
    r"""Write a fact so that its end can be seen.

    >>> _value([1, 2]), _value("orders-v2"), _value("two words")
    ('[1,2]', 'orders-v2', '"two words"')
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if isinstance(value, str) and _BARE.fullmatch(value) else plain(text)


def _unclaimed_shapes(book: Book, cut: Cut, events: pa.RecordBatch) -> Iterator[str]:
    """Yield the masked text of records whose logger some rule knows, and that no rule took."""
    entries = book.entries(cut)
    loggers = pa.array([name.encode() for name in book.matcher.loggers], pa.binary())
    left = pc.and_(
        pc.is_in(entries["logger"], loggers),
        pc.invert(pc.is_in(entries["offset"], events["offset"])),
    )
    for row in entries.select(["logger", "level", "message"]).filter(left).to_pylist():
        logger, level, message = ((part or b"").decode("utf-8", "replace") for part in row.values())
        yield plain(f"{logger} {level} {_DIGITS.sub('#', message)[:_SHAPE]}")
