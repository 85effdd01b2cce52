"""A layout that was found in a file, or given as a pattern: rewrites lines as Kafka's records."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem
from forensics.ingest.text_buffer import TextBuffer, to_buffer
from forensics.ingest.wrapper_base import GUESSED
from forensics.ingest.wrappers import PrefixWrapper, Wrapper
from forensics.ingest.written_levels import write_levels
from forensics.ingest.written_times import TimeForm, write_times

# The logger of records whose layout names none; rules decide by the message alone.
UNNAMED = "unnamed"
_BLANKS, _END = r"[ \t]*", r"(\r*\n?)$"


@dataclass(frozen=True)
class FoundPrefix(PrefixWrapper):
    """What stands before every line of a file; lines without it stay as they are."""

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take it off; a line without it belongs to whoever wrote the line above."""
        opened = super().unwrap(texts)
        if opened.origins is None or texts.origins is not None:
            # What a collector says of its lines goes before what stands in them.
            return replace(opened, origins=texts.origins)
        nobody = pa.scalar(None, pa.binary())
        guessed = pc.binary_join_element_wise(GUESSED.encode(), opened.origins, b"")
        return replace(opened, origins=pc.if_else(pa.array(opened.carried), guessed, nobody))


@dataclass(frozen=True)
class FoundEnd(Wrapper):
    """What ends every line of a file, such as a quote."""

    pattern: str

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line ends so."""
        return re.search(self.pattern.encode(), line) is not None

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take it off."""
        lines = pc.replace_substring_regex(texts.to_arrow(), self.pattern, r"\1")
        data, bounds = to_buffer(lines)
        carried = np.diff(bounds) < np.diff(texts.bounds)
        return replace(texts, data=data, bounds=bounds, carried=carried)


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
    hint: re.Pattern[str]

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line is a record of this layout."""
        return self.hint.match(line.decode("utf-8", "replace")) is not None

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


def found_prefix(pattern: str, shown: str) -> FoundPrefix:
    """Build the wrapper for a prefix; the pattern may capture `origin`."""
    whole = f"^(?P<whole>{pattern})"
    return FoundPrefix(
        shown, (), (), Problem("", 1, shown), False, whole, re.compile(whole.encode()), None
    )


def found_end(text: str) -> FoundEnd:
    """Build the wrapper for what ends lines."""
    return FoundEnd(text, (), (), Problem("", 1, text), False, rf"{re.escape(text)}(\r*\n?)$")


def found_layout(pattern: str, shown: str, time: TimeForm, tail: str | None = None) -> FoundLayout:
    """Build a layout from the pattern of a record's line, without the line's end."""
    whole = rf"^{pattern}(?P<end>\r*\n?)$"
    return FoundLayout(
        shown, (), (), Problem("", 1, shown), False, whole, time, tail,
        re.compile(whole, re.ASCII),
    )  # fmt: skip
