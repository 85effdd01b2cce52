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

from forensics.lib.formatting import count, duration, join_names, parse_millis
from forensics.report.evidence_html import parse_proofs
from forensics.report.finding_text import describe_scope, drop_standing
from forensics.report.headline import is_open
from forensics.run_output.reader import Evidence, Finding, Row, RunOutput, corrected_times


class ClockOrder:
    """How sure the times are of what each file's node logged."""

    def __init__(self, run: RunOutput) -> None:
        """Read how sure each clock is."""
        self._nodes = {row["file"]: row["node"] for row in run.files}
        self._unsure = {
            row["node"]: row["uncertainty_ms"]
            for row in run.rows("clocks", ("node", "uncertainty_ms"))
        }

    def explain_doubt(
        self, one: int, told: Sequence[Evidence], other: int, retold: Sequence[Evidence]
    ) -> str:
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
        return f"order uncertain: the clocks of {first} and {second} agree to {duration(most)}"

    def _node(self, told: Sequence[Evidence]) -> str | None:
        found = {self._nodes.get(proof.file) for proof in told}
        return next(iter(found)) if len(found) == 1 else None


EVENT_COLUMNS = ("kind", "ts", "node", "client", "error", "level", "file", "line", "text", "rule")
WARN_LEVELS = ("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL")
# A refused request is a sign at any level; what a client warns of at its start is none.
ERROR_KINDS = ("client_error",)
STARTUP_KINDS = ("client_setting_seen", "kafka_version")


@dataclass(frozen=True)
class ClientError:
    """One line of one client that somebody could have noticed; time on the reference clock."""

    at: int
    client: str
    # the error's name, or the kind of event
    what: str
    row: dict[str, Any]


def first_client_errors(run: RunOutput, since: int, till: int) -> list[ClientError]:
    """Give each client's first sign within a stretch of time, in the order of time."""
    first: dict[str, ClientError] = {}
    for part in run.chunks("events", EVENT_COLUMNS, _loud(run)):
        for sign in _within(run, part, since, till):
            known = first.get(sign.client)
            if known is None or (sign.at, sign.row["line"]) < (known.at, known.row["line"]):
                first[sign.client] = sign
    return sorted(first.values(), key=lambda sign: (sign.at, sign.client))


def _loud(run: RunOutput) -> ds.Expression:
    nodes = sorted({row["node"] for row in run.files if row["role"] == "client" and row["node"]})
    kind = ds.field("kind")
    # A client's error is its own wherever it is logged; a warning only in a log of a client's.
    warned = ds.field("node").isin(pa.array(nodes, pa.string())) & ds.field("level").isin(
        list(WARN_LEVELS)
    )
    return (kind.isin(list(ERROR_KINDS)) | warned) & ~kind.isin(list(STARTUP_KINDS))


def _within(run: RunOutput, part: pa.Table, since: int, till: int) -> Iterator[ClientError]:
    part = part.filter(pc.is_valid(part["ts"]))
    if not part.num_rows:
        return
    moments = corrected_times(part, run.clock_corrections)
    inside = (moments >= since) & (moments <= till)
    rows = part.filter(pa.array(inside)).to_pylist()
    for at, row in zip(moments[inside].tolist(), rows, strict=True):
        name = row["client"] or row["node"] or "a client"
        yield ClientError(at, name, row["error"] or str(row["kind"]).replace("_", " "), row)


# Changes of leaders closer than this are one move.
SAME_MOVE_MS = 2000
MOVE_ELECTIONS = ("failover", "unclean", "preferred", "reassignment", "controlled_shutdown")
RECOVERY_ELECTIONS = ("preferred",)
STATE_TEXTS = {
    "crashed": ("propagation", "is gone without a shutdown"),
    "fenced": ("propagation", "is fenced: it leads nothing"),
    "paused": ("propagation", "stands still"),
    "recovering": ("recovery", "starts and loads its logs"),
    "stopping": ("propagation", "shuts down in order"),
    "up": ("recovery", "serves again"),
}
LANE_COLUMNS = ("node", "broker", "state", "started_at", "evidence")
LEADERSHIP_COLUMNS = (
    "topic",
    "partition",
    "leader",
    "previous_leader",
    "election",
    "started_at",
    "evidence",
)


@dataclass(frozen=True)
class BackgroundEvent:
    """One thing that happened, and on which line that rests."""

    at: int
    group: str
    text: str
    subject: str
    proofs: tuple[Evidence, ...]


def background_events(run: RunOutput, since: int, till: int) -> list[BackgroundEvent]:
    """Give what happened within a stretch of time besides the findings."""
    found = [*_moves(run, since, till), *_lives(run, since, till)]
    return sorted(found, key=lambda one: (one.at, one.text))


def _lives(run: RunOutput, since: int, till: int) -> Iterator[BackgroundEvent]:
    brokers = ds.field("role") == "broker"
    rows = [
        row for row in run.rows("lanes", LANE_COLUMNS, brokers) if row["started_at"] is not None
    ]
    for row in rows:
        if row["state"] in STATE_TEXTS and since <= row["started_at"] <= till:
            group, says = STATE_TEXTS[row["state"]]
            who = row["node"] if row["broker"] is None else f"broker {row['broker']}"
            told = parse_proofs(row["evidence"])[:1]
            yield BackgroundEvent(row["started_at"], group, f"{who} {says}".capitalize(), who, told)


def _moves(run: RunOutput, since: int, till: int) -> Iterator[BackgroundEvent]:
    """Take changes of leaders of one kind, close to each other, as one move."""
    rows: list[Row] = []
    for part in run.chunks(
        "leadership", LEADERSHIP_COLUMNS, ds.field("election").isin(list(MOVE_ELECTIONS))
    ):
        moment = part["started_at"]
        inside = pc.and_kleene(pc.greater_equal(moment, since), pc.less_equal(moment, till))
        rows += part.filter(pc.fill_null(inside, fill_value=False)).to_pylist()
    held: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"])):
        if row["leader"] in (None, -1):
            continue
        mine = held.get(row["election"], [])
        if mine and row["started_at"] - mine[-1]["started_at"] > SAME_MOVE_MS:
            yield _move(mine)
            mine = []
        held[row["election"]] = [*mine, row] if len(mine) < 1 else _added(mine, row)
    for mine in held.values():
        yield _move(mine)


def _added(mine: list[Row], row: Row) -> list[Row]:
    mine.append(row)
    return mine


def _move(rows: Sequence[Row]) -> BackgroundEvent:
    kind = str(rows[0]["election"])
    many = count(len(rows), "partition")
    gets = "gets" if len(rows) == 1 else "get"
    lost = Counter(
        row["previous_leader"] for row in rows if row["previous_leader"] not in (None, -1)
    )
    after = f" after broker {lost.most_common(1)[0][0]}" if len(lost) == 1 else ""
    names = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    says = f"{many} {gets} another leader{after} ({kind.replace('_', ' ')})"
    group = "recovery" if kind in RECOVERY_ELECTIONS else "propagation"
    told = parse_proofs(rows[0]["evidence"])[:1]
    return BackgroundEvent(rows[0]["started_at"], group, says, join_names(names), told)


# In the order of reading; what nothing ties to the rest comes last.
GROUPS = {
    "trigger": "Trigger",
    "propagation": "Propagation",
    "effect": "Effect",
    "recovery": "Recovery",
    "apart": "Tied to nothing above",
}
MIN_ROWS, MAX_ROWS = 8, 15
GROUP_ORDER = list(GROUPS)


@dataclass(frozen=True)
class StoryRow:
    """One row: when, what, to whom, why, and what could be seen of it at the time."""

    at: int
    group: str
    text: str
    subject: str = ""
    causes: tuple[str, ...] = ()
    # the finding that this is of, and its detector
    finding: str = ""
    detector: str = ""
    proofs: tuple[Evidence, ...] = ()
    # how much a row may be missed: chains and incidents last of all
    weight: int = 0
    # clients that first complained between this row and the next one in time
    client_errors: tuple[ClientError, ...] = field(default=())
    # whether it may have come before the row above, and why
    order_doubt: str = ""


def build_story(run: RunOutput) -> tuple[list[StoryRow], int]:
    """Give the rows, by group and time, and how many more there would be."""
    known = {finding.id: finding for finding in run.findings}
    rows = _merged([*_chained(run, known), *_alone(run)])
    if len(rows) < MIN_ROWS and rows:
        stretch = min(row.at for row in rows), max(_ends(run, rows))
        told = [row for row in _filled(background_events(run, *stretch)) if not _is_told(rows, row)]
        rows += sorted(told, key=lambda row: row.at)[: MIN_ROWS - len(rows)]
    kept = sorted(rows, key=lambda row: (-row.weight, row.at, row.text))[:MAX_ROWS]
    kept = _noticed(run, sorted(kept, key=lambda row: (row.at, GROUP_ORDER.index(row.group))))
    kept.sort(key=lambda row: (GROUP_ORDER.index(row.group), row.at, row.text))
    return list(_doubted(run, kept)), len(rows) - len(kept)


def _chained(run: RunOutput, known: Mapping[str, Finding]) -> Iterator[StoryRow]:
    for chain in run.document.get("chains") or ():
        for link in chain.get("links") or ():
            at = parse_millis(link.get("at"))
            if at is not None:
                yield _linked(link, at, known)


def _linked(link: Mapping[str, Any], at: int, known: Mapping[str, Finding]) -> StoryRow:
    group = str(link.get("role"))
    finding = known.get(str(link.get("to")))
    over = group == "recovery"
    mechanism = str(link.get("mechanism") or "")
    says = mechanism if over and mechanism else str(link.get("title") or "")
    quoted = parse_proofs(link.get("evidence"))
    weight = {"trigger": 4, "recovery": 2}.get(group, 3)
    return StoryRow(
        at=at,
        group=group if group in GROUPS else "apart",
        text=says,
        subject=describe_scope(finding) if finding else "",
        causes=() if over or not mechanism else (_because(link, mechanism, known),),
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


def _alone(run: RunOutput) -> Iterator[StoryRow]:
    """Give the incidents that no chain holds, and their ends."""
    chained = {name for chain in run.document.get("chains") or ()
               for name in chain.get("findings") or ()}  # fmt: skip
    found = [one for one in drop_standing(run.incidents) if one.id not in chained]
    for place, finding in enumerate(found):
        if finding.start_ms is None:
            continue
        # Where there is no chain at all, the first thing is what the reader begins with; what the
        # verdict names must never come last for want of a chain.
        is_headline = finding.id == run.incidents[0].id
        group = "effect" if not chained else "apart"
        if is_headline or not (chained or place):
            group = "trigger"
        plain = StoryRow(
            at=finding.start_ms, group=group, text=finding.title, subject=describe_scope(finding),
            finding=finding.id, detector=finding.detector, proofs=finding.evidence[:1], weight=3,
        )  # fmt: skip
        yield plain
        if (
            finding.end_ms is not None
            and finding.end_ms > finding.start_ms
            and not is_open(run, finding)
        ):
            last = finding.evidence[-1:]
            says = f"Over: {finding.title}"
            over = "recovery" if is_headline or not chained else "apart"
            yield replace(plain, at=finding.end_ms, group=over, text=says, proofs=last, weight=1)


def _merged(rows: Iterable[StoryRow]) -> list[StoryRow]:
    """Take rows that tell of the same thing at the same time together."""
    found: dict[tuple[int, str, str], StoryRow] = {}
    for row in rows:
        key = row.at, row.group, row.finding or row.text
        known = found.get(key)
        found[key] = replace(known, causes=(*known.causes, *row.causes)) if known else row
    return list(found.values())


def _filled(found: Iterable[BackgroundEvent]) -> Iterator[StoryRow]:
    for one in found:
        yield StoryRow(one.at, one.group, one.text, one.subject, proofs=one.proofs)


def _is_told(rows: Sequence[StoryRow], filler: StoryRow) -> bool:
    return any(row.at == filler.at and row.subject == filler.subject for row in rows)


def _ends(run: RunOutput, rows: Sequence[StoryRow]) -> Iterator[int]:
    yield from (row.at for row in rows)
    yield from (one.end_ms for one in drop_standing(run.incidents) if one.end_ms is not None)


def _noticed(run: RunOutput, rows: list[StoryRow]) -> list[StoryRow]:
    """Hang each client's first complaint on the last thing that had happened by then."""
    if not rows:
        return []
    last = max(_ends(run, rows))
    hung: dict[int, list[ClientError]] = {}
    for sign in first_client_errors(run, rows[0].at, last):
        place = max(at for at, row in enumerate(rows) if row.at <= sign.at)
        hung.setdefault(place, []).append(sign)
    return [replace(row, client_errors=tuple(hung.get(at, ()))) for at, row in enumerate(rows)]


def _doubted(run: RunOutput, rows: Sequence[StoryRow]) -> Iterator[StoryRow]:
    """Say where a row may have come before the one above it, as far as clocks can tell."""
    doubts = ClockOrder(run)
    above: StoryRow | None = None
    for row in rows:
        near = above if above and above.group == row.group else None
        says = doubts.explain_doubt(near.at, near.proofs, row.at, row.proofs) if near else ""
        yield replace(row, order_doubt=says)
        above = row
