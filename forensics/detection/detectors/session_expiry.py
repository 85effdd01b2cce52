"""Sessions of brokers with ZooKeeper that end, and registrations that are refused.

What became of a broker's registration: expired, renewed, refused, or held by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.event_sessions import Outage, Recoveries, find_outages
from forensics.detection.shared.process_stalls import find_stalls
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

_KINDS = (
    "session_expired", "broker_registered", "broker_reregistered", "brokers_joined",
    "registration_failed", "process_starting",
)  # fmt: skip
# Why a registration is refused if there is one of that id already.
_TAKEN = ("NODEEXISTS", "DUPLICATE_BROKER_REGISTRATION")
# ZooKeeper's client and Kafka each say that a session is over.
_ECHO = 5 * SECOND


@dataclass(frozen=True)
class Expiry:
    """One session that ended, and when its broker was registered again, if it was."""

    at: int
    rows: Sequence[Row]
    healed: int | None
    # what the broker was told as it tried, or when it was started again
    refused: Sequence[Row]
    restarted: int | None


@dataclass(frozen=True)
class Refusal:
    """Registrations that were refused one after the other, up to one that was not."""

    rows: Sequence[Row]
    owners: Sequence[str]
    healed: int | None
    # how many processes tried, one after the other
    lives: int

    @property
    def seconds(self) -> float:
        """From the first to the last of them."""
        micros: int = self.rows[-1]["at"] - self.rows[0]["at"]
        return round(micros / SECOND, 3)

    @property
    def widest(self) -> float:
        """The longest time between two of them."""
        pairs = zip(self.rows, self.rows[1:], strict=False)
        return max(((b["at"] - a["at"]) / SECOND for a, b in pairs), default=0.0)


@dataclass(frozen=True)
class Sessions:
    """All of one node."""

    node: str
    broker: int | None
    expiries: Sequence[Expiry]
    refusals: Sequence[Refusal]


def sessions(context: DetectionContext) -> Iterator[Sessions]:
    """Follow the registrations of each broker whose log is here."""
    columns = ["kind", "ts", "node", "broker", "error", "detail", "file", "line", "text", "rule"]
    rows = context.rows(
        "events", pc.field("kind").isin(_KINDS) & pc.field("ts").is_valid(), columns
    )
    rows.sort(key=lambda one: (one["at"], one["node"] or "", one["line"]))
    roles = {one["node"]: one["role"] for one in context.visibility.files}
    joined = [one for one in rows if one["kind"] == "brokers_joined"]
    for node in sorted({one["node"] for one in rows if roles.get(one["node"]) == "broker"}):
        mine = [one for one in rows if one["node"] == node and one["kind"] != "brokers_joined"]
        broker = _number(node)
        others = [one["at"] for one in joined if one["broker"] == broker]
        own = [one["at"] for one in mine if one["kind"].startswith("broker_")
               and one["broker"] in (None, broker)]  # fmt: skip
        good = sorted([*others, *own])
        starts = [one["at"] for one in mine if one["kind"] == "process_starting"]
        refused = [one for one in mine if one["kind"] == "registration_failed"
                   and one["error"] in _TAKEN and one["broker"] == broker]  # fmt: skip
        gone = [one for one in mine if one["kind"] == "session_expired"]
        yield Sessions(
            node, broker, list(_expiries(gone, refused, good, starts)),
            list(_refusals(refused, good, starts)),
        )  # fmt: skip


def _expiries(
    gone: Sequence[Row], refused: Sequence[Row], good: Sequence[int], starts: Sequence[int]
) -> Iterator[Expiry]:
    groups: list[list[Row]] = []
    for row in gone:
        if groups and row["at"] - groups[-1][-1]["at"] <= _ECHO:
            groups[-1].append(row)
        else:
            groups.append([row])
    for at, group in enumerate(groups):
        begin = group[0]["at"]
        after = groups[at + 1][0]["at"] if at + 1 < len(groups) else None
        healed = _first(good, begin, after)
        until = healed if healed is not None else after
        told = [one for one in refused if begin <= one["at"] and (not until or one["at"] <= until)]
        yield Expiry(begin, group, healed, told, _first(starts, begin, after))


def _refusals(
    refused: Sequence[Row], good: Sequence[int], starts: Sequence[int]
) -> Iterator[Refusal]:
    run: list[Row] = []
    for row in [*refused, None]:
        ended = row is None or (run and _first(good, run[-1]["at"], row["at"]) is not None)
        if ended and run:
            owners = sorted({one["detail"] for one in run if one["detail"]})
            until = None if row is None else row["at"]
            between = sum(run[0]["at"] < at <= run[-1]["at"] for at in starts)
            lives = _told_starts(between, len(run))
            yield Refusal(run, owners, _first(good, run[-1]["at"], until), lives)
            run = []
        if row is not None:
            run.append(row)


def _told_starts(between: int, refused: int) -> int:
    """Count processes: one start says so in several lines, and each is refused at least once."""
    return min(refused, between + 1)


def _first(moments: Sequence[int], after: int, until: int | None) -> int | None:
    return next((at for at in moments if at >= after and (until is None or at < until)), None)


def _number(node: str | None) -> int | None:
    digits = (node or "").rpartition("-")[2]
    return int(digits) if digits.isdigit() else None


NAME = "session-expiry"
NEEDS = BROKERS
_LOST = ("zookeeper_unreachable", "zookeeper_disconnected")
# A node that wakes tells of its session within that.
_WAKING = 5 * SECOND


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each way in which a broker lost its place in the cluster."""
    every = list(sessions(context))
    for one in every:
        yield from _expired(context, one)
        yield from _refused(context, one)
    limits = context.limits[NAME]
    lost = [
        one
        for one in find_outages(
            context, _LOST, lambda: _connected(context), limits["gap"], per_node=True
        )
        if one.seconds >= limits["unreachable"]
    ]
    stops = [(row["node"], row["at"]) for row in context.events("process_stopping")] if lost else []
    for spell in lost:
        yield _unreachable(context, spell, [at for node, at in stops if node in spell.nodes])


def _connected(context: DetectionContext) -> Recoveries:
    """Give when each node had its connection to ZooKeeper back."""
    where = (pc.field("kind") == "zookeeper_connected") & pc.field("ts").is_valid()
    found: dict[str, set[int]] = {}
    for row in context.each("events", where, ["node", "ts"]):
        found.setdefault(row["node"] or "", set()).add(row["at"])
    return {node: sorted(moments) for node, moments in found.items()}


def _expired(context: DetectionContext, node: Sessions) -> Iterator[Finding]:
    """Tell of each session that was not renewed for itself, and of the others together."""
    healed = []
    for one in node.expiries:
        if _is_zombie(context, node, one):
            yield _zombie(context, node, one)
        else:
            healed.append(one)
    if healed:
        yield _renewed(context, node, healed)


def _is_zombie(context: DetectionContext, node: Sessions, one: Expiry) -> bool:
    """Whether a process goes on to work whose place in the cluster is not its own any more."""
    if one.healed is not None:
        return False
    end = one.restarted if one.restarted is not None else _last(context, node.node)
    return bool(one.refused) or end - one.at >= context.limits[NAME]["renewed"] * SECOND


def _last(context: DetectionContext, node: str) -> int:
    return context.history.clocks.correct(node, context.last_logged.get(node, 0))


def _zombie(context: DetectionContext, node: Sessions, one: Expiry) -> Finding:
    end = max(one.at, one.restarted if one.restarted is not None else _last(context, node.node))
    lasted = (end - one.at) / SECOND
    evidence = [*one.rows, *one.refused]
    why = "was refused" if one.refused else "did not register"
    title = f"{node.node} lost its session and {why} again: for {lasted:.0f} s it worked outside"
    words = _Words(
        "zombie",
        context.limits[NAME]["zombie"],
        f"{title} the cluster",
        _ZOMBIE + (" The old registration was still there." if one.refused else ""),
        [
            f"{_registration(context, node.broker)}   # whose is it?",
            f"Restart {quote(node.node)} if that is missing or not its own.",
        ],
        f"no registration within {context.limits[NAME]['renewed']} s of the session's end",
        "A registration whose line is missing here would mean that it healed.",
    )
    return _finding(
        context, node, evidence, words, (one.at, end), expiries=1, lasted_s=round(lasted, 1)
    )


def _renewed(context: DetectionContext, node: Sessions, healed: Sequence[Expiry]) -> Finding:
    limits = context.limits[NAME]
    often = len(healed) >= limits["expiries"]
    hung = often and _stood_still(context, node.node, healed)
    level = "hung" if hung else "often" if often else "once"
    ends = [one.healed if one.healed is not None else one.at for one in healed]
    longest = max((end - one.at) / SECOND for one, end in zip(healed, ends, strict=True))
    times = "once" if len(healed) == 1 else f"{len(healed)} times"
    words = _Words(
        "expired",
        limits[level],
        f"{node.node} lost its session with ZooKeeper {times}",
        _EXPIRED + (_HUNG if hung else ""),
        [
            f"grep -E 'Pause|Safepoint' kafkaServer-gc.log   # on {quote(node.node)}: did it stop?",
            "If it did not, look at ZooKeeper's own log and disk (fsync) at these times.",
        ],
        f"{len(healed)} sessions ended; {limits['expiries']} are more than chance",
        "The length of the session is ZooKeeper's to grant: a short one ends more easily.",
    )
    rows = [row for one in healed for row in one.rows]
    span, many = (healed[0].at, max(ends)), len(healed)
    return _finding(context, node, rows, words, span, expiries=many, lasted_s=round(longest, 1))


def _stood_still(context: DetectionContext, node: str, expiries: Sequence[Expiry]) -> bool:
    found = [
        one
        for one in find_stalls(context, context.limits["long-pause"]["least"])
        if one.node == node
    ]
    return all(
        any(stall.begin <= one.at <= stall.end + _WAKING for stall in found) for one in expiries
    )


def _refused(context: DetectionContext, node: Sessions) -> Iterator[Finding]:
    """Tell old sessions of the same broker from another process with its id."""
    told = [row for expiry in node.expiries for row in expiry.refused]
    own = [one for one in node.refusals if not any(row in told for row in one.rows)]
    twins = [one for one in own if _is_twin(context, one)]
    for one in twins:
        yield _refusal(context, node, [one], twin=True)
    # A KRaft broker waits and tries again, which is no trouble; a ZooKeeper broker dies of it.
    fast = [one for one in own if one not in twins and (one.lives > 1 or _kills(one))]
    if fast:
        yield _refusal(context, node, fast, twin=False)


def _is_twin(context: DetectionContext, one: Refusal) -> bool:
    """Whether an id stayed taken for longer than a session of a dead process could be."""
    old = context.limits[NAME]["old"]
    same = len(one.owners) == 1 or (not one.owners and one.widest < old)
    return one.seconds >= old and same


def _kills(one: Refusal) -> bool:
    return any(row["error"] == "NODEEXISTS" for row in one.rows)


def _refusal(
    context: DetectionContext, node: Sessions, runs: Sequence[Refusal], *, twin: bool
) -> Finding:
    limits = context.limits[NAME]
    rows = [row for one in runs for row in one.rows]
    lives = max(one.lives if one.lives > 1 else len(one.rows) for one in runs)
    level = "twin" if twin else "loop" if lives >= limits["refused"] else "fast"
    longest = max(one.seconds for one in runs)
    end = runs[-1].healed if runs[-1].healed is not None else rows[-1]["at"]
    times = "once" if len(rows) == 1 else f"{len(rows)} times"
    title = (
        f"Broker id {node.broker} is held by somebody else: {node.node} was refused {times}"
        if twin
        else f"{node.node} was started before its old session was over, and refused {times}"
    )
    other = "Stop one of the two, and give it an id of its own."
    wait = "Let whoever restarts it wait for longer than a session. Nothing else is wrong."
    return _finding(
        context,
        node,
        rows,
        _Words(
            "twin" if twin else "too_fast",
            limits[level],
            title,
            _TWIN if twin else _FAST,
            [
                f"{_registration(context, node.broker)}   # which host holds the id?",
                other if twin else wait,
            ],
            f"refused {times}, for up to {longest:.0f} s at a time; an old session is over by"
            f" {limits['old']} s",
            "A session longer than that would live on for as long."
            if twin
            else "If it goes on, two processes have the same id.",
        ),
        (rows[0]["at"], end),
        refused=len(rows),
        lasted_s=round(longest, 1),
    )


def _registration(context: DetectionContext, broker: int | None) -> str:
    if context.history.context.kraft:
        return context.commands.quorum()
    return f"zookeeper-shell.sh ZOOKEEPER:2181 get /brokers/ids/{broker}"


def _unreachable(context: DetectionContext, spell: Outage, stops: Sequence[int]) -> Finding:
    """Tell a ZooKeeper that is gone from one that was just stopped first."""
    limits = context.limits[NAME]
    [node] = spell.nodes
    near = limits["gap"] * SECOND
    stopping = any(spell.begin - near <= at <= spell.end for at in stops)
    refused = spell.kinds["zookeeper_unreachable"] > 0
    what = "could not reach ZooKeeper" if refused else "got no answer from ZooKeeper"
    length = f"{spell.seconds:.1f} s"
    order = f"ZooKeeper was stopped before {node}, which tried to reach it for {length}"
    words = _Words(
        "stopped_first" if stopping else "unreachable",
        limits["stopping" if stopping else "down"],
        order if stopping else f"{node} {what} for {length}",
        _ORDER if stopping else _DOWN if refused else _MUTE,
        ["Stop brokers first, ZooKeeper last; start them the other way round."]
        if stopping
        else ["echo ruok | nc ZOOKEEPER 2181   # and the log of each ZooKeeper server"],
        f"no connection for {length}; {limits['unreachable']} s are longer than a session",
        "One of several ZooKeeper servers may be down while the session lives on another.",
    )
    whom, span = Sessions(node, None, (), ()), (spell.begin, spell.end)
    attempts, lasted = sum(spell.kinds.values()), round(spell.seconds, 1)
    return _finding(context, whom, spell.first, words, span, attempts=attempts, lasted_s=lasted)


@dataclass(frozen=True)
class _Words:
    """What a finding says, beside what it was measured by."""

    kind: str
    severity: str
    title: str
    explanation: str
    actions: Sequence[str]
    why: str
    doubt: str


def _finding(
    context: DetectionContext,
    node: Sessions,
    evidence: Sequence[Row],
    words: _Words,
    span: tuple[int, int],
    **measures: object,
) -> Finding:
    confidence, reason = context.confidence(*span, evidence, stated=words.kind != "zombie")
    return Finding(
        detector=NAME,
        severity=words.severity,
        confidence=confidence,
        title=words.title,
        begin=span[0],
        end=span[1],
        evidence=evidence,
        brokers=[] if node.broker is None else [node.broker],
        measures={"kind": words.kind, "node": node.node} | measures,
        explanation=words.explanation,
        actions=words.actions,
        why=words.why,
        reason=reason,
        doubts=[words.doubt],
    )


_ZOMBIE = (
    "Its session with ZooKeeper was over, so that the cluster gave its partitions to others; the "
    "process itself still took itself for their leader. What it says of ISRs from then on is void, "
    "and clients that ask it get stale answers. Only a restart has ever helped (KAFKA-7165)."
)
_EXPIRED = (
    "ZooKeeper heard nothing of the broker for a whole session and took its registration away; it "
    "registered anew."
)
_HUNG = " The process had stood still each time: see its pauses."
_TWIN = (
    "The id stayed taken for longer than any session of a process before: another process lives "
    "that was configured with the same id, or the broker was copied with its data."
)
_FAST = (
    "A broker that dies leaves its registration behind until its session is over. Who restarts it"
    " before that is refused, and mostly dies of it; the next start succeeds."
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
