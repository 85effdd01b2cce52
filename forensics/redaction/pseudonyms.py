"""Pseudonyms that are the same in all runs with the same map, and cannot be guessed.

A pseudonym is a keyed digest of a name. The private map holds the key, and the names by pseudonym:
its owner can find every name again, nobody else can even try names out.
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
from forensics.lib.storage import write_atomically

CLASSES = ("hosts", "ips", "clients", "topics", "principals")
# Ids of findings are digests of names; folders and files may have any name.
_PREFIXES = {
    "hosts": "host-", "ips": "ip-", "clients": "client-", "topics": "topic-",
    "principals": "principal-", "paths": "path-", "findings": "F-", "chains": "C-",
}  # fmt: skip
_MIN_DIGITS = 8


def default_map_path(out: Path) -> Path:
    """Return the default path of the map: beside the folder of the run, never inside it."""
    folder = out.absolute()
    return folder.with_name(f"{folder.name}.redaction-map.json")


class Pseudonyms:
    """Makes pseudonyms, and remembers them."""

    def __init__(self, key: bytes, names: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Start with a key, and the pseudonyms of earlier runs by class and name."""
        self._key = key
        self._names = {kind: dict((names or {}).get(kind, {})) for kind in _PREFIXES}
        self._used = {used for known in self._names.values() for used in known.values()}

    @classmethod
    def open(cls, path: Path) -> Pseudonyms:
        """Read a map, or create a new one that only its owner can read."""
        with _locked(path):
            if not path.exists():
                _write(path, secrets.token_bytes(32), {})
            path.chmod(0o600)
            return cls(*_read(path))

    def get(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name; a pseudonym stays as it is."""
        if name in self._used:
            return name
        known = self._names[kind]
        if name not in known:
            text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
            digest = hmac.new(self._key, text, "sha256").hexdigest()
            # Take more digits if the pseudonym is used: two names must not become one.
            sizes = range(_MIN_DIGITS, len(digest) + 1)
            candidates = (f"{_PREFIXES[kind]}{digest[:size]}" for size in sizes)
            known[name] = next(each for each in candidates if each not in self._used)
            self._used.add(known[name])
        return known[name]

    def is_pseudonym(self, name: str) -> bool:
        """Return True if a name is a pseudonym of this map."""
        return name in self._used

    @property
    def names(self) -> Mapping[str, Mapping[str, str]]:
        """The pseudonyms by class and name."""
        return self._names

    def save(self, path: Path) -> None:
        """Write the map whole or not at all, with what other runs have added meanwhile."""
        with _locked(path):
            _, names = _read(path)
            merged = {kind: self._names[kind] | names.get(kind, {}) for kind in _PREFIXES}
            _write(path, self._key, merged)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the map against other processes."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read(path: Path) -> tuple[bytes, dict[str, dict[str, str]]]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        key, names = bytes.fromhex(document["key"]), document["names"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path} is no map of a redaction; name another file with --map, or none."
        raise ForensicsError(message) from error
    return key, {str(kind): dict(known) for kind, known in names.items()}


def _write(path: Path, key: bytes, names: Mapping[str, Mapping[str, str]]) -> None:
    document = {
        "schema": 1,
        "about": "PRIVATE: leads pseudonyms back to names. The same map gives the same pseudonyms.",
        "key": key.hex(),
        "names": {kind: dict(sorted(known.items())) for kind, known in sorted(names.items())},
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with write_atomically(path) as partial, open(os.open(partial, flags, 0o600), "wb") as file:
        # Names may hold halves of surrogate pairs, which ASCII with escapes preserves.
        file.write(json.dumps(document, indent=1).encode("ascii") + b"\n")
        file.flush()
        os.fsync(file.fileno())
