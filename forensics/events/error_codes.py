"""Maps every spelling of an error in logs to the name that Kafka gives it today.

The spellings stand in rules/errors.yaml. They are compared without blanks and punctuation, so
that `NOT_LEADER_OR_FOLLOWER`, `NotLeaderOrFollowerException` and `not leader or follower` are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from forensics.errors import Problem, RuleError
from forensics.lib.yaml_with_lines import line_of, load_yaml, rule_files

# Errors of an idempotent producer whose batch before is not known to the broker.
SEQUENCE_ERRORS = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID")

_KEYS = {"name", "code", "retriable", "metadata", "says"}

_NOISE = re.compile(r"[\s_.,:;!?'\"()\[\]{}<>/-]+")
_SUFFIX = re.compile(r"(?:exception|error)$")
_PACKAGE = re.compile(r"^(?:[\w$]+\.)+(?=[A-Za-z_])")
# A word that can only be a name: with an underscore, or with the ending of an error's name.
_NAME = re.compile(
    r"^(?:[\w$]+\.)*([A-Z]+(?:_[A-Z0-9]+)+|\w+(?:Exception|Error))(?![^\s.,:;()\[\]{}])"
)
_NUMBERED = re.compile(r"^\[(?:Error )?(-?[0-9]{1,3})\] (.*)", re.DOTALL)
_WRAPPED = (
    re.compile(r"^(?:Some|Optional)[(\[](.*)[)\]]$", re.DOTALL),
    re.compile(r"^<class '([\w.]+)'>$"),
    re.compile(r"^KafkaError\{code=(\w+),.*\}$", re.DOTALL),
)
_AROUND = " \t\r\n'\"`.,;:"
_PIECES = 8


@dataclass(frozen=True)
class ErrorNames:
    """The known errors by spelling and by number, and whether a retry may help."""

    names: Mapping[str, str]
    codes: Mapping[int, str]
    retriable: Mapping[str, bool | None]

    def canonical_name(self, written: str) -> str:
        """Return today's name of an error; an unknown one stays as it is written.

        >>> load_error_names().canonical_name("[Error 16] NotCoordinatorForGroupError.")
        'NOT_COORDINATOR'
        >>> load_error_names().canonical_name("java.net.ConnectException: Connection refused ")
        'java.net.ConnectException: Connection refused'
        """
        bare = _unwrap(written)
        found = self.names.get(_spelling_key(bare)) or self._within(bare)
        if found is None and (numbered := _NUMBERED.match(bare)):
            rest = _unwrap(numbered[2])
            found = self.names.get(_spelling_key(rest)) or self._within(rest)
            found = found or self.codes.get(int(numbered[1]))
        return found or written.strip()

    def _within(self, text: str) -> str | None:
        """Find an error inside a text: the first one or two pieces between colons that name one."""
        pieces = text.split(": ", _PIECES)
        for start in range(len(pieces)):
            for end in (start + 2, start + 1):
                part = _unwrap(": ".join(pieces[start:end]))
                name = _NAME.match(part)
                # One plain word is too little: "unknown" and "none" stand in many sentences.
                if " " in part or name:
                    found = self.names.get(_spelling_key(part))
                    found = found or (self.names.get(_spelling_key(name[1])) if name else None)
                    if found:
                        return found
        return None


def canonical_errors(raw: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return today's names of some errors, and whether Kafka retries them, null where unknown.

    >>> names, retriable = canonical_errors(pa.array(["NotLeaderForPartition", "bad luck", None]))
    >>> names.to_pylist(), retriable.to_pylist()
    (['NOT_LEADER_OR_FOLLOWER', 'bad luck', None], [True, None, None])
    """
    known = load_error_names()
    encoded = raw.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    names = [None if error is None else known.canonical_name(error) for error in distinct]
    retriable = [None if name is None else known.retriable.get(name) for name in names]
    return (
        pa.array(names, pa.string()).take(encoded.indices),
        pa.array(retriable, pa.bool_()).take(encoded.indices),
    )


@cache
def load_error_names(path: Path | None = None) -> ErrorNames:
    """Read rules/errors.yaml; a spelling of two errors is an error itself."""
    path = path or next(file for file in rule_files(".") if file.name == "errors.yaml")
    names: dict[str, str] = {}
    codes: dict[int, str] = {}
    retriable: dict[str, bool | None] = {}
    problems = []
    for node in load_yaml(path)["errors"]:
        name = str(node.get("name"))
        faults = list(_find_faults(node, codes))
        retriable[name] = node.get("retriable")
        if "code" in node:
            codes[node["code"]] = name
        for key in map(_spelling_key, (name, *node.get("says", ()))):
            if not key:
                faults.append(f"{name}: no letters")
            elif names.setdefault(key, name) != name:
                faults.append(f"{name} has a spelling of {names[key]}")
        problems += [Problem(str(path), line_of(node), fault) for fault in faults]
    if problems:
        raise RuleError(problems)
    return ErrorNames(names, codes, retriable)


def _find_faults(node: Mapping[str, Any], codes: Mapping[int, str]) -> Iterator[str]:
    if not isinstance(node.get("name"), str):
        yield "an error needs a name"
    if unknown := sorted(set(node) - _KEYS):
        yield f"an error has the unknown key {unknown[0]!r}"
    if node.get("code") in codes:
        yield f"{node['code']} is the code of {codes[node['code']]} already"


def _spelling_key(text: str) -> str:
    """Reduce a spelling to its letters; librdkafka's own errors keep their underscore.

    >>> [_spelling_key(name) for name in ("org.kafka.InvalidTopicException", "Local_TimedOut")]
    ['invalidtopic', '_timedout']
    """
    text = _PACKAGE.sub("", text).replace("Local_", "_", 1)
    mark = "_" if text.startswith("_") else ""
    return mark + _SUFFIX.sub("", _NOISE.sub("", text.lower()))


def _unwrap(text: str) -> str:
    """Strip quotes and wrappers around an error.

    >>> _unwrap("Some(<class 'kafka.errors.NodeNotReadyError'>).")
    'kafka.errors.NodeNotReadyError'
    """
    text = text.strip(_AROUND)
    for wrapped in _WRAPPED:
        if inner := wrapped.match(text):
            return _unwrap(inner[1])
    return text
