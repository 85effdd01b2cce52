"""Shows how the lines of a file are read: by which layout, how that was found, and what stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import configured_patterns, sum_accounts
from forensics.events.layout_stretches import Stretch
from forensics.events.log_reader import LogReader
from forensics.events.packs import Pack, load_rule_set, pack_patterns
from forensics.events.scan import Scanner
from forensics.ingest.archive_reader import open_parts, open_splitter
from forensics.ingest.read_plan import Split
from forensics.ingest.record_starts import Lines
from forensics.ingest.window_formats import WindowReader
from forensics.lib.text_safety import printable
from forensics.parsing.layouts import Layout

_MASKS = (
    (re.compile(r"[0-9]+"), "#"),
    (re.compile(r'"[^"]*"'), '"..."'),
    (re.compile(r"[A-Za-z_][\w.$/-]*"), "NAME"),
    (re.compile(r"(?:NAME[ ]?){3,}"), "NAME ... "),
)
_SHAPE_CHARS, _LINE_CHARS, _SHAPES = 120, 160, 10


@dataclass
class LayoutTrial:
    """How the lines of one file are read."""

    file: str
    stretches: list[Stretch] = field(default_factory=list)
    shapes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    unread: int = 0

    def to_lines(self) -> Iterator[str]:
        """Yield what people read."""
        yield f"{printable(self.file)}: {self.lines} lines, {self.unread} of them unread"
        for one in self.stretches:
            where = f"lines {one.first}-{one.last}"
            yield f"  {where:<24} {one.records:>8} records  {one.found:<8}  {printable(one.name)}"
        for shape, count in self.shapes.most_common(_SHAPES):
            yield f"  {count:>8} unread  {printable(shape)}"
            yield f"  {'':>15}  {printable(self.examples[shape])}"


def configure_reader(splits: Sequence[Split], packs: Sequence[Pack]) -> LogReader:
    """Return the reader of some packs, and of patterns in configuration that lies with the logs."""
    rules = load_rule_set(packs)
    reader = LogReader(rules.layouts, rules.rules, rules.wrappers)
    if len(splits) == 1 and splits[0].role == "range":
        return reader
    scanner = Scanner(reader)
    rows = (row for split in splits for batch in scanner.scan(split) for row in batch.to_pylist())
    patterns = configured_patterns(sum_accounts(row for row in rows if row["account"]).values())
    if not patterns:
        return reader
    pack = pack_patterns("the archive's configuration", patterns, "configuration")
    rules = load_rule_set([*packs, pack])
    return LogReader(rules.layouts, rules.rules, rules.wrappers)


def try_layouts(splits: Iterable[Split], reader: LogReader) -> Iterator[LayoutTrial]:
    """Read files to their ends, and say how; the splits must hold whole files."""
    for split in splits:
        if split.role == "digest":
            continue
        for piece in open_parts(split):
            opened = open_splitter(piece, reader.signatures, reader.wrappers, reader.judge)
            trial = LayoutTrial(piece.file)
            if opened.windows:
                text, offset = b"", 0
                for block, final in opened.blocks:
                    text += block
                    lines = opened.windows.read_text(text, offset, final=final)
                    _add(trial, lines, opened.windows, reader.groups)
                    text, offset = text[lines.size :], offset + lines.size
            yield trial


def _add(
    trial: LayoutTrial, lines: Lines, windows: WindowReader, groups: list[list[Layout]]
) -> None:
    forms = np.zeros(len(lines), np.int64) if lines.forms is None else lines.forms
    rows = np.flatnonzero(lines.kinds)
    known = bool(trial.stretches)
    keys = forms[rows] * 256 + lines.kinds[rows]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    for begin, end in zip(begins, np.append(begins[1:], len(rows)), strict=False):
        row, last = int(rows[begin]), int(rows[end - 1])
        wrapper = windows.names[int(forms[row])]
        layout = _layout_of(lines, row, groups[lines.kinds[row] - 1])
        places = trial.lines + row + 1, trial.lines + last + 1
        found = windows.hows[int(forms[row])]
        _extend(trial, Stretch(wrapper, found, 0, layout, *places, int(end - begin)))
    loose = np.zeros(len(lines), np.bool_) if lines.loose is None else lines.loose.copy()
    if not known:
        # What stands before the first record belongs to none.
        loose[: int(rows[0]) if len(rows) else len(lines)] = True
    for place in np.flatnonzero(loose & (lines.kinds == 0) & (lines.ends > lines.starts)):
        line = lines.data[lines.starts[place] : lines.ends[place]].tobytes()[:_LINE_CHARS]
        shown = line.decode("utf-8", "replace")
        trial.unread += 1
        shape = _shape(shown)
        trial.shapes[shape] += 1
        trial.examples.setdefault(shape, shown)
    trial.lines += len(lines)


def _layout_of(lines: Lines, row: int, group: list[Layout]) -> str:
    """Return which layout of a signature reads a line."""
    line = pa.array([lines.data[lines.starts[row] : lines.ends[row]].tobytes()], pa.binary())
    for layout in group:
        if pc.extract_regex(line, layout.template.pattern).null_count == 0:
            return layout.id
    return group[0].id


def _extend(trial: LayoutTrial, new: Stretch) -> None:
    """Add a stretch; short turns between two layouts are told as one row each."""
    for old in trial.stretches:
        if (old.name, old.found) == (new.name, new.found):
            old.last, old.records = new.last, old.records + new.records
            return
    trial.stretches.append(new)


def _shape(line: str) -> str:
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line[:_SHAPE_CHARS]
