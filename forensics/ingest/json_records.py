"""Logs of which each line is a JSON object that holds the parts of a record.

Such a line is rewritten as the plain record that Kafka would have written: time, level, message and
logger. Then all that reads plain records reads these, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_starts import Offsets
from forensics.ingest.text_buffer import (
    TextBuffer,
    find_escapes,
    gather_texts,
    slice_texts,
    string_ends,
    to_buffer,
    unescape,
)
from forensics.ingest.wrapper_base import Wrapper

# A colon may have blanks around it; inside a string every quote has a backslash before it, so that
# these can only be found where a key is.
KEY_ENDS = ('":"', '": "', '" : "')
_BRACE = ord("{")
# How an object tells its time: as a text, in milliseconds, or in seconds and nanoseconds.
TIME_KEYS = ("time", "millis", "instant")
_STAMP = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<part>[0-9]{1,3})[0-9]*)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?$"
)
_FIRST = r"^(?P<first>[^\r\n]*)(?P<rest>(?s:.*))$"
_NO_SHIFT = pa.array([b"", b"Z", b"+0000", b"+00:00", b"-0000", b"-00:00"], pa.binary())
_LEVEL, _NAME = "^[A-Za-z]+$", r"^[^\s()]+$"


@dataclass(frozen=True)
class JsonRecordWrapper(Wrapper):
    """Each line is an object with the parts of one record, under these keys."""

    makes_records: ClassVar[bool] = True

    # one of CLOCKS, and the keys that it is told under
    clock: str
    clocks: tuple[str, ...]
    level: str
    logger: str
    message: str
    # what stands below the message, such as a stack trace
    more: str | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Whether one line may be such an object."""
        keys = (*self.clocks, self.level, self.logger, self.message)
        return line[:1] == b"{" and all(f'"{key}"'.encode() in line for key in keys)

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Write the objects as plain records; what is none stays as it is."""
        lines = slice_texts(texts.data, texts.starts, texts.stops)
        leads = find_escapes(texts.data[: int(texts.bounds[-1])])
        said = {
            key: _strings(texts, lines, leads, key)
            for key in (self.level, self.logger, self.message, self.more)
            if key is not None
        }
        level = _fitting(said[self.level], _LEVEL)
        logger = _fitting(said[self.logger], _NAME)
        whole = pc.extract_regex(said[self.message], _FIRST)
        below = whole.field("rest")
        if self.more is not None:
            stack = pc.binary_join_element_wise(b"\n", said[self.more], b"")
            below = pc.binary_join_element_wise(below, pc.fill_null(stack, b""), b"")
        first = pc.if_else(whole.is_valid(), whole.field("first"), None)
        parts = (
            b"[", self._time(texts, lines, leads), b"] ", level, b" ", first, b" (", logger, b")",
            below, b"\n",
        )  # fmt: skip
        records = pc.binary_join_element_wise(*parts, b"")
        data, bounds = to_buffer(pc.coalesce(records, lines))
        carried = records.is_valid().to_numpy(zero_copy_only=False)
        return replace(texts, data=data, bounds=bounds, carried=carried)

    def _time(self, texts: TextBuffer, lines: pa.Array, leads: Offsets) -> pa.Array:
        """Give the time of each line as Kafka's own layout writes it; null where there is none."""
        if self.clock == "time":
            return _written(_strings(texts, lines, leads, self.clocks[0]))
        if self.clock == "millis":
            return _told(_numbers(lines, self.clocks[0], 14))
        seconds, nanos = (_numbers(lines, key, 11) for key in self.clocks)
        return _told(pc.add(pc.multiply(seconds, 1000), pc.divide(nanos, 1_000_000)))


def find_strings(texts: TextBuffer, lines: pa.Array, key: str) -> Offsets:
    """Find where the string under a key of each object begins; -1 where there is none."""
    starts = texts.starts
    begins = np.full(len(texts), -1, np.int64)
    opened = (texts.data[starts] == _BRACE) & (texts.stops > starts)
    for colon in KEY_ENDS:
        left = np.flatnonzero(opened & (begins < 0))
        if not len(left):
            break
        some = lines if len(left) == len(texts) else lines.take(pa.array(left))
        wanted = f'"{key}{colon}'
        at = pc.find_substring(some, wanted).to_numpy()
        begins[left] = np.where(at >= 0, starts[left] + at + len(wanted), -1)
    return begins


def _strings(texts: TextBuffer, lines: pa.Array, leads: Offsets, key: str) -> pa.Array:
    """Give the string under a key of each object, its escapes undone; null where there is none."""
    begins, starts = find_strings(texts, lines, key), texts.starts
    ends = string_ends(texts.data[: int(texts.bounds[-1])], leads, np.maximum(begins, 0))
    held = (begins >= 0) & (ends < texts.stops)
    data, bounds = gather_texts(
        texts.data, np.where(held, begins, starts), np.where(held, ends, starts)
    )
    data, bounds = unescape(data, bounds, held)
    found = slice_texts(data, bounds[:-1], bounds[1:])
    return pc.if_else(pa.array(held), found, pa.scalar(None, pa.binary()))


def _numbers(lines: pa.Array, key: str, digits: int) -> pa.Array:
    """Read the number under a key; one with more digits is no time of this world."""
    found = pc.extract_regex(lines, rf'"{key}" ?: ?(?P<number>[0-9]{{1,{digits}}})[ ,}}]')
    number = pc.if_else(found.is_valid(), found.field("number"), pa.scalar(None, pa.binary()))
    return number.cast(pa.string()).cast(pa.int64())


def _fitting(texts: pa.Array, pattern: str) -> pa.Array:
    """Leave out what would break the line that it becomes a part of."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.binary()))


def _told(millis: pa.Array) -> pa.Array:
    moments = millis.cast(pa.timestamp("ms"))
    text = pc.strftime(moments, format="%Y-%m-%d %H:%M:%S")
    return pc.replace_substring(text, ".", ",").cast(pa.binary())


def _written(stamps: pa.Array) -> pa.Array:
    """Read ISO 8601; a time with an offset is brought to UTC, one without stays as it is."""
    found = pc.extract_regex(stamps, _STAMP)
    day, clock, part, zone = (
        pc.if_else(found.is_valid(), found.field(name), pa.scalar(None, pa.binary()))
        for name in ("day", "clock", "part", "zone")
    )
    part = pc.binary_slice(pc.binary_join_element_wise(part, b"000", b""), 0, 3)
    plain = pc.binary_join_element_wise(pc.binary_join_element_wise(day, clock, b" "), part, b",")
    shifted = pc.fill_null(pc.invert(pc.is_in(zone, value_set=_NO_SHIFT)), False)
    if not pc.any(shifted).as_py():
        return plain
    # The same zone for nearly all: few different shifts are asked for.
    away = pc.if_else(shifted, zone, b"+0000").cast(pa.string())
    minutes = _minutes(away)
    moments = pc.strptime(
        pc.binary_join_element_wise(day, clock, b" ").cast(pa.string()),
        format="%Y-%m-%d %H:%M:%S", unit="ms", error_is_null=True,
    )  # fmt: skip
    millis = pc.add(moments.cast(pa.int64()), part.cast(pa.string()).cast(pa.int64()))
    return _told(pc.subtract(millis, pc.multiply(minutes, 60_000)))


def _minutes(zones: pa.Array) -> pa.Array:
    """Read offsets such as +05:30 as minutes."""
    codes = zones.dictionary_encode()
    known = [_minutes_of(zone) for zone in codes.dictionary.to_pylist()]
    return pa.array(known, pa.int64()).take(codes.indices)


def _minutes_of(zone: str) -> int:
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if zone.startswith("-") else minutes


def check_record_keys(node: Mapping[str, object]) -> Sequence[str]:
    """Say what is wrong with the keys of a record, if anything."""
    clocks = [clock for clock in TIME_KEYS if clock in node]
    wanted = {"level", "logger", "message", *clocks}
    unknown = sorted(set(node) - wanted - {"more"})
    missing = sorted({"level", "logger", "message"} - set(node))
    if len(clocks) != 1:
        return [f"'record' must have one of {', '.join(TIME_KEYS)}"]
    return [f"'record' has an unknown key {one!r}" for one in unknown] + [
        f"'record' has no {one!r}" for one in missing
    ]
