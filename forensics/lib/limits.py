"""How far an archive may lead a reader: bytes, entries, depth, names and seconds, in one place.

Each limit can be set (`--limit entries=500000`); docs/running/limits.md explains them. What a limit
keeps from being read is said with the name of the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from forensics.errors import ForensicsError, did_you_mean


@dataclass(frozen=True)
class Limits:
    """All limits: every log that people have passes, and what is made to hurt is stopped."""

    # text that may come out of one file on disk
    unpacked_bytes: int = 1 << 40
    # bytes of text for a byte of a compressed stream, counted once it gave `ratio_bytes`
    ratio: int = 500
    ratio_bytes: int = 8 << 30
    # text of one file on disk that only repeats a few bytes; zeros count a quarter
    repeated_bytes: int = 64 << 20
    # entries of one archive
    entries: int = 200_000
    # formats inside each other
    depth: int = 6
    # bytes of a name
    name_bytes: int = 4096
    # bytes of a header that gives a name, an attribute or a map of holes
    header_bytes: int = 1 << 20
    # compressed streams one after the other in one file
    members: int = 10_000_000
    # time for one file on disk
    seconds: int = 6 * 3600
    # bytes of a pipe, a command's output or a download, all together
    spool_bytes: int = 64 << 30
    # how long a pipe may be without anybody who writes
    pipe_seconds: int = 60


DEFAULT_LIMITS = Limits()
LIMIT_NAMES = tuple(one.name for one in fields(Limits))
_VALUE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_limits(words: Iterable[str]) -> Limits:
    """Read limits as people write them.

    >>> parse_limits(["entries=5", "spool_bytes=2G"]).spool_bytes
    2147483648
    """
    limits = DEFAULT_LIMITS
    for word in words:
        name, _, value = word.partition("=")
        name = name.strip().replace("-", "_")
        if name not in LIMIT_NAMES:
            known = ", ".join(LIMIT_NAMES)
            hint = did_you_mean(name, LIMIT_NAMES)
            raise ForensicsError(f"{name!r} is no limit{hint}; these are: {known}")
        found = _VALUE.fullmatch(value.strip())
        if not found:
            raise ForensicsError(f"limit {name}: {value!r} is no number; write it as 500 or 2G")
        number = int(found[1]) << _UNITS[found[2].lower()]
        if not 0 < number < 1 << 62:
            raise ForensicsError(f"limit {name}: {value} is out of range")
        changes: dict[str, Any] = {name: number}
        limits = replace(limits, **changes)
    return limits
