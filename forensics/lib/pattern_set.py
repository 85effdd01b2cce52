"""Searches texts for many cheap patterns in one pass, where Hyperscan is installed.

Hyperscan reports where matches end, and knows no captures: it says which patterns a text has, and
RE2 does the rest. One pass costs the same for a thousand patterns as for ten, while RE2 reads the
texts once for each, and is compiled each time. Where there is no Hyperscan, callers ask RE2.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

try:
    import hyperscan
except ImportError:
    # No wheel for this platform.
    hyperscan = None  # type: ignore[assignment]

Rows = npt.NDArray[np.int64]

# Text made to match everywhere is left to RE2, which stops at the first match of each.
_MATCHES_PER_TEXT = 8
_BYTES_PER_MATCH = 32
# An anchor, or the break of a line; one that is escaped or in a class costs no more than time.
_OF_WHOLE_TEXT = re.compile(r"\n|\\[AzZ]|(?<![\\\[])\^|(?<!\\)\$")


class PatternSet:
    """Patterns that are searched for at once."""

    def __init__(self, patterns: Sequence[str], compiled: bytes = b"") -> None:
        """Compile patterns, or load what `to_bytes` returned for the same ones."""
        self.numbers = {pattern: number for number, pattern in enumerate(patterns)}
        # These ask for what is lost as texts are joined: their begin and end, or a break in them.
        self._others = [one for one in patterns if not one or _OF_WHOLE_TEXT.search(one)]
        self._database: Any = _load(compiled) if compiled else None
        if self._database is None:
            others = set(self._others)
            self._database = _compile(
                {one: number for one, number in self.numbers.items() if one not in others}
            )

    def to_bytes(self) -> bytes:
        """Return the database, for processes on machines like this one."""
        return bytes(hyperscan.dumpb(self._database))

    def find(self, texts: pa.Array) -> tuple[Rows, Rows] | None:
        """Return which patterns which texts have: numbers and rows, each pair once, in order.

        A pattern that may cross the end of a line is also said to be in a text that only has its
        end. None if there are so many matches that looking at each would take long.
        """
        joined = pc.binary_join_element_wise(texts.cast(pa.binary()), b"", b"\n")
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(texts) + 1]
        text = np.frombuffer(joined.buffers()[2] or b"", np.uint8)[: offsets[-1]]
        found = self.search(text, len(texts))
        if found is None:
            return None
        numbers, ends = found
        rows = np.searchsorted(offsets, ends, "left") - 1
        pairs = [numbers * len(texts) + rows]
        for pattern in self._others:
            has = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
            some = np.flatnonzero(has.to_numpy(zero_copy_only=False))
            pairs.append(self.numbers[pattern] * len(texts) + some)
        keys = np.unique(np.concatenate(pairs))
        return keys // max(1, len(texts)), keys % max(1, len(texts))

    def search(self, text: npt.NDArray[np.uint8], lines: int) -> tuple[Rows, Rows] | None:
        """Return where patterns end in a text of so many lines: numbers and offsets.

        Without those that `has_others` is about. None if there are too many to look at each.
        """
        ids, ends = array("i"), array("I")
        limit = lines * _MATCHES_PER_TEXT + len(text) // _BYTES_PER_MATCH
        note_id, note_end = ids.append, ends.append

        def note(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            note_id(number)
            note_end(end)
            return len(ids) > limit

        if len(text):
            try:
                self._database.scan(text, match_event_handler=note)
            except hyperscan.ScanTerminated:
                return None
        return np.array(ids, np.int64), np.array(ends, np.int64)

    @property
    def has_others(self) -> bool:
        """Return True if some patterns can only be asked of whole texts."""
        return bool(self._others)


def open_pattern_set(patterns: Sequence[str], compiled: bytes = b"") -> PatternSet | None:
    """Return the patterns as a set; None where Hyperscan is not installed or refuses them."""
    if hyperscan is None or not patterns:
        return None
    try:
        return PatternSet(patterns, compiled)
    except hyperscan.HyperscanError:
        return None


def _compile(numbers: Mapping[str, int]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[pattern.encode() for pattern in numbers],
        ids=list(numbers.values()),
        elements=len(numbers),
        flags=[0] * len(numbers),
    )
    return database


def _load(compiled: bytes) -> Any:
    """Load a database; None if it was compiled for another machine."""
    try:
        database = hyperscan.loadb(compiled, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.HyperscanError:
        return None
    return database
