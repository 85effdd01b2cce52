"""Why groups rebalance: what coordinators and members say of it, put into a few classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forensics.incidents.bursts import Burst
from forensics.incidents.case import Row, by_time

__all__ = ["BAD", "KINDS", "OF_CLIENTS", "Storm", "cause_of", "plainly", "reason_of"]

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

    burst: Burst
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
        self.reasons.update(self.burst.seen.get("detail", Counter()))
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
