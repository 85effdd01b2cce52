"""Reads a file through the wrappers around its lines, such as those of Docker and Kubernetes.

Which wrappers a file has is decided once, by its head. A file without any is read as it is.

Tries every wrapper on its own example lines, and on lines that are not wrapped at all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forensics.errors import Problem, RuleError, taken_twice
from forensics.ingest.record_starts import (
    HEAD,
    LONGEST,
    Flags,
    Lines,
    Places,
    Signature,
    classify,
    find_lines,
)
from forensics.ingest.text_buffer import Texts, gather
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.wrappers import Codes, load_wrappers
from forensics.lib.yaml_with_lines import line_of, line_of_refused

# So many lines, spread over the head, tell how a file is wrapped.
_SAMPLE = 64
# A collector's collector's collector; nobody has seen more.
_DEEPEST = 4
_LINE_FEED, _RETURN = 10, 13


@dataclass(frozen=True)
class Unwrapping:
    """The wrappers of one file, the outermost first."""

    wrappers: tuple[Wrapper, ...]

    @property
    def name(self) -> str:
        """Their names, the outermost first."""
        return "+".join(wrapper.id for wrapper in self.wrappers)

    def open(self, lines: Lines, *, torn_before: bool) -> Lines:
        """Rewrite the text of some lines; `torn_before`: the line before them goes on in them."""
        if not len(lines):
            return lines
        texts = texts_of(lines)
        for wrapper in self.wrappers:
            texts = wrapper.open(texts)
        joined = np.append(torn_before, texts.torn[:-1])
        origins = texts.origins
        return Lines(
            data=texts.data,
            places=lines.places,
            reach=lines.reach,
            size=lines.size,
            starts=texts.starts,
            ends=_ends(texts),
            length=int(texts.bounds[-1]),
            kinds=lines.kinds,
            torn=texts.torn,
            joined=joined,
            origins=origins,
        )

    def tears(self, line: bytes) -> bool:
        """Whether a line, the one before a split, goes on in the next."""
        if not line or not any(wrapper.tears for wrapper in self.wrappers):
            return False
        torn = self.open(find_lines(line, final=True), torn_before=False).torn
        return torn is not None and bool(torn[-1])


def choose(
    head: bytes, signatures: Sequence[Signature], wrappers: Sequence[Wrapper] | None = None
) -> Unwrapping | None:
    """Find the wrappers that most lines of a head carry; none if most carry none."""
    known = _shipped() if wrappers is None else wrappers
    sample = _sample(head[:HEAD])
    chosen: list[Wrapper] = []
    while len(chosen) < _DEEPEST:
        raw = [
            sample.data[begin:end].tobytes()
            for begin, end in zip(sample.starts, sample.stops, strict=True)
        ]
        best: tuple[tuple[bool, int, bool], Wrapper, Texts] | None = None
        for wrapper in known:
            if 2 * sum(map(wrapper.seems, raw)) <= len(raw):
                continue
            opened = wrapper.open(sample)
            saved = int(sample.bounds[-1] - opened.bounds[-1])
            # Of an object that holds a whole record and its parts, the record is what is wanted.
            worth = (wrapper.makes_records or _records(opened, signatures), saved, wrapper.tears)
            if best is not None and worth <= best[0]:
                continue
            if _carried(wrapper, sample, opened, signatures):
                best = (worth, wrapper, opened)
        if best is None:
            break
        chosen.append(best[1])
        sample = best[2]
    return Unwrapping(tuple(chosen)) if chosen else None


@functools.cache
def _shipped() -> tuple[Wrapper, ...]:
    return load_wrappers()


def _records(texts: Texts, signatures: Sequence[Signature]) -> bool:
    """Whether most texts are records of some layout."""
    found = classify(texts.data, texts.starts, texts.stops, signatures) > 0
    return 2 * int(found.sum()) > len(found)


def _carried(
    wrapper: Wrapper, before: Texts, after: Texts, signatures: Sequence[Signature]
) -> bool:
    """Whether most lines were wrapped, and are not records of some layout as they stand."""
    if 2 * int(after.carried.sum()) <= len(before):
        return False
    if isinstance(wrapper, Codes):
        return True
    # A wrapper may begin with a time as some layout does: then there must be records inside.
    outside = classify(before.data, before.starts, before.stops, signatures)[after.carried] > 0
    inside = classify(after.data, after.starts, after.stops, signatures)[after.carried] > 0
    return 2 * int(outside.sum()) <= len(outside) or bool(inside.any())


def _sample(head: bytes) -> Texts:
    lines = find_lines(head, final=b"\n" not in head)
    some = np.flatnonzero(lines.ends > lines.starts)
    if len(some) > _SAMPLE:
        some = some[np.linspace(0, len(some) - 1, _SAMPLE).astype(np.int64)]
    data, bounds = gather(lines.data, lines.starts[some], lines.stops[some])
    nothing = np.zeros(len(some), np.bool_)
    return Texts(data, bounds, nothing, nothing)


def texts_of(lines: Lines) -> Texts:
    """Give lines as texts; of an endless line only what is kept."""
    bounds = np.append(lines.starts, lines.size)
    data = lines.data
    if (np.diff(bounds) > LONGEST).any():
        data, bounds = gather(data, bounds[:-1], np.minimum(bounds[1:], bounds[:-1] + LONGEST))
    nothing = np.zeros(len(lines), np.bool_)
    return Texts(data, bounds, nothing, nothing)


def _ends(texts: Texts) -> Places:
    """Find where each line ends: at its first break, which may stand in a later line."""
    size = int(texts.bounds[-1])
    breaks = np.append(np.flatnonzero(texts.data[:size] == _LINE_FEED), size)
    ends: Places = breaks[np.searchsorted(breaks, texts.starts)]
    ends = np.minimum(ends, texts.stops[last_parts(texts.torn)])
    ends -= (ends > texts.starts) & (texts.data[np.maximum(ends - 1, 0)] == _RETURN)
    return ends


def last_parts(torn: Flags) -> Places:
    """Say for each line which line it ends in."""
    whole = np.append(np.flatnonzero(~torn), len(torn) - 1)
    return whole[np.searchsorted(whole[:-1], np.arange(len(torn)))]


_GIVEN = ("line", "origin", "torn")


def check_wrappers(
    signatures: Sequence[Signature], plain: Sequence[str], paths: Sequence[Path] | None = None
) -> Iterator[Problem]:
    """Yield what is wrong with the wrappers; `plain` are lines that no wrapper may touch."""
    try:
        wrappers = load_wrappers(paths)
    except RuleError as error:
        yield from error.problems
        return
    yield from taken_twice((wrapper.id, wrapper.origin.file) for wrapper in wrappers)
    for wrapper in wrappers:
        file = wrapper.origin.file
        for example in wrapper.examples:
            for says in _example(example, wrapper, wrappers):
                yield Problem(file, line_of(example, "line"), says)
        for line in wrapper.refuses:
            if _opened(wrapper, line).carried.any():
                says = f"wrapper {wrapper.id} opens a line that it must refuse"
                yield Problem(file, line_of_refused(file, line), says)
    for line in plain:
        found = choose(line.encode("utf-8", "replace"), signatures, wrappers)
        if found:
            says = f"wrapper {found.name} opens the example of a layout: {line!r}"
            yield Problem(found.wrappers[0].origin.file, 1, says)


def _example(
    example: Mapping[str, Any], wrapper: Wrapper, wrappers: Sequence[Wrapper]
) -> Iterator[str]:
    line = str(example.get("line", ""))
    found = choose(line.encode(), (), wrappers)
    first = found.wrappers[0].id if found else None
    texts = _opened(wrapper, line)
    torn = bool(texts.torn[0])
    if first != wrapper.id and not torn:
        yield f"the example is opened by {first or 'no wrapper'}, not by {wrapper.id}"
    origin = None if texts.origins is None else texts.origins[0].as_py().decode()
    text = texts.data[: int(texts.bounds[1])].tobytes().decode("utf-8", "replace")
    got = {"line": text.removesuffix("\n"), "origin": origin, "torn": torn}
    for name, value in example.get("gives", {}).items():
        if name not in _GIVEN:
            yield f"gives {name}: a wrapper gives {', '.join(_GIVEN)}"
        elif got[name] != value:
            yield f"gives {name}: expected {value!r}, got {got[name]!r}"


def _opened(wrapper: Wrapper, line: str) -> Texts:
    return wrapper.open(texts_of(find_lines(line.encode() + b"\n", final=True)))
