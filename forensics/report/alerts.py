"""Which metric would have shown what a detector finds: read from rules/alerts.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from forensics.yamls import read, root

__all__ = ["alert", "known"]


def alert(detector: str) -> str:
    """Say which metric shows it and when to be told; empty: none that Kafka has.

    >>> alert("truncation")
    ''
    """
    one = known().get(detector)
    return f"{one['metric']} {one['alert']}" if isinstance(one, Mapping) else ""


@cache
def known() -> Mapping[str, Any]:
    """Give what is known of each detector."""
    found: Mapping[str, Any] = read(root() / "alerts.yaml")["alerts"]
    return found
