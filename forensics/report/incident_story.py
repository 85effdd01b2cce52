"""What happened, as a short list of rows: what set it off, how it spread, what came of it.

Rows come from the chains of findings, from findings that no chain holds, and, where these are few,
from moves of leaders and state changes of brokers. Each tells which clients complained after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.detection.requirements import single_nodes
from forensics.lib.text_format import count, duration, join_names, parse_millis
from forensics.report.evidence_html import parse_evidence
from forensics.report.finding_text import describe_scope, drop_standing, is_open
from forensics.run_output.reader import Evidence, Row, RunOutput, SavedFinding, corrected_times

# In the order of reading; what nothing ties to the rest comes last.
GROUPS = {
    "trigger": "Trigger",
    "propagation": "Propagation",
    "effect": "Effect",
    "recovery": "Recovery",
    "apart": "Tied to nothing above",
}
GROUP_ORDER = list(GROUPS)
# With fewer rows, what else happened is told too.
MIN_ROWS, MAX_ROWS = 6, 9

EVENT_COLUMNS = ("kind", "ts", "node", "client", "error", "level", "line")
WARN_LEVELS = ("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL")
STARTUP_KINDS = ("client_setting_seen", "kafka_version")

# Leaders that change within this time of each other move together.
SAME_MOVE_MS = 2000
MOVE_ELECTIONS = ("failover", "unclean", "preferred", "reassignment", "controlled_shutdown")
LEADERSHIP_COLUMNS = ("topic", "partition", "leader", "previous_leader", "election", "started_at",
                      "evidence")  # fmt: skip
LANE_COLUMNS = ("node", "broker", "state", "started_at", "evidence")
STATE_TEXTS = {
    "crashed": ("propagation", "crashes"),
    "fenced": ("propagation", "is fenced: it leads nothing"),
    "paused": ("propagation", "freezes"),
    "isolated": ("propagation", "is cut off from the others"),
    "recovering": ("recovery", "starts and loads its logs"),
    "stopping": ("propagation", "shuts down cleanly"),
    "up": ("recovery", "is back in service"),
}


@dataclass(frozen=True)
class ClientError:
    """One line of one client that somebody could have noticed; time on the reference clock."""

    at: int
    line: int
    client: str
    # the error's name, or the kind of event
    what: str


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
    # rows of the least weight are left out first
    weight: int = 0
    # clients that first complained between this row and the next one in time
    client_errors: tuple[ClientError, ...] = ()
    # why it may have come before the row above; empty if it cannot have
    order_doubt: str = ""


def build_story(run: RunOutput) -> tuple[list[StoryRow], int]:
    """Return the rows, by group and time, and how many more there would be."""
    rows = _merge_same([*_chained_rows(run), *_unchained_rows(run)])
    if 0 < len(rows) < MIN_ROWS:
        known = {(row.at, row.subject) for row in rows}
        since, till = min(row.at for row in rows), _last_moment(run, rows)
        more = [row for row in background_rows(run, since, till)
                if (row.at, row.subject) not in known]  # fmt: skip
        rows += more[: MIN_ROWS - len(rows)]
    kept = sorted(rows, key=lambda row: (-row.weight, row.at, row.text))[:MAX_ROWS]
    kept = _with_client_errors(
        run, sorted(kept, key=lambda row: (row.at, GROUP_ORDER.index(row.group)))
    )
    kept.sort(key=lambda row: (GROUP_ORDER.index(row.group), row.at, row.text))
    return list(_with_doubts(run, kept)), len(rows) - len(kept)


def _last_moment(run: RunOutput, rows: Sequence[StoryRow]) -> int:
    ends = (finding.end_ms for finding in drop_standing(run.incidents))
    return max([*(row.at for row in rows), *(end for end in ends if end is not None)])


def _chained_rows(run: RunOutput) -> Iterator[StoryRow]:
    findings = {finding.id: finding for finding in run.findings}
    for chain in run.document.get("chains") or ():
        for link in chain.get("links") or ():
            at = parse_millis(link.get("at"))
            if at is not None:
                yield _linked_row(link, at, findings)


def _linked_row(link: Mapping[str, Any], at: int, findings: Mapping[str, SavedFinding]) -> StoryRow:
    group = str(link.get("role"))
    finding = findings.get(str(link.get("to")))
    is_recovery = group == "recovery"
    mechanism = str(link.get("mechanism") or "")
    has_cause = mechanism and not is_recovery
    weight = {"trigger": 4, "recovery": 2}.get(group, 3)
    return StoryRow(
        at=at,
        group=group if group in GROUPS else "apart",
        text=mechanism if mechanism and is_recovery else str(link.get("title") or ""),
        subject=describe_scope(finding) if finding else "",
        causes=(_cause(link, mechanism, findings),) if has_cause else (),
        finding=finding.id if finding else "",
        detector=finding.detector if finding else "",
        # Of two lines the later one is of this row; the other is of what led to it.
        proofs=parse_evidence(link.get("evidence"))[-1:],
        weight=weight if finding is None or finding.is_incident else 1,
    )


def _cause(link: Mapping[str, Any], mechanism: str, findings: Mapping[str, SavedFinding]) -> str:
    """Name the source of a link: as the cause only where the chain is certain of it."""
    source = findings.get(str(link.get("from")))
    word = "Cause" if link.get("cause") else "Led to by"
    title = source.title if source else "a planned change of leaders"
    is_open = link.get("order") == "open"
    order = "; which of the two came first cannot be told" if is_open else ""
    return f"{word}: {title}. {mechanism.rstrip('.')}{order}."


def _unchained_rows(run: RunOutput) -> Iterator[StoryRow]:
    """Yield the incidents that no chain holds, and their ends."""
    chained = {name for chain in run.document.get("chains") or ()
               for name in chain.get("findings") or ()}  # fmt: skip
    findings = [one for one in drop_standing(run.incidents) if one.id not in chained]
    for index, finding in enumerate(findings):
        if finding.start_ms is None:
            continue
        # Where there is no chain at all, the first finding is what the reader begins with; what the
        # verdict names must never come last for want of a chain.
        is_headline = finding.id == run.incidents[0].id
        group = "effect" if not chained else "apart"
        if is_headline or not (chained or index):
            group = "trigger"
        row = StoryRow(
            at=finding.start_ms, group=group, text=finding.title, subject=describe_scope(finding),
            finding=finding.id, detector=finding.detector, proofs=finding.evidence[:1], weight=3,
        )  # fmt: skip
        yield row
        end = finding.end_ms
        if end is not None and end > finding.start_ms and not is_open(run, finding):
            group = "recovery" if is_headline or not chained else "apart"
            text, last = f"Over: {finding.title}", finding.evidence[-1:]
            yield replace(row, at=end, group=group, text=text, proofs=last, weight=1)


def _merge_same(rows: Iterable[StoryRow]) -> list[StoryRow]:
    """Merge rows that tell of the same thing at the same time."""
    merged: dict[tuple[int, str, str], StoryRow] = {}
    for row in rows:
        key = row.at, row.group, row.finding or row.text
        first = merged.get(key)
        merged[key] = replace(first, causes=(*first.causes, *row.causes)) if first else row
    return list(merged.values())


def background_rows(run: RunOutput, since: int, till: int) -> list[StoryRow]:
    """Return what happened within a time besides the findings: leaders moved, brokers changed."""
    rows = [*_leader_moves(run, since, till), *_state_changes(run, since, till)]
    return sorted(rows, key=lambda row: (row.at, row.text))


def _state_changes(run: RunOutput, since: int, till: int) -> Iterator[StoryRow]:
    for row in run.rows("lanes", LANE_COLUMNS, ds.field("role") == "broker"):
        at = row["started_at"]
        if at is not None and row["state"] in STATE_TEXTS and since <= at <= till:
            group, text = STATE_TEXTS[row["state"]]
            broker = row["node"] if row["broker"] is None else f"broker {row['broker']}"
            proofs = parse_evidence(row["evidence"])[:1]
            yield StoryRow(at, group, f"{broker} {text}".capitalize(), broker, proofs=proofs)


def _leader_moves(run: RunOutput, since: int, till: int) -> Iterator[StoryRow]:
    """Take changes of leaders of one kind, close to each other, as one move."""
    rows: list[Row] = []
    for chunk in run.chunks(
        "leadership", LEADERSHIP_COLUMNS, ds.field("election").isin(list(MOVE_ELECTIONS))
    ):
        times = chunk["started_at"]
        inside = pc.and_kleene(pc.greater_equal(times, since), pc.less_equal(times, till))
        rows += chunk.filter(pc.fill_null(inside, fill_value=False)).to_pylist()
    moves: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"])):
        if row["leader"] in (None, -1):
            continue
        move = moves.setdefault(row["election"], [])
        if move and row["started_at"] - move[-1]["started_at"] > SAME_MOVE_MS:
            yield _move_row(move)
            move.clear()
        move.append(row)
    yield from map(_move_row, moves.values())


def _move_row(rows: Sequence[Row]) -> StoryRow:
    election = str(rows[0]["election"])
    gets = "gets" if len(rows) == 1 else "get"
    losers = {row["previous_leader"] for row in rows} - {None, -1}
    after = f" after broker {losers.pop()}" if len(losers) == 1 else ""
    names = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    return StoryRow(
        rows[0]["started_at"],
        "recovery" if election == "preferred" else "propagation",
        f"{count(len(rows), 'partition')} {gets} another leader{after} "
        f"({election.replace('_', ' ')})",
        join_names(names),
        proofs=parse_evidence(rows[0]["evidence"])[:1],
    )


def first_client_errors(run: RunOutput, since: int, till: int) -> list[ClientError]:
    """Return each client's first warning or error within a time, in the order of time."""
    first: dict[str, ClientError] = {}
    for chunk in run.chunks("events", EVENT_COLUMNS, _is_client_error(run)):
        for error in _errors_within(run, chunk, since, till):
            known = first.get(error.client)
            if known is None or (error.at, error.line) < (known.at, known.line):
                first[error.client] = error
    return sorted(first.values(), key=lambda error: (error.at, error.client))


def _is_client_error(run: RunOutput) -> ds.Expression:
    nodes = sorted({row["node"] for row in run.files if row["role"] == "client" and row["node"]})
    kind = ds.field("kind")
    # A client's error is its own wherever it is logged and at whatever level; a warning only in
    # the client's own log, and not as it starts.
    is_own = ds.field("node").isin(pa.array(nodes, pa.string()))
    is_warning = is_own & ds.field("level").isin(list(WARN_LEVELS))
    return ((kind == "client_error") | is_warning) & ~kind.isin(list(STARTUP_KINDS))


def _errors_within(
    run: RunOutput, events: pa.Table, since: int, till: int
) -> Iterator[ClientError]:
    events = events.filter(pc.is_valid(events["ts"]))
    if not events.num_rows:
        return
    times = corrected_times(events, run.clock_corrections)
    inside = (times >= since) & (times <= till)
    rows = events.filter(pa.array(inside)).to_pylist()
    for at, row in zip(times[inside].tolist(), rows, strict=True):
        client = row["client"] or row["node"] or "a client"
        what = row["error"] or str(row["kind"]).replace("_", " ")
        yield ClientError(at, row["line"], client, what)


def _with_client_errors(run: RunOutput, rows: list[StoryRow]) -> list[StoryRow]:
    """Hang each client's first error on the last thing that had happened by then."""
    if not rows:
        return []
    errors: dict[int, list[ClientError]] = {}
    for error in first_client_errors(run, rows[0].at, _last_moment(run, rows)):
        index = max(index for index, row in enumerate(rows) if row.at <= error.at)
        errors.setdefault(index, []).append(error)
    return [
        replace(row, client_errors=tuple(errors.get(index, ()))) for index, row in enumerate(rows)
    ]


def _with_doubts(run: RunOutput, rows: Sequence[StoryRow]) -> Iterator[StoryRow]:
    """Say where a row may have come before the one above it, as far as clocks can tell."""
    clocks = ClockOrder(run)
    above: StoryRow | None = None
    for row in rows:
        is_near = above is not None and above.group == row.group
        doubt = clocks.explain_doubt(above, row) if above and is_near else ""
        yield replace(row, order_doubt=doubt)
        above = row


class ClockOrder:
    """Decides whether the clocks can tell which of two things came first."""

    def __init__(self, run: RunOutput) -> None:
        """Read how uncertain each clock is."""
        self._nodes = single_nodes(run.files)
        self._uncertainty = {
            row["node"]: row["uncertainty_ms"]
            for row in run.rows("clocks", ("node", "uncertainty_ms"))
        }

    def explain_doubt(self, above: StoryRow, row: StoryRow) -> str:
        """Say why the order of two rows is not certain; empty where it is."""
        first, second = self._node(above.proofs), self._node(row.proofs)
        if first is None or second is None or first == second:
            return ""
        one, other = self._uncertainty.get(first), self._uncertainty.get(second)
        if one is None or other is None or abs(row.at - above.at) > one + other:
            return ""
        agree = f"the clocks of {first} and {second} agree to {duration(one + other)}"
        return f"order uncertain: {agree}"

    def _node(self, proofs: Sequence[Evidence]) -> str | None:
        nodes = {self._nodes.get(proof.file) for proof in proofs}
        return nodes.pop() if len(nodes) == 1 else None
