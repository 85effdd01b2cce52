"""Sessions of brokers with ZooKeeper that end, and registrations that are refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row
from forensics.detection.kafka_cli import GREP_PAUSES, quote
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.absence_causes import TOGETHER, find_common_ends
from forensics.detection.shared.event_sessions import Outage, Recoveries, find_outages
from forensics.detection.shared.process_stalls import find_stalls
from forensics.lib.node_ids import broker_id
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import join_names, seconds_text
from forensics.lib.time_units import MILLISECOND, SECOND
from forensics.run_output.findings import Finding

NAME = "session-expiry"
NEEDS = BROKERS
_LOST = ("zookeeper_unreachable", "zookeeper_disconnected")
# A node that wakes logs the end of its session within that time.
_WAKING = 5 * SECOND
_KINDS = (
    "session_expired", "broker_registered", "broker_reregistered", "brokers_joined",
    "registration_failed", "process_starting",
)  # fmt: skip
# Errors by which a registration is refused if there is one of that id already.
_TAKEN = ("NODEEXISTS", "DUPLICATE_BROKER_REGISTRATION")
_LIFE = ("process_starting", "process_started", "process_stopping", "process_stopped")
# ZooKeeper's client and Kafka each log that a session is over.
_ECHO = 5 * SECOND


@dataclass(frozen=True)
class _Expiry:
    """One session that ended, and when its broker was registered again, if it was."""

    at: int
    rows: Sequence[Row]
    registered_at: int | None
    # registrations that were refused meanwhile, and when the broker was started again
    refused: Sequence[Row]
    restarted_at: int | None


@dataclass(frozen=True)
class _Refusal:
    """Registrations that were refused one after the other, up to one that was not."""

    rows: Sequence[Row]
    owners: Sequence[str]
    registered_at: int | None
    # how many processes tried, one after the other
    processes: int

    @property
    def seconds(self) -> float:
        """From the first to the last of them."""
        duration: int = self.rows[-1]["at"] - self.rows[0]["at"]
        return round(duration / SECOND, 3)

    @property
    def longest_gap(self) -> float:
        """The longest time between two of them."""
        gaps = ((after["at"] - before["at"]) / SECOND for before, after in pairwise(self.rows))
        return max(gaps, default=0.0)


@dataclass(frozen=True)
class _Registrations:
    """What became of one broker's registrations."""

    node: str
    broker: int | None
    expiries: Sequence[_Expiry]
    refusals: Sequence[_Refusal]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each way in which a broker lost its place in the cluster."""
    limits = context.limits[NAME]
    every = list(_read_registrations(context))
    common = _find_common(context, every)
    losses = find_outages(
        context, _LOST, lambda: _read_connections(context), limits["gap"], per_node=True
    )
    ended: list[Outage] = []
    for group in common:
        silences = _find_silences(losses, group, limits["gap"])
        ended += silences
        yield _common_finding(context, group, silences)
    told = {(own.node, expiry.at) for group in common for own, expiry in group}
    for registrations in every:
        yield from _find_expired(context, registrations, told)
        yield from _find_refused(context, registrations)
    outages = [one for one in losses if one.seconds >= limits["brief"] and one not in ended]
    lives = context.events(*_LIFE) if outages else []
    groups: dict[bool, list[Outage]] = {False: [], True: []}
    for outage in outages:
        own = [row for row in lives if row["node"] in outage.nodes]
        groups[_is_stopping(outage, own, limits["gap"])].append(outage)
    for outage in groups[True]:
        if outage.seconds >= limits["unreachable"]:
            yield _unreachable_finding(context, [outage], "stopping")
    for together in sessions(groups[False], lambda one: one.begin, TOGETHER, lambda one: one.end):
        long = [outage for outage in together if outage.seconds >= limits["unreachable"]]
        if long:
            yield _unreachable_finding(context, long, "down")
        elif _are_most(context, together):
            yield _unreachable_finding(context, together, "back_soon")


def _are_most(context: DetectionContext, outages: Sequence[Outage]) -> bool:
    """Return True if most brokers lost ZooKeeper at once, and found it again."""
    brokers = {file["node"] for file in context.visibility.files if file["role"] == "broker"}
    back = {node for one in outages if one.recovered_at is not None for node in one.nodes}
    return len(back) > 1 and 2 * len(back & brokers) > len(brokers)


def _read_connections(context: DetectionContext) -> Recoveries:
    """Return when each node had its connection to ZooKeeper back."""
    where = (pc.field("kind") == "zookeeper_connected") & pc.field("ts").is_valid()
    moments: dict[str, set[int]] = defaultdict(set)
    for row in context.each("events", where, ["node", "ts", "file", "line"]):
        moments[row["node"] or ""].add(row["at"])
    return {node: sorted(own) for node, own in moments.items()}


def _read_registrations(context: DetectionContext) -> Iterator[_Registrations]:
    """Follow the registrations of each broker whose log is here."""
    columns = [*EVIDENCE_COLUMNS, "kind", "broker", "error", "detail"]
    where = pc.field("kind").isin(_KINDS) & pc.field("ts").is_valid()
    rows = context.rows("events", where, columns)
    rows.sort(key=lambda row: (row["at"], row["node"] or "", row["line"]))
    roles = {file["node"]: file["role"] for file in context.visibility.files}
    joined = [row for row in rows if row["kind"] == "brokers_joined"]
    for node in sorted({row["node"] for row in rows if roles.get(row["node"]) == "broker"}):
        own = [row for row in rows if row["node"] == node and row["kind"] != "brokers_joined"]
        broker = broker_id(node)
        registered = [row["at"] for row in joined if row["broker"] == broker]
        registered += [
            row["at"]
            for row in own
            if row["kind"].startswith("broker_") and row["broker"] in (None, broker)
        ]
        registered.sort()
        starts = [row["at"] for row in own if row["kind"] == "process_starting"]
        refused = [
            row
            for row in own
            if row["kind"] == "registration_failed"
            and row["error"] in _TAKEN
            and row["broker"] == broker
        ]
        expired = [row for row in own if row["kind"] == "session_expired"]
        expiries = list(_find_expiries(expired, refused, registered, starts))
        refusals = list(_find_refusals(refused, registered, starts))
        yield _Registrations(node, broker, expiries, refusals)


def _find_expiries(
    expired: Sequence[Row], refused: Sequence[Row], registered: Sequence[int], starts: Sequence[int]
) -> Iterator[_Expiry]:
    groups = list(sessions(expired, lambda row: int(row["at"]), _ECHO))
    for group, following in zip_longest(groups, groups[1:]):
        begin, after = group[0]["at"], following[0]["at"] if following else None
        registered_at = _first_between(registered, begin, after)
        until = registered_at if registered_at is not None else after
        meanwhile = [
            row for row in refused if begin <= row["at"] and (not until or row["at"] <= until)
        ]
        restarted_at = _first_between(starts, begin, after)
        yield _Expiry(begin, group, registered_at, meanwhile, restarted_at)


def _find_refusals(
    refused: Sequence[Row], registered: Sequence[int], starts: Sequence[int]
) -> Iterator[_Refusal]:
    run: list[Row] = []
    for row, following in zip_longest(refused, refused[1:]):
        run.append(row)
        until = None if following is None else following["at"]
        registered_at = _first_between(registered, row["at"], until)
        if following is None or registered_at is not None:
            owners = sorted({each["detail"] for each in run if each["detail"]})
            # A start is logged in several lines, and each process is refused at least once.
            restarts = sum(run[0]["at"] < at <= run[-1]["at"] for at in starts)
            yield _Refusal(run, owners, registered_at, min(len(run), restarts + 1))
            run = []


def _first_between(moments: Sequence[int], begin: int, end: int | None) -> int | None:
    return next((at for at in moments if at >= begin and (end is None or at < end)), None)


def _find_common(
    context: DetectionContext, every: Sequence[_Registrations]
) -> list[list[tuple[_Registrations, _Expiry]]]:
    """Group the sessions of most brokers that ended together: ZooKeeper, not the brokers."""
    lost = {
        (expiry.at, own.node): (own, expiry)
        for own in every
        for expiry in own.expiries
        if expiry.registered_at is not None and not _is_reported(context, own, expiry)
    }
    return [[lost[end] for end in group] for group in find_common_ends(context, lost)]


def _find_silences(
    losses: Sequence[Outage], group: Sequence[tuple[_Registrations, _Expiry]], gap: float
) -> list[Outage]:
    """Return the times without ZooKeeper in which sessions ended."""
    ends = {own.node: expiry.at for own, expiry in group}
    return [
        outage
        for outage in losses
        for node in outage.nodes
        if outage.begin <= ends.get(node, 0) <= (outage.recovered_at or outage.end + gap * SECOND)
    ]


def _last_answer(silence: Outage) -> int:
    """Return when a broker last heard of ZooKeeper before a time without it, as it says itself."""
    first = silence.first[0]
    return int(first["at"]) - (first["duration_ms"] or 0) * MILLISECOND


def _common_finding(
    context: DetectionContext,
    group: Sequence[tuple[_Registrations, _Expiry]],
    silences: Sequence[Outage],
) -> Finding:
    limits = context.limits[NAME]
    nodes = sorted({own.node for own, _ in group})
    ended = group[0][1].at
    end = max([ended, *(expiry.registered_at or ended for _, expiry in group)])
    # A broker that froze itself writes nothing before it wakes.
    early = [one for one in silences if one.first[0]["at"] < ended - _WAKING]
    lived = sorted({node for one in early for node in one.nodes})
    # From then on none of them heard of it; a session ends for the broker once it is told so.
    begin = min(ended, max(map(_last_answer, early), default=ended))
    waited = (ended - begin) / SECOND
    long = f" after {seconds_text(waited)} without an answer" if waited >= 1 else ""
    return context.finding(
        NAME,
        limits["common"],
        f"{len(nodes)} brokers lost their sessions with ZooKeeper together{long}",
        begin,
        end,
        [
            *(row for one in silences for row in one.first[:_FIRST_LINES]),
            *(row for _, expiry in group for row in expiry.rows),
        ],
        brokers=sorted(own.broker for own, _ in group if own.broker is not None),
        measures=_measures("common", ", ".join(nodes), (end - begin) / SECOND, expiries=len(group)),
        explanation=_COMMON + (_WROTE_ON.format(names=join_names(lived)) if lived else ""),
        actions=[_LOOK_AT_ZOOKEEPER, "Do not restart brokers for it: they have registered again."],
        why=f"{len(nodes)} brokers within {TOGETHER // SECOND} s",
        doubts=["A pause of the host that all of these brokers share looks the same."]
        * (lived != nodes),
    )


_FIRST_LINES = 2
_COMMON = (
    "Sessions of most brokers that end in the same moment end with ZooKeeper, or with the way to "
    "it: it froze, had no leader, or could not be reached. Each broker had to register anew; until "
    "then the controller took it for gone."
)
_WROTE_ON = (
    " Meanwhile {names} went on, and logged that no answer came: ZooKeeper or the way to it "
    "failed, not the brokers."
)
_LOOK_AT_ZOOKEEPER = (
    "Look at the ZooKeeper servers at that moment: their logs, disks (fsync warnings), garbage "
    "collection and elections."
)


def _find_expired(
    context: DetectionContext, own: _Registrations, told: Collection[tuple[str, int]]
) -> Iterator[Finding]:
    """Yield one finding for each session that was not renewed, and one for all others."""
    renewed = []
    for expiry in own.expiries:
        if _is_zombie(context, own, expiry):
            yield _zombie_finding(context, own, expiry)
        elif (own.node, expiry.at) not in told and not _is_reported(context, own, expiry):
            renewed.append(expiry)
    if renewed:
        yield _renewed_finding(context, own, renewed)


def _is_reported(context: DetectionContext, own: _Registrations, expiry: _Expiry) -> bool:
    """Return True if the session ended in an absence that a finding of its own is about."""
    return any(
        absence.broker == own.broker
        and absence.kind in ("pause", "isolated")
        and absence.begin <= expiry.at <= (absence.end or expiry.at) + _WAKING
        for absence in context.absences
    )


def _is_zombie(context: DetectionContext, own: _Registrations, expiry: _Expiry) -> bool:
    """Return True if a process goes on to work that has lost its place in the cluster."""
    if expiry.registered_at is not None:
        return False
    end = _end_of_process(context, own, expiry)
    return bool(expiry.refused) or end - expiry.at >= context.limits[NAME]["renewed"] * SECOND


def _end_of_process(context: DetectionContext, own: _Registrations, expiry: _Expiry) -> int:
    """Return when the process was started again, or else the last time in its log."""
    if expiry.restarted_at is not None:
        return expiry.restarted_at
    return context.history.clocks.correct(own.node, context.last_logged.get(own.node, 0))


def _zombie_finding(context: DetectionContext, own: _Registrations, expiry: _Expiry) -> Finding:
    limits, node = context.limits[NAME], own.node
    end = max(expiry.at, _end_of_process(context, own, expiry))
    lasted = (end - expiry.at) / SECOND
    what = "was refused" if expiry.refused else "did not register"
    return context.finding(
        NAME,
        limits["zombie"],
        f"{node} lost its session and {what} again: for {lasted:.0f} s it worked outside"
        " the cluster",
        expiry.at,
        end,
        [*expiry.rows, *expiry.refused],
        stated=False,
        brokers=_ids(own.broker),
        measures=_measures("zombie", node, lasted, expiries=1),
        explanation=_ZOMBIE + (" The old registration was still there." if expiry.refused else ""),
        actions=[
            f"{context.commands.registration(own.broker)}   # whose is it?",
            f"Restart {quote(node)} if that is missing or not its own.",
        ],
        why=f"no registration within {limits['renewed']} s of the session's end",
        doubts=["A registration whose line is missing here would mean that it healed."],
    )


def _renewed_finding(
    context: DetectionContext, own: _Registrations, expiries: Sequence[_Expiry]
) -> Finding:
    limits, node = context.limits[NAME], own.node
    is_often = len(expiries) >= limits["expiries"]
    is_hung = is_often and _stood_still(context, node, expiries)
    ends = [one.at if one.registered_at is None else one.registered_at for one in expiries]
    longest = max((end - one.at) / SECOND for one, end in zip(expiries, ends, strict=True))
    times = "once" if len(expiries) == 1 else f"{len(expiries)} times"
    return context.finding(
        NAME,
        limits["hung" if is_hung else "often" if is_often else "once"],
        f"{node} lost its session with ZooKeeper {times}",
        expiries[0].at,
        max(ends),
        [row for expiry in expiries for row in expiry.rows],
        brokers=_ids(own.broker),
        measures=_measures("expired", node, longest, expiries=len(expiries)),
        explanation=_EXPIRED + (_HUNG if is_hung else ""),
        actions=[
            f"{GREP_PAUSES}   # on {quote(node)}: did it stop?",
            "If it did not, look at ZooKeeper's own log and disk (fsync) at these times.",
        ],
        why=f"{len(expiries)} sessions ended; {limits['expiries']} are more than chance",
        doubts=["The length of the session is ZooKeeper's to grant: a short one ends more easily."],
    )


def _stood_still(context: DetectionContext, node: str, expiries: Sequence[_Expiry]) -> bool:
    stalls = [
        stall
        for stall in find_stalls(context, context.limits["long-pause"]["least"])
        if stall.node == node
    ]
    return all(
        any(stall.begin <= expiry.at <= stall.end + _WAKING for stall in stalls)
        for expiry in expiries
    )


def _find_refused(context: DetectionContext, own: _Registrations) -> Iterator[Finding]:
    """Yield findings on old sessions of the same broker, and on another process with its id."""
    reported = [row for expiry in own.expiries for row in expiry.refused]
    refusals = [
        refusal for refusal in own.refusals if not any(row in reported for row in refusal.rows)
    ]
    twins = [refusal for refusal in refusals if _is_twin(context, refusal)]
    for refusal in twins:
        yield _refused_finding(context, own, [refusal], is_twin=True)
    # A KRaft broker waits and tries again, which is no trouble; a ZooKeeper broker dies of it.
    fatal = [
        refusal
        for refusal in refusals
        if refusal not in twins
        and (refusal.processes > 1 or any(row["error"] == "NODEEXISTS" for row in refusal.rows))
    ]
    if fatal:
        yield _refused_finding(context, own, fatal, is_twin=False)


def _is_twin(context: DetectionContext, refusal: _Refusal) -> bool:
    """Return True if an id stayed taken for longer than a session of a dead process could be."""
    old = context.limits[NAME]["old"]
    has_one_owner = len(refusal.owners) == 1 or (not refusal.owners and refusal.longest_gap < old)
    return refusal.seconds >= old and has_one_owner


def _refused_finding(
    context: DetectionContext, own: _Registrations, refusals: Sequence[_Refusal], *, is_twin: bool
) -> Finding:
    limits = context.limits[NAME]
    rows = [row for refusal in refusals for row in refusal.rows]
    processes = max(one.processes if one.processes > 1 else len(one.rows) for one in refusals)
    longest = max(refusal.seconds for refusal in refusals)
    end = refusals[-1].registered_at
    times = "once" if len(rows) == 1 else f"{len(rows)} times"
    action = (
        "Stop one of the two, and give it an id of its own."
        if is_twin
        else "Wait for longer than a session before it is started again; find out what ended it."
    )
    return context.finding(
        NAME,
        limits["twin" if is_twin else "loop" if processes >= limits["refused"] else "fast"],
        f"Broker id {own.broker} is held by another process: {own.node} was refused {times}"
        if is_twin
        else f"{own.node} was started before its old session was over, and refused {times}",
        rows[0]["at"],
        rows[-1]["at"] if end is None else end,
        rows,
        brokers=_ids(own.broker),
        measures=_measures("twin" if is_twin else "too_fast", own.node, longest, refused=len(rows)),
        explanation=_TWIN if is_twin else _FAST,
        actions=[
            f"{context.commands.registration(own.broker)}   # which host holds the id?",
            action,
        ],
        why=f"refused {times}, for up to {longest:.0f} s at a time; limit: an old session is over"
        f" by {limits['old']} s",
        doubts=[
            "A session timeout longer than that would explain it, too."
            if is_twin
            else "If it goes on, two processes have the same id."
        ],
    )


def _is_stopping(outage: Outage, lives: Sequence[Row], gap: float) -> bool:
    """Return True if the broker was being stopped as it lost ZooKeeper."""
    stops = [row["at"] for row in lives if row["kind"] == "process_stopping"]
    before = [row["kind"] for row in lives if row["at"] <= outage.begin]
    # Who began to stop before, and did not end since, stops still.
    return before[-1:] == ["process_stopping"] or any(
        outage.begin - gap * SECOND <= at <= outage.end for at in stops
    )


def _unreachable_finding(
    context: DetectionContext, outages: Sequence[Outage], limit: str
) -> Finding:
    """Build the finding on a ZooKeeper that is gone, was so for a while, or was stopped first."""
    limits = context.limits[NAME]
    nodes = sorted({node for outage in outages for node in outage.nodes})
    longest = max(outage.seconds for outage in outages)
    is_refused = any(outage.kinds["zookeeper_unreachable"] > 0 for outage in outages)
    what = "could not reach ZooKeeper" if is_refused else "got no answer from ZooKeeper"
    attempts = sum(sum(outage.kinds.values()) for outage in outages)
    is_stopping = limit == "stopping"
    kind = "stopped_first" if is_stopping else "unreachable"
    names, length = join_names(nodes), f"{longest:.1f} s"
    most = "up to " if len(outages) > 1 else ""
    return context.finding(
        NAME,
        limits[limit],
        f"ZooKeeper was stopped before {names}, which tried to reach it for {length}"
        if is_stopping
        else f"{names} {what} for {most}{length}",
        min(outage.begin for outage in outages),
        max(outage.end for outage in outages),
        [line for outage in outages for line in outage.first],
        measures=_measures(kind, ", ".join(nodes), longest, attempts=attempts),
        explanation=_ORDER if is_stopping else _DOWN if is_refused else _MUTE,
        actions=["Stop brokers first, ZooKeeper last; start them the other way round."]
        if is_stopping
        else _ask_zookeeper(context),
        why=f"no connection for {length}, "
        + ("and by most brokers at once" if limit == "back_soon" else "longer than a session"),
        doubts=["One of several ZooKeeper servers may be down while the session lives on another."],
    )


def _ask_zookeeper(context: DetectionContext) -> list[str]:
    """Ask each server that brokers name; of the four-letter words only srvr is allowed unasked."""
    servers = context.commands.places.zookeeper.partition("/")[0].split(",")[:_MAX_SERVERS]
    pairs = [server.rpartition(":")[::2] for server in servers]
    return [
        f"echo srvr | nc {host} {port}   # {'and this one?' if at else _DOES_IT_ANSWER}"
        for at, (host, port) in enumerate(pairs)
    ]


_MAX_SERVERS = 5
_DOES_IT_ANSWER = "does it answer? Then its log, its disk (fsync warnings), its garbage collection"


def _ids(broker: int | None) -> list[int]:
    return [] if broker is None else [broker]


def _measures(kind: str, node: str, lasted: float, **counts: int) -> dict[str, Any]:
    return {"kind": kind, "node": node, **counts, "lasted_s": round(lasted, 1)}


_ZOMBIE = (
    "Its session with ZooKeeper was over, so that the cluster gave its partitions to others; the "
    "process itself still took itself for their leader. What it says of ISRs from then on is void, "
    "and clients that ask it get stale answers. Only a restart has ever helped (KAFKA-7165)."
)
_EXPIRED = (
    "ZooKeeper heard nothing of the broker for a whole session and took its registration away; it "
    "registered anew."
)
_HUNG = " The process had been frozen each time: see its pauses."
_TWIN = (
    "The id stayed taken for longer than any session of a process before: another process lives "
    "that was configured with the same id, or the broker was copied with its data."
)
_FAST = (
    "A broker that crashes leaves its registration behind until its session is over. If it is"
    " started before that, its registration is refused, and mostly the process ends."
)
_ORDER = (
    "The broker was being stopped, and cannot leave in good order without ZooKeeper: it tries for "
    "as long as it is let."
)
_DOWN = (
    "No connection to ZooKeeper could be made. The broker serves its partitions, but nothing can be"
    " elected, and as ZooKeeper comes back its session may be over."
)
_MUTE = (
    "ZooKeeper took connections and did not answer: it is overloaded, its disk is slow, or it has "
    "no quorum itself. It is not down."
)
