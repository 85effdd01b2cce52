"""The kinds of events that rules may tell of, from rules/kinds/."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forensics.errors import Problem, RuleError
from forensics.yamls import Page, line_of, read, shipped

__all__ = ["ROUTINE", "Kind", "kinds", "read_kinds"]

# Lines that are known and tell nothing. They are claimed, so that what nobody knows stands out.
ROUTINE = "routine"


@dataclass(frozen=True)
class Kind:
    """What events of a kind mean.

    Some only give context: they are many, and nothing is built on them, so a scan reads them when
    it is asked to.
    """

    means: str
    context: bool = False


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Give every shipped kind."""
    return {name: kind for path in shipped("kinds") for name, kind in read_kinds(path)}


def read_kinds(path: Path | Page) -> Iterator[tuple[str, Kind]]:
    """Read the kinds of one file: a sentence each, or `{means: .., context: true}`."""
    page = read(path)
    for name, says in page.items():
        if isinstance(says, str):
            yield name, Kind(says)
        elif isinstance(says, Mapping) and set(says) <= {"means", "context"} and "means" in says:
            yield name, Kind(str(says["means"]), bool(says.get("context")))
        else:
            message = f"kind {name!r} must be a sentence, or {{means: .., context: true}}"
            raise RuleError([Problem(str(path), line_of(page, name), message)])
