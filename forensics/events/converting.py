"""Turns captured text into the types of the tables, column by column; nonsense becomes null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["convert", "text"]

_WIDEST = {pa.int32(): (-(2**31), 2**31 - 1)}


def convert(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert captured bytes into one column of a table.

    >>> convert(pa.array([b"Some(2)", b"None"], pa.binary()), pa.int32()).to_pylist()
    [2, None]
    >>> convert(pa.array([b"[1, 2]", b""], pa.binary()), pa.list_(pa.int32())).to_pylist()
    [[1, 2], []]
    """
    if pa.types.is_list(wanted):
        return _lists(captured, wanted)
    if pa.types.is_integer(wanted):
        return _integers(captured, wanted)
    return text(captured)


def text(raw: pa.Array) -> pa.Array:
    """Read bytes as UTF-8; what is not UTF-8 is replaced, never lost."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = [
            None if one is None else one.decode("utf-8", "replace") for one in raw.to_pylist()
        ]
        return pa.array(values, pa.string())


def _integers(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    digits = pc.extract_regex(captured, r"(?P<n>-?[0-9]+)").field("n")
    sane = pc.match_substring_regex(digits, r"^-?[0-9]{1,18}$")
    known = pc.fill_null(sane, False)
    digits = pc.if_else(known, digits, pa.scalar(None, pa.binary()))
    numbers = pc.cast(text(digits), pa.int64())
    if wanted in _WIDEST:
        low, high = _WIDEST[wanted]
        fits = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
        numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    return pc.cast(numbers, wanted)


def _lists(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    bare = pc.replace_substring_regex(captured, r"[^-0-9,]", "")
    parts = pc.split_pattern(bare, ",")
    values = parts.flatten()
    filled = pc.match_substring_regex(values, r"^-?[0-9]{1,9}$|^[01][0-9]{9}$")
    parents = parts.value_parent_indices().filter(filled) if len(values) else None
    numbers = pc.cast(text(values.filter(filled)), wanted.value_type)
    return _regrouped(parents, numbers, captured, wanted)


def _regrouped(
    parents: pa.Array | None, numbers: pa.Array, captured: pa.Array, wanted: pa.DataType
) -> pa.Array:
    """Put numbers back into the lists they came from, an empty text being an empty list."""
    counts = np.zeros(len(captured), np.int32)
    if parents is not None:
        np.add.at(counts, parents.to_numpy(), 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), numbers).cast(wanted)
    return pc.if_else(captured.is_valid(), lists, pa.scalar(None, wanted))
