"""Chains findings: what triggered an incident, how it spread, what came of it, how it ended.

A chain links only findings whose times touch within the uncertainty of the clocks and that a
mechanism of rules/chains.yaml connects. Where several things may have led to another, the others
are listed beside it; a link is called a cause only if the mechanism is certain, the order is known,
and nothing competes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forensics.detection.causality.links import (
    MOVE,
    CausalLink,
    ChainNode,
    allowed_sources,
    build_nodes,
    find_links,
    load_mechanisms,
    recovery_text,
)
from forensics.detection.context import DetectionContext
from forensics.detection.shared.leader_moves import MoveHistory
from forensics.lib.text_format import parse_millis
from forensics.lib.time_units import MILLISECOND, SECOND, to_iso
from forensics.run_output.findings import INCIDENT_SEVERITIES, Finding
from forensics.settings import SEVERITIES

# What is left out of the document is counted.
_MAX_CHAINS, _MAX_LINKS, _MAX_COMPETING = 20, 60, 20

Document = dict[str, Any]

_STALE = "stale-metadata"
_ABOUT_PARTITIONS = ("unclean-election", "offline-partitions", "reassignment")
# How far the move may be from what took the leader away: a session has to run out.
_NEAR = 30 * SECOND


def build_chains(context: DetectionContext, findings: Sequence[Finding]) -> list[Document]:
    """Return the chains that contain an incident, the worst first."""
    if not any(finding.severity in INCIDENT_SEVERITIES for finding in findings):
        return []
    nodes = build_nodes(context, findings, MoveHistory.read(context, findings))
    graph = _CausalGraph(nodes, list(find_links(context, nodes, load_mechanisms())))
    chains = [
        group
        for group in graph.connected_nodes()
        if len(group) > 1
        and any(SEVERITIES[node.severity] in INCIDENT_SEVERITIES for node in group)
    ]
    chains.sort(
        key=lambda group: (-max(node.severity for node in group), group[0].begin, group[0].id)
    )
    return [_document(graph, group) for group in chains[:_MAX_CHAINS]]


@dataclass
class _CausalGraph:
    """The links that were chosen, and those that compete with them."""

    nodes: Sequence[ChainNode]
    links: Sequence[CausalLink]
    chosen: list[CausalLink] = field(default_factory=list)
    competing: list[CausalLink] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose the cause of each interval of each node, in the order of time."""
        by_effect: dict[tuple[str, int], list[CausalLink]] = {}
        for link in self.links:
            by_effect.setdefault((link.target.id, link.end.begin), []).append(link)
        for node in self.nodes:
            for interval in node.intervals:
                self._choose(node.id, by_effect.get((node.id, interval.begin), ()))

    def _choose(self, target: str, links: Iterable[CausalLink]) -> None:
        acyclic = [link for link in links if target not in self._ancestors(link.source.id)]
        for joint in (False, True):
            best: dict[str, CausalLink] = {}
            for link in sorted(acyclic, key=lambda link: link.rank):
                if link.mechanism.joint is joint:
                    best.setdefault(link.source.id, link)
            # What led to another source has its place further up.
            above = {name for source in best for name in self._ancestors(source)}
            if best:
                above |= self._ancestors(target)
            near = [link for source, link in best.items() if source not in above]
            # Those that act jointly do not compete.
            most = len(near) if joint else 1
            self.chosen += near[:most]
            self.competing += near[most:]

    def _ancestors(self, name: str) -> set[str]:
        """Return what led to a node, directly or not."""
        found: set[str] = set()
        left = [name]
        while left:
            target = left.pop()
            sources = {link.source.id for link in self.chosen if link.target.id == target}
            left += sorted(sources - found)
            found |= sources
        return found

    def connected_nodes(self) -> list[list[ChainNode]]:
        """Return the nodes that are linked, each group in the order of time."""
        head = {node.id: node.id for node in self.nodes}
        for link in self.chosen:
            one, other = (_root(head, name) for name in (link.source.id, link.target.id))
            head[max(one, other)] = min(one, other)
        groups: dict[str, list[ChainNode]] = {}
        for node in self.nodes:
            groups.setdefault(_root(head, node.id), []).append(node)
        return list(groups.values())


def _root(head: dict[str, str], name: str) -> str:
    while head[name] != name:
        name = head[name]
    return name


def _document(graph: _CausalGraph, group: Sequence[ChainNode]) -> Document:
    names = {node.id for node in group}
    chosen = _without_repeats(link for link in graph.chosen if link.target.id in names)
    competing = _without_repeats(link for link in graph.competing if link.target.id in names)
    targets, sources = {link.target.id for link in chosen}, {link.source.id for link in chosen}
    roots = [node for node in group if node.id not in targets]
    contested = {(link.target.id, link.end.begin) for link in competing}
    links = [_trigger(node) for node in roots[:_MAX_LINKS]]
    for link in _worst(chosen, max(0, _MAX_LINKS - len(roots))):
        role = "propagation" if link.target.id in sources else "effect"
        sole = (link.target.id, link.end.begin) not in contested
        links.append({"role": role, **_link(link, sole=sole)})
    shown = {link["from"] for link in links} | {link["to"] for link in links}
    recoveries = _recoveries(node for node in group if node.id in shown)
    links += sorted(recoveries, key=lambda link: (link["at"], link["to"]))
    return {
        "id": "C-" + hashlib.sha256(repr([roots[0].id, sorted(names)]).encode()).hexdigest()[:8],
        "trigger": {**_source(roots[0]), "at": to_iso(roots[0].begin)},
        "findings": [node.id for node in group if node.detector != MOVE],
        "links": links,
        "links_left_out": max(0, len(chosen) + len(roots) - _MAX_LINKS),
        "competing": [
            {**_link(link, sole=False), "source": _source(link.source)}
            for link in competing[:_MAX_COMPETING]
        ],
        "competing_left_out": max(0, len(competing) - _MAX_COMPETING),
    }


def _worst(links: Sequence[CausalLink], limit: int) -> list[CausalLink]:
    """Keep so many links in the order of time; those to routine findings go first."""
    worst = sorted(links, key=lambda link: (-link.target.severity, link.end.begin, link.rank))
    return sorted(worst[:limit], key=lambda link: (link.end.begin, link.target.id, link.source.id))


def _without_repeats(links: Iterable[CausalLink]) -> list[CausalLink]:
    """Keep the first link between two nodes: a finding of many intervals repeats itself."""
    first: dict[tuple[str, str], CausalLink] = {}
    for link in sorted(links, key=lambda link: (link.end.begin, link.rank)):
        first.setdefault((link.source.id, link.target.id), link)
    return list(first.values())


def _source(node: ChainNode) -> Document:
    finding = None if node.detector == MOVE else node.id
    return {"finding": finding, "detector": node.detector, "title": node.title}


def _trigger(node: ChainNode) -> Document:
    line = node.intervals[0].line
    return {
        "role": "trigger",
        "from": None,
        "to": node.id,
        "at": to_iso(node.begin),
        "before_s": None,
        "doubt_s": None,
        "order": "told",
        "says": "",
        "cause": False,
        "mechanism": "",
        "title": node.title,
        "evidence": _quote([line] if line else []),
    }


def _link(link: CausalLink, *, sole: bool) -> Document:
    order, uncertainty = link.order, link.order.uncertainty
    return {
        "from": link.source.id,
        "to": link.target.id,
        "at": to_iso(link.end.begin),
        "before_s": round(order.before / SECOND, 3),
        "doubt_s": None if uncertainty is None else round(uncertainty / SECOND, 3),
        "order": "told" if order.is_known else "open",
        "says": order.description,
        "cause": sole and order.is_known and link.mechanism.certain,
        "mechanism": link.mechanism.description,
        "title": link.target.title,
        "evidence": _quote(link.evidence),
    }


def _recoveries(nodes: Iterable[ChainNode]) -> Iterable[Document]:
    """Yield what ended, where a line tells it."""
    for node in nodes:
        last = max(node.intervals, key=lambda interval: (interval.end, interval.begin))
        text = recovery_text(node.detector, last.brokers)
        if last.recovery is None or text is None:
            continue
        seconds = (last.end - last.begin) / SECOND
        yield {
            "role": "recovery",
            "from": node.id,
            "to": node.id,
            "at": to_iso(last.end),
            "before_s": round(seconds, 3),
            "doubt_s": None,
            "order": "told",
            "says": f"after {seconds:.1f} s",
            "cause": False,
            "mechanism": text,
            "title": node.title,
            "evidence": _quote([last.recovery]),
        }


def _quote(lines: Iterable[Mapping[str, Any]]) -> list[Document]:
    return [{name: line.get(name) for name in ("file", "line", "text", "rule")} for line in lines]


def explain_moves(findings: Sequence[Finding]) -> list[Finding]:
    """Add to each finding of stale metadata the id and title of the one that explains its move."""
    others = [finding for finding in findings if finding.detector != _STALE]
    return [
        _explain(finding, others) if finding.detector == _STALE else finding for finding in findings
    ]


def _explain(finding: Finding, others: Sequence[Finding]) -> Finding:
    source = _find_source(finding, others)
    if source is None:
        return finding
    text = f"{finding.explanation} Why the leaders moved: finding {source.id} ({source.title})."
    return replace(
        finding, explanation=text, measures={**finding.measures, "explained_by": source.id}
    )


def _find_source(finding: Finding, others: Sequence[Finding]) -> Finding | None:
    """Find it by the cause, and by the former leader or the partitions, not by time alone."""
    measures = finding.measures
    since = parse_millis(measures.get("led_since"))
    sources = list(allowed_sources(measures.get("cause")) or ())
    if since is None:
        return None
    moment = since * MILLISECOND
    former = set(measures.get("led_before", ()))
    fitting = [
        one
        for one in others
        if one.detector in sources
        and one.begin - _NEAR <= moment <= one.end + _NEAR
        and (
            set(finding.partitions) & set(one.partitions)
            if one.detector in _ABOUT_PARTITIONS
            else former & set(one.brokers)
        )
    ]
    return min(
        fitting,
        key=lambda one: (sources.index(one.detector), abs(one.begin - moment), one.id),
        default=None,
    )
