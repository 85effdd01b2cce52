"""Consumer groups that rebalance again and again; members that join one after another do not.

Why groups rebalance: what coordinators and members say of it, put into a few classes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import (
    EventSession,
    find_sessions,
)
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import Finding

# Parts of what a coordinator or a member gives as reason; the first that fits counts.
_REASONS = (
    ("poll timeout", "poll_expired"),
    ("heartbeat expiration", "heartbeat_expired"),
    ("session expired", "heartbeat_expired"),
    ("has failed", "heartbeat_expired"),
    ("storing group assignment", "storing_failed"),
    ("pending sync", "join_late"),
    ("haven't joined", "join_late"),
    ("instance id None", "members_join"),
    ("instance id null", "members_join"),
    ("static member", "members_rejoin"),
    ("adding new member", "members_join"),
    ("leavegroup", "members_leave"),
    ("re-joining", "members_rejoin"),
    ("updating metadata", "members_rejoin"),
    ("metadata", "metadata_changed"),
    ("subscri", "metadata_changed"),
)
# Each of these kinds of events speaks for a class.
KINDS: Mapping[str, str] = {
    "group_poll_expired": "poll_expired",
    "group_member_failed": "heartbeat_expired",
    "group_session_expired": "heartbeat_expired",
    "group_member_fenced": "heartbeat_expired",
    "group_members_late": "join_late",
    "group_write_failed": "storing_failed",
    "coordinator_load_failed": "coordinator_moved",
    "group_coordinator_lost": "coordinator_lost",
    "group_member_left": "",
    "group_member_joining": "members_join",
    "group_stable": "",
    "commit_failed": "",
    "partitions_lost": "",
}
# What members say themselves.
OF_CLIENTS = ("group_poll_expired", "group_session_expired", "partitions_lost", "commit_failed")
# So many different values a burst tells apart.
_MANY = 1000
# What no orderly restart of members brings about, the likeliest root first.
BAD = ("storing_failed", "coordinator_moved", "poll_expired", "heartbeat_expired", "join_late")
# Once may be chance.
_TWICE = 2
# Who asks for a new id ever again, and is never heard of under it, is not merely late.
_CROWD = 3


def reason_of(detail: str | None) -> str:
    """Give the class of a reason.

    >>> reason_of("removing member a-1 on heartbeat expiration"), reason_of(None)
    ('heartbeat_expired', 'other')
    """
    low = (detail or "").lower()
    return next((name for part, name in _REASONS if part.lower() in low), "other")


def plainly(row: Row) -> bool:
    """Keep of a coordinator's reason only its class: each names another member."""
    row["detail"] = reason_of(row["detail"])
    return True


@dataclass
class Storm:
    """The rebalances of one group, and what else was said of it meanwhile."""

    burst: EventSession
    group: str
    # by coordinators, or only by the members themselves
    told: bool
    reasons: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    members: int = 1
    moves: int = 0
    clients: set[str] = field(default_factory=set)
    # how often each kind of event spoke for a class
    _spoken: Counter[tuple[str, str]] = field(default_factory=Counter)
    # and the first lines of each
    _lines: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @property
    def lines(self) -> list[Row]:
        """Give some lines that tell why."""
        return [row for told in self._lines.values() for row in told]

    @property
    def rebalances(self) -> int:
        """Count generations: one rebalance may be begun for several reasons."""
        generations = len(self.burst.values("generation"))
        return generations if 0 < generations < _MANY else self.burst.count

    @property
    def failures(self) -> int:
        """Count members that fell out, by each of which the group is rebalanced."""
        return max(
            self.reasons[name] for name in ("poll_expired", "heartbeat_expired", "join_late")
        )

    def take(self, row: Row) -> None:
        """Take something that was said while the group was rebalancing."""
        kind = row["kind"]
        self.said[kind] += 1
        if kind == "group_stable":
            self.members = max(self.members, row["count"] or 1)
            return
        name = KINDS[kind] or (reason_of(row["detail"]) if kind == "group_member_left" else "")
        if kind == "group_member_left" and name == "other":
            name = "members_leave"
        if name:
            self._spoken[name, kind] += 1
        if name in BAD:
            told = self._lines.setdefault((name, kind), [])
            told[:] = sorted([*told, row], key=by_time)[:_TWICE]
        if kind in OF_CLIENTS and row["node"]:
            self.clients.add(row["node"])

    def settle(self) -> None:
        """Count reasons: members tell of what the coordinator saw too, so the largest counts."""
        self.reasons.update(self.burst.value_counts.get("detail", Counter()))
        for (name, _), count in self._spoken.items():
            self.reasons[name] = max(self.reasons[name], count)
        if self.moves >= _TWICE:
            self.reasons["coordinator_moved"] += self.moves
        if not self.told:
            # Members that lose their coordinator join again; why it moved is for others to tell.
            self.reasons["coordinator_moved"] += self.reasons["coordinator_lost"]
            del self.reasons["other"]
        del self.reasons["coordinator_lost"]


def cause_of(reasons: Mapping[str, Any]) -> str:
    """Name what is likeliest behind it."""
    bad = {name: reasons.get(name, 0) for name in BAD}
    roots: Iterable[str] = BAD[:2]
    root = next((name for name in roots if bad[name] >= _TWICE), None)
    if root is not None:
        return root
    worst = max(BAD[2:], key=lambda name: bad[name])
    crowd = worst == "join_late" and reasons.get("members_join", 0) >= _CROWD * bad[worst]
    if bad[worst] >= _TWICE and not crowd:
        return worst
    plain = {name: count for name, count in reasons.items() if name not in BAD and name != "other"}
    most = max(sorted(plain), key=lambda name: plain[name], default="unknown")
    return "members_come_and_go" if most in ("members_join", "members_leave") else most


NAME = "rebalance-storm"
NEEDS = LogRequirements(("broker", "client"))
_SERVERS = ("group_rebalancing", "group_epoch_bumped")
_MEMBERS = ("group_joined",)
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "group", "detail", "count", "topic", "partition")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each group that does not come to rest."""
    if not context.visibility.has_kinds(*_SERVERS, *_MEMBERS):
        return
    storms = list(_storms(context))
    _listen(context, storms)
    _moves(context, storms)
    for one in storms:
        one.settle()
        if _is_storm(context, one):
            yield _finding(context, one)


def _storms(context: DetectionContext) -> Iterator[Storm]:
    """Give every group's run of rebalances, as its coordinator tells it, or else its members."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin([*_SERVERS, *_MEMBERS]) & pc.field("group").is_valid()
    gather = ["generation", "detail", "topic", "partition", "node"]
    every = find_sessions(
        context, where, ["group", "kind"], limits["gap"], gather, limits["least"], plainly
    )
    told = {one.subject[0] for one in every if one.subject[1] in _SERVERS}
    for one in every:
        group, kind = one.subject
        if kind in _SERVERS:
            yield Storm(one, group, told=True)
        elif group not in told:
            yield Storm(one, group, told=False, members=len(one.values("node")))


def _listen(context: DetectionContext, storms: Sequence[Storm]) -> None:
    """Let each storm hear what else was said of its group meanwhile."""
    mine: dict[str, list[Storm]] = defaultdict(list)
    for one in storms:
        mine[one.group].append(one)
    if not mine or not context.visibility.has_kinds(*KINDS):
        return
    where = pc.field("kind").isin(list(KINDS)) & pc.field("group").isin(sorted(mine))
    slack = round(context.limits[NAME]["near"] * SECOND)
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        runs = mine[row["group"]]
        at = bisect_right([one.burst.begin for one in runs], row["at"] + slack) - 1
        if at >= 0 and row["at"] <= runs[at].burst.end + slack:
            runs[at].take(row)


def _moves(context: DetectionContext, storms: Sequence[Storm]) -> None:
    """Count how often the partition that holds a group got another leader meanwhile."""
    spans = [(one.burst.begin, one.burst.end, _home(one.burst), one) for one in storms]
    homes = {home for *_, home, _ in spans if home is not None}
    if not homes:
        return
    moment = pc.field("started_at")
    begin, end = min(one[0] for one in spans), max(one[1] for one in spans)
    where = pc.field("topic").isin(sorted({topic for topic, _ in homes}))
    where &= (moment >= to_arrow_timestamp(begin)) & (moment <= to_arrow_timestamp(end))
    columns = ["topic", "partition", "leader", "previous_leader", "started_at"]
    for row in context.each("leadership", where, columns):
        if row["leader"] == row["previous_leader"] or row["previous_leader"] is None:
            continue
        for first, last, home, one in spans:
            if home == (row["topic"], row["partition"]) and first <= row["started_at"] <= last:
                one.moves += 1


def _home(burst: EventSession) -> tuple[str, int] | None:
    """Name the partition of the offsets topic that holds the group."""
    topics, partitions = burst.values("topic"), burst.values("partition")
    return (topics[0], partitions[0]) if len(topics) == len(partitions) == 1 else None


def _is_storm(context: DetectionContext, one: Storm) -> bool:
    """Restarted members cost two rebalances each, and fall out at most once."""
    limits = context.limits[NAME]
    if one.rebalances < limits["least"]:
        return False
    again = one.rebalances >= limits["each"] * one.members
    return bool(again or one.failures > max(one.members, limits["failures"]))


def _severity(context: DetectionContext, one: Storm, cause: str) -> str:
    limits = context.limits[NAME]
    if cause in BAD[:2]:
        return str(limits["coordinator"])
    if cause == "unknown":
        return str(limits["unknown"])
    minutes = max(one.burst.seconds / 60, 1)
    if cause == "members_come_and_go" and one.rebalances < limits["rate"] * minutes:
        return str(limits["slow"])
    lasting = one.burst.seconds >= limits["lasting"]
    return str(limits["long"] if lasting and cause in BAD else limits["short"])


def _finding(context: DetectionContext, one: Storm) -> Finding:
    burst, limits = one.burst, context.limits[NAME]
    cause = cause_of(one.reasons)
    evidence = [*burst.first, *one.lines]
    return context.finding(
        NAME,
        _severity(context, one, cause),
        f"Group {one.group} rebalanced {one.rebalances} times in {burst.seconds:g} s: "
        f"{_CAUSES[cause][0]}",
        burst.begin,
        burst.end,
        evidence,
        stated=one.told,
        clients=sorted(one.clients),
        measures={
            "group": one.group,
            "rebalances": one.rebalances,
            "reasons": dict(sorted(one.reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
            "cause": cause,
            "members": one.members,
            "commits_failed": one.said["commit_failed"],
            "partitions_lost": one.said["partitions_lost"],
            "coordinator_moves": one.moves,
        },
        explanation=f"{_CAUSES[cause][1]} {_COST}",
        actions=[
            context.commands.group_members(one.group),
            _CAUSES[cause][2].format(quote(one.group)),
        ],
        why=f"{one.rebalances} rebalances of at most {one.members} members, no two more than "
        f"{limits['gap']} s apart: {limits['each']} for each member are a storm, a restart takes "
        f"two; {one.failures} times a member fell out (more than one each, and more than "
        f"{limits['failures']}, are one too)",
        doubts=_doubts(one),
    )


_COST = (
    "While a group rebalances its members read little or nothing, and what they had not committed "
    "is read again."
)
_CAUSES = {
    "storing_failed": (
        "its coordinator could not store the group",
        (
            "The coordinator cannot write the group's state to __consumer_offsets, so every "
            "rebalance fails at its end: the cause is with the brokers, not with the members."
        ),
        (
            "Look at the ISR of __consumer_offsets and at its min.insync.replicas. Do not restart "
            "the members of {}."
        ),
    ),
    "coordinator_moved": (
        "its coordinator moved",
        (
            "The partition that holds the group got another leader, and each new coordinator has "
            "to load the group before it goes on."
        ),
        "Look at the brokers that lead __consumer_offsets. Do not restart the members of {}.",
    ),
    "poll_expired": (
        "members take too long between polls",
        (
            "Members do not call poll() within max.poll.interval.ms: they leave, come back with a "
            "new id, and get the same work again."
        ),
        (
            "For the consumers of {}, lower max.poll.records or raise max.poll.interval.ms above "
            "the longest time that one batch takes."
        ),
    ),
    "heartbeat_expired": (
        "members are not heard of in time",
        (
            "The coordinator hears nothing of members for as long as session.timeout.ms: they "
            "died, hung, or cannot reach it."
        ),
        "Look at the hosts of the members of {} for kills and pauses at the times of the evidence.",
    ),
    "join_late": (
        "members do not join again in time",
        (
            "Members did not come back to a rebalance within its time-out (max.poll.interval.ms "
            "for Java clients), and it went on without them."
        ),
        "Look what the members of {} do between polls.",
    ),
    "members_come_and_go": (
        "members come and go",
        (
            "Members join and leave again, each time with a new id: an application that crashes "
            "and is started again, or makes a consumer for every request."
        ),
        (
            "Look for restarts of the applications of {}; keep a consumer open instead of making a "
            "new one each time."
        ),
    ),
    "members_rejoin": (
        "members join again by themselves",
        (
            "Members that are in the group ask to join again, as cooperative assignment makes "
            "them, or since their subscription changes."
        ),
        "Look whether all members of {} have the same assignors and subscriptions.",
    ),
    "metadata_changed": (
        "topics or subscriptions changed",
        "The partitions of the topics that the group reads, or its subscriptions, changed.",
        "Look which topics that match the subscription of {} come and go.",
    ),
    "unknown": (
        "no line tells why",
        "These logs do not tell why.",
        "Collect server.log of the broker that coordinates {}.",
    ),
}


def _doubts(one: Storm) -> list[str]:
    found = []
    if not one.told:
        found.append("Only members tell of it: what the coordinator saw is not in the archive.")
    if one.members > 1 and one.failures <= one.members:
        found.append("A deploy that replaces every member several times looks the same.")
    return found
