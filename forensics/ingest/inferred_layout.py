"""A layout that was found in a file, or given as a pattern: rewrites lines as Kafka's records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem
from forensics.ingest.embedded_client_lines import (
    MAYBE_CLIENT_LINE,
    UNNAMED,
    Moment,
    write_client_line,
)
from forensics.ingest.level_formats import write_levels
from forensics.ingest.text_buffer import TextBuffer, to_buffer
from forensics.ingest.time_formats import TimeForm, write_times
from forensics.ingest.wrapper_base import Wrapper

# What java.util.logging writes before a message in the line below.
_LEVELS_OF_JAVA = (("SEVERE", "ERROR"), ("WARNING", "WARN"), ("CONFIG|FINE|FINER", "DEBUG"))
# A record that ends as those of Kafka do has an empty tail.
_USUAL_TAIL = r"[ \t]*\(([^()\s]+)\)$"
_BLANKS, _END = r"[ \t]*", r"(\r*\n?)$"
# What ends a record is known by a sign around its logger; one without may be a value of its own.
_OPENED = re.compile(r"(?:\[+|\{+|<+)$")
_MIRRORED = str.maketrans("[{<", "]}>")
_HAS_SIGNS = re.compile(r"\\[(\[<{|]|=")


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
    # Whether the message stands in the line below, perhaps behind the level.
    is_above: bool = False
    # What closes such a message, which its head has opened.
    closing: str = ""
    # So many blanks stand before its lines.
    indent: int = 0

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

    def above(self, said: str, indent: int) -> FoundLayout:
        """Return the layout of heads whose messages stand below; they end with what is `said`."""
        opened = _OPENED.search(said) or _OPENED.search(self.id)
        closing = opened[0].translate(_MIRRORED) if opened else ""
        return replace(self, is_above=True, closing=closing, indent=indent)

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
            closed = pc.replace_substring_regex(lines, alone, r" (\1)\2")
            if _HAS_SIGNS.search(self.tail):
                # The last line of a stack trace may end so, too.
                ends = self.tail.removesuffix("$") + _END
                closed = pc.replace_substring_regex(closed, ends, r" (\1)\2")
            # A setting in the middle of a record, such as a list in brackets, only looks like it.
            is_last = np.append(fits[1:], np.True_) if len(fits) else fits
            lines = pc.if_else(pa.array(is_last), closed, lines)
        rows = np.flatnonzero(fits)
        if len(rows):
            written = self._write(fields.take(pa.array(rows)))
            places = np.arange(len(lines))
            places[rows] = len(lines) + np.arange(len(rows))
            lines = pa.concat_arrays([lines, written]).take(pa.array(places))
        if not self.is_above:
            data, bounds = to_buffer(lines)
            return replace(texts, data=data, bounds=bounds, carried=fits)
        if self.indent:
            plain = pc.replace_substring_regex(lines, f"^ {{{self.indent}}}", "")
            lines = pc.if_else(pa.array(fits), lines, plain)
        if self.closing:
            # What the head opened is closed behind the message.
            lines = pc.replace_substring_regex(lines, rf"{re.escape(self.closing)}{_END}", r"\1")
        for word, level in _LEVELS_OF_JAVA:
            lines = pc.replace_substring_regex(lines, f"^(?:{word}): ", f"{level}: ")
        data, bounds = to_buffer(lines)
        continues = texts.continues | fits
        return replace(texts, data=data, bounds=bounds, carried=fits, continues=continues)

    def _write(self, fields: pa.StructArray) -> pa.Array:
        names = {field.name for field in fields.type}
        count = len(fields)

        def constant(value: bytes) -> pa.Array:
            return pa.repeat(pa.scalar(value, pa.binary()), count)

        times, zoned = write_times(fields, self.time)
        levels = write_levels(fields.field("level") if "level" in names else constant(b""))
        if self.is_above:
            ends = pc.binary_join_element_wise(levels, b": ", b"") if "level" in names else b""
            if "logger" in names:
                logger = pc.fill_null(fields.field("logger"), b"")
            else:
                end = rf"^(?s:.*?){self.tail or _USUAL_TAIL}"
                logger = pc.replace_substring_regex(fields.field("message"), end, r"\1")
            return pc.binary_join_element_wise(b"[", times, b"] (", logger, b") ", ends, b"")
        client = _client_lines(times, zoned, levels, fields)
        utc = pc.if_else(pa.array(zoned), pa.scalar(b"Z", pa.binary()), b"")
        times = pc.binary_join_element_wise(times, utc, b"")
        message = fields.field("message")
        if self.tail:
            message = pc.replace_substring_regex(message, self.tail, r" (\1)")
        parts = [b"[", times, b"] ", levels, b" ", message]
        if "logger" in names:
            logger = pc.fill_null(fields.field("logger"), b"")
            logger = pc.if_else(pc.equal(logger, b""), UNNAMED.encode(), logger)
            parts += [b" (", logger, b")"]
        elif self.tail is None:
            parts.append(f" ({UNNAMED})".encode())
        written = pc.binary_join_element_wise(*parts, b"")
        if client is not None:
            written = pc.coalesce(client, written)
        return pc.binary_join_element_wise(written, fields.field("end"), b"")


def _client_lines(
    times: pa.Array, zoned: npt.NDArray[np.bool_], levels: pa.Array, fields: pa.StructArray
) -> pa.Array | None:
    """Write the lines of client libraries as they do themselves; null where there is none."""
    message = fields.field("message")
    maybe = pc.match_substring_regex(message, MAYBE_CLIENT_LINE)
    rows = np.flatnonzero(maybe.to_numpy(zero_copy_only=False))
    if not len(rows):
        return None
    has_logger = fields.type.get_field_index("logger") >= 0
    loggers = fields.field("logger") if has_logger else pa.nulls(len(fields), pa.binary())
    columns = [one.take(pa.array(rows)).to_pylist() for one in (message, levels, times, loggers)]
    written: list[bytes | None] = [None] * len(fields)
    for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        # Latin-1 keeps every byte as it is.
        says, level, time, logger = ((one or b"").decode("latin-1") for one in values)
        line = write_client_line(says, Moment(time, level, bool(zoned[row])), logger)
        written[row] = None if line is None else line.encode("latin-1")
    return pa.array(written, pa.binary())


def found_layout(pattern: str, shown: str, time: TimeForm, tail: str | None = None) -> FoundLayout:
    """Build a layout from the pattern of a record's line, without the line's end."""
    whole = rf"^{pattern}(?P<end>\r*\n?)$"
    return FoundLayout(shown, (), (), Problem("", 1, shown), False, whole, time, tail)


def layouts_on_day(
    wrappers: Sequence[Wrapper], day: tuple[int, int, int] | None
) -> Sequence[Wrapper]:
    """Give patterns without a date the day of the file, or leave them out."""
    if not any(isinstance(one, FoundLayout) for one in wrappers):
        return wrappers
    return [
        one.on(day) if isinstance(one, FoundLayout) else one
        for one in wrappers
        if not isinstance(one, FoundLayout) or one.time.has_year or day is not None
    ]
