"""Pseudonyms that are the same in every run with the same map, and that nobody can guess.

A pseudonym is a keyed digest of a name. The key stands in the private map, beside what was given
for what: who has the map can lead everything back, who has not cannot even try names out.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forensics.errors import ForensicsError

CLASSES = ("hosts", "ips", "clients", "topics", "principals")
# What a pseudonym begins with. Findings have ids made of names; folders and files are named freely.
_PREFIXES = {
    "hosts": "host-", "ips": "ip-", "clients": "client-", "topics": "topic-",
    "principals": "principal-", "paths": "path-", "findings": "F-", "chains": "C-",
}  # fmt: skip
_DIGITS = 8


def default_map_path(out: Path) -> Path:
    """Say where the map is that nobody named: beside the folder of the run, never inside it."""
    whole = out.absolute()
    return whole.with_name(f"{whole.name}.redaction-map.json")


class Pseudonyms:
    """Gives pseudonyms, and remembers them."""

    def __init__(self, key: bytes, names: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Take the key, and what was given before."""
        self._key = key
        self._names = {kind: dict((names or {}).get(kind, {})) for kind in _PREFIXES}
        self._given = {one for known in self._names.values() for one in known.values()}

    @classmethod
    def open(cls, path: Path) -> Pseudonyms:
        """Read a map, or begin a new one, which only its owner can read."""
        with _alone(path):
            if not path.exists():
                _write(path, secrets.token_bytes(32), {})
            path.chmod(0o600)
            return cls(*_read(path))

    def get(self, kind: str, name: str) -> str:
        """Give the pseudonym of a name; a pseudonym stays what it is."""
        if name in self._given:
            return name
        known = self._names[kind]
        if name not in known:
            text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
            digest = hmac.new(self._key, text, "sha256").hexdigest()
            # Longer where a shorter one is taken: two names must stay two.
            sizes = range(_DIGITS, len(digest) + 1)
            tries = (f"{_PREFIXES[kind]}{digest[:size]}" for size in sizes)
            known[name] = next(one for one in tries if one not in self._given)
            self._given.add(known[name])
        return known[name]

    def is_pseudonym(self, name: str) -> bool:
        """Whether a name is a pseudonym of this map."""
        return name in self._given

    @property
    def names(self) -> Mapping[str, Mapping[str, str]]:
        """What was given for what."""
        return self._names

    def save(self, path: Path) -> None:
        """Write the map, whole or not at all, with what others have added meanwhile."""
        with _alone(path):
            _, names = _read(path)
            both = {kind: self._names[kind] | names.get(kind, {}) for kind in _PREFIXES}
            _write(path, self._key, both)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let nobody else change the map meanwhile."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read(path: Path) -> tuple[bytes, dict[str, dict[str, str]]]:
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        key, names = bytes.fromhex(told["key"]), told["names"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path} is no map of a redaction; name another file with --map, or none."
        raise ForensicsError(message) from error
    return key, {str(kind): dict(known) for kind, known in names.items()}


def _write(path: Path, key: bytes, names: Mapping[str, Mapping[str, str]]) -> None:
    told = {
        "schema": 1,
        "about": "PRIVATE: leads pseudonyms back to names. The same map gives the same pseudonyms.",
        "key": key.hex(),
        "names": {kind: dict(sorted(known.items())) for kind, known in sorted(names.items())},
    }
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        # Names may hold halves of surrogate pairs: escaped, they come back as they were.
        file.write(json.dumps(told, indent=1).encode("ascii") + b"\n")
        os.fsync(file.fileno())
    half.replace(path)
