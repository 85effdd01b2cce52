"""Tries every wrapper on its own example lines, and on lines that are not wrapped at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forensics.archives.lines import find_lines
from forensics.archives.starts import Signature
from forensics.archives.texts import Texts
from forensics.archives.unwrapping import choose, texts_of
from forensics.archives.wrappers import Wrapper, load_wrappers
from forensics.errors import Problem, RuleError, taken_twice
from forensics.yamls import line_of, line_of_refused

__all__ = ["check_wrappers"]

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
