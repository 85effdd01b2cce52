"""Which process a file comes from: what its lines say first, then its neighbours, then its name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from forensics.entries.writers import ROLES
from forensics.events.accounting import FileAccount

__all__ = ["assign"]

_NAMED = re.compile(r"(?P<role>broker|controller|kafka)[-_.]?(?P<id>\d+)", re.IGNORECASE)


def assign(files: Mapping[str, FileAccount]) -> None:
    """Give every file its node and role.

    A process that is broker and controller at once, with one folder for both, is one node.
    A broker is named by its id. Controllers and clients are named by their folder where it is
    theirs alone, since people know them by it, and several clients may share one client id.
    """
    writers = {name: _writer(one) for name, one in files.items()}
    folders: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, writer in writers.items():
        if writer:
            folders[_folder(name)].add(writer)
    writers |= {
        name: ("broker", writer[1])
        for name, writer in writers.items()
        if writer and ("broker", writer[1]) in folders[_folder(name)]
    }
    for folder, tenants in folders.items():
        folders[folder] = {one for one in tenants if ("broker", one[1]) not in tenants - {one}}
    for name, one in files.items():
        tenants = folders[_folder(name)]
        writer = writers[name] or (next(iter(tenants)) if len(tenants) == 1 else None)
        one.role, one.node = _named(name, writer, alone=len(tenants) == 1)


def _writer(one: FileAccount) -> tuple[str, str] | None:
    """Find who wrote a file: the first role that its lines name, and the id they name most."""
    for role in ROLES:
        named = {key: n for key, n in one.writers.items() if key.startswith(role + ":")}
        if named:
            best = min(named, key=lambda key: (-named[key], key))
            return role, best.partition(":")[2]
    return ("client", "") if "librdkafka" in one.layouts else None


def _named(name: str, writer: tuple[str, str] | None, *, alone: bool) -> tuple[str | None, str]:
    folder = _folder(name).rpartition("/")[2].rpartition("!")[2]
    if writer is None:
        found = _NAMED.search(name.rpartition("!")[2])
        if not found:
            return None, f"file:{name}"
        role = "controller" if found["role"].lower() == "controller" else "broker"
        return role, f"{role}-{int(found['id'])}"
    role, identity = writer
    if role == "controller" and alone and "controller" in folder.lower():
        return role, folder
    if role == "client":
        # The top of an archive says nothing about one client; a folder inside it does.
        inside = name.rpartition("!")[2] if "!" in name else name.partition("/")[2]
        own = alone and "/" in inside
        stem = name.rpartition("/")[2].partition(".")[0]
        return role, folder if own else identity.rstrip(",") or stem
    return role, f"{role}-{identity}"


def _folder(name: str) -> str:
    head, _, _ = name.rpartition("/")
    return head or name.rpartition("!")[0]
