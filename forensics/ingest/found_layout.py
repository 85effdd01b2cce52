"""A layout that was found in a file, or given as a pattern: rewrites lines as Kafka's records."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem
from forensics.ingest.text_buffer import TextBuffer, to_buffer
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.written_levels import write_levels
from forensics.ingest.written_times import TimeForm, write_times

# The logger of records whose layout names none; rules decide by the message alone.
UNNAMED = "unnamed"
_BLANKS, _END = r"[ \t]*", r"(\r*\n?)$"


@dataclass(frozen=True)
class FoundLayout(Wrapper):
    """The parts of records as a pattern; fitting lines are written anew as Kafka writes them.

    `pattern` captures the parts of the time, `level`, `logger` and `message`; `tail` is what ends a
    record, its logger between two other texts. A message of several lines has it in its last one.
    """

    makes_records = True

    pattern: str
    time: TimeForm
    tail: str | None
    # How it was found: in the lines themselves, or in a pattern that somebody wrote.
    how: str = "inferred"

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line is a record of this layout."""
        return bool(pc.match_substring_regex(pa.array([line], pa.binary()), self.pattern)[0])

    def on(self, day: tuple[int, int, int] | None) -> FoundLayout:
        """Return the layout for a file of one day."""
        return replace(self, time=self.time.on(day))

    @property
    def is_given(self) -> bool:
        """Whether it was made of a conversion pattern."""
        return self.how != "inferred"

    @property
    def names_logger(self) -> bool:
        """Whether its records name their logger."""
        return self.tail is not None or "(?P<logger>" in self.pattern

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Write the records anew."""
        lines = texts.to_arrow()
        fields = pc.extract_regex(lines, self.pattern)
        fits = fields.is_valid().to_numpy(zero_copy_only=False)
        if self.tail:
            alone = r"^[ \t]*" + self.tail.removeprefix(_BLANKS).removesuffix("$") + _END
            lines = pc.replace_substring_regex(lines, alone, r" (\1)\2")
        rows = np.flatnonzero(fits)
        if len(rows):
            written = self._write(fields.take(pa.array(rows)))
            places = np.arange(len(lines))
            places[rows] = len(lines) + np.arange(len(rows))
            lines = pa.concat_arrays([lines, written]).take(pa.array(places))
        data, bounds = to_buffer(lines)
        return replace(texts, data=data, bounds=bounds, carried=fits)

    def _write(self, fields: pa.StructArray) -> pa.Array:
        names = {field.name for field in fields.type}
        count = len(fields)

        def constant(value: bytes) -> pa.Array:
            return pa.repeat(pa.scalar(value, pa.binary()), count)

        times, zoned = write_times(fields, self.time)
        utc = pc.if_else(pa.array(zoned), pa.scalar(b"Z", pa.binary()), b"")
        times = pc.binary_join_element_wise(times, utc, b"")
        levels = fields.field("level") if "level" in names else constant(b"")
        message = fields.field("message")
        if self.tail:
            message = pc.replace_substring_regex(message, self.tail, r" (\1)")
        parts = [b"[", times, b"] ", write_levels(levels), b" ", message]
        if "logger" in names:
            logger = pc.fill_null(fields.field("logger"), b"")
            logger = pc.if_else(pc.equal(logger, b""), UNNAMED.encode(), logger)
            parts += [b" (", logger, b")"]
        elif self.tail is None:
            parts.append(f" ({UNNAMED})".encode())
        return pc.binary_join_element_wise(*parts, fields.field("end"), b"")


def found_layout(pattern: str, shown: str, time: TimeForm, tail: str | None = None) -> FoundLayout:
    """Build a layout from the pattern of a record's line, without the line's end."""
    whole = rf"^{pattern}(?P<end>\r*\n?)$"
    return FoundLayout(shown, (), (), Problem("", 1, shown), False, whole, time, tail)
