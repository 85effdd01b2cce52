"""Says of lines whether a layout really reads them, and not only begins as they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.client_lines import THREAD
from forensics.ingest.message_columns import OWN_BRACKET, MessageStarts, leads_with_column
from forensics.ingest.record_starts import Flags, Signature
from forensics.ingest.written_loggers import holds_logger, is_logger
from forensics.parsing.layouts import Layout

# A thread in brackets, before the message.
_BRACKET = r"^\[(?P<inside>[^\[\]\n]*)\] "
_LIKELY_SHARE = 0.3
_MIN_THREADS, _THREAD_SHARE, _OWN_SHARE = 8, 0.95, 0.2
_RUN = 12
_MIN_NAMES = 3


class LayoutJudge:
    """The known layouts, grouped by how their records begin, and what rules know.

    These are loggers, and what messages begin with.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[Layout]],
        loggers: Iterable[str],
        starts: Iterable[str] = (),
    ) -> None:
        self.signatures: Sequence[Signature] = [group[0].signature for group in groups]
        self.loggers = frozenset(loggers)
        self.starts = MessageStarts(starts)
        self._groups = groups

    def reads(self, lines: pa.Array, kinds: npt.NDArray[np.uint8], followed: Flags) -> Flags:
        """Say which lines a layout reads; `followed` marks those with lines below them.

        A message that begins with a blank, and messages that all begin with the name of a thread,
        speak of another layout.
        """
        read = np.zeros(len(lines), np.bool_)
        messages: list[bytes | None] = [None] * len(lines)
        for kind in np.unique(kinds[kinds > 0]).tolist():
            rows = np.flatnonzero(kinds == kind)
            some = lines.take(pa.array(rows))
            good = np.zeros(len(rows), np.bool_)
            for layout in self._groups[kind - 1]:
                fits, found = self._fitting(some, layout, followed[rows])
                good |= fits
                for row, message in zip(rows[fits].tolist(), found, strict=False):
                    messages[row] = message
            read[rows] = good
        # Some lines may have threads, and the others none.
        known = [row for row, message in enumerate(messages) if message is not None]
        for begin in range(0, len(known), _RUN):
            run = known[max(0, min(begin, len(known) - _RUN)) : begin + _RUN]
            if _are_threads([messages[row] or b"" for row in run]):
                read[run] = False
        return read

    def count_known(self, lines: pa.Array, kinds: npt.NDArray[np.uint8]) -> int:
        """Count the messages and loggers in some records that rules know."""
        known = 0
        for kind in np.unique(kinds[kinds > 0]).tolist():
            some = lines.take(pa.array(np.flatnonzero(kinds == kind)))
            found = []
            for layout in self._groups[kind - 1]:
                fields = pc.extract_regex(some, layout.template.pattern).drop_null()
                names = {"message", "logger"} & set(layout.template.fields)
                texts = {
                    name: [one.decode("utf-8", "replace") for one in fields.field(name).to_pylist()]
                    for name in names
                }
                messages = sum(self.starts.find(one) == 0 for one in texts.get("message", ()))
                loggers = [one for one in texts.get("logger", ()) if is_logger(one, self.loggers)]
                # One name in all lines may be a word of theirs.
                differ = len(set(loggers)) >= _MIN_NAMES
                found.append(messages + differ * len(loggers))
            known += max(found, default=0)
        return known

    def _fitting(
        self, lines: pa.Array, layout: Layout, followed: Flags
    ) -> tuple[Flags, list[bytes]]:
        fields = pc.extract_regex(lines, layout.template.pattern)
        fits = fields.is_valid().to_numpy(zero_copy_only=False)
        messages: list[bytes] = []
        if "message" in layout.template.fields:
            texts = fields.field("message")
            padded = pc.fill_null(pc.starts_with(texts, b" "), False).to_numpy(zero_copy_only=False)
            fits &= ~padded
            if "client" not in layout.template.fields and not layout.ends_with_logger:
                held = pc.match_substring(pc.fill_null(texts, b""), THREAD)
                fits &= ~held.to_numpy(zero_copy_only=False)
        if not layout.ends_with_logger and "logger" in layout.template.fields and fits.any():
            # Where the logger stands in front, any word could be taken for one.
            names = fields.field("logger").filter(pa.array(fits)).to_pylist()
            likely = sum(self._is_likely(name.decode("utf-8", "replace")) for name in names)
            fits &= likely >= _LIKELY_SHARE * len(names)
            if likely and "message" in layout.template.fields and not layout.is_object:
                texts = fields.field("message").filter(pa.array(fits)).to_pylist()
                said = [(text or b"").decode("utf-8", "replace") for text in texts]
                if leads_with_column(said, partial(holds_logger, loggers=self.loggers)):
                    fits[:] = False
        if layout.opening and (layout.ends_with_logger or fits.any()):
            opened = pc.extract_regex(lines, layout.opening.pattern).is_valid()
            fits |= opened.to_numpy(zero_copy_only=False) & followed & ~_closes(lines)
        if layout.ends_with_logger:
            texts = fields.field("message").filter(pa.array(fits))
            messages = [text or b"" for text in texts.to_pylist()]
        return fits, messages

    def _is_likely(self, text: str) -> bool:
        return "." in text.strip(".") or text in self.loggers


def _closes(lines: pa.Array) -> Flags:
    """Mark lines that end as a whole record does."""
    flags: Flags = pc.match_substring_regex(lines, r"\([\w.$-]+(?::[0-9]+)?\)\s*$").to_numpy(
        zero_copy_only=False
    )
    return flags


def _are_threads(messages: Sequence[bytes]) -> bool:
    if len(messages) < _MIN_THREADS:
        return False
    fields = pc.extract_regex(pa.array(messages, pa.binary()), _BRACKET)
    inside = fields.drop_null().field("inside").to_pylist()
    if len(inside) < _THREAD_SHARE * len(messages):
        return False
    named = [OWN_BRACKET.search(one.decode("utf-8", "replace")) for one in inside]
    return sum(one is not None for one in named) <= _OWN_SHARE * len(inside)
