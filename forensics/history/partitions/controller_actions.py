"""What controllers did to many partitions in one stroke, and by whose will."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.lib.time_units import SECOND

ACTION_KINDS = (
    "controlled_shutdown_asked",
    "brokers_shutting_down",
    "broker_shutdown_granted",
    "leaders_changing",
    "election_started",
    "unclean_enabled",
    "brokers_changed",
    "controller_ready",
    "unclean_election_chosen",
    "topic_deleted",
    "topic_deleting",
)

# From the controller's decision until the last replica has logged it, on a busy machine.
_HEARD = 15 * SECOND
# Clocks that nothing corrects may be off by this much.
_EARLY = 2 * SECOND
_SAME_STROKE = 1 * SECOND
_ASKED = ("controlled_shutdown_asked", "brokers_shutting_down", "broker_shutdown_granted")


@dataclass(frozen=True)
class ControllerActions:
    """Moments of controllers' moves, in microseconds on the reference clock, each list in order."""

    shutdowns: Mapping[int, Sequence[int]] = field(default_factory=dict)
    preferred_elections: Sequence[int] = ()
    automatic: Sequence[int] = ()
    manual: Sequence[int] = ()
    deletions: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def from_events(cls, events: Iterable[Mapping[str, Any]]) -> ControllerActions:
        """Collect moves from events of MOVE_KINDS that are news, with corrected times in `at`."""
        shutdowns: dict[int, list[int]] = {}
        deletions: dict[str, list[int]] = {}
        automatic: list[int] = []
        manual: list[int] = []
        preferred: list[int] = []
        chosen: list[int] = []
        for event in events:
            kind, at = event["kind"], event["at"]
            if _is_shutdown(event):
                shutdowns.setdefault(event["broker"], []).append(at)
            elif kind in ("topic_deleted", "topic_deleting") and event["topic"]:
                deletions.setdefault(event["topic"], []).append(at)
            elif kind == "unclean_election_chosen":
                # With the partition's name it is the controller that looks for any leader by
                # itself; with the topic's id it is any unclean election.
                (automatic if event["topic"] else chosen).append(at)
            elif kind == "election_started" and event["detail"] == "PREFERRED":
                # A regular look that moved nobody says so.
                preferred += [at] if event["count"] != 0 else []
            elif _is_order(event):
                manual.append(at)
            elif _may_elect(event):
                automatic.append(at)
        automatic.sort()
        # A choice that came with no move of the controller's own was asked for.
        asked = [at for at in chosen if not _any(automatic, at - _SAME_STROKE, at + _SAME_STROKE)]
        return cls(
            {broker: sorted(moments) for broker, moments in shutdowns.items()},
            sorted(preferred),
            automatic,
            sorted([*manual, *asked]),
            {topic: sorted(moments) for topic, moments in deletions.items()},
        )

    def is_shutting_down(self, broker: int | None, at: int | None, early: int = _EARLY) -> bool:
        """Whether a broker had asked, shortly before, to be let go."""
        if broker is None or at is None:
            return False
        return _any(self.shutdowns.get(broker, ()), at - _HEARD, at + early)

    def is_preferred_election(self, at: int | None) -> bool:
        """Whether the controller gave partitions back to their first replicas about then."""
        return at is not None and _any(self.preferred_elections, at - _HEARD, at + _EARLY)

    def unclean_trigger(self, at: int | None) -> str | None:
        """Say whether an unclean election at a moment was the controller's or somebody's will."""
        if at is None:
            return None
        if _any(self.manual, at - _HEARD, at + _EARLY):
            # Both near: the moments do not tell which of them it was.
            near = _any(self.automatic, at - _HEARD, at + _EARLY)
            return None if near else "manual"
        return "automatic" if _any(self.automatic, at - _HEARD, at + _EARLY) else None


def _is_shutdown(event: Mapping[str, Any]) -> bool:
    named = event["broker"] is not None
    entering = event["kind"] == "leaders_changing" and event["detail"] == "enterControlledShutdown"
    return named and (entering or event["kind"] in _ASKED)


def _is_order(event: Mapping[str, Any]) -> bool:
    """Under ZooKeeper an unclean election is only started so when an admin asks for it."""
    if event["kind"] != "election_started" or event["detail"] != "UNCLEAN":
        return False
    return event["count"] is None


def _may_elect(event: Mapping[str, Any]) -> bool:
    kind = event["kind"]
    if kind == "election_started":
        return event["detail"] == "UNCLEAN" and bool(event["count"])
    if kind == "brokers_changed":
        return bool(event["added"] or event["bounced"])
    return kind in ("leaders_changing", "unclean_enabled", "controller_ready")


def _any(moments: Sequence[int], begin: int, end: int) -> bool:
    at = bisect_left(moments, begin)
    return at < len(moments) and moments[at] <= end
