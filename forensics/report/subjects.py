"""What a finding is about, in a few words."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.report.saved import Finding
from forensics.report.words import count, listed, named

__all__ = ["happened", "headline", "scope"]

# Most detectors speak of partitions where they name any; these of a process, or of who talks to it.
NODES = frozenset({
    "broker-restart", "clock-skew", "disk-failure", "fencing-loop", "flapping-broker",
    "long-pause", "metadata-version-loop", "session-expiry", "slow-controller",
    "unclean-shutdown-recovery",
})  # fmt: skip
CLIENTS = frozenset({
    "client-disconnects", "offset-reset", "producer-fatal", "rebalance-storm", "record-too-large",
    "stale-metadata", "unreachable-listener",
})  # fmt: skip
# What holds all the while and does not happen: it neither begins nor ends an incident.
STANDING = frozenset({"clock-skew", "config-risk", "contradiction"})
FEW = 3
RESTARTS = {"crash": "Crash", "controlled": "Planned restart"}


def happened(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what is only a state of things, unless there is nothing else."""
    return [one for one in findings if one.detector not in STANDING] or list(findings)


def headline(finding: Finding) -> str:
    """Say what a finding found, in two words."""
    if finding.detector == "broker-restart":
        return RESTARTS.get(str(finding.measures.get("kind")), "Restart")
    return named(finding.detector)


def scope(finding: Finding) -> str:
    """Say what a finding is about: what its detector speaks of first, or else what it names."""
    found = {
        "partitions": _partitions(finding.partitions),
        "brokers": _brokers(finding),
        "clients": listed(list(finding.clients)),
    }
    order = ["partitions", "brokers", "clients"]
    if finding.detector in NODES:
        order = ["brokers", "partitions", "clients"]
    if finding.detector in CLIENTS:
        order = ["clients", "partitions", "brokers"]
    return next((found[name] for name in order if found[name]), "the cluster")


def _partitions(names: tuple[str, ...]) -> str:
    if len(names) <= FEW:
        return ", ".join(names)
    topics = sorted({name.rpartition("-")[0] for name in names})
    return f"{count(len(names), 'partition')} of {listed(topics)}"


def _brokers(finding: Finding) -> str:
    node = finding.measures.get("node")
    if not finding.brokers:
        return str(node) if isinstance(node, str) else ""
    word = "broker" if len(finding.brokers) == 1 else "brokers"
    return f"{word} {listed([str(broker) for broker in finding.brokers], 6)}"
