"""What happened, as a short list of rows: what set it off, how it spread, what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forensics.report.answer import is_open
from forensics.report.chips import proofs
from forensics.report.doubts import Doubts
from forensics.report.fillers import Filler, fillers
from forensics.report.saved import Finding, Proof, Saved
from forensics.report.signs import Sign, signs
from forensics.report.subjects import happened, scope
from forensics.report.words import millis

__all__ = ["GROUPS", "Moment", "story"]

# In the order of reading; what nothing ties to the rest comes last.
GROUPS = {
    "trigger": "Trigger",
    "propagation": "Propagation",
    "effect": "Effect",
    "recovery": "Recovery",
    "apart": "Tied to nothing above",
}
FEWEST, MOST = 8, 15
ORDER = list(GROUPS)


@dataclass(frozen=True)
class Moment:
    """One row: when, what, to whom, why, and what could be seen of it at the time."""

    at: int
    group: str
    says: str
    who: str = ""
    why: tuple[str, ...] = ()
    # the finding that this is of, and its detector
    finding: str = ""
    detector: str = ""
    proofs: tuple[Proof, ...] = ()
    # how much a row may be missed: chains and incidents last of all
    weight: int = 0
    # clients that first complained between this row and the next one in time
    noticed: tuple[Sign, ...] = field(default=())
    # whether it may have come before the row above, and why
    doubt: str = ""


def story(saved: Saved) -> tuple[list[Moment], int]:
    """Give the rows, by group and time, and how many more there would be."""
    known = {finding.id: finding for finding in saved.findings}
    rows = _merged([*_chained(saved, known), *_alone(saved)])
    if len(rows) < FEWEST and rows:
        stretch = min(row.at for row in rows), max(_ends(saved, rows))
        told = [row for row in _filled(fillers(saved, *stretch)) if not _is_told(rows, row)]
        rows += sorted(told, key=lambda row: row.at)[: FEWEST - len(rows)]
    kept = sorted(rows, key=lambda row: (-row.weight, row.at, row.says))[:MOST]
    kept = _noticed(saved, sorted(kept, key=lambda row: (row.at, ORDER.index(row.group))))
    kept.sort(key=lambda row: (ORDER.index(row.group), row.at, row.says))
    return list(_doubted(saved, kept)), len(rows) - len(kept)


def _chained(saved: Saved, known: Mapping[str, Finding]) -> Iterator[Moment]:
    for chain in saved.document.get("chains") or ():
        for link in chain.get("links") or ():
            at = millis(link.get("at"))
            if at is not None:
                yield _linked(link, at, known)


def _linked(link: Mapping[str, Any], at: int, known: Mapping[str, Finding]) -> Moment:
    group = str(link.get("role"))
    finding = known.get(str(link.get("to")))
    over = group == "recovery"
    mechanism = str(link.get("mechanism") or "")
    says = mechanism if over and mechanism else str(link.get("title") or "")
    quoted = proofs(link.get("evidence"))
    weight = {"trigger": 4, "recovery": 2}.get(group, 3)
    return Moment(
        at=at,
        group=group if group in GROUPS else "apart",
        says=says,
        who=scope(finding) if finding else "",
        why=() if over or not mechanism else (_because(link, mechanism, known),),
        finding=finding.id if finding else "",
        detector=finding.detector if finding else "",
        # Of two lines the later one is of this row; the other is of what led to it.
        proofs=quoted[-1:],
        weight=weight if finding is None or finding.is_incident else 1,
    )


def _because(link: Mapping[str, Any], mechanism: str, known: Mapping[str, Finding]) -> str:
    """Name the source of a link: as the cause only where the chain is certain of it."""
    source = known.get(str(link.get("from")))
    word = "Cause" if link.get("cause") else "Led to by"
    of = source.title if source else "a planned change of leaders"
    order = ""
    if link.get("order") == "open":
        order = "; which of the two came first cannot be told"
    return f"{word}: {of}. {mechanism.rstrip('.')}{order}."


def _alone(saved: Saved) -> Iterator[Moment]:
    """Give the incidents that no chain holds, and their ends."""
    chained = {name for chain in saved.document.get("chains") or ()
               for name in chain.get("findings") or ()}  # fmt: skip
    found = [one for one in happened(saved.incidents) if one.id not in chained]
    for place, finding in enumerate(found):
        if finding.start is None:
            continue
        # Where there is no chain at all, the first thing is what the reader begins with; what the
        # verdict names must never come last for want of a chain.
        is_headline = finding.id == saved.incidents[0].id
        group = "effect" if not chained else "apart"
        if is_headline or not (chained or place):
            group = "trigger"
        plain = Moment(
            at=finding.start, group=group, says=finding.title, who=scope(finding),
            finding=finding.id, detector=finding.detector, proofs=finding.evidence[:1], weight=3,
        )  # fmt: skip
        yield plain
        if finding.end is not None and finding.end > finding.start and not is_open(saved, finding):
            last = finding.evidence[-1:]
            says = f"Over: {finding.title}"
            over = "recovery" if is_headline or not chained else "apart"
            yield replace(plain, at=finding.end, group=over, says=says, proofs=last, weight=1)


def _merged(rows: Iterable[Moment]) -> list[Moment]:
    """Take rows that tell of the same thing at the same time together."""
    found: dict[tuple[int, str, str], Moment] = {}
    for row in rows:
        key = row.at, row.group, row.finding or row.says
        known = found.get(key)
        found[key] = replace(known, why=(*known.why, *row.why)) if known else row
    return list(found.values())


def _filled(found: Iterable[Filler]) -> Iterator[Moment]:
    for one in found:
        yield Moment(one.at, one.group, one.says, one.who, proofs=one.proofs)


def _is_told(rows: Sequence[Moment], filler: Moment) -> bool:
    return any(row.at == filler.at and row.who == filler.who for row in rows)


def _ends(saved: Saved, rows: Sequence[Moment]) -> Iterator[int]:
    yield from (row.at for row in rows)
    yield from (one.end for one in happened(saved.incidents) if one.end is not None)


def _noticed(saved: Saved, rows: list[Moment]) -> list[Moment]:
    """Hang each client's first complaint on the last thing that had happened by then."""
    if not rows:
        return []
    last = max(_ends(saved, rows))
    hung: dict[int, list[Sign]] = {}
    for sign in signs(saved, rows[0].at, last):
        place = max(at for at, row in enumerate(rows) if row.at <= sign.at)
        hung.setdefault(place, []).append(sign)
    return [replace(row, noticed=tuple(hung.get(at, ()))) for at, row in enumerate(rows)]


def _doubted(saved: Saved, rows: Sequence[Moment]) -> Iterator[Moment]:
    """Say where a row may have come before the one above it, as far as clocks can tell."""
    doubts = Doubts(saved)
    above: Moment | None = None
    for row in rows:
        near = above if above and above.group == row.group else None
        says = doubts.between(near.at, near.proofs, row.at, row.proofs) if near else ""
        yield replace(row, doubt=says)
        above = row
