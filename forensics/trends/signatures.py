"""Names what a finding is about without its time: the same trouble has one name in every week."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.report.saved import Finding

__all__ = ["SIZES", "WHOLE", "signature", "size", "topics_of"]

# Of more names than this only the first stand there, and a digest of all of them.
NAMES = 4
LETTERS = 120
WHOLE = "cluster"
# By what two findings of one detector are compared; of others each finding counts one.
SIZES = {
    "broker-restart": "away_s",
    "controller-churn": "changes",
    "flapping-broker": "cycles",
    "isr-storm": "shrinks",
    "long-pause": "pauses",
    "offline-partitions": "partition_seconds",
    "rebalance-storm": "rebalances",
    "stale-metadata": "errors",
}


def signature(finding: Finding) -> str:
    """Say the detector, and which brokers, else which clients, else which topics.

    >>> signature(Finding("F-1", "flapping-broker", "high", "likely", "", 0, 1, (3, 2)))
    'flapping-broker: brokers 2, 3'
    """
    topics = topics_of(finding.partitions)
    if finding.brokers:
        names = [str(one) for one in sorted(finding.brokers)]
        subject = _named("broker", names)
    elif finding.clients:
        subject = _named("client", sorted(finding.clients))
    else:
        subject = _named("topic", topics) if topics else WHOLE
    return f"{finding.detector}: {subject}"


def topics_of(partitions: Sequence[str]) -> list[str]:
    """Give the topics of some partitions.

    >>> topics_of(["orders-v2-1", "orders-v2-0"])
    ['orders-v2']
    """
    return sorted({name.rpartition("-")[0] for name in partitions})


def size(finding: Finding) -> float:
    """Give how large a finding is, in the measure of its detector."""
    return _number(finding.measures, SIZES.get(finding.detector, ""))


def _number(measures: Mapping[str, Any], name: str) -> float:
    value = measures.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and value is not None else 1.0


def _named(noun: str, names: Sequence[str]) -> str:
    word = noun if len(names) == 1 else f"{noun}s"
    text = ", ".join(names[:NAMES])
    if len(names) <= NAMES and len(text) <= LETTERS:
        return f"{word} {text}"
    # Which ones they all are matters, and not only how many.
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:6]
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{word} {text[:LETTERS]}{more} #{digest}"
