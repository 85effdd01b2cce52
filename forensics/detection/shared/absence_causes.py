"""Tells how brokers came to be away: by themselves, with their host, or for want of a quorum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, once_per_run
from forensics.detection.shared.process_ends import ends_of_absence
from forensics.history.nodes.broker_states import FOREVER, Absence
from forensics.lib.intervals import IntervalIndex, index_by
from forensics.lib.node_ids import broker_id, broker_ids, broker_node
from forensics.lib.sessionize import windows
from forensics.lib.time_units import SECOND
from forensics.lib.whole_numbers import whole_number

# broker.session.timeout.ms, if no log names it
_DEFAULT_SESSION_S = 9.0
# In absences of these kinds the process may have lived on.
_MAY_HAVE_LIVED = ("pause", "fenced", "isolated", "gone", "unknown")
_STARTING = ("starting", "recovering")
# ZooKeeper ends sessions that are over in one tick, or as it wakes; and a process says within that,
# before or after it is away, that its session is over.
TOGETHER = 5 * SECOND
# Each look into the logs reads the events: only so many groups get one.
_MAX_LOOKS = 12


def unplanned_absences(context: DetectionContext) -> dict[int, list[Absence]]:
    """Return the absences of each broker that nobody asked for and that it caused itself."""
    not_own = host_wide_absences(context) | no_quorum_absences(context)
    not_own |= absences_by_zookeeper(context)
    found: dict[int, list[Absence]] = {}
    for absence in sorted(context.absences, key=lambda absence: (absence.broker, absence.begin)):
        if absence.kind != "controlled" and (absence.broker, absence.begin) not in not_own:
            found.setdefault(absence.broker, []).append(absence)
    return found


def absences_of(context: DetectionContext, broker: int) -> list[Absence]:
    """Return the absences of one broker, in order."""
    own = (absence for absence in context.absences if absence.broker == broker)
    return sorted(own, key=lambda absence: absence.begin)


@once_per_run
def host_wide_absences(context: DetectionContext) -> frozenset[tuple[int, int]]:
    """Find the absences that most brokers began together, without a restart: one pause of a host.

    A controller that fences everybody looks the same; neither is the doing of one broker. But if
    the node of the controller hung itself, its pause took the others along: it is the one that
    logged nothing before, while the others did, and that came back after them.
    """
    lived = [absence for absence in context.absences if absence.kind in _MAY_HAVE_LIVED]
    lived.sort(key=lambda absence: absence.noticed)
    known = {absence.broker for absence in context.absences} | set(context.history.lanes.brokers)
    gap = context.limits["flapping-broker"]["together"] * SECOND
    found: set[tuple[int, int]] = set()
    looks = 0
    for group in windows(lived, lambda absence: absence.noticed, gap):
        brokers = {absence.broker for absence in group}
        if len(brokers) > 1 and 2 * len(brokers) > len(known):
            looks += 1
            hung = _find_hung(context, group) if looks <= _MAX_LOOKS else []
            found |= {(one.broker, one.begin) for one in group if one not in hung}
    return frozenset(found)


def _find_hung(context: DetectionContext, group: Sequence[Absence]) -> list[Absence]:
    """Find the few of a group that were silent for a session, and away longer than the others."""
    session = round(session_timeout(context) * SECOND)
    logged = {row["node"] for row in context.visibility.files if row["role"] == "broker"}
    seen = [absence for absence in group if broker_node(absence.broker) in logged]
    spans = [(broker_node(one.broker), one.noticed - session, one.noticed) for one in seen]
    names = context.nodes_that_logged(spans)
    heard = [absence for absence in seen if broker_node(absence.broker) in names]
    silent = [absence for absence in seen if absence not in heard]
    if len(silent) >= len(heard):
        return []
    longest = max((one.end or context.logs_end) - one.noticed for one in heard)
    return [one for one in silent if (one.end or context.logs_end) - one.noticed > longest]


@once_per_run
def no_quorum_absences(context: DetectionContext) -> frozenset[tuple[int, int]]:
    """Find the absences of brokers whose controller had no majority and could commit nothing.

    Each time it lets the broker in, it waits in vain for one session and fences it, and half a
    session later, the time-out of a heartbeat, lets it in again. A broker that really hangs is
    heard of in between, and so is up for longer than its session.
    """
    if not context.history.context.kraft:
        return frozenset()
    return frozenset(
        (absence.broker, absence.begin)
        for broker in {absence.broker for absence in context.absences}
        for run in _find_no_quorum_runs(context, absences_of(context, broker))
        for absence in run
    )


def _find_no_quorum_runs(
    context: DetectionContext, absences: Sequence[Absence]
) -> Iterator[Sequence[Absence]]:
    limits = context.limits["quorum-trouble"]
    if len(absences) < limits["lone"]:
        return
    session, slack = session_timeout(context) * SECOND, limits["slack"]
    run: list[Absence] = []
    for absence in absences:
        length = (absence.end or context.logs_end) - absence.noticed
        # The logs may end before it is let in again.
        fits = _is_near(length, session / 2, slack) or (not absence.end and length < session / 2)
        heard = absence.kind not in _MAY_HAVE_LIVED or not fits
        last_end = run[-1].end if run else None
        apart = last_end is not None and not _is_near(absence.noticed - last_end, session, slack)
        if heard or apart:
            if len(run) >= limits["lone"]:
                yield run
            run = []
        if not heard:
            run.append(absence)
    if len(run) >= limits["lone"]:
        yield run


@once_per_run
def _expired_sessions(context: DetectionContext) -> dict[str, list[int]]:
    """Return when each node says that its session with ZooKeeper was over."""
    moments: dict[str, list[int]] = {}
    for row in sorted(context.events("session_expired"), key=lambda row: int(row["at"])):
        moments.setdefault(row["node"], []).append(row["at"])
    return moments


def lost_its_session(context: DetectionContext, absence: Absence) -> bool:
    """Return True if a process that went on says that its session with ZooKeeper was over."""
    if absence.kind != "fenced":
        return False
    moments = _expired_sessions(context).get(broker_node(absence.broker), [])
    first = bisect_left(moments, absence.begin - TOGETHER)
    end = FOREVER if absence.end is None else absence.end + TOGETHER
    return first < len(moments) and moments[first] <= end


@once_per_run
def absences_by_zookeeper(context: DetectionContext) -> frozenset[tuple[int, int]]:
    """Find the absences of brokers whose sessions ended as those of most brokers did."""
    expired = ((row["at"], row["node"] or "") for row in context.events("session_expired"))
    common = find_common_ends(context, expired)
    return frozenset(
        (absence.broker, absence.begin)
        for absence in context.absences
        if lost_its_session(context, absence)
        and any(
            group[0][0] - TOGETHER <= absence.begin <= group[-1][0] + TOGETHER for group in common
        )
    )


def find_common_ends(
    context: DetectionContext, ends: Iterable[tuple[int, str]]
) -> list[list[tuple[int, str]]]:
    """Group ends of sessions, each with its node, that most brokers met together."""
    known = {absence.broker for absence in context.absences} | set(context.history.lanes.brokers)
    return [
        group
        for group in windows(sorted(ends), lambda end: end[0], TOGETHER)
        if (nodes := len({node for _, node in group})) > 1 and 2 * nodes > len(known)
    ]


def _is_near(length: int, wanted: float, slack: float) -> bool:
    return abs(length - wanted) <= slack * wanted


@once_per_run
def brokers_with_failed_disks(context: DetectionContext) -> frozenset[int]:
    """Return the brokers of which a log directory failed: to start them again does not help."""
    kinds = ["log_dir_failed", "broker_dirs_offline"]
    rows = context.each("events", pc.field("kind").isin(kinds), ["kind", "node", "broker"])
    found = {
        row["broker"] if row["kind"] == "broker_dirs_offline" else broker_id(row["node"])
        for row in rows
    }
    return frozenset(broker for broker in found if broker is not None)


@once_per_run
def death_reasons(context: DetectionContext) -> dict[tuple[int, int], tuple[str, Row]]:
    """Return why processes died (disk, memory, error) where they logged it, each with the line.

    The keys are broker and begin of their absences. What a broker says itself comes first; where it
    says nothing, those who ran it may (see `process_ends`).
    """
    kinds = ["process_failed", "log_dir_failed", "disk_error"]
    found: dict[tuple[int, int], tuple[str, Row]] = {}
    crashes = [absence for absence in context.absences if absence.kind == "crash"]
    for absence in context.absences:
        for end in ends_of_absence(context, absence)[:1]:
            found[absence.broker, absence.begin] = end.reason, end.row
    rows = _index_by_broker(context.events(*kinds) if crashes else ())
    for absence in crashes:
        begin, last = absence.begin - _LAST_WORDS, absence.begin + _LAST_WORDS
        # What it logs as it is started again is not why it ended.
        start = context.next_start(absence.broker, absence.begin)
        own = rows.get(absence.broker)
        near = own.around(begin, last if start is None else min(last, start)) if own else ()
        for reason, row in ((_reason(row), row) for row in near):
            known = found.get((absence.broker, absence.begin))
            rank = _REASONS.index(known[0]) if known and known[0] in _REASONS else len(_REASONS)
            if _REASONS.index(reason) < rank:
                found[absence.broker, absence.begin] = reason, row
    return found


def _index_by_broker(rows: Iterable[Row]) -> dict[int, IntervalIndex[Row]]:
    """Let the events of each broker be looked up by their times."""
    return index_by(rows, lambda row: broker_ids([row["node"]]), lambda row: (row["at"], row["at"]))


# A process that ends itself does so within that of the error. The surest reasons come first.
_LAST_WORDS = 10 * SECOND
_REASONS = ("disk", "memory", "error")


def _reason(row: Row) -> str:
    if "OutOfMemoryError" in f"{row['text']} {row['error']}":
        return "memory"
    return "error" if row["kind"] == "process_failed" and not row["log_dir"] else "disk"


@dataclass(frozen=True)
class FailedStarts:
    """The starts within one absence: how many there were, and what those logged that failed."""

    starts: int
    failed: int
    # the error that ended each of them, where one is logged
    rows: Sequence[Row]

    @property
    def reason(self) -> str:
        """What the last of them said, with the exception if it is Java's own, or nothing."""
        if not self.rows:
            return ""
        said, error = (self.rows[-1][name] or "" for name in ("detail", "error"))
        return f"{said}: {error}" if said and error.startswith("java.") else said

    @property
    def by_settings(self) -> bool:
        """Return True if all errors that are logged are about settings."""
        return bool(self.rows) and all(_is_about_settings(row) for row in self.rows)


def refused_by_old_session(context: DetectionContext, broker: int, tried: FailedStarts) -> str:
    """Say when to start a broker that ZooKeeper refused; empty if it did not.

    The session of a process that was killed lasts until its time-out, and holds the broker's id.
    """
    if not tried.rows or "NodeExists" not in f"{tried.rows[-1]['error']} {tried.reason}":
        return ""
    where = (pc.field("kind") == "zookeeper_connected") & (pc.field("node") == broker_node(broker))
    rows = context.each("events", where & pc.field("duration_ms").is_valid(), ["duration_ms"])
    longest = max((row["duration_ms"] for row in rows), default=None)
    known = f" ({longest / 1000:g} s here)" if longest else ""
    return (
        f"Start broker {broker} once the ZooKeeper session of its former process is over: its last"
        f" start was refused (NodeExists). That is zookeeper.session.timeout.ms{known} after it"
        f" ended; if it is refused again, another process uses broker.id={broker}."
    )


def _is_about_settings(row: Row) -> bool:
    # Kafka checks its settings by `require` before anything else.
    error, detail = row["error"] or "", row["detail"] or ""
    return error.endswith(".ConfigException") or (
        error.endswith(".IllegalArgumentException") and detail.startswith("requirement failed")
    )


def failed_starts(context: DetectionContext, absence: Absence) -> FailedStarts:
    """Look at the starts within an absence: each but the one that ended it came to nothing."""
    spans = context.spans_of(absence.broker, absence.begin, absence.end)
    begins = [span.begin for span in spans if span.state == "starting"]
    failed = sum(
        before.state in _STARTING and after.state not in (*_STARTING, "up", "unknown")
        for before, after in pairwise(spans)
    )
    rows: dict[int, Row] = {}
    own = _fatal_errors(context).get(absence.broker) if failed and begins else None
    end = FOREVER if absence.end is None else absence.end
    for row in own.around(min(begins), end) if own else ():
        number = sum(begin <= row["at"] for begin in begins)
        # The first error of a start that says why.
        if number not in rows or (row["detail"] and not rows[number]["detail"]):
            rows[number] = row
    return FailedStarts(len(begins), failed, [rows[number] for number in sorted(rows)])


@once_per_run
def _fatal_errors(context: DetectionContext) -> dict[int, IntervalIndex[Row]]:
    columns = [*EVIDENCE_COLUMNS, "kind", "error", "detail"]
    where = (pc.field("kind") == "process_failed") & pc.field("ts").is_valid()
    rows = context.rows("events", where, columns)
    ordered = sorted(rows, key=lambda row: (row["at"], row["file"], row["line"]))
    return _index_by_broker(ordered)


@once_per_run
def session_timeout(context: DetectionContext) -> float:
    """Return how long a broker's session lasts, in seconds."""
    named = pc.field("setting") == "broker.session.timeout.ms"
    rows = context.each("events", (pc.field("kind") == "setting_seen") & named, ["value"])
    values = {value for row in rows if (value := whole_number(row["value"]))}
    return min(values) / 1000 if values else _DEFAULT_SESSION_S


@once_per_run
def registration_times(context: DetectionContext) -> dict[int, list[int]]:
    """Return when KRaft brokers registered: a process does so once, so each is a start."""
    if not context.history.context.kraft or not context.absences:
        return {}
    found: dict[int, set[int]] = {}
    where = (pc.field("kind") == "broker_registered") & pc.field("telling").is_null()
    where &= pc.field("ts").is_valid() & pc.field("broker").is_valid()
    for row in context.each("events", where, ["node", "ts", "broker"]):
        found.setdefault(row["broker"], set()).add(row["at"])
    return {broker: sorted(times) for broker, times in found.items()}


def departure_kind(absence: Absence, starts: Sequence[int]) -> str:
    """Return how a broker left: crash, pause, isolated, unknown; `starts` are its registrations."""
    end = absence.end
    restarted = end is not None and any(absence.begin < start <= end for start in starts)
    if absence.kind == "crash" or restarted:
        return "crash"
    if absence.kind == "unknown" and not (starts and end is not None):
        return "unknown"
    return "isolated" if absence.kind == "isolated" else "pause"
