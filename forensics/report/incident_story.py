"""What happened, as a short list of rows: what set it off, how it spread, what came of it.

Whether the clocks can tell which of two things came first.

What clients could see of an incident: the warnings and errors of their own logs.

What else happened around an incident: brokers that came and went, leaders that moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.formatting import count, lasting, listed, millis
from forensics.report.evidence_html import proofs
from forensics.report.finding_text import happened, scope
from forensics.report.headline import is_open
from forensics.run_output.reader import Finding, Proof, Row, Saved, moments_of


class Doubts:
    """How sure the times are of what each file's node logged."""

    def __init__(self, saved: Saved) -> None:
        """Read how sure each clock is."""
        self._nodes = {row["file"]: row["node"] for row in saved.files}
        self._unsure = {
            row["node"]: row["uncertainty_ms"]
            for row in saved.rows("clocks", ("node", "uncertainty_ms"))
        }

    def between(self, one: int, told: Sequence[Proof], other: int, retold: Sequence[Proof]) -> str:
        """Say why the order of two moments is not certain; empty where it is."""
        first, second = self._node(told), self._node(retold)
        if first is None or second is None or first == second:
            return ""
        blur = [self._unsure.get(node) for node in (first, second)]
        if None in blur:
            return ""
        most = sum(one for one in blur if one is not None)
        if abs(other - one) > most:
            return ""
        return f"order uncertain: the clocks of {first} and {second} agree to {lasting(most)}"

    def _node(self, told: Sequence[Proof]) -> str | None:
        found = {self._nodes.get(proof.file) for proof in told}
        return next(iter(found)) if len(found) == 1 else None


COLUMNS = ("kind", "ts", "node", "client", "error", "level", "file", "line", "text", "rule")
LOUD = ("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL")
# A refused request is a sign at any level; what a client warns of at its start is none.
ERRORS = ("client_error",)
AT_START = ("client_setting_seen", "kafka_version")


@dataclass(frozen=True)
class Sign:
    """One line of one client that somebody could have noticed; time on the reference clock."""

    at: int
    client: str
    # the error's name, or the kind of event
    what: str
    row: dict[str, Any]


def signs(saved: Saved, since: int, till: int) -> list[Sign]:
    """Give each client's first sign within a stretch of time, in the order of time."""
    first: dict[str, Sign] = {}
    for part in saved.parts("events", COLUMNS, _loud(saved)):
        for sign in _within(saved, part, since, till):
            known = first.get(sign.client)
            if known is None or (sign.at, sign.row["line"]) < (known.at, known.row["line"]):
                first[sign.client] = sign
    return sorted(first.values(), key=lambda sign: (sign.at, sign.client))


def _loud(saved: Saved) -> ds.Expression:
    nodes = sorted({row["node"] for row in saved.files if row["role"] == "client" and row["node"]})
    kind = ds.field("kind")
    # A client's error is its own wherever it is logged; a warning only in a log of a client's.
    warned = ds.field("node").isin(pa.array(nodes, pa.string())) & ds.field("level").isin(
        list(LOUD)
    )
    return (kind.isin(list(ERRORS)) | warned) & ~kind.isin(list(AT_START))


def _within(saved: Saved, part: pa.Table, since: int, till: int) -> Iterator[Sign]:
    part = part.filter(pc.is_valid(part["ts"]))
    if not part.num_rows:
        return
    moments = moments_of(part, saved.corrections)
    inside = (moments >= since) & (moments <= till)
    rows = part.filter(pa.array(inside)).to_pylist()
    for at, row in zip(moments[inside].tolist(), rows, strict=True):
        name = row["client"] or row["node"] or "a client"
        yield Sign(at, name, row["error"] or str(row["kind"]).replace("_", " "), row)


# Changes of leaders closer than this are one move.
TOGETHER = 2000
MOVES = ("failover", "unclean", "preferred", "reassignment", "controlled_shutdown")
BACK = ("preferred",)
LIFE = {
    "crashed": ("propagation", "is gone without a shutdown"),
    "fenced": ("propagation", "is fenced: it leads nothing"),
    "paused": ("propagation", "stands still"),
    "recovering": ("recovery", "starts and loads its logs"),
    "stopping": ("propagation", "shuts down in order"),
    "up": ("recovery", "serves again"),
}
LIVES = ("node", "broker", "state", "started_at", "evidence")
LED = ("topic", "partition", "leader", "previous_leader", "election", "started_at", "evidence")


@dataclass(frozen=True)
class Filler:
    """One thing that happened, and on which line that rests."""

    at: int
    group: str
    says: str
    who: str
    proofs: tuple[Proof, ...]


def fillers(saved: Saved, since: int, till: int) -> list[Filler]:
    """Give what happened within a stretch of time besides the findings."""
    found = [*_moves(saved, since, till), *_lives(saved, since, till)]
    return sorted(found, key=lambda one: (one.at, one.says))


def _lives(saved: Saved, since: int, till: int) -> Iterator[Filler]:
    brokers = ds.field("role") == "broker"
    rows = [row for row in saved.rows("lanes", LIVES, brokers) if row["started_at"] is not None]
    for row in rows:
        if row["state"] in LIFE and since <= row["started_at"] <= till:
            group, says = LIFE[row["state"]]
            who = row["node"] if row["broker"] is None else f"broker {row['broker']}"
            told = proofs(row["evidence"])[:1]
            yield Filler(row["started_at"], group, f"{who} {says}".capitalize(), who, told)


def _moves(saved: Saved, since: int, till: int) -> Iterator[Filler]:
    """Take changes of leaders of one kind, close to each other, as one move."""
    rows: list[Row] = []
    for part in saved.parts("leadership", LED, ds.field("election").isin(list(MOVES))):
        moment = part["started_at"]
        inside = pc.and_kleene(pc.greater_equal(moment, since), pc.less_equal(moment, till))
        rows += part.filter(pc.fill_null(inside, fill_value=False)).to_pylist()
    held: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"])):
        if row["leader"] in (None, -1):
            continue
        mine = held.get(row["election"], [])
        if mine and row["started_at"] - mine[-1]["started_at"] > TOGETHER:
            yield _move(mine)
            mine = []
        held[row["election"]] = [*mine, row] if len(mine) < 1 else _added(mine, row)
    for mine in held.values():
        yield _move(mine)


def _added(mine: list[Row], row: Row) -> list[Row]:
    mine.append(row)
    return mine


def _move(rows: Sequence[Row]) -> Filler:
    kind = str(rows[0]["election"])
    many = count(len(rows), "partition")
    gets = "gets" if len(rows) == 1 else "get"
    lost = Counter(
        row["previous_leader"] for row in rows if row["previous_leader"] not in (None, -1)
    )
    after = f" after broker {lost.most_common(1)[0][0]}" if len(lost) == 1 else ""
    names = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    says = f"{many} {gets} another leader{after} ({kind.replace('_', ' ')})"
    group = "recovery" if kind in BACK else "propagation"
    told = proofs(rows[0]["evidence"])[:1]
    return Filler(rows[0]["started_at"], group, says, listed(names), told)


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
