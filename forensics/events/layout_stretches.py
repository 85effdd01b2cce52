"""Which layout read which lines of a file, and how that layout was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from forensics.ingest.record_splitter import Records
from forensics.parsing.entries import find_layout
from forensics.parsing.layouts import OF_FOUND_LAYOUTS, Layout


@dataclass
class Stretch:
    """Lines, from the first record to the last one, that one layout reads inside some wrappers."""

    form: str
    found: str
    kind: int
    layout: str
    first: int
    last: int
    records: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from the other stretches of its file."""
        return self.form, self.found, self.kind

    @property
    def name(self) -> str:
        """The layout with what stands around it."""
        if self.found != "known" and self.layout in OF_FOUND_LAYOUTS:
            return self.form
        return "+".join(part for part in (self.form, self.layout) if part)

    def moved(self, base: int) -> Stretch:
        """Return the stretch in a file that has so many lines before it."""
        return Stretch(*self.key, self.layout, self.first + base, self.last + base, self.records)


class StretchCounter:
    """Notes the stretches of records as they come, block by block."""

    def __init__(self, groups: Sequence[list[Layout]]) -> None:
        """Read by some layouts, grouped by how their records begin."""
        self._groups = groups
        self._found: dict[tuple[int, int], list[Any]] = {}

    def add(self, records: Records) -> None:
        """Note some records."""
        kinds, forms = records.kinds, records.forms
        keys = kinds.astype(np.int64) if forms is None else forms * 256 + kinds
        if keys[0] == keys[-1] and (keys == keys[0]).all():
            self._note(records, int(keys[0]), 0, -1, len(keys))
            return
        for key in np.unique(keys).tolist():
            rows = np.flatnonzero(keys == key)
            self._note(records, key, int(rows[0]), int(rows[-1]), len(rows))

    def _note(self, records: Records, key: int, row: int, last: int, count: int) -> None:
        form, kind = divmod(key, 256)
        end = int(records.lines[last] + records.heights[last]) - 1
        known = self._found.get((form, kind))
        if known is None:
            name = find_layout(records, row, self._groups[kind - 1]) or self._groups[kind - 1][0].id
            self._found[form, kind] = [name, int(records.lines[row]), end, count]
        else:
            known[2:] = [end, known[3] + count]

    def to_account(self, names: Sequence[str], hows: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return plain values; `names` and `hows` are those of the forms."""
        return [
            astuple(Stretch(names[form], hows[form], kind, *values))
            for (form, kind), values in sorted(self._found.items())
        ]


def add_stretches(
    known: dict[tuple[str, str, int], Stretch], account: Iterable[Sequence[Any]], base: int
) -> None:
    """Add the stretches of a split that begins after `base` lines of its file.

    The splits come in their order: the first one with such lines names the layout.
    """
    for values in account:
        new = Stretch(*values).moved(base)
        old = known.setdefault(new.key, new)
        if old is not new:
            old.last, old.records = max(old.last, new.last), old.records + new.records


def stretch_rows(
    file: str, stretches: Mapping[tuple[str, str, int], Stretch]
) -> list[dict[str, Any]]:
    """Return the rows of the table of layouts for one file."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in sorted(stretches.values(), key=lambda one: (one.first, one.key)):
        row = rows.setdefault(
            (one.name, one.found),
            {"file": file, "layout": one.name, "found": one.found, "first_line": one.first,
             "last_line": one.last, "records": 0},
        )  # fmt: skip
        row["last_line"] = max(row["last_line"], one.last)
        row["records"] += one.records
    return list(rows.values())
