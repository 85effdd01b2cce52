"""The errors that users see: each says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

# What the system says of a disk that takes no more, mostly without naming the file.
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


class ForensicsError(Exception):
    """An error that the user can put right; the command prints its sentence and ends with 1."""


class ArchiveError(ForensicsError):
    """An archive that cannot be read at all."""


class JavaError(ForensicsError):
    """No Java that Spark can use."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in one place of one file.

    >>> str(Problem("rules/events/isr.yaml", 7, "rule has no match"))
    'rules/events/isr.yaml:7: rule has no match'
    """

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class RuleError(ForensicsError):
    """Rules with faults; it carries every problem, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@contextmanager
def reading_page(file: str) -> Iterator[None]:
    """Name the file whose values are of types that nobody has foreseen."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        says = f"not of the shape that is expected: {type(error).__name__}: {error}"
        raise RuleError([Problem(file, 1, says.partition("\n")[0])]) from error


@contextmanager
def collect_problems(problems: list[Problem], file: str = "") -> Iterator[None]:
    """Add the problems of a RuleError to a list, and go on behind the block.

    With the file that the block reads, values of wrong types in it are a problem, too.
    """
    try:
        with reading_page(file) if file else nullcontext():
            yield
    except RuleError as error:
        problems += error.problems


class ConfigError(RuleError):
    """A configuration file with faults; it carries every problem, too."""


def duplicate_ids(named: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Yield a problem for each id that was taken before; given are ids, and the files they are in.

    >>> [str(p) for p in duplicate_ids([("isr", "a.yaml"), ("elr", "b.yaml"), ("isr", "c.yaml")])]
    ["c.yaml:1: id 'isr' is taken by a.yaml"]
    """
    seen: dict[str, str] = {}
    for name, file in ((str(name), file) for name, file in named):
        if name in seen:
            yield Problem(file, 1, f"id {name!r} is taken by {seen[name]}")
        seen[name] = file


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Suggest the known name that is most like an unknown one, as the end of a sentence, if any.

    >>> did_you_mean("ouput", ["output", "archive"]), did_you_mean("x", ["output"])
    ("; did you mean 'output'?", '')
    """
    close = difflib.get_close_matches(str(name), map(str, known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
