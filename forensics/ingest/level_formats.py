"""The ways in which levels are written in logs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

# What is written where a record names no level.
NO_LEVEL = b"-"
_WORDS = {
    "TRACE": "TRACE", "FINEST": "TRACE", "FINER": "TRACE", "DEBUG": "DEBUG", "FINE": "DEBUG",
    "INFO": "INFO", "INFORMATION": "INFO", "INFORMATIONAL": "INFO", "NOTICE": "INFO",
    "WARN": "WARN", "WARNING": "WARN", "ERROR": "ERROR", "ERR": "ERROR", "SEVERE": "ERROR",
    "FATAL": "FATAL", "CRITICAL": "FATAL", "CRIT": "FATAL", "EMERG": "FATAL", "ALERT": "FATAL",
    "T": "TRACE", "V": "TRACE", "D": "DEBUG", "I": "INFO", "W": "WARN", "E": "ERROR", "F": "FATAL",
    "C": "FATAL", "DBUG": "DEBUG", "TRCE": "TRACE",
}  # fmt: skip
_UPPER = "|".join(sorted((word for word in _WORDS if len(word) > 1), key=len, reverse=True))
LEVEL = rf"(?:(?i:{_UPPER})|[TVDIWEFC])"
_FINDER = re.compile(
    rf"(?<![A-Za-z0-9_.$/-])(?:{_UPPER}|{_UPPER.lower()}|{_UPPER.title()})(?![A-Za-z0-9_.$-])"
    rf"|(?<=[A-Za-z]\.)(?:{_UPPER})(?=:)"
    r"|(?:^|(?<=[\s\[|<(]))[TVDIWEFC](?=[\s\]|>):/]|[0-9]{4}(?:[0-9]{4})?[ T-][0-9]{2}:)"
)


def find_levels(line: str) -> Iterator[tuple[int, int]]:
    """Find what may be levels, from left to right.

    >>> list(find_levels("[main] WARN  x"))
    [(7, 11)]
    """
    for match in _FINDER.finditer(line):
        yield match.start(), match.end()


def write_levels(levels: pa.Array) -> pa.Array:
    """Write levels as Kafka does; NO_LEVEL where there is none."""
    codes = pc.fill_null(levels, b"").dictionary_encode()
    names = [
        _WORDS.get(name.decode("utf-8", "replace").upper(), "").encode() or name or NO_LEVEL
        for name in codes.dictionary.to_pylist()
    ]
    return pa.array(names, pa.binary()).take(codes.indices)


def is_level(name: bytes) -> bool:
    """Return True if a name is the word for a level, in any case.

    >>> is_level(b"Info"), is_level(b"c")
    (True, False)
    """
    return len(name) > 1 and name.decode("utf-8", "replace").upper() in _WORDS
