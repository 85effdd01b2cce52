"""Collects of a piece of a file who its lines name, where they come from, where time falls back.

What a piece names belongs to nodes that only the whole file tells apart; see `file_parts.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_parts import MAX_CUTS, Cut
from forensics.events.writers import MAX_ORIGINS, NamedWriters, build_voices, decode_origins
from forensics.ingest.documents import Splitter
from forensics.ingest.record_splitter import LineCounts, Records, RecordSplitter
from forensics.parsing.entries import read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.time_statistics import Gap, TimeStatistics
from forensics.parsing.timestamps import NO_TIME

Numbers = npt.NDArray[np.int64]


class PieceParts:
    """The parts of one piece: stretches between cuts, or origins."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        """Begin with one stretch and no origin."""
        self.writers = Counter[str]()
        # the servers whose settings are here, with their log folders
        self.folders = set[tuple[str, str]]()
        self.cuts: list[Cut] = []
        self._stretches = [Counter[str]()]
        self._groups = groups
        self._origins: dict[str, _Origin] = {}
        self._counted = (0, 0, 0)
        # the records that wait to be matched: where they are and who wrote them
        self._offsets: list[Numbers] = []
        self._codes: list[Numbers] = []
        self._names: dict[str, int] = {}
        self._texts: list[str] = []
        self._named = NamedWriters(np.empty(0, np.int64), [])
        self._named_at = np.empty(0, np.int64)

    @property
    def stretches(self) -> list[Counter[str]]:
        """Return the writers of each stretch, if there are several."""
        return self._stretches if self.cuts else []

    def add_records(self, records: Records, fallen_back: list[Gap], splitter: Splitter) -> None:
        """Take the records of a block, and the lines in it at which time falls back.

        A document holds its records in any order: where time falls back says nothing of it.
        """
        if fallen_back and isinstance(splitter, RecordSplitter):
            self._add_cuts(records, fallen_back, splitter)
        counts = splitter.counts
        self._counted = counts.records, counts.blank_lines, counts.unparsed_lines
        if records.origins is not None:
            self._add_origins(records)

    def _add_cuts(self, records: Records, fallen_back: list[Gap], splitter: RecordSplitter) -> None:
        for begin, end, line in sorted(fallen_back, key=lambda gap: gap[2]):
            if len(self.cuts) >= MAX_CUTS:
                return
            lines = (records.lines, splitter.blank_at, splitter.unparsed_at)
            inside = (int((some < line).sum()) for some in lines)
            before = [one + two for one, two in zip(self._counted, inside, strict=True)]
            self.cuts.append((line, begin, end, before[0], before[1], before[2]))
            self._stretches.append(Counter())

    def _add_origins(self, records: Records) -> None:
        coded = decode_origins(pc.fill_null(records.origins, b"")).dictionary_encode()
        names = coded.dictionary.to_pylist()
        known = np.array([self._number(name) for name in names], np.int64)
        codes = known[coded.indices.to_numpy()]
        self._offsets.append(records.offsets)
        self._codes.append(codes)
        for number in np.unique(codes).tolist():
            self._origin(self._texts[number]).add(_take(records, np.flatnonzero(codes == number)))

    def _number(self, origin: str) -> int:
        """Return the number of an origin; beyond some hundred they are not told apart."""
        if origin not in self._names and len(self._names) >= MAX_ORIGINS:
            origin = ""
        if origin not in self._names:
            self._texts.append(origin)
        return self._names.setdefault(origin, len(self._names))

    def _origin(self, name: str) -> _Origin:
        return self._origins.setdefault(name, _Origin(self._groups))

    def add_writers(self, named: NamedWriters, lines: Numbers, offsets: Numbers) -> None:
        """Take who the entries at some lines and offsets name."""
        self._named, self._named_at = named, offsets
        counts = named.count()
        self.writers.update(counts)
        self.folders |= named.folders
        if self.cuts:
            starts = np.array([cut[0] for cut in self.cuts])
            stretches = np.searchsorted(starts, lines, "right")
            for number in np.unique(stretches).tolist():
                self._stretches[number].update(named.count(stretches == number))
        else:
            self._stretches[0].update(counts)
        codes = self._origins_of(offsets)
        for number in [] if codes is None else np.unique(codes).tolist():
            self._origin(self._texts[number]).writers.update(named.count(codes == number))

    def _origins_of(self, offsets: Numbers) -> Numbers | None:
        if not self._offsets:
            return None
        places = np.concatenate(self._offsets)
        rows = _find_rows(places, offsets)
        # Nothing stands around the other records of a file.
        codes = np.concatenate(self._codes)[rows]
        return np.where(places[rows] == offsets, codes, self._number(""))

    def voices_of(self, offsets: Numbers) -> pa.Array:
        """Return the voices of events at some offsets of the entries that were given last."""
        codes = self._origins_of(offsets)
        texts = pa.array(self._texts, pa.string())
        origins = None if codes is None else texts.take(pa.array(codes))
        return build_voices(self._named, _find_rows(self._named_at, offsets), origins)

    def forget_matched(self) -> None:
        """Forget the places of records that were matched."""
        self._offsets, self._codes = [], []

    def to_accounts(self, counts: LineCounts, layouts: Mapping[int, str]) -> dict[str, Any]:
        """Return the account of each origin, by the counts of their lines."""
        found: dict[str, Any] = {}
        for origin, lines in counts.origins.items():
            text = self._texts[self._number(decode_origins(pa.array([origin]))[0].as_py())]
            account = found.setdefault(text, self._origin(text).to_account(layouts))
            for name, count in lines.items():
                account[name] = account.get(name, 0) + count
        return found


class _Origin:
    """What one origin wrote."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        self.writers = Counter[str]()
        self._times = TimeStatistics(groups)
        self._groups = groups
        self._kinds = Counter[int]()
        self._first: int | None = None
        self._last: int | None = None
        # the line of its first record
        self._begins = 1

    def add(self, records: Records) -> None:
        self._times.add(records)
        kinds = np.bincount(records.kinds)
        self._kinds.update({kind: int(kinds[kind]) for kind in np.flatnonzero(kinds).tolist()})
        ends = read_times(records, np.array([0, len(records.starts) - 1], np.int64), self._groups)
        known = [int(time) for time in ends if time != NO_TIME]
        if known and self._first is None:
            self._first, self._begins = known[0], int(records.lines[0])
        if known:
            self._last = known[-1]

    def to_account(self, layouts: Mapping[int, str]) -> dict[str, Any]:
        return {
            "layouts": {layouts[kind]: count for kind, count in sorted(self._kinds.items())},
            "writers": self.writers,
            "begins": self._begins,
            "first": self._first,
            "last": self._last,
            "gaps": self._times.gaps,
            "levels": self._times.levels,
            "steps": self._times.backward.jumps,
            "stepped": self._times.backward.count,
            "open_steps": self._times.backward.unconfirmed,
            "events": 0,
            "notes": [],
            "broken": False,
        }


def _find_rows(places: Numbers, wanted: Numbers) -> Numbers:
    """Return the row of each wanted place, or of the one before it; they may be in any order."""
    order = np.argsort(places, kind="stable")
    rows: Numbers = order[np.maximum(np.searchsorted(places[order], wanted, "right") - 1, 0)]
    return rows


def _take(records: Records, rows: Numbers) -> Records:
    columns = ("offsets", "starts", "heads", "ends", "lines", "heights", "kinds")
    taken = {name: getattr(records, name)[rows] for name in columns}
    return replace(records, **taken, origins=None)
