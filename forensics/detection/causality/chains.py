"""Cause chains: what triggered an incident, how it spread, what came of it, and how it ended.

A chain is made only of findings whose times touch within the doubt of the clocks, and that a
mechanism of rules/chains.yaml ties. Where more than one thing may have led to another, the others
are listed beside it; the word cause is used where the mechanism is certain, the order told, and
nothing competes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.detection.causality.links import (
    MOVE,
    CausalLink,
    ChainNode,
    Interval,
    build_nodes,
    find_links,
    load_mechanisms,
    recovery_text,
)
from forensics.detection.context import DetectionContext, Row
from forensics.detection.shared.leader_moves import MoveHistory
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import SEVERITIES, Finding

_INCIDENT = SEVERITIES.index("medium")
# Nobody reads more of them; what is left out is counted.
_CHAINS, _LINKS, _COMPETING = 20, 60, 20

Document = dict[str, Any]


def build_chains(context: DetectionContext, findings: Sequence[Finding]) -> list[Document]:
    """Give the chains that end in something worth the morning, the worst first."""
    if not any(SEVERITIES.index(finding.severity) >= _INCIDENT for finding in findings):
        return []
    known = build_nodes(context, findings, MoveHistory.read(context, findings))
    web = _CausalGraph(known, list(find_links(context, known, load_mechanisms())))
    found = [
        group
        for group in web.groups()
        if len(group) > 1 and any(knot.severity >= _INCIDENT for knot in group)
    ]
    worst = sorted(
        found,
        key=lambda group: (-max(knot.severity for knot in group), group[0].begin, group[0].id),
    )
    return [_document(web, group) for group in worst[:_CHAINS]]


@dataclass
class _CausalGraph:
    """The ties that were chosen, and those that compete with them."""

    known: Sequence[ChainNode]
    every: Sequence[CausalLink]
    chosen: list[CausalLink] = field(default_factory=list)
    rivals: list[CausalLink] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose for each stretch of each knot, in the order of time, what led to it."""
        at: dict[tuple[str, int], list[CausalLink]] = {}
        for tie in self.every:
            at.setdefault((tie.target.id, tie.end.begin), []).append(tie)
        for knot in self.known:
            for stretch in knot.intervals:
                self._choose(at.get((knot.id, stretch.begin), ()))

    def _choose(self, offered: Iterable[CausalLink]) -> None:
        fit = [tie for tie in offered if tie.target.id not in self._before(tie.source.id)]
        for joint in (False, True):
            mine = _best_of_each(tie for tie in fit if tie.mechanism.joint is joint)
            # What led to one of the others has its place further up.
            above = {name for tie in mine for name in self._before(tie.source.id)}
            above |= {name for tie in self.chosen if tie.target.id == _target(mine)
                      for name in self._before(tie.source.id) | {tie.source.id}}  # fmt: skip
            near = sorted((tie for tie in mine if tie.source.id not in above), key=_rank)
            self.chosen += near[:1]
            self.rivals += near[1:]

    def _before(self, name: str) -> set[str]:
        """Name what led to a knot, directly or not."""
        found: set[str] = set()
        left = [name]
        while left:
            one = left.pop()
            sources = {tie.source.id for tie in self.chosen if tie.target.id == one}
            left += sorted(sources - found)
            found |= sources
        return found

    def groups(self) -> list[list[ChainNode]]:
        """Give the knots that hang together, each group in the order of time."""
        head = {knot.id: knot.id for knot in self.known}
        for tie in self.chosen:
            one, other = (_root(head, name) for name in (tie.source.id, tie.target.id))
            head[max(one, other)] = min(one, other)
        found: dict[str, list[ChainNode]] = {}
        for knot in self.known:
            found.setdefault(_root(head, knot.id), []).append(knot)
        return list(found.values())


def _rank(tie: CausalLink) -> tuple[Any, ...]:
    return tie.rank


def _root(head: dict[str, str], name: str) -> str:
    while head[name] != name:
        name = head[name]
    return name


def _target(mine: Sequence[CausalLink]) -> str | None:
    return mine[0].target.id if mine else None


def _best_of_each(offered: Iterable[CausalLink]) -> list[CausalLink]:
    best: dict[str, CausalLink] = {}
    for tie in sorted(offered, key=_rank):
        best.setdefault(tie.source.id, tie)
    return list(best.values())


def _document(web: _CausalGraph, group: Sequence[ChainNode]) -> Document:
    names = {knot.id for knot in group}
    mine = _once(tie for tie in web.chosen if tie.target.id in names)
    rivals = _once(tie for tie in web.rivals if tie.target.id in names)
    told = {tie.target.id for tie in mine}
    roots = [knot for knot in group if knot.id not in told]
    sources = {tie.source.id for tie in mine}
    contested = {(tie.target.id, tie.end.begin) for tie in rivals}
    links = [_trigger(knot) for knot in roots[:_LINKS]]
    for tie in _worst(mine, max(0, _LINKS - len(roots))):
        role = "propagation" if tie.target.id in sources else "effect"
        sole = (tie.target.id, tie.end.begin) not in contested
        links.append({"role": role, **_link(tie, sole=sole)})
    shown = {link["from"] for link in links} | {link["to"] for link in links}
    over = _recoveries(knot for knot in group if knot.id in shown)
    links += sorted(over, key=lambda one: (one["at"], one["to"]))
    first = roots[0]
    return {
        "id": "C-" + hashlib.sha256(repr([first.id, sorted(names)]).encode()).hexdigest()[:8],
        "trigger": {**_named(first), "at": to_iso(first.begin)},
        "findings": [knot.id for knot in group if knot.detector != MOVE],
        "links": links,
        "links_left_out": max(0, len(mine) + len(roots) - _LINKS),
        "competing": [
            {**_link(tie, sole=False), "source": _named(tie.source)} for tie in rivals[:_COMPETING]
        ],
        "competing_left_out": max(0, len(rivals) - _COMPETING),
    }


def _worst(mine: Sequence[CausalLink], most: int) -> list[CausalLink]:
    """Keep so many ties in the order of time; what is routine is left out first."""
    worst = sorted(mine, key=lambda one: (-one.target.severity, one.end.begin, one.rank))[:most]
    return sorted(worst, key=lambda one: (one.end.begin, one.target.id, one.source.id))


def _once(offered: Iterable[CausalLink]) -> list[CausalLink]:
    """Keep the first tie between two knots: a finding of many stretches repeats itself."""
    found: dict[tuple[str, str], CausalLink] = {}
    for tie in sorted(offered, key=lambda one: (one.end.begin, one.rank)):
        found.setdefault((tie.source.id, tie.target.id), tie)
    return list(found.values())


def _named(knot: ChainNode) -> Document:
    return {
        "finding": None if knot.detector == MOVE else knot.id,
        "detector": knot.detector,
        "title": knot.title,
    }


def _trigger(knot: ChainNode) -> Document:
    place = knot.intervals[0].line
    return {
        "role": "trigger",
        "from": None,
        "to": knot.id,
        "at": to_iso(knot.begin),
        "before_s": None,
        "doubt_s": None,
        "order": "told",
        "says": "",
        "cause": False,
        "mechanism": "",
        "title": knot.title,
        "evidence": _quoted([place] if place else []),
    }


def _link(tie: CausalLink, *, sole: bool) -> Document:
    order, doubt = tie.order, tie.order.uncertainty
    return {
        "from": tie.source.id,
        "to": tie.target.id,
        "at": to_iso(tie.end.begin),
        "before_s": round(order.before / SECOND, 3),
        "doubt_s": None if doubt is None else round(doubt / SECOND, 3),
        "order": "told" if order.is_known else "open",
        "says": order.description,
        "cause": sole and order.is_known and tie.mechanism.certain,
        "mechanism": tie.mechanism.description,
        "title": tie.target.title,
        "evidence": _quoted(tie.evidence),
    }


def _recoveries(group: Iterable[ChainNode]) -> Iterable[Document]:
    """Say what ended, where a line tells it."""
    for knot in group:
        last: Interval = max(knot.intervals, key=lambda one: (one.end, one.begin))
        says = recovery_text(knot.detector)
        if last.recovery is None or says is None:
            continue
        yield {
            "role": "recovery",
            "from": knot.id,
            "to": knot.id,
            "at": to_iso(last.end),
            "before_s": round((last.end - last.begin) / SECOND, 3),
            "doubt_s": None,
            "order": "told",
            "says": f"after {(last.end - last.begin) / SECOND:.1f} s",
            "cause": False,
            "mechanism": says,
            "title": knot.title,
            "evidence": _quoted([last.recovery]),
        }


def _quoted(places: Iterable[Mapping[str, Any] | Row]) -> list[Document]:
    return [{name: one.get(name) for name in ("file", "line", "text", "rule")} for one in places]
