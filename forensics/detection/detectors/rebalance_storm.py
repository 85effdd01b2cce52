"""Consumer groups that rebalance again and again; members that join one after another do not."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time, in_topics
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.client_settings import ClientStart, read_client_starts
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.process_stalls import MEMBER_UUID
from forensics.lib.node_ids import whole_client
from forensics.lib.text_format import join_names, times_text
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import Finding

NAME = "rebalance-storm"
NEEDS = LogRequirements(("broker", "client"))
_SERVERS = ("group_rebalancing", "group_epoch_bumped")
_MEMBERS = ("group_joined",)
_COLUMNS = (*EVIDENCE_COLUMNS, "kind", "group", "client", "detail", "count", "topic", "partition")
# Parts of the reason that a coordinator or a member gives; the first that fits counts.
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
# Kinds of events that stand for a reason, or say more about a rebalance.
_REASON_OF_KIND: Mapping[str, str] = {
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
_POLL_EXPIRED = "group_poll_expired"
# Kinds that members log themselves.
_CLIENT_KINDS = ("group_poll_expired", "group_session_expired", "partitions_lost", "commit_failed")
# A session distinguishes so many values of a column.
_MAX_VALUES = 1000
# Reasons that no orderly restart of members causes, the likeliest root first.
_BAD = ("storing_failed", "coordinator_moved", "poll_expired", "heartbeat_expired", "join_late")
# Once may be chance.
_TWICE = 2
# This many times more new member ids than late members: they are crash-looping, not late.
_CROWD = 3


@dataclass
class _Storm:
    """The rebalances of one group, and what else was logged about it meanwhile."""

    session: EventSession
    group: str
    # whether coordinators log them, or only the members
    by_coordinator: bool
    reasons: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    members: int = 1
    moves: int = 0
    clients: set[str] = field(default_factory=set)
    # how often each kind of event spoke for a class
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # and the first lines of each
    _lines: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @property
    def lines(self) -> list[Row]:
        """Return some lines that give a reason."""
        return [row for rows in self._lines.values() for row in rows]

    @property
    def rebalances(self) -> int:
        """Count generations: one rebalance may be begun for several reasons."""
        generations = len(self.session.values("generation"))
        return generations if 0 < generations < _MAX_VALUES else self.session.count

    @property
    def failures(self) -> int:
        """Count members that fell out, by each of which the group is rebalanced."""
        return max(
            self.reasons[reason] for reason in ("poll_expired", "heartbeat_expired", "join_late")
        )

    def add(self, row: Row) -> None:
        """Add an event of the group while it was rebalancing."""
        kind = row["kind"]
        self.events[kind] += 1
        if kind == "group_stable":
            self.members = max(self.members, row["count"] or 1)
            return
        reason = _REASON_OF_KIND[kind] or (
            _classify_reason(row["detail"]) if kind == "group_member_left" else ""
        )
        if kind == "group_member_left" and reason == "other":
            reason = "members_leave"
        if reason:
            self._counts[reason, kind] += 1
        if reason in _BAD:
            rows = self._lines.setdefault((reason, kind), [])
            rows[:] = sorted([*rows, row], key=by_time)[:_TWICE]
        if kind in _CLIENT_KINDS and row["node"]:
            self.clients.add(row["node"])

    def settle(self) -> None:
        """Count the reasons; members also log what the coordinator saw, so the most count."""
        self.reasons.update(self.session.value_counts.get("detail", Counter()))
        for (reason, _), count in self._counts.items():
            self.reasons[reason] = max(self.reasons[reason], count)
        if self.moves >= _TWICE:
            self.reasons["coordinator_moved"] += self.moves
        if not self.by_coordinator:
            # Members that lose their coordinator join again; other detectors report why it moved.
            self.reasons["coordinator_moved"] += self.reasons["coordinator_lost"]
            del self.reasons["other"]
        del self.reasons["coordinator_lost"]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each group that does not come to rest."""
    if not context.visibility.has_kinds(*_SERVERS, *_MEMBERS):
        return
    storms = list(_storms(context))
    _add_other_events(context, storms)
    _count_coordinator_moves(context, storms)
    for storm in storms:
        storm.settle()
        if _is_storm(context, storm):
            yield _finding(context, storm)


def _storms(context: DetectionContext) -> Iterator[_Storm]:
    """Yield every group's runs of rebalances, as its coordinator logs them, or else its members."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin([*_SERVERS, *_MEMBERS]) & pc.field("group").is_valid()
    columns = ["generation", "detail", "topic", "partition", "node"]
    sessions = find_sessions(
        context, where, ["group", "kind"], limits["gap"], columns, limits["least"], _simplify_reason
    )
    coordinated = {session.subject[0] for session in sessions if session.subject[1] in _SERVERS}
    for session in sessions:
        group, kind = session.subject
        if kind in _SERVERS:
            yield _Storm(session, group, by_coordinator=True)
        elif group not in coordinated:
            yield _Storm(session, group, by_coordinator=False, members=len(session.values("node")))


def _simplify_reason(row: Row) -> bool:
    """Reduce a coordinator's reason to its class: each names another member."""
    row["detail"] = _classify_reason(row["detail"])
    return True


def _classify_reason(detail: str | None) -> str:
    """Classify the reason that a log gives.

    >>> _classify_reason("removing member a-1 on heartbeat expiration"), _classify_reason(None)
    ('heartbeat_expired', 'other')
    """
    low = (detail or "").lower()
    return next((name for part, name in _REASONS if part.lower() in low), "other")


def _add_other_events(context: DetectionContext, storms: Sequence[_Storm]) -> None:
    """Add to each storm what else was logged about its group meanwhile."""
    by_group: dict[str, list[_Storm]] = defaultdict(list)
    for storm in storms:
        by_group[storm.group].append(storm)
    if not by_group or not context.visibility.has_kinds(*_REASON_OF_KIND):
        return
    kind, group = pc.field("kind"), pc.field("group")
    where = kind.isin(list(_REASON_OF_KIND)) & group.isin(sorted(by_group))
    # librdkafka does not name the group that it leaves.
    groups = _groups_of_clients(context)
    where |= (kind == _POLL_EXPIRED) & group.is_null() & pc.field("client").is_valid()
    slack = round(context.limits[NAME]["near"] * SECOND)
    for row in context.each("events", where & pc.field("ts").is_valid(), _COLUMNS):
        own = by_group.get(row["group"] or groups.get(whole_client(row["client"]), ""), [])
        index = bisect_right([storm.session.begin for storm in own], row["at"] + slack) - 1
        if index >= 0 and row["at"] <= own[index].session.end + slack:
            own[index].add(row)


def _groups_of_clients(context: DetectionContext) -> dict[str, str]:
    """Return the group of each client whose id members of one group alone have."""
    if not context.visibility.has_kinds(_POLL_EXPIRED):
        return {}
    kinds = ["group_member_left", "group_member_joining", "group_member_failed"]
    where = pc.field("kind").isin(kinds) & pc.field("member").is_valid()
    found: dict[str, set[str]] = defaultdict(set)
    for row in context.each("events", where & pc.field("group").is_valid(), ["member", "group"]):
        found[MEMBER_UUID.sub("", row["member"])].add(row["group"])
    return {client: min(groups) for client, groups in found.items() if len(groups) == 1}


def _count_coordinator_moves(context: DetectionContext, storms: Sequence[_Storm]) -> None:
    """Count how often the partition that holds a group got another leader meanwhile."""
    homes = [(home, storm) for storm in storms if (home := _offsets_partition(storm.session))]
    if not homes:
        return
    moment = pc.field("started_at")
    begin = to_arrow_timestamp(min(storm.session.begin for storm in storms))
    end = to_arrow_timestamp(max(storm.session.end for storm in storms))
    where = in_topics(topic for (topic, _), _ in homes) & (moment >= begin) & (moment <= end)
    columns = ["topic", "partition", "leader", "previous_leader", "started_at"]
    for row in context.each("leadership", where, columns):
        if row["previous_leader"] not in (None, row["leader"]):
            partition, at = (row["topic"], row["partition"]), row["started_at"]
            for home, storm in homes:
                storm.moves += home == partition and storm.session.begin <= at <= storm.session.end


def _offsets_partition(session: EventSession) -> tuple[str, int] | None:
    """Name the partition of the offsets topic that holds the group."""
    topics, partitions = session.values("topic"), session.values("partition")
    return (topics[0], partitions[0]) if len(topics) == len(partitions) == 1 else None


def _is_storm(context: DetectionContext, storm: _Storm) -> bool:
    """Restarted members cost two rebalances each, and fall out at most once."""
    limits = context.limits[NAME]
    if storm.rebalances < limits["least"]:
        return False
    is_repeated = storm.rebalances >= limits["each"] * storm.members
    return bool(is_repeated or storm.failures > max(storm.members, limits["failures"]))


def _find_cause(reasons: Mapping[str, Any]) -> str:
    """Return the likeliest cause."""
    bad = {name: reasons.get(name, 0) for name in _BAD}
    roots: Iterable[str] = _BAD[:2]
    root = next((name for name in roots if bad[name] >= _TWICE), None)
    if root is not None:
        return root
    worst = max(_BAD[2:], key=lambda name: bad[name])
    crowd = worst == "join_late" and reasons.get("members_join", 0) >= _CROWD * bad[worst]
    if bad[worst] >= _TWICE and not crowd:
        return worst
    plain = {name: count for name, count in reasons.items() if name not in _BAD and name != "other"}
    most = max(sorted(plain), key=lambda name: plain[name], default="unknown")
    return "members_come_and_go" if most in ("members_join", "members_leave") else most


def _severity(context: DetectionContext, storm: _Storm, cause: str) -> str:
    limits = context.limits[NAME]
    if cause in _BAD[:2]:
        return str(limits["coordinator"])
    if cause == "unknown":
        return str(limits["unknown"])
    minutes = max(storm.session.seconds / 60, 1)
    if cause == "members_come_and_go" and storm.rebalances < limits["rate"] * minutes:
        return str(limits["slow"])
    is_long = storm.session.seconds >= limits["lasting"]
    return str(limits["long"] if is_long and cause in _BAD else limits["short"])


def _finding(context: DetectionContext, storm: _Storm) -> Finding:
    session, limits = storm.session, context.limits[NAME]
    cause = _find_cause(storm.reasons)
    members = _read_members(context, storm.group)
    named = {name: sorted({one.values[name] for one in members if name in one.values})
             for name in _MEMBER_SETTINGS}  # fmt: skip
    shown = [one.lines[name] for one in members[:_TWICE] for name in named if name in one.lines]
    again = _started_again(context, storm, members)
    shown += [one.line for starts in again.values() for one in starts[:_TWICE]]
    evidence = [*session.first, *storm.lines, *shown]
    return context.finding(
        NAME,
        _severity(context, storm, cause),
        f"Group {storm.group} rebalanced {storm.rebalances} times in {session.seconds:g} s: "
        f"{_CAUSES[cause][0]}{_say_started(again)}",
        session.begin,
        session.end,
        evidence,
        stated=storm.by_coordinator,
        # All members are held up by it, also those that log nothing of it.
        clients=sorted(storm.clients | {one.node for one in members if one.node}),
        measures={
            "group": storm.group,
            "rebalances": storm.rebalances,
            "reasons": dict(sorted(storm.reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
            "cause": cause,
            "members": storm.members,
            "commits_failed": storm.events["commit_failed"],
            "partitions_lost": storm.events["partitions_lost"],
            "coordinator_moves": storm.moves,
            "settings": {name: values for name, values in named.items() if values},
        }
        | ({"started": {name: len(own) for name, own in again.items()}} if again else {}),
        explanation=f"{_CAUSES[cause][1]} {_COST}",
        actions=[
            *([_WHY_AGAIN.format(join_names([quote(name) for name in again]))] if again else []),
            context.commands.group_members(storm.group),
            _CAUSES[cause][2].format(quote(storm.group)),
            *_membership_advice(context, cause, named),
        ],
        why=f"{storm.rebalances} rebalances of at most {storm.members} members, no two more than "
        f"{limits['gap']} s apart: {limits['each']} for each member are a storm, a restart takes "
        f"two; {storm.failures} times a member fell out (more than one each, and more than "
        f"{limits['failures']}, are one too)",
        doubts=_doubts(storm),
    )


def _read_members(context: DetectionContext, group: str) -> list[ClientStart]:
    """Return the starts of consumers that named this group in their settings."""
    starts = read_client_starts(context).values()
    return [one for every in starts for one in every if one.values.get("group.id") == group]


def _started_again(
    context: DetectionContext, storm: _Storm, members: Sequence[ClientStart]
) -> dict[str, list[ClientStart]]:
    """Return the nodes that started a consumer of one id over and over, most often first.

    Several consumers of one process have ids of their own; a deploy starts each twice at most.
    """
    limits = context.limits[NAME]
    slack = round(limits["near"] * SECOND)
    starts: dict[tuple[str, str], list[ClientStart]] = defaultdict(list)
    for one in members:
        is_meanwhile = storm.session.begin - slack <= one.line["at"] <= storm.session.end + slack
        if one.node and one.has_id and is_meanwhile:
            starts[one.node, one.client].append(one)
    ranked = sorted(starts.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    found: dict[str, list[ClientStart]] = {}
    for (node, _), own in ranked:
        if len(own) >= limits["failures"]:
            found.setdefault(node, sorted(own, key=lambda one: by_time(one.line)))
    return found


def _say_started(again: Mapping[str, Sequence[ClientStart]]) -> str:
    said = [f"{name} was started {times_text(len(starts))}" for name, starts in again.items()]
    return f"; {join_names(said, 2)}" if said else ""


def _membership_advice(
    context: DetectionContext, cause: str, named: Mapping[str, Sequence[str]]
) -> list[str]:
    """Advise what makes rebalances fewer or cheaper, where members do not do it yet."""
    if cause not in _BY_MEMBERS:
        return []
    advice = []
    in_force = [f"{name}={' or '.join(values)}" for name, values in named.items() if values]
    if in_force:
        advice.append(f"As logged by its members: {', '.join(in_force)}.")
    assignors, version = named[_ASSIGNOR], context.commands.version
    if version >= _COOPERATIVE and not any("CooperativeSticky" in one for one in assignors):
        advice.append(_USE_COOPERATIVE)
    if version >= _STATIC and cause != "poll_expired" and set(named[_INSTANCE]) <= {"null", ""}:
        advice.append(_USE_STATIC)
    return advice


def _doubts(storm: _Storm) -> list[str]:
    doubts = []
    if not storm.by_coordinator:
        doubts.append(
            "Only logs of members show it: what the coordinator saw is not in the archive."
        )
    if storm.members > 1 and storm.failures <= storm.members:
        doubts.append("A deploy that replaces every member several times looks the same.")
    return doubts


_BY_MEMBERS = ("poll_expired", "heartbeat_expired", "join_late", "members_come_and_go")
_ASSIGNOR, _INSTANCE = "partition.assignment.strategy", "group.instance.id"
_MEMBER_SETTINGS = (
    "max.poll.interval.ms", "max.poll.records", "session.timeout.ms", "heartbeat.interval.ms",
    _ASSIGNOR, _INSTANCE,
)  # fmt: skip
# KIP-429 and KIP-345
_COOPERATIVE, _STATIC = (2, 4), (2, 3)
_USE_COOPERATIVE = (
    "With partition.assignment.strategy=CooperativeStickyAssignor only the partitions that move "
    "stop at a rebalance; change it in two rolling restarts, the first with both assignors."
)
_USE_STATIC = (
    "With a group.instance.id for each instance a member that is back within session.timeout.ms "
    "causes no rebalance."
)
_WHY_AGAIN = (
    "Find out why {} ends and is started again: its last lines before each start, its exit code, "
    "the kernel's log of its host."
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
