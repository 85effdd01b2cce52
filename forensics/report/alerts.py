"""Which metric would have shown what a detector finds: read from rules/alerts.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from forensics.yamls import read, root

__all__ = ["alert", "known"]


def alert(detector: str) -> str:
    """Say which metric shows it and when to be told; empty: none that Kafka has.

    >>> alert("offline-partitions"), alert("truncation")
    ('OfflinePartitionsCount above 0', '')
    """
    one = known().get(detector)
    if not isinstance(one, Mapping):
        return ""
    # The name alone is what people search their dashboards for.
    return f"{one['metric'].rpartition('name=')[2]} {one['alert']}"


@cache
def known() -> Mapping[str, Any]:
    """Give what is known of each detector."""
    found: Mapping[str, Any] = read(root() / "alerts.yaml")["alerts"]
    return found
