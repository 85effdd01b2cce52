"""Reads YAML and JSON that came with logs: as a tree that knows its lines, however it breaks off.

Nothing in such a file is trusted: references to other nodes are not followed, and what lies too
deep, or is too much, is left out with all that follows. JSON is read as YAML, which contains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 60
# Some 100 MB of memory.
_MAX_NODES = 500_000
# JSON may write a slash with an escape that YAML does not know.
_ESCAPED_SLASH = (b"\\/", b"/")


class Node:
    """One value: its line, and a text, items, or entries."""

    __slots__ = ("entries", "items", "line", "text")

    def __init__(self, line: int, text: str | None = None) -> None:
        """Make a text, or what gets items or entries."""
        self.line, self.text = line, text
        # Most nodes are texts: these two are shared, and never changed.
        self.items, self.entries = _NO_ITEMS, _NO_ENTRIES

    def at(self, *path: str) -> Node | None:
        """Return what lies below some keys, if it is there.

        >>> tree = next(read_documents(b'{"a": {"b": "x"}}'))
        >>> tree.at("a", "b").text, tree.at("a", "c")
        ('x', None)
        """
        node: Node | None = self
        for key in path:
            node = node.entries.get(key) if node else None
        return node

    def get(self, *path: str) -> str:
        """Return the text below some keys, or an empty one."""
        node = self.at(*path)
        return node.text or "" if node else ""

    def each(self, *path: str) -> list[Node]:
        """Return the items of the list below some keys."""
        node = self.at(*path)
        return node.items if node else []

    def to_plain(self) -> Any:
        """Return the texts, in lists and dictionaries."""
        if self.text is not None:
            return self.text
        if self.items:
            return [one.to_plain() for one in self.items]
        return {key: one.to_plain() for key, one in self.entries.items()}

    def line_of(self, *path: str) -> int:
        """Return the line of the last of some keys that is there."""
        found: Node = self
        for key in path:
            found = found.entries.get(key, found)
        return found.line


_NO_ITEMS: list[Node] = []
_NO_ENTRIES: dict[str, Node] = {}


def read_documents(data: bytes) -> Iterator[Node]:
    r"""Yield the documents in a file; of one that breaks off, what stands before the break.

    >>> [tree.get("kind") for tree in read_documents(b"kind: Pod\n---\nkind: [Event\n")]
    ['Pod', '']
    """
    source = data.replace(*_ESCAPED_SLASH) if data.lstrip()[:1] in (b"{", b"[") else data
    builder = _Builder()
    try:
        for event in yaml.parse(source.decode("utf-8", "replace"), Loader=_LOADER):
            if builder.take(event):
                yield builder.release()
            if builder.count > _MAX_NODES or builder.depth > _MAX_DEPTH:
                break
    except (yaml.YAMLError, RecursionError, ValueError):
        pass
    if builder.root is not None:
        yield builder.release()


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


class _Builder:
    """Builds a tree out of the parser's events."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.count = 0
        self._open: list[tuple[Node, bool]] = []
        self._keys: list[str | None] = []

    @property
    def depth(self) -> int:
        """How many mappings and lists are open."""
        return len(self._open)

    def take(self, event: yaml.Event) -> bool:
        """Take one event; return True if a document ends with it."""
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            node = Node(_line(event))
            if is_mapping:
                node.entries = {}
            else:
                node.items = []
            self._place(node)
            self._open.append((node, is_mapping))
            self._keys.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
            self._keys.pop()
        elif isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._place(Node(_line(event)))
        return isinstance(event, yaml.DocumentEndEvent) and self.root is not None

    def release(self) -> Node:
        """Hand over what was built."""
        root = self.root or Node(1)
        self.root, self._open, self._keys = None, [], []
        return root

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        if self._open and self._open[-1][1] and self._keys[-1] is None:
            self._keys[-1] = event.value
        else:
            self._place(Node(_line(event), event.value))

    def _place(self, node: Node) -> None:
        self.count += 1
        if not self._open:
            self.root = self.root or node
            return
        parent, is_mapping = self._open[-1]
        if not is_mapping:
            parent.items.append(node)
        else:
            # A mapping may be a key, too; no tool writes that.
            key, self._keys[-1] = self._keys[-1] or "", None
            parent.entries[key] = node
