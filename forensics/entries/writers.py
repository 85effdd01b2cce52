"""Who wrote a line: the process that its message names at its beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.patterns import compile_template
from forensics.yamls import read, shipped

__all__ = ["ROLES", "Writers"]

ROLES = ("broker", "controller", "client")


class Writers:
    """Counts, for each role and id, the lines that name it as their writer."""

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        """Take the templates of rules/nodes/writers.yaml, or others of the same shape."""
        if document is None:
            document = read(next(shipped("nodes")))
        self._patterns = [
            (role, compile_template(source).pattern)
            for role in ROLES
            for source in document.get(role, ())
        ]

    def count(self, messages: pa.Array, clients: pa.Array) -> dict[str, int]:
        """Count writers as `role:id`; `clients` are those that a layout names itself."""
        found = _counted("client", clients.drop_null())
        for role, pattern in self._patterns:
            if not len(messages):
                break
            fields = pc.extract_regex(messages, pattern)
            named = fields.is_valid()
            for key, count in _counted(role, fields.filter(named).field("id")).items():
                found[key] = found.get(key, 0) + count
            messages = messages.filter(pc.invert(named))
        return found


def _counted(role: str, ids: pa.Array) -> dict[str, int]:
    entries = ids.value_counts().to_pylist()
    return {f"{role}:{e['values'].decode('utf-8', 'replace')}": e["counts"] for e in entries}
