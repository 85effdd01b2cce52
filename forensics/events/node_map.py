"""What the user says of who wrote a file: `PATTERN=NODE`, which goes before all that lines say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from forensics.errors import ForensicsError
from forensics.events.writers import name_origin

_NODE = re.compile(r"[\w.@-]+")


class MappedNode(NamedTuple):
    """A pattern of file names or origins, and the node that wrote what it matches."""

    pattern: str
    node: str

    def matches_file(self, file: str) -> bool:
        """Return True if the pattern fits a file: its whole name, or what follows a folder.

        >>> MappedNode("host-7/*", "broker-3").matches_file("logs.tgz!var/host-7/server.log")
        True
        >>> MappedNode("server*.log", "broker-3").matches_file("observer.log")
        False
        """
        tails = [file, *(file[at.end() :] for at in re.finditer(r"[/!]", file))]
        return any(fnmatchcase(tail, self.pattern) for tail in tails)

    def matches_origin(self, origin: str) -> bool:
        """Return True if the pattern fits what stands before lines: a pod or a container."""
        return bool(origin) and any(
            fnmatchcase(name, self.pattern) for name in (origin, name_origin(origin))
        )


NodeMap = Sequence[MappedNode]


def parse_node_map(texts: Iterable[str]) -> tuple[MappedNode, ...]:
    """Read what was given as PATTERN=NODE.

    >>> parse_node_map(["*/host-7/*=broker-3"])
    (MappedNode(pattern='*/host-7/*', node='broker-3'),)
    """
    found = []
    for text in texts:
        pattern, separator, node = text.rpartition("=")
        if not separator or not pattern or not _NODE.fullmatch(node):
            raise ForensicsError(
                f"--map {text}: PATTERN=NODE is expected, such as '*/host-7/*=broker-3': a pattern"
                " of file names (or of pods and containers), and broker-ID, controller-ID or the"
                " name of a client."
            )
        kind, _, identity = node.partition("-")
        if kind == "broker" and not identity.isdigit():
            raise ForensicsError(f"--map {text}: a broker has a number, such as broker-3.")
        found.append(MappedNode(pattern, node))
    return tuple(found)


def find_mapped_node(file: str, node_map: NodeMap) -> str | None:
    """Return the node of the first pattern that fits a file."""
    return next((one.node for one in node_map if one.matches_file(file)), None)


def map_origins(origins: Iterable[str], node_map: NodeMap) -> dict[str, str]:
    """Return the node of each origin that a pattern fits."""
    found = {
        origin: next((one.node for one in node_map if one.matches_origin(origin)), None)
        for origin in origins
    }
    return {origin: node for origin, node in found.items() if node is not None}


def find_unused(files: Iterable[tuple[str, Iterable[str]]], node_map: NodeMap) -> list[str]:
    """Return the patterns that fit nothing; `files` are names and the origins in them."""
    unused = list(node_map)
    for file, origins in files if unused else ():
        unused = [
            one
            for one in unused
            if not one.matches_file(file) and not any(map(one.matches_origin, origins))
        ]
    return [one.pattern for one in unused]
