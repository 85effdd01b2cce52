"""Builds the table of events column by column from what wordings captured.

Every call of Arrow has its price: what hundreds of wordings captured is kept as bytes, joined, and
converted once for each column. Nonsense becomes null. A record that gives thousands of events is
not copied for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.error_codes import canonical_errors
from forensics.schemas import EVENTS, FACTS

Rows = npt.NDArray[np.int64]

# A UUID in URL-safe base64; a topic of old has none, or one that is all zero.
_TOPIC_ID, _NO_TOPIC_IDS = r"(?P<id>[\w-]{22})", pa.array(["", "A" * 22])
# What a column of numbers can hold.
_RANGES = {pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1)}
# Offsets and counts are reckoned with and drawn; beyond 2^53 no reader of JSON holds them exactly.
_EXACT = (-(2**53), 2**53)
# A moment lies before 2200, a duration below a century.
_RANGES_OF = {
    **dict.fromkeys(("log_end", "high_watermark", "cut_to", "position", "count"), _EXACT),
    "epoch_ms": (-1, 7_258_118_400_000),
    "duration_ms": (-3_155_760_000_000, 3_155_760_000_000),
}
# What Java writes for "no limit".
_NO_LIMIT = frozenset({-(2**63), 2**63 - 1})
# No number of 64 bits has more digits.
_MOST_DIGITS = 20
# What a number consists of that needs no further look.
_PLAIN = np.isin(np.arange(256), list(b"-0123456789"))
# The kind of events in which a number is beyond all that its column can hold.
IMPOSSIBLE = "impossible_number"


def parse_column(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert captured bytes into one column of a table.

    >>> parse_column(pa.array([b"Some(2)", b"None"], pa.binary()), pa.int32()).to_pylist()
    [2, None]
    >>> parse_column(pa.array([b"[1, 2]", b""], pa.binary()), pa.list_(pa.int32())).to_pylist()
    [[1, 2], []]
    """
    return _parse_captured(captured, wanted)[0]


def _parse_captured(
    captured: pa.Array, wanted: pa.DataType, name: str = ""
) -> tuple[pa.Array, Rows | None]:
    """Convert one column; also return which rows name a number that it cannot hold.

    Such a number is null, and so is a list with one: without it the list would be another.
    """
    if pa.types.is_list(wanted):
        return _parse_lists(captured, wanted)
    if pa.types.is_integer(wanted):
        return _parse_integers(captured, wanted, _RANGES_OF.get(name, _RANGES[wanted]))
    return decode_text(captured), None


def decode_text(raw: pa.Array) -> pa.Array:
    """Read bytes as UTF-8; what is not UTF-8 is replaced, never lost."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = raw.to_pylist()
        decoded = [None if text is None else text.decode("utf-8", "replace") for text in values]
        return pa.array(decoded, pa.string())


def _parse_integers(
    captured: pa.Array, wanted: pa.DataType, known: tuple[int, int]
) -> tuple[pa.Array, Rows | None]:
    plain = _parse_plain(captured, known)
    if plain is not None:
        return pc.cast(plain, wanted), None
    # Where there is no digit, the field is empty, and so is no number.
    digits = pc.extract_regex(captured, r"(?P<n>-?[0-9]+)").field("n")
    short = pc.fill_null(pc.match_substring_regex(digits, r"^-?[0-9]{1,18}$"), False)
    shorter = pc.if_else(short, digits, pa.scalar(None, pa.binary()))
    numbers = pc.cast(decode_text(shorter), pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, known[0]), pc.less_equal(numbers, known[1]))
    numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    there = pc.not_equal(digits, b"")
    strange = rows_where(pc.and_(there, pc.invert(pc.fill_null(fits, False))))
    if not len(strange):
        return pc.cast(numbers, wanted), None
    read = [_read_number(text) for text in digits.take(pa.array(strange)).to_pylist()]
    values = np.array([value is not None and known[0] <= value <= known[1] for value in read])
    held = [value if ok else None for value, ok in zip(read, values.tolist(), strict=True)]
    mask = np.zeros(len(digits), np.bool_)
    mask[strange] = True
    numbers = pc.replace_with_mask(numbers, pa.array(mask), pa.array(held, pa.int64()))
    limits = np.array([value in _NO_LIMIT and wanted == pa.int64() for value in read])
    return pc.cast(numbers, wanted), strange[~values & ~limits]


def _parse_plain(captured: pa.Array, known: tuple[int, int]) -> pa.Array | None:
    """Read a column of nothing but numbers that it can hold; None for any other one."""
    if captured.null_count == len(captured):
        return pa.nulls(len(captured), pa.int64())
    offsets = np.frombuffer(captured.buffers()[1], np.int32)
    first, last = offsets[captured.offset], offsets[captured.offset + len(captured)]
    text = np.frombuffer(captured.buffers()[2] or b"", np.uint8)[first:last]
    if not _PLAIN[text].all():
        return None
    try:
        numbers = pc.cast(captured.cast(pa.string()), pa.int64())
    except pa.ArrowInvalid:
        return None
    ends = pc.min_max(numbers).as_py()
    return numbers if known[0] <= ends["min"] and ends["max"] <= known[1] else None


def _read_number(digits: bytes) -> int | None:
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def rows_where(mask: pa.Array) -> Rows:
    """Return the rows at which a mask is true."""
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def _parse_lists(captured: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Rows | None]:
    bare = pc.replace_substring_regex(captured, r"[^-0-9,]", "")
    parts = pc.split_pattern(bare, ",")
    values = parts.flatten()
    filled = pc.match_substring_regex(values, r"^-?[0-9]{1,9}$")
    strange = rows_where(pc.and_(pc.invert(filled), pc.not_equal(values, b"")))
    beyond = None
    if len(strange):
        parents = parts.value_parent_indices().to_numpy()
        low, high = _RANGES[pa.int32()]
        read = [_read_item(text) for text in values.take(pa.array(strange)).to_pylist()]
        fits = np.array([value is not None and low <= value <= high for value in read])
        beyond = np.unique(parents[strange[~fits]]).astype(np.int64)
        mask = np.array(filled.to_numpy(zero_copy_only=False))
        mask[strange[fits]] = True
        filled = pa.array(mask)
    parents = parts.value_parent_indices().filter(filled) if len(values) else None
    numbers = pc.cast(decode_text(values.filter(filled)), wanted.value_type)
    lists = _build_lists(parents, numbers, captured, wanted)
    if beyond is None or not len(beyond):
        return lists, None
    holds = np.ones(len(lists), np.bool_)
    holds[beyond] = False
    return pc.if_else(pa.array(holds), lists, pa.scalar(None, wanted)), beyond


def _read_item(text: bytes) -> int | None:
    return _read_number(text) if text.removeprefix(b"-").isdigit() else None


def _build_lists(
    parents: pa.Array | None, numbers: pa.Array, captured: pa.Array, wanted: pa.DataType
) -> pa.Array:
    """Put numbers back into the lists they came from; an empty text is an empty list."""
    counts = np.zeros(len(captured), np.int32)
    if parents is not None:
        np.add.at(counts, parents.to_numpy(), 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), numbers).cast(wanted)
    return pc.if_else(captured.is_valid(), lists, pa.scalar(None, wanted))


# One line may name thousands of partitions. Only its first event gets the whole text.
_MAX_ITEM_TEXT = 240


@dataclass(frozen=True)
class MatchedEvents:
    """The events of one wording: the entries they come from, and their facts as captured.

    `below`: how many lines below the first of its entry each event stands, and that line; None
    where all stand in the first.
    """

    rows: Rows
    kind: str
    rule: str
    telling: str | None
    facts: Mapping[str, Any]
    below: tuple[Rows, pa.Array] | None = None

    @property
    def repeats(self) -> npt.NDArray[np.bool_]:
        """A mask of the events from the same entry as the one before: later items of a list."""
        repeats: npt.NDArray[np.bool_] = np.diff(self.rows, prepend=-1) == 0
        return repeats


def build_events(
    entries: pa.RecordBatch, matched: Sequence[MatchedEvents]
) -> tuple[pa.RecordBatch, Rows]:
    """Return the events of all that matched, by part and offset, and the part of each."""
    if not matched:
        return pa.RecordBatch.from_pylist([], schema=EVENTS), np.empty(0, np.int64)
    rows = np.concatenate([one.rows for one in matched])
    wording = np.repeat(np.arange(len(matched)), [len(one.rows) for one in matched])
    parts, offsets = (entries[name].to_numpy() for name in ("part", "offset"))
    ranks = np.unique([one.rule for one in matched], return_inverse=True)[1]
    order = np.lexsort((ranks[wording], offsets[rows], parts[rows]))
    sources, wording = rows[order], pa.array(wording[order])
    lines, columns = _find_lines_and_texts(entries, matched, rows, order)
    some = entries.select(["ts", "level", "logger", "client"]).take(pa.array(sources))
    columns |= {name: decode_text(some[name]) for name in ("level", "logger")}
    columns |= {"line": pa.array(lines), "offset": pa.array(offsets[sources])}
    columns["ts"] = some["ts"].cast(EVENTS.field("ts").type)
    facts, impossible = _fact_columns(matched, order)
    columns |= facts
    if some["client"].null_count < len(some):
        columns["client"] = pc.coalesce(columns["client"], decode_text(some["client"]))
    for name in ("kind", "rule", "telling"):
        labels = pa.array([getattr(one, name) for one in matched], pa.string())
        columns[name] = labels.take(wording)
    if impossible.any():
        # Half a fact would be taken for a whole one.
        kind = pa.scalar(IMPOSSIBLE, pa.string())
        columns["kind"] = pc.if_else(pa.array(impossible), kind, columns["kind"])
    columns["telling"] = _telling_column(columns["telling"], columns["previous_epoch"])
    # The scan sets the file, and a later stage the node.
    columns |= {name: pa.nulls(len(rows), pa.string()) for name in ("file", "node")}
    arrays = [columns[field.name] for field in EVENTS]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS), parts[sources]


def _find_lines_and_texts(
    entries: pa.RecordBatch, matched: Sequence[MatchedEvents], rows: Rows, order: Rows
) -> tuple[Rows, dict[str, pa.Array]]:
    """Return the line that each event stands in, and its text.

    Later events of an entry have the beginning of its text only. Each text is copied once.
    """
    lines, texts = entries["line"].to_numpy()[rows], [entries["text"]]
    places, known = rows.copy(), len(entries)
    again = np.flatnonzero(np.concatenate([one.repeats for one in matched]))
    if len(again):
        many, numbers = np.unique(rows[again], return_inverse=True)
        texts.append(pc.binary_slice(entries["text"].take(pa.array(many)), 0, _MAX_ITEM_TEXT))
        places[again] = known + numbers
        known += len(many)
    begin = 0
    for one in matched:
        if one.below is not None:
            below, own = one.below
            at = begin + np.flatnonzero(own.is_valid())
            lines[begin : begin + len(below)] += below
            places[at] = known + at - begin
            texts.append(own)
            known += len(own)
        begin += len(one.rows)
    found = pa.concat_arrays(texts).take(pa.array(places[order]))
    return lines[order], {"text": decode_text(found)}


def _fact_columns(
    matched: Sequence[MatchedEvents], order: Rows
) -> tuple[dict[str, pa.Array], npt.NDArray[np.bool_]]:
    """Convert what was captured of each fact, and put it where its events come in `order`.

    Also returns a mask of the events that name a number beyond its column.
    """
    total = len(order)
    captured: dict[str, _Captured] = {}
    begin = 0
    for one in matched:
        for name, value in one.facts.items():
            if value is not None and name in _FACT_NAMES:
                captured.setdefault(name, _Captured(total)).add(value, begin, len(one.rows))
        begin += len(one.rows)
    columns: dict[str, pa.Array] = {"retriable": pa.nulls(total, pa.bool_())}
    impossible = np.zeros(total, np.bool_)
    for field in FACTS:
        if field.name not in captured:
            columns[field.name] = pa.nulls(total, field.type)
            continue
        places = captured[field.name].places[order]
        values, beyond = _parse_captured(captured[field.name].values, field.type, field.name)
        if field.name == "topic_id":
            values = pc.extract_regex(values, _TOPIC_ID).field("id")
            values = pc.if_else(pc.is_in(values, _NO_TOPIC_IDS), None, values)
        at = pa.array(places, mask=places < 0)
        if field.name == "error":
            values, retriable = canonical_errors(values)
            columns["retriable"] = retriable.take(at)
        columns[field.name] = values.take(at)
        if beyond is not None:
            impossible |= np.isin(places, beyond)
    return columns, impossible


_FACT_NAMES = frozenset(FACTS.names)


class _Captured:
    """What was captured of one fact, and which of it each event has; -1 for nothing."""

    def __init__(self, total: int) -> None:
        self.places = np.full(total, -1, np.int64)
        self._values: list[pa.Array] = []
        self._count = 0

    def add(self, value: Any, begin: int, count: int) -> None:
        """Take what some events have: a value for each, or one that is the same for all."""
        if isinstance(value, pa.Array):
            self.places[begin : begin + count] = np.arange(self._count, self._count + count)
        else:
            # As if it had been captured.
            value = pa.array([str(value).encode()], pa.binary())
            self.places[begin : begin + count] = self._count
        self._values.append(value)
        self._count += len(value)

    @property
    def values(self) -> pa.Array:
        """All that was captured."""
        return pa.concat_arrays(self._values)


def _telling_column(labels: pa.Array, epochs: pa.Array) -> pa.Array:
    """Mark the lines that may repeat an older fact under their own time.

    A `fresh` start is news unless its previous epoch is -1, as after a restart.
    """
    started = pc.and_(pc.equal(labels, "fresh"), pc.fill_null(pc.not_equal(epochs, -1), True))
    return pc.if_else(pc.fill_null(started, False), pa.scalar(None, pa.string()), labels)


def shorten(texts: pa.Array) -> pa.Array:
    """Shorten the texts of the items of a list."""
    return pc.binary_slice(texts, 0, _MAX_ITEM_TEXT)
