"""Detects the wrappers around the lines of a file, such as those of Docker, and removes them.

The head of a file decides once which wrappers it has. `check_wrappers` tries the wrappers on their
own examples, and on lines that are not wrapped at all.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forensics.errors import Problem, RuleError, duplicate_ids
from forensics.ingest.inferred_layout import FoundLayout
from forensics.ingest.message_columns import LinePattern
from forensics.ingest.record_starts import (
    HEAD_BYTES,
    MAX_RECORD,
    Flags,
    Lines,
    Offsets,
    Signature,
    find_lines,
    match_starts,
)
from forensics.ingest.separator_patterns import gap_parts
from forensics.ingest.text_buffer import (
    TextBuffer,
    gather_texts,
    holds_breaks,
    to_buffer,
    undo_breaks,
)
from forensics.ingest.wrappers import (
    ESCAPED_BREAKS,
    PADDING,
    CodeWrapper,
    JsonWrapper,
    PairsWrapper,
    Wrapper,
    found_prefix,
    load_wrappers,
)
from forensics.lib.yaml_with_lines import line_of, line_of_refused

# So many lines, spread over the head, decide how a file is wrapped.
_SAMPLE = 64
# More than three collectors, one behind the other, were never seen.
_MAX_WRAPPERS = 4
_LINE_FEED, _RETURN, _SPACE, _OBJECT = 10, 13, 32, ord("{")
_FEW, _NEARLY_ALL = 8, 0.9
# Objects begin so near to the beginning of their lines.
_MAX_FRONT = 256


@dataclass(frozen=True)
class WrapperStack:
    """The wrappers of some lines, the outermost first; `is_found`: some are not shipped ones."""

    wrappers: tuple[Wrapper, ...]
    is_found: bool = False

    @property
    def how(self) -> str:
        """How it was found: known, inferred from the lines, or given by somebody's pattern."""
        given = [one.how for one in self.wrappers if isinstance(one, FoundLayout) and one.is_given]
        return "inferred" if self.is_found else given[0] if given else "known"

    @property
    def name(self) -> str:
        """Their names, the outermost first."""
        return "+".join(wrapper.id for wrapper in self.wrappers)

    def unwrap(self, lines: Lines, *, torn_before: bool) -> Lines:
        """Rewrite the text of lines; `torn_before`: the line before goes on in the first one."""
        if not len(lines):
            return lines
        return texts_to_lines(lines, self.open(to_texts(lines)), torn_before=torn_before)

    def open(self, texts: TextBuffer) -> TextBuffer:
        """Take all wrappers off; `carried` marks the texts that had one of them."""
        carried = np.zeros(len(texts), np.bool_)
        for wrapper in self.wrappers:
            texts = wrapper.unwrap(texts)
            carried |= texts.carried
        if self.wrappers and holds_breaks(texts.content):
            # What stands in the wrapper may have had each record in one line.
            data, bounds = to_buffer(undo_breaks(texts.to_arrow(), carried))
            texts = replace(texts, data=data, bounds=bounds)
        return replace(texts, carried=carried)

    def is_split(self, line: bytes) -> bool:
        """Return True if a line, the one before a split, goes on in the next."""
        if not line or not any(wrapper.splits_lines for wrapper in self.wrappers):
            return False
        torn = self.unwrap(find_lines(line, final=True), torn_before=False).continues
        return torn is not None and bool(torn[-1])


def texts_to_lines(lines: Lines, texts: TextBuffer, *, torn_before: bool) -> Lines:
    """Return lines with the text that wrappers made of them."""
    return Lines(
        data=texts.data,
        block_starts=lines.block_starts,
        block_ends=lines.block_ends,
        size=lines.size,
        starts=texts.starts,
        ends=_ends(texts),
        text_length=int(texts.bounds[-1]),
        kinds=lines.kinds,
        continues=texts.continues,
        continued=np.append(torn_before, texts.continues[:-1]),
        origins=texts.origins,
    )


def find_blanks_and_breaks(lines: Lines) -> tuple[WrapperStack, ...]:
    """Find what takes off blanks that end nearly all lines, or undoes breaks that are escaped."""
    if not len(lines):
        return ()
    # Where a screen was copied, lines end with blanks.
    written = lines.own_ends > lines.starts
    # Those of librdkafka end with one blank of their own.
    padded = written & (lines.own_ends > lines.starts + 1)
    for at in (1, 2):
        padded &= lines.data[np.maximum(lines.own_ends - at, 0)] == _SPACE
    if padded.sum() >= max(_FEW, _NEARLY_ALL * int(written.sum())):
        return (WrapperStack((PADDING,)),)
    if holds_breaks(lines.data[int(lines.starts[0]) : int(lines.ends[-1])]):
        return (WrapperStack((ESCAPED_BREAKS,)),)
    return ()


def find_wrapped(lines: Sequence[bytes], wrappers: Sequence[Wrapper]) -> list[bytes]:
    """Return the lines that seem to be in the wrapper that most of them have, if any has one."""
    best: list[bytes] = []
    for wrapper in wrappers:
        some = [line for line in lines if wrapper.looks_wrapped(line)]
        best = max(best, some, key=len)
    return best


def detect_wrappers(
    head: bytes,
    signatures: Sequence[Signature],
    wrappers: Sequence[Wrapper] | None = None,
    loggers: Collection[str] = (),
) -> WrapperStack | None:
    """Find the wrappers that most lines of a head have, if any.

    `loggers` are the last parts of the names of Kafka's loggers.
    """
    known = shipped_wrappers() if wrappers is None else wrappers
    sample = _sample(head[:HEAD_BYTES])
    chosen: list[Wrapper] = []
    while len(chosen) < _MAX_WRAPPERS:
        raw = [
            sample.data[begin:end].tobytes()
            for begin, end in zip(sample.starts, sample.stops, strict=True)
        ]
        best = _find_best(known, sample, raw, signatures)
        if best is None:
            # No name tells where the lines are: perhaps what the objects hold does.
            learned = [one.learn(raw, loggers) for one in known if isinstance(one, JsonWrapper)]
            found = [one for one in learned if one is not None]
            best = _find_best(found, sample, raw, signatures)
        if best is None and (prefix := _find_before_objects(known, raw, signatures)):
            best = _find_best([prefix], sample, raw, signatures)
        if best is None:
            break
        if isinstance(best[0], JsonWrapper):
            settled = best[0].settle(raw, loggers)
            best = best if settled is best[0] else (settled, settled.unwrap(sample))
        chosen.append(best[0])
        sample = best[1]
    return WrapperStack(tuple(chosen)) if chosen else None


def _find_best(
    wrappers: Sequence[Wrapper],
    sample: TextBuffer,
    raw: Sequence[bytes],
    signatures: Sequence[Signature],
) -> tuple[Wrapper, TextBuffer] | None:
    """Find the wrapper that most lines have; of several the one that gives most."""
    best: tuple[tuple[bool, int, bool], Wrapper, TextBuffer] | None = None
    for wrapper in wrappers:
        if 2 * sum(map(wrapper.looks_wrapped, raw)) <= len(raw):
            continue
        opened = wrapper.unwrap(sample)
        saved = int(sample.bounds[-1] - opened.bounds[-1])
        # An object may hold both a whole record and its parts: prefer the record.
        worth = (
            wrapper.makes_records or _are_records(opened, signatures),
            saved,
            wrapper.splits_lines,
        )
        if best is not None and worth <= best[0]:
            continue
        if _is_wrapped(wrapper, sample, opened, signatures):
            best = (worth, wrapper, opened)
    return None if best is None else best[1:]


def _find_before_objects(
    wrappers: Sequence[Wrapper], raw: Sequence[bytes], signatures: Sequence[Signature]
) -> Wrapper | None:
    """Find what stands before objects at the ends of most lines, if they are or hold records."""
    readers = [one for one in wrappers if type(one) is JsonWrapper]
    fronts = []
    for line in raw:
        begin = line.find(b'{"', 1, _MAX_FRONT)
        if begin > 0 and line.rstrip()[-1:] in (b"}", b"]"):
            inside = to_texts(find_lines(line[begin:], final=True))
            told = [_are_records(inside, signatures), *(one.open(line[begin:]) for one in readers)]
            fronts += [line[:begin].decode("utf-8", "replace") for one in told if one][:1]
    if 2 * len(fronts) <= len(raw):
        return None
    pattern = LinePattern()
    pattern.add_named(gap_parts(fronts))
    return found_prefix(pattern.source, pattern.shown)


@functools.cache
def shipped_wrappers() -> tuple[Wrapper, ...]:
    """Return the wrappers of rules/wrappers/, read once."""
    return load_wrappers()


def _are_records(texts: TextBuffer, signatures: Sequence[Signature]) -> bool:
    """Return True if most texts are records of some layout."""
    found = match_starts(texts.data, texts.starts, texts.stops, signatures) > 0
    return 2 * int(found.sum()) > len(found)


def _is_wrapped(
    wrapper: Wrapper, before: TextBuffer, after: TextBuffer, signatures: Sequence[Signature]
) -> bool:
    """Return True if most lines were wrapped, and are not records of some layout as they are."""
    if 2 * int(after.carried.sum()) <= len(before):
        return False
    if isinstance(wrapper, CodeWrapper):
        return True
    # A wrapper may begin with a time, as a layout does: then there must be records inside, or
    # objects.
    outside = match_starts(before.data, before.starts, before.stops, signatures)[after.carried] > 0
    inside = match_starts(after.data, after.starts, after.stops, signatures)[after.carried] > 0
    if isinstance(wrapper, PairsWrapper):
        return 2 * int(outside.sum()) <= len(outside)
    objects = after.data[after.starts[after.carried]] == _OBJECT
    return 2 * int(outside.sum()) <= len(outside) or bool(inside.any() or objects.all())


def _sample(head: bytes) -> TextBuffer:
    lines = find_lines(head, final=b"\n" not in head)
    some = np.flatnonzero(lines.ends > lines.starts)
    if len(some) > _SAMPLE:
        some = some[np.linspace(0, len(some) - 1, _SAMPLE).astype(np.int64)]
    data, bounds = gather_texts(lines.data, lines.starts[some], lines.stops[some])
    return TextBuffer.unwrapped(data, bounds)


def to_texts(lines: Lines) -> TextBuffer:
    """Return lines as texts; endless ones are cut."""
    bounds = np.append(lines.starts, lines.text_length)
    data = lines.data
    if (np.diff(bounds) > MAX_RECORD).any():
        data, bounds = gather_texts(
            data, bounds[:-1], np.minimum(bounds[1:], bounds[:-1] + MAX_RECORD)
        )
    return TextBuffer.unwrapped(data, bounds)


def _ends(texts: TextBuffer) -> Offsets:
    """Find where each line ends: at its first break, which may stand in a later line."""
    size = int(texts.bounds[-1])
    breaks = np.append(np.flatnonzero(texts.data[:size] == _LINE_FEED), size)
    ends: Offsets = breaks[np.searchsorted(breaks, texts.starts)]
    ends = np.minimum(ends, texts.stops[last_line_parts(texts.continues)])
    ends -= (ends > texts.starts) & (texts.data[np.maximum(ends - 1, 0)] == _RETURN)
    return ends


def last_line_parts(torn: Flags) -> Offsets:
    """Return for each line in which line it ends."""
    whole = np.append(np.flatnonzero(~torn), len(torn) - 1)
    return whole[np.searchsorted(whole[:-1], np.arange(len(torn)))]


_CHECKED = ("line", "origin", "torn")


def check_wrappers(
    signatures: Sequence[Signature],
    plain: Sequence[str],
    paths: Sequence[Path] | None = None,
    wrappers: Sequence[Wrapper] | None = None,
) -> Iterator[Problem]:
    """Yield the problems of wrappers; no wrapper may open the `plain` lines."""
    try:
        wrappers = load_wrappers(paths) if wrappers is None else wrappers
    except RuleError as error:
        yield from error.problems
        return
    yield from duplicate_ids((wrapper.id, wrapper.origin.file) for wrapper in wrappers)
    for wrapper in wrappers:
        file = wrapper.origin.file
        for example in wrapper.examples:
            for says in _check_example(example, wrapper, wrappers):
                yield Problem(file, line_of(example, "line"), says)
        for line in wrapper.refuses:
            if wrapper.looks_wrapped(line.encode()) and _opened(wrapper, line).carried.any():
                says = f"wrapper {wrapper.id} opens a line that it must refuse"
                yield Problem(file, line_of_refused(file, line), says)
    for line in plain:
        found = detect_wrappers(line.encode("utf-8", "replace"), signatures, wrappers)
        if found:
            says = f"wrapper {found.name} opens the example of a layout: {line!r}"
            yield Problem(found.wrappers[0].origin.file, 1, says)


def _check_example(
    example: Mapping[str, Any], wrapper: Wrapper, wrappers: Sequence[Wrapper]
) -> Iterator[str]:
    line = str(example.get("line", ""))
    found = detect_wrappers(line.encode(), (), wrappers)
    first = found.wrappers[0].id if found else None
    texts = _opened(wrapper, line)
    torn = bool(texts.continues[0])
    if first != wrapper.id and not torn:
        yield f"the example is opened by {first or 'no wrapper'}, not by {wrapper.id}"
    origin = None if texts.origins is None else texts.origins[0].as_py().decode()
    text = texts.data[: int(texts.bounds[1])].tobytes().decode("utf-8", "replace")
    got = {"line": text.removesuffix("\n"), "origin": origin, "torn": torn}
    for name, value in example.get("gives", {}).items():
        if name not in _CHECKED:
            yield f"gives {name}: a wrapper gives {', '.join(_CHECKED)}"
        elif got[name] != value:
            yield f"gives {name}: expected {value!r}, got {got[name]!r}"


def _opened(wrapper: Wrapper, line: str) -> TextBuffer:
    return wrapper.unwrap(to_texts(find_lines(line.encode() + b"\n", final=True)))
