"""What findings.json says of the gate, and what becomes of the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forensics.quality.gate import Check, Gate
from forensics.quality.given import Given

__all__ = ["told"]


def told(document: Mapping[str, Any], gate: Gate, given: Given) -> dict[str, Any]:
    """Give the document of a run with its gate: what is not sure is not called clear."""
    found = dict(document) | {"quality": _section(gate)}
    closed = gate.closed
    if closed:
        more = "; what was found stands below, with less confidence" if found["findings"] else ""
        found["verdict"] = "cannot_tell"
        found["summary"] = f"The quality gate is closed: {closed[0]}{more}."
    elif found["verdict"] == "clear":
        for check in gate.failed("downgrade"):
            if _counts(check, given):
                found["verdict"] = "cannot_tell"
                found["summary"] = f"Nothing was found, but that is not sure: {check.says}."
                break
    return found


def _counts(check: Check, given: Given) -> bool:
    """Whether what failed may hide something: what only clients write is no proof of quiet."""
    if check.about == "nodes":
        mine = [one for one in given.files if one.node in check.names]
    elif check.about == "files" and check.names:
        mine = [given.accounts[name] for name in check.names if name in given.accounts]
    else:
        return True
    return any(one.role in ("broker", "controller") for one in mine)


def _section(gate: Gate) -> dict[str, Any]:
    rows = [one.row() for one in gate.failed()]
    names = ("check", "table", "words", "observed", "consequence", "otherwise", "severity",
             "findings")  # fmt: skip
    return {
        "gate": "closed" if gate.closed else "open",
        "closed": gate.closed,
        "checks": len(gate.checks),
        "failed": [{name: row[name] for name in names} for row in rows],
    }
